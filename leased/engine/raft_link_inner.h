/* Inside of raft_link.h: what raft_link.c (links begin and end), raft_link_frame.c (bytes to frames and back),
 * raft_link_hello.c (who the other one is), raft_link_say.c (what replicas say besides) and raft_link_uv.c (the library's
 * streams) share. One thread: the loop's.
 *
 *   C-Raft ◀─ socket pair ─▶ uv ◀─ DATA ─▶ frame ◀─▶ net, the private stream
 *                         hello, say ◀─────▶ frame
 *
 * struct raft_links owns its links; a link owns its two streams, its timer and its buffers. raft_link_end lets go of the streams
 * at once, so that nothing comes on them any more; the link itself stays, marked `ended`, until the next round of the loop, when
 * whoever waits for it is told and it is freed. So a link is never gone within a call that began with it, and each call that may
 * end it (all that write, all that hand something to the library) is followed by a look at `ended`. What the library is given
 * (its half of a socket pair, a connect request) is the library's from then on. */
#ifndef XCE_LEASED_ENGINE_RAFT_LINK_INNER_H
#define XCE_LEASED_ENGINE_RAFT_LINK_INNER_H

#include <sys/queue.h>

#include "common/buf.h"
#include "common/log.h"
#include "common/net/loop.h"
#include "common/net/transport.h"
#include "leased/engine/raft_link.h"

#define FRAME_HEADER_LEN 8u
#define FRAME_NUMBER_LEN 8u    /* before the bytes of TELL, TOLD, PASS and PASSED */
#define FRAME_SHORT_MAX  1024u /* of those that are short */
/* Bytes that wait for the stream; what comes then is not sent. The longest frame, and more. */
#define FRAME_PENDING_MAX (8u << 20)

#define NOT_OUR_PROTOCOL "it does not speak our protocol"

enum frame_type {
    FRAME_HELLO = 1,
    FRAME_REFUSED = 2,
    FRAME_DATA = 3,
    FRAME_CONFIRM = 4,
    FRAME_CONFIRMED = 5,
    FRAME_TELL = 6,
    FRAME_TOLD = 7,
    FRAME_HEAR = 8,
    FRAME_PASS = 9,
    FRAME_PASSED = 10,
};

enum link_kind {
    LINK_IN = 1, /* the other one connected */
    LINK_OUT,    /* we did, for the library */
    LINK_ASK,    /* we did, to learn its id */
};

/* One of two numbers that is to be sent when the stream takes it. */
struct confirmation {
    bool due;
    uint64_t number, term;
};

struct link {
    LIST_ENTRY(link) all;
    struct raft_links *links;
    enum link_kind kind;
    struct transport *net, *pair;
    struct loop_timer *patience;
    bool greeted;  /* hello was taken */
    bool blocked;  /* net, for writing */
    bool refused;  /* the sentence is on its way: the other one closes, or patience ends */
    bool ended;    /* is freed in the next round, */
    bool held;     /* or later: the library is not told yet, and does not call again at once */
    bool outdated; /* IN: it means a folder that we had before; we are a member again with ours */

    uint64_t id;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];

    /* The frame that is being read. */
    uint8_t header[FRAME_HEADER_LEN];
    size_t header_len;
    enum frame_type type;
    size_t frame_left, frame_at;
    uint8_t *frame;
    size_t frame_cap;

    struct confirmation question, answer;
    struct buf pending; /* whole frames */
    uint64_t number;    /* of the link */

    struct raft_uv_connect *connect; /* OUT: the library waits for it */
    raft_uv_connect_cb connected;
    raft_links_asked_fn asked; /* ASK */
    void *asked_arg;
    char why[ENGINE_WHY_MAX];
};

struct raft_links {
    struct raft_links_options options;
    struct raft_uv_transport transport;
    raft_uv_accept_cb accept;
    raft_uv_transport_close_cb closed;
    bool closing;
    struct loop_soon *soon;
    LIST_HEAD(, link) all;
    uint64_t last_number;
    struct log_limit refusals;
    uint8_t out[FRAME_HEADER_LEN + LOOP_SCRATCH_BYTES];
    /* For the library, out of what came at once: it goes to the pair in one piece, which alone may be taken too much. */
    uint8_t *in;
    size_t in_len, in_cap;
};

/* raft_link.c */
/* A link in the list, with patience for its hello; NULL: no memory. */
struct link *raft_link_new(struct raft_links *links, enum link_kind kind);
/* To link->name at link->address. */
void raft_link_connect(struct link *link);
/* It is over; what waits for it is told in the next round, then it goes. */
void raft_link_end(struct link *link, const char *why);
/* The same, and the log says why. */
void raft_link_fail(struct link *link, const char *why);
/* The same, and the other one is told why if it connected. */
void raft_link_refuse(struct link *link, const char *why);
/* ASK: hello was taken, the id is known. */
void raft_link_ready_ask(struct link *link);

/* raft_link_frame.c */
/* The header of a frame with len bytes. */
void raft_link_begin_frame(uint8_t *frame, enum frame_type type, size_t len);
/* Whole frames, to a stream that is not blocked. */
void raft_link_write(struct link *link, const uint8_t *frames, size_t len);
/* Now or when the stream takes it: a frame of these two parts, number may be NULL. false: too much waits, or it has ended. */
bool raft_link_send(struct link *link, enum frame_type type, const uint64_t *number,
                    const uint8_t *bytes, size_t len);
/* What waits, if the stream takes it. */
void raft_link_send_pending(struct link *link);
/* What has come, in any pieces: each whole frame is taken. */
void raft_link_read(struct link *link, const uint8_t *data, size_t len);

/* raft_link_hello.c */
void raft_link_send_hello(struct link *link);
/* link->frame holds len bytes. */
void raft_link_take_hello(struct link *link, size_t len);

/* raft_link_say.c */
/* A whole frame other than DATA: link->frame holds len bytes and room for one more. */
void raft_link_take(struct link *link, size_t len);
/* What is due of question and answer, if the stream takes it. */
void raft_link_send_confirmations(struct link *link);

/* raft_link_uv.c */
void raft_link_init_transport(struct raft_links *links);
/* OUT, IN: hello was taken, the library gets its stream. */
void raft_link_ready_out(struct link *link);
void raft_link_ready_in(struct link *link);

#endif
