/* Jumps that leave a function or do not, each with the program's own account.
 *
 *     jumps LOG conditions | again
 */
#include "shadow.h"

/*
 * traced_if_X compares its arguments and jumps to traced_yes where condition X holds; it returns 1,
 * traced_yes 2. traced_again(n) begins n times anew, by way of a jump to code that jumps back.
 */
#define EACH(X)                                                                                    \
	X(o) X(no) X(b) X(ae) X(e) X(ne) X(be) X(a) X(s) X(ns) X(p) X(np) X(l) X(ge) X(le) X(g)
#define EACH_ARM(X)                                                                                \
	X(eq) X(ne) X(cs) X(cc) X(mi) X(pl) X(vs) X(vc) X(hi) X(ls) X(ge) X(lt) X(gt) X(le)

#define BEGIN(name) ".globl " name "\n.type " name ", %function\n" name ":\n"
#define END(name) ".size " name ", .-" name "\n.balign 16\n"

#if defined(__x86_64__)
#define CONDITIONS EACH
#define CODE(X)                                                                                    \
	asm(BEGIN("traced_if_" #X) "cmp %rsi, %rdi\nj" #X                                          \
	    " traced_yes\nmov $1, %eax\nret\n" END("traced_if_" #X));
asm(BEGIN("traced_yes") "mov $2, %eax\nret\n" END("traced_yes"));
asm(".type back, %function\nback: jmp traced_again\n" END("back") BEGIN("traced_again") "test %rdi, %rdi\nje 1f\ndec %rdi\n"
    "jmp back\n1: mov $3, %eax\nret\n" END("traced_again"));
#else
#define CONDITIONS EACH_ARM
#define CODE(X)                                                                                    \
	asm(BEGIN("traced_if_" #X) "cmp x0, x1\nb." #X                                             \
	    " traced_yes\nmov x0, 1\nret\n" END("traced_if_" #X));
asm(BEGIN("traced_yes") "mov x0, 2\nret\n" END("traced_yes"));
asm(".type back, %function\nback: b traced_again\n" END("back") BEGIN("traced_again") "cbz x0, 1f\nsub x0, x0, 1\n"
    "b back\n1: mov x0, 3\nret\n" END("traced_again"));
#endif
CONDITIONS(CODE)

#define DECLARE(X) long traced_if_##X(long a, long b);
CONDITIONS(DECLARE)
long traced_yes(long n), traced_again(long n);

struct function {
	const char *name;
	long (*call)(long, long);
};
#define LIST(X) {"traced_if_" #X, traced_if_##X},
static const struct function functions[] = {CONDITIONS(LIST)};

/* A call that returned, or jumped to another one, as its result tells. */
static void account(const char *name, long argument, long result)
{
	shadow_enter(name, argument);
	if (result == 2) {
		shadow_jump();
		shadow_enter("traced_yes", argument);
	}
	shadow_leave(result);
}

static void conditions(void)
{
	static const long numbers[] = {-1L << 63, -256, -1, 0, 1, 3, 256, ~(1UL << 63)};
	const int count = sizeof(numbers) / sizeof(*numbers);

	for (unsigned f = 0; f < sizeof(functions) / sizeof(*functions); f++)
		for (int i = 0; i < count * count; i++) {
			long a = numbers[i / count], b = numbers[i % count];
			account(functions[f].name, a, functions[f].call(a, b));
		}
}

static void again(void)
{
	const long n = 4, result = traced_again(n);

	for (long i = n; i >= 0; i--) {
		shadow_enter("traced_again", i);
		if (i)
			shadow_jump();
	}
	shadow_leave(result);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	shadow_start(argv[1]);
	if (!strcmp(argv[2], "conditions"))
		conditions();
	else
		again();
	shadow_write();
	return 0;
}
