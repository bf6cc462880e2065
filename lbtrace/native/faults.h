/* Mappings of files that may be cut short. */
#ifndef LBT_FAULTS_H
#define LBT_FAULTS_H

#include <stddef.h>

/* Guards a mapping: pages that are gone read as zeros. The result is for lbt_forget. */
int lbt_guard(const void *start, size_t size);

/* Ends the guard of a mapping that is to be unmapped; -1 stands for none. */
void lbt_forget(int place);

#endif
