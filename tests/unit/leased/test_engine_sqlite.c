/* The engine's file: what was committed is read back, what was damaged is named, what failed is known. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/digest.h"
#include "common/fsutil.h"
#include "leased/engine/sqlite.h"
#include "leased/engine/wal_check.h"
#include "tests/lib/disk_fault.h"

struct fixture {
    char folder[64], path[96], wal[112];
    struct sqlite_file *file;
    char why[SQLFILE_WHY_MAX];
    uint64_t replayed; /* entries seen by the last reading, all as expected */
};

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    (void)snprintf(fx->folder, sizeof fx->folder, "/var/tmp/xce-engine.XXXXXX");
    assert_non_null(mkdtemp(fx->folder));
    (void)snprintf(fx->path, sizeof fx->path, "%s/leased.db", fx->folder);
    (void)snprintf(fx->wal, sizeof fx->wal, "%s-wal", fx->path);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    disk_fault_disarm();
    sqlite_close(fx->file);
    (void)unlink(fx->path);
    (void)unlink(fx->wal);
    assert_int_equal(rmdir(fx->folder), 0);
    free(fx);
    return 0;
}

/* ---- words ---- */

/* Entry n: its length and bytes follow from n. */
static size_t entry_bytes(uint64_t n, uint8_t *bytes)
{
    size_t len = 40 + (size_t)(n * 37 % 900);

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(n * 131 + i);
    memcpy(bytes, "entry", 5);
    return len;
}

static int expect_entry(uint64_t index, const uint8_t *entry, size_t len, void *arg)
{
    struct fixture *fx = arg;
    uint8_t want[1024];

    assert_int_equal(index, fx->replayed + 1);
    assert_int_equal(len, entry_bytes(index, want));
    assert_memory_equal(entry, want, len);
    fx->replayed = index;
    return 0;
}

static int open_file(struct fixture *fx)
{
    int r = sqlite_open(fx->path, &fx->file, fx->why);

    if (r < 0)
        fx->file = NULL;
    return r;
}

/* Read it whole, from `from` on; what replay says. */
static int read_file(struct fixture *fx)
{
    struct sqlite_position at;

    sqlite_get_position(fx->file, &at);
    fx->replayed = at.snapshot_entry;
    return sqlite_replay(fx->file, expect_entry, fx, fx->why);
}

static void open_whole(struct fixture *fx, uint64_t last)
{
    struct sqlite_position at;
    int r = open_file(fx);

    if (r < 0)
        fail_msg("open: %d %s", r, fx->why);
    assert_int_equal(read_file(fx), 0);
    assert_int_equal(sqlite_begin(fx->file), 0);
    sqlite_get_position(fx->file, &at);
    assert_int_equal(at.last_entry, last);
    assert_int_equal(fx->replayed, last);
}

static int append(struct fixture *fx)
{
    struct sqlite_position at;
    uint8_t bytes[1024];

    sqlite_get_position(fx->file, &at);
    return sqlite_append(fx->file, bytes, entry_bytes(at.last_entry + 1, bytes));
}

static void append_many(struct fixture *fx, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(append(fx), 0);
}

static void close_file(struct fixture *fx)
{
    sqlite_close(fx->file);
    fx->file = NULL;
}

/* A child writes n entries and dies as by kill -9: nothing is closed. */
static void write_and_die(struct fixture *fx, unsigned n)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (open_file(fx) < 0 || sqlite_begin(fx->file) < 0)
            _exit(1);
        for (unsigned i = 0; i < n; i++)
            if (append(fx) != 0)
                _exit(2);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static off_t file_len(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : -1;
}

