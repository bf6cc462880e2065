/* crowd WIDTH ROUNDS: that many processes at once fork one after the other, inside of a call, what
 * makes a call and executes this program, which makes one. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define TRACED __attribute__((noipa))
TRACED int forked(int n) { return n + 1; }
TRACED int executed(int n) { return n + 2; }
TRACED int rounds(int n, char *self)
{
    char number[16];
    for (int round = 0; round < n; round++) {
        pid_t child = fork();
        if (!child) {
            snprintf(number, sizeof(number), "%d", forked(round));
            execl(self, self, number, (char *)0);
            _exit(1);
        }
        waitpid(child, 0, 0);
    }
    return n;
}
int main(int count, char **words)
{
    int status, failed = 0;
    if (count == 2)
        return executed(atoi(words[1])) < 0;
    for (int number = atoi(words[1]); number > 0; number--)
        if (!fork()) {
            rounds(atoi(words[2]), words[0]);
            return 0;
        }
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}
