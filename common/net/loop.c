#include "common/net/loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "common/fsutil.h"

/* Timers are ours, not libuv's: a heap and one timerfd on CLOCK_BOOTTIME. So a sleep of the machine counts, and whoever
 * polls loop_fd sees a due timer there. */

enum {
    /* Runs of the soon queue within a round; what is still queued then runs after a look at the descriptors. */
    SOON_PASSES = 8,
    /* What the timerfd is armed with to make it fire at once: long past. */
    ARM_NOW = 1,
    /* What a loop takes, with what libuv takes for all of a process. */
    DESCRIPTORS = 10,
};

struct loop_soon {
    TAILQ_ENTRY(loop_soon) link;
    struct loop *loop;
    loop_fn fn;
    void *arg;
    bool queued;
    bool once; /* made by loop_defer: freed when run */
};
TAILQ_HEAD(soon_list, loop_soon);

struct work {
    uv_work_t req;
    struct loop *loop;
    LIST_ENTRY(work) link;
    TAILQ_ENTRY(work) slow_link; /* while it waits for others that are slow */
    bool slow, waiting, cancelled;
    loop_fn work;
    loop_work_done_fn done;
    void *arg;
};

struct loop {
    uv_loop_t uv;
    int64_t now_ms;
    bool now_stale;
    bool stop;
    bool running;
    bool watch_changed; /* a descriptor that epoll has not been told of yet */

    int timer_fd;
    uv_poll_t timer_poll;
    int64_t armed_ms; /* what the timerfd is set to; INT64_MAX = not set */
    struct loop_timer **heap;
    size_t n_heap, heap_size, n_timers;

    struct soon_list soon;
    LIST_HEAD(, work) works;
    TAILQ_HEAD(, work) slow_waiting;
    unsigned n_slow;  /* given to the pool */
    size_t n_soons;   /* made by loop_soon_new */
    size_t n_handles; /* polls, wakes and signals: each may call back */
    uint8_t *scratch;
};

struct loop_timer {
    struct loop *loop;
    loop_fn fn;
    void *arg;
    int64_t due_ms, repeat_ms;
    size_t at; /* in the heap; SIZE_MAX = not started */
};

struct loop_wake {
    uv_async_t uv;
    struct loop *loop;
    loop_fn fn;
    void *arg;
};

struct loop_signal {
    uv_signal_t uv;
    struct loop_poll *held; /* one that is blocked: of a signalfd; not NULL: uv is not used */
    struct loop *loop;
    loop_signal_fn fn;
    void *arg;
};

struct loop_poll {
    uv_poll_t uv;
    struct loop *loop;
    loop_poll_fn fn;
    void *arg;
    int fd;
    int uv_events; /* what is watched */
};

/* libuv's codes are negated errno values on Linux, save a few of its own from -3000 down. */
static int uv_to_errno(int r)
{
    return r <= -3000 ? -EINVAL : r;
}

/* ---- time ---- */

int64_t loop_now_fresh_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t loop_now_ms(const struct loop *loop)
{
    /* The reading is a cache: const towards the caller. */
    struct loop *self = (struct loop *)(uintptr_t)loop;

    if (self->now_stale) {
        self->now_ms = loop_now_fresh_ms();
        self->now_stale = false;
    }
    return self->now_ms;
}

static void arm(struct loop *loop, int64_t at_ms)
{
    struct itimerspec spec = {0};

    spec.it_value.tv_sec = (time_t)(at_ms / 1000);
    spec.it_value.tv_nsec = (long)(at_ms % 1000) * 1000000;
    (void)timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    loop->armed_ms = at_ms;
}

static void disarm(struct loop *loop)
{
    arm(loop, 0);
    loop->armed_ms = INT64_MAX;
}

/* Outside of a round nobody else would notice: make loop_fd readable. */
static void kick(struct loop *loop)
{
    if (!loop->running && loop->armed_ms != ARM_NOW)
        arm(loop, ARM_NOW);
}

static void timerfd_ready(uv_poll_t *handle, int status, int events)
{
    struct loop *loop = handle->data;
    uint64_t fired;

    (void)status;
    (void)events;
    if (read(loop->timer_fd, &fired, sizeof fired) == sizeof fired)
        loop->armed_ms = INT64_MAX;
}

