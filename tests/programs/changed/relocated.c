#include <stdio.h>

int first(void), second(void), jumps(void);

int main(void)
{
    getchar();
    int sum = 0;
    for (int i = 0; i < 5; i++)
        sum += first() + 10 * second() + 100 * jumps();
    printf("%d\n", sum);
}
