/* HTTP/2 on a transport: home of nghttp2, both ends. Streams carry header blocks and bytes; what they mean is the
 * caller's (grpc_*.c).
 *
 * Sending: everything that a round of the loop has queued leaves in one write at the end of the round. Receiving: a
 * stream's window opens again as the caller consumes (h2_consume), the connection's at once, as long as what streams
 * hold back stays within four windows.
 * What a peer can make us hold or do is bounded: streams, header lists, queued answers, resets, control frames, time to
 * finish the handshake, time without a sign of life. Who goes beyond gets GOAWAY with the reason, and is closed.
 *
 * One loop, one thread. Events come from the loop, never inside a call into this header; in any of them every function
 * here may be called, for any stream and connection. */
#ifndef XCE_COMMON_NET_H2_H
#define XCE_COMMON_NET_H2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct h2_conn;
struct h2_stream;
struct loop;
struct transport;

/* Under AddressSanitizer nothing freed is kept for the next one: it would hide a use after free. */
#if defined(__SANITIZE_ADDRESS__)
#define H2_KEPT_MAX 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define H2_KEPT_MAX 0
#endif
#endif
#ifndef H2_KEPT_MAX
#define H2_KEPT_MAX 1024
#endif

/* Blocks that nghttp2 gave back, for the next call; bounded. Shared by the connections of a server or channel, and outlives
 * them. NULL: no memory. */
struct h2_pool;
struct h2_pool *h2_pool_new(void);
void h2_pool_free(struct h2_pool *pool);

/* All must be set. */
struct h2_limits {
    struct h2_pool *pool;
    size_t header_list_bytes;
    unsigned streams;
    size_t window_bytes; /* of a stream; the connection's is four times that */
    /* of a connection: more than that makes every stream wait for writable */
    size_t send_queue_bytes;
    int64_t handshake_ms;
    int64_t idle_ms;      /* 0 = never */
    int64_t life_ms;      /* 0 = for ever */
    int64_t keepalive_ms; /* below 0 = never */
};

/* Error codes of streams and GOAWAY (RFC 9113, 7). */
enum h2_error {
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_REFUSED_STREAM = 7,
    H2_CANCEL = 8,
    H2_ENHANCE_YOUR_CALM = 11,
    H2_INADEQUATE_SECURITY = 12,
    /* Ours: the connection went away under the stream. */
    H2_LOST = 0xffff,
};

enum {
    H2_KEEP = 1,     /* of a header: name and value outlive the connection, no copy is made */
    H2_NO_INDEX = 2, /* the value will hardly come again: keep it out of the peer's table */
};

struct h2_header {
    const char *name, *value;
    size_t name_len, value_len;
    unsigned flags;
};

#define H2_HEADER(n, v)                                                                            \
    ((struct h2_header){.name = (n),                                                               \
                        .value = (v),                                                              \
                        .name_len = sizeof(n) - 1,                                                 \
                        .value_len = sizeof(v) - 1,                                                \
                        .flags = H2_KEEP})

/* A piece of a stream's outgoing bytes. */
struct h2_chunk {
    struct h2_chunk *next;
    size_t len, at;
    uint8_t data[];
};

/* Embedded, zeroed, in the object of whoever has the stream; must outlive the `closed` event. */
struct h2_stream {
    struct h2_conn *conn; /* NULL: not open yet, or closed */
    LIST_ENTRY(h2_stream) link;
    TAILQ_ENTRY(h2_stream) resume_link;
    int32_t id;
    struct h2_chunk *head, **tail;
    size_t queued_bytes; /* not yet on the way */
    size_t burst_bytes;  /* sent since others had their turn */
    size_t low_bytes;    /* writable again when no more than this is queued */
    size_t parked_bytes; /* received, not consumed */
    size_t uncredited;   /* consumed, window not given back yet */
    /* what the transport must have written for the peer to have seen the request */
    uint64_t sent_at;
    bool request_sent : 1;
    bool request_seen : 1; /* once closed */
    bool responded : 1;    /* header block submitted */
    bool ending : 1;       /* nothing will be queued any more */
    bool ended : 1;        /* END_STREAM is on its way */
    bool deferred : 1;     /* nghttp2 waits to be told of new bytes */
    bool resuming : 1;     /* on the connection's list: had its share of this write */
    bool waits : 1;        /* told to wait for writable */
    bool remote_ended : 1;
    uint8_t stalls; /* ticks since `ending` without a byte leaving */
};

