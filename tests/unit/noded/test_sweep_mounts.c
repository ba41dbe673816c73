/* Files at, below and under mounts, and mounts of the uid: each test in a mount namespace of its own. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void sweep_it(struct fixture *f)
{
    sweep_run(&f->sweep, SWEEP_LYING);
}

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

    CHECK(statx(AT_FDCWD, fixture_in(f, name), 0, STATX_MNT_ID, &st) == 0);
    CHECK(statx(AT_FDCWD, f->dir, 0, STATX_MNT_ID, &up) == 0);
    return st.stx_mnt_id == up.stx_mnt_id ? 0 : st.stx_mnt_id;
}

static void tmpfs_at(const struct fixture *f, const char *name)
{
    if (!fixture_exists(fixture_in(f, name)))
        fixture_folder(fixture_in(f, name), 0, 0, 0755);
    CHECK(mount("none", fixture_in(f, name), "tmpfs", 0, "size=64k,mode=1777") == 0);
}

static void mount_is_swept(struct fixture *f)
{
    uint32_t u = f->uids[0];
    uint64_t id;

    tmpfs_at(f, "mnt");
    fixture_folder(fixture_in(f, "mnt/tree"), u, u, 0700);
    fixture_file(fixture_in(f, "mnt/tree/inside"), u, u, 0600);
    fixture_file(fixture_in(f, "mnt/root"), 0, 0, 0600);
    id = mounted(f, "mnt");
    f->sweep.remove = false;
    CHECK(dirty(f, REASON_FILE, ""));
    CHECK(fixture_exists(fixture_in(f, "mnt/tree/inside")));
    f->sweep.remove = true;
    CHECK(clean(f));
    CHECK(!fixture_exists(fixture_in(f, "mnt/tree")));
    CHECK(fixture_exists(fixture_in(f, "mnt/root")));
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

    fixture_folder(fixture_in(f, "mnt"), 0, 0, 0755);
    fixture_file(fixture_in(f, "mnt/lowest"), u, u, 0600);
    tmpfs_at(f, "mnt");
    fixture_file(fixture_in(f, "mnt/middle"), u, u, 0600);
    tmpfs_at(f, "mnt");
    fixture_file(fixture_in(f, "mnt/upper"), u, u, 0600);
    tmpfs_at(f, "mnt/in it");
    fixture_file(fixture_in(f, "mnt/in it/inside"), u, u, 0600);
    id = mounted(f, "mnt");
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 4);
    CHECK(mounted(f, "mnt") == id);
    CHECK(!fixture_exists(fixture_in(f, "mnt/in it/inside")));
    CHECK(!fixture_exists(fixture_in(f, "mnt/upper")));
    CHECK(umount(fixture_in(f, "mnt/in it")) == 0);
    CHECK(umount(fixture_in(f, "mnt")) == 0);
    CHECK(!fixture_exists(fixture_in(f, "mnt/middle")));
    CHECK(umount(fixture_in(f, "mnt")) == 0);
    CHECK(!fixture_exists(fixture_in(f, "mnt/lowest")));
}

static void files_hidden_by_mounts_are_removed(void **state)
{
    in_namespace(fixture_get(state), hidden_are_swept);
}

static void hidden_under_the_root_are_swept(struct fixture *f)
{
    uint32_t u = f->uids[0];
    char sub[128];

    fixture_folder(fixture_in(f, "root"), 0, 0, 0755);
    fixture_file(fixture_in(f, "root/under"), u, u, 0600);
    tmpfs_at(f, "root");
    fixture_file(fixture_in(f, "root/over"), u, u, 0600);
    /* The root is a folder of a mount that hides another such folder. */
    fixture_folder(fixture_in(f, "up"), 0, 0, 0755);
    fixture_folder(fixture_in(f, "up/sub"), 0, 0, 0755);
    fixture_file(fixture_in(f, "up/sub/hidden"), u, u, 0600);
    tmpfs_at(f, "up");
    fixture_folder(fixture_in(f, "up/sub"), 0, 0, 0755);
    fixture_file(fixture_in(f, "up/sub/seen"), u, u, 0600);
    (void)snprintf(sub, sizeof(sub), "%s/up/sub", f->dir);
    f->roots[0] = sub;
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 2);
    CHECK(umount(fixture_in(f, "up")) == 0);
    CHECK(!fixture_exists(fixture_in(f, "up/sub/hidden")));
    (void)snprintf(sub, sizeof(sub), "%s/root", f->dir);
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 4);
    CHECK(umount(fixture_in(f, "root")) == 0);
    CHECK(!fixture_exists(fixture_in(f, "root/under")));
    /* And by a link. */
    fixture_file(fixture_in(f, "root/under"), u, u, 0600);
    tmpfs_at(f, "root");
    CHECK(symlink(sub, fixture_in(f, "link")) == 0);
    (void)snprintf(sub, sizeof(sub), "%s/link", f->dir);
    CHECK(clean(f));
    CHECK(umount(fixture_in(f, "root")) == 0);
    CHECK(!fixture_exists(fixture_in(f, "root/under")));
}

