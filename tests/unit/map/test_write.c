/* The writer: what it refuses, what a successor finds, what a reader sees meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "map/name.h"
#include "map/own.h"
#include "tests/lib/map_fixture.h"

#define BASE FIXTURE_BASE

static int setup(void **state)
{
    struct map_fixture *f = malloc(sizeof(*f));

    fixture_begin(f);
    fixture_start(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_end(*state);
    free(*state);
    return 0;
}

static int find(struct map_fixture *f, uint32_t uid, struct map_entry *entry)
{
    return map_find_uid(map_writer_map(f->writer), uid, MAP_WANT_PAIR | MAP_WANT_GIDS, entry);
}

static struct xce_map_record *record_of(struct map_fixture *f, uint32_t uid)
{
    struct xce_map_header *header = (void *)map_writer_map(f->writer)->base;

    return (struct xce_map_record *)((char *)header + header->records_at) + (uid - BASE);
}

static ino_t inode(const struct map_fixture *f)
{
    struct stat st;

    assert_int_equal(stat(f->path, &st), 0);
    return st.st_ino;
}

static off_t size(const struct map_fixture *f)
{
    struct stat st;

    assert_int_equal(stat(f->path, &st), 0);
    return st.st_size;
}

static void restart(struct map_fixture *f, bool in_order)
{
    map_writer_free(f->writer, in_order);
    fixture_start(f);
}

static void write_lease_resolves_with_all_it_has(void **state)
{
    static const uint32_t gids[] = {27, 100, 4711};
    struct map_fixture *f = *state;
    struct map_lease lease = fixture_lease(BASE + 3, 7);
    struct map_entry e;

    lease.gids = gids;
    lease.n_gids = 3;
    lease.gecos = "J\xc3\xb6rg's job, no. 1";
    fixture_shape(f, 16);
    assert_int_equal(find(f, BASE + 3, &e), MAP_ABSENT);
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    assert_int_equal(find(f, BASE + 3, &e), 0);
    assert_string_equal(map_name(&e), "xce-1w00003-7");
    assert_string_equal(map_gecos(&e), lease.gecos);
    assert_string_equal(map_home(&e), "/nonexistent");
    assert_string_equal(map_shell(&e), "/usr/sbin/nologin");
    assert_int_equal(e.record.gid, BASE + 3);
    assert_int_equal(e.record.lease, lease.lease);
    assert_int_equal(e.record.revision, 7);
    assert_int_equal(e.record.n_gids, 3);
    assert_memory_equal(map_gids(&e), gids, sizeof(gids));
    assert_true(map_here(&e));
    assert_int_equal(map_find_name(map_writer_map(f->writer), "xce-1w00003-7", 0, &e), 0);
}

static void write_without_map_refuses(void **state)
{
    struct map_fixture *f = *state;
    const struct map_lease lease = fixture_lease(BASE, 1);

    assert_null(map_writer_map(f->writer));
    assert_int_equal(map_writer_set(f->writer, &lease), -ERANGE);
    assert_int_equal(map_writer_retire(f->writer, BASE, 1, 1), -ERANGE);
    assert_int_equal(map_writer_mark(f->writer, BASE, 1, XCE_MAP_CLOSED, 0), -ERANGE);
    assert_int_equal(map_writer_beat(f->writer, 1, 1), MAP_SAME);
}

static void write_of_second_process_is_busy(void **state)
{
    struct map_fixture *f = *state;
    struct map_writer *other;
    struct map_takeover how;

    fixture_shape(f, 4);
    assert_int_equal(map_writer_new(f->path, &other, &how), -EBUSY);
    /* Removing the lock's file does not let a second one in while it can be seen, and never spoils the map. */
    map_writer_free(f->writer, true);
    fixture_start(f);
    assert_true(f->how.taken);
}

static void write_lower_epoch_is_refused(void **state)
{
    struct map_fixture *f = *state;
    struct map_lease lease = fixture_lease(BASE, 5);
    struct map_entry e;

    fixture_shape(f, 4);
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    lease.epoch = 4;
    assert_int_equal(map_writer_set(f->writer, &lease), -ESTALE);
    assert_int_equal(map_writer_retire(f->writer, BASE, 4, 9), -ESTALE);
    assert_int_equal(find(f, BASE, &e), 0);
    assert_int_equal(e.record.epoch, 5);
    /* also once it is retired */
    assert_int_equal(map_writer_retire(f->writer, BASE, 5, 9), 0);
    assert_int_equal(map_writer_set(f->writer, &lease), -ESTALE);
    assert_int_equal(find(f, BASE, &e), MAP_ABSENT);
}

