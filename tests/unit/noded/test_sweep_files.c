/* Really planted files: odd names, links, flags, depth, other people's things in between. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "noded/sweep/acl.h"

static char path_memory[4][512];

/* "<dir>/name": valid for the next three calls. */
static const char *in(const struct fixture *f, const char *name)
{
    static unsigned turn;
    char *path = path_memory[turn++ % 4];

    (void)snprintf(path, sizeof(path_memory[0]), "%s/%s", f->dir, name);
    return path;
}

static void sweep_it(struct fixture *f)
{
    sweep_run(&f->sweep, SWEEP_LYING);
}

static void assert_clean(struct fixture *f)
{
    const struct sweep_finding *finding = sweep_verdict(&f->sweep, f->uids[0]);

    if (finding)
        fail_msg("%s: %s", reason_word(finding->reason), finding->detail);
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
        fixture_file(in(f, names[i]), u, u, 0600);
    assert_return_code(symlink("/etc/passwd", in(f, "link")), errno);
    assert_return_code(lchown(in(f, "link"), u, u), errno);
    assert_return_code(mkfifo(in(f, "fifo"), 0600), errno);
    assert_return_code(chown(in(f, "fifo"), u, u), errno);
    assert_return_code(mknod(in(f, "null"), S_IFCHR | 0600, 0x103), errno);
    assert_return_code(chown(in(f, "null"), u, u), errno);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s", f->dir);
    assert_return_code(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), errno);
    assert_return_code(chown(in(f, "s"), u, u), errno);
    (void)close(fd);
    fixture_folder(in(f, "tree"), u, u, 0000);
    fixture_folder(in(f, "tree/below"), u, u, 0700);
    fixture_file(in(f, "tree/below/file"), u, u, 0);
    sweep_it(f);
    assert_clean(f);
    assert_int_equal(rmdir(f->dir), 0);
    assert_true(fixture_exists("/etc/passwd"));
    fixture_folder(f->dir, 0, 0, 0700);
}

static void files_of_others_stay(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0], other = f->uids[1];

    fixture_file(in(f, "root"), 0, 0, 0644);
    fixture_file(in(f, "other"), other, other, 0644);
    fixture_folder(in(f, "theirs"), other, other, 0777);
    fixture_file(in(f, "theirs/mine"), u, u, 0644);
    fixture_file(in(f, "theirs/theirs"), other, other, 0644);
    sweep_it(f);
    assert_clean(f);
    assert_true(fixture_exists(in(f, "root")));
    assert_true(fixture_exists(in(f, "other")));
    assert_true(fixture_exists(in(f, "theirs/theirs")));
    assert_false(fixture_exists(in(f, "theirs/mine")));
}

static void files_folder_that_holds_others_goes_to_root(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0], other = f->uids[1];
    struct stat st;

    fixture_folder(in(f, "mine"), u, u, 0777);
    fixture_file(in(f, "mine/mine"), u, u, 0644);
    fixture_file(in(f, "mine/theirs"), other, other, 0644);
    sweep_it(f);
    assert_clean(f);
    assert_false(fixture_exists(in(f, "mine/mine")));
    assert_true(fixture_exists(in(f, "mine/theirs")));
    assert_int_equal(stat(in(f, "mine"), &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(st.st_gid, 0);
}

static void files_of_the_group_alone_lose_it(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0], other = f->uids[1];
    struct stat st;

    fixture_file(in(f, "theirs"), other, u, 02675);
    fixture_folder(in(f, "folder"), other, u, 02770);
    sweep_it(f);
    assert_clean(f);
    assert_int_equal(stat(in(f, "theirs"), &st), 0);
    assert_int_equal(st.st_uid, other);
    assert_int_equal(st.st_gid, 0);
    assert_int_equal(st.st_mode & 06000, 0);
    assert_int_equal(stat(in(f, "folder"), &st), 0);
    assert_int_equal(st.st_gid, 0);
}