static void flip_byte(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

/* The nth place (from 1) where the text stands in the file; -1 none. */
static off_t find_text(const char *path, const char *text, unsigned nth)
{
    char *bytes, *at;
    size_t len;
    off_t found = -1;

    assert_int_equal(fs_read_file(AT_FDCWD, path, 64 << 20, &bytes, &len), 0);
    for (at = bytes; nth > 0 && at; nth--) {
        at = memmem(at, (size_t)(bytes + len - at), text, strlen(text));
        found = at ? at++ - bytes : -1;
    }
    free(bytes);
    return found;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    char *error = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* It is refused, and the sentence names the file and what else must be in it. */
static void expect_refused(struct fixture *fx, int r, const char *word)
{
    int got = open_file(fx);

    if (got == 0) {
        got = read_file(fx);
        close_file(fx);
    }
    assert_int_equal(got, r);
    assert_non_null(strstr(fx->why, fx->path));
    if (!strstr(fx->why, word))
        fail_msg("no \"%s\" in: %s", word, fx->why);
}

/* ---- reading back ---- */

static void sqlite_reopened_has_all_entries(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 300);
    close_file(fx);
    open_whole(fx, 300);
    append_many(fx, 1);
    close_file(fx);
    open_whole(fx, 301);
}

static void sqlite_killed_has_all_entries(void **state)
{
    struct fixture *fx = *state;

    write_and_die(fx, 50);
    write_and_die(fx, 1);
    write_and_die(fx, 0);
    write_and_die(fx, 200);
    open_whole(fx, 251);
}

static void sqlite_closed_in_order_needs_no_wal(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 20);
    close_file(fx);
    assert_int_equal(unlink(fx->wal), 0);
    open_whole(fx, 20);
}

static void sqlite_half_made_file_is_made_anew(void **state)
{
    struct fixture *fx = *state;
    char half[128];
    int fd;

    (void)snprintf(half, sizeof half, "%s.new", fx->path);
    fd = open(half, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "half", 4), 4);
    (void)close(fd);
    open_whole(fx, 0);
    assert_int_equal(file_len(half), -1);
}

