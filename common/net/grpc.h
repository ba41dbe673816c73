/* gRPC over HTTP/2: messages in, messages out. Bytes only: what a message means is the caller's.
 *
 * What it does: unary, server streaming, client streaming, bidirectional; deadlines (grpc-timeout), cancellation, flow
 * control both ways, limits on everything a peer can grow, status with message. What it does not: compression (refused
 * with UNIMPLEMENTED), HTTP/1, retries (libxce does them, under the same request id).
 *
 * Byte streams come from a transport (transport.h: unix socket, or TLS over TCP).
 * One loop, one thread. Every callback runs from the loop, never inside a call into this header. */
#ifndef XCE_COMMON_NET_GRPC_H
#define XCE_COMMON_NET_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cert_identity;
struct loop;
struct tls_keys;
struct transport;
struct grpc_server;
struct grpc_call; /* one call, server side */
struct grpc_channel;
struct grpc_request; /* one call, client side */

enum grpc_status {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
};

/* "INVALID_ARGUMENT" and so on; "UNKNOWN" for what is none. Static. */
const char *grpc_status_name(enum grpc_status status);

/* Zero takes the default in brackets. A peer beyond a limit gets an error, never memory. */
struct grpc_limits {
    size_t message_bytes;     /* one message [4 MiB + 64 KiB] */
    size_t header_list_bytes; /* [16 KiB] */
    unsigned streams;         /* at once on a connection [1024] */
    /* At once [4096]; server only. Users (not root here, not machines) have three quarters of them, one of them a
     * quarter. */
    unsigned connections;
    /* Where one of them has all that it may: its oldest is closed for a new one, which else is turned away; server only. */
    bool oldest_goes;
    /* Of all open calls: messages that have not come to their end, what came while they were paused; of a server's also
     * themselves, what their owners keep (grpc_call_keep), answers that are not read [512 MiB]. Of a server one peer has a
     * quarter of it at most, users three quarters. */
    size_t held_bytes;
    /* Queued on a call before grpc_*_send answers GRPC_FULL [1 MiB]; on a connection, sixteen times that,
     * less where there are many connections. */
    size_t send_queue_bytes;
    /* Stream window for what we receive [1 MiB]; the connection's is four times that. */
    size_t window_bytes;
    int64_t handshake_ms; /* a peer that has not finished its preface by then is closed [10000] */
    int64_t idle_ms;      /* a connection without a stream is closed after [0 = never] */
    int64_t life_ms;      /* any connection is closed after [0 = never] */
    /* PING when silent so long with a stream open; no answer in as much again = dead [20000]. Below 0 = never. */
    int64_t keepalive_ms;
};

/* Who is at the other end. Pointers live as long as the call. */
struct grpc_peer {
    bool local; /* unix socket: uid, gid, pid are the kernel's word (SO_PEERCRED) */
    uid_t uid;
    gid_t gid;
    pid_t pid;
    /* By its certificate. NULL on a unix socket; and, not local, of who came without one (TLS_ALPN_ENROLL). */
    const struct cert_identity *tls;
    uint64_t connection; /* number of the connection, unique in this process */
};

enum {
    GRPC_FULL = 1, /* queued, but wait for writable before sending more */
};

/* ---- server ---- */

/* What a bound call tells its owner. NULL = not of interest, save end, which is a must. */
struct grpc_call_events {
    /* One whole message; data dies with the callback. */
    void (*message)(struct grpc_call *call, const uint8_t *data, size_t len, void *arg);
    /* The client has said all. For a unary call: exactly one message came before. */
    void (*half_closed)(struct grpc_call *call, void *arg);
    /* After GRPC_FULL there is room again. */
    void (*writable)(struct grpc_call *call, void *arg);
    /* The call is over: by grpc_call_finish, cancellation, deadline or a lost connection. Exactly once, last; call dies. */
    void (*end)(struct grpc_call *call, void *arg);
    /* The method takes exactly one message: a call with none or with more ends with UNIMPLEMENTED (gRPC's word for it)
     * before half_closed. So act in half_closed, not in message. */
    bool unary;
};

/* A call has come for path ("/xce.v1.LeaseService/Get"). Bind it (grpc_call_bind) or finish it; one that is left as it is
 * ends with UNIMPLEMENTED naming the path. */
typedef void (*grpc_accept_fn)(struct grpc_call *call, const char *path, void *arg);

/* 0; -ENOMEM. limits are copied. */
int grpc_server_new(struct loop *loop, const struct grpc_limits *limits, grpc_accept_fn accept,
                    void *arg, struct grpc_server **ret);

/* Listen on a unix socket: a stale socket file is replaced, a live one is -EADDRINUSE. mode is of the file. More than
 * one address may be listened on. */
int grpc_server_listen_unix(struct grpc_server *server, const char *path, mode_t mode);

/* Take over a listening unix socket (socket activation, tests). It is closed with the server, also on failure. 0; -ENOMEM;
 * -EINVAL: it is none, or does not listen. */
int grpc_server_listen_fd(struct grpc_server *server, int fd);

/* Take over a stream that somebody else has accepted: tls_port.h's, by ALPN. Its peer is the calls' peer. */
void grpc_server_adopt(struct grpc_server *server, struct transport *transport);

