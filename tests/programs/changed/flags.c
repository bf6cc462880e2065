/* Stores the processor's flags, and loads them again: single-stepped, pushf stores the trap flag. */
#include <stdio.h>

__attribute__((noinline)) unsigned long get(void) { return __builtin_ia32_readeflags_u64(); }

__attribute__((noinline)) void set(unsigned long flags) { __builtin_ia32_writeeflags_u64(flags); }

__attribute__((noinline)) int work(int n)
{
    unsigned long flags = get();
    set(flags);
    return n + ((flags & 0x100) != 0);
}

int main(void)
{
    getchar();
    int sum = 0;
    for (int i = 0; i < 50; i++)
        sum += work(i);
    printf("%d\n", sum);
}