static void sqlite_file_is_private(void **state)
{
    struct fixture *fx = *state;
    struct stat st;

    open_whole(fx, 0);
    append_many(fx, 1);
    assert_int_equal(stat(fx->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(fx->wal, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void sqlite_commit_is_one_sync(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 10);
    (void)disk_fault_syncs(".db-wal");
    append_many(fx, 100);
    assert_int_equal(disk_fault_syncs(".db"), 100);
    append_many(fx, 100);
    assert_int_equal(disk_fault_syncs(".db"), 0);
}

static void sqlite_wal_stays_bounded(void **state)
{
    struct fixture *fx = *state;
    off_t len;

    open_whole(fx, 0);
    append_many(fx, 1);
    len = file_len(fx->wal);
    for (int i = 0; i < 5000; i++) {
        append_many(fx, 1);
        if (sqlite_checkpoint_needed(fx->file))
            assert_int_equal(sqlite_checkpoint(fx->file), 0);
    }
    assert_int_equal(file_len(fx->wal), len);
}

/* ---- snapshots ---- */

static void write_snapshot(struct fixture *fx, uint64_t entry, const char *text)
{
    size_t half = strlen(text) / 2;

    assert_int_equal(sqlite_snapshot_part(fx->file, entry, 0, (const uint8_t *)text, half), 0);
    assert_int_equal(
        sqlite_snapshot_part(fx->file, entry, 1, (const uint8_t *)text + half, strlen(text) - half),
        0);
    assert_int_equal(sqlite_snapshot_finish(fx->file, entry, 2, strlen(text),
                                            digest_crc32c(0, text, strlen(text))),
                     0);
}

static void cut_all(struct fixture *fx)
{
    while (sqlite_cut_needed(fx->file))
        assert_int_equal(sqlite_cut(fx->file), 0);
}

static void expect_snapshot(struct fixture *fx, const char *text)
{
    uint8_t *bytes;
    size_t len;
    int r = sqlite_read_snapshot(fx->file, &bytes, &len, fx->why);

    if (r < 0)
        fail_msg("%s", fx->why);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(bytes, text, len);
    free(bytes);
}

static void sqlite_snapshot_replaces_the_log_before_it(void **state)
{
    struct fixture *fx = *state;
    struct sqlite_position at;

    open_whole(fx, 0);
    append_many(fx, 100);
    write_snapshot(fx, 70, "the first state");
    cut_all(fx);
    sqlite_get_position(fx->file, &at);
    assert_int_equal(at.first_entry, 71);
    append_many(fx, 10);
    close_file(fx);
    open_whole(fx, 110);
    sqlite_get_position(fx->file, &at);
    assert_int_equal(at.snapshot_entry, 70);
    assert_int_equal(at.first_entry, 71);
    expect_snapshot(fx, "the first state");
}

static void sqlite_snapshot_of_all_leaves_an_empty_log(void **state)
{
    struct fixture *fx = *state;
    struct sqlite_position at;

    open_whole(fx, 0);
    append_many(fx, 40);
    write_snapshot(fx, 40, "the first state");
    cut_all(fx);
    sqlite_get_position(fx->file, &at);
    assert_int_equal(at.log_bytes, 0);
    close_file(fx);
    open_whole(fx, 40);
    append_many(fx, 3);
    write_snapshot(fx, 43, "the second state, which is longer");
    cut_all(fx);
    close_file(fx);
    open_whole(fx, 43);
    expect_snapshot(fx, "the second state, which is longer");
}

static void sqlite_unfinished_snapshot_is_as_none(void **state)
{
    struct fixture *fx = *state;
    struct sqlite_position at;

    open_whole(fx, 0);
    append_many(fx, 30);
    write_snapshot(fx, 10, "the first state");
    assert_int_equal(sqlite_snapshot_part(fx->file, 20, 0, (const uint8_t *)"lost", 4), 0);
    close_file(fx);
    open_whole(fx, 30);
    sqlite_get_position(fx->file, &at);
    assert_int_equal(at.snapshot_entry, 10);
    expect_snapshot(fx, "the first state");
    /* Again for the same entry, with other parts. */
    write_snapshot(fx, 20, "the second state, which is longer");
    cut_all(fx);
    close_file(fx);
    open_whole(fx, 30);
    expect_snapshot(fx, "the second state, which is longer");
}

static void sqlite_cut_half_done_goes_on_after_a_restart(void **state)
{
    struct fixture *fx = *state;
    struct sqlite_position at;

    open_whole(fx, 0);
    append_many(fx, 100);
    write_snapshot(fx, 90, "the first state");
    assert_int_equal(sqlite_cut(fx->file), 0);
    close_file(fx);
    open_whole(fx, 100);
    sqlite_get_position(fx->file, &at);
    assert_in_range(at.first_entry, 2, 90);
    cut_all(fx);
    sqlite_get_position(fx->file, &at);
    assert_int_equal(at.first_entry, 91);
}

static void sqlite_file_does_not_grow_with_snapshots(void **state)
{
    struct fixture *fx = *state;
    static char text[200000];
    off_t len = 0;

    memset(text, 'x', sizeof text - 1);
    open_whole(fx, 0);
    for (unsigned round = 1; round <= 20; round++) {
        append_many(fx, 50);
        write_snapshot(fx, 50 * round, text);
        cut_all(fx);
        assert_int_equal(sqlite_checkpoint(fx->file), 0);
        if (round == 3)
            len = file_len(fx->path);
    }
    assert_in_range(file_len(fx->path), 1, len + 65536);
}

/* ---- damage ---- */

static void sqlite_foreign_files_are_refused(void **state)
{
    struct fixture *fx = *state;
    int fd = open(fx->path, O_RDWR | O_CREAT, 0600);

    expect_refused(fx, -EBADMSG, "application id");
    assert_int_equal(
        write(fd,
              "#!/bin/sh\necho this is no database, but long enough to be read as one, "
              "for its header of a hundred bytes\n",
              106),
        106);
    (void)close(fd);
    expect_refused(fx, -EBADMSG, "not a database");
    assert_int_equal(unlink(fx->path), 0);
    run_sql(fx->path, "CREATE TABLE t(x)");
    expect_refused(fx, -EBADMSG, "not a file of leased");
    assert_int_equal(unlink(fx->path), 0);
    assert_int_equal(mkdir(fx->path, 0700), 0);
    expect_refused(fx, -EISDIR, "directory");
    assert_int_equal(rmdir(fx->path), 0);
    assert_int_equal(mkfifo(fx->path, 0600), 0);
    expect_refused(fx, -EINVAL, "regular");
}

static void sqlite_newer_format_is_refused(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 3);
    close_file(fx);
    run_sql(fx->path, "PRAGMA user_version = 2");
    expect_refused(fx, -EBADMSG, "format 2");
}

static void sqlite_second_opener_is_refused(void **state)
{
    struct fixture *fx = *state;
    int status;
    pid_t pid;

    open_whole(fx, 0);
    append_many(fx, 3);
    pid = fork();
    if (pid == 0) {
        struct sqlite_file *other;
        int r = sqlite_open(fx->path, &other, fx->why);

        _exit(r == -EBUSY && strstr(fx->why, "another process") ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    append_many(fx, 3);
    close_file(fx);
    open_whole(fx, 6);
}

static void sqlite_damaged_row_is_named(void **state)
{
    struct fixture *fx = *state;
    off_t at;

    open_whole(fx, 0);
    append_many(fx, 60);
    close_file(fx);
    at = find_text(fx->path, "entry", 30);
    assert_true(at > 0);
    flip_byte(fx->path, at + 20);
    expect_refused(fx, -EBADMSG, "table log, row ");
    assert_non_null(strstr(fx->why, "checksum"));
    assert_non_null(strstr(fx->why, "restore a backup"));
}

static void sqlite_missing_rows_are_named(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 60);
    close_file(fx);
    run_sql(fx->path, "DELETE FROM log WHERE idx = 17");
    expect_refused(fx, -EBADMSG, "59 rows from 1 to 60");
    run_sql(fx->path, "UPDATE log SET idx = 17 WHERE idx = 60");
    expect_refused(fx, -EBADMSG, "table log, row 17");
    run_sql(fx->path, "DROP TABLE log");
    expect_refused(fx, -EBADMSG, "no such table");
}

static void sqlite_log_must_reach_the_snapshot(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 60);
    write_snapshot(fx, 40, "the first state");
    cut_all(fx);
    close_file(fx);
    run_sql(fx->path, "DELETE FROM log WHERE idx = 41");
    expect_refused(fx, -EBADMSG, "behind the snapshot at 40");
}

static void refuse_snapshot(struct fixture *fx, const char *word)
{
    uint8_t *bytes;
    size_t len;

    assert_int_equal(open_file(fx), 0);
    assert_int_equal(sqlite_read_snapshot(fx->file, &bytes, &len, fx->why), -EBADMSG);
    close_file(fx);
    assert_non_null(strstr(fx->why, fx->path));
    if (!strstr(fx->why, word))
        fail_msg("no \"%s\" in: %s", word, fx->why);
}

static void sqlite_damaged_snapshot_is_named(void **state)
{
    struct fixture *fx = *state;
    off_t at;

    open_whole(fx, 0);
    append_many(fx, 60);
    write_snapshot(fx, 40, "the second state, which is longer");
    close_file(fx);
    at = find_text(fx->path, "which is longer", 1);
    assert_true(at > 0);
    flip_byte(fx->path, at);
    refuse_snapshot(fx, "table snapshot, row 40");
    flip_byte(fx->path, at);
    run_sql(fx->path, "DELETE FROM part WHERE seq = 1");
    refuse_snapshot(fx, "part 1 is missing");
    run_sql(fx->path, "UPDATE snapshot SET parts = 1");
    refuse_snapshot(fx, "bytes instead of");
}

static void sqlite_damaged_tree_is_refused(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 400);
    close_file(fx);
    /* The header of a page in the middle. */
    flip_byte(fx->path, 4096 * 20 + 3);
    expect_refused(fx, -EBADMSG, "damaged");
}

static void sqlite_cut_short_file_is_refused(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 400);
    close_file(fx);
    assert_int_equal(truncate(fx->path, file_len(fx->path) / 2 / 4096 * 4096), 0);
    expect_refused(fx, -EBADMSG, "damaged");
    assert_int_equal(truncate(fx->path, 0), 0);
    expect_refused(fx, -EBADMSG, "");
}

