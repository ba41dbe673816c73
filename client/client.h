/* What the parts of libxce share of a client. One thread. */
#ifndef XCE_CLIENT_CLIENT_H
#define XCE_CLIENT_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/net/grpc.h"
#include "common/net/loop.h"
#include "xce/client.h"
#include "xce/v1/common.pb-c.h"

struct conf;
struct tls_keys;

struct client_server {
    const char *target;
    struct grpc_channel *channel; /* NULL until it is needed */
    int64_t lost_ms;              /* when it did not answer last (loop time); 0 = never */
};

struct xce_client {
    struct loop *loop;
    struct conf *conf;
    struct tls_keys *keys; /* NULL: sockets only */
    char *servers_text;
    struct client_server *servers;
    size_t n_servers, current; /* current: the one that answered last */
    size_t n_closing;          /* channels that were dropped and are not gone yet */
    int64_t timeout_ms, patience_ms;
    LIST_HEAD(, xce_watch) watches;
    LIST_HEAD(, call_attempt) attempts; /* under way, also those nobody waits for any more */
    LIST_HEAD(, xce_op) ops;            /* calls of our caller, under way */
    struct xce_request request;         /* of the last changing call */
    bool request_seen;                  /* a server may have seen it */
    unsigned calling_back;              /* inside a callback of our caller */
    bool doomed, closing;               /* freed in a callback; being freed */
    /* newest cluster time seen in a reply, and when (loop time); 0 = none since a server was lost */
    int64_t cluster_ms, cluster_seen_ms;
    uint64_t random;
    char message[XCE_MESSAGE_MAX];
};

/* Keep what a failed call says, made safe. Returns code. */
int client_fail(struct xce_client *client, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* How long a call may take. */
int64_t client_timeout(const struct xce_client *client, const struct xce_call *call);

/* The channel of the current server, connected or not. 0; -ENOMEM, -EMFILE. */
int client_channel(struct xce_client *client, struct grpc_channel **ret);
enum client_left {
    CLIENT_LEFT_SPOKE = 1, /* it is there, and is of no use now */
    CLIENT_LEFT_LOST,      /* the connection broke, or no answer came */
    CLIENT_LEFT_UNREACHED, /* no connection came about: its channel is dropped, so that it is tried again when our backoff
                            * says so, not when the channel's does */
};

/* Server i did not do: ask another one next time, one that has not been lost lately if there is any. */
void client_leave_server(struct xce_client *client, size_t i, enum client_left why);
/* How a call on it ended that is to be made again. */
enum client_left client_left(enum grpc_status status, bool sent, bool answered);

/* What went wrong with server i: message, with the server's name unless it begins with that. message may be NULL or empty. */
void client_name_server(const struct xce_client *client, size_t i, const char *message,
                        char ret[static XCE_MESSAGE_MAX]);

/* Run the loop for at most timeout_ms, or until client_awake was called in it: something that a caller waits for is there.
 * false: a callback has freed the client, it is gone. */
bool client_step(struct xce_client *client, int timeout_ms);
void client_awake(struct xce_client *client);

/* A reply that is not stale bore this cluster time. An earlier one than is known counts only once that is not fresh. */
void client_saw_time(struct xce_client *client, int64_t cluster_ms);
/* Whether a request can still bear the time that is known. */
bool client_time_is_fresh(const struct xce_client *client);
void client_saw_info(struct xce_client *client, const Xce__V1__ReplyInfo *info);

/* delay_ms give or take a quarter, so that many clients do not come back at once. */
int64_t client_jitter(struct xce_client *client, int64_t delay_ms);

/* What a status of gRPC means to our caller. */
enum xce_code client_code(enum grpc_status status);

/* For client.c. */
void watch_orphan(struct xce_watch *watch);

#endif
