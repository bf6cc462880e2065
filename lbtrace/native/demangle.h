/* LLVM's demangler of C++ names, with bounds. */
#ifndef LBT_DEMANGLE_H
#define LBT_DEMANGLE_H

#include <stddef.h>

/* Returns 1 and the demangled name in ``into``, 0 where it is none; -1 where it goes beyond a
 * bound. */
int lbt_demangle(const char *name, char *into, size_t size);

#endif