static void sqlite_missing_wal_is_refused(void **state)
{
    struct fixture *fx = *state;

    write_and_die(fx, 30);
    assert_int_equal(unlink(fx->wal), 0);
    expect_refused(fx, -EBADMSG, "leased.db-wal");
}

static void sqlite_missing_main_file_is_refused(void **state)
{
    struct fixture *fx = *state;

    write_and_die(fx, 30);
    assert_int_equal(unlink(fx->path), 0);
    expect_refused(fx, -EBADMSG, "is missing");
    assert_int_equal(file_len(fx->path), -1);
}

/* ---- damage in the WAL ---- */

static void sqlite_damage_inside_the_wal_is_refused(void **state)
{
    struct fixture *fx = *state;

    write_and_die(fx, 30);
    for (off_t frame = 0; frame < 28; frame += 3) {
        /* The page number, the commit mark, a salt, a checksum, the page. */
        static const off_t parts[] = {2, 7, 9, 17, 24 + 3000};

        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            off_t at = 32 + frame * (24 + 4096) + parts[i];

            flip_byte(fx->wal, at);
            expect_refused(fx, -EBADMSG, "leased.db-wal, byte ");
            flip_byte(fx->wal, at);
        }
    }
    open_whole(fx, 30);
}

static void sqlite_damaged_wal_header_is_refused(void **state)
{
    struct fixture *fx = *state;

    write_and_die(fx, 30);
    for (off_t at = 0; at < 32; at++) {
        flip_byte(fx->wal, at);
        expect_refused(fx, -EBADMSG, "leased.db-wal");
        flip_byte(fx->wal, at);
    }
    open_whole(fx, 30);
}

