#include "common/net/loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct loop *loop;
    struct loop_timer *timer, *other;
    struct loop_soon *soon;
    struct loop_wake *wake;
    struct loop_poll *poll;
    int fds[2];
    int count;
    int order[8];
    int64_t at_ms;
    int result;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    assert_int_equal(loop_new(&f->loop), 0);
    assert_int_equal(pipe(f->fds), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    loop_free(f->loop);
    (void)close(f->fds[0]);
    (void)close(f->fds[1]);
    free(f);
    return 0;
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

static void count(void *arg)
{
    struct fixture *f = arg;

    f->count++;
    f->at_ms = loop_now_fresh_ms();
}

static void count_and_stop(void *arg)
{
    struct fixture *f = arg;

    count(f);
    loop_stop(f->loop);
}

/* ---- time and timers ---- */

static void loop_empty_run_returns(void **state)
{
    struct fixture *f = *state;

    loop_run(f->loop);
}

static void loop_now_is_boot_time(void **state)
{
    struct fixture *f = *state;
    struct timespec ts;

    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
    int64_t boot_ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;

    assert_in_range(loop_now_ms(f->loop), boot_ms, boot_ms + 60000);
    assert_in_range(loop_now_fresh_ms(), boot_ms, boot_ms + 60000);
}

static void loop_timer_fires_never_early(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_timer_new(f->loop, count, f, &f->timer), 0);
    for (int i = 0; i < 20; i++) {
        struct timespec from, to;

        (void)clock_gettime(CLOCK_BOOTTIME, &from);
        loop_timer_start(f->timer, 3, 0);
        loop_run(f->loop);
        (void)clock_gettime(CLOCK_BOOTTIME, &to);
        assert_int_equal(f->count, i + 1);
        assert_true((to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec) >=
                    3000000);
    }
    loop_timer_free(f->timer);
}

static void third_time_free(void *arg)
{
    struct fixture *f = arg;

    if (++f->count == 3)
        loop_timer_free(f->timer);
}

static void loop_timer_repeats_until_freed_by_itself(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_timer_new(f->loop, third_time_free, f, &f->timer), 0);
    loop_timer_start(f->timer, 1, 1);
    loop_run(f->loop);
    assert_int_equal(f->count, 3);
}

struct ordered {
    struct fixture *f;
    struct loop_timer *timer;
    int number;
};

static void note_order(void *arg)
{
    struct ordered *o = arg;

    o->f->order[o->f->count++] = o->number;
}

static void loop_timers_fire_in_order_of_time(void **state)
{
    struct fixture *f = *state;
    static const int delay[8] = {14, 2, 8, 6, 12, 4, 10, 16};
    struct ordered o[8];

    for (int i = 0; i < 8; i++) {
        o[i] = (struct ordered){.f = f, .number = delay[i]};
        assert_int_equal(loop_timer_new(f->loop, note_order, &o[i], &o[i].timer), 0);
        loop_timer_start(o[i].timer, 1000, 0);
        loop_timer_start(o[i].timer, delay[i], 0); /* moved */
    }
    loop_timer_stop(o[2].timer);
    loop_run(f->loop);
    assert_int_equal(f->count, 7);
    for (int i = 1; i < 7; i++)
        assert_true(f->order[i - 1] < f->order[i]);
    for (int i = 0; i < 8; i++)
        loop_timer_free(o[i].timer);
}

static void loop_many_timers_keep_the_heap_whole(void **state)
{
    struct fixture *f = *state;
    enum {
        N = 500,
    };
    static struct loop_timer *timers[N];
    unsigned seed = 1;

    for (int i = 0; i < N; i++) {
        assert_int_equal(loop_timer_new(f->loop, count, f, &timers[i]), 0);
        loop_timer_start(timers[i], rand_r(&seed) % 20, 0);
    }
    for (int i = 0; i < N; i += 2)
        loop_timer_stop(timers[(i * 7) % N]);
    int expect = 0;
    bool stopped[N] = {false};
    for (int i = 0; i < N; i += 2)
        stopped[(i * 7) % N] = true;
    for (int i = 0; i < N; i++)
        expect += !stopped[i];
    loop_run(f->loop);
    assert_int_equal(f->count, expect);
    for (int i = 0; i < N; i++)
        loop_timer_free(timers[i]);
}

/* ---- soon and defer ---- */

static void loop_defer_never_runs_inside_the_call(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_defer(f->loop, count, f), 0);
    assert_int_equal(f->count, 0);
    loop_run(f->loop);
    assert_int_equal(f->count, 1);
}

static void defer_again(void *arg)
{
    struct fixture *f = arg;

    if (++f->count < 100)
        assert_int_equal(loop_defer(f->loop, defer_again, f), 0);
}

