/* Really planted files: odd names, links, flags, depth, other people's things in between. */
#include "tests/unit/noded/sweep_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "noded/sweep/acl.h"
#include "noded/sweep/remnant.h"
#include "noded/sweep/way_up.h"

#define LONG_OTHERS 60 /* in an access list */

static unsigned n_asked; /* whether an id is wanted */

static void sweep_it(struct fixture *f)
{
    sweep_run(&f->sweep, SWEEP_LYING);
}

static void put(uint8_t *at, unsigned tag, unsigned perm, uint32_t id)
{
    at[0] = (uint8_t)tag;
    at[1] = 0;
    at[2] = (uint8_t)perm;
    at[3] = 0;
    memcpy(at + 4, &id, 4);
}

static size_t acl_make(uint8_t value[static 52], uint32_t uid, uint32_t other)
{
    memcpy(value, "\2\0\0\0", 4);
    put(value + 4, 1, 6, UINT32_MAX);
    put(value + 12, 2, 4, uid);
    put(value + 20, 2, 4, other);
    put(value + 28, 4, 4, UINT32_MAX);
    put(value + 36, 0x10, 4, UINT32_MAX);
    put(value + 44, 0x20, 0, UINT32_MAX);
    return 52;
}

static void list_give(const char *path, uint32_t uid, uint32_t other)
{
    uint8_t value[52];
    size_t len = acl_make(value, uid, other);

    assert_return_code(setxattr(path, "system.posix_acl_access", value, len, 0), errno);
}

static void files_of_every_sort_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    static const char *const names[] = {
        "plain", ".hidden", " ", "a\nb", "\xff\xfe", "-rf", "*", "%s%n", "..dots", "'\"$(x)`",
    };
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        fixture_file(fixture_in(f, names[i]), u, u, 0600);
    assert_return_code(symlink("/etc/passwd", fixture_in(f, "link")), errno);
    assert_return_code(lchown(fixture_in(f, "link"), u, u), errno);
    assert_return_code(mkfifo(fixture_in(f, "fifo"), 0600), errno);
    assert_return_code(chown(fixture_in(f, "fifo"), u, u), errno);
    assert_return_code(mknod(fixture_in(f, "null"), S_IFCHR | 0600, 0x103), errno);
    assert_return_code(chown(fixture_in(f, "null"), u, u), errno);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s", f->dir);
    assert_return_code(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), errno);
    assert_return_code(chown(fixture_in(f, "s"), u, u), errno);
    (void)close(fd);
    fixture_folder(fixture_in(f, "tree"), u, u, 0000);
    fixture_folder(fixture_in(f, "tree/below"), u, u, 0700);
    fixture_file(fixture_in(f, "tree/below/file"), u, u, 0);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(rmdir(f->dir), 0);
    assert_true(fixture_exists("/etc/passwd"));
    fixture_folder(f->dir, 0, 0, 0700);
}

static void files_of_others_stay(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0], other = f->uids[1];

    fixture_file(fixture_in(f, "root"), 0, 0, 0644);
    fixture_file(fixture_in(f, "other"), other, other, 0644);
    fixture_folder(fixture_in(f, "theirs"), other, other, 0777);
    fixture_file(fixture_in(f, "theirs/mine"), u, u, 0644);
    fixture_file(fixture_in(f, "theirs/theirs"), other, other, 0644);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_true(fixture_exists(fixture_in(f, "root")));
    assert_true(fixture_exists(fixture_in(f, "other")));
    assert_true(fixture_exists(fixture_in(f, "theirs/theirs")));
    assert_false(fixture_exists(fixture_in(f, "theirs/mine")));
}

static void files_folder_that_holds_others_is_given_away(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0], other = f->uids[1];
    struct stat st;

    fixture_folder(fixture_in(f, "mine"), u, u, 0777);
    fixture_file(fixture_in(f, "mine/mine"), u, u, 0644);
    fixture_file(fixture_in(f, "mine/theirs"), other, other, 0644);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_false(fixture_exists(fixture_in(f, "mine/mine")));
    assert_true(fixture_exists(fixture_in(f, "mine/theirs")));
    assert_int_equal(stat(fixture_in(f, "mine"), &st), 0);
    assert_int_equal(st.st_uid, f->places.remnant_uid);
    assert_int_equal(st.st_gid, f->places.remnant_gid);
    /* Once it is empty it goes. */
    assert_return_code(unlink(fixture_in(f, "mine/theirs")), errno);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_false(fixture_exists(fixture_in(f, "mine")));
}

static mode_t mode_of(const struct fixture *f, const char *name)
{
    struct stat st;

    assert_return_code(stat(fixture_in(f, name), &st), errno);
    return st.st_mode & 07777;
}