static void files_with_hard_links_all_go(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    char outside[128];
    struct stat st;

    fixture_file(in(f, "a"), u, u, 04755);
    assert_return_code(link(in(f, "a"), in(f, "b")), errno);
    (void)snprintf(outside, sizeof(outside), "%s-outside", f->dir);
    assert_return_code(link(in(f, "a"), outside), errno);
    sweep_it(f);
    assert_clean(f);
    assert_false(fixture_exists(in(f, "a")));
    assert_false(fixture_exists(in(f, "b")));
    /* The link where nobody looks is not the uid's any more, nor does it lend its right. */
    assert_int_equal(stat(outside, &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(st.st_mode & 06000, 0);
    assert_int_equal(unlink(outside), 0);
}

/* As a copy with hard links, or a git clone of a folder beside it, leaves them. */
static void files_with_many_hard_links_leave_nothing(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    char name[64], other[64];
    struct rlimit before, few;
    struct stat st;

    assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
    few = (struct rlimit){600, before.rlim_max};
    fixture_folder(in(f, "tree"), u, u, 0755);
    fixture_folder(in(f, "copy"), u, u, 0755);
    for (int i = 0; i < 700; i++) {
        (void)snprintf(name, sizeof(name), "tree/%d", i);
        (void)snprintf(other, sizeof(other), "copy/%d", i);
        fixture_file(in(f, name), u, u, 0644);
        assert_return_code(link(in(f, name), in(f, other)), errno);
    }
    assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
    sweep_it(f);
    assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
    assert_clean(f);
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

    fixture_file(in(f, "immutable"), u, u, 0600);
    flags_set(in(f, "immutable"), FS_IMMUTABLE_FL);
    fixture_folder(in(f, "folder"), u, u, 0700);
    fixture_file(in(f, "folder/append"), u, u, 0600);
    flags_set(in(f, "folder/append"), FS_APPEND_FL);
    flags_set(in(f, "folder"), FS_APPEND_FL);
    sweep_it(f);
    assert_clean(f);
    assert_false(fixture_exists(in(f, "immutable")));
    assert_false(fixture_exists(in(f, "folder")));
}

static void files_below_an_administrators_flag_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    const struct sweep_finding *finding;

    fixture_folder(in(f, "kept"), 0, 0, 0755);
    fixture_file(in(f, "kept/file"), u, u, 0600);
    flags_set(in(f, "kept"), FS_IMMUTABLE_FL);
    sweep_it(f);
    finding = sweep_verdict(&f->sweep, u);
    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_FILE_IMMUTABLE);
    assert_true(fixture_exists(in(f, "kept/file")));
    flags_set(in(f, "kept"), 0);
}

static void files_ten_thousand_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    char name[64];

    fixture_folder(in(f, "many"), 0, 0, 01777);
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(name, sizeof(name), "many/file-with-a-longer-name-%d", i);
        fixture_file(in(f, name), f->uids[0], f->uids[0], 0600);
    }
    sweep_it(f);
    assert_clean(f);
    assert_int_equal(rmdir(in(f, "many")), 0);
}

/* depth folders one in the other, by chdir: the path is longer than any path may be. */
static void deep(const char *at, int depth, uint32_t uid, uint32_t file_uid)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (chdir(at) < 0)
            _exit(1);
        for (int i = 0; i < depth; i++)
            if (mkdir("d", 0777) < 0 || lchown("d", uid, uid) < 0 || chdir("d") < 0)
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

    deep(f->dir, 3000, f->uids[0], f->uids[0]);
    sweep_it(f);
    assert_clean(f);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_nlink, 2);
}

static void files_below_deep_folders_of_others_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);

    deep(f->dir, 1000, f->uids[1], f->uids[0]);
    sweep_it(f);
    assert_clean(f);
    f->sweep.remove = false;
    sweep_it(f);
    assert_clean(f);
    /* Leave nothing that the teardown can not walk. */
    f->sweep.remove = true;
    f->list.uids = &f->uids[1];
    f->sweep.ids.min = f->sweep.ids.max = f->uids[1];
    sweep_it(f);
    assert_null(sweep_verdict(&f->sweep, f->uids[1]));
}

/* ---- what is mounted at or below a root ---- */

