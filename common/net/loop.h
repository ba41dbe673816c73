/* The event loop: home of libuv. Everything else in the project that waits does it through this header or grpc.h.
 *
 * One loop, one thread: no function here may be called from another thread, save loop_wake_*().
 * Time is CLOCK_BOOTTIME in milliseconds ("mono_ms"): it goes on while the machine sleeps and never jumps back. */
#ifndef XCE_COMMON_NET_LOOP_H
#define XCE_COMMON_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct loop_timer;
struct loop_wake;
struct loop_signal;
struct loop_poll;
struct loop_soon;
struct uv_loop_s;

typedef void (*loop_fn)(void *arg);
typedef void (*loop_signal_fn)(int signum, void *arg);
typedef void (*loop_poll_fn)(int fd, unsigned events, void *arg);

/* Make a loop. 0; -ENOMEM, -EMFILE. */
int loop_new(struct loop **ret);
/* End it: what was deferred still runs, submitted work is cancelled or waited for and its done called; then asserts that
 * no timer, wake, signal, poll or soon is left. NULL does nothing. */
void loop_free(struct loop *loop);

/* Run until loop_stop, or until nothing is left that could ever call back. A loop_stop before loop_run ends that run at
 * once. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* Run what is ready, waiting for at most timeout_ms (0 = do not wait). For libxce, whose caller owns the thread. */
void loop_step(struct loop *loop, int timeout_ms);

/* A descriptor that becomes readable when loop_step would do something. Borrowed. */
int loop_fd(const struct loop *loop);

/* The libuv loop beneath, for a library that brings its own handles for it: C-Raft's (leased/engine). */
struct uv_loop_s *loop_uv(struct loop *loop);

/* CLOCK_BOOTTIME, ms, as read at the start of this round of the loop; loop_now_fresh_ms reads it anew. */
int64_t loop_now_ms(const struct loop *loop);
int64_t loop_now_fresh_ms(void);

/* A timer, owned by the caller. Starting a started timer moves it. fn may free the timer. repeat_ms 0 = once. The delay
 * counts from the moment of the call and is never cut short; starting cannot fail. */
int loop_timer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_timer **ret);
void loop_timer_start(struct loop_timer *timer, int64_t delay_ms, int64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer);

/* fn runs on the loop soon after loop_wake_send, which any thread (and a signal handler) may call; calls may merge. */
int loop_wake_new(struct loop *loop, loop_fn fn, void *arg, struct loop_wake **ret);
void loop_wake_send(struct loop_wake *wake);
void loop_wake_free(struct loop_wake *wake);

/* One that is blocked in this thread stays so, and none is lost: what comes before this, or after the end of it, waits for the
 * next one who asks. */
int loop_signal_new(struct loop *loop, int signum, loop_signal_fn fn, void *arg,
                    struct loop_signal **ret);
void loop_signal_free(struct loop_signal *sig);

/* Watch a foreign descriptor (POLLIN, POLLOUT, POLLPRI of <poll.h>). The descriptor stays the caller's. An error or hang-up
 * comes as POLLERR with all that is watched, again in each round until it is dealt with. */
int loop_poll_new(struct loop *loop, int fd, unsigned events, loop_poll_fn fn, void *arg,
                  struct loop_poll **ret);
void loop_poll_set(struct loop_poll *poll, unsigned events);
void loop_poll_free(struct loop_poll *poll);

/* Run work on a thread of the pool, then done on the loop (always, exactly once, r = 0 or -ECANCELED). */
typedef void (*loop_work_done_fn)(int r, void *arg);
int loop_work_submit(struct loop *loop, loop_fn work, loop_work_done_fn done, void *arg);
/* The same for work that may hang, as name services do. No more than LOOP_SLOW_MAX of it run at once, and the rest waits:
 * two of the pool's threads are left for those who need them, whatever happens. */
int loop_work_submit_slow(struct loop *loop, loop_fn work, loop_work_done_fn done, void *arg);
#define LOOP_SLOW_MAX 2

/* Give work under way so long to end, and its done to run; work that has not begun is cancelled. Whether none is left:
 * loop_free would wait for it. */
bool loop_work_settle(struct loop *loop, int64_t timeout_ms);

/* fn runs soon, before the loop waits again: how an answer keeps its promise never to run inside the call. Cannot be
 * taken back: arg must live until then. 0; -ENOMEM. */
int loop_defer(struct loop *loop, loop_fn fn, void *arg);

/* The same for an object that has it to do again and again: starting cannot fail, starting twice runs once, and stop
 * takes it back. fn may free it. What is started while callbacks of this round run is run when all of them have. */
int loop_soon_new(struct loop *loop, loop_fn fn, void *arg, struct loop_soon **ret);
void loop_soon_start(struct loop_soon *soon);
void loop_soon_stop(struct loop_soon *soon);
void loop_soon_free(struct loop_soon *soon);

/* One buffer of LOOP_SCRATCH_BYTES to read into, for whoever has the callback: its content dies when the callback ends. */
enum {
    LOOP_SCRATCH_BYTES = 256 * 1024,
};
uint8_t *loop_scratch(struct loop *loop);

#endif
