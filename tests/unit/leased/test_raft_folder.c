/* A replica's folder: snapshots, growing out of the single replica, damage. Real time, so a test takes a second. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "leased/fsm/command.h"
#include "tests/lib/raft_kit.h"
#include "tests/lib/tmp.h"
#include "xce/v1/command.pb-c.h"

#define POOL_UIDS 20000

extern char **environ;

static int setup_1(void **state)
{
    raft_kit_setup(state, 1);
    raft_kit_form(*state, POOL_UIDS);
    return 0;
}

/* ---- files ---- */

/* The file whose name matches; the newest with the greatest name. */
static void find_file(const char *folder, const char *pattern, char ret[512])
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char name[256] = "";

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (fnmatch(pattern, entry->d_name, 0) == 0 && strverscmp(entry->d_name, name) > 0)
            (void)snprintf(name, sizeof name, "%s", entry->d_name);
    (void)closedir(dir);
    if (!name[0])
        fail_msg("%s has no %s", folder, pattern);
    (void)snprintf(ret, 512, "%s/%s", folder, name);
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

static void remove_files(const char *folder, const char *pattern)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (fnmatch(pattern, entry->d_name, 0) == 0)
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    (void)closedir(dir);
}

/* ---- snapshots ---- */

static void raft_replica_that_is_far_behind_gets_a_snapshot(void **state)
{
    struct raft_kit *kit;
    int behind;

    raft_kit_setup(state, 3);
    kit = *state;
    for (unsigned r = 0; r < 3; r++)
        kit->nodes[r].kit.options.snapshot_entries = 20;
    raft_kit_form(kit, POOL_UIDS);
    behind = (raft_kit_leader(kit, 0) + 1) % 3;
    raft_kit_stop(kit, (unsigned)behind);
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_int_equal(raft_kit_start(kit, (unsigned)behind), 0);
    assert_true(raft_kit_equal(kit));
    assert_true(raft_kit_has_lease(kit, (unsigned)behind, 1));
    assert_true(raft_kit_has_lease(kit, (unsigned)behind, 100));
    /* And from it, after a restart of all. */
    for (unsigned r = 0; r < 3; r++)
        raft_kit_stop(kit, r);
    for (unsigned r = 0; r < 3; r++)
        assert_int_equal(raft_kit_start(kit, r), 0);
    assert_true(raft_kit_leader(kit, 0) >= 0);
    assert_true(raft_kit_equal(kit));
    assert_true(raft_kit_has_lease(kit, (unsigned)behind, 100));
}

static void restart(struct raft_kit *kit, unsigned snapshot_entries)
{
    for (unsigned r = 0; r < kit->n; r++)
        raft_kit_stop(kit, r);
    for (unsigned r = 0; r < kit->n; r++) {
        kit->nodes[r].kit.options.snapshot_entries = snapshot_entries;
        assert_int_equal(raft_kit_start(kit, r), 0);
    }
    assert_true(raft_kit_leader(kit, 0) >= 0);
    assert_true(raft_kit_equal(kit));
}

static bool has_snapshot_of(struct raft_kit *kit, void *arg)
{
    struct engine_status status;

    engine_get_status(raft_kit_engine(kit, *(const unsigned *)arg), &status);
    return status.snapshot_entry > 0;
}

