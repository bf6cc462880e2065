/* Forks a process in each of three ways, inside of a call. */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#define TRACED __attribute__((noipa))
TRACED int leaf(int n) { return n + 1; }
TRACED int vforks(int n)
{
    pid_t child = vfork();
    if (!child) {
        leaf(n);
        _exit(0);
    }
    waitpid(child, 0, 0);
    return n;
}
TRACED int spawns(int n)
{
    pid_t child;
    char *words[] = {"true", 0};
    posix_spawn(&child, "/bin/true", 0, 0, words, environ);
    waitpid(child, 0, 0);
    return n;
}
TRACED int forks(int n)
{
    pid_t child = fork();
    if (!child) {
        leaf(n);
        return 77;
    }
    waitpid(child, 0, 0);
    return n;
}
int main(void) { return vforks(1) + spawns(2) + forks(3) == 77; }