/* What is given away lends nobody a group, and lets nobody in who was not let in before. */
static void files_folder_that_is_given_away_lends_no_right(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0], other = f->uids[1];

    fixture_folder(fixture_in(f, "open"), u, u, 07777);
    fixture_file(fixture_in(f, "open/theirs"), other, other, 0644);
    fixture_folder(fixture_in(f, "closed"), u, u, 02700);
    fixture_file(fixture_in(f, "closed/theirs"), other, other, 0644);
    fixture_folder(fixture_in(f, "group"), other, u, 03775);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(mode_of(f, "open"), 0755);
    assert_int_equal(mode_of(f, "closed"), 0700);
    assert_int_equal(mode_of(f, "group"), 01775);
}

static void files_of_the_group_alone_lose_it(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0], other = f->uids[1];
    struct stat st;

    fixture_file(fixture_in(f, "theirs"), other, u, 02675);
    fixture_folder(fixture_in(f, "folder"), other, u, 02770);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(stat(fixture_in(f, "theirs"), &st), 0);
    assert_int_equal(st.st_uid, other);
    assert_int_equal(st.st_gid, f->places.remnant_gid);
    assert_int_equal(st.st_mode & 06000, 0);
    assert_int_equal(stat(fixture_in(f, "folder"), &st), 0);
    assert_int_equal(st.st_gid, f->places.remnant_gid);
}

static void files_with_hard_links_all_go(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    char outside[128];
    struct stat st;

    fixture_file(fixture_in(f, "a"), u, u, 04755);
    assert_return_code(link(fixture_in(f, "a"), fixture_in(f, "b")), errno);
    (void)snprintf(outside, sizeof(outside), "%s-outside", f->dir);
    assert_return_code(link(fixture_in(f, "a"), outside), errno);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_false(fixture_exists(fixture_in(f, "a")));
    assert_false(fixture_exists(fixture_in(f, "b")));
    /* The link where nobody looks is not the uid's any more, nor does it lend its right. */
    assert_int_equal(stat(outside, &st), 0);
    assert_int_equal(st.st_uid, f->places.remnant_uid);
    assert_int_equal(st.st_mode & 07777, 0);
    assert_int_equal(unlink(outside), 0);
}

/* Of each sort that root trusts if it is root's, linked to from a folder where nobody looks. */
static void files_linked_elsewhere_are_nobodys(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    static const char *const names[] = {"file", "link", "fifo"};
    char outside[3][160], folder[128], acl[64];
    struct stat st;

    (void)snprintf(folder, sizeof(folder), "%s-elsewhere", f->dir);
    fixture_folder(folder, f->uids[1], f->uids[1], 0777);
    fixture_file(fixture_in(f, "file"), u, u, 0666);
    list_give(fixture_in(f, "file"), u, f->uids[1]);
    assert_return_code(symlink("/etc/passwd", fixture_in(f, "link")), errno);
    assert_return_code(mkfifo(fixture_in(f, "fifo"), 0666), errno);
    for (int i = 0; i < 3; i++) {
        assert_return_code(lchown(fixture_in(f, names[i]), u, u), errno);
        (void)snprintf(outside[i], sizeof(outside[i]), "%s/%s", folder, names[i]);
        assert_return_code(linkat(AT_FDCWD, fixture_in(f, names[i]), AT_FDCWD, outside[i], 0),
                           errno);
    }
    sweep_it(f);
    fixture_assert_clean(f);
    for (int i = 0; i < 3; i++) {
        assert_return_code(lstat(outside[i], &st), errno);
        assert_int_equal(st.st_uid, f->places.remnant_uid);
        assert_int_equal(st.st_gid, f->places.remnant_gid);
        assert_true(S_ISLNK(st.st_mode) || (st.st_mode & 07777) == 0);
        assert_int_equal(lgetxattr(outside[i], "system.posix_acl_access", acl, sizeof(acl)), -1);
        /* Back to where anybody would take it for what it is not. */
        assert_return_code(rename(outside[i], fixture_in(f, names[i])), errno);
    }
    sweep_it(f);
    fixture_assert_clean(f);
    for (int i = 0; i < 3; i++)
        assert_false(fixture_exists(fixture_in(f, names[i])));
    assert_return_code(rmdir(folder), errno);
}

static void files_that_can_be_given_to_nobody_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    struct stat st;

    f->places.remnant_uid = 0;
    fixture_file(fixture_in(f, "a"), u, u, 0644);
    assert_return_code(link(fixture_in(f, "a"), fixture_in(f, "b")), errno);
    fixture_file(fixture_in(f, "single"), u, u, 0644);
    sweep_it(f);
    assert_non_null(sweep_verdict(&f->sweep, u));
    assert_int_equal(sweep_verdict(&f->sweep, u)->reason, REASON_FILE);
    assert_false(fixture_exists(fixture_in(f, "single")));
    assert_int_equal(stat(fixture_in(f, "a"), &st), 0);
    assert_int_equal(st.st_uid, u);
    f->places.remnant_uid = u + FIXTURE_UIDS;
    sweep_it(f);
    fixture_assert_clean(f);
}

