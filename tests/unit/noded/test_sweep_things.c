/* What is neither process nor file of a tree: IPC, queues, names, groups, slices, units; and how rounds end. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "map/name.h"

static void assert_clean(struct fixture *f)
{
    const struct sweep_finding *finding = sweep_verdict(&f->sweep, f->uids[0]);

    if (finding)
        fail_msg("%s: %s", reason_word(finding->reason), finding->detail);
}

/* ---- System V ---- */

static void shm_owned(int id, uint32_t uid, uint32_t gid)
{
    struct shmid_ds ds;

    assert_return_code(shmctl(id, IPC_STAT, &ds), errno);
    ds.shm_perm.uid = uid;
    ds.shm_perm.gid = gid;
    assert_return_code(shmctl(id, IPC_SET, &ds), errno);
}

static void ipc_objects_are_removed_by_owner_creator_and_group(void **state)
{
    struct fixture *f = fixture_get(state);
    uint32_t u = f->uids[0];
    struct semid_ds sem_ds;
    struct msqid_ds msg_ds;
    union {
        struct semid_ds *buf;
    } sem_arg = {&sem_ds};
    int owner, group, creator, others, sem, msg;

    owner = shmget(IPC_PRIVATE, 4096, 0600);
    shm_owned(owner, u, 0);
    group = shmget(IPC_PRIVATE, 4096, 0600);
    shm_owned(group, 0, u);
    /* Made by the uid, then given away: it may still remove it, so it is its. */
    assert_return_code(seteuid(u), errno);
    creator = shmget(IPC_PRIVATE, 4096, 0600);
    assert_return_code(seteuid(0), errno);
    shm_owned(creator, 0, 0);
    others = shmget(IPC_PRIVATE, 4096, 0600);
    shm_owned(others, f->uids[1], f->uids[1]);
    sem = semget(IPC_PRIVATE, 3, 0600);
    assert_return_code(semctl(sem, 0, IPC_STAT, sem_arg), errno);
    sem_ds.sem_perm.uid = u;
    assert_return_code(semctl(sem, 0, IPC_SET, sem_arg), errno);
    msg = msgget(IPC_PRIVATE, 0600);
    assert_return_code(msgctl(msg, IPC_STAT, &msg_ds), errno);
    msg_ds.msg_perm.gid = u;
    assert_return_code(msgctl(msg, IPC_SET, &msg_ds), errno);

    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_int_equal(f->sweep.n_findings, 3);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_int_equal(shmctl(owner, IPC_STAT, &(struct shmid_ds){0}), -1);
    assert_int_equal(shmctl(group, IPC_STAT, &(struct shmid_ds){0}), -1);
    assert_int_equal(shmctl(creator, IPC_STAT, &(struct shmid_ds){0}), -1);
    assert_int_equal(semctl(sem, 0, IPC_STAT, sem_arg), -1);
    assert_int_equal(msgctl(msg, IPC_STAT, &msg_ds), -1);
    assert_int_equal(shmctl(others, IPC_RMID, NULL), 0);
}

/* A namespace of its own with a segment and a queue of id in it, which a process of somebody else keeps. */
static void become_keeper(uint32_t id)
{
    mqd_t queue;
    int shm;

    if (unshare(CLONE_NEWIPC) < 0 || (shm = shmget(IPC_PRIVATE, 4096, 0600)) < 0)
        _exit(98);
    shm_owned(shm, id, id);
    if (seteuid(id) < 0 || (queue = mq_open("/xce-test", O_CREAT | O_RDWR, 0600, NULL)) < 0 ||
        seteuid(0) < 0)
        _exit(98);
    (void)mq_close(queue);
}

static void ipc_of_another_namespace_is_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t keeper = fixture_plant(become_keeper, f->uids[0]);

    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_int_equal(f->sweep.n_findings, 2);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 2);
    assert_true(fixture_alive(keeper));
    (void)kill(keeper, SIGKILL);
    (void)fixture_reap(keeper);
}

/* The same of one thread alone; the first one, whose number the process has, is where everybody is. */
static void *thread_keep(void *arg)
{
    become_keeper(*(uint32_t *)arg);
    fixture_ready();
    for (;;)
        (void)pause();
    return NULL;
}

static void become_thread_keeper(uint32_t id)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, thread_keep, &id) != 0)
        _exit(98);
    for (;;)
        (void)pause();
}

