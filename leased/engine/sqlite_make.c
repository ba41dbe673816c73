/* The file of a single replica out of a state: for a backup that is restored. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "leased/engine/engine.h"
#include "leased/engine/sqlite.h"

#define PART_BYTES (64u << 10)
/* What the state counts as: there is no log before it. */
#define ENTRY 1

static_assert(SQLFILE_WHY_MAX == ENGINE_WHY_MAX, "sentences are handed on");

static int write_state(struct sqlite_file *file, const uint8_t *bytes, size_t len)
{
    unsigned n_parts = 0;
    uint32_t crc = 0;
    int r = 0;

    for (size_t at = 0; r == 0 && at < len; at += PART_BYTES) {
        size_t part = len - at < PART_BYTES ? len - at : PART_BYTES;

        crc = digest_crc32c(crc, bytes + at, part);
        r = sqlite_snapshot_part(file, ENTRY, n_parts++, bytes + at, part);
    }
    return r == 0 ? sqlite_snapshot_finish(file, ENTRY, n_parts, len, crc) : r;
}

static int make(const char *path, const uint8_t *state, size_t len, char why[static ENGINE_WHY_MAX])
{
    struct sqlite_file *file;
    int r = sqlite_open(path, &file, why);

    if (r < 0)
        return r;
    r = sqlite_begin(file);
    if (r == 0)
        r = write_state(file, state, len);
    if (r != 0)
        (void)snprintf(why, ENGINE_WHY_MAX, "%s", sqlite_why(file));
    sqlite_close(file);
    return r > 0 ? -EIO : r;
}

/* As a leased will: whole, needing nothing beside it, and with this state in it. */
static int check(const char *path, const uint8_t *state, size_t len,
                 char why[static ENGINE_WHY_MAX])
{
    auto_free uint8_t *bytes = NULL;
    struct sqlite_file *file;
    size_t found;
    int r = sqlite_open(path, &file, why);

    if (r < 0)
        return r;
    r = sqlite_read_snapshot(file, &bytes, &found, why);
    sqlite_close(file);
    if (r == 0 && (found != len || memcmp(bytes, state, len) != 0)) {
        (void)snprintf(why, ENGINE_WHY_MAX, "%s: holds another state than was written", path);
        r = -EIO;
    }
    return r;
}

int engine_make_sqlite(const char *path, const uint8_t *state, size_t len,
                       char why[static ENGINE_WHY_MAX])
{
    static const char *const suffixes[] = {"", "-wal", "-journal", "-shm", ".new"};
    char name[PATH_MAX];
    int r;

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (snprintf(name, sizeof name, "%s%s", path, suffixes[i]) < (int)sizeof name)
            (void)unlink(name);
    r = make(path, state, len, why);
    if (r == 0 && snprintf(name, sizeof name, "%s-wal", path) < (int)sizeof name)
        (void)unlink(name);
    if (r == 0)
        r = check(path, state, len, why);
    if (r == 0 && (r = fs_sync_parent(AT_FDCWD, path)) < 0)
        (void)snprintf(why, ENGINE_WHY_MAX, "%s: %s", path, strerror(-r));
    return r;
}