static void remnant_user_is_one_of_the_system(void **state)
{
    static const struct {
        const char *text;
        int r;
    } cases[] = {
        {"root:x:0:0::/:/bin/sh\nxce-remnant:x:998:997::/:/sbin/nologin\n", 0},
        {"xce-remnant:!*:1:999::/:\n", 0},
        {"root:x:0:0::/:/bin/sh\nxce-remnants:x:998:998::/:\n", -ENOENT},
        {"", -ENOENT},
        {"xce-remnant:x:0:998::/:\n", -ERANGE},
        {"xce-remnant:x:998:0::/:\n", -ERANGE},
        {"xce-remnant:x:1000:998::/:\n", -ERANGE},
        {"xce-remnant:x:998:65534::/:\n", -ERANGE},
        {"xce-remnant:x:-1:998::/:\n", -ERANGE},
        {"xce-remnant:x:\n", -ERANGE},
    };
    char path[] = "/tmp/xce-test-passwd.XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_return_code(fd, errno);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t uid = 0, gid = 0;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, cases[i].text, strlen(cases[i].text), 0),
                         strlen(cases[i].text));
        if (remnant_find(path, &uid, &gid) != cases[i].r || !uid != (cases[i].r != 0))
            fail_msg("case %zu", i);
    }
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(remnant_find(path, &(uint32_t){0}, &(uint32_t){0}), -ENOENT);
    /* Nobody writes into it: it is not waited for. */
    assert_return_code(mkfifo(path, 0600), errno);
    (void)alarm(120);
    assert_int_equal(remnant_find(path, &(uint32_t){0}, &(uint32_t){0}), -EBADF);
    (void)alarm(0);
    assert_int_equal(unlink(path), 0);
}

static bool counted_has(uint32_t id, void *arg)
{
    struct fixture *f = arg;

    n_asked++;
    return id == f->uids[0];
}

/* As a copy with hard links, or a git clone of a folder beside it, leaves them. The tree is not gone through more often
 * for it. */
static void files_with_many_hard_links_leave_nothing(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    char name[64], other[64];
    struct rlimit before, few;
    struct stat st;

    assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
    few = (struct rlimit){600, before.rlim_max};
    fixture_folder(fixture_in(f, "tree"), u, u, 0755);
    fixture_folder(fixture_in(f, "copy"), u, u, 0755);
    for (int i = 0; i < 700; i++) {
        (void)snprintf(name, sizeof(name), "tree/%d", i);
        (void)snprintf(other, sizeof(other), "copy/%d", i);
        fixture_file(fixture_in(f, name), u, u, 0644);
        assert_return_code(link(fixture_in(f, name), fixture_in(f, other)), errno);
    }
    assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
    f->sweep.ids.has = counted_has;
    f->sweep.ids.arg = f;
    n_asked = 0;
    sweep_it(f);
    assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
    fixture_assert_clean(f);
    assert_true(n_asked < 3 * 1400);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_nlink, 2);
}

static void flags_set(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), now = 0;

    assert_return_code(fd, errno);
    if (ioctl(fd, FS_IOC_GETFLAGS, &now) < 0)
        skip();
    now &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
    now |= flags;
    assert_return_code(ioctl(fd, FS_IOC_SETFLAGS, &now), errno);
    (void)close(fd);
}

static void files_with_flags_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];

    fixture_file(fixture_in(f, "immutable"), u, u, 0600);
    flags_set(fixture_in(f, "immutable"), FS_IMMUTABLE_FL);
    fixture_folder(fixture_in(f, "folder"), u, u, 0700);
    fixture_file(fixture_in(f, "folder/append"), u, u, 0600);
    flags_set(fixture_in(f, "folder/append"), FS_APPEND_FL);
    flags_set(fixture_in(f, "folder"), FS_APPEND_FL);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_false(fixture_exists(fixture_in(f, "immutable")));
    assert_false(fixture_exists(fixture_in(f, "folder")));
}

static void files_below_an_administrators_flag_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    const struct sweep_finding *finding;

    fixture_folder(fixture_in(f, "kept"), 0, 0, 0755);
    fixture_file(fixture_in(f, "kept/file"), u, u, 0600);
    flags_set(fixture_in(f, "kept"), FS_IMMUTABLE_FL);
    sweep_it(f);
    finding = sweep_verdict(&f->sweep, u);
    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_FILE_IMMUTABLE);
    assert_true(fixture_exists(fixture_in(f, "kept/file")));
    assert_memory_equal(finding->detail, fixture_in(f, "kept/file"),
                        strlen(fixture_in(f, "kept/file")));
    flags_set(fixture_in(f, "kept"), 0);
}