static void write_closed_stays_closed_for_its_epoch(void **state)
{
    struct map_fixture *f = *state;
    struct map_lease lease = fixture_lease(BASE, 1);
    struct map_entry e;

    fixture_shape(f, 4);
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    assert_int_equal(map_writer_mark(f->writer, BASE, 2, XCE_MAP_CLOSED, 0), MAP_NOT_HELD);
    assert_int_equal(find(f, BASE, &e), 0);
    assert_true(map_here(&e));
    assert_int_equal(map_writer_mark(f->writer, BASE, 1, XCE_MAP_CLOSED | XCE_MAP_SAID_CLEAN, 0),
                     0);
    assert_int_equal(map_writer_mark(f->writer, BASE, 1, 0, XCE_MAP_CLOSED | XCE_MAP_SAID_CLEAN),
                     0);
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    assert_int_equal(find(f, BASE, &e), 0);
    assert_int_equal(e.record.flags, XCE_MAP_MEMBER | XCE_MAP_CLOSED);
    assert_false(map_here(&e));
    lease.epoch = 2;
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    assert_int_equal(find(f, BASE, &e), 0);
    assert_true(map_here(&e));
}

static void write_resolves_in_each_state_until_retired(void **state)
{
    struct map_fixture *f = *state;
    struct map_lease lease = fixture_lease(BASE, 1);
    struct map_entry e;

    fixture_shape(f, 4);
    for (int s = XCE_MAP_GRANTED; s <= XCE_MAP_COOLING; s++) {
        lease.state = (enum xce_map_lease)s;
        assert_int_equal(map_writer_set(f->writer, &lease), 0);
        assert_int_equal(find(f, BASE, &e), 0);
        assert_int_equal(map_here(&e), s <= XCE_MAP_ACTIVE);
        assert_int_equal(map_find_name(map_writer_map(f->writer), "xce-1w00000-1", 0, &e), 0);
    }
    assert_int_equal(map_writer_retire(f->writer, BASE, 1, 12), 0);
    assert_int_equal(find(f, BASE, &e), MAP_ABSENT);
    assert_int_equal(map_find_name(map_writer_map(f->writer), "xce-1w00000-1", 0, &e), MAP_ABSENT);
    /* what it knew is still there for its writer */
    assert_int_equal(map_find_uid(map_writer_map(f->writer), BASE, MAP_WANT_ANY, &e), 0);
    assert_int_equal(e.record.epoch, 1);
    assert_int_equal(e.record.revision, 12);
    assert_int_equal(e.record.lease, lease.lease);
    assert_int_equal(e.record.flags, XCE_MAP_MEMBER);
}

static void write_reuse_ends_the_old_name(void **state)
{
    struct map_fixture *f = *state;
    struct map_entry e;

    fixture_shape(f, 4);
    fixture_set(f, BASE, 1);
    fixture_set(f, BASE, 2);
    assert_int_equal(map_find_name(map_writer_map(f->writer), "xce-1w00000-1", 0, &e), MAP_ABSENT);
    assert_int_equal(map_find_name(map_writer_map(f->writer), "xce-1w00000-2", 0, &e), 0);
    assert_int_equal(map_find_name(map_writer_map(f->writer), "xce-1w00000-3", 0, &e), MAP_ABSENT);
}

