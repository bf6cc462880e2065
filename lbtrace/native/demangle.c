/*
 * LLVM's demangler of C++ names (Itanium C++ ABI, 3.3.2), with bounds.
 *
 * A name of a kilobyte may expand to gigabytes, or take as much work. The demangler is
 * compiled with calls of the two functions below around each of its own, and takes memory from
 * lbt_realloc; beyond a bound they leave it by longjmp, which its memory survives: all is freed.
 */
#include "demangle.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LBT_DEMANGLE_MEMORY (1 << 20) /* bytes held at once */
#define LBT_DEMANGLE_DEPTH 20000      /* functions within functions: some 2 MB of stack */
#define LBT_DEMANGLE_WORK 20000       /* functions entered for any name, and for each byte of it */
#define LBT_DEMANGLE_WORK_BYTE 400

char *__cxa_demangle(const char *name, char *into, size_t *size, int *status);

struct lbt_block {
	struct lbt_block *before, *after;
	size_t size;
	max_align_t content[];
};

static __thread struct {
	struct lbt_block *blocks;
	size_t held;
	long work, depth;
	jmp_buf out;
} lbt_demangling;

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)function, (void)caller;
	if (--lbt_demangling.work < 0 || ++lbt_demangling.depth > LBT_DEMANGLE_DEPTH)
		longjmp(lbt_demangling.out, 1);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function, (void)caller;
	lbt_demangling.depth--;
}

void lbt_free(void *content)
{
	struct lbt_block *block = content ? (void *)((char *)content - sizeof(*block)) : NULL;

	if (!block)
		return;
	*(block->before ? &block->before->after : &lbt_demangling.blocks) = block->after;
	if (block->after)
		block->after->before = block->before;
	lbt_demangling.held -= block->size;
	free(block);
}

void *lbt_malloc(size_t size)
{
	struct lbt_block *block = NULL;

	if (size <= LBT_DEMANGLE_MEMORY - lbt_demangling.held)
		block = malloc(sizeof(*block) + size);
	if (!block)
		longjmp(lbt_demangling.out, 1);
	block->size = size;
	block->before = NULL;
	block->after = lbt_demangling.blocks;
	if (block->after)
		block->after->before = block;
	lbt_demangling.blocks = block;
	lbt_demangling.held += size;
	return block->content;
}

void *lbt_calloc(size_t count, size_t size)
{
	return memset(lbt_malloc(count * size), 0, count * size);
}

void *lbt_realloc(void *content, size_t size)
{
	struct lbt_block *block = content ? (void *)((char *)content - sizeof(*block)) : NULL;
	void *grown = lbt_malloc(size);

	if (block)
		memcpy(grown, content, block->size < size ? block->size : size);
	lbt_free(content);
	return grown;
}

/* What the demangler needs of a C++ library. */
void _ZSt9terminatev(void) { longjmp(lbt_demangling.out, 1); }
void _ZdlPvm(void *memory, size_t size) { (void)size; lbt_free(memory); }

int lbt_demangle(const char *name, char *into, size_t size)
{
	volatile int result = 0;
	char *made;

	lbt_demangling.blocks = NULL;
	lbt_demangling.held = 0;
	lbt_demangling.depth = 0;
	lbt_demangling.work = LBT_DEMANGLE_WORK + LBT_DEMANGLE_WORK_BYTE * (long)strlen(name);
	if (setjmp(lbt_demangling.out)) {
		result = -1;
	} else if ((made = __cxa_demangle(name, NULL, NULL, NULL)) != NULL) {
		result = strlen(made) < size ? 1 : -1;
		if (result > 0)
			strcpy(into, made);
	}
	while (lbt_demangling.blocks)
		lbt_free(lbt_demangling.blocks->content);
	return result;
}
