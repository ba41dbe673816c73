/* Journals of a uid, in folders as journald has them. What journald makes of it is looked at on a booted machine (life). */
#include "tests/unit/noded/sweep_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/le.h"

#define ACL "system.posix_acl_access"

struct journals {
    const char *tops[3];
    char machine[96], namespace[96];
};

/* root's, and the uid may read it: as setfacl -m u:UID:r. */
static void let_read(const char *path, uint32_t uid)
{
    static const struct {
        uint8_t tag, perm;
    } entries[] = {{0x01, 6}, {0x02, 4}, {0x04, 4}, {0x10, 4}, {0x20, 0}};
    uint8_t acl[4 + 5 * 8] = {2};

    for (size_t i = 0; i < 5; i++) {
        acl[4 + i * 8] = entries[i].tag;
        acl[4 + i * 8 + 2] = entries[i].perm;
        le_put_u32(acl + 4 + i * 8 + 4, entries[i].tag == 0x02 ? uid : UINT32_MAX);
    }
    assert_return_code(setxattr(path, ACL, acl, sizeof(acl), 0), errno);
}

static bool may_read(const char *path, uint32_t uid)
{
    uint8_t acl[256];
    ssize_t len = getxattr(path, ACL, acl, sizeof(acl));

    assert_true(len >= 4);
    for (ssize_t at = 4; at < len; at += 8)
        if (acl[at] == 0x02 && le_get_u32(acl + at + 4) == uid)
            return true;
    return false;
}

/* As much of a journal's head as tells how many entries it has, and a text behind it. */
static void journal_make(const char *path, uint32_t uid, uint64_t n_entries)
{
    uint8_t head[160] = "LPKSHHRH";
    FILE *file = fopen(path, "wxe");

    assert_non_null(file);
    le_put_u64(head + 152, n_entries);
    assert_int_equal(fwrite(head, 1, sizeof(head), file), sizeof(head));
    (void)fprintf(file, "of %u", uid);
    assert_int_equal(fclose(file), 0);
    let_read(path, uid);
}

static const char *journal_path(const char *folder, uint32_t uid, const char *rest)
{
    static char memory[4][256];
    static unsigned turn;
    char *path = memory[turn++ % 4];

    (void)snprintf(path, sizeof(memory[0]), "%s/user-%u%s", folder, uid, rest);
    return path;
}

static void journals_make(struct fixture *f, struct journals *j)
{
    *j = (struct journals){.tops = {f->dir, "/no/such/folder"}};
    (void)snprintf(j->machine, sizeof(j->machine), "%s/00ff", f->dir);
    (void)snprintf(j->namespace, sizeof(j->namespace), "%s/00ff.jobs", f->dir);
    fixture_folder(j->machine, 0, 0, 0755);
    fixture_folder(j->namespace, 0, 0, 0755);
    f->places.roots = f->none;
    f->places.journals = j->tops;
}

/* The one file of a folder whose name ends so. */
static const char *only_one(const char *folder, const char *end)
{
    static char path[512];
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (strlen(entry->d_name) > strlen(end) &&
            strcmp(entry->d_name + strlen(entry->d_name) - strlen(end), end) == 0) {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            n++;
        }
    (void)closedir(dir);
    assert_int_equal(n, 1);
    return path;
}

static void journals_in_use_are_put_away_for_root_alone(void **state)
{
    struct fixture *f = fixture_get(state);
    struct journals j;
    char text[256] = "", expected[64];
    unsigned uid;
    unsigned long long time, chance;
    const char *away;
    FILE *file;

    journals_make(f, &j);
    journal_make(journal_path(j.machine, f->uids[0], ".journal"), f->uids[0], 7);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_JOURNAL);
    assert_true(may_read(journal_path(j.machine, f->uids[0], ".journal"), f->uids[0]));
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_false(fixture_exists(journal_path(j.machine, f->uids[0], ".journal")));
    away = only_one(j.machine, ".journal~");
    assert_int_equal(
        sscanf(strrchr(away, '/'), "/user-%u@%16llx-%16llx.journal~", &uid, &time, &chance), 3);
    assert_int_equal(uid, f->uids[0]);
    assert_false(may_read(away, f->uids[0]));
    file = fopen(away, "re");
    assert_non_null(file);
    (void)fseek(file, 160, SEEK_SET);
    assert_non_null(fgets(text, sizeof(text), file));
    (void)fclose(file);
    (void)snprintf(expected, sizeof(expected), "of %u", f->uids[0]);
    assert_string_equal(text, expected);
}

static void journals_that_were_put_away_let_the_uid_in_no_more(void **state)
{
    static const char *const names[] = {"@0a1b-0000000000000001-0006617ad23ec39f.journal",
                                        "@0006617ad23ec39f-0123456789abcdef.journal~"};
    struct fixture *f = fixture_get(state);
    struct journals j;

    journals_make(f, &j);
    for (int i = 0; i < 2; i++) {
        journal_make(journal_path(j.namespace, f->uids[0], names[i]), f->uids[0], 7);
        journal_make(journal_path(j.namespace, f->uids[1], names[i]), f->uids[1], 7);
    }
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    for (int i = 0; i < 2; i++) {
        assert_false(may_read(journal_path(j.namespace, f->uids[0], names[i]), f->uids[0]));
        assert_true(may_read(journal_path(j.namespace, f->uids[1], names[i]), f->uids[1]));
    }
}

static void journals_without_entries_and_of_others_are_left(void **state)
{
    struct fixture *f = fixture_get(state);
    struct journals j;

    journals_make(f, &j);
    journal_make(journal_path(j.machine, f->uids[0], ".journal"), f->uids[0], 0);
    journal_make(journal_path(j.machine, f->uids[1], ".journal"), f->uids[1], 7);
    journal_make(journal_path(j.machine, f->uids[0], ".journal.swp"), f->uids[0], 7);
    journal_make(journal_path(j.machine, f->uids[0], "0.journal"), f->uids[0], 7);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 0);
    assert_true(fixture_exists(journal_path(j.machine, f->uids[0], ".journal")));
    assert_true(fixture_exists(journal_path(j.machine, f->uids[1], ".journal")));
}

/* Too short to say how many. */
static void journals_that_are_damaged_are_put_away(void **state)
{
    struct fixture *f = fixture_get(state);
    struct journals j;

    journals_make(f, &j);
    fixture_file(journal_path(j.machine, f->uids[0], ".journal"), 0, 0, 0640);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_false(fixture_exists(journal_path(j.machine, f->uids[0], ".journal")));
    (void)only_one(j.machine, ".journal~");
}

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(journals_in_use_are_put_away_for_root_alone),
        SWEEP_TEST(journals_that_were_put_away_let_the_uid_in_no_more),
        SWEEP_TEST(journals_without_entries_and_of_others_are_left),
        SWEEP_TEST(journals_that_are_damaged_are_put_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