static void write_bad_leases_are_refused(void **state)
{
    static const uint32_t zero = 0, minus = UINT32_MAX;
    static uint32_t many[XCE_GIDS_MAX + 1];
    char long_text[XCE_HOME_LEN_MAX + 2];
    struct map_fixture *f = *state;
    struct map_lease bad[16];
    struct map_entry e;
    int n = 0;

    memset(long_text, 'h', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    fixture_shape(f, 4);
    for (size_t i = 0; i < 16; i++)
        bad[i] = fixture_lease(BASE, 1);
    bad[n++].epoch = 0;
    bad[n++].state = XCE_MAP_NONE;
    bad[n++].state = 6;
    bad[n++].gecos = "a:b";
    bad[n++].gecos = "a\nb";
    bad[n++].gecos = "0123456789012345678901234567890123456789";
    bad[n++].home = "/a:b";
    bad[n++].home = long_text;
    bad[n++].shell = "/bin/sh\n";
    bad[n++].shell = long_text;
    bad[n].gids = &zero;
    bad[n++].n_gids = 1;
    bad[n].gids = &minus;
    bad[n++].n_gids = 1;
    bad[n].gids = many;
    bad[n++].n_gids = XCE_GIDS_MAX + 1;
    for (int i = 0; i < n; i++)
        if (map_writer_set(f->writer, &bad[i]) != -EINVAL)
            fail_msg("bad lease %d is accepted", i);
    bad[n] = fixture_lease(BASE + 4, 1);
    assert_int_equal(map_writer_set(f->writer, &bad[n]), -ERANGE);
    bad[n] = fixture_lease(BASE - 1, 1);
    assert_int_equal(map_writer_set(f->writer, &bad[n]), -ERANGE);
    assert_int_equal(map_next(map_writer_map(f->writer), 0, MAP_WANT_ANY, &e), MAP_ABSENT);
}

static void write_longest_texts_fit(void **state)
{
    char home[XCE_HOME_LEN_MAX + 1], shell[XCE_SHELL_LEN_MAX + 1], gecos[XCE_GECOS_LEN_MAX + 1];
    struct map_fixture *f = *state;
    const struct map_span range = {0x7ffdfff0, 0x7ffdffff};
    const struct map_shape shape = {"abcdefghijklmno-", &range, 1};
    struct map_lease lease = fixture_lease(0x7ffdffff, UINT32_MAX);
    struct map_entry e;

    memset(home, 'h', sizeof(home) - 1);
    memset(shell, 's', sizeof(shell) - 1);
    memset(gecos, 'g', sizeof(gecos) - 1);
    home[sizeof(home) - 1] = shell[sizeof(shell) - 1] = gecos[sizeof(gecos) - 1] = '\0';
    lease.home = home;
    lease.shell = shell;
    lease.gecos = gecos;
    assert_int_equal(map_writer_shape(f->writer, &shape), MAP_REPLACED);
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    assert_int_equal(find(f, 0x7ffdffff, &e), 0);
    assert_string_equal(map_name(&e), "abcdefghijklmno-1zzvzzz-3zzzzzz");
    assert_string_equal(map_home(&e), home);
    assert_string_equal(map_shell(&e), shell);
    assert_string_equal(map_gecos(&e), gecos);
}

static void write_bad_shapes_are_refused(void **state)
{
    static const struct {
        struct map_span range[2];
        uint32_t n;
        int error;
    } bad[] = {
        {{{0, 10}}, 1, -EINVAL},
        {{{999, 1000}}, 1, -EINVAL},
        {{{60000, 60001}}, 1, -EINVAL},
        {{{60577, 60600}}, 1, -EINVAL},
        {{{61183, 61184}}, 1, -EINVAL},
        {{{65519, 70000}}, 1, -EINVAL},
        {{{65534, 65534}}, 1, -EINVAL},
        {{{65535, 65540}}, 1, -EINVAL},
        {{{524000, 524288}}, 1, -EINVAL},
        {{{1879048191, 1879048192}}, 1, -EINVAL},
        {{{0x7ffdffff, 0x7ffe0000}}, 1, -EINVAL},
        {{{UINT32_MAX - 4, UINT32_MAX}}, 1, -EINVAL},
        {{{0x80000000, 0x80000010}}, 1, -EINVAL},
        {{{BASE + 10, BASE}}, 1, -EINVAL},
        {{{BASE, BASE + 10}, {BASE + 10, BASE + 20}}, 2, -EINVAL},
        {{{BASE, BASE + 10}, {BASE, BASE + 10}}, 2, -EINVAL},
        {{{0x70000000, 0x70000000 + XCE_UIDS_MAX}}, 1, -E2BIG},
        {{{0x70000000, 0x7ffdffff}}, 1, -E2BIG},
        {{{0, UINT32_MAX}, {0, UINT32_MAX}}, 2, -E2BIG},
    };
    struct map_fixture *f = *state;
    struct map_shape shape = {"xce-", NULL, 0};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        shape.ranges = bad[i].range;
        shape.n_ranges = bad[i].n;
        if (map_writer_shape(f->writer, &shape) != bad[i].error)
            fail_msg("bad shape %zu is accepted", i);
    }
    shape = (struct map_shape){"XCE", NULL, 0};
    assert_int_equal(map_writer_shape(f->writer, &shape), -EINVAL);
    assert_null(map_writer_map(f->writer));
    assert_int_equal(access(f->path, F_OK), -1);
}