enum {
    H2_BLOCK_END = 1,       /* END_STREAM came with it */
    H2_BLOCK_TOO_LARGE = 2, /* longer than header_list_bytes: only the first part was told */
};

struct h2_handler {
    /* Server: a request begins. Its object; NULL refuses it. */
    struct h2_stream *(*open)(struct h2_conn *conn, void *arg);
    /* One field; strings end with NUL as well, and die with the callback. */
    void (*header)(struct h2_stream *stream, const char *name, size_t name_len, const char *value,
                   size_t value_len);
    /* The block is complete. */
    void (*headers)(struct h2_stream *stream, unsigned flags);
    /* Bytes; each is owed to h2_consume. They die with the callback. */
    void (*data)(struct h2_stream *stream, const uint8_t *data, size_t len);
    /* The peer has said all on this stream. After headers with H2_BLOCK_END too. */
    void (*half_closed)(struct h2_stream *stream);
    /* After h2_push answered H2_WAIT there is room. */
    void (*writable)(struct h2_stream *stream);
    /* What to end a server's stream with: fill at most 4, give their number. They are copied unless H2_KEEP. */
    size_t (*trailers)(struct h2_stream *stream, struct h2_header *ret);
    /* Last of a stream. error is an enum h2_error or another code of the peer's. */
    void (*closed)(struct h2_stream *stream, uint32_t error);
    /* The peer's SETTINGS have come: it speaks HTTP/2. This and goaway may be NULL; so may open and trailers of a client. */
    void (*ready)(struct h2_conn *conn, void *arg);
    /* The peer takes no more requests on this connection. */
    void (*goaway)(struct h2_conn *conn, void *arg);
    /* The connection is about to be lost, its streams will be told next. May be NULL. */
    void (*losing)(struct h2_conn *conn, const char *why, void *arg);
    /* Last of a connection, after all its streams; it is freed after. why dies with it. r: 0 in order, else -errno. */
    void (*lost)(struct h2_conn *conn, int r, const char *why, void *arg);
};

/* Takes the transport (its events too), also on failure. handler and limits are borrowed for the connection's life.
 * send_queue_limit of a stream is given to h2_push each time. 0; -ENOMEM. */
int h2_conn_new(struct loop *loop, struct transport *transport, bool server,
                const struct h2_limits *limits, const struct h2_handler *handler, void *arg,
                struct h2_conn **ret);

/* In order: no new requests, what is under way may end, then the connection is lost with r = 0. */
void h2_conn_shutdown(struct h2_conn *conn);
/* Now: what is queued is written if the socket takes it, GOAWAY with code and why follows, then lost with r. */
void h2_conn_abort(struct h2_conn *conn, int r, uint32_t code, const char *why);

unsigned h2_conn_streams(const struct h2_conn *conn);
void *h2_conn_arg(const struct h2_conn *conn);

/* Client: open a stream. The header block is copied where not H2_KEEP. 0; -ENOMEM; -EPIPE no more on this connection. */
int h2_request(struct h2_conn *conn, struct h2_stream *stream, const struct h2_header *headers,
               size_t n);
/* Client: whether the peer may have seen the request, on a stream open or just closed. */
bool h2_request_seen(const struct h2_stream *stream);

/* Server: the answer's header block. end: nothing follows. 0; -ENOMEM; -EPIPE. */
int h2_respond(struct h2_stream *stream, const struct h2_header *headers, size_t n, bool end);

enum {
    H2_WAIT = 1,
};
/* Queue bytes; takes the chunk, also on failure. 0; H2_WAIT: taken, but more than limit is queued; -EPIPE. */
int h2_push(struct h2_stream *stream, struct h2_chunk *chunk, size_t limit_bytes);
/* Nothing more from us: then the trailers (server), then END_STREAM. drop: forget what is queued first. */
void h2_finish(struct h2_stream *stream, bool drop);
void h2_reset(struct h2_stream *stream, uint32_t error);
/* Bytes of `data` have been dealt with. */
void h2_consume(struct h2_stream *stream, size_t len);

/* NULL: no memory. */
struct h2_chunk *h2_chunk_new(size_t len);

#endif