/* Stop accepting, GOAWAY, finish what is under way for at most grace_ms, then cut; then done. The server dies after. */
void grpc_server_close(struct grpc_server *server, int64_t grace_ms, void (*done)(void *arg),
                       void *arg);

void grpc_call_bind(struct grpc_call *call, const struct grpc_call_events *events, void *arg);
const struct grpc_peer *grpc_call_peer(const struct grpc_call *call);
/* When the client gives up, loop time; INT64_MAX = never. */
int64_t grpc_call_deadline_ms(const struct grpc_call *call);
/* A request header (lower case), or NULL. Dies with the call. */
const char *grpc_call_metadata(const struct grpc_call *call, const char *key);

/* Queue one message; the bytes are copied. 0; GRPC_FULL (queued all the same); -ENOMEM; -EPIPE the call is over;
 * -EMSGSIZE; -ENOBUFS of the first of a unary call: limits.held_bytes, it is finished. Headers go out with the first. */
int grpc_call_send(struct grpc_call *call, const uint8_t *data, size_t len);
/* The same without the copy: a buffer of grpc_message_new(len), filled by the caller, owned by the call from now on, also
 * when this fails. len may be less than was asked for. NULL: no memory. */
uint8_t *grpc_message_new(size_t len);
void grpc_message_free(uint8_t *message); /* of one that was not sent */
int grpc_call_send_owned(struct grpc_call *call, uint8_t *message, size_t len);
/* Status and end, after what was sent. message may be NULL; it is UTF-8, cut at 1024 bytes. Idempotent; the first wins. */
void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message);
/* The owner keeps so many bytes for this call, until it says another number or the call ends: they count in
 * limits.held_bytes. false: that does not allow them, and the call is finished with RESOURCE_EXHAUSTED. */
bool grpc_call_keep(struct grpc_call *call, size_t bytes);
/* Stop and go on reading from this client on this call (flow control pushes back). */
void grpc_call_pause(struct grpc_call *call);
void grpc_call_resume(struct grpc_call *call);

/* ---- client ---- */

struct grpc_request_events {
    void (*message)(struct grpc_request *request, const uint8_t *data, size_t len, void *arg);
    void (*writable)(struct grpc_request *request, void *arg);
    /* Exactly once, last; request dies. sent: false = the server can not have seen it, a retry is safe. message is never
     * NULL and dies with the callback. */
    void (*end)(struct grpc_request *request, enum grpc_status status, const char *message,
                bool sent, void *arg);
    /* Exactly one message is the answer: OK with none or with more becomes UNIMPLEMENTED (gRPC's word for it). */
    bool unary;
};

/* A list of them ends with key NULL. */
struct grpc_metadata {
    const char *key, *value;
};

/* A channel to "unix:/path". It connects when first used and again after a failure, with backoff (100 ms to 5 s): a call
 * within it fails at once with what the last attempt met. 0; -EINVAL target; -ENAMETOOLONG; -ENOMEM. */
int grpc_channel_new(struct loop *loop, const char *target, const struct grpc_limits *limits,
                     struct grpc_channel **ret);
/* The same to "host:port" over TLS, as keys say we are, if who answers is `peer` (as struct tls_target has it). Both are
 * copied, keys outlive the channel. alpn: NULL = h2; else borrowed for ever. */
int grpc_channel_tls_new(struct loop *loop, const char *address, struct tls_keys *keys,
                         const char *peer, const char *alpn, const struct grpc_limits *limits,
                         struct grpc_channel **ret);
/* Whichever of the two `server` asks for: "unix:/path", or "host:port" of any replica. keys may be NULL: -ENOKEY where they
 * are needed. */
int grpc_channel_open(struct loop *loop, const char *server, struct tls_keys *keys,
                      const struct grpc_limits *limits, struct grpc_channel **ret);
/* Ends every request with CANCELLED, then frees. done may be NULL. */
void grpc_channel_close(struct grpc_channel *channel, void (*done)(void *arg), void *arg);

enum {
    GRPC_METADATA_MAX = 32,
};

/* Start a call. timeout_ms <= 0 = none; path and metadata (NULL = none) are copied. 
 * 0; -ENOMEM; -EAGAIN limits.streams are open; -EINVAL more than GRPC_METADATA_MAX; -EPIPE the channel is closed. A failure
 * to connect comes as UNAVAILABLE through end. */
int grpc_request_start(struct grpc_channel *channel, const char *path, int64_t timeout_ms,
                       const struct grpc_metadata *metadata,
                       const struct grpc_request_events *events, void *arg,
                       struct grpc_request **ret);
/* As grpc_call_send and grpc_call_send_owned. */
int grpc_request_send(struct grpc_request *request, const uint8_t *data, size_t len);
int grpc_request_send_owned(struct grpc_request *request, uint8_t *message, size_t len);
/* No more messages from us. A unary call is start, send, half_close. */
void grpc_request_half_close(struct grpc_request *request);
void grpc_request_cancel(struct grpc_request *request);
void grpc_request_pause(struct grpc_request *request);
void grpc_request_resume(struct grpc_request *request);
/* In end: whether the status is the server's own word, not what became of the connection. */
bool grpc_request_answered(const struct grpc_request *request);

#endif
