/* A writer of the uid map that does as it is told: commands on stdin, "ok" or "error: ..." for each on stdout. Ends with
 * its input; the map stays.
 *
 *   shape FIRST LAST [FIRST LAST]...   set UID EPOCH [GID]...   retire UID EPOCH   fill FIRST N
 *   lease UID EPOCH STATE FLAGS   synced 0|1   beat MS (noded was alive so long ago) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/map_fixture.h"

#define MAX_NUMBERS 300

static size_t numbers(char *text, uint32_t out[MAX_NUMBERS])
{
    char *rest = NULL;
    size_t n = 0;

    for (char *word = strtok_r(text, " \n", &rest); word && n < MAX_NUMBERS;
         word = strtok_r(NULL, " \n", &rest))
        out[n++] = (uint32_t)strtoul(word, NULL, 10);
    return n;
}

static int shape(struct map_writer *w, const uint32_t *n, size_t count)
{
    struct map_span ranges[XCE_RANGES_MAX];
    struct map_shape shape = {"xce-", ranges, (uint32_t)(count / 2)};

    for (size_t i = 0; i < count / 2 && i < XCE_RANGES_MAX; i++)
        ranges[i] = (struct map_span){n[2 * i], n[2 * i + 1]};
    return map_writer_shape(w, &shape);
}

static int set(struct map_writer *w, const uint32_t *n, size_t count)
{
    struct map_lease lease = fixture_lease(n[0], n[1]);

    lease.gids = n + 2;
    lease.n_gids = (uint32_t)(count - 2);
    return map_writer_set(w, &lease);
}

static int set_lease(struct map_writer *w, const uint32_t *n)
{
    struct map_lease lease = fixture_lease(n[0], n[1]);

    lease.state = (enum xce_map_lease)n[2];
    lease.flags = (uint8_t)n[3];
    return map_writer_set(w, &lease);
}

static int fill(struct map_writer *w, const uint32_t *n)
{
    int r = 0;

    for (uint32_t i = 0; i < n[1] && r >= 0; i++) {
        const struct map_lease lease = fixture_lease(n[0] + i, 1);

        r = map_writer_set(w, &lease);
    }
    return r;
}

static uint64_t boot_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int run(struct map_writer *w, char *line)
{
    uint32_t n[MAX_NUMBERS] = {0};
    char *rest = strchr(line, ' ');
    size_t count = rest ? numbers(rest, n) : 0;

    if (strncmp(line, "shape", 5) == 0)
        return shape(w, n, count);
    if (strncmp(line, "set ", 4) == 0 && count >= 2)
        return set(w, n, count);
    if (strncmp(line, "lease ", 6) == 0 && count == 4)
        return set_lease(w, n);
    if (strncmp(line, "synced ", 7) == 0 && count == 1) {
        map_writer_progress(w, 1, n[0] == 1);
        return 0;
    }
    if (strncmp(line, "fill ", 5) == 0 && count == 2)
        return fill(w, n);
    if (strncmp(line, "retire ", 7) == 0 && count == 2)
        return map_writer_retire(w, n[0], n[1], 1);
    if (strncmp(line, "beat ", 5) == 0 && count == 1)
        return map_writer_beat(w, boot_ms() - n[0], 1);
    return -1;
}

int main(int argc, char *argv[])
{
    struct map_takeover how;
    struct map_writer *w;
    char line[4096];
    int r = argc == 2 ? map_writer_new(argv[1], &w, &how) : -1;

    if (r < 0) {
        (void)printf("error: %d\n", r);
        return 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)puts(how.taken ? "taken" : "new");
    while (fgets(line, sizeof(line), stdin)) {
        r = run(w, line);
        if (r < 0)
            (void)printf("error: %d\n", r);
        else
            (void)puts("ok");
    }
    map_writer_free(w, true);
    return 0;
}
