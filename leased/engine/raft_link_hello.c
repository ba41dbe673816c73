#include "leased/engine/raft_link_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/le.h"

#define VERSION      1u
#define PREAMBLE_LEN 40u

void raft_link_send_hello(struct link *link)
{
    const struct raft_links_options *us = &link->links->options;
    size_t name_len = strlen(us->name), address_len = strlen(us->address);
    uint8_t frame[FRAME_HEADER_LEN + PREAMBLE_LEN + 2 + REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX];
    uint8_t *at = frame + FRAME_HEADER_LEN;

    memcpy(at, "XCER", 4);
    le_put_u32(at + 4, VERSION);
    le_put_u64(at + 8, us->id);
    le_put_u64(at + 16, link->kind == LINK_OUT ? link->id : 0);
    memcpy(at + 24, us->cluster, REPLICA_CLUSTER_LEN);
    at += PREAMBLE_LEN;
    *at++ = (uint8_t)name_len;
    memcpy(at, us->name, name_len);
    at += name_len;
    *at++ = (uint8_t)address_len;
    memcpy(at, us->address, address_len);
    at += address_len;
    raft_link_begin_frame(frame, FRAME_HELLO, (size_t)(at - frame) - FRAME_HEADER_LEN);
    raft_link_write(link, frame, (size_t)(at - frame));
}

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

    if (len < PREAMBLE_LEN || memcmp(bytes, "XCER", 4) != 0 || le_get_u32(bytes + 4) != VERSION)
        return false;
    ret->from = le_get_u64(bytes + 8);
    ret->to = le_get_u64(bytes + 16);
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

void raft_link_take_hello(struct link *link, size_t len)
{
    const struct raft_links_options *us = &link->links->options;
    char room[ENGINE_WHY_MAX];
    struct hello hello;
    const char *why;

    if (link->greeted || !read_hello(link->frame, len, &hello)) {
        raft_link_refuse(link, NOT_OUR_PROTOCOL);
        return;
    }
    why = object(link, &hello, room, sizeof room);
    link->outdated = link->kind == LINK_IN && hello.to != 0 && hello.to != us->id &&
                     us->events.is_member(us->id, us->events.arg);
    if (link->kind == LINK_IN)
        memcpy(link->name, hello.name, sizeof link->name);
    if (why) {
        raft_link_refuse(link, why);
        return;
    }
    if (link->kind == LINK_IN && hello.to != 0 && !is_zero(hello.cluster) && is_zero(us->cluster) &&
        us->events.join(hello.cluster, us->events.arg) < 0) {
        raft_link_refuse(link, "the folder cannot be written");
        return;
    }
    link->greeted = true;
    link->id = hello.from;
    memcpy(link->address, hello.address, sizeof link->address);
    loop_timer_stop(link->patience);
    if (link->kind == LINK_OUT) {
        raft_link_ready_out(link);
    } else if (link->kind == LINK_ASK) {
        raft_link_ready_ask(link);
    } else {
        raft_link_send_hello(link);
        if (!link->ended && hello.to != 0)
            raft_link_ready_in(link);
    }
}
