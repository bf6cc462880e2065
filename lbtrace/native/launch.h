/* Executes a program, without a call of a function that a probe may be at. */
#ifndef LBT_LAUNCH_H
#define LBT_LAUNCH_H

#define LBT_HELD 1 /* the byte that says that the process waits */

/* Write LBT_HELD to `report`, wait for a byte from `gate`, and execute the first of `paths` that can
 * be, as execvp(3) does; one without a format is given to the shell script[0], as script[1]. Where
 * none can be, write the error number to `report`. Does not return.
 *
 * It makes its system calls itself: those of the C library, and Python with it, would be shown as
 * calls of the program if their functions are traced. */
void lbt_launch(int gate, int report, char *const *paths, char *const *words, char **script,
		char *const *variables);

#endif
