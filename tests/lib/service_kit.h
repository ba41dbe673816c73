/* The service of leased on a real engine in a folder, called without rpc: requests and streams are these structs, time is
 * what a test says. Pool "main", node n1 (engine_kit.h). */
#ifndef XCE_TESTS_LIB_SERVICE_KIT_H
#define XCE_TESTS_LIB_SERVICE_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "leased/service/service.h"
#include "leased/watch/hub.h"
#include "tests/lib/engine_kit.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"

/* A call as rpc would hold it. */
struct kit_call {
    struct service_request request;
    bool done;
    int r;
    char message[512];
    size_t n_leases; /* of an AcquireReply */
    uint32_t uid;    /* of the first */
};

/* A session of a node. */
struct kit_stream {
    struct service_stream face; /* first */
    bool full;                  /* it takes no more: send says so */
    bool paused;                /* what it says is not read */
    unsigned n_sent, n_acks;
    uint64_t session;                  /* of the welcome; 0 = none came */
    Xce__V1__OverlapQuestion question; /* the last one; number 0 = none came */
    unsigned n_questions;
    bool finished;
    int r;
    char message[512];
};

struct kit_job;
TAILQ_HEAD(kit_jobs, kit_job);

struct service_kit {
    struct engine_kit engine;
    bool slow;       /* what is done off the loop does not end before service_kit_work */
    unsigned n_jobs; /* that were begun off the loop */
    struct kit_jobs jobs;
    struct engine_hooks hooks;
    struct hub *hub;
    struct service *service;
};

/* n_uids of the pool. Ends with service_kit_done, after every call and stream. */
void service_kit_init(struct service_kit *kit, uint32_t n_uids);
void service_kit_done(struct service_kit *kit);

/* Time stands still but for these. elapse: time passes as it does for a loop that runs, in steps of 50 ms. */
void service_kit_stall(int64_t ms);
void service_kit_elapse(struct service_kit *kit, int64_t ms);

/* What is slow ends; who waits is told by the loop. */
void service_kit_work(struct service_kit *kit);

/* Run until everything that was proposed so far has been applied. */
void service_kit_settle(struct service_kit *kit);

/* Acquire n leases on n1 as root, waiting for READY; id makes the request id. The message lives with the call. */
void service_kit_acquire(struct service_kit *kit, struct kit_call *call, uint32_t id, size_t n);
void kit_call_cancel(struct kit_call *call);
void kit_call_done(struct kit_call *call);

/* A session as rpc would open and end it. */
void kit_stream_open(struct service_kit *kit, struct kit_stream *stream);
void kit_stream_say(struct kit_stream *stream, const Xce__V1__SessionUp *up);
/* A proper hello of that node. */
void kit_stream_hello(struct kit_stream *stream, const char *node);
void kit_stream_beat(struct kit_stream *stream, uint64_t watermark);
void kit_stream_report(struct kit_stream *stream, uint32_t uid, uint32_t epoch,
                       Xce__V1__ReportKind kind);
/* To the last question of a survey, or (question not 0) to that one. */
void kit_stream_answer(struct kit_stream *stream, uint64_t question, uint32_t uid,
                       const char *what);
void kit_stream_end(struct kit_stream *stream);

#endif
