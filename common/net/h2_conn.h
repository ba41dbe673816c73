/* What the parts of h2 share: h2.c (life, receiving), h2_send.c (queues and writes), h2_guard.c (limits in time and number).
 * No one else includes this. */
#ifndef XCE_COMMON_NET_H2_CONN_H
#define XCE_COMMON_NET_H2_CONN_H

#include "common/net/h2.h"

/* A bucket that fills with time: what a peer may do at once, and per second. */
struct h2_bucket {
    int64_t left, burst, per_s;
    int64_t filled_ms;
};

struct h2_conn {
    struct loop *loop;
    struct transport *transport;
    const struct h2_limits *limits;
    const struct h2_handler *handler;
    void *arg;
    struct nghttp2_session *session;
    bool server;
    bool opened;      /* the transport carries bytes */
    bool settled;     /* the peer's SETTINGS have come */
    bool blocked;     /* the transport takes no more now */
    bool leaving;     /* GOAWAY sent or got: ends with its last stream */
    bool lingers;     /* all is said, in order: waits for the peer to close */
    bool doomed;      /* ends at the next flush, whatever is open */
    bool goaway_sent; /* by nghttp2, which found the error */
    bool broken;      /* the session can not be used any more */
    bool dead;        /* ended: only memory is left */

    LIST_HEAD(, h2_stream) streams;
    unsigned n_streams;

    /* sending (h2_send.c) */
    struct loop_soon *flush;
    TAILQ_HEAD(, h2_stream) resume;
    unsigned n_waiting; /* streams told to wait for writable */
    size_t queued_bytes;
    uint8_t *out; /* the buffer of this write, only while filling */
    size_t out_len;
    uint64_t put_bytes; /* ever handed to the transport or in out */

    /* receiving (h2.c) */
    struct h2_stream *block; /* whose header block is coming */
    size_t block_bytes;
    size_t parked_bytes; /* told, not consumed */
    size_t uncredited;

    /* guard (h2_guard.c) */
    struct loop_timer *tick;
    bool ticking;
    bool ping_out;
    int64_t born_ms, heard_ms, empty_ms, ping_ms, blocked_ms;
    struct h2_bucket resets, control;

    int why_r;
    uint32_t why_code;
    char why[160];
};

/* h2.c */
void h2_conn_doom(struct h2_conn *conn, int r, uint32_t code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What a call into nghttp2 gave: without memory the connection can not go on, or something would wait for ever. false:
 * doomed. */
bool h2_conn_try(struct h2_conn *conn, int nghttp2_error);
void h2_conn_end(struct h2_conn *conn);
void h2_stream_closed(struct h2_stream *stream, uint32_t error);

/* h2_pool.c. The allocator, for nghttp2_mem; what it has given out of its reserve makes it short: then the connection at
 * hand has to end. */
bool h2_pool_short(const struct h2_pool *pool);
void *h2_pool_malloc(size_t size, void *pool);
void *h2_pool_calloc(size_t n, size_t size, void *pool);
void *h2_pool_realloc(void *block, size_t size, void *pool);
void h2_pool_release(void *block, void *pool);

/* h2_send.c */
int h2_send_init(struct h2_conn *conn);
void h2_send_done(struct h2_conn *conn);
void h2_send_forget(struct h2_stream *stream);
struct nghttp2_session_callbacks;
void h2_send_callbacks(struct nghttp2_session_callbacks *callbacks);
/* Something is to be sent: at the end of this round. */
void h2_flush_later(struct h2_conn *conn);

/* h2_guard.c */
int h2_guard_init(struct h2_conn *conn);
void h2_guard_done(struct h2_conn *conn);
void h2_guard_awake(struct h2_conn *conn);
/* All is said: give the peer some time to close. */
void h2_guard_linger(struct h2_conn *conn);
/* A frame has come. false: too much of that kind, the connection is doomed. */
bool h2_guard_frame(struct h2_conn *conn, uint8_t type, uint8_t flags, size_t len);
/* We have to reset a stream for what the peer did on it. */
void h2_guard_fault(struct h2_conn *conn, uint32_t error);
/* Bytes have been taken in: is what they made us queue within bounds? */
void h2_guard_queue(struct h2_conn *conn);

#endif