/* Call test in a child with a mount namespace of its own, where it may mount as it likes. */
static void in_namespace(struct fixture *f, void (*test)(struct fixture *f))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(99);
        test(f);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("in the mount namespace: %s %d",
                 WIFSIGNALED(status) ? "signal" : "the check in line",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* In the child, where cmocka's own checks would go on with the parent's tests. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static bool clean(struct fixture *f)
{
    const struct sweep_finding *finding;

    sweep_it(f);
    finding = sweep_verdict(&f->sweep, f->uids[0]);
    if (finding)
        print_message("%s: %s\n", reason_word(finding->reason), finding->detail);
    return !finding;
}

static bool dirty(struct fixture *f, enum reason reason, const char *says)
{
    const struct sweep_finding *finding;

    sweep_it(f);
    finding = sweep_verdict(&f->sweep, f->uids[0]);
    if (finding && (finding->reason != reason || !strstr(finding->detail, says)))
        print_message("%s: %s\n", reason_word(finding->reason), finding->detail);
    return finding && finding->reason == reason && strstr(finding->detail, says);
}

/* The id of what is mounted at name; 0 = nothing. */
static uint64_t mounted(const struct fixture *f, const char *name)
{
    struct statx st, up;

    CHECK(statx(AT_FDCWD, in(f, name), 0, STATX_MNT_ID, &st) == 0);
    CHECK(statx(AT_FDCWD, f->dir, 0, STATX_MNT_ID, &up) == 0);
    return st.stx_mnt_id == up.stx_mnt_id ? 0 : st.stx_mnt_id;
}

static void tmpfs_at(const struct fixture *f, const char *name)
{
    if (!fixture_exists(in(f, name)))
        fixture_folder(in(f, name), 0, 0, 0755);
    CHECK(mount("none", in(f, name), "tmpfs", 0, "size=64k,mode=1777") == 0);
}

static void mount_is_swept(struct fixture *f)
{
    uint32_t u = f->uids[0];
    uint64_t id;

    tmpfs_at(f, "mnt");
    fixture_folder(in(f, "mnt/tree"), u, u, 0700);
    fixture_file(in(f, "mnt/tree/inside"), u, u, 0600);
    fixture_file(in(f, "mnt/root"), 0, 0, 0600);
    id = mounted(f, "mnt");
    f->sweep.remove = false;
    CHECK(dirty(f, REASON_FILE, ""));
    CHECK(fixture_exists(in(f, "mnt/tree/inside")));
    f->sweep.remove = true;
    CHECK(clean(f));
    CHECK(!fixture_exists(in(f, "mnt/tree")));
    CHECK(fixture_exists(in(f, "mnt/root")));
    CHECK(id && mounted(f, "mnt") == id);
}

static void files_of_a_mount_below_are_removed(void **state)
{
    in_namespace(fixture_get(state), mount_is_swept);
}

static void hidden_are_swept(struct fixture *f)
{
    uint32_t u = f->uids[0];
    uint64_t id;

    fixture_folder(in(f, "mnt"), 0, 0, 0755);
    fixture_file(in(f, "mnt/lowest"), u, u, 0600);
    tmpfs_at(f, "mnt");
    fixture_file(in(f, "mnt/middle"), u, u, 0600);
    tmpfs_at(f, "mnt");
    fixture_file(in(f, "mnt/upper"), u, u, 0600);
    tmpfs_at(f, "mnt/in it");
    fixture_file(in(f, "mnt/in it/inside"), u, u, 0600);
    id = mounted(f, "mnt");
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 4);
    CHECK(mounted(f, "mnt") == id);
    CHECK(!fixture_exists(in(f, "mnt/in it/inside")));
    CHECK(!fixture_exists(in(f, "mnt/upper")));
    CHECK(umount(in(f, "mnt/in it")) == 0);
    CHECK(umount(in(f, "mnt")) == 0);
    CHECK(!fixture_exists(in(f, "mnt/middle")));
    CHECK(umount(in(f, "mnt")) == 0);
    CHECK(!fixture_exists(in(f, "mnt/lowest")));
}

static void files_hidden_by_mounts_are_removed(void **state)
{
    in_namespace(fixture_get(state), hidden_are_swept);
}

static void hidden_under_the_root_are_swept(struct fixture *f)
{
    uint32_t u = f->uids[0];
    char sub[128];

    fixture_folder(in(f, "root"), 0, 0, 0755);
    fixture_file(in(f, "root/under"), u, u, 0600);
    tmpfs_at(f, "root");
    fixture_file(in(f, "root/over"), u, u, 0600);
    /* The root is a folder of a mount that hides another such folder. */
    fixture_folder(in(f, "up"), 0, 0, 0755);
    fixture_folder(in(f, "up/sub"), 0, 0, 0755);
    fixture_file(in(f, "up/sub/hidden"), u, u, 0600);
    tmpfs_at(f, "up");
    fixture_folder(in(f, "up/sub"), 0, 0, 0755);
    fixture_file(in(f, "up/sub/seen"), u, u, 0600);
    (void)snprintf(sub, sizeof(sub), "%s/up/sub", f->dir);
    f->roots[0] = sub;
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 2);
    CHECK(umount(in(f, "up")) == 0);
    CHECK(!fixture_exists(in(f, "up/sub/hidden")));
    (void)snprintf(sub, sizeof(sub), "%s/root", f->dir);
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 4);
    CHECK(umount(in(f, "root")) == 0);
    CHECK(!fixture_exists(in(f, "root/under")));
    /* And by a link. */
    fixture_file(in(f, "root/under"), u, u, 0600);
    tmpfs_at(f, "root");
    CHECK(symlink(sub, in(f, "link")) == 0);
    (void)snprintf(sub, sizeof(sub), "%s/link", f->dir);
    CHECK(clean(f));
    CHECK(umount(in(f, "root")) == 0);
    CHECK(!fixture_exists(in(f, "root/under")));
}

