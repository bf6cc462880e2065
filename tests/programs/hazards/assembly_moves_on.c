/* assembly.c with another switch: the stack pointer is moved on after it was set. */
#define MOVES_ON
#include "assembly.c"
