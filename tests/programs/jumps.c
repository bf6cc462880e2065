/* Jumps that leave a function or do not, each with the program's own account.
 *
 *     jumps LOG conditions | counts | computed | again
 */
#include "shadow.h"

/*
 * traced_if_X compares its arguments and jumps to traced_yes where condition X holds; it
 * returns 1, traced_yes 2. traced_count_X(n, m) does where the count n is what X asks for (and
 * m is 0, or is not), and jumps to traced_near. traced_through(n) jumps through a table: 0 and 1 to places
 * inside, which return 10 and 11, 2 to traced_yes, 3 to its own beginning, with n 0.
 * traced_pointer(n, p) jumps to p. traced_either(n, p) jumps to p, or inside.
 * traced_again(n) begins n times anew, by way of a jump to code that jumps back.
 * traced_rounds(n) loops n times to its first instruction from a part that was split off,
 * traced_turns(n) from one that has no name.
 */
#define EACH(X)                                                                                    \
	X(o) X(no) X(b) X(ae) X(e) X(ne) X(be) X(a) X(s) X(ns) X(p) X(np) X(l) X(ge) X(le) X(g)
#define EACH_ARM(X)                                                                                \
	X(eq) X(ne) X(cs) X(cc) X(mi) X(pl) X(vs) X(vc) X(hi) X(ls) X(ge) X(lt) X(gt) X(le)

#define BEGIN(name) ".globl " name "\n.type " name ", %function\n" name ":\n"
#define END(name) ".size " name ", .-" name "\n.balign 16\n"
#define APART(name, back)                                                                          \
	".section .text.unlikely,\"ax\",%progbits\n" name ": .cfi_startproc\nnop\n" back          \
	"\n.cfi_endproc\n.text\n"