static void ipc_of_the_namespace_of_one_thread_is_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t keeper = fixture_plant(become_thread_keeper, f->uids[0]);
    bool alive;

    sweep_run(&f->sweep, SWEEP_LYING);
    alive = fixture_alive(keeper);
    (void)kill(keeper, SIGKILL);
    (void)fixture_reap(keeper);
    assert_true(alive);
    assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 2);
}

/* The same, but a mount keeps it, in a mount namespace that the test makes. */
static void mounted_look(struct fixture *f)
{
    char path[96];
    pid_t keeper;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(1);
    (void)snprintf(path, sizeof(path), "%s/ipc", f->dir);
    fixture_file(path, 0, 0, 0600);
    keeper = fork();
    if (keeper == 0) {
        become_keeper(f->uids[0]);
        _exit(mount("/proc/self/ns/ipc", path, NULL, MS_BIND, NULL) < 0);
    }
    if (fixture_reap(keeper) != 0)
        _exit(2);
    sweep_run(&f->sweep, SWEEP_LYING);
    if (sweep_verdict(&f->sweep, f->uids[0]))
        _exit(3);
    _exit(f->sweep.n_removed == 2 ? 0 : 4);
}

static void ipc_of_a_mounted_namespace_is_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fork();
    int status;

    if (pid == 0)
        mounted_look(f);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void ipc_attached_by_another_is_dirty_until_it_lets_go(void **state)
{
    struct fixture *f = fixture_get(state);
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    void *at = shmat(id, NULL, 0);

    assert_true(at != (void *)-1);
    shm_owned(id, f->uids[0], f->uids[0]);
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_IPC_SHM);
    assert_int_equal(shmdt(at), 0);
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
}

/* Nobody of ours: he gives the uid a segment that he stays attached to, a semaphore and a queue. */
static void become_giver(uint32_t uid)
{
    struct semid_ds sem_ds;
    struct msqid_ds msg_ds;
    union {
        struct semid_ds *buf;
    } sem_arg = {&sem_ds};
    int shm, sem, msg;

    if (setresgid(uid + 1, uid + 1, uid + 1) < 0 || setresuid(uid + 1, uid + 1, uid + 1) < 0)
        _exit(98);
    shm = shmget(IPC_PRIVATE, 4096, 0600);
    if (shmat(shm, NULL, 0) == (void *)-1)
        _exit(98);
    shm_owned(shm, uid, uid);
    sem = semget(IPC_PRIVATE, 1, 0600);
    msg = msgget(IPC_PRIVATE, 0600);
    if (semctl(sem, 0, IPC_STAT, sem_arg) < 0 || msgctl(msg, IPC_STAT, &msg_ds) < 0)
        _exit(98);
    sem_ds.sem_perm.uid = msg_ds.msg_perm.gid = uid;
    if (semctl(sem, 0, IPC_SET, sem_arg) < 0 || msgctl(msg, IPC_SET, &msg_ds) < 0)
        _exit(98);
}

static void ipc_that_another_gives_to_the_uid_keeps_it_from_nothing(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t giver = fixture_plant(become_giver, f->uids[0]);

    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 3);
    /* The segment is his again. */
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 3);
    assert_true(fixture_alive(giver));
    (void)kill(giver, SIGKILL);
    (void)fixture_reap(giver);
}

static void ipc_unreadable_is_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/sysvipc", f->dir);
    fixture_folder(path, 0, 0, 0755);
    (void)snprintf(path, sizeof(path), "%s/sysvipc/shm", f->dir);
    fixture_file(path, 0, 0, 0644);
    f->places.proc = f->dir;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_SCAN_FAILED);
}

static void mqueue_is_removed_whether_mounted_or_not(void **state)
{
    struct fixture *f = fixture_get(state);
    char name[64];
    mqd_t queue;

    (void)snprintf(name, sizeof(name), "/xce-test-%d", (int)getpid());
    assert_return_code(seteuid(f->uids[0]), errno);
    queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, NULL);
    assert_return_code(seteuid(0), errno);
    assert_return_code(queue, errno);
    (void)mq_close(queue);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_MQUEUE);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_int_equal(mq_unlink(name), -1);
}

/* ---- names ---- */