/* ---- the heap of timers ---- */

static void heap_put(struct loop *loop, size_t at, struct loop_timer *timer)
{
    loop->heap[at] = timer;
    timer->at = at;
}

static void heap_up(struct loop *loop, size_t at)
{
    struct loop_timer *timer = loop->heap[at];

    while (at > 0 && loop->heap[(at - 1) / 2]->due_ms > timer->due_ms) {
        heap_put(loop, at, loop->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(loop, at, timer);
}

static void heap_down(struct loop *loop, size_t at)
{
    struct loop_timer *timer = loop->heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < loop->n_heap && loop->heap[child + 1]->due_ms < loop->heap[child]->due_ms)
            child++;
        if (child >= loop->n_heap || loop->heap[child]->due_ms >= timer->due_ms)
            break;
        heap_put(loop, at, loop->heap[child]);
        at = child;
    }
    heap_put(loop, at, timer);
}

static void heap_insert(struct loop *loop, struct loop_timer *timer)
{
    assert(loop->n_heap < loop->heap_size);
    heap_put(loop, loop->n_heap++, timer);
    heap_up(loop, timer->at);
}

static void heap_remove(struct loop *loop, struct loop_timer *timer)
{
    size_t at = timer->at;
    struct loop_timer *last = loop->heap[--loop->n_heap];

    timer->at = SIZE_MAX;
    if (last == timer)
        return;
    heap_put(loop, at, last);
    heap_up(loop, at);
    heap_down(loop, last->at);
}

int loop_timer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_timer **ret)
{
    struct loop_timer *timer;

    /* Room for every timer there is, so that starting one cannot fail. */
    if (loop->n_timers == loop->heap_size) {
        size_t size = loop->heap_size ? 2 * loop->heap_size : 16;
        struct loop_timer **heap = reallocarray(loop->heap, size, sizeof *heap);

        if (!heap)
            return -ENOMEM;
        loop->heap = heap;
        loop->heap_size = size;
    }
    timer = calloc(1, sizeof *timer);
    if (!timer)
        return -ENOMEM;
    timer->loop = loop;
    timer->fn = fn;
    timer->arg = arg;
    timer->at = SIZE_MAX;
    loop->n_timers++;
    *ret = timer;
    return 0;
}

void loop_timer_start(struct loop_timer *timer, int64_t delay_ms, int64_t repeat_ms)
{
    struct loop *loop = timer->loop;
    int64_t now = loop_now_fresh_ms();

    loop_timer_stop(timer);
    if (delay_ms < 0)
        delay_ms = 0;
    /* now is rounded down: one more, or the delay would be cut short by up to a millisecond. */
    if (delay_ms > 0)
        delay_ms = delay_ms < INT64_MAX - now - 1 ? delay_ms + 1 : INT64_MAX - now;
    timer->due_ms = now + delay_ms;
    timer->repeat_ms = repeat_ms;
    heap_insert(loop, timer);
    if (!loop->running && timer->due_ms < loop->armed_ms)
        arm(loop, timer->due_ms);
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (timer->at != SIZE_MAX)
        heap_remove(timer->loop, timer);
}

void loop_timer_free(struct loop_timer *timer)
{
    if (!timer)
        return;
    loop_timer_stop(timer);
    timer->loop->n_timers--;
    free(timer);
}

static void run_timers(struct loop *loop)
{
    int64_t now = loop_now_ms(loop);

    while (loop->n_heap > 0 && loop->heap[0]->due_ms <= now) {
        struct loop_timer *timer = loop->heap[0];

        heap_remove(loop, timer);
        if (timer->repeat_ms > 0) {
            timer->due_ms = timer->due_ms + timer->repeat_ms > now
                                ? timer->due_ms + timer->repeat_ms
                                : now + timer->repeat_ms;
            heap_insert(loop, timer);
        }
        timer->fn(timer->arg);
    }
}

/* ---- soon ---- */