static void files_hidden_at_and_above_the_root_are_removed(void **state)
{
    in_namespace(fixture_get(state), hidden_under_the_root_are_swept);
}

/* The mount point, under the mount, is the uid's. To remove it would unmount what the machine has mounted there. */
static void mount_point_is_given_away(struct fixture *f)
{
    uint32_t u = f->uids[0];
    struct stat st;

    fixture_folder(fixture_in(f, "mnt"), u, u, 0700);
    tmpfs_at(f, "mnt");
    fixture_file(fixture_in(f, "file"), u, u, 0600);
    fixture_file(fixture_in(f, "other"), 0, 0, 0600);
    CHECK(mount(fixture_in(f, "other"), fixture_in(f, "file"), NULL, MS_BIND, NULL) == 0);
    CHECK(clean(f));
    CHECK(mounted(f, "mnt") && mounted(f, "file"));
    CHECK(umount(fixture_in(f, "mnt")) == 0 && umount(fixture_in(f, "file")) == 0);
    CHECK(stat(fixture_in(f, "mnt"), &st) == 0 && st.st_uid == f->places.remnant_uid);
    CHECK(stat(fixture_in(f, "file"), &st) == 0 && st.st_uid == f->places.remnant_uid);
}

static void files_under_a_mount_lose_the_uid_and_leave_it_mounted(void **state)
{
    in_namespace(fixture_get(state), mount_point_is_given_away);
}

static void top_of_a_mount_is_dirty(struct fixture *f)
{
    uint32_t u = f->uids[0];

    tmpfs_at(f, "mnt");
    CHECK(chown(fixture_in(f, "mnt"), u, u) == 0);
    CHECK(dirty(f, REASON_MOUNT, "/mnt"));
    CHECK(umount(fixture_in(f, "mnt")) == 0);
    CHECK(clean(f));
    fixture_file(fixture_in(f, "file"), 0, 0, 0600);
    fixture_file("/dev/shm/xce-test-mounted", u, u, 0600);
    CHECK(mount("/dev/shm/xce-test-mounted", fixture_in(f, "file"), NULL, MS_BIND, NULL) == 0);
    CHECK(unlink("/dev/shm/xce-test-mounted") == 0);
    CHECK(clean(f)); /* nobody can open it any more but through this: a file without a name */
}

static void files_mount_of_the_uid_is_dirty(void **state)
{
    in_namespace(fixture_get(state), top_of_a_mount_is_dirty);
}

/* Somebody who puts another's file in place of the one that was looked at. */
static bool swap_has(uint32_t id, void *arg)
{
    struct fixture *f = arg;

    if (id == f->uids[0] && fixture_exists(fixture_in(f, "victim")))
        CHECK(rename(fixture_in(f, "victim"), fixture_in(f, "file")) == 0);
    return id == f->uids[0];
}

static void swapped_mount_point_is_left(struct fixture *f)
{
    struct stat st;

    fixture_file(fixture_in(f, "file"), f->uids[0], f->uids[0], 0600);
    fixture_file(fixture_in(f, "victim"), f->uids[1], f->uids[1], 0600);
    CHECK(mount("/dev/null", fixture_in(f, "file"), NULL, MS_BIND, NULL) == 0);
    f->sweep.ids.has = swap_has;
    f->sweep.ids.arg = f;
    CHECK(dirty(f, REASON_FILE, "No such file"));
    CHECK(!fixture_exists(fixture_in(f, "victim")));
    CHECK(stat(fixture_in(f, "file"), &st) == 0 && st.st_uid == f->uids[1]);
    CHECK(clean(f));
}