static void names_by_name_of_any_epoch_and_by_owner_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    const char *const folders[] = {f->dir, NULL};
    char mine[NAME_BUF], older[NAME_BUF], theirs[NAME_BUF], path[4][160];

    (void)name_encode("xce-", f->uids[0], 7, mine);
    (void)name_encode("xce-", f->uids[0], 1, older);
    (void)name_encode("xce-", f->uids[1], 7, theirs);
    f->places.roots = NULL;
    f->places.cron = folders;
    (void)snprintf(path[0], sizeof(path[0]), "%s/%s", f->dir, mine);
    (void)snprintf(path[1], sizeof(path[1]), "%s/%s", f->dir, older);
    (void)snprintf(path[2], sizeof(path[2]), "%s/%s", f->dir, theirs);
    (void)snprintf(path[3], sizeof(path[3]), "%s/a0001", f->dir);
    fixture_file(path[0], 0, 0, 0600);
    fixture_file(path[1], 0, 0, 0600);
    fixture_file(path[2], 0, 0, 0600);
    fixture_file(path[3], f->uids[0], 1, 0600);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_CRON);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_false(fixture_exists(path[0]));
    assert_false(fixture_exists(path[1]));
    assert_true(fixture_exists(path[2]));
    assert_false(fixture_exists(path[3]));
}

static void make_folder(const char *path, uint32_t uid)
{
    assert_return_code(mkdir(path, 0700), errno);
    assert_return_code(chown(path, uid, 0), errno);
}

/* A mail folder, whosever it and what it holds is; what is outside and linked to stays. */
static void names_of_folders_are_removed_with_what_they_hold(void **state)
{
    struct fixture *f = fixture_get(state);
    char mine[NAME_BUF], mail[128], path[5][200];
    const char *const folders[] = {mail, NULL};

    (void)name_encode("xce-", f->uids[0], 7, mine);
    f->places.roots = f->none;
    f->places.mail = folders;
    (void)snprintf(mail, sizeof(mail), "%s/mail", f->dir);
    make_folder(mail, 0);
    (void)snprintf(path[0], sizeof(path[0]), "%s/%s", mail, mine);
    (void)snprintf(path[1], sizeof(path[1]), "%s/%s/new", mail, mine);
    (void)snprintf(path[2], sizeof(path[2]), "%s/%s/new/1", mail, mine);
    (void)snprintf(path[3], sizeof(path[3]), "%s/%s/out", mail, mine);
    (void)snprintf(path[4], sizeof(path[4]), "%s/outside", f->dir);
    make_folder(path[0], 0);
    make_folder(path[1], f->uids[1]);
    fixture_file(path[2], f->uids[1], 0, 0600);
    make_folder(path[4], 0);
    assert_return_code(symlink(path[4], path[3]), errno);
    (void)snprintf(path[3], sizeof(path[3]), "%s/outside/1", f->dir);
    fixture_file(path[3], 0, 0, 0600);
    (void)snprintf(path[1], sizeof(path[1]), "%s/of-the-uid", mail);
    (void)snprintf(path[2], sizeof(path[2]), "%s/of-the-uid/1", mail);
    make_folder(path[1], f->uids[0]);
    fixture_file(path[2], 0, 0, 0600);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_MAIL);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_false(fixture_exists(path[0]));
    assert_false(fixture_exists(path[1]));
    assert_true(fixture_exists(path[3]));
}

static void names_of_folders_that_can_not_be_emptied_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    char mine[NAME_BUF], path[200], inner[220], kept[230];
    const char *const folders[] = {f->dir, NULL};

    (void)name_encode("xce-", f->uids[0], 7, mine);
    f->places.roots = f->none;
    f->places.at = folders;
    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, mine);
    (void)snprintf(inner, sizeof(inner), "%s/mounted", path);
    make_folder(path, 0);
    make_folder(inner, 0);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", inner, "tmpfs", 0, NULL) < 0) {
        print_message("needs mounts: %s\n", strerror(errno));
        skip();
    }
    (void)snprintf(kept, sizeof(kept), "%s/kept", inner);
    fixture_file(kept, 0, 0, 0600);
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_true(fixture_exists(kept));
    assert_return_code(umount(inner), errno);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_AT);
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_false(fixture_exists(path));
}

