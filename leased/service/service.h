/* What leased does for a caller: check, propose or query, reply. One file per proto service.
 *
 * No socket and no clock in here: requests come decoded from rpc, answers go back by callback, time is the engine's, and
 * what would block (NSS, the history file) is handed to `offload`. One thread: the loop's. */
#ifndef XCE_LEASED_SERVICE_SERVICE_H
#define XCE_LEASED_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "leased/rbac/policy.h"

struct cert_ca;
struct engine;
struct fsm_change;
struct history;
struct hub;
struct service;

/* ---- one unary request ---- */

struct service_request;

/* r: 0 and reply is set; an outcome of enum fsm_code (positive) or a negative errno, and message is for the client.
 * reply and message die with the call. Exactly once, unless service_request_cancel came first. */
typedef void (*service_reply_fn)(int r, const char *message, const ProtobufCMessage *reply,
                                 void *arg);
typedef void (*service_unary_fn)(struct service *service, struct service_request *request);

/* Lives in its owner (rpc) until replied or cancelled. */
struct service_request {
    struct principal principal;
    enum policy_scope scope;
    uint64_t policy_count;  /* service_policy_count when scope was decided */
    const char *permission; /* that it was decided for; NULL: scope stays whatever the rules say */
    const ProtobufCMessage *message; /* decoded, lives as long as the request */
    service_reply_fn reply;
    void *reply_arg;
    /* The handler's own: what to undo when the caller goes away. May be NULL. */
    void (*cancel)(struct service_request *request);
    void *pending;
    service_unary_fn handler; /* what it was handed to */
    bool
        fresh; /* the state here is known to hold everything that was acknowledged before it came */
    bool stale; /* the caller takes what this replica knows, confirmed or not */
    /* For the record: the leases that an acquire is answered with. Set just before the reply, die with it. */
    const uint64_t *leases;
    size_t n_leases;
    const struct cert_identity *certificate; /* likewise: that was made. May be NULL */
};

/* Hand a request to its handler. Where another replica leads, the state here may be behind what the caller has been told
 * elsewhere: so not before it has caught up, and by the rules of then. local: it is about this replica, whatever it knows.
 * A read whose message says `stale` does not wait for that, nor for a leader. Under whatever rules have come since scope
 * was decided it is decided again; if nothing is left of it that is the answer (-EACCES). */
void service_handle(struct service *service, struct service_request *request,
                    service_unary_fn handler, bool local);

/* The caller has gone (cancelled, deadline, connection lost): no reply will be made. What was proposed stays proposed. */
void service_request_cancel(struct service_request *request);

/* ---- one stream ---- */

struct service_stream;

struct service_stream_ops {
    /* Queue a message. 0; 1 = queued, wait for writable; -EPIPE over. */
    int (*send)(struct service_stream *stream, const uint8_t *data, size_t len);
    /* r as in service_reply_fn. */
    void (*finish)(struct service_stream *stream, int r, const char *message);
    /* Stop and go on reading from it; what has been read already may still come. */
    void (*pause)(struct service_stream *stream);
    void (*resume)(struct service_stream *stream);
};

/* Lives in its owner (rpc) until ended was called. */
struct service_stream {
    struct principal principal;
    enum policy_scope scope;
    const struct service_stream_ops *ops;
    void *handler; /* the handler's own */
};

/* What rpc calls; all but open may find the stream finished already. */
struct service_stream_handler {
    const ProtobufCMessageDescriptor *request;
    void (*open)(struct service *service, struct service_stream *stream);
    void (*message)(struct service_stream *stream, const ProtobufCMessage *message);
    void (*half_closed)(struct service_stream *stream);
    void (*writable)(struct service_stream *stream);
    void (*ended)(struct service_stream *stream); /* exactly once, last */
};

/* ---- the whole ---- */

struct service_options {
    char machine_id[33];   /* of this machine: what "the calling machine" of a local caller is */
    int64_t heartbeat_ms;  /* asked of nodes [2000] */
    int64_t lost_after_ms; /* a node not heard for so long is lost [30000] */
    int64_t grace_ms;      /* after a start no ttl ends before this [30000] */
    /* The first rules are on their way: as long as there are none, not the usual ones hold but none, and only root and the
     * nodes have rights. */
    bool rules_awaited;
};

#define CLUSTER_WHY_MAX 512

/* A question to another replica; dies with the call. */
struct service_question {
    const char *method;         /* "/xce.v1.ClusterService/Past" */
    const char *name, *address; /* whose */
    const uint8_t *bytes;       /* its request, packed */
    size_t len;
    int64_t timeout_ms;
};

/* What another replica answers. r: 0; -EAGAIN it is there, and can not say just now; -EHOSTUNREACH, -ECANCELED, -errno, why
 * says. All of it dies with the call. */
typedef void (*service_asked_fn)(int r, const uint8_t *bytes, size_t len, const char *why,
                                 void *arg);

