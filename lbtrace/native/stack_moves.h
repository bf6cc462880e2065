/*
 * What in x86-64 code looks as if it took up another stack otherwise than by a plain load of rsp
 * (code_scan.h): whether it does, machine/x86_64/stack_switches.py finds out.
 */
#ifndef LBT_STACK_MOVES_H
#define LBT_STACK_MOVES_H

#include <stddef.h>
#include <stdint.h>

/*
 * The next place from one on where bytes stand that set rsp by lea, add, sub, cmov, xadd, pop or a
 * short xchg, or load it from memory with an index or a segment, or that set rbp, which then
 * becomes rsp; and from where code leads straight on to a return or an indirect jump or call. The
 * size of the code where there is none.
 */
size_t lbt_next_stack_move(const unsigned char *code, size_t size, size_t from);

/*
 * Passes over instructions from one place on; where it comes to: to another one, or beyond, or
 * before it to an instruction that is left to a full decoder.
 */
size_t lbt_pass_over(const unsigned char *code, size_t size, size_t from, size_t to);

/*
 * Passes over instructions from one place on, up to one that jumps or has the address of a target
 * between two others, or that is left to a full decoder: then the target is the size.
 */
size_t lbt_next_leading(const unsigned char *code, size_t size, size_t from, size_t low, size_t high,
			size_t *target);

#endif
