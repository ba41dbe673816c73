/* Preloaded (LD_PRELOAD) into a daemon under test: its wall clock is wrong by what the file $XCE_TEST_WALL_STEP holds, an
 * int64 of seconds that the test may change while it runs. Every other clock is the kernel's. Nobody else's clock changes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const volatile int64_t *step_s;

__attribute__((constructor)) static void step_map(void)
{
    const char *path = getenv("XCE_TEST_WALL_STEP");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*step_s), PROT_READ, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        abort();
    (void)close(fd);
    step_s = at;
}

EXPORTED int clock_gettime(clockid_t id, struct timespec *ret)
{
    int r = (int)syscall(SYS_clock_gettime, id, ret);

    if (r == 0 && step_s && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ret->tv_sec += *step_s;
    return r;
}

EXPORTED int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

EXPORTED time_t time(time_t *ret)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
