/* Mounts made for a uid: FUSE file systems of its processes, tmpfs of its login session. With the processes gone nobody
 * serves or needs them; they are detached, which never waits for a server. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/sweep/kinds.h"

/* "\040" and the like, in place. */
static void octal_decode(char *text)
{
    char *to = text;

    for (const char *p = text; *p;) {
        if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
            p[3] >= '0' && p[3] <= '7') {
            *to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
            p += 4;
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
}

static bool option_wanted(const struct sweep *sweep, const char *option, uint32_t *ret_uid)
{
    static const char *const names[] = {"user_id=", "group_id=", "uid=", "gid="};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t len = strlen(names[i]);
        char *end;
        if (strncmp(option, names[i], len) != 0)
            continue;
        unsigned long id = strtoul(option + len, &end, 10);
        if (*end || id > UINT32_MAX || !sweep_wants(sweep, (uint32_t)id))
            return false;
        *ret_uid = (uint32_t)id;
        return true;
    }
    return false;
}

/* "36 35 98:0 /root /mount-point options optional... - type source super-options" */
static void line_look(struct sweep *sweep, char *line)
{
    char *fields = line, *super = strstr(line, " - "), *path = NULL;
    uint32_t uid = 0;
    bool wanted = false;

    if (!super)
        return;
    *super = '\0';
    for (int i = 0; i < 5; i++)
        path = strsep(&fields, " ");
    super += 3;
    (void)strsep(&super, " ");
    (void)strsep(&super, " ");
    for (char *option; super && !wanted && (option = strsep(&super, ",\n"));)
        wanted = option_wanted(sweep, option, &uid);
    if (!wanted || !path)
        return;
    octal_decode(path);
    if (sweep->remove && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0) {
        sweep_found(sweep, uid, REASON_MOUNT, "%s: %s", path, err_text(errno));
        return;
    }
    sweep_found(sweep, uid, REASON_MOUNT, "%s", path);
    if (sweep->remove)
        sweep_removed(sweep);
}

static void mounts_look(struct sweep *sweep)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = NULL;
    char path[4096];
    size_t cap = 0;

    (void)snprintf(path, sizeof(path), "%s/thread-self/mountinfo", sweep->places->proc);
    file = fopen(path, "re");
    if (!file) {
        sweep_failed(sweep, path, errno);
        return;
    }
    while (getline(&line, &cap, file) > 0)
        line_look(sweep, line);
    if (ferror(file))
        sweep_failed(sweep, path, EIO);
}

static bool same_namespace(int a, int b)
{
    struct stat sa, sb;

    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino &&
           sa.st_dev == sb.st_dev;
}

/* In a thread of its own, which does not come back from there. */
static void *mounts_look_there(void *arg)
{
    struct sweep *sweep = arg;
    auto_close int there = open(sweep->places->mount_namespace, O_RDONLY | O_CLOEXEC);
    auto_close int here = open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC);

    if (there < 0 || here < 0)
        sweep_failed(sweep, "mount namespace", errno);
    else if (!same_namespace(there, here) &&
             (unshare(CLONE_FS) < 0 || setns(there, CLONE_NEWNS) < 0))
        sweep_failed(sweep, "mount namespace of PID 1", errno);
    else
        mounts_look(sweep);
    return NULL;
}

void sweep_mounts(struct sweep *sweep)
{
    pthread_t thread;
    int r;

    if (!sweep->places->mount_namespace) {
        mounts_look(sweep);
        return;
    }
    r = pthread_create(&thread, NULL, mounts_look_there, sweep);
    if (r != 0)
        sweep_failed(sweep, "mounts", r);
    else
        (void)pthread_join(thread, NULL);
}