struct service_deps {
    struct engine *engine;
    struct hub *hub;
    struct history *history;
    /* Run work on another thread, then done on the loop, always, exactly once. 0; -ENOMEM. */
    int (*offload)(void (*work)(void *arg), void (*done)(int r, void *arg), void *arg,
                   void *offload_arg);
    void *offload_arg;
    int64_t (*wall_ms)(void);
    int64_t (*mono_ms)(void);
    /* The rules have changed: calls under way are to be decided anew, before anything else is told. May be NULL. */
    void (*policy_changed)(void *arg);
    void *policy_arg;
    /* Make this one the first replica of a cluster. 0: it begins anew as that when what is under way has been answered;
     * -EEXIST; -EINVAL; -errno. why: a sentence, CLUSTER_WHY_MAX bytes. */
    int (*cluster_init)(char *why, void *arg);
    void *cluster_arg;
    /* Ask another replica; the answer is the packed reply of the method. done exactly once, never inside this call. May be
     * NULL: there are no others. Not to be called after service_stop. */
    void (*ask_replica)(const struct service_question *question, service_asked_fn done,
                        void *done_arg, void *arg);
    void *ask_arg;
};

/* 0; -ENOMEM. deps are borrowed and outlive the service. */
int service_new(const struct service_options *options, const struct service_deps *deps,
                struct service **ret);
void service_free(struct service *service);

/* For each change, after the hub has had it: answers whoever waited for it. */
void service_changed(struct service *service, const struct fsm_change *change);
/* The state was replaced by a snapshot. */
void service_restored(struct service *service);
/* The rules in force, for the dispatcher. Dies with the next change of them. */
const struct policy *service_policy(const struct service *service);
/* How often they have changed since the start. */
uint64_t service_policy_count(const struct service *service);
/* done(0) when the state here, and so the rules, has everything that was acknowledged before this call; -errno: there is
 * nobody to ask. Exactly once, never inside this call. */
void service_confirm(struct service *service, void (*done)(int r, void *arg), void *arg);
/* There are none, and will be soon: who is denied may ask again. */
bool service_rules_awaited(const struct service *service);
/* After the changes of an entry. */
void service_flush(struct service *service);

/* What a replica, this one too, has said by engine_tell. */
void service_told(struct service *service, const uint8_t *bytes, size_t len);

/* Time passes: expiries, lost nodes, gathered watermarks. To be called at least every 100 ms. */
void service_elapse(struct service *service);

/* The engine refuses writes (r < 0, what names the file and the reason), or is well again (0). */
void service_health(struct service *service, int r, const char *what);

/* After a reload. */
void service_set_times(struct service *service, int64_t heartbeat_ms, int64_t lost_after_ms,
                       int64_t grace_ms);

/* Make certificates for nodes with ca, which is the service's from now on (NULL: make none), for life_ms; ca_pem: whom nodes
 * are told to trust. Copied. */
void service_set_ca(struct service *service, struct cert_ca *ca, const char *ca_pem,
                    int64_t life_ms);

/* leased ends: sessions, watches and acquires that wait are over now, with -ECANCELED; they would not end by themselves. */
void service_stop(struct service *service);

/* This replica began or ceased to lead. */
void service_leading(struct service *service, bool leading);

/* ---- handlers, by proto service (rpc/method.c names them) ---- */

void service_lease_acquire(struct service *service, struct service_request *request);
void service_lease_renew(struct service *service, struct service_request *request);
void service_lease_release(struct service *service, struct service_request *request);
void service_lease_revoke(struct service *service, struct service_request *request);
void service_lease_get(struct service *service, struct service_request *request);
void service_lease_list(struct service *service, struct service_request *request);
void service_lease_explain(struct service *service, struct service_request *request);
void service_lease_history(struct service *service, struct service_request *request);
extern const struct service_stream_handler service_lease_watch;

void service_pool_create(struct service *service, struct service_request *request);
void service_pool_get(struct service *service, struct service_request *request);
void service_pool_list(struct service *service, struct service_request *request);
void service_pool_overlap(struct service *service, struct service_request *request);
void service_pool_set(struct service *service, struct service_request *request);
void service_pool_suggest(struct service *service, struct service_request *request);
void service_pool_unblock(struct service *service, struct service_request *request);
void service_pool_retire(struct service *service, struct service_request *request);

void service_rbac_get_config(struct service *service, struct service_request *request);
void service_rbac_update_config(struct service *service, struct service_request *request);
void service_rbac_list_roles(struct service *service, struct service_request *request);
void service_rbac_check(struct service *service, struct service_request *request);

void service_cluster_status(struct service *service, struct service_request *request);
void service_cluster_begin(struct service *service, struct service_request *request);
void service_cluster_add(struct service *service, struct service_request *request);
void service_cluster_remove(struct service *service, struct service_request *request);
void service_cluster_transfer(struct service *service, struct service_request *request);
void service_cluster_backup(struct service *service, struct service_request *request);
void service_cluster_overlap(struct service *service, struct service_request *request);
void service_cluster_past(struct service *service, struct service_request *request);
void service_cluster_confirm(struct service *service, struct service_request *request);

extern const struct service_stream_handler service_node_session;
void service_node_get(struct service *service, struct service_request *request);
void service_node_list(struct service *service, struct service_request *request);
void service_node_drain(struct service *service, struct service_request *request);
void service_node_undrain(struct service *service, struct service_request *request);
void service_node_cordon(struct service *service, struct service_request *request);
void service_node_sweep(struct service *service, struct service_request *request);
void service_node_fence(struct service *service, struct service_request *request);
void service_node_forget(struct service *service, struct service_request *request);
void service_node_token(struct service *service, struct service_request *request);
void service_node_enroll(struct service *service, struct service_request *request);

#endif