static void sqlite_torn_last_commit_is_dropped(void **state)
{
    struct fixture *fx = *state;
    struct wal_report report;

    write_and_die(fx, 30);
    assert_int_equal(wal_check(fx->wal, &report), WAL_WHOLE);
    assert_true(report.frames >= 30);
    flip_byte(fx->wal, 32 + ((off_t)report.frames - 1) * (24 + 4096) + 24 + 9);
    /* As after a crash in the middle of the write: it was not acknowledged. */
    open_whole(fx, 29);
    append_many(fx, 1);
    close_file(fx);
    open_whole(fx, 30);
}

/* Torn twice in a row, at different lengths: what the first left must not look like damage after the second. */
static void sqlite_torn_again_after_a_restart_is_dropped(void **state)
{
    struct fixture *fx = *state;
    struct wal_report report;

    for (unsigned round = 0; round < 4; round++) {
        write_and_die(fx, 12 - 2 * round);
        assert_int_equal(wal_check(fx->wal, &report), WAL_WHOLE);
        flip_byte(fx->wal, 32 + ((off_t)report.frames - 1) * (24 + 4096) + 24 + 9);
    }
    open_whole(fx, 11 + 9 + 7 + 5);
}

/* ---- failing disks ---- */

static void expect_recovered(struct fixture *fx, uint64_t last)
{
    struct sqlite_position at;

    disk_fault_disarm();
    assert_int_equal(sqlite_recover(fx->file), 0);
    sqlite_get_position(fx->file, &at);
    assert_int_equal(at.last_entry, last);
    append_many(fx, 2);
    close_file(fx);
    open_whole(fx, last + 2);
}

static void sqlite_full_disk_writes_nothing(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 10);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "-wal", .after = 1, .error = ENOSPC});
    assert_int_equal(append(fx), -ENOSPC);
    assert_non_null(strstr(sqlite_why(fx->file), "full"));
    assert_non_null(strstr(sqlite_why(fx->file), fx->path));
    expect_recovered(fx, 10);
}

static void sqlite_quota_is_a_full_disk(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 10);
    disk_fault_arm(&(struct disk_fault){.op = DISK_WRITE, .suffix = "-wal", .error = EDQUOT});
    assert_int_equal(append(fx), SQLFILE_UNCERTAIN);
    assert_int_equal(sqlite_failure(fx->file), -ENOSPC);
    expect_recovered(fx, 10);
}

static void sqlite_failed_sync_is_looked_up(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 10);
    /* All of it has reached the page cache, only the sync failed: then it is there. */
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_SYNC, .suffix = "-wal", .times = 1, .error = EIO});
    assert_int_equal(append(fx), SQLFILE_UNCERTAIN);
    assert_int_equal(sqlite_failure(fx->file), -EIO);
    expect_recovered(fx, 11);
}

static void sqlite_failed_write_is_looked_up(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 10);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "-wal", .times = 1, .error = EIO});
    assert_int_equal(append(fx), SQLFILE_UNCERTAIN);
    expect_recovered(fx, 10);
}

static void sqlite_failed_checkpoint_loses_nothing(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 10);
    for (int i = 0; i < 4; i++) {
        disk_fault_arm(&(struct disk_fault){
            .op = i % 2 ? DISK_WRITE : DISK_SYNC, .suffix = ".db", .error = i < 2 ? EIO : ENOSPC});
        assert_int_equal(sqlite_checkpoint(fx->file), i < 2 ? -EIO : -ENOSPC);
        disk_fault_disarm();
        append_many(fx, 10);
    }
    assert_int_equal(sqlite_checkpoint(fx->file), 0);
    close_file(fx);
    open_whole(fx, 50);
}