static int soon_new(struct loop *loop, loop_fn fn, void *arg, bool once, struct loop_soon **ret)
{
    struct loop_soon *soon = calloc(1, sizeof *soon);

    if (!soon)
        return -ENOMEM;
    soon->loop = loop;
    soon->fn = fn;
    soon->arg = arg;
    soon->once = once;
    *ret = soon;
    return 0;
}

int loop_soon_new(struct loop *loop, loop_fn fn, void *arg, struct loop_soon **ret)
{
    int r = soon_new(loop, fn, arg, false, ret);

    if (r == 0)
        loop->n_soons++;
    return r;
}

void loop_soon_start(struct loop_soon *soon)
{
    if (soon->queued)
        return;
    soon->queued = true;
    TAILQ_INSERT_TAIL(&soon->loop->soon, soon, link);
    kick(soon->loop);
}

void loop_soon_stop(struct loop_soon *soon)
{
    if (!soon->queued)
        return;
    soon->queued = false;
    TAILQ_REMOVE(&soon->loop->soon, soon, link);
}

void loop_soon_free(struct loop_soon *soon)
{
    if (!soon)
        return;
    loop_soon_stop(soon);
    soon->loop->n_soons--;
    free(soon);
}

int loop_defer(struct loop *loop, loop_fn fn, void *arg)
{
    struct loop_soon *soon;
    int r = soon_new(loop, fn, arg, true, &soon);

    if (r == 0)
        loop_soon_start(soon);
    return r;
}

static void run_soon(struct loop *loop)
{
    /* A mark in the queue ends each pass: callbacks may stop, free and start whatever they like around it. */
    struct loop_soon mark = {.loop = loop};

    for (int pass = 0; pass < SOON_PASSES && !TAILQ_EMPTY(&loop->soon); pass++) {
        TAILQ_INSERT_TAIL(&loop->soon, &mark, link);
        for (;;) {
            struct loop_soon *soon = TAILQ_FIRST(&loop->soon);
            loop_fn fn = soon->fn;
            void *arg = soon->arg;

            TAILQ_REMOVE(&loop->soon, soon, link);
            if (soon == &mark)
                break;
            soon->queued = false;
            if (soon->once)
                free(soon);
            fn(arg);
        }
    }
}

/* ---- rounds ---- */

/* How many things there are that may call back one day. */
static bool loop_alive(const struct loop *loop)
{
    return loop->n_heap > 0 || loop->n_handles > 0 || !TAILQ_EMPTY(&loop->soon) ||
           !LIST_EMPTY(&loop->works);
}