static void names_of_logins_may_be_numbers(void **state)
{
    struct fixture *f = fixture_get(state);
    const char *const folders[] = {f->dir, NULL};
    char mine[NAME_BUF], path[5][160];

    (void)name_encode("xce-", f->uids[0], 7, mine);
    f->places.roots = NULL;
    f->places.logins = folders;
    (void)snprintf(path[0], sizeof(path[0]), "%s/%s", f->dir, mine);
    (void)snprintf(path[1], sizeof(path[1]), "%s/%u", f->dir, f->uids[0]);
    (void)snprintf(path[2], sizeof(path[2]), "%s/%u", f->dir, f->uids[1]);
    (void)snprintf(path[3], sizeof(path[3]), "%s/0%u", f->dir, f->uids[0]);
    (void)snprintf(path[4], sizeof(path[4]), "%s/%u.x", f->dir, f->uids[0]);
    for (int i = 0; i < 5; i++)
        fixture_file(path[i], 0, 0, 0600);
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_LOGIN);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    for (int i = 0; i < 5; i++)
        assert_int_equal(fixture_exists(path[i]), i >= 2);
    f->places.logins = NULL;
    f->places.cron = folders;
    fixture_file(path[1], 0, 0, 0600);
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_true(fixture_exists(path[1]));
}

static void members_of_groups_are_told_not_touched(void **state)
{
    struct fixture *f = fixture_get(state);
    char mine[NAME_BUF], theirs[NAME_BUF], path[160];
    struct stat before, after;
    FILE *file;

    (void)name_encode("xce-", f->uids[0], 7, mine);
    (void)name_encode("xce-", f->uids[1], 7, theirs);
    (void)snprintf(path, sizeof(path), "%s/group", f->dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fprintf(file, "root:x:0:\n%s:x:1:\nsudo:x:27:alice,%s\n:::\nx\n", mine, theirs);
    (void)fclose(file);
    f->places.roots = NULL;
    f->places.group_file = path;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    file = fopen(path, "ae");
    (void)fprintf(file, "adm:x:4:syslog,%s", mine);
    (void)fclose(file);
    assert_int_equal(stat(path, &before), 0);
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_GROUP_MEMBER);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
}

/* ---- slices ---- */

static const char *cgroup2_mount(void)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    struct statfs fs;

    for (size_t i = 0; i < 2; i++)
        if (statfs(places[i], &fs) == 0 && fs.f_type == 0x63677270)
            return places[i];
    return NULL;
}

static void become_nothing(uint32_t uid)
{
}

static int nothing_listed(sweep_unit_fn found, void *found_arg, void *arg)
{
    return 0;
}

/* The manager has this unit loaded, and no other. */
static int one_loaded(const char *unit, void *arg)
{
    return strcmp(unit, arg) == 0;
}

static void slices_end_what_runs_below_them(void **state)
{
    struct fixture *f = fixture_get(state);
    const char *mount = cgroup2_mount();
    char top[128], uid_slice[160], job[192], procs[256], number[16];
    char none[] = "";
    struct sweep_units units = {nothing_listed, NULL, one_loaded, none};
    pid_t pid;
    int fd;

    if (!mount)
        skip();
    (void)snprintf(top, sizeof(top), "%s/xcetest%d.slice", mount, (int)getpid());
    (void)snprintf(uid_slice, sizeof(uid_slice), "%s/xce-%u.slice", top, f->uids[0]);
    (void)snprintf(job, sizeof(job), "%s/xce-%u-3.slice", uid_slice, f->uids[0]);
    if (mkdir(top, 0755) < 0) {
        print_message("needs a writable cgroup2\n");
        skip();
    }
    assert_return_code(mkdir(uid_slice, 0755), errno);
    assert_return_code(mkdir(job, 0755), errno);
    pid = fixture_plant(become_nothing, 0);
    (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", job);
    (void)snprintf(number, sizeof(number), "%d", pid);
    fd = open(procs, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, number, strlen(number)), strlen(number));
    (void)close(fd);
    f->places.cgroup = mount;
    f->places.slice = strrchr(top, '/') + 1;
    f->places.units = &units;
    sweep_run(&f->sweep, SWEEP_LYING); /* the folder of what runs stays, and ends nobody */
    assert_true(fixture_alive(pid));
    assert_true(fixture_exists(job));
    sweep_run(&f->sweep, SWEEP_SLICES);
    assert_int_equal(fixture_reap(pid), SIGKILL);
    sweep_run(&f->sweep, SWEEP_LYING); /* of what no manager has in mind nothing stays */
    assert_false(fixture_exists(uid_slice));
    assert_int_equal(rmdir(top), 0);
}