static void expect_members(struct raft_kit *kit, unsigned r, size_t n)
{
    struct replica_status status;

    replica_get_status(raft_kit_engine(kit, r), &status);
    assert_int_equal(status.n_members, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(status.members[i].role, REPLICA_VOTER);
}

/* A start applies all entries at once: the first snapshot is taken in the midst of it. */
static void raft_first_snapshot_after_a_start_bears_the_members(void **state)
{
    struct raft_kit *kit;

    raft_kit_setup(state, 3);
    kit = *state;
    raft_kit_form(kit, POOL_UIDS);
    /* The files with the changes of the members end here: they go when there is a snapshot. */
    restart(kit, 1000);
    for (uint64_t i = 1; i <= 60; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    restart(kit, 20);
    assert_int_equal(raft_kit_acquire(kit, 61), 0);
    for (unsigned r = 0; r < kit->n; r++)
        assert_true(raft_kit_until(kit, has_snapshot_of, &r));
    restart(kit, 20);
    for (unsigned r = 0; r < kit->n; r++)
        expect_members(kit, r, kit->n);
}

/* It gets the change among other entries, in one message. */
static void raft_change_of_members_that_comes_late_is_known(void **state)
{
    struct raft_kit *kit;
    unsigned leader, late, gone;

    raft_kit_setup(state, 4);
    kit = *state;
    raft_kit_form(kit, POOL_UIDS);
    leader = (unsigned)raft_kit_leader(kit, 0);
    late = (leader + 1) % 4;
    gone = (leader + 2) % 4;
    raft_kit_stop(kit, late);
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_int_equal(raft_kit_remove(kit, gone, NULL), 0);
    raft_kit_stop(kit, gone);
    for (uint64_t i = 6; i <= 30; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    kit->nodes[late].kit.options.snapshot_entries = 20;
    assert_int_equal(raft_kit_start(kit, late), 0);
    assert_true(raft_kit_equal(kit));
    assert_int_equal(raft_kit_acquire(kit, 31), 0);
    assert_true(raft_kit_until(kit, has_snapshot_of, &late));
    expect_members(kit, late, 3);
    /* From the snapshot, with what the disk keeps beside it. */
    raft_kit_stop(kit, late);
    assert_int_equal(raft_kit_start(kit, late), 0);
    expect_members(kit, late, 3);
}

static bool has_said_unread(struct raft_kit *kit, void *arg)
{
    char text[4096];
    ssize_t len = pread(*(const int *)arg, text, sizeof text - 1, 0);

    (void)kit;
    assert_true(len >= 0);
    text[len] = '\0';
    return strstr(text, "no snapshot can be read") != NULL;
}

/* Until it has said that; what is on stderr goes there afterwards. */
static bool until_unread(struct raft_kit *kit)
{
    int saved = dup(STDERR_FILENO), fd = memfd_create("stderr", MFD_CLOEXEC);
    bool said;

    assert_true(saved >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    said = raft_kit_until(kit, has_said_unread, &fd);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(fd);
    return said;
}

/* None that is being written would take the place of the spoilt one. */
static bool no_snapshot_is_due(struct raft_kit *kit, void *arg)
{
    unsigned r = *(const unsigned *)arg;
    struct engine_status status;

    engine_get_status(raft_kit_engine(kit, r), &status);
    return status.last_entry - status.snapshot_entry < kit->nodes[r].kit.options.snapshot_entries;
}

/* The leader goes on, and sends the next one. */
static void leader_spoilt(void **state, void (*spoil)(const char *folder))
{
    struct raft_kit *kit;
    unsigned behind, leader;

    raft_kit_setup(state, 3);
    kit = *state;
    for (unsigned r = 0; r < 3; r++)
        kit->nodes[r].kit.options.snapshot_entries = 20;
    raft_kit_form(kit, POOL_UIDS);
    leader = (unsigned)raft_kit_leader(kit, 0);
    behind = (leader + 1) % 3;
    raft_kit_stop(kit, behind);
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_true(raft_kit_until(kit, no_snapshot_is_due, &leader));
    spoil(kit->nodes[leader].raft_folder);
    assert_int_equal(raft_kit_start(kit, behind), 0);
    assert_true(until_unread(kit));
    for (uint64_t i = 101; i <= 200; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_true(raft_kit_equal(kit));
    assert_true(raft_kit_has_lease(kit, behind, 200));
}

static void remove_snapshots(const char *folder)
{
    remove_files(folder, "snapshot-*");
}

static void raft_snapshot_that_is_gone_is_not_sent(void **state)
{
    leader_spoilt(state, remove_snapshots);
}

static void damage_snapshot(const char *folder)
{
    char path[512];

    find_file(folder, "snapshot-*.meta", path);
    flip(path, 20);
}

static void raft_snapshot_that_cannot_be_read_is_not_sent(void **state)
{
    leader_spoilt(state, damage_snapshot);
}

static void set_history(struct raft_kit *kit, uint64_t revision)
{
    for (unsigned r = 0; r < kit->n; r++)
        kit->nodes[r].kit.history_at = revision;
}

static void raft_log_is_not_cut_beyond_history(void **state)
{
    struct raft_kit *kit;

    raft_kit_setup(state, 1);
    kit = *state;
    set_history(kit, 0);
    kit->nodes[0].kit.options.snapshot_entries = 10;
    raft_kit_form(kit, POOL_UIDS);
    for (uint64_t i = 1; i <= 40; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_elapse(kit, 300);
    assert_false(has_snapshot_of(kit, &(unsigned){0}));
    set_history(kit, UINT64_MAX);
    assert_true(raft_kit_until(kit, has_snapshot_of, &(unsigned){0}));
    /* Closing with one held back. */
    set_history(kit, 0);
    for (uint64_t i = 41; i <= 80; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_elapse(kit, 100);
}

static void raft_snapshot_on_request_is_what_a_restart_begins_with(void **state)
{
    struct raft_kit *kit = *state;
    struct engine_status status;

    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    assert_int_equal(engine_kit_snapshot(&kit->nodes[0].kit), 0);
    engine_get_status(raft_kit_engine(kit, 0), &status);
    assert_int_equal(status.snapshot_entry, status.last_entry);
    assert_int_equal(engine_kit_snapshot(&kit->nodes[0].kit), 0);
    raft_kit_stop(kit, 0);
    assert_int_equal(raft_kit_start(kit, 0), 0);
    assert_true(raft_kit_has_lease(kit, 0, 1));
}

/* ---- growing ---- */

#define LATE_MS 3000

/* The state is as old as that. */
static void grow_old(struct fsm *fsm)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct buf entry = BUF_INIT(COMMAND_ENTRY_MAX);
    uint8_t bytes[64];

    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    command_entry_begin(&entry, LATE_MS, LATE_MS);
    command_entry_append(&entry, bytes, xce__v1__command__pack(&command, bytes));
    assert_int_equal(command_entry_finish(&entry), 0);
    assert_int_equal(fsm_apply(fsm, (const uint8_t *)entry.data, entry.len, NULL), 0);
    buf_done(&entry);
}

static void raft_grows_out_of_the_single_replica(void **state)
{
    struct raft_kit *kit;
    struct engine_kit single;
    char folder[300], why[ENGINE_WHY_MAX] = "";
    uint64_t digest, revision;
    uint8_t *bytes;
    size_t len;

    raft_kit_setup(state, 3);
    kit = *state;
    (void)snprintf(folder, sizeof folder, "%s/r0", kit->folder);
    engine_kit_init_on(&single, kit->folder, kit->loop);
    assert_int_equal(engine_kit_open(&single, false), 0);
    engine_kit_start(&single, POOL_UIDS);
    for (uint64_t i = 1; i <= 30; i++)
        assert_int_equal(engine_kit_do_acquire(&single, i), 0);
    grow_old(single.fsm);
    digest = fsm_digest(single.fsm);
    revision = fsm_revision(single.fsm);
    assert_int_equal(fsm_snapshot(single.fsm, &bytes, &len), 0);
    engine_kit_done(&single);

    assert_int_equal(replica_inhabited(kit->nodes[0].raft_folder, why), 0);
    assert_int_equal(replica_prepare(kit->nodes[0].raft_folder, "r0", true, why), 0);
    assert_int_equal(replica_inhabited(kit->nodes[0].raft_folder, why), 2);
    /* Without the state it does not begin. */
    assert_int_equal(raft_kit_start(kit, 0), -ENOENT);
    kit->nodes[0].options.state = bytes;
    kit->nodes[0].options.state_len = len;
    assert_int_equal(raft_kit_start(kit, 0), 0);
    /* A crash in the middle: it is done again, once. */
    raft_kit_stop(kit, 0);
    assert_int_equal(raft_kit_start(kit, 0), 0);
    assert_int_equal(raft_kit_leader(kit, 0), 0);
    kit->nodes[0].options.state = NULL;
    free(bytes);
    assert_int_equal(replica_inhabited(kit->nodes[0].raft_folder, why), 1);
    assert_true(fsm_revision(kit->nodes[0].kit.fsm) >= revision);
    /* Its time goes on from where it was. */
    raft_kit_elapse(kit, 20);
    assert_int_equal(raft_kit_acquire(kit, 31), 0);
    assert_true(fsm_now_ms(kit->nodes[0].kit.fsm) >= LATE_MS + 20);
    (void)digest;
    for (uint64_t i = 1; i <= 30; i++)
        assert_true(raft_kit_has_lease(kit, 0, i));
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(raft_kit_start(kit, i), 0);
        if (raft_kit_add(kit, i, why) != 0)
            fail_msg("%s", why);
    }
    assert_true(raft_kit_equal(kit));
    assert_true(raft_kit_has_lease(kit, 2, 30));
    assert_int_equal(replica_prepare(kit->nodes[0].raft_folder, "r0", false, why), -EEXIST);
}

/* ---- damage ---- */

struct damage {
    const char *pattern; /* of the file's name */
    enum { FLIP_FIRST = 1, FLIP_MIDDLE, CUT_SHORT, GONE, FLIP_LAST } kind;
    const char *named; /* in the sentence; NULL: that file */
};

static void do_damage(const struct damage *damage, const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    if (damage->kind == FLIP_FIRST)
        flip(path, 20);
    else if (damage->kind == FLIP_MIDDLE)
        flip(path, st.st_size / 2);
    else if (damage->kind == FLIP_LAST)
        flip(path, st.st_size - 9);
    else if (damage->kind == CUT_SHORT)
        assert_int_equal(truncate(path, st.st_size - 16), 0);
    else
        assert_int_equal(unlink(path), 0);
}

static void copy_folder(const char *from, const char *to)
{
    char *argv[] = {(char *)"cp", (char *)"-a", (char *)from, (char *)to, NULL};
    int status;
    pid_t pid;

    assert_int_equal(posix_spawnp(&pid, "cp", NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A replica with closed segments and two snapshots, stopped. */
static void fill(struct raft_kit *kit, uint64_t n)
{
    kit->nodes[0].kit.options.snapshot_entries = 64;
    raft_kit_form(kit, POOL_UIDS);
    for (uint64_t i = 1; i <= n; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_stop(kit, 0);
}

static void raft_damaged_file_is_refused_by_name(void **state)
{
    static const struct damage damages[] = {
        {"0*-0*", FLIP_FIRST, NULL},
        {"0*-0*", FLIP_MIDDLE, NULL},
        {"0*-0*", FLIP_LAST, NULL},
        {"0*-0*", CUT_SHORT, NULL},
        {"snapshot-*[0-9]", FLIP_MIDDLE, NULL},
        {"snapshot-*[0-9]", CUT_SHORT, NULL},
        {"snapshot-*.meta", FLIP_MIDDLE, NULL},
        {"snapshot-*.meta", CUT_SHORT, NULL},
        {"snapshot-*.meta", GONE, "meta"},
        {"replica", FLIP_FIRST, NULL},
        {"replica", GONE, NULL},
        {"metadata?", GONE, "metadata1"},
    };
    struct raft_kit *kit;
    char saved[400], path[512];

    raft_kit_setup(state, 1);
    kit = *state;
    fill(kit, 200);
    (void)snprintf(saved, sizeof saved, "%s/saved", kit->folder);
    copy_folder(kit->nodes[0].raft_folder, saved);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *damage = &damages[i];
        const char *why = kit->nodes[0].kit.why;

        find_file(kit->nodes[0].raft_folder, damage->pattern, path);
        if (damage->kind == GONE) /* all of them: the term is in one of two */
            remove_files(kit->nodes[0].raft_folder, damage->pattern);
        else
            do_damage(damage, path);
        if (raft_kit_start(kit, 0) != -EBADMSG)
            fail_msg("%s, damage %d: %s", path, damage->kind, why);
        if (!strstr(why, damage->named ? damage->named : strrchr(path, '/') + 1) ||
            !strstr(why, "leasectl cluster"))
            fail_msg("%s, damage %d: %s", path, damage->kind, why);
        raft_kit_wipe(kit, 0);
        copy_folder(saved, kit->nodes[0].raft_folder);
    }
    if (raft_kit_start(kit, 0) != 0)
        fail_msg("%s", kit->nodes[0].kit.why);
    assert_int_equal(raft_kit_leader(kit, 0), 0);
    assert_true(raft_kit_has_lease(kit, 0, 200));
}

/* Between closed segments nothing may be missing, nor before an open one, whose name says nothing. */
static void raft_missing_segment_is_refused(void **state)
{
    struct raft_kit *kit;
    char path[512], open_path[512];

    raft_kit_setup(state, 1);
    kit = *state;
    raft_kit_form(kit, POOL_UIDS);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 1; i <= 5; i++)
            assert_int_equal(raft_kit_acquire(kit, (uint64_t)round * 5 + i), 0);
        raft_kit_stop(kit, 0);
        if (round < 2)
            assert_int_equal(raft_kit_start(kit, 0), 0);
    }
    /* As after a crash: the last one is still open. */
    find_file(kit->nodes[0].raft_folder, "0*-0*", path);
    (void)snprintf(open_path, sizeof open_path, "%s/open-1", kit->nodes[0].raft_folder);
    assert_int_equal(rename(path, open_path), 0);
    find_file(kit->nodes[0].raft_folder, "0*-0*", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(raft_kit_start(kit, 0), -EBADMSG);
    assert_non_null(strstr(kit->nodes[0].kit.why, "open-1"));
    assert_non_null(strstr(kit->nodes[0].kit.why, "missing"));
}

static void raft_torn_end_is_normal(void **state)
{
    struct raft_kit *kit;
    char path[512], open_path[512];
    struct stat st;

    raft_kit_setup(state, 1);
    kit = *state;
    raft_kit_form(kit, POOL_UIDS);
    for (uint64_t i = 1; i <= 10; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_stop(kit, 0);
    find_file(kit->nodes[0].raft_folder, "0*-0*", path);
    (void)snprintf(open_path, sizeof open_path, "%s/open-1", kit->nodes[0].raft_folder);
    assert_int_equal(rename(path, open_path), 0);
    assert_int_equal(stat(open_path, &st), 0);
    /* The sole replica had acknowledged the last one; a torn write would not have been. */
    flip(open_path, st.st_size - 20);
    assert_int_equal(truncate(open_path, 8 << 20), 0);
    if (raft_kit_start(kit, 0) != 0)
        fail_msg("%s", kit->nodes[0].kit.why);
    assert_int_equal(raft_kit_leader(kit, 0), 0);
    for (uint64_t i = 1; i < 10; i++)
        assert_true(raft_kit_has_lease(kit, 0, i));
    assert_int_equal(raft_kit_acquire(kit, 11), 0);
}

/* The library takes an old snapshot away .meta first. */
static void raft_old_snapshot_half_taken_away_is_normal(void **state)
{
    struct raft_kit *kit;
    char path[512];
    int fd;

    raft_kit_setup(state, 1);
    kit = *state;
    fill(kit, 200);
    (void)snprintf(path, sizeof path, "%s/snapshot-1-1-1", kit->nodes[0].raft_folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    if (raft_kit_start(kit, 0) != 0)
        fail_msg("%s", kit->nodes[0].kit.why);
    assert_int_equal(raft_kit_acquire(kit, 201), 0);
}

/* The snapshot is there, the segments that it replaces as well, and one made ready. */
static void raft_snapshot_half_installed_is_taken_on(void **state)
{
    struct raft_kit *kit;
    char saved[300], path[512];
    unsigned behind;
    int fd;

    raft_kit_setup(state, 3);
    kit = *state;
    for (unsigned r = 0; r < 3; r++)
        kit->nodes[r].kit.options.snapshot_entries = 20;
    raft_kit_form(kit, POOL_UIDS);
    behind = (unsigned)(raft_kit_leader(kit, 0) + 1) % 3;
    assert_true(raft_kit_equal(kit));
    raft_kit_stop(kit, behind);
    (void)snprintf(saved, sizeof saved, "%s/saved", kit->folder);
    copy_folder(kit->nodes[behind].raft_folder, saved);
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_int_equal(raft_kit_start(kit, behind), 0);
    assert_true(raft_kit_equal(kit));
    /* All: what comes behind the snapshot is taken away, too, and no leader may remember that it was there. */
    for (unsigned r = 0; r < 3; r++)
        raft_kit_stop(kit, r);
    remove_files(kit->nodes[behind].raft_folder, "[0o]*-[0-9]*");
    find_file(saved, "0*-0*", path);
    copy_folder(path, kit->nodes[behind].raft_folder);
    (void)snprintf(path, sizeof path, "%s/open-99", kit->nodes[behind].raft_folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8 << 20), 0);
    (void)close(fd);
    for (unsigned r = 0; r < 3; r++)
        if (raft_kit_start(kit, r) != 0)
            fail_msg("%s", kit->nodes[r].kit.why);
    assert_int_equal(raft_kit_acquire(kit, 101), 0);
    assert_true(raft_kit_equal(kit));
    assert_true(raft_kit_has_lease(kit, behind, 101));
}

static void raft_folder_of_another_name_or_in_use_is_refused(void **state)
{
    struct raft_kit *kit = *state;
    struct raft_node *node = &kit->nodes[0];

    raft_kit_stop(kit, 0);
    node->options.name = "other";
    assert_int_equal(raft_kit_start(kit, 0), -EBADMSG);
    assert_non_null(strstr(node->kit.why, "r0"));
    node->options.name = node->name;
    assert_int_equal(raft_kit_start(kit, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(raft_replica_that_is_far_behind_gets_a_snapshot,
                                  raft_kit_teardown),
        cmocka_unit_test_teardown(raft_first_snapshot_after_a_start_bears_the_members,
                                  raft_kit_teardown),
        cmocka_unit_test_teardown(raft_change_of_members_that_comes_late_is_known,
                                  raft_kit_teardown),
        cmocka_unit_test_teardown(raft_snapshot_that_cannot_be_read_is_not_sent, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_snapshot_that_is_gone_is_not_sent, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_log_is_not_cut_beyond_history, raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_snapshot_on_request_is_what_a_restart_begins_with,
                                        setup_1, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_grows_out_of_the_single_replica, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_damaged_file_is_refused_by_name, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_missing_segment_is_refused, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_torn_end_is_normal, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_old_snapshot_half_taken_away_is_normal, raft_kit_teardown),
        cmocka_unit_test_teardown(raft_snapshot_half_installed_is_taken_on, raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_folder_of_another_name_or_in_use_is_refused, setup_1,
                                        raft_kit_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