static void files_hidden_at_and_above_the_root_are_removed(void **state)
{
    in_namespace(fixture_get(state), hidden_under_the_root_are_swept);
}

/* The mount point, under the mount, is the uid's. To remove it would unmount what the machine has mounted there. */
static void mount_point_goes_to_root(struct fixture *f)
{
    uint32_t u = f->uids[0];
    struct stat st;

    fixture_folder(in(f, "mnt"), u, u, 0700);
    tmpfs_at(f, "mnt");
    fixture_file(in(f, "file"), u, u, 0600);
    fixture_file(in(f, "other"), 0, 0, 0600);
    CHECK(mount(in(f, "other"), in(f, "file"), NULL, MS_BIND, NULL) == 0);
    CHECK(clean(f));
    CHECK(mounted(f, "mnt") && mounted(f, "file"));
    CHECK(umount(in(f, "mnt")) == 0 && umount(in(f, "file")) == 0);
    CHECK(stat(in(f, "mnt"), &st) == 0 && st.st_uid == 0 && st.st_gid == 0);
    CHECK(stat(in(f, "file"), &st) == 0 && st.st_uid == 0 && st.st_gid == 0);
}

static void files_under_a_mount_lose_the_uid_and_leave_it_mounted(void **state)
{
    in_namespace(fixture_get(state), mount_point_goes_to_root);
}

static void top_of_a_mount_is_dirty(struct fixture *f)
{
    uint32_t u = f->uids[0];

    tmpfs_at(f, "mnt");
    CHECK(chown(in(f, "mnt"), u, u) == 0);
    CHECK(dirty(f, REASON_MOUNT, "/mnt"));
    CHECK(umount(in(f, "mnt")) == 0);
    CHECK(clean(f));
    fixture_file(in(f, "file"), 0, 0, 0600);
    fixture_file("/dev/shm/xce-test-mounted", u, u, 0600);
    CHECK(mount("/dev/shm/xce-test-mounted", in(f, "file"), NULL, MS_BIND, NULL) == 0);
    CHECK(unlink("/dev/shm/xce-test-mounted") == 0);
    CHECK(clean(f)); /* nobody can open it any more but through this: a file without a name */
}

static void files_mount_of_the_uid_is_dirty(void **state)
{
    in_namespace(fixture_get(state), top_of_a_mount_is_dirty);
}

static void bind_mounts_are_swept_once(struct fixture *f)
{
    uint32_t u = f->uids[0];

    fixture_folder(in(f, "a"), u, u, 0700);
    fixture_file(in(f, "a/file"), u, u, 0600);
    fixture_folder(in(f, "b"), 0, 0, 0755);
    fixture_folder(in(f, "all"), 0, 0, 0755);
    CHECK(mount(in(f, "a"), in(f, "b"), NULL, MS_BIND, NULL) == 0);
    CHECK(mount(f->dir, in(f, "all"), NULL, MS_BIND | MS_REC, NULL) == 0);
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 2);
    CHECK(!fixture_exists(in(f, "a")));
}

static void files_seen_through_bind_mounts_are_removed(void **state)
{
    in_namespace(fixture_get(state), bind_mounts_are_swept_once);
}

static void read_only_is_dirty(struct fixture *f)
{
    uint32_t u = f->uids[0];

    tmpfs_at(f, "mnt");
    CHECK(clean(f));
    fixture_file(in(f, "mnt/kept"), u, u, 0600);
    CHECK(mount(NULL, in(f, "mnt"), NULL, MS_REMOUNT | MS_RDONLY | MS_BIND, NULL) == 0);
    CHECK(dirty(f, REASON_FILE, "Read-only file system"));
    CHECK(fixture_exists(in(f, "mnt/kept")));
}

static void files_of_a_read_only_mount_are_dirty(void **state)
{
    in_namespace(fixture_get(state), read_only_is_dirty);
}

