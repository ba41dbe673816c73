#include "common/net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/net/loop.h"

struct fixture {
    struct loop *loop;
    struct listener *listener;
    char folder[64], path[96];
    int n_accepted, fds[16];
    bool free_in_callback;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    assert_int_equal(loop_new(&f->loop), 0);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/xce-test-listener-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof f->path, "%s/s", f->folder);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    listener_free(f->listener);
    for (int i = 0; i < f->n_accepted; i++)
        (void)close(f->fds[i]);
    loop_free(f->loop);
    (void)unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

static void accepted(int fd, void *arg)
{
    struct fixture *f = arg;

    f->fds[f->n_accepted++] = fd;
    if (f->free_in_callback) {
        listener_free(f->listener);
        f->listener = NULL;
    }
}

static int listen_at(struct fixture *f, mode_t mode, struct listener **ret)
{
    return listener_unix_new(f->loop, f->path, mode, accepted, f, ret);
}

static int connect_to(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void step_until_accepted(struct fixture *f, int n)
{
    for (int i = 0; i < 1000 && f->n_accepted < n; i++)
        loop_step(f->loop, 10);
    assert_int_equal(f->n_accepted, n);
}

static void listener_accepts_and_removes_its_file(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    int fd;

    assert_int_equal(listen_at(f, 0600, &f->listener), 0);
    fd = connect_to(f->path);
    assert_true(fd >= 0);
    step_until_accepted(f, 1);
    listener_free(f->listener);
    f->listener = NULL;
    assert_int_equal(lstat(f->path, &st), -1);
    (void)close(fd);
}

static void listener_file_has_the_mode_whatever_the_umask(void **state)
{
    struct fixture *f = *state;
    static const mode_t modes[] = {0600, 0660, 0666};
    mode_t old = umask(0077);

    for (size_t i = 0; i < 3; i++) {
        struct stat st;

        assert_int_equal(listen_at(f, modes[i], &f->listener), 0);
        assert_int_equal(lstat(f->path, &st), 0);
        assert_int_equal(st.st_mode & 07777, modes[i]);
        listener_free(f->listener);
        f->listener = NULL;
    }
    (void)umask(old);
}

static void listener_stale_socket_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", f->path);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    (void)close(fd);
    assert_int_equal(listen_at(f, 0600, &f->listener), 0);
    fd = connect_to(f->path);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void listener_live_socket_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct listener *second;
    int fd;

    assert_int_equal(listen_at(f, 0600, &f->listener), 0);
    assert_int_equal(listen_at(f, 0600, &second), -EADDRINUSE);
    fd = connect_to(f->path);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void listener_file_that_is_no_socket_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    int fd = open(f->path, O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(listen_at(f, 0600, &f->listener), -EEXIST);
    assert_int_equal(lstat(f->path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void listener_errors_of_the_path(void **state)
{
    struct fixture *f = *state;
    char path[200];

    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    assert_int_equal(listener_unix_new(f->loop, path, 0600, accepted, f, &f->listener),
                     -ENAMETOOLONG);
    assert_int_equal(listener_unix_new(f->loop, "/nonexistent/s", 0600, accepted, f, &f->listener),
                     -ENOENT);
}

static void listener_does_not_remove_the_file_of_its_successor(void **state)
{
    struct fixture *f = *state;
    struct listener *second;
    int fd;

    assert_int_equal(listen_at(f, 0600, &f->listener), 0);
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(listen_at(f, 0600, &second), 0);
    listener_free(f->listener);
    f->listener = second;
    fd = connect_to(f->path);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void listener_may_be_freed_in_its_callback(void **state)
{
    struct fixture *f = *state;
    int a, b;

    f->free_in_callback = true;
    assert_int_equal(listen_at(f, 0600, &f->listener), 0);
    a = connect_to(f->path);
    b = connect_to(f->path);
    step_until_accepted(f, 1);
    loop_step(f->loop, 10);
    assert_int_equal(f->n_accepted, 1);
    (void)close(a);
    (void)close(b);
}

static void listener_out_of_descriptors_waits_without_spinning(void **state)
{
    struct fixture *f = *state;
    struct rlimit old, few;
    struct timespec before, after;
    int fd;

    assert_int_equal(listen_at(f, 0600, &f->listener), 0);
    fd = connect_to(f->path);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int64_t end = loop_now_fresh_ms() + 250; loop_now_fresh_ms() < end;)
        loop_step(f->loop, 50);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_int_equal(f->n_accepted, 0);
    assert_true((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 <
                60);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    step_until_accepted(f, 1);
    (void)close(fd);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(listener_accepts_and_removes_its_file),
        T(listener_file_has_the_mode_whatever_the_umask),
        T(listener_stale_socket_is_replaced),
        T(listener_live_socket_is_left_alone),
        T(listener_file_that_is_no_socket_is_left_alone),
        T(listener_errors_of_the_path),
        T(listener_does_not_remove_the_file_of_its_successor),
        T(listener_may_be_freed_in_its_callback),
        T(listener_out_of_descriptors_waits_without_spinning),
    };
    return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