static void loop_defer_chain_runs_whole(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_defer(f->loop, defer_again, f), 0);
    loop_run(f->loop);
    assert_int_equal(f->count, 100);
}

/* Until a descriptor has had its turn. */
static void defer_for_ever(void *arg)
{
    struct fixture *f = arg;

    if (f->count)
        loop_stop(f->loop);
    else
        assert_int_equal(loop_defer(f->loop, defer_for_ever, f), 0);
}

static void pipe_ready(int fd, unsigned events, void *arg)
{
    struct fixture *f = arg;
    char c;

    assert_int_equal(fd, f->fds[0]);
    assert_true(events & POLLIN);
    assert_int_equal(read(fd, &c, 1), 1);
    f->count++;
}

static void loop_endless_defer_does_not_starve_descriptors(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_poll_new(f->loop, f->fds[0], POLLIN, pipe_ready, f, &f->poll), 0);
    assert_int_equal(write(f->fds[1], "x", 1), 1);
    assert_int_equal(loop_defer(f->loop, defer_for_ever, f), 0);
    loop_run(f->loop);
    assert_int_equal(f->count, 1);
    loop_poll_free(f->poll);
}

static void loop_soon_started_twice_runs_once_and_can_be_stopped(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_soon_new(f->loop, count, f, &f->soon), 0);
    loop_soon_start(f->soon);
    loop_soon_start(f->soon);
    loop_run(f->loop);
    assert_int_equal(f->count, 1);
    loop_soon_start(f->soon);
    loop_soon_stop(f->soon);
    loop_run(f->loop);
    assert_int_equal(f->count, 1);
    loop_soon_start(f->soon);
    loop_soon_free(f->soon);
    loop_run(f->loop);
    assert_int_equal(f->count, 1);
}

static void free_soon(void *arg)
{
    struct fixture *f = arg;

    loop_soon_free(f->soon);
    f->count++;
}

static void loop_soon_may_free_itself(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_soon_new(f->loop, free_soon, f, &f->soon), 0);
    loop_soon_start(f->soon);
    loop_run(f->loop);
    assert_int_equal(f->count, 1);
}

static void loop_free_runs_what_was_deferred(void **state)
{
    struct fixture *f = *state;
    struct loop *loop;

    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(loop_defer(loop, count, f), 0);
    loop_free(loop);
    assert_int_equal(f->count, 1);
}

/* ---- wake, signal, poll ---- */

static void *send_wakes(void *arg)
{
    struct fixture *f = arg;

    for (int i = 0; i < 1000; i++)
        loop_wake_send(f->wake);
    return NULL;
}

static void loop_wake_from_another_thread_calls_back(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;

    assert_int_equal(loop_wake_new(f->loop, count_and_stop, f, &f->wake), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_wakes, f), 0);
    loop_run(f->loop);
    assert_true(f->count >= 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    loop_wake_free(f->wake);
}

static void on_signal(int signum, void *arg)
{
    struct fixture *f = arg;

    f->result = signum;
    loop_stop(f->loop);
}

static void loop_signal_is_delivered_on_the_loop(void **state)
{
    struct fixture *f = *state;
    struct loop_signal *sig;

    assert_int_equal(loop_signal_new(f->loop, SIGUSR1, on_signal, f, &sig), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    loop_run(f->loop);
    assert_int_equal(f->result, SIGUSR1);
    loop_signal_free(sig);
}

static void loop_signal_that_is_blocked_waits_for_a_loop(void **state)
{
    struct fixture *f = *state;
    struct loop_signal *sig;
    sigset_t only, before;

    (void)sigemptyset(&only);
    (void)sigaddset(&only, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &only, &before), 0);
    /* Nobody asks for it, nor any more: it neither ends the process nor is it lost. */
    for (int i = 0; i < 2; i++) {
        f->result = 0;
        assert_int_equal(kill(getpid(), SIGUSR2), 0);
        assert_int_equal(loop_signal_new(f->loop, SIGUSR2, on_signal, f, &sig), 0);
        loop_run(f->loop);
        assert_int_equal(f->result, SIGUSR2);
        loop_signal_free(sig);
    }
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

static void loop_signal_of_an_impossible_number_is_refused(void **state)
{
    struct fixture *f = *state;
    struct loop_signal *sig;

    assert_int_equal(loop_signal_new(f->loop, SIGKILL, on_signal, f, &sig), -EINVAL);
}

static void free_poll(int fd, unsigned events, void *arg)
{
    struct fixture *f = arg;

    loop_poll_free(f->poll);
    f->count++;
    (void)fd;
    (void)events;
}

static void loop_poll_may_free_itself_and_its_number_be_used_again(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(loop_poll_new(f->loop, f->fds[0], POLLIN, free_poll, f, &f->poll), 0);
        assert_int_equal(write(f->fds[1], "x", 1), 1);
        loop_run(f->loop);
        assert_int_equal(f->count, i + 1);
        (void)close(f->fds[0]);
        (void)close(f->fds[1]);
        assert_int_equal(pipe(f->fds), 0);
    }
}