static void files_put_in_place_of_a_mount_point_keep_their_owner(void **state)
{
    in_namespace(fixture_get(state), swapped_mount_point_is_left);
}

static void bind_mounts_are_swept_once(struct fixture *f)
{
    uint32_t u = f->uids[0];

    fixture_folder(fixture_in(f, "a"), u, u, 0700);
    fixture_file(fixture_in(f, "a/file"), u, u, 0600);
    fixture_folder(fixture_in(f, "b"), 0, 0, 0755);
    fixture_folder(fixture_in(f, "all"), 0, 0, 0755);
    CHECK(mount(fixture_in(f, "a"), fixture_in(f, "b"), NULL, MS_BIND, NULL) == 0);
    CHECK(mount(f->dir, fixture_in(f, "all"), NULL, MS_BIND | MS_REC, NULL) == 0);
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 2);
    CHECK(!fixture_exists(fixture_in(f, "a")));
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
    fixture_file(fixture_in(f, "mnt/kept"), u, u, 0600);
    CHECK(mount(NULL, fixture_in(f, "mnt"), NULL, MS_REMOUNT | MS_RDONLY | MS_BIND, NULL) == 0);
    CHECK(dirty(f, REASON_FILE, "Read-only file system"));
    CHECK(fixture_exists(fixture_in(f, "mnt/kept")));
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
    if (!fixture_exists(fixture_in(f, name)))
        fixture_folder(fixture_in(f, name), 0, 0, 0755);
    (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=0%s", fd,
                   uid, more);
    CHECK(mount("never", fixture_in(f, name), "fuse.never", 0, options) == 0);
    return fd;
}

static void served_is_dirty_and_does_not_hang(struct fixture *f)
{
    char sub[128];
    uint32_t u = f->uids[0];

    (void)alarm(120); /* hanging, it would be for ever */
    fixture_folder(fixture_in(f, "mnt"), 0, 0, 0755);
    fixture_file(fixture_in(f, "mnt/under"), u, u, 0600);
    if (fuse_at(f, "mnt", 1000, ",allow_other") < 0)
        _exit(0); /* a kernel without FUSE */
    CHECK(dirty(f, REASON_SCAN_FAILED, "fuse.never is not entered"));
    (void)snprintf(sub, sizeof(sub), "%s/mnt/below", f->dir);
    f->roots[0] = sub;
    CHECK(dirty(f, REASON_SCAN_FAILED, "on a file system that is not entered"));
    f->roots[0] = f->dir;
    CHECK(umount2(fixture_in(f, "mnt"), MNT_DETACH) == 0);
    CHECK(clean(f));
    CHECK(!fixture_exists(fixture_in(f, "mnt/under")));
    /* Nobody but user 1000 may look into this one: not a job either. */
    CHECK(fuse_at(f, "mnt", 1000, "") >= 0);
    CHECK(clean(f));
    CHECK(umount2(fixture_in(f, "mnt"), MNT_DETACH) == 0);
}

static void files_of_a_server_that_is_dead_are_dirty(void **state)
{
    in_namespace(fixture_get(state), served_is_dirty_and_does_not_hang);
}

/* Whether the program has done it. */
static bool done(const char *const *argv)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(null, 1);
        (void)dup2(null, 2);
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* Whoever may make a folder in a btrfs may make a subvolume, and set it read-only. */
static void read_only_subvolume_is_removed(struct fixture *f)
{
    char image[128];
    const char *const make[] = {"mkfs.btrfs", "-q", image, NULL};
    const char *const loop[] = {"mount", "-o", "loop", image, fixture_in(f, "mnt"), NULL};
    struct btrfs_ioctl_vol_args sub = {.name = "sub"};
    uint64_t flags = BTRFS_SUBVOL_RDONLY;
    int fd;

    (void)snprintf(image, sizeof(image), "%s/image", f->dir);
    fixture_file(image, 0, 0, 0600);
    fixture_folder(fixture_in(f, "mnt"), 0, 0, 0755);
    CHECK(truncate(image, 128 << 20) == 0);
    if (!done(make) || !done(loop)) {
        print_message("skipped: no mkfs.btrfs, or a kernel without btrfs or loop devices\n");
        _exit(0);
    }
    fd = open(fixture_in(f, "mnt"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0 && ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &sub) == 0);
    (void)close(fd);
    CHECK(chown(fixture_in(f, "mnt/sub"), f->uids[0], f->uids[0]) == 0);
    fixture_folder(fixture_in(f, "mnt/sub/folder"), f->uids[0], f->uids[0], 0700);
    fixture_file(fixture_in(f, "mnt/sub/folder/file"), f->uids[0], f->uids[0], 0600);
    fd = open(fixture_in(f, "mnt/sub"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0 && ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) == 0);
    (void)close(fd);
    CHECK(unlink(fixture_in(f, "mnt/sub/folder/file")) < 0 && errno == EROFS);
    CHECK(clean(f));
    CHECK(!fixture_exists(fixture_in(f, "mnt/sub")));
    CHECK(umount(fixture_in(f, "mnt")) == 0);
}

