/* What this process may do, and what a command that it starts may not. */
#ifndef LBT_PRIVILEGES_H
#define LBT_PRIVILEGES_H

/*
 * Drops the capabilities that a program executed now would inherit (capabilities(7), "Ambient"):
 * lbtrace may have been given them in this way; the traced command must not get them.
 */
int lbt_drop_ambient(void);

#endif
