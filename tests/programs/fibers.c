/* Two fibers on stacks of their own, switched by the program's own assembly.
 *
 *     fibers LOG N
 */
#include "shadow.h"

#include <stdint.h>

/* Leaves the stack at *save, and goes on at the one that was left at to. */
void take_up(void **save, void *to);

#if defined(__x86_64__)
#define SAVED 7 /* words */
#define ADDRESS 6 /* where to go on, among them */
asm(".globl take_up\n.type take_up, @function\ntake_up:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size take_up, .-take_up\n");
#else
#define SAVED 13
#define ADDRESS 1
asm(".globl take_up\n.type take_up, %function\ntake_up:\n"
    "stp x29, x30, [sp, -96]!\nstp x19, x20, [sp, 16]\nstp x21, x22, [sp, 32]\n"
    "stp x23, x24, [sp, 48]\nstp x25, x26, [sp, 64]\nstp x27, x28, [sp, 80]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp, 16]\nldp x21, x22, [sp, 32]\nldp x23, x24, [sp, 48]\n"
    "ldp x25, x26, [sp, 64]\nldp x27, x28, [sp, 80]\nldp x29, x30, [sp], 96\nret\n"
    ".size take_up, .-take_up\n");
#endif

#define STACK (64 << 10)
static volatile long sink;

TRACED long traced_last(long n)
{
	ENTER(n);
	RETURN(n * 2);
}

#include "fibers.h"

static void *left[3];

static void prepare(int fiber)
{
	/* As if it had been left: zeros for the registers, then where to begin. */
	uint64_t *words = (uint64_t *)((char *)calloc(1, STACK) + STACK) - SAVED - 1;
	words[ADDRESS] = (uint64_t)run_fiber;
	left[fiber] = words;
}

static void change_stacks(int from, int to)
{
	take_up(&left[from], left[to]);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	shadow_start(argv[1]);
	run_fibers(atol(argv[2]));
	return 0;
}