/* A FUSE file system whose server never answers: whoever touches it hangs. */
static int fuse_at(const struct fixture *f, const char *name, uint32_t uid, const char *more)
{
    char options[128];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (!fixture_exists(in(f, name)))
        fixture_folder(in(f, name), 0, 0, 0755);
    (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=0%s", fd,
                   uid, more);
    CHECK(mount("never", in(f, name), "fuse.never", 0, options) == 0);
    return fd;
}

static void served_is_dirty_and_does_not_hang(struct fixture *f)
{
    char sub[128];
    uint32_t u = f->uids[0];

    (void)alarm(20); /* hanging, it would be for ever */
    fixture_folder(in(f, "mnt"), 0, 0, 0755);
    fixture_file(in(f, "mnt/under"), u, u, 0600);
    if (fuse_at(f, "mnt", 1000, ",allow_other") < 0)
        _exit(0); /* a kernel without FUSE */
    CHECK(dirty(f, REASON_SCAN_FAILED, "fuse.never is not entered"));
    (void)snprintf(sub, sizeof(sub), "%s/mnt/below", f->dir);
    f->roots[0] = sub;
    CHECK(dirty(f, REASON_SCAN_FAILED, "on a file system that is not entered"));
    f->roots[0] = f->dir;
    CHECK(umount2(in(f, "mnt"), MNT_DETACH) == 0);
    CHECK(clean(f));
    CHECK(!fixture_exists(in(f, "mnt/under")));
    /* Nobody but user 1000 may look into this one: not a job either. */
    CHECK(fuse_at(f, "mnt", 1000, "") >= 0);
    CHECK(clean(f));
    CHECK(umount2(in(f, "mnt"), MNT_DETACH) == 0);
}

static void files_of_a_server_that_is_dead_are_dirty(void **state)
{
    in_namespace(fixture_get(state), served_is_dirty_and_does_not_hang);
}

static void kernels_own_are_passed_over(struct fixture *f)
{
    uint32_t u = f->uids[0];

    fixture_folder(in(f, "proc"), 0, 0, 0755);
    CHECK(mount("proc", in(f, "proc"), "proc", 0, NULL) == 0);
    fixture_file(in(f, "proc-file"), u, u, 0600);
    CHECK(clean(f));
    CHECK(mounted(f, "proc") && !fixture_exists(in(f, "proc-file")));
}

static void files_of_the_kernel_are_nobodys(void **state)
{
    in_namespace(fixture_get(state), kernels_own_are_passed_over);
}

/* Of another process group, so that who looks into it asks for a mount that never comes. */
static bool autofs_at(const struct fixture *f, const char *name)
{
    char options[128];
    int ends[2];
    pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    CHECK(setpgid(pid, 0) == 0 && pipe2(ends, O_CLOEXEC) == 0);
    fixture_folder(in(f, name), 0, 0, 0755);
    (void)snprintf(options, sizeof(options), "fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", ends[1],
                   (int)pid);
    return mount("never", in(f, name), "autofs", 0, options) == 0;
}

static void automount_is_not_triggered(struct fixture *f)
{
    (void)alarm(20);
    if (!autofs_at(f, "auto"))
        _exit(0); /* a kernel without it */
    CHECK(dirty(f, REASON_SCAN_FAILED, "autofs is not entered"));
    CHECK(umount(in(f, "auto")) == 0);
    CHECK(clean(f));
}

static void files_behind_an_automount_are_dirty(void **state)
{
    in_namespace(fixture_get(state), automount_is_not_triggered);
}

/* Another process of the namespace mounts and unmounts all the while, over a file of the uid. */
static void mounts_come_and_go(struct fixture *f)
{
    uint32_t u = f->uids[0];
    pid_t pid;

    CHECK(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) == 0);
    fixture_folder(in(f, "mnt"), 0, 0, 0755);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            if (mount("none", in(f, "mnt"), "tmpfs", 0, "size=64k") == 0)
                (void)umount2(in(f, "mnt"), MNT_DETACH);
    }
    for (int i = 0; i < 300; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "mnt/%d", i);
        fixture_file(in(f, name), u, u, 0600); /* in the one or the other */
        sweep_it(f);
    }
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(clean(f));
    while (umount2(in(f, "mnt"), MNT_DETACH) == 0) {
    }
    CHECK(rmdir(in(f, "mnt")) == 0);
}

static void files_under_mounts_that_come_and_go_are_removed(void **state)
{
    in_namespace(fixture_get(state), mounts_come_and_go);
}