static void files_ten_thousand_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    char name[64];

    fixture_folder(fixture_in(f, "many"), 0, 0, 01777);
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(name, sizeof(name), "many/file-with-a-longer-name-%d", i);
        fixture_file(fixture_in(f, name), f->uids[0], f->uids[0], 0600);
    }
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(rmdir(fixture_in(f, "many")), 0);
}

static struct sweep_progress stopping;

/* The tenth of them is where it is told to stop. */
static bool stops_has(uint32_t id, void *arg)
{
    if (++n_asked == 10)
        sweep_progress_stop(&stopping);
    return false;
}

/* Nobody waits for it any more: it hung, or noded ends. */
static void files_walk_that_is_stopped_ends(void **state)
{
    struct fixture *f = fixture_get(state);
    const struct sweep_finding *finding;
    char name[64];

    for (int i = 0; i < 2000; i++) {
        (void)snprintf(name, sizeof(name), "%d", i / 1000);
        if (i % 1000 == 0)
            fixture_folder(fixture_in(f, name), 0, 0, 01777);
        (void)snprintf(name, sizeof(name), "%d/%d", i / 1000, i);
        fixture_file(fixture_in(f, name), f->uids[0], f->uids[0], 0600);
    }
    sweep_progress_init(&stopping);
    f->sweep.progress = &stopping;
    f->sweep.ids.has = stops_has;
    n_asked = 0;
    sweep_it(f);
    assert_true(n_asked < 20);
    finding = sweep_verdict(&f->sweep, f->uids[0]);
    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_SCAN_FAILED);
}

/* depth folders one in the other, by chdir: the path is longer than any path may be. */
static void deep(const char *at, int depth, uint32_t uid, uint32_t gid, uint32_t file_uid)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (chdir(at) < 0)
            _exit(1);
        for (int i = 0; i < depth; i++)
            if (mkdir("d", 0777) < 0 || lchown("d", uid, gid) < 0 || chdir("d") < 0)
                _exit(2);
        int fd = open("bottom", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        _exit(fd < 0 || fchown(fd, file_uid, file_uid) < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void files_of_great_depth_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    struct stat st;

    deep(f->dir, 3000, f->uids[0], f->uids[0], f->uids[0]);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_nlink, 2);
}

/* Leave nothing that the teardown can not walk. */
static void deep_end(struct fixture *f)
{
    f->sweep.remove = true;
    f->list.uids = &f->uids[1];
    f->sweep.ids.min = f->sweep.ids.max = f->uids[1];
    sweep_it(f);
    assert_null(sweep_verdict(&f->sweep, f->uids[1]));
}

static void files_below_deep_folders_of_others_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);

    deep(f->dir, 1000, f->uids[1], f->uids[1], f->uids[0]);
    sweep_it(f);
    fixture_assert_clean(f);
    f->sweep.remove = false;
    sweep_it(f);
    fixture_assert_clean(f);
    deep_end(f);
}

static void deep_folders_of_others_lose_the_group(void **state)
{
    struct fixture *f = fixture_get(state);
    char path[1024];
    struct stat st;
    size_t len;

    deep(f->dir, 300, f->uids[1], f->uids[0], f->uids[1]);
    sweep_it(f);
    fixture_assert_clean(f);
    len = (size_t)snprintf(path, sizeof(path), "%s", f->dir);
    for (int i = 0; i < 300; i++) {
        len += (size_t)snprintf(path + len, sizeof(path) - len, "/d");
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_gid, f->places.remnant_gid);
    }
    deep_end(f);
}

/* What deep() has made there. */
static int deep_open(const char *at, int depth)
{
    int fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < depth; i++) {
        int below = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_return_code(below, errno);
        (void)close(fd);
        fd = below;
    }
    return fd;
}

static void move(int from_fd, const char *from, int to_fd, const char *to)
{
    assert_return_code(renameat(from_fd, from, to_fd, to), errno);
}

static void folders_in_deep_folders_of_others_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    struct stat st;
    int fd;

    fixture_folder(fixture_in(f, "own"), f->uids[0], f->uids[0], 0700);
    fixture_file(fixture_in(f, "own/file"), f->uids[0], f->uids[0], 0600);
    deep(f->dir, 256 + 255, f->uids[1], f->uids[1], f->uids[1]);
    fd = deep_open(f->dir, 256 + 255);
    move(AT_FDCWD, fixture_in(f, "own"), fd, "own");
    (void)close(fd);
    sweep_it(f);
    fixture_assert_clean(f);
    deep_end(f);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_nlink, 2);
}