static void loop_poll_set_to_nothing_is_silent(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_poll_new(f->loop, f->fds[0], POLLIN, pipe_ready, f, &f->poll), 0);
    assert_int_equal(write(f->fds[1], "x", 1), 1);
    loop_poll_set(f->poll, 0);
    for (int i = 0; i < 3; i++)
        loop_step(f->loop, 0);
    assert_int_equal(f->count, 0);
    loop_poll_set(f->poll, POLLIN);
    loop_step(f->loop, 1000);
    assert_int_equal(f->count, 1);
    loop_poll_free(f->poll);
}

static void read_two(int fd, unsigned events, void *arg)
{
    struct fixture *f = arg;
    char two[2];
    ssize_t n = read(fd, two, sizeof two);

    assert_true(events & POLLIN);
    if (n > 0) {
        f->count += (int)n;
    } else {
        f->result = n < 0 ? errno : -1;
        loop_poll_free(f->poll);
    }
}

/* A peer that closes with bytes of ours unread: an error condition, with bytes of its own still to be read. */
static void loop_poll_of_a_reset_socket_gives_all_bytes_first(void **state)
{
    struct fixture *f = *state;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[0], "unread", 6), 6);
    assert_int_equal(write(pair[1], "1234567890", 10), 10);
    (void)close(pair[1]);
    assert_int_equal(loop_poll_new(f->loop, pair[0], POLLIN, read_two, f, &f->poll), 0);
    loop_run(f->loop);
    assert_int_equal(f->count, 10);
    assert_int_equal(f->result, ECONNRESET);
    (void)close(pair[0]);
}

static void loop_poll_of_a_regular_file_is_refused(void **state)
{
    struct fixture *f = *state;
    char name[] = "/tmp/xce-test-loop-XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    (void)unlink(name);
    assert_int_equal(loop_poll_new(f->loop, fd, POLLIN, pipe_ready, f, &f->poll), -EPERM);
    (void)close(fd);
}

/* ---- loop_fd: what a foreign poll sees ---- */

static void loop_fd_shows_timers_defers_wakes_and_new_descriptors(void **state)
{
    struct fixture *f = *state;

    loop_step(f->loop, 0);
    assert_false(readable(loop_fd(f->loop), 0));

    assert_int_equal(loop_defer(f->loop, count, f), 0);
    assert_true(readable(loop_fd(f->loop), 0));
    loop_step(f->loop, 0);
    assert_int_equal(f->count, 1);

    assert_int_equal(loop_timer_new(f->loop, count, f, &f->timer), 0);
    loop_timer_start(f->timer, 5, 0);
    while (f->count < 2) {
        assert_true(readable(loop_fd(f->loop), 1000));
        loop_step(f->loop, 0);
    }

    assert_int_equal(loop_poll_new(f->loop, f->fds[0], POLLIN, pipe_ready, f, &f->poll), 0);
    while (readable(loop_fd(f->loop), 0)) /* tells epoll of it, then is quiet */
        loop_step(f->loop, 0);
    assert_int_equal(write(f->fds[1], "x", 1), 1);
    assert_true(readable(loop_fd(f->loop), 1000));
    loop_step(f->loop, 0);
    assert_int_equal(f->count, 3);
    loop_poll_free(f->poll);
    loop_timer_free(f->timer);
}

static void start_timer(void *arg)
{
    struct fixture *f = arg;

    loop_timer_start(f->timer, 2, 0);
}

static void loop_step_leaves_a_timer_started_in_it_visible(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(loop_timer_new(f->loop, count, f, &f->timer), 0);
    assert_int_equal(loop_defer(f->loop, start_timer, f), 0);
    while (f->count == 0) {
        assert_true(readable(loop_fd(f->loop), 1000));
        loop_step(f->loop, 0);
    }
    loop_timer_free(f->timer);
}

static void loop_step_waits_no_longer_than_told(void **state)
{
    struct fixture *f = *state;
    int64_t from = loop_now_fresh_ms();

    assert_int_equal(loop_poll_new(f->loop, f->fds[0], POLLIN, pipe_ready, f, &f->poll), 0);
    loop_step(f->loop, 20);
    assert_in_range(loop_now_fresh_ms() - from, 20, 60000);
    loop_poll_free(f->poll);
}

/* ---- work ---- */

static void work_here(void *arg)
{
    struct fixture *f = arg;

    f->order[0] = 1;
}

static void work_over(int r, void *arg)
{
    struct fixture *f = arg;

    f->result = r;
    f->count++;
}

