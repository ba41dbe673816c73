#include "leased/engine/raft_link.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "common/net/transport.h"

#define VERSION      1u
#define HEADER       8u
#define FRAME_MAX    1024u /* of those that are short */
#define NUMBER_LEN   8u
#define PENDING_MAX  (4u << 20) /* bytes that wait for the stream; what comes then is not sent */
#define HELLO_MS     2000       /* for the stream to open and both to say hello */
#define NUMBERS_MAX  16u
#define PREAMBLE_LEN 40u

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
    bool greeted; /* hello was taken */
    bool blocked; /* net, for writing */
    bool refused; /* the sentence is on its way: the other one closes, or patience ends */
    bool ended;   /* is freed in the next round */

    uint64_t id;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];

    /* The frame that is being read. */
    uint8_t header[HEADER];
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
    uint8_t out[HEADER + LOOP_SCRATCH_BYTES];
    /* For the library, out of what came at once: it goes to the pair in one piece, which alone may be taken too much. */
    uint8_t *in;
    size_t in_len, in_cap;
};

static void put(uint8_t *at, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

bool raft_address_split(const char *text, char name[static REPLICA_NAME_MAX + 1],
                        char address[static REPLICA_ADDRESS_MAX + 1])
{
    const char *at = strchr(text, '@');

    if (!at || at == text || at - text > REPLICA_NAME_MAX || strlen(at + 1) > REPLICA_ADDRESS_MAX)
        return false;
    memcpy(name, text, (size_t)(at - text));
    name[at - text] = '\0';
    memcpy(address, at + 1, strlen(at + 1) + 1);
    return true;
}

/* ---- the end of a link ---- */

/* It is over; what waits for it is told in the next round, then it goes. */
static void end(struct link *link, const char *why)
{
    if (link->ended)
        return;
    link->ended = true;
    (void)snprintf(link->why, sizeof link->why, "%s", why);
    loop_timer_stop(link->patience);
    transport_free(mem_take(link->net));
    transport_free(mem_take(link->pair));
    loop_soon_start(link->links->soon);
}

static void complain(const struct link *link, const char *why)
{
    unsigned held;

    if (!link->links->closing && log_limit_ok(&link->links->refusals, &held))
        log_warning(NULL, "replica %s: %s", link->name[0] ? link->name : "(unnamed)", why);
}

static void refuse_log(struct link *link, const char *why)
{
    if (!link->ended && !link->refused)
        complain(link, why);
    end(link, why);
}

static void link_free(struct link *link)
{
    LIST_REMOVE(link, all);
    if (link->connect)
        link->connected(link->connect, NULL,
                        link->links->closing ? RAFT_CANCELED : RAFT_NOCONNECTION);
    if (link->asked)
        link->asked(link->links->closing ? -ECANCELED : -EHOSTUNREACH, 0, link->why,
                    link->asked_arg);
    if (link->kind == LINK_OUT && link->greeted && !link->links->closing)
        link->links->options.events.ended(link->number, link->links->options.events.arg);
    loop_timer_free(link->patience);
    buf_done(&link->pending);
    free(link->frame);
    free(link);
}

static void sweep(void *arg)
{
    struct raft_links *links = arg;
    struct link *link, *next;

    for (link = LIST_FIRST(&links->all); link; link = next) {
        next = LIST_NEXT(link, all);
        if (link->ended)
            link_free(link);
    }
    if (links->closing && LIST_EMPTY(&links->all) && links->closed) {
        raft_uv_transport_close_cb closed = links->closed;

        links->closed = NULL;
        closed(&links->transport);
    }
}

/* ---- writing ---- */

static void write_frame(struct link *link, const uint8_t *frame, size_t len)
{
    int r = transport_write(link->net, frame, len);

    if (r < 0)
        end(link, err_text(r));
    if (r != TRANSPORT_BLOCKED)
        return;
    link->blocked = true;
    if (link->pair)
        transport_read(link->pair, false);
}

static void begin_frame(uint8_t *frame, enum frame_type type, size_t len)
{
    put(frame, len, 4);
    put(frame + 4, type, 4);
}

static void send_hello(struct link *link)
{
    const struct raft_links_options *us = &link->links->options;
    size_t name_len = strlen(us->name), address_len = strlen(us->address);
    uint8_t frame[HEADER + PREAMBLE_LEN + 2 + REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX];
    uint8_t *at = frame + HEADER;

    memcpy(at, "XCER", 4);
    put(at + 4, VERSION, 4);
    put(at + 8, us->id, 8);
    put(at + 16, link->kind == LINK_OUT ? link->id : 0, 8);
    memcpy(at + 24, us->cluster, REPLICA_CLUSTER_LEN);
    at += PREAMBLE_LEN;
    *at++ = (uint8_t)name_len;
    memcpy(at, us->name, name_len);
    at += name_len;
    *at++ = (uint8_t)address_len;
    memcpy(at, us->address, address_len);
    at += address_len;
    begin_frame(frame, FRAME_HELLO, (size_t)(at - frame) - HEADER);
    write_frame(link, frame, (size_t)(at - frame));
}

static void refuse(struct link *link, const char *why)
{
    uint8_t frame[HEADER + FRAME_MAX];
    size_t len = strnlen(why, FRAME_MAX);

    if (link->ended || link->refused)
        return;
    if (link->kind != LINK_IN || link->blocked) {
        refuse_log(link, why);
        return;
    }
    begin_frame(frame, FRAME_REFUSED, len);
    memcpy(frame + HEADER, why, len);
    write_frame(link, frame, HEADER + len);
    if (link->ended)
        return;
    complain(link, why);
    transport_shutdown(link->net);
    link->refused = true;
    loop_timer_start(link->patience, HELLO_MS, 0);
}

static void send_confirmation(struct link *link, struct confirmation *what, enum frame_type type)
{
    uint8_t frame[HEADER + NUMBERS_MAX];

    if (!what->due || link->blocked || link->ended)
        return;
    what->due = false;
    begin_frame(frame, type, NUMBERS_MAX);
    put(frame + HEADER, what->number, 8);
    put(frame + HEADER + 8, what->term, 8);
    write_frame(link, frame, sizeof frame);
}

static void send_confirmations(struct link *link)
{
    send_confirmation(link, &link->question, FRAME_CONFIRM);
    send_confirmation(link, &link->answer, FRAME_CONFIRMED);
}

static void send_pending(struct link *link)
{
    if (link->pending.len == 0 || link->blocked || link->ended)
        return;
    write_frame(link, (const uint8_t *)link->pending.data, link->pending.len);
    buf_reset(&link->pending);
}

/* Now or when the stream takes it: a frame of these two parts. */
static bool send_parts(struct link *link, enum frame_type type, const uint64_t *number,
                       const uint8_t *bytes, size_t len)
{
    size_t number_len = number ? NUMBER_LEN : 0;

    if (link->pending.len + HEADER + number_len + len > PENDING_MAX)
        return false;
    buf_put_u32(&link->pending, (uint32_t)(number_len + len));
    buf_put_u32(&link->pending, type);
    if (number)
        buf_put_u64(&link->pending, *number);
    if (len > 0)
        buf_add(&link->pending, bytes, len);
    if (buf_error(&link->pending) < 0)
        end(link, err_text(buf_error(&link->pending)));
    send_pending(link);
    return !link->ended;
}

/* ---- the library's end ---- */

static void pair_open(void *arg)
{
    (void)arg;
}

/* OUT: bytes of the library, to be carried. */
static void pair_data(const uint8_t *data, size_t len, void *arg)
{
    struct link *link = arg;
    uint8_t *out = link->links->out;

    if (link->kind != LINK_OUT) {
        end(link, "the library writes where it should read");
        return;
    }
    begin_frame(out, FRAME_DATA, len);
    memcpy(out + HEADER, data, len);
    write_frame(link, out, HEADER + len);
}

/* IN: the library has taken what it was given. */
static void pair_writable(void *arg)
{
    transport_read(((struct link *)arg)->net, true);
}

static void pair_closed(int r, void *arg)
{
    (void)r;
    end(arg, "the library closed it");
}

static const struct transport_events pair_events = {pair_open, pair_data, pair_writable,
                                                    pair_closed};

/* The library's half of a new socket pair; ours is link->pair. NULL: no descriptors or no memory. */
static struct uv_stream_s *make_pair(struct link *link)
{
    struct uv_pipe_s *stream;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return NULL;
    if (transport_unix_new(link->links->options.loop, fds[0], &pair_events, link, &link->pair) <
        0) {
        link->pair = NULL;
        (void)close(fds[1]);
        return NULL;
    }
    stream = raft_malloc(sizeof *stream);
    if (stream)
        (void)uv_pipe_init(loop_uv(link->links->options.loop), stream, 0);
    if (!stream || uv_pipe_open(stream, fds[1]) < 0) {
        (void)close(fds[1]);
        if (stream)
            uv_close((struct uv_handle_s *)stream, (uv_close_cb)raft_free);
        return NULL;
    }
    return (struct uv_stream_s *)stream;
}

static void ready_out(struct link *link)
{
    struct raft_uv_connect *connect = link->connect;
    struct uv_stream_s *stream = make_pair(link);

    if (!stream) {
        end(link, "no descriptor for it");
        return;
    }
    link->connect = NULL;
    link->connected(connect, stream, 0);
}

static void ready_in(struct link *link)
{
    char address[REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX + 2];
    struct uv_stream_s *stream;

    if (!link->links->accept) {
        end(link, "not yet");
        return;
    }
    stream = make_pair(link);
    if (!stream) {
        end(link, "no descriptor for it");
        return;
    }
    (void)snprintf(address, sizeof address, "%s@%s", link->name, link->address);
    link->links->accept(&link->links->transport, link->id, address, stream);
}

static void ready_ask(struct link *link)
{
    raft_links_asked_fn asked = link->asked;

    link->asked = NULL;
    asked(0, link->id, "", link->asked_arg);
    end(link, "");
}

/* ---- hello ---- */

struct hello {
    uint64_t from, to;
    const uint8_t *cluster;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
};

static bool read_text(const uint8_t **at, const uint8_t *end_at, char *ret, size_t max)
{
    size_t len;

    if (*at >= end_at)
        return false;
    len = *(*at)++;
    if (len == 0 || len > max || (size_t)(end_at - *at) < len)
        return false;
    memcpy(ret, *at, len);
    ret[len] = '\0';
    *at += len;
    /* Names and addresses are plain: nothing that a log line or a terminal would take for more. */
    for (size_t i = 0; i < len; i++)
        if (ret[i] <= ' ' || ret[i] > '~' || ret[i] == '@')
            return false;
    return true;
}

static bool read_hello(const uint8_t *bytes, size_t len, struct hello *ret)
{
    const uint8_t *at = bytes + PREAMBLE_LEN, *end_at = bytes + len;

    if (len < PREAMBLE_LEN || memcmp(bytes, "XCER", 4) != 0 || get(bytes + 4, 4) != VERSION)
        return false;
    ret->from = get(bytes + 8, 8);
    ret->to = get(bytes + 16, 8);
    ret->cluster = bytes + 24;
    return ret->from != 0 && read_text(&at, end_at, ret->name, REPLICA_NAME_MAX) &&
           read_text(&at, end_at, ret->address, REPLICA_ADDRESS_MAX) && at == end_at;
}

static bool is_zero(const uint8_t *cluster)
{
    static const uint8_t zeros[REPLICA_CLUSTER_LEN];

    return memcmp(cluster, zeros, sizeof zeros) == 0;
}

/* NULL, or why the peer is refused. why: room for the sentence. */
static const char *object(struct link *link, const struct hello *hello, char *why, size_t size)
{
    const struct raft_links_options *us = &link->links->options;
    const struct raft_links_events *events = &us->events;

    if (!us->replicas.proves(link->net, hello->name, us->replicas.arg))
        (void)snprintf(why, size, "its certificate does not say that it is replica %s",
                       hello->name);
    else if (link->kind != LINK_IN && strcmp(hello->name, link->name) != 0)
        (void)snprintf(why, size, "at its address there is replica %s", hello->name);
    else if (link->kind == LINK_OUT && hello->from != link->id)
        (void)snprintf(why, size,
                       "it has folder %016" PRIx64 ", not %016" PRIx64
                       ": it was wiped; leasectl cluster remove %s, then add it again",
                       hello->from, link->id, link->name);
    else if (link->kind == LINK_IN && hello->to != 0 && hello->to != us->id)
        (void)snprintf(why, size,
                       "%s has folder %016" PRIx64 ", not %016" PRIx64
                       ": it was wiped; leasectl cluster remove %s, then add it again",
                       us->name, us->id, hello->to, us->name);
    else if (hello->from == us->id)
        (void)snprintf(why, size, "it has our folder: a folder must not be copied");
    else if (!is_zero(hello->cluster) && !is_zero(us->cluster) &&
             memcmp(hello->cluster, us->cluster, REPLICA_CLUSTER_LEN) != 0)
        (void)snprintf(why, size, "it belongs to another cluster");
    else if (link->kind == LINK_ASK)
        return NULL; /* who asks wants to know just that */
    else
        return events->contradicts(hello->from, hello->name, events->arg);
    return why;
}

static void take_hello(struct link *link, size_t len)
{
    const struct raft_links_options *us = &link->links->options;
    char room[ENGINE_WHY_MAX];
    struct hello hello;
    const char *why;

    if (link->greeted || !read_hello(link->frame, len, &hello)) {
        refuse(link, "it does not speak our protocol");
        return;
    }
    why = object(link, &hello, room, sizeof room);
    if (link->kind == LINK_IN)
        memcpy(link->name, hello.name, sizeof link->name);
    if (why) {
        refuse(link, why);
        return;
    }
    if (link->kind == LINK_IN && hello.to != 0 && !is_zero(hello.cluster) && is_zero(us->cluster) &&
        us->events.join(hello.cluster, us->events.arg) < 0) {
        refuse(link, "the folder cannot be written");
        return;
    }
    link->greeted = true;
    link->id = hello.from;
    memcpy(link->address, hello.address, sizeof link->address);
    loop_timer_stop(link->patience);
    if (link->kind == LINK_OUT) {
        ready_out(link);
    } else if (link->kind == LINK_ASK) {
        ready_ask(link);
    } else {
        send_hello(link);
        if (!link->ended && hello.to != 0)
            ready_in(link);
    }
}

/* ---- reading ---- */

static void take_numbers(struct link *link)
{
    const struct raft_links_events *events = &link->links->options.events;
    uint64_t number = get(link->frame, 8), value = get(link->frame + 8, 8);

    if (link->type == FRAME_CONFIRM && link->kind == LINK_IN) {
        link->answer = (struct confirmation){true, number, events->term(events->arg)};
        send_confirmations(link);
    } else if (link->type == FRAME_CONFIRMED && link->kind == LINK_OUT) {
        events->confirmed(link->id, number, value, events->arg);
    } else if (link->type == FRAME_TOLD && link->kind == LINK_OUT && value < 4096) {
        events->told(link->number, number, -(int)value, events->arg);
    } else {
        refuse(link, "it does not speak our protocol");
    }
}

static void take_frame(struct link *link, size_t len)
{
    const struct raft_links_events *events = &link->links->options.events;

    link->frame[len] = '\0';
    if (link->type == FRAME_HELLO) {
        take_hello(link, len);
    } else if (link->type == FRAME_REFUSED) {
        for (size_t i = 0; i < len; i++)
            if (link->frame[i] < ' ' || link->frame[i] > '~')
                link->frame[i] = '?';
        refuse_log(link, (const char *)link->frame);
    } else if (link->greeted && link->type == FRAME_TELL && link->kind == LINK_IN &&
               len >= NUMBER_LEN) {
        events->tell(link->number, link->id, get(link->frame, 8), link->frame + NUMBER_LEN,
                     len - NUMBER_LEN, events->arg);
    } else if (link->greeted && link->type == FRAME_HEAR && link->kind == LINK_IN) {
        events->hear(link->frame, len, events->arg);
    } else if (link->greeted && link->type == FRAME_PASS && link->kind == LINK_IN &&
               len >= NUMBER_LEN) {
        events->pass(link->number, get(link->frame, 8), link->frame + NUMBER_LEN, len - NUMBER_LEN,
                     events->arg);
    } else if (link->greeted && link->type == FRAME_PASSED && link->kind == LINK_OUT &&
               len >= NUMBER_LEN) {
        events->passed(link->number, get(link->frame, 8), link->frame + NUMBER_LEN,
                       len - NUMBER_LEN, events->arg);
    } else if (link->greeted && len == NUMBERS_MAX) {
        take_numbers(link);
    } else {
        refuse(link, "it does not speak our protocol");
    }
}

static void keep_data(struct raft_links *links, const uint8_t *data, size_t len)
{
    mem_must_grow(&links->in, &links->in_cap, links->in_len + len, 1);
    memcpy(links->in + links->in_len, data, len);
    links->in_len += len;
}

static void hand_over_data(struct link *link)
{
    int r = transport_write(link->pair, link->links->in, link->links->in_len);

    if (r < 0)
        end(link, err_text(r));
    else if (r == TRANSPORT_BLOCKED)
        transport_read(link->net, false);
}

/* The longest frame of the type that has been read. */
static size_t longest(const struct link *link)
{
    if (link->greeted && (link->type == FRAME_TELL || link->type == FRAME_HEAR))
        return RAFT_TELL_MAX;
    if (link->greeted && (link->type == FRAME_PASS || link->type == FRAME_PASSED))
        return RAFT_PASS_MAX;
    return FRAME_MAX;
}

static bool take_header(struct link *link)
{
    size_t len = (size_t)get(link->header, 4);

    link->type = (enum frame_type)link->header[4];
    link->frame_left = len;
    link->frame_at = 0;
    if (link->type == FRAME_DATA)
        return link->kind == LINK_IN && link->pair && len > 0;
    if (link->type < FRAME_HELLO || link->type > FRAME_PASSED || len == 0 || len > longest(link))
        return false;
    mem_must_grow(&link->frame, &link->frame_cap, len + 1, 1);
    return true;
}

/* One piece of what has come; how much of it was used. */
static size_t take_piece(struct link *link, const uint8_t *data, size_t len)
{
    size_t n;

    if (link->header_len < HEADER) {
        n = len < HEADER - link->header_len ? len : HEADER - link->header_len;
        memcpy(link->header + link->header_len, data, n);
        link->header_len += n;
        if (link->header_len == HEADER && !take_header(link))
            refuse(link, "it does not speak our protocol");
        return n;
    }
    n = len < link->frame_left ? len : link->frame_left;
    link->frame_left -= n;
    if (link->frame_left == 0)
        link->header_len = 0;
    if (link->type == FRAME_DATA) {
        keep_data(link->links, data, n);
        return n;
    }
    memcpy(link->frame + link->frame_at, data, n);
    link->frame_at += n;
    if (link->frame_left == 0)
        take_frame(link, link->frame_at);
    return n;
}

static void net_data(const uint8_t *data, size_t len, void *arg)
{
    struct link *link = arg;

    link->links->in_len = 0;
    while (len > 0 && !link->ended && !link->refused) {
        size_t n = take_piece(link, data, len);

        data += n;
        len -= n;
    }
    if (link->links->in_len > 0 && !link->ended)
        hand_over_data(link);
}

static void net_open(void *arg)
{
    struct link *link = arg;

    if (link->kind != LINK_IN)
        send_hello(link);
}

static void net_writable(void *arg)
{
    struct link *link = arg;

    link->blocked = false;
    send_confirmations(link);
    send_pending(link);
    if (!link->ended && !link->blocked && link->pair)
        transport_read(link->pair, true);
}

static void net_closed(int r, void *arg)
{
    end(arg, r == 0 ? "it closed the stream" : err_text(r));
}

static const struct transport_events net_events = {net_open, net_data, net_writable, net_closed};

/* ---- links ---- */

static void out_of_patience(void *arg)
{
    refuse_log(arg, "it does not answer");
}

static struct link *link_new(struct raft_links *links, enum link_kind kind)
{
    struct link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->links = links;
    link->kind = kind;
    link->number = ++links->last_number;
    buf_init(&link->pending, PENDING_MAX + HEADER);
    if (loop_timer_new(links->options.loop, out_of_patience, link, &link->patience) < 0) {
        free(link);
        return NULL;
    }
    loop_timer_start(link->patience, HELLO_MS, 0);
    LIST_INSERT_HEAD(&links->all, link, all);
    return link;
}

static void connect_link(struct link *link)
{
    const struct replica_links *replicas = &link->links->options.replicas;
    int r = replicas->connect(link->name, link->address, &net_events, link, &link->net,
                              replicas->arg);

    if (r < 0) {
        link->net = NULL;
        end(link, err_text(r));
    }
}

void raft_links_accept(struct raft_links *links, struct transport *transport)
{
    struct link *link = links->closing ? NULL : link_new(links, LINK_IN);

    if (!link) {
        transport_free(transport);
        return;
    }
    link->net = transport;
    transport->events = &net_events;
    transport->arg = link;
}

void raft_links_ask(struct raft_links *links, const char *name, const char *address,
                    raft_links_asked_fn done, void *arg)
{
    struct link *link = link_new(links, LINK_ASK);

    if (!link) {
        log_error(NULL, "no memory for a stream");
        abort();
    }
    (void)snprintf(link->name, sizeof link->name, "%s", name);
    (void)snprintf(link->address, sizeof link->address, "%s", address);
    link->asked = done;
    link->asked_arg = arg;
    connect_link(link);
}

static struct link *find(const struct raft_links *links, uint64_t id)
{
    struct link *link;

    LIST_FOREACH(link, &links->all, all)
    if (link->kind == LINK_OUT && link->id == id && link->greeted && !link->ended)
        return link;
    return NULL;
}

void raft_links_confirm(struct raft_links *links, uint64_t id, uint64_t number, uint64_t term)
{
    struct link *link = find(links, id);

    if (!link)
        return;
    link->question = (struct confirmation){true, number, term};
    send_confirmations(link);
}

uint64_t raft_links_tell(struct raft_links *links, uint64_t id, uint64_t number,
                         const uint8_t *bytes, size_t len)
{
    struct link *link = find(links, id);

    if (!link || len > RAFT_TELL_MAX - NUMBER_LEN)
        return 0;
    return send_parts(link, FRAME_TELL, &number, bytes, len) ? link->number : 0;
}

uint64_t raft_links_pass(struct raft_links *links, uint64_t id, uint64_t number,
                         const uint8_t *bytes, size_t len)
{
    struct link *link = find(links, id);

    if (!link || len > RAFT_PASS_MAX - NUMBER_LEN)
        return 0;
    return send_parts(link, FRAME_PASS, &number, bytes, len) ? link->number : 0;
}

void raft_links_passed(struct raft_links *links, uint64_t number, uint64_t passed,
                       const uint8_t *bytes, size_t len)
{
    struct link *link;

    LIST_FOREACH(link, &links->all, all)
    if (link->number == number && !link->ended && !link->refused) {
        /* The other one waits for it: without it the stream is of no use. */
        if (!send_parts(link, FRAME_PASSED, &passed, bytes, len))
            end(link, "it does not read");
        return;
    }
}

void raft_links_told(struct raft_links *links, uint64_t number, uint64_t told, int r)
{
    uint8_t value[NUMBER_LEN];
    struct link *link;

    put(value, (uint64_t)-r, sizeof value);
    LIST_FOREACH(link, &links->all, all)
    if (link->number == number && !link->ended && !link->refused)
        (void)send_parts(link, FRAME_TOLD, &told, value, sizeof value);
}

void raft_links_hear(struct raft_links *links, uint64_t except, const uint8_t *bytes, size_t len)
{
    struct link *link;

    LIST_FOREACH(link, &links->all, all)
    if (link->kind == LINK_OUT && link->greeted && !link->ended && link->id != except && len > 0 &&
        len <= RAFT_TELL_MAX)
        (void)send_parts(link, FRAME_HEAR, NULL, bytes, len);
}

bool raft_links_up(const struct raft_links *links, uint64_t id)
{
    return find(links, id) != NULL;
}

void raft_links_set_cluster(struct raft_links *links, const uint8_t *cluster)
{
    memcpy(links->options.cluster, cluster, REPLICA_CLUSTER_LEN);
}

/* ---- the library's transport ---- */

static int uv_links_init(struct raft_uv_transport *transport, raft_id id, const char *address)
{
    (void)transport, (void)id, (void)address;
    return 0;
}

static int uv_links_listen(struct raft_uv_transport *transport, raft_uv_accept_cb cb)
{
    ((struct raft_links *)transport->impl)->accept = cb;
    return 0;
}

static int uv_links_connect(struct raft_uv_transport *transport, struct raft_uv_connect *req,
                            raft_id id, const char *address, raft_uv_connect_cb cb)
{
    struct raft_links *links = transport->impl;
    struct link *link = link_new(links, LINK_OUT);

    if (!link)
        return RAFT_NOMEM;
    link->id = id;
    link->connect = req;
    link->connected = cb;
    if (!raft_address_split(address, link->name, link->address))
        end(link, "its address is not of the form NAME@HOST:PORT");
    else
        connect_link(link);
    return 0;
}

static void uv_links_close(struct raft_uv_transport *transport, raft_uv_transport_close_cb cb)
{
    struct raft_links *links = transport->impl;
    struct link *link;

    links->closing = true;
    links->closed = cb;
    LIST_FOREACH(link, &links->all, all)
    end(link, "leased stops");
    loop_soon_start(links->soon);
}

int raft_links_new(const struct raft_links_options *options, struct raft_links **ret)
{
    struct raft_links *links = calloc(1, sizeof *links);

    if (!links)
        return -ENOMEM;
    links->options = *options;
    links->refusals = (struct log_limit){.interval_ms = 10000, .burst = 6};
    links->transport = (struct raft_uv_transport){
        .version = 1,
        .impl = links,
        .init = uv_links_init,
        .listen = uv_links_listen,
        .connect = uv_links_connect,
        .close = uv_links_close,
    };
    LIST_INIT(&links->all);
    if (loop_soon_new(options->loop, sweep, links, &links->soon) < 0) {
        free(links);
        return -ENOMEM;
    }
    *ret = links;
    return 0;
}

void raft_links_free(struct raft_links *links)
{
    struct link *link;

    if (!links)
        return;
    links->closing = true;
    while ((link = LIST_FIRST(&links->all))) {
        end(link, "leased stops");
        link_free(link);
    }
    loop_soon_free(links->soon);
    free(links->in);
    free(links);
}

struct raft_uv_transport *raft_links_transport(struct raft_links *links)
{
    return &links->transport;
}
