/* What only an open descriptor of somebody else keeps. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where a keeper has what it keeps. */
#define KEPT 100

static const char *dir; /* of the test that runs */

static void die_unless(bool well)
{
    if (!well)
        _exit(98);
}

static void keep(int fd, int as)
{
    die_unless(fd >= 0 && dup2(fd, as) == as);
    (void)close(fd);
}

static struct stat kept_stat(pid_t pid, const char *what)
{
    char path[64];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
    assert_return_code(stat(path, &st), errno);
    return st;
}

static void keeper_end(pid_t pid)
{
    assert_true(fixture_alive(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)fixture_reap(pid);
}

static void assert_found(struct fixture *f, enum reason reason)
{
    const struct sweep_finding *finding;

    sweep_run(&f->sweep, SWEEP_LYING);
    finding = sweep_verdict(&f->sweep, f->uids[0]);
    assert_non_null(finding);
    assert_int_equal(finding->reason, reason);
}

static void look(struct fixture *f)
{
    f->sweep.remove = false;
    assert_found(f, REASON_OPEN_FILE);
    f->sweep.remove = true;
}

/* A file without a name, of (uid, gid), with a text in it. */
static int unlinked_make(uint32_t uid, uint32_t gid)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    die_unless(fd >= 0 && write(fd, "text", 4) == 4);
    die_unless(fchown(fd, uid, gid) == 0 && fchmod(fd, 04755) == 0);
    return fd;
}

static void become_keeper(uint32_t uid)
{
    keep(unlinked_make(uid, uid), KEPT);
    keep(unlinked_make(1, uid), KEPT + 1);
    keep(unlinked_make(uid + 1, 1), KEPT + 2);
    die_unless(seteuid(uid) == 0);
    keep(memfd_create("kept", MFD_CLOEXEC), KEPT + 3);
    die_unless(seteuid(0) == 0);
}

static void open_unlinked_files_are_given_away(void **state)
{
    struct fixture *f = fixture_get(state);
    char path[64], text[5] = "";
    struct stat st;
    pid_t pid;
    int fd;

    dir = f->dir;
    pid = fixture_plant(become_keeper, f->uids[0]);
    look(f);
    assert_int_equal(kept_stat(pid, "fd/100").st_uid, f->uids[0]);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    st = kept_stat(pid, "fd/100");
    assert_int_equal(st.st_uid, f->places.remnant_uid);
    assert_int_equal(st.st_gid, f->places.remnant_gid);
    assert_int_equal(st.st_mode & 07777, 0);
    st = kept_stat(pid, "fd/101");
    assert_int_equal(st.st_uid, 1);
    assert_int_equal(st.st_gid, f->places.remnant_gid);
    assert_int_equal(kept_stat(pid, "fd/102").st_uid, f->uids[1]);
    assert_int_equal(kept_stat(pid, "fd/103").st_uid, f->places.remnant_uid);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/100", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, text, 4), 4);
    assert_string_equal(text, "text");
    (void)close(fd);
    keeper_end(pid);
}

static void become_named_keeper(uint32_t uid)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/named", dir);
    keep(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600), KEPT);
    die_unless(fchown(KEPT, uid, uid) == 0);
}

static void open_files_with_a_name_elsewhere_are_left(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid;

    dir = f->dir;
    f->places.roots = f->none;
    pid = fixture_plant(become_named_keeper, f->uids[0]);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_int_equal(kept_stat(pid, "fd/100").st_uid, f->uids[0]);
    keeper_end(pid);
}

static void open_files_that_the_sweep_unlinks_are_given_away(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid;

    dir = f->dir;
    pid = fixture_plant(become_named_keeper, f->uids[0]);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_false(fixture_exists(fixture_in(f, "named")));
    assert_int_equal(kept_stat(pid, "fd/100").st_uid, f->places.remnant_uid);
    keeper_end(pid);
}

/* Descriptors of one thread alone. */
static void *thread_keep(void *arg)
{
    die_unless(unshare(CLONE_FILES) == 0);
    keep(unlinked_make(*(uint32_t *)arg, 0), KEPT);
    fixture_ready();
    for (;;)
        (void)pause();
    return NULL;
}

static void become_thread_keeper(uint32_t uid)
{
    pthread_t thread;

    die_unless(pthread_create(&thread, NULL, thread_keep, &uid) == 0);
    for (;;)
        (void)pause();
}

static void open_files_of_one_thread_are_seen(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid;

    dir = f->dir;
    pid = fixture_plant(become_thread_keeper, f->uids[0]);
    look(f);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    keeper_end(pid);
}