static void write_good_shapes_at_the_edges(void **state)
{
    static const struct map_span good[] = {{1000, 1010},
                                           {60000, 60000},
                                           {60578, 60600},
                                           {61183, 61183},
                                           {65536, 65540},
                                           {524287, 524287},
                                           {1879048192, 1879048200},
                                           {2013265920, 2013265921},
                                           {0x7ffdffff, 0x7ffdffff}};
    const struct map_shape shape = {"xce-", good, sizeof(good) / sizeof(good[0])};
    struct map_fixture *f = *state;
    struct map_entry e;

    assert_int_equal(map_writer_shape(f->writer, &shape), MAP_REPLACED);
    assert_int_equal(map_writer_shape(f->writer, &shape), MAP_SAME);
    for (size_t i = 0; i < shape.n_ranges; i++) {
        struct map_lease first = fixture_lease(good[i].first, 1),
                         last = fixture_lease(good[i].last, 1);

        assert_int_equal(map_writer_set(f->writer, &first), 0);
        assert_int_equal(map_writer_set(f->writer, &last), 0);
        assert_int_equal(find(f, good[i].first, &e), 0);
        assert_int_equal(find(f, good[i].last, &e), 0);
        assert_int_equal(find(f, good[i].last + 1, &e), MAP_FOREIGN);
        assert_int_equal(find(f, good[i].first - 1, &e), MAP_FOREIGN);
    }
}

static void write_f13_restart_keeps_inode_and_size(void **state)
{
    struct map_fixture *f = *state;
    struct map_status status;
    struct map_entry e;
    ino_t ino;
    off_t bytes;

    fixture_shape(f, 64);
    fixture_set(f, BASE + 9, 4);
    map_writer_progress(f->writer, 77, true);
    map_writer_incarnation(f->writer, "cluster", 7);
    ino = inode(f);
    bytes = size(f);
    for (int i = 0; i < 5; i++) {
        restart(f, i % 2);
        assert_true(f->how.taken);
        assert_int_equal(f->how.ended, i % 2);
        assert_int_equal(f->how.repaired + f->how.dropped, 0);
        assert_int_equal(inode(f), ino);
        assert_int_equal(size(f), bytes);
        fixture_shape(f, 64);
        assert_int_equal(inode(f), ino);
        assert_int_equal(find(f, BASE + 9, &e), 0);
        fixture_set(f, BASE + 9, 5 + (uint32_t)i);
    }
    map_status(map_writer_map(f->writer), &status);
    assert_int_equal(status.writer_starts, 6);
    assert_int_equal(status.revision, 77);
    assert_true(status.synced);
    assert_memory_equal(status.incarnation, "cluster", 8);
}

static void write_other_ranges_make_a_file_that_keeps_records(void **state)
{
    static const uint32_t gids[] = {50, 51};
    const struct map_span two[] = {{BASE + 32, BASE + 127}, {BASE + 1000, BASE + 1001}};
    const struct map_shape shape = {"xce-", two, 2};
    struct map_fixture *f = *state;
    struct map_lease lease = fixture_lease(BASE + 40, 3);
    struct map_entry e;
    struct map old;
    ino_t ino;

    fixture_shape(f, 64);
    lease.gids = gids;
    lease.n_gids = 2;
    lease.flags |= XCE_MAP_CLOSED;
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    fixture_set(f, BASE + 1, 1);
    assert_int_equal(map_writer_retire(f->writer, BASE + 41, 8, 1), 0);
    map_writer_progress(f->writer, 5, true);
    assert_int_equal(map_open(f->path, &old, NULL, NULL), 0);
    ino = inode(f);
    assert_int_equal(map_writer_shape(f->writer, &shape), MAP_REPLACED);
    assert_int_not_equal(inode(f), ino);
    assert_true(map_superseded(&old));
    map_close(&old);
    assert_int_equal(find(f, BASE + 1, &e), MAP_FOREIGN);
    assert_int_equal(find(f, BASE + 40, &e), 0);
    assert_int_equal(e.record.flags, XCE_MAP_MEMBER | XCE_MAP_CLOSED);
    assert_memory_equal(map_gids(&e), gids, sizeof(gids));
    assert_int_equal(map_find_uid(map_writer_map(f->writer), BASE + 41, MAP_WANT_ANY, &e), 0);
    assert_int_equal(e.record.epoch, 8);
    restart(f, true);
    assert_true(f->how.taken);
    assert_int_equal(f->how.dropped, 0);
}