static void loop_work_runs_then_done_on_the_loop(void **state)
{
    struct fixture *f = *state;

    f->result = -1;
    assert_int_equal(loop_work_submit(f->loop, work_here, work_over, f), 0);
    loop_run(f->loop);
    assert_int_equal(f->order[0], 1);
    assert_int_equal(f->result, 0);
    assert_int_equal(f->count, 1);
}

static void work_slow(void *arg)
{
    struct fixture *f = arg;
    char c;

    (void)!read(f->fds[0], &c, 1);
}

static void count_done(int r, void *arg)
{
    struct fixture *f = arg;

    f->count++;
    f->result += r == -ECANCELED;
    /* The first to be cancelled lets the ones that run go on. */
    if (f->result == 1)
        (void)!write(f->fds[1], "xxxxxxxxxxxxxxxxxxxx", 20);
}

static void loop_free_ends_work_with_done_for_each(void **state)
{
    struct fixture *f = *state;
    struct loop *loop;

    assert_int_equal(loop_new(&loop), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(loop_work_submit(loop, work_slow, count_done, f), 0);
    loop_free(loop);
    assert_int_equal(f->count, 20);
    assert_in_range(f->result, 1, 20);
}

/* A name service that hangs keeps no thread from those whom the disk waits for. */
static void loop_slow_work_leaves_threads_to_the_rest(void **state)
{
    struct fixture *f = *state;
    struct fixture quick = {.result = -1};

    for (int i = 0; i < 20; i++)
        assert_int_equal(loop_work_submit_slow(f->loop, work_slow, count_done, f), 0);
    assert_int_equal(loop_work_submit(f->loop, work_here, work_over, &quick), 0);
    for (int i = 0; i < 1000 && quick.count == 0; i++)
        loop_step(f->loop, 10);
    assert_int_equal(quick.count, 1);
    assert_int_equal(quick.result, 0);
    assert_int_equal(f->count, 0);
    (void)!write(f->fds[1], "xxxxxxxxxxxxxxxxxxxx", 20);
    loop_run(f->loop);
    assert_int_equal(f->count, 20);
    assert_int_equal(f->result, 0);
}

static void loop_slow_work_that_waits_is_cancelled_at_the_end(void **state)
{
    struct fixture *f = *state;
    struct loop *loop;

    assert_int_equal(loop_new(&loop), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(loop_work_submit_slow(loop, work_slow, count_done, f), 0);
    loop_free(loop);
    assert_int_equal(f->count, 20);
    assert_in_range(f->result, 20 - LOOP_SLOW_MAX, 20);
}

/* In a process that has had no loop yet: the first takes the most. */
static void loop_without_descriptors_is_an_error(void **state)
{
    (void)state;
    for (rlim_t room = 0; room < 16; room++) {
        pid_t pid = fork();
        int status;

        assert_return_code(pid, errno);
        if (pid == 0) {
            struct rlimit limit = {3 + room, 3 + room};
            struct loop *loop;
            int r = -1;
            if (close_range(3, ~0u, 0) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0)
                r = loop_new(&loop);
            _exit(r == 0 ? 0 : r == -EMFILE ? 1 : 2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), room < 10 ? 1 : 0);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_without_descriptors_is_an_error), /* first */
        T(loop_empty_run_returns),
        T(loop_now_is_boot_time),
        T(loop_timer_fires_never_early),
        T(loop_timer_repeats_until_freed_by_itself),
        T(loop_timers_fire_in_order_of_time),
        T(loop_many_timers_keep_the_heap_whole),
        T(loop_defer_never_runs_inside_the_call),
        T(loop_defer_chain_runs_whole),
        T(loop_endless_defer_does_not_starve_descriptors),
        T(loop_soon_started_twice_runs_once_and_can_be_stopped),
        T(loop_soon_may_free_itself),
        T(loop_free_runs_what_was_deferred),
        T(loop_wake_from_another_thread_calls_back),
        T(loop_signal_is_delivered_on_the_loop),
        T(loop_signal_that_is_blocked_waits_for_a_loop),
        T(loop_signal_of_an_impossible_number_is_refused),
        T(loop_poll_may_free_itself_and_its_number_be_used_again),
        T(loop_poll_set_to_nothing_is_silent),
        T(loop_poll_of_a_reset_socket_gives_all_bytes_first),
        T(loop_poll_of_a_regular_file_is_refused),
        T(loop_fd_shows_timers_defers_wakes_and_new_descriptors),
        T(loop_step_leaves_a_timer_started_in_it_visible),
        T(loop_step_waits_no_longer_than_told),
        T(loop_work_runs_then_done_on_the_loop),
        T(loop_slow_work_leaves_threads_to_the_rest),
        T(loop_slow_work_that_waits_is_cancelled_at_the_end),
        T(loop_free_ends_work_with_done_for_each),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