static int none_says(const char *unit, void *arg)
{
    (void)unit;
    (void)arg;
    return -ECONNREFUSED;
}

/* Below top: the folder of a uid's slice, and one in it. */
static const char *slice_path(const struct fixture *f, uint32_t uid, const char *below)
{
    static char paths[8][192];
    static size_t next;
    char *path = paths[next++ % 8];

    (void)snprintf(path, sizeof(paths[0]), "%s/top.slice/xce-%u.slice%s%s", f->dir, uid,
                   *below ? "/" : "", below);
    return path;
}

static const char *slice_named(const struct fixture *f, uint32_t uid, const char *rest)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "xce-%u%s", uid, rest);
    return slice_path(f, uid, name);
}

static void slices_that_the_manager_has_forgotten_are_removed(void **state)
{
    struct fixture *f = fixture_get(state);
    const uint32_t uid = f->uids[0], other = f->uids[FIXTURE_UIDS - 1] + 1;
    const char *const stay[] = {"-4.slice", "-5.slice", "-.slice", "-05.slice", "-6.slice.d", ""};
    char loaded[64];
    struct sweep_units units = {nothing_listed, NULL, none_says, loaded};

    (void)snprintf(loaded, sizeof(loaded), "xce-%u-4.slice", uid);
    assert_return_code(mkdir(fixture_in(f, "top.slice"), 0755), errno);
    assert_return_code(mkdir(slice_path(f, uid, ""), 0755), errno);
    assert_return_code(mkdir(slice_path(f, other, ""), 0755), errno);
    assert_return_code(mkdir(slice_named(f, other, "-3.slice"), 0755), errno);
    assert_return_code(mkdir(slice_named(f, uid, "-3.slice"), 0755), errno);
    for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
        assert_return_code(mkdir(slice_named(f, uid, stay[i]), 0755), errno);
    assert_return_code(mkdir(slice_path(f, uid, "run-u1.service"), 0755), errno);
    fixture_file(slice_path(f, uid, "xce.slice"), 0, 0, 0600); /* no folder */
    fixture_folder(slice_named(f, uid, "-3.slice/run-u1.service"), 0, 0, 0755);
    fixture_folder(slice_named(f, uid, "-3.slice/run-u1.service/inner"), 0, 0, 0755);
    fixture_folder(slice_named(f, uid, "-5.slice/busy"), 0, 0, 0755);
    fixture_file(slice_named(f, uid, "-5.slice/busy/something"), 0, 0, 0600);
    f->places.cgroup = f->dir;
    f->places.slice = "top.slice";
    f->places.units = &units;
    /* Not as long as nobody says whether they are loaded, nor by who only looks. */
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_true(fixture_exists(slice_named(f, uid, "-3.slice")));
    units.loaded = one_loaded;
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_true(fixture_exists(slice_named(f, uid, "-3.slice")));
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_LYING);
    assert_clean(f);
    assert_false(fixture_exists(slice_named(f, uid, "-3.slice")));
    for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
        assert_true(fixture_exists(slice_named(f, uid, stay[i])));
    assert_true(fixture_exists(slice_path(f, uid, "run-u1.service")));
    assert_true(fixture_exists(slice_named(f, other, "-3.slice")));
}

/* The uid's own slice goes when nothing is in it any more, unless the manager has it. */
static void slices_of_a_uid_go_with_the_last_one_in_it(void **state)
{
    struct fixture *f = fixture_get(state);
    const uint32_t uid = f->uids[0];
    char loaded[64];
    struct sweep_units units = {nothing_listed, NULL, one_loaded, loaded};

    f->places.cgroup = f->dir;
    f->places.slice = "top.slice";
    f->places.units = &units;
    assert_return_code(mkdir(fixture_in(f, "top.slice"), 0755), errno);
    for (int is_loaded = 1; is_loaded >= 0; is_loaded--) {
        (void)snprintf(loaded, sizeof(loaded), "xce-%u.slice", is_loaded ? uid : 1);
        (void)mkdir(slice_path(f, uid, ""), 0755);
        assert_return_code(mkdir(slice_named(f, uid, "-3.slice"), 0755), errno);
        sweep_run(&f->sweep, SWEEP_LYING);
        assert_false(fixture_exists(slice_named(f, uid, "-3.slice")));
        assert_int_equal(fixture_exists(slice_path(f, uid, "")), is_loaded);
    }
    assert_true(fixture_exists(fixture_in(f, "top.slice")));
}

