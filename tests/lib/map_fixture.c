#include "tests/lib/map_fixture.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

int fixture_cannot_run(void)
{
    if (geteuid() == 0)
        return 0;
    puts("skip: needs root, for a map that belongs to root");
    return 77;
}

bool fixture_long(void)
{
    const char *value = getenv("XCE_TEST_LONG");

    return value && strcmp(value, "1") == 0 && !getenv("XCE_TEST_SANITIZED");
}

void fixture_begin(struct map_fixture *f)
{
    *f = (struct map_fixture){.dir = "/tmp/xce-map-XXXXXX"};
    must(mkdtemp(f->dir) != NULL, "mkdtemp");
    (void)snprintf(f->path, sizeof(f->path), "%s/uidmap", f->dir);
}

void fixture_start(struct map_fixture *f)
{
    must(map_writer_new(f->path, &f->writer, &f->how) == 0, "map_writer_new");
}

void fixture_shape(struct map_fixture *f, uint32_t n)
{
    const struct map_span range = {FIXTURE_BASE, FIXTURE_BASE + n - 1};
    const struct map_shape shape = {"xce-", &range, 1};

    must(map_writer_shape(f->writer, &shape) >= 0, "map_writer_shape");
}

struct map_lease fixture_lease(uint32_t uid, uint32_t epoch)
{
    return (struct map_lease){.uid = uid,
                              .epoch = epoch,
                              .lease = (uint64_t)uid << 16 | epoch,
                              .revision = epoch,
                              .state = XCE_MAP_ACTIVE,
                              .flags = XCE_MAP_MEMBER,
                              .gecos = "xce lease",
                              .home = "/nonexistent",
                              .shell = "/usr/sbin/nologin"};
}

void fixture_set(struct map_fixture *f, uint32_t uid, uint32_t epoch)
{
    const struct map_lease lease = fixture_lease(uid, epoch);

    must(map_writer_set(f->writer, &lease) == 0, "map_writer_set");
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void fixture_end(struct map_fixture *f)
{
    map_writer_free(f->writer, true);
    f->writer = NULL;
    must(nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0, "nftw");
}
