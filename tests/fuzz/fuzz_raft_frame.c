/* What comes on a stream between replicas, from one whose certificate is good. The first byte: bits 0 and 1 = who connected (0
 * it did, 1 we for the library, 2 we to learn its id), bit 2 = a good hello comes before the rest, bit 3 = the stream takes
 * what we write only at the next round, the others into what pieces the rest is cut. Nothing is told of before the hello, no
 * piece is larger than it may be, all that was opened is closed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/net/loop.h"
#include "common/net/transport.h"
#include "leased/engine/raft_link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUR_ID  11u
#define ITS_ID  7u
#define ROUNDS  50
#define GREETED 8u /* bytes of a frame's header */

struct wire {
    struct transport base;
    bool reading, blocked, slow, shut, freed;
};

struct run {
    struct wire wire;
    struct raft_links *links;
    struct raft_uv_connect connect;
    struct uv_stream_s *stream; /* the library's */
    unsigned streams_open;
    bool known; /* a hello was taken */
    bool answered, asks;
};

static struct loop *loop;
static struct run run;

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* ---- the stream ---- */

static int wire_write(struct transport *transport, const uint8_t *data, size_t len)
{
    struct wire *wire = (struct wire *)transport;

    (void)data;
    must(!wire->freed && !wire->blocked && !wire->shut && len > 0);
    wire->blocked = wire->slow;
    return wire->blocked ? TRANSPORT_BLOCKED : 0;
}

static void wire_read(struct transport *transport, bool on)
{
    ((struct wire *)transport)->reading = on;
}

static void wire_shutdown(struct transport *transport)
{
    ((struct wire *)transport)->shut = true;
}

static void wire_free(struct transport *transport)
{
    struct wire *wire = (struct wire *)transport;

    must(!wire->freed);
    wire->freed = true;
}

static int begin(const char *name, const char *address, const struct transport_events *events,
                 void *events_arg, struct transport **ret, void *arg)
{
    (void)name, (void)address, (void)arg;
    run.wire.base.events = events;
    run.wire.base.arg = events_arg;
    *ret = &run.wire.base;
    return 0;
}

static bool proves(const struct transport *transport, const char *name, void *arg)
{
    (void)arg;
    must(transport == &run.wire.base && strlen(name) <= REPLICA_NAME_MAX);
    return strcmp(name, "r7") == 0;
}

/* ---- what links tell of ---- */

static const char *contradicts(uint64_t id, const char *name, void *arg)
{
    (void)arg;
    must(id != 0 && id != OUR_ID && strcmp(name, "r7") == 0);
    run.known = true;
    return NULL;
}

static bool is_member(uint64_t id, void *arg)
{
    (void)arg;
    return id == OUR_ID;
}

static int join(const uint8_t *cluster, void *arg)
{
    (void)cluster, (void)arg;
    return 0;
}

static uint64_t term(void *arg)
{
    (void)arg;
    return 5;
}

static void confirmed(uint64_t id, uint64_t number, uint64_t its_term, void *arg)
{
    (void)number, (void)its_term, (void)arg;
    must(run.known && id == ITS_ID);
}

static void told_of(uint64_t link, uint64_t number, const uint8_t *bytes, size_t len, size_t max)
{
    (void)number;
    must(run.known && link != 0 && len <= max);
    /* All of it can be read. */
    must(len == 0 || memchr(bytes, bytes[len - 1], len) != NULL);
}

static void tell(uint64_t link, uint64_t id, uint64_t number, const uint8_t *bytes, size_t len,
                 void *arg)
{
    (void)id, (void)arg;
    told_of(link, number, bytes, len, RAFT_TELL_MAX);
    raft_links_told(run.links, link, number, 0);
}

static void told(uint64_t link, uint64_t number, int r, void *arg)
{
    (void)link, (void)number, (void)arg;
    must(run.known && r <= 0 && r > -4096);
}

static void hear(const uint8_t *bytes, size_t len, void *arg)
{
    (void)arg;
    told_of(1, 0, bytes, len, RAFT_TELL_MAX);
}

static void pass(uint64_t link, uint64_t number, const uint8_t *bytes, size_t len, void *arg)
{
    (void)arg;
    told_of(link, number, bytes, len, RAFT_PASS_MAX);
    raft_links_passed(run.links, link, number, bytes, len);
}

static void passed(uint64_t link, uint64_t number, const uint8_t *bytes, size_t len, void *arg)
{
    (void)arg;
    told_of(link, number, bytes, len, RAFT_PASS_MAX);
}

static void ended(uint64_t link, void *arg)
{
    (void)arg;
    must(link != 0);
}

/* ---- the library ---- */

