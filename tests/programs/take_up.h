/* Switches stacks as coroutines do, without the C library. */
#include <stddef.h>
#include <sys/mman.h>

/* The upper end of a new stack: a mapping of its own, with a guard page, as libraries make them. */
static char *map_stack(size_t size)
{
	char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(memory, 4096, PROT_NONE);
	return memory + size;
}

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