static void files_of_a_subvolume_made_read_only_are_removed(void **state)
{
    in_namespace(fixture_get(state), read_only_subvolume_is_removed);
}

/* An overlay gives no handles. More folders than may be kept open lie where a walk does not go deeper, and deeper ones below. */
static void deep_and_wide_make(uint32_t uid, uint32_t file_uid)
{
    char name[32];

    for (int i = 0; i < 254; i++)
        CHECK(mkdir("d", 0777) == 0 && chown("d", uid, uid) == 0 && chdir("d") == 0);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "%d", i);
        CHECK(mkdir(name, 0777) == 0);
        (void)snprintf(name, sizeof(name), "%d/sub", i);
        CHECK(mkdir(name, 0777) == 0);
        (void)snprintf(name, sizeof(name), "%d/sub/file", i);
        fixture_file(name, file_uid, file_uid, 0600);
    }
    CHECK(chdir("150/sub") == 0);
    for (int i = 0; i < 600; i++)
        CHECK(mkdir("d", 0777) == 0 && chdir("d") == 0);
    fixture_file("bottom", file_uid, file_uid, 0600);
}

static void deep_and_wide_is_swept(struct fixture *f)
{
    char options[512];
    struct stat st;
    int bottom;

    tmpfs_at(f, "mnt");
    for (int i = 0; i < 4; i++)
        fixture_folder(fixture_in(f, (const char *[]){"mnt/l", "mnt/u", "mnt/w", "mnt/m"}[i]), 0, 0,
                       0755);
    (void)snprintf(options, sizeof(options), "lowerdir=%s/mnt/l,upperdir=%s/mnt/u,workdir=%s/mnt/w",
                   f->dir, f->dir, f->dir);
    if (mount("overlay", fixture_in(f, "mnt/m"), "overlay", 0, options) < 0)
        _exit(0); /* a kernel without it */
    CHECK(chdir(fixture_in(f, "mnt/m")) == 0);
    deep_and_wide_make(f->uids[1], f->uids[0]);
    bottom = open("bottom", O_RDONLY | O_CLOEXEC);
    CHECK(bottom >= 0 && chdir("/") == 0);
    f->roots[0] = fixture_in(f, "mnt/m");
    f->sweep.remove = false;
    CHECK(dirty(f, REASON_FILE, ""));
    CHECK(f->sweep.n_findings == 1);
    f->sweep.remove = true;
    CHECK(clean(f));
    CHECK(f->sweep.n_removed == 301);
    CHECK(fstat(bottom, &st) == 0 && st.st_nlink == 0);
    (void)close(bottom);
}

static void files_in_deep_and_wide_folders_of_an_overlay_are_removed(void **state)
{
    in_namespace(fixture_get(state), deep_and_wide_is_swept);
}

/* A mail folder that is a link, as /var/spool/mail is, to one that a server answers for; and one below such a mount. */
static void served_names_do_not_hang(struct fixture *f)
{
    char mail[128], below[128];
    const char *const linked[] = {mail, NULL}, *const lower[] = {below, NULL};

    (void)alarm(120);
    fixture_folder(fixture_in(f, "spool"), 0, 0, 0755);
    fixture_folder(fixture_in(f, "mnt"), 0, 0, 0755);
    fixture_file(fixture_in(f, "mnt/box"), f->uids[0], 0, 0600);
    CHECK(symlink("./.././mnt", fixture_in(f, "spool/mail")) == 0);
    (void)snprintf(mail, sizeof(mail), "%s/spool/mail", f->dir);
    (void)snprintf(below, sizeof(below), "%s/mnt/below", f->dir);
    f->places.roots = f->none;
    if (fuse_at(f, "mnt", 1000, ",allow_other") < 0)
        _exit(0); /* a kernel without FUSE */
    f->places.mail = linked;
    CHECK(dirty(f, REASON_SCAN_FAILED, "spool/mail: it is on a file system that is not entered"));
    f->places.mail = lower;
    CHECK(dirty(f, REASON_SCAN_FAILED, "below: it is on a file system that is not entered"));
    f->places.mail = NULL;
    f->places.journals = linked;
    CHECK(dirty(f, REASON_SCAN_FAILED, "spool/mail: it is on a file system that is not entered"));
    f->places.journals = NULL;
    f->places.mail = linked;
    CHECK(umount2(fixture_in(f, "mnt"), MNT_DETACH) == 0);
    CHECK(clean(f));
    CHECK(!fixture_exists(fixture_in(f, "mnt/box")));
}

