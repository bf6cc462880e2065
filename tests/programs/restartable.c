/* Counters, one for each processor, added to in a sequence that the kernel restarts (rseq(2)).
   Prints their sum, and how many times the sequence was interrupted. With FAR its handler is in a section
   of its own and begins the function anew, as TCMalloc's do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/rseq.h>

enum { THREADS = 4 };

struct counter {
    long value;
    char room[120];
};

static struct counter counters[1024];
static long rounds, interrupted;

#ifdef FAR
#define HANDLER ".pushsection __rseq_failure, \"ax\"\n"
#define AFTER "jmp add_one\n.popsection\n"
#else
#define HANDLER
#define AFTER "mov $1, %eax\nret\n"
#endif

/* Adds one to the counter of this processor: 0, or 1 where it was interrupted. */
int add_one(struct counter *first, struct rseq *area);

__asm__(".pushsection __rseq_cs, \"aw\"\n"
        ".balign 32\n"
        "sequence: .long 0, 0\n"
        ".quad begin, end - begin, handler\n"
        ".popsection\n"
        ".globl add_one\n"
        ".type add_one, @function\n"
        "add_one:\n"
        "lea sequence(%rip), %rax\n"
        "mov %rax, 8(%rsi)\n"
        "begin: mov 4(%rsi), %eax\n"
        "shl $7, %rax\n"
        "mov (%rdi, %rax), %rdx\n"
        "test %rdx, %rdx\n"
        "js leave\n"
        "middle: lea 1(%rdx), %rdx\n"
        "mov %rdx, (%rdi, %rax)\n"
        "end: xor %eax, %eax\n"
        "leave: ret\n" HANDLER ".byte 0x0f, 0xb9, 0x3d\n"
        ".long 0x53053053\n" /* RSEQ_SIG, as the C library has registered it */
        "handler: " AFTER ".size add_one, . - add_one\n");

static void *run(void *unused)
{
    char *thread = __builtin_thread_pointer();
    struct rseq *area = (struct rseq *)(thread + __rseq_offset);
    long mine = 0;
    for (long i = 0; i < rounds;) {
        int again = add_one(counters, area);
        mine += again;
        i += !again;
    }
    __atomic_add_fetch(&interrupted, mine, __ATOMIC_RELAXED);
    return unused;
}

int main(int count, char **words)
{
    pthread_t threads[THREADS];
    long sum = 0;
    rounds = count > 1 ? atol(words[1]) : 1000;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    for (int i = 0; i < 1024; i++)
        sum += counters[i].value;
    printf("%ld %ld\n", sum, interrupted);
    return 0;
}
