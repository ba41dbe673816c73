/* Everything sanctioned of a uid runs below <slice>/xce-<uid>.slice: one write to cgroup.kill ends it all, however fast it
 * forks. Processes are looked for again afterwards, so a failure here is nobody's last word. */
#include "noded/sweep/kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

/* 1 populated, 0 not, -errno (-ENODEV, -ENOENT: the folder has gone). */
static int slice_populated(int events_fd)
{
    char text[256];
    ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);

    if (n < 0)
        return -errno;
    text[n] = '\0';
    return strstr(text, "populated 1") != NULL;
}

static void slice_wait(struct sweep *sweep, int dir_fd, int64_t deadline_ms)
{
    auto_close int fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && slice_populated(fd) == 1) {
        struct pollfd p = {.fd = fd, .events = POLLPRI};
        int64_t left = deadline_ms - clock_mono_ms();
        if (left <= 0 || poll(&p, 1, (int)left) <= 0) {
            sweep_waited_in_vain(sweep, REASON_PROCESS);
            return;
        }
    }
}

static int slice_kill(int dir_fd)
{
    auto_close int fd = openat(dir_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    return write(fd, "1", 1) == 1 ? 0 : -errno;
}

static int slice_open(const struct sweep_places *places, uint32_t uid)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/%s/xce-%u.slice", places->cgroup, places->slice, uid);

    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    n = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return n < 0 ? -errno : n;
}

/* Kill all first, then wait for all: they die at the same time. */
void sweep_slices(struct sweep *sweep)
{
    int64_t deadline_ms = clock_mono_ms() + sweep->wait_ms;

    if (!sweep->places->cgroup || !sweep->remove)
        return;
    for (int waiting = 0; waiting < 2; waiting++) {
        for (size_t i = 0; i < sweep->n_uids; i++) {
            auto_close int fd = slice_open(sweep->places, sweep->uids[i]);
            if (fd < 0 || !sweep_wants(sweep, sweep->uids[i]))
                continue;
            if (waiting)
                slice_wait(sweep, fd, deadline_ms);
            else if (slice_kill(fd) == 0)
                sweep_removed(sweep);
        }
    }
}
