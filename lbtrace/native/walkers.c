/* Functions that follow frame pointers: see walkers.h. */
#define _GNU_SOURCE /* memmem */
#include "walkers.h"

#include <string.h>

#include "x86_64_stack.h"

enum { NEAR = 24, BETWEEN = 64, ALIGNED = 16, PUSH_RBP = 0x55, RET = 0xc3, REX_B = 0x41 };

static const unsigned char FRAMED[] = {0x48, 0x89, 0xe5}; /* mov rbp, rsp */

static const unsigned char ENDBR[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* Whether a function begins there, as compilers align it. */
static int is_aligned(const unsigned char *code, size_t at)
{
	return at % ALIGNED == 0 ||
	       (at >= sizeof(ENDBR) && !memcmp(code + at - sizeof(ENDBR), ENDBR, sizeof(ENDBR)));
}

/* Whether a function may begin so far before its frame: a byte of another instruction may look so. */
static int may_begin(const unsigned char *code, size_t at, size_t end)
{
	return end - at <= NEAR || is_aligned(code, at) || (at && code[at - 1] == RET);
}

/* Whether code from push rbp on leads straight to mov rbp, rsp, with the stack as it was there. What
 * cannot be read (AVX) moves no stack; it counts where a function is aligned. */
static int begins(const unsigned char *code, size_t size, size_t start, size_t end)
{
	size_t at = start;
	struct stack stack = {0, LBT_NO_DEPTH};
	struct instruction i;
	int too_much = 0;

	for (; at < end; at = i.next)
		if (!lbt_read_instruction(code, size, at, 0, &i))
			return stack.pointer == 8 && is_aligned(code, start);
		else if (!is_plain(i.flow))
			return 0;
		else
			stack = lbt_stack_after(stack, &i, &too_much);
	return at == end && stack.pointer == 8;
}

/* Goes to the next function that makes a frame. */
static int enter(const unsigned char *code, size_t size, struct lbt_walk *walk)
{
	for (;; walk->at++) {
		const unsigned char *found;
		size_t end, first;

		if (walk->at >= size)
			return 0;
		found = memmem(code + walk->at, size - walk->at, FRAMED, sizeof(FRAMED));
		if (!found)
			return 0;
		walk->at = end = (size_t)(found - code);
		first = end > BETWEEN ? end - BETWEEN : 0;
		for (size_t start = end; start-- > first;)
			if (code[start] == PUSH_RBP && !(start && code[start - 1] == REX_B) &&
			    may_begin(code, start, end) && begins(code, size, start, end)) {
				*walk = (struct lbt_walk){start, end + sizeof(FRAMED), 0, 1, 1, 0, 0};
				return 1;
			}
	}
}

/* Whether an instruction takes the frame pointer as a value, or that of the caller. */
static int takes(const struct instruction *i)
{
	int loads = !i->extended && i->wide && i->opcode == 0x8b && i->written != RBP;
	int pushes = !i->extended && i->opcode == 0xff && (i->reg & 7) == 6;

	if (i->in_memory && i->base == RBP && !i->indexed && !i->displacement && (loads || pushes))
		return 1;
	return second_register(i) == RBP && i->written != RSP && i->written != RBP &&
	       !(i->in_memory && i->base == RSP);
}

/* Follows an instruction; false where the function has ended, or rbp holds something else. */
static int follow(struct lbt_walk *walk, const struct instruction *i)
{
	int stack = i->flow == FLOW_STACK && !i->extended;

	if (stack && i->first == RBP && !is_pop(i) && i->opcode == PUSH_RBP)
		return 0;
	if (stack && ((is_pop(i) && i->first == RBP) || i->opcode == 0xc9)) {
		walk->framed = 0;
		walk->leaves = 1;
	} else if (i->written == RBP && !is_compared(i)) {
		walk->framed = is_moved(i) && second_register(i) == RSP;
		return walk->framed;
	}
	if (walk->ends && i->flow != FLOW_NOP && i->flow != FLOW_INT3) {
		walk->apart |= walk->ends != i->address && i->address % ALIGNED == 0;
		walk->ends = 0;
	}
	if (is_end(i->flow)) {
		walk->framed |= walk->leaves;
		walk->leaves = 0;
		walk->ends = i->next;
	}
	return 1;
}

int lbt_next_walker(const unsigned char *code, size_t size, struct lbt_walk *walk)
{
	struct instruction i;

	for (;;) {
		if (!walk->inside && !enter(code, size, walk))
			return LBT_NO_WALKER;
		while (walk->at < size) {
			if (!lbt_read_instruction(code, size, walk->at, 0, &i))
				return LBT_UNREAD;
			walk->inside = follow(walk, &i);
			if (walk->framed && takes(&i)) {
				walk->inside = 0;
				return LBT_WALKER;
			}
			if (!walk->inside)
				break;
			walk->at = i.next;
		}
		walk->inside = 0;
	}
}
