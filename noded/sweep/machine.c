#include "noded/sweep/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "noded/sweep/sweep.h"

struct visit {
    struct sweep *sweep;
    bool copy;
    void (*fn)(struct sweep *sweep, void *arg);
    void *arg;
};

static bool same_namespace(int a, int b)
{
    struct stat sa, sb;

    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino &&
           sa.st_dev == sb.st_dev;
}

static int enter(const char *namespace)
{
    auto_close int there = open(namespace, O_RDONLY | O_CLOEXEC);
    auto_close int here = open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC);

    if (there < 0 || here < 0)
        return -errno;
    if (same_namespace(there, here))
        return 0;
    return unshare(CLONE_FS) < 0 || setns(there, CLONE_NEWNS) < 0 ? -errno : 0;
}

/* Private, so that nothing done here reaches the machine (not before that has been made sure is anything unmounted), and
 * nothing that anybody mounts out there can stand in the way of a path here. */
static int leave_for_a_copy(void)
{
    return unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0
               ? -errno
               : 0;
}

static void *visit_run(void *arg)
{
    struct visit *v = arg;
    const char *namespace = v->sweep->places->mount_namespace;
    int r = namespace ? enter(namespace) : 0;

    if (r < 0) {
        sweep_failed(v->sweep, "mount namespace of PID 1", r);
        return NULL;
    }
    if (v->copy && (r = leave_for_a_copy()) < 0)
        sweep_failed(v->sweep, "copy of the mount namespace", r);
    else
        v->fn(v->sweep, v->arg);
    return NULL;
}

void machine_run(struct sweep *sweep, bool copy, void (*fn)(struct sweep *sweep, void *arg),
                 void *arg)
{
    struct visit visit = {sweep, copy, fn, arg};
    pthread_t thread;
    int r = pthread_create(&thread, NULL, visit_run, &visit);

    if (r != 0)
        sweep_failed(sweep, "a thread for the mount namespace", r);
    else
        (void)pthread_join(thread, NULL);
}