/* ---- units, by a fake of the ops that the code takes anyway ---- */

struct manager {
    uint32_t uid;
    int units; /* still there */
    bool failed;
    int list_error, stop_error;
    int comes_back; /* so many times */
    int lists;      /* looks so far */
    int appears_at; /* one begins just before that look */
    int starts_at;  /* a process of the uid does, behind that look */
    pid_t started;
};

static void become_own(uint32_t uid)
{
    if (setresuid(uid, uid, uid) < 0)
        _exit(98);
}

static int manager_list(sweep_unit_fn found, void *found_arg, void *arg)
{
    struct manager *m = arg;
    char name[32];
    int n;

    if (++m->lists == m->appears_at)
        m->units++;
    if (m->lists == m->starts_at)
        m->started = fixture_plant(become_own, m->uid);
    n = m->units;
    for (int i = 0; i < n; i++) {
        (void)snprintf(name, sizeof(name), "run-u%d.service", i);
        found(m->uid, name, m->failed, found_arg);
    }
    return m->list_error;
}

static int manager_stop(const char *unit, int64_t wait_ms, void *arg)
{
    struct manager *m = arg;

    if (m->stop_error)
        return m->stop_error;
    if (m->comes_back-- <= 0)
        m->units--;
    return 0;
}

static struct sweep_units manager_units(struct manager *m)
{
    return (struct sweep_units){manager_list, manager_stop, NULL, m};
}

static void units_are_stopped(void **state)
{
    struct fixture *f = fixture_get(state);
    struct manager m = {.uid = f->uids[0], .units = 3};
    struct sweep_units units = manager_units(&m);

    f->places.units = &units;
    sweep_run(&f->sweep, SWEEP_RUNNING);
    assert_clean(f);
    assert_int_equal(m.units, 0);
}

/* The second look is behind all that lies around, which what runs could have made meanwhile. */
static void clean_is_two_looks_in_a_row_that_found_nothing(void **state)
{
    struct fixture *f = fixture_get(state);
    struct manager m = {.uid = f->uids[0]};
    struct sweep_units units = manager_units(&m);

    f->places.units = &units;
    sweep_run(&f->sweep, SWEEP_RUNNING | SWEEP_LYING);
    assert_clean(f);
    assert_true(m.lists >= 2);
    for (int at = 1; at <= 3; at++) {
        m = (struct manager){.uid = f->uids[0], .appears_at = at};
        sweep_run(&f->sweep, SWEEP_RUNNING | SWEEP_LYING);
        assert_clean(f);
        assert_int_equal(m.units, 0);
        assert_true(m.lists >= at + 2);
    }
}

/* Killed is not ended yet. */
static bool ends_soon(pid_t pid)
{
    int64_t deadline_ms = clock_mono_ms() + 20000;

    while (fixture_alive(pid) && clock_mono_ms() < deadline_ms)
        (void)usleep(10000);
    return !fixture_alive(pid);
}

/* What forks and ends without rest may not be met by any look. */
static void what_the_last_look_has_not_met_is_ended(void **state)
{
    struct fixture *f = fixture_get(state);
    struct manager m = {.uid = f->uids[0]};
    struct sweep_units units = manager_units(&m);
    bool ended;
    int last;

    f->places.units = &units;
    sweep_run(&f->sweep, SWEEP_RUNNING | SWEEP_LYING);
    assert_clean(f);
    last = m.lists;
    m = (struct manager){.uid = f->uids[0], .starts_at = last};
    sweep_run(&f->sweep, SWEEP_RUNNING | SWEEP_LYING);
    assert_true(m.started > 0);
    ended = ends_soon(m.started);
    (void)kill(m.started, SIGKILL);
    assert_int_equal(fixture_reap(m.started), SIGKILL);
    assert_true(ended);
}