static void names_on_a_server_that_is_dead_are_dirty(void **state)
{
    in_namespace(fixture_get(state), served_names_do_not_hang);
}

/* Mounts over a folder of uids[1] as soon as the walk has come to it; another process does, as the walk has a mount
 * namespace of its own. */
struct mounter {
    struct fixture *f;
    int go[2], done[2];
    bool told;
};

static bool mounter_has(uint32_t id, void *arg)
{
    struct mounter *m = arg;
    char c = 0;

    if (id == m->f->uids[1] && !m->told) {
        CHECK(write(m->go[1], &c, 1) == 1 && read(m->done[0], &c, 1) == 1);
        m->told = true;
    }
    return id == m->f->uids[0];
}

static void mounter_run(struct mounter *m)
{
    char c;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(read(m->go[0], &c, 1) == 1 && fuse_at(m->f, "mnt", 1000, "") >= 0);
    CHECK(write(m->done[1], &c, 1) == 1);
    for (;;)
        (void)pause();
}

static void mounted_meanwhile_does_not_hang(struct fixture *f)
{
    struct mounter m = {.f = f};
    pid_t pid;

    if (access("/dev/fuse", R_OK) < 0)
        _exit(0); /* a kernel without FUSE */
    (void)alarm(120);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) == 0);
    CHECK(pipe2(m.go, O_CLOEXEC) == 0 && pipe2(m.done, O_CLOEXEC) == 0);
    fixture_folder(fixture_in(f, "mnt"), f->uids[1], f->uids[1], 0755);
    fixture_file(fixture_in(f, "mnt/own"), f->uids[0], f->uids[0], 0600);
    f->places.acl_roots = f->roots;
    f->places.roots = f->none;
    f->sweep.ids = (struct sweep_ids){f->uids[0], f->uids[1], mounter_has, &m};
    pid = fork();
    if (pid == 0)
        mounter_run(&m);
    sweep_it(f);
    CHECK(m.told);
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(umount2(fixture_in(f, "mnt"), MNT_DETACH) == 0);
    CHECK(clean(f) && !fixture_exists(fixture_in(f, "mnt/own")));
}

static void files_under_a_mount_made_meanwhile_do_not_hang_it(void **state)
{
    in_namespace(fixture_get(state), mounted_meanwhile_does_not_hang);
}

static void kernels_own_are_passed_over(struct fixture *f)
{
    uint32_t u = f->uids[0];

    fixture_folder(fixture_in(f, "proc"), 0, 0, 0755);
    CHECK(mount("proc", fixture_in(f, "proc"), "proc", 0, NULL) == 0);
    fixture_file(fixture_in(f, "proc-file"), u, u, 0600);
    CHECK(clean(f));
    CHECK(mounted(f, "proc") && !fixture_exists(fixture_in(f, "proc-file")));
}

static void files_of_the_kernel_are_nobodys(void **state)
{
    in_namespace(fixture_get(state), kernels_own_are_passed_over);
}

/* Where the kernel does not go along a path in its memory alone. */
static void below_the_kernels_own_is_swept(struct fixture *f)
{
    fixture_folder(fixture_in(f, "proc"), 0, 0, 0755);
    fixture_folder(fixture_in(f, "sys"), 0, 0, 0755);
    CHECK(mount("proc", fixture_in(f, "proc"), "proc", 0, NULL) == 0);
    CHECK(mount("sysfs", fixture_in(f, "sys"), "sysfs", 0, NULL) == 0);
    tmpfs_at(f, "proc/sys/kernel");
    tmpfs_at(f, "sys/fs");
    fixture_file(fixture_in(f, "proc/sys/kernel/file"), f->uids[0], f->uids[0], 0600);
    fixture_file(fixture_in(f, "sys/fs/file"), f->uids[0], f->uids[0], 0600);
    CHECK(clean(f));
    CHECK(!fixture_exists(fixture_in(f, "proc/sys/kernel/file")));
    CHECK(!fixture_exists(fixture_in(f, "sys/fs/file")));
}