/* Somebody who makes something in a deep folder as often as the walk is below it. */
struct restless {
    struct fixture *f;
    int deep_fd;
    unsigned n;
};

static bool restless_has(uint32_t id, void *arg)
{
    struct restless *r = arg;
    struct stat before, now;

    assert_return_code(fstat(r->deep_fd, &before), errno);
    now = before;
    /* The clock of a file system goes by ticks. */
    while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == before.st_ctim.tv_nsec) {
        assert_return_code(mkdirat(r->deep_fd, "brief", 0700), errno);
        assert_return_code(unlinkat(r->deep_fd, "brief", AT_REMOVEDIR), errno);
        assert_return_code(fstat(r->deep_fd, &now), errno);
    }
    r->n++;
    return id == r->f->uids[0];
}

static void deep_folders_that_do_not_hold_still_end_the_walk(void **state)
{
    struct fixture *f = fixture_get(state);
    struct restless r = {.f = f};

    deep(f->dir, 260, 0, 0, f->uids[1]);
    r.deep_fd = deep_open(f->dir, 258);
    f->sweep.ids = (struct sweep_ids){f->uids[0], f->uids[1], restless_has, &r};
    (void)alarm(120); /* hanging, it would be for ever */
    sweep_it(f);
    (void)alarm(0);
    assert_in_range(r.n, 17, 10000);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_SCAN_FAILED);
    (void)close(r.deep_fd);
    f->sweep.ids = (struct sweep_ids){f->uids[0], f->uids[0], sweep_list_has, &f->list};
    sweep_it(f);
    fixture_assert_clean(f);
}

/* More than descriptors may be open, side by side where a walk goes no deeper. */
static void many(const char *at, int n, uint32_t uid, uint32_t file_uid)
{
    pid_t pid = fork();
    char name[32];

    if (pid == 0) {
        if (chdir(at) < 0)
            _exit(1);
        for (int i = 0; i < 254; i++)
            if (chdir("d") < 0)
                _exit(2);
        for (int i = 0; i < n; i++) {
            (void)snprintf(name, sizeof(name), "wide%d", i);
            if (mkdir(name, 0777) < 0 || lchown(name, uid, uid) < 0)
                _exit(3);
            deep(name, i == n - 1 ? 300 : 1, uid, uid, file_uid);
        }
        _exit(0);
    }
    assert_int_equal(fixture_reap(pid), 0);
}

static void files_below_many_deep_folders_of_others_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);

    deep(f->dir, 254, f->uids[1], f->uids[1], f->uids[1]);
    many(f->dir, 700, f->uids[1], f->uids[0]);
    f->sweep.remove = false;
    sweep_it(f);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_FILE);
    f->sweep.remove = true;
    sweep_it(f);
    fixture_assert_clean(f);
    deep_end(f);
}

static int folder_fd(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_return_code(fd, errno);
    return fd;
}

static void way_down(struct way_up *way, int *fd, const char *name, off_t next)
{
    int child = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_return_code(child, errno);
    assert_int_equal(way_up_push(way, *fd, *fd, name, &(struct way_mark){.next = next}), 0);
    (void)close(*fd);
    *fd = child;
}

/* r: the outcome; a folder is taken for the next step. */
static void way_back(struct way_up *way, int mount_fd, int *fd, int r, const char *name, off_t next)
{
    char left[NAME_MAX + 1];
    struct way_mark mark;
    int up = way_up_pop(way, mount_fd, *fd, left, &mark);

    assert_int_equal(up < 0 ? up : 0, r);
    assert_string_equal(left, name);
    assert_int_equal(mark.next, next);
    if (up < 0)
        return;
    (void)close(*fd);
    *fd = up;
}

static void way_up_leads_back_by_handle_or_by_the_parent(void **state)
{
    struct fixture *f = fixture_get(state);
    int top = folder_fd(f->dir), fd;

    fixture_folder(fixture_in(f, "a"), 0, 0, 0700);
    fixture_folder(fixture_in(f, "a/b"), 0, 0, 0700);
    for (int handles = 0; handles < 2; handles++) {
        struct way_up way = {.handles = handles ? WAY_HANDLES_UNKNOWN : WAY_NO_HANDLES};
        struct stat st, a;
        fd = folder_fd(f->dir);
        way_down(&way, &fd, "a", 7);
        way_down(&way, &fd, "b", 9);
        way_back(&way, top, &fd, 0, "b", 9);
        assert_int_equal(fstat(fd, &st) + stat(fixture_in(f, "a"), &a), 0);
        assert_int_equal(st.st_ino, a.st_ino);
        way_back(&way, top, &fd, 0, "a", 7);
        way_up_done(&way);
        (void)close(fd);
    }
    (void)close(top);
}