/* A writer killed between the rename and the mark: its successor tells the readers of the old file. */
static void write_killed_before_it_told_readers_is_made_good(void **state)
{
    struct map_fixture *f = *state;
    char aside[128], copy[128];
    struct map old;

    fixture_shape(f, 8);
    assert_int_equal(map_open(f->path, &old, NULL, NULL), 0);
    (void)snprintf(aside, sizeof(aside), "%s.old", f->path);
    (void)snprintf(copy, sizeof(copy), "%s.keep", f->path);
    assert_int_equal(link(f->path, copy), 0);
    fixture_shape(f, 16);
    /* as it was at that moment */
    assert_int_equal(rename(copy, aside), 0);
    __atomic_store_n((uint32_t *)((char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                                               open(aside, O_RDWR | O_CLOEXEC), 0) +
                                  offsetof(struct xce_map_header, state)),
                     XCE_MAP_ALIVE, __ATOMIC_RELAXED);
    assert_false(map_superseded(&old));
    restart(f, false);
    assert_true(f->how.taken);
    assert_true(map_superseded(&old));
    assert_int_equal(access(aside, F_OK), -1);
    map_close(&old);
    /* killed before the rename: both names are one live file */
    assert_int_equal(link(f->path, aside), 0);
    restart(f, false);
    assert_true(f->how.taken);
    assert_false(map_superseded(map_writer_map(f->writer)));
    assert_int_equal(access(aside, F_OK), -1);
}

static void write_removed_map_is_written_again(void **state)
{
    struct map_fixture *f = *state;
    struct map_entry e;
    struct map old, new;

    fixture_shape(f, 8);
    fixture_set(f, BASE, 1);
    assert_int_equal(map_writer_beat(f->writer, 1000, 900), MAP_SAME);
    assert_int_equal(map_open(f->path, &old, NULL, NULL), 0);
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(map_writer_beat(f->writer, 2000, 0), MAP_REPLACED);
    assert_true(map_superseded(&old));
    map_close(&old);
    assert_int_equal(map_open(f->path, &new, NULL, NULL), 0);
    assert_int_equal(map_find_uid(&new, BASE, 0, &e), 0);
    map_close(&new);
    /* a file of someone else in its place */
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(symlink("/etc/passwd", f->path), 0);
    assert_int_equal(map_writer_beat(f->writer, 3000, 2900), MAP_REPLACED);
    assert_int_equal(map_open(f->path, &new, NULL, NULL), 0);
    map_close(&new);
}

/* Whatever is in the pages now: the writer goes by what it knows itself, and stays within the file. */
static void write_overwritten_map_is_noticed_and_harmless(void **state)
{
    struct map_fixture *f = *state;
    struct map_lease lease = {.uid = BASE,
                              .epoch = UINT32_MAX,
                              .state = XCE_MAP_ACTIVE,
                              .gecos = "",
                              .home = "/",
                              .shell = "/bin/sh"};
    struct stat st;
    int fd;

    fixture_shape(f, 64);
    fixture_set(f, BASE, 1);
    assert_int_equal(stat(f->path, &st), 0);
    fd = open(f->path, O_WRONLY);
    assert_return_code(fd, errno);
    for (off_t at = 0; at < st.st_size; at += 4)
        assert_int_equal(pwrite(fd, &(uint32_t){0xfefefefe}, 4, at), 4);
    (void)close(fd);
    for (uint32_t uid = BASE; uid < BASE + 64; uid++) {
        lease.uid = uid;
        (void)map_writer_set(f->writer, &lease);
        (void)map_writer_mark(f->writer, uid, UINT32_MAX, XCE_MAP_CLOSED, 0);
        (void)map_writer_retire(f->writer, uid, UINT32_MAX, 9);
    }
    assert_int_equal(map_writer_beat(f->writer, 1, 1), MAP_DAMAGED);
    map_writer_free(f->writer, false);
    fixture_start(f);
    assert_false(f->how.taken);
    fixture_shape(f, 64);
    fixture_set(f, BASE + 63, 1);
}