static void take_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char room[65536];

    (void)handle, (void)suggested;
    *ret = uv_buf_init(room, sizeof room);
}

static void took(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    if (n < 0)
        (void)uv_read_stop(stream);
}

static void take_stream(struct uv_stream_s *stream)
{
    must(run.known && !run.stream);
    run.stream = stream;
    must(uv_read_start(stream, take_room, took) == 0);
}

static void accepted(struct raft_uv_transport *transport, raft_id id, const char *address,
                     struct uv_stream_s *stream)
{
    (void)transport;
    must(id == ITS_ID || id != 0);
    must(strncmp(address, "r7@", 3) == 0);
    take_stream(stream);
}

static void connected(struct raft_uv_connect *req, struct uv_stream_s *stream, int status)
{
    must(req == &run.connect && !run.answered && (status == 0) == (stream != NULL));
    run.answered = true;
    if (stream)
        take_stream(stream);
}

static void has_asked(int r, uint64_t id, const char *why, void *arg)
{
    (void)why, (void)arg;
    must(!run.answered && (r < 0 || id != 0));
    run.answered = true;
}

/* ---- one run ---- */

static void begin_run(unsigned who, bool slow)
{
    static const struct transport_ops ops = {wire_write, wire_read, wire_shutdown, wire_free};
    struct raft_links_options options = {
        .loop = loop,
        .replicas = {begin, proves, NULL},
        .events = {contradicts, is_member, join, term, confirmed, tell, told, hear, pass, passed,
                   ended, NULL},
        .id = OUR_ID,
        .name = "r11",
        .address = "h11:7623",
        .cluster = {1},
    };

    run = (struct run){.wire = {.base = {.ops = &ops}, .reading = true, .slow = slow}};
    must(raft_links_new(&options, &run.links) == 0);
    must(raft_links_transport(run.links)->listen(raft_links_transport(run.links), accepted) == 0);
    run.asks = who != 0;
    if (who == 0)
        raft_links_accept(run.links, &run.wire.base);
    else if (who == 1)
        must(raft_links_transport(run.links)->connect(raft_links_transport(run.links), &run.connect,
                                                      ITS_ID, "r7@h7:7623", connected) == 0);
    else
        raft_links_ask(run.links, "r7", "h7:7623", has_asked, NULL);
    run.wire.base.events->open(run.wire.base.arg);
}

/* Until bytes are taken again, or nothing moves any more. */
static void settle(void)
{
    for (int i = 0; i < ROUNDS && !run.wire.freed && (!run.wire.reading || run.wire.blocked); i++) {
        if (run.wire.blocked) {
            run.wire.blocked = false;
            run.wire.base.events->writable(run.wire.base.arg);
        }
        loop_step(loop, 0);
    }
}

static void feed(const uint8_t *data, size_t len, size_t piece)
{
    while (len > 0 && !run.wire.freed) {
        size_t n = len < piece ? len : piece;

        settle();
        if (run.wire.freed || !run.wire.reading)
            return;
        run.wire.base.events->data(data, n, run.wire.base.arg);
        data += n;
        len -= n;
        loop_step(loop, 0);
    }
}

static void feed_hello(unsigned who)
{
    static const uint8_t tail[] = "\2r7\7h7:7623";
    uint8_t hello[GREETED + 40 + sizeof tail - 1] = {40 + sizeof tail - 1, 0, 0, 0, 1};
    uint8_t *at = hello + GREETED;

    memcpy(at, "XCER\1\0\0\0", 8);
    at[8] = ITS_ID;
    at[16] = who == 0 ? OUR_ID : 0;
    at[24] = 1;
    memcpy(at + 40, tail, sizeof tail - 1);
    feed(hello, sizeof hello, sizeof hello);
}

static void end_run(void)
{
    if (!run.wire.freed && !run.wire.shut)
        run.wire.base.events->closed(0, run.wire.base.arg);
    loop_step(loop, 0);
    raft_links_free(run.links);
    must(run.wire.freed);
    if (run.stream)
        uv_close((struct uv_handle_s *)run.stream, (uv_close_cb)raft_free);
    for (int i = 0; i < 3; i++)
        loop_step(loop, 0);
    must(!run.asks || run.answered);
}

static void end_loop(void)
{
    loop_free(loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned who;

    if (!loop) {
        must(loop_new(&loop) == 0);
        (void)atexit(end_loop);
        log_set_level(LOG_ERR);
    }
    if (size < 1)
        return 0;
    who = (data[0] & 3) % 3;
    begin_run(who, data[0] & 8);
    if (data[0] & 4)
        feed_hello(who);
    feed(data + 1, size - 1, data[0] >> 4 ? (size_t)(data[0] >> 4) * 3 : 60000);
    end_run();
    return 0;
}
