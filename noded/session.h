/* The stream between this node and leased: hello, welcome, changes in, reports and heartbeats out; again and again.
 *
 * It decodes and checks; what a change means is state's. Everything said before a session ended may be lost: whoever said
 * it says it again in the next one (state does, guard does). Connecting, backoff and turning to another replica are done
 * here. One thread: the loop's; ops run from the loop, never inside a call into this header. */
#ifndef XCE_NODED_SESSION_H
#define XCE_NODED_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "noded/state.h"

struct deferred_release;
struct loop;
struct tls_keys;
struct session;

#define SESSION_INCARNATION_MAX 32

/* What is told of this node at the beginning of each session. */
struct session_hello {
    const char *machine_id, *boot_id;
    bool clean_start;
    bool mirror_own;
    uint64_t resume; /* revision up to which all is known here; 0 = nothing */
    bool list;       /* all is to be told nevertheless */
    const uint8_t *incarnation;
    size_t incarnation_len;
};

struct session_welcome {
    uint64_t session, revision;
    const char *prefix;
    bool full;
    bool epochs_wanted; /* the state is a backup: session_epochs, before anything else is said */
    const uint8_t *incarnation;
    size_t incarnation_len;
};

enum session_node { /* as leased has it; numbers of the API */
                    SESSION_NODE_READY = 1,
                    SESSION_NODE_DRAINING = 2,
                    SESSION_NODE_CORDONED = 3,
                    SESSION_NODE_LOST = 4,
                    SESSION_NODE_UNKNOWN = 5,
                    SESSION_NODE_FENCED = 6,
};

struct session_ops {
    /* Fill what to say; strings live until the next call. */
    void (*hello)(struct session_hello *ret, void *arg);
    /* The hello was accepted. 0; negative: end this session (a resume into another state). */
    int (*welcome)(const struct session_welcome *welcome, void *arg);
    void (*pool)(const struct state_pool *pool, void *arg);
    /* After its pool: every uid of it that this node has blocked; and those among them for what it could not remove. Not
     * called when leased may have left some out. */
    void (*pool_blocked)(const struct state_pool *pool, const uint32_t *uids, size_t n, void *arg);
    void (*pool_leftover)(const struct state_pool *pool, const uint32_t *uids, size_t n, void *arg);
    void (*pool_gone)(const char *name, void *arg);
    void (*lease)(const struct state_lease *lease, void *arg);
    /* The end of a message: all up to revision is told; full_done: and the full list with it. node 0 = not said. */
    void (*changed)(uint64_t revision, bool full_done, enum session_node node, void *arg);
    void (*look_ahead)(const struct state_epoch *uids, size_t n, void *arg);
    void (*sweep_now)(const char *reason, void *arg);
    /* What a sweep would do: answered by session_dry. */
    void (*dry_run)(uint64_t question, const char *reason, void *arg);
    /* Whether somebody has a uid of first..last here: answered by session_overlap. */
    void (*overlap)(uint64_t question, uint32_t first, uint32_t last, void *arg);
    /* A leader that is confirmed answered the heartbeat that was sent at sent_ms (mono). */
    void (*heard)(int64_t sent_ms, void *arg);
    /* Only after welcome. */
    void (*ended)(void *arg);
};

struct session_options {
    const char *node;           /* name */
    const char *const *servers; /* "unix:/path", "host:port", in order of preference */
    size_t n_servers;
    struct tls_keys *keys;              /* for those over TCP; outlives the session */
    int64_t retry_min_ms, retry_max_ms; /* between attempts [100, 5000] */
};

/* Options and what they point to are copied. Begins to connect at once. 0; -EINVAL a server; -ENOMEM. */
int session_new(struct loop *loop, const struct session_options *options,
                const struct session_ops *ops, void *arg, struct session **ret);
/* Ends without a further op; then done. */
void session_close(struct session *session, void (*done)(void *arg), void *arg);
/* End this session and begin another (what is known here is not enough any more). */
void session_again(struct session *session, const char *why);

/* Whether there is a session now, and with whom: NULL = none. These two take NULL. */
const char *session_server(const struct session *session);
/* Why there is none: the last error; "" = none yet. */
const char *session_trouble(const struct session *session);

/* ---- said in order, in as few messages as possible; nothing outside of a session, or to NULL ---- */

/* The highest epochs that were seen here; copied. They go out before all that was and will be said. */
void session_epochs(struct session *session, const struct state_epoch *epochs, size_t n);
/* A release that was handed over here; goes out before what is reported. */
void session_release(struct session *session, const struct deferred_release *release);
void session_say(struct session *session, enum state_say what, const struct state_verdict *about);
void session_block(struct session *session, uint32_t uid, unsigned reason, const char *detail);
void session_pool_check(struct session *session, const char *pool, bool passed, const char *detail);
/* The answer to that question: uid is one that somebody has (what: who), or 0: nobody has any (what: ""), or that is not known
 * (what: why). Another answer that still waits is replaced. */
void session_overlap(struct session *session, uint64_t question, uint32_t uid, const char *what);
/* What a dry run has found; copied. */
struct session_remnant {
    uint32_t uid; /* 0 = of every uid: it could not be looked at */
    const char *kind;
    uint32_t count;
    const char *would, *detail;
};
void session_dry(struct session *session, uint64_t question, const struct session_remnant *remnants,
                 size_t n, uint32_t left_out);
/* What a look hangs at now; copied. NULL = nothing. It goes with each heartbeat, and with one at once when it is another. It may be
 * said outside of a session, and holds for those to come. */
void session_hangs(struct session *session, const char *where);
/* A pass that began when everything up to revision was in the map found nothing. */
void session_watermark(struct session *session, uint64_t revision);

#endif