static void write_cut_map_is_noticed(void **state)
{
    struct map_fixture *f = *state;

    fixture_shape(f, 64);
    assert_int_equal(truncate(f->path, 4096), 0);
    assert_int_equal(map_writer_beat(f->writer, 1, 1), MAP_DAMAGED);
    map_writer_free(f->writer, false);
    fixture_start(f);
    assert_false(f->how.taken);
    assert_string_equal(f->how.why, "is damaged: size");
    fixture_shape(f, 64);
    fixture_set(f, BASE + 63, 1);
}

static void write_untrusted_files_are_not_taken(void **state)
{
    struct map_fixture *f = *state;
    struct map_span range = {BASE, BASE + 7};
    const struct map_shape shape = {"xce-", &range, 1};

    for (int kind = 0; kind < 7; kind++) {
        fixture_shape(f, 8);
        map_writer_free(f->writer, true);
        f->writer = NULL;
        if (kind == 0)
            assert_int_equal(chmod(f->path, 0666), 0);
        else if (kind == 1)
            assert_int_equal(chown(f->path, 1000, 0), 0);
        else if (kind == 2)
            assert_int_equal(truncate(f->path, size(f) - 4096), 0);
        else if (kind == 3)
            assert_int_equal(truncate(f->path, 0), 0);
        else if (kind == 4)
            assert_int_equal(truncate(f->path, size(f) + 4096), 0);
        else
            assert_int_equal(unlink(f->path), 0);
        if (kind == 5)
            assert_int_equal(symlink("/etc/passwd", f->path), 0);
        if (kind == 6)
            assert_int_equal(mkfifo(f->path, 0600), 0);
        fixture_start(f);
        assert_false(f->how.taken);
        assert_non_null(f->how.why);
        assert_null(map_writer_map(f->writer));
        assert_int_equal(map_writer_shape(f->writer, &shape), MAP_REPLACED);
    }
}

static void write_odd_record_is_finished_by_the_successor(void **state)
{
    struct map_fixture *f = *state;
    struct xce_map_record *record;
    struct map_entry e;

    fixture_shape(f, 8);
    fixture_set(f, BASE + 2, 1);
    fixture_set(f, BASE + 2, 2);
    /* as if it had been killed in the middle: half of the words are those of the first epoch */
    record = record_of(f, BASE + 2);
    record->seq--;
    record->epoch = 1;
    record->text[12] = '1';
    /* a reader does not wait for the successor */
    assert_int_equal(find(f, BASE + 2, &e), 0);
    assert_string_equal(map_name(&e), "xce-1w00002-2");
    restart(f, false);
    assert_int_equal(f->how.repaired, 1);
    assert_int_equal(f->how.dropped, 0);
    assert_int_equal(record_of(f, BASE + 2)->seq % 2, 0);
    assert_int_equal(find(f, BASE + 2, &e), 0);
    assert_string_equal(map_name(&e), "xce-1w00002-2");
    assert_int_equal(record_of(f, BASE + 2)->epoch, 2);
}