static void become_program(uint32_t uid)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/sleep", dir);
    die_unless(chown(path, uid, uid) == 0);
    fixture_ready();
    (void)execl(path, "sleep", "1000", NULL);
    die_unless(false);
}

static void program_copy(const char *to)
{
    int from_fd = open("/bin/sleep", O_RDONLY | O_CLOEXEC);
    int to_fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    struct stat st;

    assert_true(from_fd >= 0 && to_fd >= 0);
    assert_return_code(fstat(from_fd, &st), errno);
    assert_int_equal(copy_file_range(from_fd, NULL, to_fd, NULL, (size_t)st.st_size, 0),
                     st.st_size);
    (void)close(from_fd);
    (void)close(to_fd);
}

static void open_programs_are_seen(void **state)
{
    struct fixture *f = fixture_get(state);
    char link[256] = "", expected[128], path[64];
    pid_t pid;

    dir = f->dir;
    program_copy(fixture_in(f, "sleep"));
    pid = fixture_plant(become_program, f->uids[0]);
    (void)snprintf(path, sizeof(path), "/proc/%d/exe", pid);
    (void)snprintf(expected, sizeof(expected), "%s/sleep", f->dir);
    while (strcmp(link, expected) != 0 && fixture_alive(pid)) {
        ssize_t len = readlink(path, link, sizeof(link) - 1);
        assert_true(len > 0);
        link[len] = '\0';
    }
    assert_return_code(unlink(expected), errno);
    look(f);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_int_equal(kept_stat(pid, "exe").st_uid, f->places.remnant_uid);
    keeper_end(pid);
}

/* Opened through a mount that forbids to write. */
static void become_read_only_keeper(uint32_t uid)
{
    die_unless(unshare(CLONE_NEWNS) == 0);
    die_unless(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    die_unless(mount("tmpfs", dir, "tmpfs", 0, "mode=0755") == 0 && chdir(dir) == 0);
    keep(open("file", O_CREAT | O_RDONLY | O_CLOEXEC, 0600), KEPT);
    die_unless(fchown(KEPT, uid, uid) == 0 && unlink("file") == 0);
    die_unless(mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
}

static void open_files_that_can_not_be_taken_away_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid;

    dir = f->dir;
    pid = fixture_plant(become_read_only_keeper, f->uids[0]);
    assert_found(f, REASON_OPEN_FILE);
    keeper_end(pid);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
}

/* An IPC namespace with a segment in it, in which nobody lives. */
static void become_namespace_keeper(uint32_t uid)
{
    int before = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC), shm;
    struct shmid_ds ds;

    die_unless(before >= 0 && unshare(CLONE_NEWIPC) == 0);
    shm = shmget(IPC_PRIVATE, 4096, 0600);
    die_unless(shm >= 0 && shmctl(shm, IPC_STAT, &ds) == 0);
    ds.shm_perm.uid = uid;
    die_unless(shmctl(shm, IPC_SET, &ds) == 0);
    keep(open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC), KEPT);
    die_unless(setns(before, CLONE_NEWIPC) == 0);
}

static void open_ipc_namespaces_are_looked_into(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_namespace_keeper, f->uids[0]);

    f->sweep.remove = false;
    assert_found(f, REASON_IPC_SHM);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 1);
    keeper_end(pid);
}

/* What the same number leads to changes all the while: a namespace, a FIFO that nobody writes to. */
static void become_flipper(uint32_t uid)
{
    char path[128];
    int fifo;

    become_namespace_keeper(uid);
    (void)snprintf(path, sizeof(path), "%s/fifo", dir);
    die_unless(mkfifo(path, 0600) == 0);
    fifo = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    die_unless(fifo >= 0 && fifo < KEPT && dup2(KEPT, KEPT + 1) == KEPT + 1);
    fixture_ready();
    for (;;)
        die_unless(dup2(fifo, KEPT) == KEPT && dup2(KEPT + 1, KEPT) == KEPT);
}

static void open_fifos_in_place_of_namespaces_do_not_hang_it(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid;

    dir = f->dir;
    f->places.roots = f->none;
    pid = fixture_plant(become_flipper, f->uids[0]);
    (void)alarm(120); /* hanging, it would be for ever */
    for (int i = 0; i < 50; i++)
        sweep_run(&f->sweep, SWEEP_LYING);
    (void)alarm(0);
    fixture_assert_clean(f);
    keeper_end(pid);
}

/* ---- a FUSE file system that says whose its file is, and never another word ---- */