static void way_up_of_what_was_moved_is_not_followed(void **state)
{
    struct fixture *f = fixture_get(state);
    struct way_up way = {.handles = WAY_NO_HANDLES};
    int top = folder_fd(f->dir), fd = folder_fd(f->dir);

    fixture_folder(fixture_in(f, "a"), 0, 0, 0700);
    fixture_folder(fixture_in(f, "a/b"), 0, 0, 0700);
    way_down(&way, &fd, "a", 0);
    way_down(&way, &fd, "b", 0);
    move(AT_FDCWD, fixture_in(f, "a/b"), AT_FDCWD, fixture_in(f, "b"));
    way_back(&way, top, &fd, -ESTALE, "b", 0);
    way_up_done(&way);
    (void)close(fd);
    (void)close(top);
}

static void files_access_lists_lose_the_uid(void **state)
{
    struct fixture *f = fixture_get(state);
    uint8_t value[52], now[64];
    size_t len = acl_make(value, f->uids[0], f->uids[1]);

    f->places.acl_roots = f->roots;
    f->places.roots = NULL;
    fixture_file(fixture_in(f, "core"), 0, 0, 0640);
    if (setxattr(fixture_in(f, "core"), "system.posix_acl_access", value, len, 0) < 0)
        skip();
    fixture_folder(fixture_in(f, "folder"), 0, 0, 0755);
    assert_return_code(setxattr(fixture_in(f, "folder"), "system.posix_acl_default", value, len, 0),
                       errno);
    assert_return_code(setxattr(f->dir, "system.posix_acl_access", value, len, 0), errno);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(getxattr(f->dir, "system.posix_acl_access", now, sizeof(now)), len - 8);
    assert_int_equal(getxattr(fixture_in(f, "core"), "system.posix_acl_access", now, sizeof(now)),
                     len - 8);
    assert_int_equal(
        getxattr(fixture_in(f, "folder"), "system.posix_acl_default", now, sizeof(now)), len - 8);
    memmove(value + 12, value + 20, 32);
    assert_memory_equal(now, value, len - 8);
}

/* Somebody else, who runs, could give it such an entry each time that it is taken away. */
static void files_access_lists_of_others_keep_no_uid(void **state)
{
    struct fixture *f = fixture_get(state);
    uint8_t value[52], now[64];
    size_t len = acl_make(value, f->uids[0], f->uids[1]);

    f->places.acl_roots = f->roots;
    f->places.roots = NULL;
    fixture_file(fixture_in(f, "file"), f->uids[1], f->uids[1], 0640);
    if (setxattr(fixture_in(f, "file"), "system.posix_acl_access", value, len, 0) < 0)
        skip();
    fixture_folder(fixture_in(f, "folder"), f->uids[1], f->uids[1], 0755);
    assert_return_code(setxattr(fixture_in(f, "folder"), "system.posix_acl_default", value, len, 0),
                       errno);
    f->sweep.remove = false;
    sweep_it(f);
    fixture_assert_clean(f);
    f->sweep.remove = true;
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 2);
    assert_int_equal(getxattr(fixture_in(f, "file"), "system.posix_acl_access", now, sizeof(now)),
                     len - 8);
    assert_int_equal(
        getxattr(fixture_in(f, "folder"), "system.posix_acl_default", now, sizeof(now)), len - 8);
}

/* Of one file: others first, the uid last. */
static void long_list_give(const char *path, uint32_t uid)
{
    uint8_t value[4 + (LONG_OTHERS + 5) * 8];
    size_t at = 4;

    memcpy(value, "\2\0\0\0", 4);
    put(value + at, 1, 6, UINT32_MAX);
    for (uint32_t i = 0; i < LONG_OTHERS; i++)
        put(value + (at += 8), 2, 4, uid - LONG_OTHERS + i);
    put(value + (at += 8), 2, 4, uid);
    put(value + (at += 8), 4, 4, UINT32_MAX);
    put(value + (at += 8), 0x10, 4, UINT32_MAX);
    put(value + at + 8, 0x20, 0, UINT32_MAX);
    assert_return_code(setxattr(path, "system.posix_acl_access", value, sizeof(value), 0), errno);
}