/* One round: timers, soon, then descriptors, waiting until wait_until_ms at most. */
static void run_round(struct loop *loop, int64_t wait_until_ms)
{
    bool wait;
    int64_t wake_ms;

    assert(!loop->running);
    loop->running = true;
    if (loop->armed_ms == ARM_NOW)
        disarm(loop);
    run_timers(loop);
    run_soon(loop);

    wait = !loop->stop && TAILQ_EMPTY(&loop->soon) && loop_alive(loop) &&
           wait_until_ms > loop_now_ms(loop);
    if (wait) {
        wake_ms = loop->n_heap > 0 && loop->heap[0]->due_ms < wait_until_ms ? loop->heap[0]->due_ms
                                                                            : wait_until_ms;
        if (wake_ms < loop->armed_ms)
            arm(loop, wake_ms);
    }
    loop->watch_changed = false;
    loop->now_stale = true;
    (void)uv_run(&loop->uv, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    loop->now_stale = true;
    loop->running = false;
}

void loop_run(struct loop *loop)
{
    while (!loop->stop && loop_alive(loop))
        run_round(loop, INT64_MAX);
    loop->stop = false;
}

void loop_stop(struct loop *loop)
{
    loop->stop = true;
}

void loop_step(struct loop *loop, int timeout_ms)
{
    int64_t until = timeout_ms < 0 ? INT64_MAX : loop_now_fresh_ms() + timeout_ms;

    loop->stop = false;
    loop->now_stale = true;
    run_round(loop, until);

    /* What the descriptors' callbacks have started belongs to this step. */
    loop->running = true;
    run_timers(loop);
    run_soon(loop);
    loop->running = false;

    /* The caller may now wait on loop_fd: it has to know of everything. */
    if (!TAILQ_EMPTY(&loop->soon) || loop->watch_changed)
        kick(loop);
    else if (loop->n_heap > 0 && loop->heap[0]->due_ms < loop->armed_ms)
        arm(loop, loop->heap[0]->due_ms);
}

int loop_fd(const struct loop *loop)
{
    return uv_backend_fd(&loop->uv);
}

struct uv_loop_s *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

uint8_t *loop_scratch(struct loop *loop)
{
    return loop->scratch;
}

/* ---- birth and end ---- */

static int loop_init(struct loop *loop)
{
    int r;

    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->timer_fd < 0)
        return -errno;
    r = uv_poll_init(&loop->uv, &loop->timer_poll, loop->timer_fd);
    if (r < 0) {
        (void)close(loop->timer_fd);
        return uv_to_errno(r);
    }
    loop->timer_poll.data = loop;
    r = uv_poll_start(&loop->timer_poll, UV_READABLE, timerfd_ready);
    assert(r == 0);
    /* Let epoll know the timerfd before anybody polls loop_fd. */
    (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
    return 0;
}

/* libuv aborts when it finds none in its first loop: to fail is our part, also in somebody else's program. */
static int descriptors_are_left(void)
{
    int fds[DESCRIPTORS], r = 0, n;

    for (n = 0; n < DESCRIPTORS && r == 0; n++)
        if ((fds[n] = eventfd(0, EFD_CLOEXEC)) < 0) {
            r = -errno;
            break;
        }
    while (n > 0)
        (void)close(fds[--n]);
    return r;
}

int loop_new(struct loop **ret)
{
    struct loop *loop = calloc(1, sizeof *loop);
    int r;

    if (!loop)
        return -ENOMEM;
    /* libuv can not live with a descriptor of its own among them, and in a library nobody else has seen to it. */
    fs_fill_standard();
    r = descriptors_are_left();
    if (r < 0) {
        free(loop);
        return r;
    }
    TAILQ_INIT(&loop->soon);
    LIST_INIT(&loop->works);
    TAILQ_INIT(&loop->slow_waiting);
    loop->armed_ms = INT64_MAX;
    loop->now_stale = true;
    loop->scratch = malloc(LOOP_SCRATCH_BYTES);
    r = loop->scratch ? uv_loop_init(&loop->uv) : -ENOMEM;
    if (r == 0) {
        r = loop_init(loop);
        if (r == 0) {
            *ret = loop;
            return 0;
        }
        (void)uv_loop_close(&loop->uv);
    }
    free(loop->scratch);
    free(loop);
    return uv_to_errno(r);
}

static void cancel_works(struct loop *loop);

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    cancel_works(loop);
    while (!TAILQ_EMPTY(&loop->soon) || !LIST_EMPTY(&loop->works)) {
        loop->running = true;
        run_soon(loop);
        (void)uv_run(&loop->uv, TAILQ_EMPTY(&loop->soon) ? UV_RUN_ONCE : UV_RUN_NOWAIT);
        loop->running = false;
    }
    assert(loop->n_timers == 0 && loop->n_soons == 0 && loop->n_handles == 0);

    uv_close((uv_handle_t *)&loop->timer_poll, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    int r = uv_loop_close(&loop->uv);
    assert(r == 0);
    (void)r;
    (void)close(loop->timer_fd);
    free(loop->heap);
    free(loop->scratch);
    free(loop);
}

/* ---- wake, signal, poll, work: libuv's ---- */

static void handle_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Gone for the caller now; its memory goes when libuv lets go of it. */
static void handle_close(struct loop *loop, uv_handle_t *handle)
{
    loop->n_handles--;
    uv_close(handle, handle_closed);
}

static void wake_fired(uv_async_t *handle)
{
    struct loop_wake *wake = handle->data;

    wake->fn(wake->arg);
}

int loop_wake_new(struct loop *loop, loop_fn fn, void *arg, struct loop_wake **ret)
{
    struct loop_wake *wake = calloc(1, sizeof *wake);
    int r;

    if (!wake)
        return -ENOMEM;
    r = uv_async_init(&loop->uv, &wake->uv, wake_fired);
    if (r < 0) {
        free(wake);
        return uv_to_errno(r);
    }
    wake->uv.data = wake;
    wake->loop = loop;
    wake->fn = fn;
    wake->arg = arg;
    loop->n_handles++;
    loop->watch_changed = true;
    kick(loop);
    *ret = wake;
    return 0;
}

void loop_wake_send(struct loop_wake *wake)
{
    (void)uv_async_send(&wake->uv);
}

void loop_wake_free(struct loop_wake *wake)
{
    if (wake)
        handle_close(wake->loop, (uv_handle_t *)&wake->uv);
}

static void signal_fired(uv_signal_t *handle, int signum)
{
    struct loop_signal *sig = handle->data;

    sig->fn(signum, sig->arg);
}

static bool is_blocked(int signum)
{
    sigset_t blocked;

    return pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && sigismember(&blocked, signum) == 1;
}

static void held_fired(int fd, unsigned events, void *arg)
{
    struct loop_signal *sig = arg;
    struct signalfd_siginfo info;

    if (read(fd, &info, sizeof info) == sizeof info)
        sig->fn((int)info.ssi_signo, sig->arg);
}

/* libuv would never see it; and when it stops to look, the signal would end the process. */
static int signal_hold(struct loop_signal *sig, int signum)
{
    sigset_t only;
    int fd, r;

    (void)sigemptyset(&only);
    (void)sigaddset(&only, signum);
    fd = signalfd(-1, &only, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = loop_poll_new(sig->loop, fd, POLLIN, held_fired, sig, &sig->held);
    if (r < 0)
        (void)close(fd);
    return r;
}

int loop_signal_new(struct loop *loop, int signum, loop_signal_fn fn, void *arg,
                    struct loop_signal **ret)
{
    struct loop_signal *sig = calloc(1, sizeof *sig);
    int r;

    if (!sig)
        return -ENOMEM;
    sig->loop = loop;
    sig->fn = fn;
    sig->arg = arg;
    if (is_blocked(signum)) {
        r = signal_hold(sig, signum);
        if (r < 0)
            free(sig);
        else
            *ret = sig;
        return r;
    }
    r = uv_signal_init(&loop->uv, &sig->uv);
    if (r < 0) {
        free(sig);
        return uv_to_errno(r);
    }
    sig->uv.data = sig;
    loop->n_handles++;
    loop->watch_changed = true;
    kick(loop);
    r = uv_signal_start(&sig->uv, signal_fired, signum);
    if (r < 0) {
        loop_signal_free(sig);
        return uv_to_errno(r);
    }
    *ret = sig;
    return 0;
}

void loop_signal_free(struct loop_signal *sig)
{
    int fd;

    if (!sig)
        return;
    if (!sig->held) {
        handle_close(sig->loop, (uv_handle_t *)&sig->uv);
        return;
    }
    fd = sig->held->fd;
    loop_poll_free(sig->held);
    (void)close(fd);
    free(sig);
}

static const struct {
    unsigned poll;
    int uv;
} poll_bits[] = {{POLLIN, UV_READABLE}, {POLLOUT, UV_WRITABLE}, {POLLPRI, UV_PRIORITIZED}};

static void poll_fired(uv_poll_t *handle, int status, int uv_events)
{
    struct loop_poll *poll = handle->data;
    unsigned events = 0;

    /* libuv takes an error condition for the end, drops what may still be read, and stops watching: go on. */
    if (status < 0) {
        events = POLLERR;
        uv_events = poll->uv_events;
        (void)uv_poll_start(&poll->uv, uv_events, poll_fired);
    }
    for (size_t i = 0; i < sizeof poll_bits / sizeof *poll_bits; i++)
        if (uv_events & poll_bits[i].uv)
            events |= poll_bits[i].poll;
    poll->fn(poll->fd, events, poll->arg);
}

int loop_poll_new(struct loop *loop, int fd, unsigned events, loop_poll_fn fn, void *arg,
                  struct loop_poll **ret)
{
    struct loop_poll *poll = calloc(1, sizeof *poll);
    int r;

    if (!poll)
        return -ENOMEM;
    r = uv_poll_init(&loop->uv, &poll->uv, fd);
    if (r < 0) {
        free(poll);
        return uv_to_errno(r);
    }
    poll->uv.data = poll;
    poll->loop = loop;
    poll->fn = fn;
    poll->arg = arg;
    poll->fd = fd;
    loop->n_handles++;
    loop_poll_set(poll, events);
    *ret = poll;
    return 0;
}

void loop_poll_set(struct loop_poll *poll, unsigned events)
{
    int uv_events = 0;

    for (size_t i = 0; i < sizeof poll_bits / sizeof *poll_bits; i++)
        if (events & poll_bits[i].poll)
            uv_events |= poll_bits[i].uv;
    /* libuv would have epoll forget the descriptor and take it in again. */
    if (uv_events == poll->uv_events)
        return;
    poll->uv_events = uv_events;
    if (uv_events)
        (void)uv_poll_start(&poll->uv, uv_events, poll_fired);
    else
        (void)uv_poll_stop(&poll->uv);
    poll->loop->watch_changed = true;
    kick(poll->loop);
}

void loop_poll_free(struct loop_poll *poll)
{
    if (poll)
        handle_close(poll->loop, (uv_handle_t *)&poll->uv);
}

static void work_run(uv_work_t *req)
{
    struct work *work = req->data;

    if (!work->cancelled)
        work->work(work->arg);
}

static void work_done(uv_work_t *req, int status);

static void give_to_pool(struct work *work)
{
    struct loop *loop = work->loop;

    loop->n_slow += work->slow;
    (void)uv_queue_work(&loop->uv, &work->req, work_run, work_done);
    loop->watch_changed = true;
    kick(loop);
}

static void give_waiting(struct work *work)
{
    TAILQ_REMOVE(&work->loop->slow_waiting, work, slow_link);
    work->waiting = false;
    give_to_pool(work);
}

static void work_done(uv_work_t *req, int status)
{
    struct work *work = req->data;
    struct loop *loop = work->loop;

    LIST_REMOVE(work, link);
    loop->n_slow -= work->slow;
    if (loop->n_slow < LOOP_SLOW_MAX && !TAILQ_EMPTY(&loop->slow_waiting))
        give_waiting(TAILQ_FIRST(&loop->slow_waiting));
    work->done(status < 0 || work->cancelled ? -ECANCELED : 0, work->arg);
    free(work);
}

static int submit(struct loop *loop, bool slow, loop_fn fn, loop_work_done_fn done, void *arg)
{
    struct work *work = calloc(1, sizeof *work);

    if (!work)
        return -ENOMEM;
    work->req.data = work;
    work->loop = loop;
    work->slow = slow;
    work->work = fn;
    work->done = done;
    work->arg = arg;
    LIST_INSERT_HEAD(&loop->works, work, link);
    work->waiting = slow && loop->n_slow >= LOOP_SLOW_MAX;
    if (work->waiting)
        TAILQ_INSERT_TAIL(&loop->slow_waiting, work, slow_link);
    else
        give_to_pool(work);
    return 0;
}

int loop_work_submit(struct loop *loop, loop_fn fn, loop_work_done_fn done, void *arg)
{
    return submit(loop, false, fn, done, arg);
}

int loop_work_submit_slow(struct loop *loop, loop_fn fn, loop_work_done_fn done, void *arg)
{
    return submit(loop, true, fn, done, arg);
}

/* What has not begun does not begin any more; its done comes by the same way. */
static void cancel_works(struct loop *loop)
{
    struct work *work;

    LIST_FOREACH(work, &loop->works, link)
    if (work->waiting) {
        work->cancelled = true;
        give_waiting(work);
    } else {
        (void)uv_cancel((uv_req_t *)&work->req);
    }
}

bool loop_work_settle(struct loop *loop, int64_t timeout_ms)
{
    int64_t until_ms = loop_now_fresh_ms() + timeout_ms, left_ms = timeout_ms;

    cancel_works(loop);
    while (!LIST_EMPTY(&loop->works) && left_ms > 0) {
        loop_step(loop, left_ms < 50 ? (int)left_ms : 50);
        left_ms = until_ms - loop_now_fresh_ms();
    }
    return LIST_EMPTY(&loop->works);
}
