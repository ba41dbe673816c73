/* What a call is on both ends: messages over an h2 stream, pausing, and the promise that callbacks never run inside a
 * call. Internal to grpc_server.c and grpc_client.c. */
#ifndef XCE_COMMON_NET_GRPC_STREAM_H
#define XCE_COMMON_NET_GRPC_STREAM_H

#include "common/net/grpc.h"
#include "common/net/grpc_frame.h"
#include "common/net/h2.h"

struct grpc_stream;

struct grpc_stream_ops {
    void (*message)(struct grpc_stream *stream, const uint8_t *data, size_t len);
    /* The peer has said all, and all of it has been told. */
    void (*half_closed)(struct grpc_stream *stream);
    /* What came is not acceptable. Nothing more will be told. */
    void (*refuse)(struct grpc_stream *stream, enum grpc_status status, const char *why);
    /* grpc_stream_over was called; may free the stream. */
    void (*over)(struct grpc_stream *stream);
};

/* What all calls of a server or a channel share. */
struct grpc_context {
    struct loop *loop;
    struct grpc_limits limits; /* defaults filled in */
    struct h2_limits h2_limits;
    const struct grpc_stream_ops *ops;
    struct loop_soon *soon;
    TAILQ_HEAD(, grpc_stream) todo;
    struct grpc_budget held; /* what all of them keep */
    /* After the todo list has been worked off; may free the context. */
    void (*idle)(void *arg);
    void *arg;
};

struct grpc_stream {
    struct h2_stream h2; /* first */
    struct grpc_context *context;
    TAILQ_ENTRY(grpc_stream) link;
    struct grpc_frame_reader reader;
    uint8_t *parked; /* came while paused */
    size_t parked_len, parked_at, parked_size;
    unsigned n_messages;
    bool queued : 1; /* on the todo list */
    bool ended : 1;  /* over is to be called */
    bool paused : 1;
    bool delivering : 1; /* out of parked: a callback is on the stack */
    bool deaf : 1;       /* nothing more is told */
    bool remote_ended : 1;
    bool half_told : 1;
};

/* 0; -ENOMEM. limits may be NULL. */
int grpc_context_init(struct grpc_context *context, struct loop *loop,
                      const struct grpc_limits *limits, const struct grpc_stream_ops *ops,
                      void (*idle)(void *arg), void *arg);
void grpc_context_done(struct grpc_context *context);
/* Call idle from the loop. */
void grpc_context_poke(struct grpc_context *context);

/* stream is zeroed. budget: what it keeps is taken of this. */
void grpc_stream_init(struct grpc_stream *stream, struct grpc_context *context,
                      struct grpc_budget *budget);
/* Free what it holds, and leave it zeroed. */
void grpc_stream_done(struct grpc_stream *stream);

/* From the h2 handler. */
void grpc_stream_data(struct grpc_stream *stream, const uint8_t *data, size_t len);
void grpc_stream_half_closed(struct grpc_stream *stream);

void grpc_stream_pause(struct grpc_stream *stream);
void grpc_stream_resume(struct grpc_stream *stream);
/* Tell nothing more; what has come is dropped. */
void grpc_stream_deafen(struct grpc_stream *stream);
/* Have ops->over called from the loop, once. */
void grpc_stream_over(struct grpc_stream *stream);

/* 0; GRPC_FULL; -ENOMEM; -EPIPE; -EMSGSIZE. Takes message, also on failure. */
int grpc_stream_send_owned(struct grpc_stream *stream, uint8_t *message, size_t len);
int grpc_stream_send(struct grpc_stream *stream, const uint8_t *data, size_t len);

#endif