static void fuse_answer(int fuse_fd, uint64_t unique, const void *body, size_t len)
{
    char answer[512];
    struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + len), .unique = unique};

    memcpy(answer, &head, sizeof(head));
    memcpy(answer + sizeof(head), body, len);
    die_unless(write(fuse_fd, answer, head.len) == (ssize_t)head.len);
}

static void *fuse_serve(void *arg)
{
    static char request[1 << 20];
    const struct fuse_in_header *head = (const void *)request;
    const uint32_t *served = arg;
    struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
    struct fuse_entry_out entry = {.nodeid = 2, .entry_valid = 1000, .attr_valid = 1000};

    entry.attr = (struct fuse_attr){
        .ino = 2, .mode = S_IFREG | 0600, .uid = served[1], .gid = served[1], .blksize = 4096};
    while (read((int)served[0], request, sizeof(request)) > 0) {
        if (head->opcode == FUSE_INIT)
            fuse_answer((int)served[0], head->unique, &init, sizeof(init));
        else if (head->opcode == FUSE_LOOKUP)
            fuse_answer((int)served[0], head->unique, &entry, sizeof(entry));
    }
    return NULL;
}

static void become_served_keeper(uint32_t uid)
{
    static uint32_t served[2];
    int fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[128];
    pthread_t thread;

    die_unless(fuse_fd >= 0 && unshare(CLONE_NEWNS) == 0);
    die_unless(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    (void)snprintf(options, sizeof(options),
                   "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse_fd);
    die_unless(mount("never", dir, "fuse.never", 0, options) == 0);
    served[0] = (uint32_t)fuse_fd;
    served[1] = uid;
    die_unless(pthread_create(&thread, NULL, fuse_serve, served) == 0);
    (void)snprintf(options, sizeof(options), "%s/file", dir);
    keep(open(options, O_PATH | O_CLOEXEC), KEPT);
}

static void open_files_of_a_server_that_is_dead_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid;

    if (access("/dev/fuse", R_OK) < 0)
        skip(); /* a kernel without FUSE */
    dir = f->dir;
    f->places.roots = f->none;
    pid = fixture_plant(become_served_keeper, f->uids[0]);
    (void)alarm(120);
    assert_found(f, REASON_OPEN_FILE);
    (void)alarm(0);
    keeper_end(pid);
    sweep_run(&f->sweep, SWEEP_LYING);
    fixture_assert_clean(f);
}

static void become_socket_keeper(uint32_t uid)
{
    die_unless(setegid(uid) == 0 && seteuid(uid) == 0);
    keep(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), KEPT);
    keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), KEPT + 1);
    die_unless(seteuid(0) == 0 && setegid(0) == 0);
}

static void become_pipe_keeper(uint32_t uid)
{
    int ends[2];

    die_unless(setegid(uid) == 0 && seteuid(uid) == 0 && pipe2(ends, O_CLOEXEC) == 0);
    die_unless(seteuid(0) == 0 && setegid(0) == 0);
    keep(ends[0], KEPT);
    keep(ends[1], KEPT + 1);
}

/* There is nobody whose they could be instead. */
static void open_sockets_and_pipes_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    void (*const keepers[])(uint32_t) = {become_socket_keeper, become_pipe_keeper};
    static const char *const sorts[] = {"a socket", "a pipe"};

    for (size_t i = 0; i < 2; i++) {
        pid_t pid = fixture_plant(keepers[i], f->uids[0]);
        look(f);
        assert_found(f, REASON_OPEN_FILE);
        assert_non_null(strstr(sweep_verdict(&f->sweep, f->uids[0])->detail, sorts[i]));
        assert_int_equal(kept_stat(pid, "fd/101").st_uid, f->uids[0]);
        keeper_end(pid);
        sweep_run(&f->sweep, SWEEP_LYING);
        fixture_assert_clean(f);
    }
}

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(open_unlinked_files_are_given_away),
        SWEEP_TEST(open_files_with_a_name_elsewhere_are_left),
        SWEEP_TEST(open_files_that_the_sweep_unlinks_are_given_away),
        SWEEP_TEST(open_files_of_one_thread_are_seen),
        SWEEP_TEST(open_programs_are_seen),
        SWEEP_TEST(open_files_that_can_not_be_taken_away_are_dirty),
        SWEEP_TEST(open_ipc_namespaces_are_looked_into),
        SWEEP_TEST(open_fifos_in_place_of_namespaces_do_not_hang_it),
        SWEEP_TEST(open_sockets_and_pipes_are_dirty),
        SWEEP_TEST(open_files_of_a_server_that_is_dead_are_dirty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