/* However the folder is read, some of the files come behind a folder that the walk has been into. */
static void files_long_access_lists_between_folders_lose_the_uid(void **state)
{
    struct fixture *f = fixture_get(state);
    char name[32];

    f->places.acl_roots = f->roots;
    f->places.roots = NULL;
    for (int i = 0; i < 16; i++) {
        (void)snprintf(name, sizeof(name), "folder%d", i);
        fixture_folder(fixture_in(f, name), 0, 0, 0755);
        (void)snprintf(name, sizeof(name), "folder%d/file", i);
        fixture_file(fixture_in(f, name), 0, 0, 0640);
        long_list_give(fixture_in(f, name), f->uids[0]);
        (void)snprintf(name, sizeof(name), "file%d", i);
        fixture_file(fixture_in(f, name), 0, 0, 0640);
        long_list_give(fixture_in(f, name), f->uids[0]);
    }
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 32);
    for (int i = 0; i < 16; i++) {
        (void)snprintf(name, sizeof(name), "file%d", i);
        assert_int_equal(getxattr(fixture_in(f, name), "system.posix_acl_access", NULL, 0),
                         4 + (LONG_OTHERS + 4) * 8);
        (void)snprintf(name, sizeof(name), "folder%d/file", i);
        assert_int_equal(getxattr(fixture_in(f, name), "system.posix_acl_access", NULL, 0),
                         4 + (LONG_OTHERS + 4) * 8);
    }
}

/* Somebody who puts another's file in place of the one whose list is being read. */
struct swap {
    struct fixture *f;
    const char *from, *to;
    bool done;
};

static bool swap_has(uint32_t id, void *arg)
{
    struct swap *s = arg;

    if (id == s->f->uids[0] && !s->done) {
        move(AT_FDCWD, fixture_in(s->f, s->from), AT_FDCWD, fixture_in(s->f, s->to));
        s->done = true;
    }
    return id == s->f->uids[0];
}

static void files_access_list_is_not_written_onto_another_file(void **state)
{
    struct fixture *f = fixture_get(state);
    struct swap swap = {.f = f, .from = "victim", .to = "listed"};
    uint8_t value[52], victims[52], now[64];
    size_t len = acl_make(value, f->uids[0], f->uids[1]);

    f->places.acl_roots = f->roots;
    f->places.roots = NULL;
    acl_make(victims, f->uids[2], f->uids[3]);
    fixture_file(fixture_in(f, "listed"), 0, 0, 0640);
    if (setxattr(fixture_in(f, "listed"), "system.posix_acl_access", value, len, 0) < 0)
        skip();
    fixture_file(fixture_in(f, "victim"), 0, 0, 0640);
    assert_return_code(
        setxattr(fixture_in(f, "victim"), "system.posix_acl_access", victims, len, 0), errno);
    f->sweep.ids = (struct sweep_ids){f->uids[0], f->uids[0], swap_has, &swap};
    sweep_it(f);
    assert_true(swap.done);
    assert_int_equal(getxattr(fixture_in(f, "listed"), "system.posix_acl_access", now, sizeof(now)),
                     len);
    assert_memory_equal(now, victims, len);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0])); /* it can not be told: another look */
    sweep_it(f);
    fixture_assert_clean(f);
}

static void files_absent_root_is_empty_unreadable_one_is_dirty(void **state)
{
    struct fixture *f = fixture_get(state);

    f->roots[0] = "/nonexistent/folder";
    sweep_it(f);
    fixture_assert_clean(f);
    fixture_file(fixture_in(f, "file"), 0, 0, 0600);
    f->roots[0] = fixture_in(f, "file");
    sweep_it(f);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_SCAN_FAILED);
}

static void acl_of_wrong_form_is_left_alone(void **state)
{
    static uint32_t uid = 2046820352u;
    struct sweep_list list = {&uid, 1};
    struct sweep sweep = {.ids = {uid, uid, sweep_list_has, &list}};
    uint8_t value[52];
    uint32_t first = 0;
    size_t len;

    (void)state;
    for (size_t cut = 0; cut < 52; cut++) {
        len = acl_make(value, uid, 7);
        len = cut;
        size_t n = acl_strip(&sweep, value, &len, &first);
        assert_int_equal(n, cut >= 20 && (cut - 4) % 8 == 0);
        assert_int_equal(len, n ? cut - 8 : cut);
    }
    len = acl_make(value, uid, 7);
    value[0] = 3;
    assert_int_equal(acl_strip(&sweep, value, &len, &first), 0);
}

/* Something of others in the last root tells that the walk has been through the first: what has made a file there and runs
 * on is planted behind each walk that found nothing, so many times. */
struct behind {
    struct fixture *f;
    const char *roots[3];
    char first[96], last[96], file[112];
    int times, n_planted;
    pid_t pids[8];
};

static int behind_go[2], behind_came[2];

/* Waits, as root, to be let in: the walk has threads, and what one of these plants ends with it. */
static void become_when_told(uint32_t id)
{
    char c;

    fixture_ready();
    if (read(behind_go[0], &c, 1) != 1 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 ||
        write(behind_came[1], &c, 1) != 1)
        _exit(99);
}

static bool behind_has(uint32_t id, void *arg)
{
    struct behind *b = arg;
    char c = 0;

    if (id == b->f->uids[1] && b->f->sweep.n_findings == 0 && b->n_planted < b->times) {
        fixture_file(b->file, b->f->uids[0], b->f->uids[0], 0600);
        assert_int_equal(write(behind_go[1], &c, 1), 1);
        assert_int_equal(read(behind_came[0], &c, 1), 1);
        b->n_planted++;
    }
    return id == b->f->uids[0];
}

