/* A writer that takes over a map that anything may have been done to: it keeps what is sound, drops the rest, and what it
 * leaves can be read and written. Needs root, whose the file must be. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "map/read.h"
#include "map/write.h"
#include "tests/fuzz/map_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64], lock[80];

static void clear_away(void)
{
    (void)unlink(path);
    (void)unlink(lock);
}

static void must(int condition)
{
    if (!condition)
        abort();
}

static void write_file(const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    must(close(fd) == 0);
}

static void use(struct map_writer *w)
{
    static const uint32_t gids[20] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                      11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    struct map_lease lease = {.uid = IMAGE_BASE + 1,
                              .epoch = UINT32_MAX,
                              .state = XCE_MAP_GRANTED,
                              .gecos = "",
                              .home = "/other",
                              .shell = "/bin",
                              .gids = gids,
                              .n_gids = 20};
    struct map_entry e;
    uint32_t next = 0;

    for (uint32_t uid = IMAGE_BASE; uid < IMAGE_BASE + 104; uid += 33) {
        lease.uid = uid;
        if (map_writer_set(w, &lease) == 0)
            must(map_find_uid(map_writer_map(w), uid, MAP_WANT_PAIR | MAP_WANT_GIDS, &e) == 0);
    }
    while (map_next(map_writer_map(w), next, MAP_WANT_ANY, &e) == 0) {
        next = e.record.uid + 1;
        must(map_writer_retire(w, e.record.uid, UINT32_MAX, 1) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char sound[IMAGE_BYTES] __attribute__((aligned(64)));
    static char image[IMAGE_BYTES] __attribute__((aligned(64)));
    struct map_takeover how;
    struct map_writer *w;

    if (geteuid() != 0)
        return 0;
    if (sound[0] == 0) {
        image_make(sound);
        (void)snprintf(path, sizeof(path), "/dev/shm/xce-fuzz-%d", (int)getpid());
        (void)snprintf(lock, sizeof(lock), "%s.lock", path);
        must(atexit(clear_away) == 0);
    }
    memcpy(image, sound, IMAGE_BYTES);
    image_change(image, data, size);
    write_file(image, IMAGE_BYTES);
    must(map_writer_new(path, &w, &how) == 0);
    if (how.taken) {
        use(w);
        map_writer_free(w, true);
        /* what it left, the next one takes as it is */
        must(map_writer_new(path, &w, &how) == 0 && how.taken && how.dropped == 0 &&
             how.repaired == 0);
    }
    map_writer_free(w, true);
    return 0;
}
