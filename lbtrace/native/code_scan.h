/*
 * What is looked for in all code of a file, byte by byte. Whether what is found is code at all,
 * the caller has to find out.
 */
#ifndef LBT_CODE_SCAN_H
#define LBT_CODE_SCAN_H

#include <stddef.h>
#include <stdint.h>

/*
 * Each gives the next place in code from one on, and its size where there is none.
 *
 * A call of x86-64 (E8 and a relative address) in code at an address that leads to one of the
 * targets, which are in order:
 */
size_t lbt_next_call(const unsigned char *code, size_t size, size_t from, uint64_t address,
		     const uint64_t *targets, size_t count);

/* The same as calls of arm64: bl. */
size_t lbt_next_link(const unsigned char *code, size_t size, size_t from, uint64_t address,
		     const uint64_t *targets, size_t count);

/*
 * Whatever looks like a direct jump of x86-64 (JMP, Jcc, LOOP, JRCXZ) in code at an address, and
 * leads to low or beyond, but not to high.
 */
size_t lbt_next_jump(const unsigned char *code, size_t size, size_t from, uint64_t address,
		     uint64_t low, uint64_t high);

#endif
