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

#define HOME 2
#define STACK (64 << 10)
static volatile long sink;
static void *left[3];
static struct shadow *shadows[3];
static long switches, wanted;

static void switch_to(int from, int to)
{
	switches++;
	shadow = shadows[to];
	take_up(&left[from], left[to]);
}

TRACED long traced_last(long n)
{
	ENTER(n);
	RETURN(n * 2);
}

TRACED long traced_step(long n)
{
	ENTER(n);
	int self = (int)(shadow->lane >= 0 && shadow->lane < 2 ? shadow->lane : HOME);
	if (self == HOME)
		switch_to(HOME, 0);
	else
		switch_to(self, n % 7 ? 1 - self : HOME);
	RETURN(n + self);
}

TRACED long traced_fiber(long n)
{
	ENTER(n);
	long sum = 0;
	for (long i = 0; switches < wanted; i++)
		sum += traced_step(i) + (i % 3 ? 0 : traced_last(i));
	RETURN(sum);
}

static void fiber(void)
{
	for (;;) {
		sink += traced_fiber(shadow->lane);
		switch_to((int)shadow->lane, HOME);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	shadow_start(argv[1]);
	wanted = atol(argv[2]);
	shadows[HOME] = shadow;
	for (int i = 0; i < 2; i++) {
		/* As if it had been left: zeros for the registers, then where to begin. */
		uint64_t *words = (uint64_t *)((char *)calloc(1, STACK) + STACK) - SAVED - 1;
		words[ADDRESS] = (uint64_t)fiber;
		left[i] = words;
		shadow_new(i);
		shadows[i] = shadow;
	}
	shadow = shadows[HOME];
	for (long i = 0; switches < wanted; i++)
		sink += traced_step(i);
	for (int i = 0; i < 3; i++) {
		shadow = shadows[i];
		shadow_write();
	}
	return 0;
}