static void files_mounted_in_what_is_the_kernels_are_removed(void **state)
{
    in_namespace(fixture_get(state), below_the_kernels_own_is_swept);
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
    fixture_folder(fixture_in(f, name), 0, 0, 0755);
    (void)snprintf(options, sizeof(options), "fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", ends[1],
                   (int)pid);
    return mount("never", fixture_in(f, name), "autofs", 0, options) == 0;
}

static void automount_is_not_triggered(struct fixture *f)
{
    (void)alarm(120);
    if (!autofs_at(f, "auto"))
        _exit(0); /* a kernel without it */
    CHECK(dirty(f, REASON_SCAN_FAILED, "autofs is not entered"));
    CHECK(umount(fixture_in(f, "auto")) == 0);
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
    fixture_folder(fixture_in(f, "mnt"), 0, 0, 0755);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            if (mount("none", fixture_in(f, "mnt"), "tmpfs", 0, "size=64k") == 0)
                (void)umount2(fixture_in(f, "mnt"), MNT_DETACH);
    }
    for (int i = 0; i < 300; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "mnt/%d", i);
        fixture_file(fixture_in(f, name), u, u, 0600); /* in the one or the other */
        sweep_it(f);
    }
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(clean(f));
    while (umount2(fixture_in(f, "mnt"), MNT_DETACH) == 0) {
    }
    CHECK(rmdir(fixture_in(f, "mnt")) == 0);
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

    fixture_folder(fixture_in(f, "mnt of it"), 0, 0, 0755);
    (void)snprintf(options, sizeof(options), "size=64k,uid=%u,gid=%u", u, u);
    assert_return_code(pipe2(ready, O_CLOEXEC), errno);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", fixture_in(f, "mnt of it"), "tmpfs", 0, options) < 0 ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    (void)snprintf(namespace, sizeof(namespace), "/proc/%d/ns/mnt", pid);
    f->places.mount_namespace = namespace;
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 1);
    (void)snprintf(table, sizeof(table), "/proc/%d/mounts", pid);
    FILE *file = fopen(table, "re");
    while (fgets(line, sizeof(line), file))
        assert_null(strstr(line, options));
    (void)fclose(file);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* ---- another mount in the place of the one that was looked at ---- */

/* Done as soon as the sweep asks for the id: it has read the mount table then, and touched nothing. */
struct swap {
    struct fixture *f;
    uint32_t id;
    void (*act)(struct fixture *f);
    bool done;
};

static bool swap_when_asked(uint32_t id, void *arg)
{
    struct swap *swap = arg;

    if (id == swap->id && !swap->done) {
        swap->done = true;
        swap->act(swap->f);
    }
    return id == swap->f->uids[0];
}

static void put_link(struct fixture *f)
{
    CHECK(rename(fixture_in(f, "d"), fixture_in(f, "e")) == 0);
    CHECK(symlink(fixture_in(f, "victim"), fixture_in(f, "d")) == 0);
}

static void put_folder(struct fixture *f)
{
    CHECK(rename(fixture_in(f, "d"), fixture_in(f, "e")) == 0);
    CHECK(rename(fixture_in(f, "victim"), fixture_in(f, "d")) == 0);
}

/* The kernel gives the id of what was unmounted to what is mounted next. */
static void put_mount(struct fixture *f)
{
    CHECK(umount(fixture_in(f, "d/mnt")) == 0);
    tmpfs_at(f, "d/mnt");
}

static void mount_of_uid_at(const struct fixture *f, const char *name)
{
    char options[64];

    (void)snprintf(options, sizeof(options), "size=64k,uid=%u", f->uids[0]);
    fixture_folder(fixture_in(f, name), 0, 0, 0755);
    CHECK(mount("none", fixture_in(f, name), "tmpfs", 0, options) == 0);
}