static void write_damaged_records_are_emptied_and_counted_once(void **state)
{
    struct map_fixture *f = *state;
    struct map_entry e;

    fixture_shape(f, 8);
    for (uint32_t i = 0; i < 4; i++)
        fixture_set(f, BASE + i, 1);
    record_of(f, BASE)->seq |= 1; /* the intent is for another one */
    record_of(f, BASE + 1)->epoch ^= 4;
    record_of(f, BASE + 2)->pair = 3;
    restart(f, false);
    assert_int_equal(f->how.dropped, 3);
    assert_int_equal(f->how.repaired, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(find(f, BASE + i, &e), MAP_ABSENT);
    assert_int_equal(find(f, BASE + 3, &e), 0);
    restart(f, true);
    assert_int_equal(f->how.dropped, 0);
    fixture_set(f, BASE, 2);
    assert_int_equal(find(f, BASE, &e), 0);
}

static void write_room_for_gids_grows(void **state)
{
    uint32_t gids[XCE_GIDS_MAX];
    struct map_fixture *f = *state;
    struct map_lease lease = fixture_lease(BASE, 1);
    struct map_entry e;

    fixture_shape(f, 64);
    lease.gids = gids;
    for (uint32_t round = 1; round <= 3; round++) {
        for (uint32_t i = 0; i < 64; i++) {
            lease.uid = BASE + i;
            lease.epoch = round;
            lease.n_gids = round == 2 ? i % 40 : XCE_GIDS_MAX;
            for (uint32_t k = 0; k < lease.n_gids; k++)
                gids[k] = 1000 * i + k + round;
            assert_int_equal(map_writer_set(f->writer, &lease), 0);
        }
        for (uint32_t i = 0; i < 64; i++) {
            assert_int_equal(find(f, BASE + i, &e), 0);
            assert_int_equal(e.record.n_gids, round == 2 ? i % 40 : XCE_GIDS_MAX);
            for (uint32_t k = 0; k < e.record.n_gids; k++)
                assert_int_equal(map_gids(&e)[k], 1000 * i + k + round);
        }
        restart(f, true);
        assert_int_equal(f->how.dropped, 0);
    }
}

static void write_homes_are_shared_and_given_back(void **state)
{
    struct map_fixture *f = *state;
    struct map_lease lease = fixture_lease(BASE, 1);
    struct map_entry e;
    char home[32];

    fixture_shape(f, 256);
    lease.home = home;
    for (uint32_t i = 0; i < 129; i++) {
        lease.uid = BASE + i;
        (void)snprintf(home, sizeof(home), "/home/%u", i);
        assert_int_equal(map_writer_set(f->writer, &lease), i < XCE_MAP_PAIRS ? 0 : -EMLINK);
    }
    restart(f, true);
    assert_int_equal(map_writer_set(f->writer, &lease), -EMLINK);
    /* the last user of a home goes */
    assert_int_equal(map_writer_retire(f->writer, BASE + 5, 1, 2), 0);
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    for (uint32_t i = 0; i < 129; i++) {
        (void)snprintf(home, sizeof(home), "/home/%u", i);
        if (i == 5)
            continue;
        assert_int_equal(find(f, BASE + i, &e), 0);
        assert_string_equal(map_home(&e), home);
    }
}

/* F12: in a name space of this process alone. */
static void write_f12_full_disk_is_an_error_and_spoils_nothing(void **state)
{
    struct map_fixture *f = *state;
    const struct map_span range = {BASE, BASE + 65535};
    const struct map_shape big = {"xce-", &range, 1};
    char junk[128], temp[128];
    struct map_entry e;
    int fd;

    map_writer_free(f->writer, true);
    f->writer = NULL;
    if (unshare(CLONE_NEWNS) < 0) {
        fixture_start(f);
        skip();
    }
    assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(mount("none", f->dir, "tmpfs", 0, "size=1m,mode=0755"), 0);
    fixture_start(f);
    fixture_shape(f, 1024);
    fixture_set(f, BASE, 1);
    (void)snprintf(temp, sizeof(temp), "%s.new", f->path);
    assert_int_equal(map_writer_shape(f->writer, &big), -ENOSPC);
    assert_int_equal(access(temp, F_OK), -1);
    /* not a byte left: what is there goes on, also after a restart */
    (void)snprintf(junk, sizeof(junk), "%s/junk", f->dir);
    fd = open(junk, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, temp, sizeof(temp)) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    for (uint32_t i = 0; i < 1024; i++)
        fixture_set(f, BASE + i, 2);
    restart(f, false);
    assert_true(f->how.taken);
    assert_int_equal(find(f, BASE + 1023, &e), 0);
    assert_int_equal(map_writer_shape(f->writer, &big), -ENOSPC);
    /* room again */
    assert_int_equal(ftruncate(fd, 0), 0);
    (void)close(fd);
    fixture_shape(f, 2048);
    assert_int_equal(find(f, BASE + 1023, &e), 0);
    map_writer_free(f->writer, true);
    f->writer = NULL;
    assert_int_equal(umount2(f->dir, MNT_DETACH), 0);
}

static void check_all(struct map_fixture *f, uint32_t n)
{
    char name[NAME_BUF];
    struct map_entry e;

    for (uint32_t i = 0; i < n; i++) {
        int r = find(f, BASE + i, &e);

        if (r == MAP_ABSENT)
            continue;
        assert_int_equal(r, 0);
        (void)name_encode("xce-", BASE + i, e.record.epoch, name);
        assert_string_equal(map_name(&e), name);
        assert_int_equal(e.record.revision, e.record.epoch);
        assert_int_equal(e.record.lease, (uint64_t)(BASE + i) << 16 | e.record.epoch);
        assert_int_equal(strtoul(map_home(&e) + 6, NULL, 10), e.record.epoch % 100);
        assert_int_equal(e.record.n_gids, e.record.epoch % 40);
        for (uint32_t k = 0; k < e.record.n_gids; k++)
            assert_int_equal(map_gids(&e)[k], e.record.epoch + k);
    }
}

/* Writes until it is killed. */
static void write_for_ever(struct map_fixture *f, uint32_t n, uint32_t epoch)
{
    uint32_t gids[40];
    char home[32];

    for (;; epoch++) {
        struct map_lease lease = fixture_lease(BASE + epoch * 7 % n, epoch);

        (void)snprintf(home, sizeof(home), "/home/%u", epoch % 100);
        lease.home = home;
        lease.gids = gids;
        lease.n_gids = epoch % 40;
        for (uint32_t k = 0; k < lease.n_gids; k++)
            gids[k] = epoch + k;
        if (map_writer_set(f->writer, &lease) < 0)
            _exit(1);
        map_writer_progress(f->writer, epoch, true);
        if (epoch % 97 == 0 && map_writer_retire(f->writer, lease.uid, epoch, epoch) < 0)
            _exit(2);
    }
}

static void write_f46_killed_at_any_point_leaves_a_sound_map(void **state)
{
    struct map_fixture *f = *state;
    int rounds = fixture_long() ? 1000 : 60, status;
    uint64_t last = 0;
    struct map map;
    struct map_status now;

    fixture_shape(f, 16);
    map_writer_free(f->writer, true);
    f->writer = NULL;
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            fixture_start(f);
            write_for_ever(f, 16, (uint32_t)last + 2);
        }
        /* until it is at it: the successor of the one before has written something */
        do {
            assert_int_equal(map_open(f->path, &map, NULL, NULL), 0);
            map_status(&map, &now);
            map_close(&map);
        } while (now.revision <= last + 5 + (uint64_t)(i * 37 % 400));
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        fixture_start(f);
        assert_true(f->how.taken);
        assert_int_equal(f->how.dropped, 0);
        check_all(f, 16);
        map_status(map_writer_map(f->writer), &now);
        last = now.revision;
        map_writer_free(f->writer, false);
        f->writer = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_lease_resolves_with_all_it_has, setup, teardown),
        cmocka_unit_test_setup_teardown(write_without_map_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(write_of_second_process_is_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(write_lower_epoch_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(write_closed_stays_closed_for_its_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(write_resolves_in_each_state_until_retired, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_reuse_ends_the_old_name, setup, teardown),
        cmocka_unit_test_setup_teardown(write_bad_leases_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(write_longest_texts_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(write_bad_shapes_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(write_good_shapes_at_the_edges, setup, teardown),
        cmocka_unit_test_setup_teardown(write_f13_restart_keeps_inode_and_size, setup, teardown),
        cmocka_unit_test_setup_teardown(write_other_ranges_make_a_file_that_keeps_records, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_killed_before_it_told_readers_is_made_good, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_removed_map_is_written_again, setup, teardown),
        cmocka_unit_test_setup_teardown(write_overwritten_map_is_noticed_and_harmless, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_cut_map_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(write_untrusted_files_are_not_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(write_odd_record_is_finished_by_the_successor, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_damaged_records_are_emptied_and_counted_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_room_for_gids_grows, setup, teardown),
        cmocka_unit_test_setup_teardown(write_homes_are_shared_and_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(write_f12_full_disk_is_an_error_and_spoils_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write_f46_killed_at_any_point_leaves_a_sound_map, setup,
                                        teardown),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