static void sqlite_recovers_only_when_the_disk_does(void **state)
{
    struct fixture *fx = *state;

    open_whole(fx, 0);
    append_many(fx, 10);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_SYNC, .suffix = "-wal", .times = 1, .error = EIO});
    assert_int_equal(append(fx), SQLFILE_UNCERTAIN);
    disk_fault_arm(&(struct disk_fault){.op = DISK_WRITE, .suffix = ".db", .error = ENOSPC});
    for (int i = 0; i < 3; i++)
        assert_int_equal(sqlite_recover(fx->file), -ENOSPC);
    expect_recovered(fx, 11);
}

static void sqlite_opened_on_a_full_disk_can_be_read(void **state)
{
    struct fixture *fx = *state;

    write_and_die(fx, 20);
    disk_fault_arm(&(struct disk_fault){.op = DISK_WRITE, .suffix = ".db", .error = ENOSPC});
    assert_int_equal(open_file(fx), 0);
    assert_int_equal(read_file(fx), 0);
    assert_int_equal(fx->replayed, 20);
    assert_int_equal(sqlite_begin(fx->file), -ENOSPC);
    assert_int_equal(sqlite_failure(fx->file), -ENOSPC);
    expect_recovered(fx, 20);
}

static void sqlite_replaced_under_us_is_not_written(void **state)
{
    struct fixture *fx = *state;
    char aside[128];

    open_whole(fx, 0);
    append_many(fx, 10);
    (void)snprintf(aside, sizeof aside, "%s.aside", fx->path);
    assert_int_equal(rename(fx->path, aside), 0);
    assert_int_equal(mknod(fx->path, S_IFREG | 0600, 0), 0);
    assert_int_equal(sqlite_recover(fx->file), -EIO);
    assert_non_null(strstr(sqlite_why(fx->file), "another file"));
    assert_int_equal(unlink(fx->path), 0);
    assert_int_equal(rename(aside, fx->path), 0);
    expect_recovered(fx, 10);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(sqlite_reopened_has_all_entries),
        TEST(sqlite_killed_has_all_entries),
        TEST(sqlite_closed_in_order_needs_no_wal),
        TEST(sqlite_half_made_file_is_made_anew),
        TEST(sqlite_file_is_private),
        TEST(sqlite_commit_is_one_sync),
        TEST(sqlite_wal_stays_bounded),
        TEST(sqlite_snapshot_replaces_the_log_before_it),
        TEST(sqlite_snapshot_of_all_leaves_an_empty_log),
        TEST(sqlite_unfinished_snapshot_is_as_none),
        TEST(sqlite_cut_half_done_goes_on_after_a_restart),
        TEST(sqlite_file_does_not_grow_with_snapshots),
        TEST(sqlite_foreign_files_are_refused),
        TEST(sqlite_newer_format_is_refused),
        TEST(sqlite_second_opener_is_refused),
        TEST(sqlite_damaged_row_is_named),
        TEST(sqlite_missing_rows_are_named),
        TEST(sqlite_log_must_reach_the_snapshot),
        TEST(sqlite_damaged_snapshot_is_named),
        TEST(sqlite_damaged_tree_is_refused),
        TEST(sqlite_cut_short_file_is_refused),
        TEST(sqlite_missing_wal_is_refused),
        TEST(sqlite_missing_main_file_is_refused),
        TEST(sqlite_damage_inside_the_wal_is_refused),
        TEST(sqlite_damaged_wal_header_is_refused),
        TEST(sqlite_torn_last_commit_is_dropped),
        TEST(sqlite_torn_again_after_a_restart_is_dropped),
        TEST(sqlite_full_disk_writes_nothing),
        TEST(sqlite_quota_is_a_full_disk),
        TEST(sqlite_failed_sync_is_looked_up),
        TEST(sqlite_failed_write_is_looked_up),
        TEST(sqlite_failed_checkpoint_loses_nothing),
        TEST(sqlite_recovers_only_when_the_disk_does),
        TEST(sqlite_opened_on_a_full_disk_can_be_read),
        TEST(sqlite_replaced_under_us_is_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