static void swapped_is_not_detached(struct fixture *f, void (*act)(struct fixture *f),
                                    const char *victim)
{
    struct swap swap = {f, f->uids[0], act, false};

    fixture_folder(fixture_in(f, "victim"), 0, 0, 0755);
    tmpfs_at(f, "victim/mnt");
    fixture_folder(fixture_in(f, "d"), 0, 0, 0755);
    mount_of_uid_at(f, "d/mnt");
    f->places.roots = f->none;
    f->sweep.ids.has = swap_when_asked;
    f->sweep.ids.arg = &swap;
    CHECK(dirty(f, REASON_MOUNT, "d/mnt") && swap.done);
    CHECK(f->sweep.n_removed == 0);
    CHECK(mounted(f, victim));
    CHECK(clean(f));
    CHECK(mounted(f, victim));
}

static void link_in_place(struct fixture *f)
{
    swapped_is_not_detached(f, put_link, "victim/mnt");
    CHECK(!mounted(f, "e/mnt"));
}

static void folder_in_place(struct fixture *f)
{
    swapped_is_not_detached(f, put_folder, "d/mnt");
    CHECK(!mounted(f, "e/mnt"));
}

static void mount_in_place(struct fixture *f)
{
    swapped_is_not_detached(f, put_mount, "d/mnt");
}

static void mounts_of_others_behind_a_link_stay(void **state)
{
    in_namespace(fixture_get(state), link_in_place);
}

static void mounts_of_others_in_a_folder_put_in_place_stay(void **state)
{
    in_namespace(fixture_get(state), folder_in_place);
}

static void mounts_of_others_that_have_got_its_id_stay(void **state)
{
    in_namespace(fixture_get(state), mount_in_place);
}

/* The same path leads through a server that never answers. */
static void put_dead_server(struct fixture *f)
{
    CHECK(rename(fixture_in(f, "d"), fixture_in(f, "e")) == 0);
    CHECK(rename(fixture_in(f, "dead"), fixture_in(f, "d")) == 0);
}

static void dead_server_in_place(struct fixture *f)
{
    struct swap swap = {f, f->uids[0], put_dead_server, false};

    (void)alarm(120);
    fixture_folder(fixture_in(f, "dead"), 0, 0, 0755);
    if (fuse_at(f, "dead/sub", 1000, ",allow_other") < 0)
        _exit(0); /* a kernel without FUSE */
    fixture_folder(fixture_in(f, "d"), 0, 0, 0755);
    fixture_folder(fixture_in(f, "d/sub"), 0, 0, 0755);
    mount_of_uid_at(f, "d/sub/mnt");
    f->places.roots = f->none;
    f->sweep.ids.has = swap_when_asked;
    f->sweep.ids.arg = &swap;
    CHECK(dirty(f, REASON_MOUNT, "d/sub/mnt") && swap.done);
    CHECK(clean(f) && !mounted(f, "e/sub/mnt"));
    CHECK(umount2(fixture_in(f, "d/sub"), MNT_DETACH) == 0);
}

static void mounts_whose_path_leads_to_a_dead_server_do_not_hang(void **state)
{
    in_namespace(fixture_get(state), dead_server_in_place);
}

/* Somebody's file lies in the upper one, so that the sweep asks when it has come there. */
static void other_is_walked_too(struct fixture *f)
{
    struct swap swap = {f, f->uids[1], put_folder, false};

    fixture_folder(fixture_in(f, "victim"), 0, 0, 0755);
    tmpfs_at(f, "victim/mnt");
    fixture_file(fixture_in(f, "victim/mnt/kept"), f->uids[0], f->uids[0], 0600);
    fixture_folder(fixture_in(f, "d"), 0, 0, 0755);
    tmpfs_at(f, "d/mnt");
    fixture_file(fixture_in(f, "d/mnt/other"), f->uids[1], f->uids[1], 0600);
    f->sweep.ids = (struct sweep_ids){f->uids[0], f->uids[1], swap_when_asked, &swap};
    CHECK(clean(f) && swap.done);
    CHECK(mounted(f, "d/mnt") && mounted(f, "e/mnt"));
    CHECK(!fixture_exists(fixture_in(f, "d/mnt/kept")));
    CHECK(fixture_exists(fixture_in(f, "e/mnt/other")));
}

static void files_of_a_mount_whose_folder_is_put_in_anothers_place_are_removed(void **state)
{
    in_namespace(fixture_get(state), other_is_walked_too);
}