#if defined(__x86_64__)
#define CONDITIONS EACH
#define CODE(X)                                                                                    \
	asm(BEGIN("traced_if_" #X) "cmp %rsi, %rdi\nj" #X                                          \
	    " traced_yes\nmov $1, %eax\nret\n" END("traced_if_" #X));
asm(BEGIN("traced_yes") "mov $2, %eax\nret\n" END("traced_yes"));
#define COUNTS(X) X(jrcxz) X(loop) X(loope) X(loopne)
#define COUNT(X, JUMP)                                                                             \
	BEGIN("traced_count_" #X)                                                                  \
	"mov %rdi, %rcx\ntest %rsi, %rsi\n" JUMP " near\nmov $1, %eax\nret\n" END("traced_count_" #X)
/* These jumps are short. */
asm(COUNT(jrcxz, "jrcxz") COUNT(loop, "loop")
    BEGIN("traced_near") "near: mov $2, %eax\nret\n" END("traced_near")
    COUNT(loope, "loope") COUNT(loopne, "loopne"));
asm(BEGIN("traced_through") "lea table(%rip), %rax\nmov %rdi, %rdx\nmov $0, %edi\n"
    "jmp *(%rax, %rdx, 8)\n1: mov $10, %eax\nret\n2: mov $11, %eax\nret\n"
    END("traced_through")
    ".section .data.rel.ro\n.balign 8\ntable: .quad 1b, 2b, traced_yes, traced_through\n.text\n");
asm(BEGIN("traced_pointer") "jmp *%rsi\n" END("traced_pointer"));
asm(BEGIN("traced_either") "test %rsi, %rsi\njne 1f\nlea 2f(%rip), %rsi\n1: push %rsi\npop %rax\n"
    "jmp *%rax\n2: mov $20, %eax\nret\n" END("traced_either"));
asm(".type back, %function\nback: jmp traced_again\n" END("back") BEGIN("traced_again") "test %rdi, %rdi\nje 1f\ndec %rdi\n"
    "jmp back\n1: mov $3, %eax\nret\n" END("traced_again"));
asm(BEGIN("traced_rounds") "dec %rdi\njg traced_rounds.cold\nmov $4, %eax\nret\n"
    END("traced_rounds") ".type traced_rounds.cold, %function\n"
    APART("traced_rounds.cold", "jmp traced_rounds"));
asm(BEGIN("traced_turns") "dec %rdi\njg .Lapart\nmov $5, %eax\nret\n"
    END("traced_turns") APART(".Lapart", "jmp traced_turns"));
#else
#define CONDITIONS EACH_ARM
#define CODE(X)                                                                                    \
	asm(BEGIN("traced_if_" #X) "cmp x0, x1\nb." #X                                             \
	    " traced_yes\nmov x0, 1\nret\n" END("traced_if_" #X));
asm(BEGIN("traced_yes") "mov x0, 2\nret\n" END("traced_yes"));
#define COUNTS(X) X(cbz) X(cbnz) X(cbz_w) X(cbnz_w) X(tbz) X(tbnz) X(tbz_high) X(tbnz_high)
#define COUNT(X, JUMP)                                                                             \
	BEGIN("traced_count_" #X) JUMP "traced_near\nmov x0, 1\nret\n" END("traced_count_" #X)
asm(BEGIN("traced_near") "mov x0, 2\nret\n" END("traced_near")
    COUNT(cbz, "cbz x0, ") COUNT(cbnz, "cbnz x0, ") COUNT(cbz_w, "cbz w0, ")
    COUNT(cbnz_w, "cbnz w0, ") COUNT(tbz, "tbz x0, 1, ") COUNT(tbnz, "tbnz x0, 1, ")
    COUNT(tbz_high, "tbz x0, 32, ") COUNT(tbnz_high, "tbnz x0, 32, "));
asm(BEGIN("traced_through") "adrp x9, table\nadd x9, x9, :lo12:table\nmov x10, x0\nmov x0, 0\n"
    "ldr x9, [x9, x10, lsl 3]\nbr x9\n1: mov x0, 10\nret\n2: mov x0, 11\nret\n"
    END("traced_through")
    ".section .data.rel.ro\n.balign 8\ntable: .quad 1b, 2b, traced_yes, traced_through\n.text\n");
asm(BEGIN("traced_pointer") "br x1\n" END("traced_pointer"));
asm(BEGIN("traced_either") "cbnz x1, 1f\nadr x1, 2f\n1: str x1, [sp, -16]!\nldr x9, [sp], 16\n"
    "br x9\n2: mov x0, 20\nret\n" END("traced_either"));
asm(".type back, %function\nback: b traced_again\n" END("back") BEGIN("traced_again") "cbz x0, 1f\nsub x0, x0, 1\n"
    "b back\n1: mov x0, 3\nret\n" END("traced_again"));
asm(BEGIN("traced_rounds") "subs x0, x0, 1\nb.gt traced_rounds.cold\nmov x0, 4\nret\n"
    END("traced_rounds") ".type traced_rounds.cold, %function\n"
    APART("traced_rounds.cold", "b traced_rounds"));
asm(BEGIN("traced_turns") "subs x0, x0, 1\nb.gt .Lapart\nmov x0, 5\nret\n"
    END("traced_turns") APART(".Lapart", "b traced_turns"));
#endif
CONDITIONS(CODE)

#define DECLARE(X) long traced_if_##X(long a, long b);
CONDITIONS(DECLARE)
#define DECLARE_COUNT(X) long traced_count_##X(long n, long m);
COUNTS(DECLARE_COUNT)
long traced_yes(long n), traced_through(long n), traced_pointer(long n, void *target),
	traced_either(long n, void *target), traced_again(long n), traced_rounds(long n),
	traced_turns(long n);

struct function {
	const char *name;
	long (*call)(long, long);
};
#define LIST(X) {"traced_if_" #X, traced_if_##X},
static const struct function functions[] = {CONDITIONS(LIST)};
#define LIST_COUNT(X) {"traced_count_" #X, traced_count_##X},
static const struct function counting[] = {COUNTS(LIST_COUNT)};

/* A call that returned, or jumped to another one, as its result tells. */
static void account(const char *name, long argument, long result, void (*jump)(void),
		    const char *other)
{
	shadow_enter(name, argument);
	if (result == 2) {
		jump();
		shadow_enter(other, argument);
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
			account(functions[f].name, a, functions[f].call(a, b), shadow_jump,
				"traced_yes");
		}
}

static void counts(void)
{
	static const long numbers[] = {0, 1, 2, 3, -1, 1L << 32, (1L << 32) + 1, -1L << 33};

	for (unsigned f = 0; f < sizeof(counting) / sizeof(*counting); f++)
		for (unsigned i = 0; i < 2 * sizeof(numbers) / sizeof(*numbers); i++) {
			long n = numbers[i / 2], result = counting[f].call(n, i % 2);
			account(counting[f].name, n, result, shadow_jump, "traced_near");
		}
}

static void computed(void)
{
	for (long n = 0; n < 4; n++) {
		long result = traced_through(n), argument = n;
		if (n == 3) {
			shadow_enter("traced_through", n);
			shadow_jump_away();
			argument = 0;
		}
		shadow_enter("traced_through", argument);
		if (result == 2) {
			shadow_jump_away();
			shadow_enter("traced_yes", 0);
		}
		shadow_leave(result);
	}
	account("traced_pointer", 5, traced_pointer(5, (void *)traced_yes), shadow_jump_away,
		"traced_yes");
	account("traced_either", 6, traced_either(6, (void *)traced_yes), shadow_jump_away,
		"traced_yes");
	traced_either(7, NULL);
	/* Nothing but the jump leads to where it returns then, so no probe may stand there. */
	shadow_enter("traced_either", 7);
	shadow_end("open");
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

static void rounds(void)
{
	shadow_enter("traced_rounds", 4);
	shadow_leave(traced_rounds(4));
	shadow_enter("traced_turns", 3);
	shadow_leave(traced_turns(3));
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	shadow_start(argv[1]);
	if (!strcmp(argv[2], "conditions"))
		conditions();
	else if (!strcmp(argv[2], "counts"))
		counts();
	else if (!strcmp(argv[2], "computed"))
		computed();
	else if (!strcmp(argv[2], "rounds"))
		rounds();
	else
		again();
	shadow_write();
	return 0;
}
