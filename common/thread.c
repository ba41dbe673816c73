#include "common/thread.h"

#include <signal.h>

int thread_start(const char *name, size_t stack, void *(*run)(void *arg), void *arg, pthread_t *ret)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int r = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    (void)pthread_attr_init(&attr);
    if (stack > 0)
        r = pthread_attr_setstacksize(&attr, stack);
    if (r == 0)
        r = pthread_create(ret, &attr, run, arg);
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r == 0)
        (void)pthread_setname_np(*ret, name);
    return -r;
}