/* An IPC namespace that nothing but this mount keeps, with an object of the uid. */
static void ipc_at(const struct fixture *f, const char *name)
{
    struct shmid_ds ds;
    int status;
    pid_t pid;

    fixture_file(fixture_in(f, name), 0, 0, 0600);
    pid = fork();
    if (pid == 0) {
        CHECK(unshare(CLONE_NEWIPC) == 0);
        int id = shmget(IPC_PRIVATE, 4096, 0600);
        CHECK(id >= 0 && shmctl(id, IPC_STAT, &ds) == 0);
        ds.shm_perm.uid = f->uids[0];
        CHECK(shmctl(id, IPC_SET, &ds) == 0);
        CHECK(mount("/proc/self/ns/ipc", fixture_in(f, name), NULL, MS_BIND, NULL) == 0);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void put_dead_server_before_ipc(struct fixture *f)
{
    CHECK(rename(fixture_in(f, "d"), fixture_in(f, "e")) == 0);
    CHECK(symlink(fixture_in(f, "dead"), fixture_in(f, "d")) == 0);
}

/* The object in the first one is where the sweep asks; the path of the second has been read by then. */
static void ipc_through_dead_server(struct fixture *f)
{
    struct swap swap = {f, f->uids[0], put_dead_server_before_ipc, false};

    (void)alarm(120);
    if (fuse_at(f, "dead", 1000, ",allow_other") < 0)
        _exit(0); /* a kernel without FUSE */
    fixture_folder(fixture_in(f, "d"), 0, 0, 0755);
    ipc_at(f, "first");
    ipc_at(f, "d/second");
    f->places.roots = f->none;
    f->sweep.ids.has = swap_when_asked;
    f->sweep.ids.arg = &swap;
    sweep_it(f);
    CHECK(swap.done);
    CHECK(unlink(fixture_in(f, "d")) == 0 && rename(fixture_in(f, "e"), fixture_in(f, "d")) == 0);
    CHECK(clean(f) && f->sweep.n_removed == 2);
    CHECK(umount2(fixture_in(f, "dead"), MNT_DETACH) == 0);
}

static void ipc_mounted_where_the_path_leads_to_a_dead_server_does_not_hang(void **state)
{
    in_namespace(fixture_get(state), ipc_through_dead_server);
}

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(files_of_a_mount_below_are_removed),
        SWEEP_TEST(files_hidden_by_mounts_are_removed),
        SWEEP_TEST(files_hidden_at_and_above_the_root_are_removed),
        SWEEP_TEST(files_under_a_mount_lose_the_uid_and_leave_it_mounted),
        SWEEP_TEST(files_mount_of_the_uid_is_dirty),
        SWEEP_TEST(files_put_in_place_of_a_mount_point_keep_their_owner),
        SWEEP_TEST(files_seen_through_bind_mounts_are_removed),
        SWEEP_TEST(files_of_a_read_only_mount_are_dirty),
        SWEEP_TEST(files_of_a_server_that_is_dead_are_dirty),
        SWEEP_TEST(files_in_deep_and_wide_folders_of_an_overlay_are_removed),
        SWEEP_TEST(files_of_a_subvolume_made_read_only_are_removed),
        SWEEP_TEST(names_on_a_server_that_is_dead_are_dirty),
        SWEEP_TEST(files_under_a_mount_made_meanwhile_do_not_hang_it),
        SWEEP_TEST(files_of_the_kernel_are_nobodys),
        SWEEP_TEST(files_mounted_in_what_is_the_kernels_are_removed),
        SWEEP_TEST(files_behind_an_automount_are_dirty),
        SWEEP_TEST(files_under_mounts_that_come_and_go_are_removed),
        SWEEP_TEST(files_mounted_for_the_uid_are_detached),
        SWEEP_TEST(mounts_of_others_behind_a_link_stay),
        SWEEP_TEST(mounts_of_others_in_a_folder_put_in_place_stay),
        SWEEP_TEST(mounts_of_others_that_have_got_its_id_stay),
        SWEEP_TEST(mounts_whose_path_leads_to_a_dead_server_do_not_hang),
        SWEEP_TEST(files_of_a_mount_whose_folder_is_put_in_anothers_place_are_removed),
        SWEEP_TEST(ipc_mounted_where_the_path_leads_to_a_dead_server_does_not_hang),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