/* So that a guard, which only looks, can tell it from what runs. */
static void units_that_have_failed_are_told_apart_and_reset(void **state)
{
    struct fixture *f = fixture_get(state);
    struct manager m = {.uid = f->uids[0], .units = 1, .failed = true};
    struct sweep_units units = manager_units(&m);

    f->places.units = &units;
    f->sweep.remove = false;
    sweep_run(&f->sweep, SWEEP_RUNNING);
    assert_int_equal(sweep_verdict(&f->sweep, m.uid)->reason, REASON_UNIT_FAILED);
    assert_int_equal(m.units, 1);
    f->sweep.remove = true;
    sweep_run(&f->sweep, SWEEP_RUNNING);
    assert_clean(f);
    assert_int_equal(m.units, 0);
}

static void units_that_can_not_be_looked_at_or_stopped_are_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    struct manager m = {.uid = f->uids[0], .units = 1, .stop_error = -ETIMEDOUT};
    struct sweep_units units = manager_units(&m);

    f->places.units = &units;
    sweep_run(&f->sweep, SWEEP_RUNNING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_UNIT);
    m = (struct manager){.uid = f->uids[0], .list_error = -ECONNREFUSED};
    sweep_run(&f->sweep, SWEEP_RUNNING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_SCAN_FAILED);
}

static void rounds_go_on_while_things_come_back_but_not_for_ever(void **state)
{
    struct fixture *f = fixture_get(state);
    struct manager m = {.uid = f->uids[0], .units = 1, .comes_back = 3};
    struct sweep_units units = manager_units(&m);

    f->places.units = &units;
    sweep_run(&f->sweep, SWEEP_RUNNING);
    assert_clean(f);
    m = (struct manager){.uid = f->uids[0], .units = 1, .comes_back = 1000000};
    sweep_run(&f->sweep, SWEEP_RUNNING);
    assert_int_equal(sweep_verdict(&f->sweep, f->uids[0])->reason, REASON_UNIT);
}

static bool any_has(uint32_t id, void *arg)
{
    return true;
}

static void findings_beyond_the_limit_make_every_uid_dirty(void **state)
{
    struct sweep sweep = {.ids = {1, UINT32_MAX, any_has, NULL}};

    for (uint32_t uid = 1; uid <= SWEEP_FINDINGS_MAX + 10; uid++)
        for (int twice = 0; twice < 2; twice++)
            sweep_found(&sweep, uid, REASON_FILE, "x");
    assert_int_equal(sweep.n_findings, SWEEP_FINDINGS_MAX);
    assert_true(sweep.overflow);
    assert_int_equal(sweep_verdict(&sweep, 1)->reason, REASON_FILE);
    assert_int_equal(sweep_verdict(&sweep, 5000)->reason, REASON_SCAN_FAILED);
    sweep_done(&sweep);
}

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(ipc_objects_are_removed_by_owner_creator_and_group),
        SWEEP_TEST(ipc_of_another_namespace_is_removed),
        SWEEP_TEST(ipc_of_the_namespace_of_one_thread_is_removed),
        SWEEP_TEST(ipc_of_a_mounted_namespace_is_removed),
        SWEEP_TEST(ipc_attached_by_another_is_dirty_until_it_lets_go),
        SWEEP_TEST(ipc_that_another_gives_to_the_uid_keeps_it_from_nothing),
        SWEEP_TEST(ipc_unreadable_is_dirty),
        SWEEP_TEST(mqueue_is_removed_whether_mounted_or_not),
        SWEEP_TEST(names_by_name_of_any_epoch_and_by_owner_are_removed),
        SWEEP_TEST(names_of_folders_are_removed_with_what_they_hold),
        SWEEP_TEST(names_of_folders_that_can_not_be_emptied_are_dirty),
        SWEEP_TEST(names_of_logins_may_be_numbers),
        SWEEP_TEST(members_of_groups_are_told_not_touched),
        SWEEP_TEST(slices_end_what_runs_below_them),
        SWEEP_TEST(slices_that_the_manager_has_forgotten_are_removed),
        SWEEP_TEST(slices_of_a_uid_go_with_the_last_one_in_it),
        SWEEP_TEST(units_are_stopped),
        SWEEP_TEST(clean_is_two_looks_in_a_row_that_found_nothing),
        SWEEP_TEST(what_the_last_look_has_not_met_is_ended),
        SWEEP_TEST(units_that_have_failed_are_told_apart_and_reset),
        SWEEP_TEST(units_that_can_not_be_looked_at_or_stopped_are_dirty),
        SWEEP_TEST(rounds_go_on_while_things_come_back_but_not_for_ever),
        cmocka_unit_test(findings_beyond_the_limit_make_every_uid_dirty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
