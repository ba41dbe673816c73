#include "tests/unit/noded/sweep_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int fixture_setup(void **state)
{
    struct fixture *f;

    if (geteuid() != 0)
        return 0;
    f = calloc(1, sizeof(*f));
    assert_non_null(f);
    for (uint32_t i = 0; i < FIXTURE_UIDS; i++)
        f->uids[i] = 0x7a000000u + ((uint32_t)getpid() & 0x3fffff) * 8 + i;
    memcpy(f->dir, "/tmp/xce-test-sweep.XXXXXX", sizeof("/tmp/xce-test-sweep.XXXXXX"));
    assert_non_null(mkdtemp(f->dir));
    f->roots[0] = f->dir;
    f->list = (struct sweep_list){f->uids, 1};
    f->places = (struct sweep_places){.prefix = "xce-",
                                      .proc = "/proc",
                                      .roots = f->roots,
                                      .remnant_uid = f->uids[0] + FIXTURE_UIDS,
                                      .remnant_gid = f->uids[0] + FIXTURE_UIDS + 1};
    f->sweep = (struct sweep){
        .places = &f->places,
        .ids = {f->uids[0], f->uids[0], sweep_list_has, &f->list},
        .uids = f->uids,
        .n_uids = 1,
        .remove = true,
        .wait_ms = 2000,
    };
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    if (remove(path) < 0 && errno == EPERM) {
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC), flags = 0;
        (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
        (void)close(fd);
        (void)remove(path);
    }
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    if (!f)
        return 0;
    (void)nftw(f->dir, remove_one, 32, FTW_DEPTH | FTW_PHYS);
    sweep_done(&f->sweep);
    free(f);
    return 0;
}

struct fixture *fixture_get(void **state)
{
    if (!*state) {
        print_message("needs root: setting other uids and files of theirs\n");
        skip();
    }
    return *state;
}

void fixture_ready(void)
{
    /* Once is enough: after that nobody listens. */
    if (write(200, "x", 1) != 1 && errno != EPIPE)
        _exit(98);
}

pid_t fixture_plant(void (*become)(uint32_t uid), uint32_t uid)
{
    int ready[2];
    char c = 0;
    pid_t pid;

    assert_return_code(pipe2(ready, O_CLOEXEC), errno);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)signal(SIGPIPE, SIG_IGN);
        /* become() must not return before it has become so; the pipe says that it has. */
        (void)dup2(ready[1], 200);
        (void)close(ready[0]);
        (void)close(ready[1]);
        become(uid);
        /* Anew: a change of ids takes it away. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        fixture_ready();
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    (void)close(ready[0]);
    return pid;
}

int fixture_reap(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

bool fixture_alive(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

void fixture_file(const char *path, uint32_t uid, uint32_t gid, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    assert_return_code(fd, errno);
    assert_return_code(fchown(fd, uid, gid), errno);
    assert_return_code(fchmod(fd, mode), errno);
    (void)close(fd);
}

void fixture_folder(const char *path, uint32_t uid, uint32_t gid, mode_t mode)
{
    assert_return_code(mkdir(path, 0700), errno);
    assert_return_code(chown(path, uid, gid), errno);
    assert_return_code(chmod(path, mode), errno);
}

bool fixture_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

const char *fixture_in(const struct fixture *f, const char *name)
{
    static char memory[4][512];
    static unsigned turn;
    char *path = memory[turn++ % 4];

    (void)snprintf(path, sizeof(memory[0]), "%s/%s", f->dir, name);
    return path;
}

void fixture_assert_clean(const struct fixture *f)
{
    const struct sweep_finding *finding = sweep_verdict(&f->sweep, f->uids[0]);

    if (finding)
        fail_msg("%s: %s", reason_word(finding->reason), finding->detail);
}