/* In a namespace of its own the child mounts, with options that name the uid; the parent sweeps there from outside. */
static void files_mounted_for_the_uid_are_detached(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    char options[64], namespace[64], table[64], line[512];
    int ready[2], status;
    char c;
    pid_t pid;

    fixture_folder(in(f, "mnt of it"), 0, 0, 0755);
    (void)snprintf(options, sizeof(options), "size=64k,uid=%u,gid=%u", u, u);
    assert_return_code(pipe2(ready, O_CLOEXEC), errno);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", in(f, "mnt of it"), "tmpfs", 0, options) < 0 ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    (void)snprintf(namespace, sizeof(namespace), "/proc/%d/ns/mnt", pid);
    f->places.mount_namespace = namespace;
    sweep_it(f);
    assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 1);
    (void)snprintf(table, sizeof(table), "/proc/%d/mounts", pid);
    FILE *file = fopen(table, "re");
    while (fgets(line, sizeof(line), file))
        assert_null(strstr(line, options));
    (void)fclose(file);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
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

static void files_access_lists_lose_the_uid(void **state)
{
    struct fixture *f = fixture_get(state);
    uint8_t value[52], now[64];
    size_t len = acl_make(value, f->uids[0], f->uids[1]);

    f->places.acl_roots = f->roots;
    f->places.roots = NULL;
    fixture_file(in(f, "core"), 0, 0, 0640);
    if (setxattr(in(f, "core"), "system.posix_acl_access", value, len, 0) < 0)
        skip();
    fixture_folder(in(f, "folder"), 0, 0, 0755);
    assert_return_code(setxattr(in(f, "folder"), "system.posix_acl_default", value, len, 0), errno);
    assert_return_code(setxattr(f->dir, "system.posix_acl_access", value, len, 0), errno);
    sweep_it(f);
    assert_clean(f);
    assert_int_equal(getxattr(f->dir, "system.posix_acl_access", now, sizeof(now)), len - 8);
    assert_int_equal(getxattr(in(f, "core"), "system.posix_acl_access", now, sizeof(now)), len - 8);
    assert_int_equal(getxattr(in(f, "folder"), "system.posix_acl_default", now, sizeof(now)),
                     len - 8);
    memmove(value + 12, value + 20, 32);
    assert_memory_equal(now, value, len - 8);
}

static void files_absent_root_is_empty_unreadable_one_is_dirty(void **state)
{
    struct fixture *f = fixture_get(state);

    f->roots[0] = "/nonexistent/folder";
    sweep_it(f);
    assert_clean(f);
    fixture_file(in(f, "file"), 0, 0, 0600);
    f->roots[0] = in(f, "file");
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

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(files_of_every_sort_are_removed),
        SWEEP_TEST(files_of_others_stay),
        SWEEP_TEST(files_folder_that_holds_others_goes_to_root),
        SWEEP_TEST(files_of_the_group_alone_lose_it),
        SWEEP_TEST(files_with_hard_links_all_go),
        SWEEP_TEST(files_with_many_hard_links_leave_nothing),
        SWEEP_TEST(files_with_flags_are_removed),
        SWEEP_TEST(files_below_an_administrators_flag_are_dirty),
        SWEEP_TEST(files_ten_thousand_are_removed),
        SWEEP_TEST(files_of_great_depth_are_removed),
        SWEEP_TEST(files_below_deep_folders_of_others_are_removed),
        SWEEP_TEST(files_of_a_mount_below_are_removed),
        SWEEP_TEST(files_hidden_by_mounts_are_removed),
        SWEEP_TEST(files_hidden_at_and_above_the_root_are_removed),
        SWEEP_TEST(files_under_a_mount_lose_the_uid_and_leave_it_mounted),
        SWEEP_TEST(files_mount_of_the_uid_is_dirty),
        SWEEP_TEST(files_seen_through_bind_mounts_are_removed),
        SWEEP_TEST(files_of_a_read_only_mount_are_dirty),
        SWEEP_TEST(files_of_a_server_that_is_dead_are_dirty),
        SWEEP_TEST(files_of_the_kernel_are_nobodys),
        SWEEP_TEST(files_behind_an_automount_are_dirty),
        SWEEP_TEST(files_under_mounts_that_come_and_go_are_removed),
        SWEEP_TEST(files_mounted_for_the_uid_are_detached),
        SWEEP_TEST(files_access_lists_lose_the_uid),
        SWEEP_TEST(files_absent_root_is_empty_unreadable_one_is_dirty),
        cmocka_unit_test(acl_of_wrong_form_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