static void behind_run(struct fixture *f, struct behind *b, int times)
{
    char path[112];
    int n_alive = 0;

    *b = (struct behind){.f = f, .roots = {b->first, b->last, NULL}, .times = times};
    (void)snprintf(b->first, sizeof(b->first), "%s/first", f->dir);
    (void)snprintf(b->last, sizeof(b->last), "%s/last", f->dir);
    (void)snprintf(b->file, sizeof(b->file), "%s/behind", b->first);
    (void)snprintf(path, sizeof(path), "%s/other", b->last);
    fixture_folder(b->first, 0, 0, 0755);
    fixture_folder(b->last, 0, 0, 0755);
    fixture_file(path, f->uids[1], 0, 0600);
    f->places.roots = b->roots;
    f->sweep.ids = (struct sweep_ids){f->uids[0], f->uids[1], behind_has, b};
    assert_return_code(pipe2(behind_go, O_CLOEXEC), errno);
    assert_return_code(pipe2(behind_came, O_CLOEXEC), errno);
    for (int i = 0; i < times; i++)
        b->pids[i] = fixture_plant(become_when_told, f->uids[0]);
    sweep_run(&f->sweep, SWEEP_RUNNING | SWEEP_LYING);
    for (int i = 0; i < times; i++)
        n_alive += fixture_alive(b->pids[i]);
    for (int i = 0; i < times; i++) {
        (void)kill(b->pids[i], SIGKILL);
        assert_int_equal(fixture_reap(b->pids[i]), SIGKILL);
    }
    assert_int_equal(n_alive, times - b->n_planted);
    for (int i = 0; i < 2; i++) {
        (void)close(behind_go[i]);
        (void)close(behind_came[i]);
    }
}

static void files_made_behind_the_walk_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    struct behind b;

    behind_run(f, &b, 1);
    assert_int_equal(b.n_planted, 1);
    fixture_assert_clean(f);
    assert_false(fixture_exists(b.file));
}

static void files_made_behind_each_walk_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    const struct sweep_finding *finding;
    struct behind b;

    f->sweep.n_uids = 0; /* one by one */
    behind_run(f, &b, 8);
    assert_true(fixture_exists(b.file));
    finding = sweep_verdict(&f->sweep, f->uids[0]);
    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_PROCESS);
    assert_null(sweep_verdict(&f->sweep, f->uids[1]));
}

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(files_of_every_sort_are_removed),
        SWEEP_TEST(files_of_others_stay),
        SWEEP_TEST(files_folder_that_holds_others_is_given_away),
        SWEEP_TEST(files_folder_that_is_given_away_lends_no_right),
        SWEEP_TEST(files_of_the_group_alone_lose_it),
        SWEEP_TEST(files_with_hard_links_all_go),
        SWEEP_TEST(files_linked_elsewhere_are_nobodys),
        SWEEP_TEST(files_that_can_be_given_to_nobody_are_dirty),
        cmocka_unit_test(remnant_user_is_one_of_the_system),
        SWEEP_TEST(files_with_many_hard_links_leave_nothing),
        SWEEP_TEST(files_with_flags_are_removed),
        SWEEP_TEST(files_below_an_administrators_flag_are_dirty),
        SWEEP_TEST(files_ten_thousand_are_removed),
        SWEEP_TEST(files_walk_that_is_stopped_ends),
        SWEEP_TEST(files_of_great_depth_are_removed),
        SWEEP_TEST(files_below_deep_folders_of_others_are_removed),
        SWEEP_TEST(folders_in_deep_folders_of_others_are_removed),
        SWEEP_TEST(deep_folders_of_others_lose_the_group),
        SWEEP_TEST(files_below_many_deep_folders_of_others_are_removed),
        SWEEP_TEST(deep_folders_that_do_not_hold_still_end_the_walk),
        SWEEP_TEST(way_up_leads_back_by_handle_or_by_the_parent),
        SWEEP_TEST(way_up_of_what_was_moved_is_not_followed),
        SWEEP_TEST(files_access_lists_lose_the_uid),
        SWEEP_TEST(files_access_lists_of_others_keep_no_uid),
        SWEEP_TEST(files_long_access_lists_between_folders_lose_the_uid),
        SWEEP_TEST(files_access_list_is_not_written_onto_another_file),
        SWEEP_TEST(files_made_behind_the_walk_are_removed),
        SWEEP_TEST(files_made_behind_each_walk_are_dirty),
        SWEEP_TEST(files_absent_root_is_empty_unreadable_one_is_dirty),
        cmocka_unit_test(acl_of_wrong_form_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
