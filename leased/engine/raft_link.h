/* Streams between replicas: hello, frames, and the library's bytes between them.
 *
 * The library wants a libuv stream of its own for each direction and writes to it raw. It gets one end of a socket pair; we
 * hold the other and carry its bytes in frames over the private stream (TLS in leased), so that what replicas say besides
 * fits in between.
 *
 *   frame: length of what follows the header, u32; type, u8; 0, three bytes; then
 *     HELLO      "XCER", u32 version 1; u64 from; u64 to (0: whoever you are); 16 bytes of the cluster; u8 length, name;
 *                u8 length, address         each side's first frame
 *     REFUSED    a sentence; the end
 *     DATA       bytes of the library; from the one who connected
 *     CONFIRM    u64 number, u64 term       do you know of no newer term?
 *     CONFIRMED  u64 number, u64 the term that the answerer knows
 *     TELL       u64 number, bytes: to the leader, for everybody
 *     TOLD       u64 number, u64 an errno: 0, it was heard by a leader that still leads
 *     HEAR       bytes: from the leader, what somebody tells
 *     PASS       u64 number, bytes: a PassRequest, to the leader
 *     PASSED     u64 number, bytes: its PassReply
 *   all little endian
 *
 * The one who connects checks that the other is the replica it means: certificate for the name, folder for the id. The other
 * checks the certificate for the name that is claimed, and the members' list for name and id together (raft_list.h). */
#ifndef XCE_LEASED_ENGINE_RAFT_LINK_H
#define XCE_LEASED_ENGINE_RAFT_LINK_H

#include <raft/uv.h>
#include <stdbool.h>
#include <stdint.h>

#include "leased/engine/replica.h"

struct loop;
struct raft_links;

/* What links need of the replica; all on the loop's thread. */
struct raft_links_events {
    /* Whether the members' list contradicts that this name has this folder: a sentence, or NULL. */
    const char *(*contradicts)(uint64_t id, const char *name, void *arg);
    /* Whether a member has this folder, as far as we know. */
    bool (*is_member)(uint64_t id, void *arg);
    /* A peer belongs to this cluster and we do not know ours yet: keep it. 0; -errno refuses the peer. */
    int (*join)(const uint8_t *cluster, void *arg);
    uint64_t (*term)(void *arg);
    void (*confirmed)(uint64_t id, uint64_t number, uint64_t term, void *arg);
    /* link: the stream, as a number. */
    void (*tell)(uint64_t link, uint64_t id, uint64_t number, const uint8_t *bytes, size_t len,
                 void *arg);
    void (*told)(uint64_t link, uint64_t number, int r, void *arg);
    void (*hear)(const uint8_t *bytes, size_t len, void *arg);
    /* A request of another, and the answer to one of ours. */
    void (*pass)(uint64_t link, uint64_t number, const uint8_t *bytes, size_t len, void *arg);
    void (*passed)(uint64_t link, uint64_t number, const uint8_t *bytes, size_t len, void *arg);
    void (*ended)(uint64_t link, void *arg); /* a stream of ours; no answer comes on it */
    void *arg;
};

struct raft_links_options {
    struct loop *loop;
    struct replica_links replicas;
    struct raft_links_events events;
    uint64_t id;
    const char *name, *address; /* borrowed */
    uint8_t cluster[REPLICA_CLUSTER_LEN];
};

/* 0; -ENOMEM. */
int raft_links_new(const struct raft_links_options *options, struct raft_links **ret);
/* After the transport has been closed. */
void raft_links_free(struct raft_links *links);

/* For raft_uv_init. */
struct raft_uv_transport *raft_links_transport(struct raft_links *links);

void raft_links_set_cluster(struct raft_links *links, const uint8_t *cluster);
/* Take in a stream that another has opened. */
void raft_links_accept(struct raft_links *links, struct transport *transport);
/* Ask the replica for its term, now or as soon as what is on its way has gone. Not sent without a stream: ask again. */
void raft_links_confirm(struct raft_links *links, uint64_t id, uint64_t number, uint64_t term);
#define RAFT_TELL_MAX ((size_t)1 << 20)
/* Send TELL to the replica; the number of the stream that the answer comes on, 0 = there is none. */
uint64_t raft_links_tell(struct raft_links *links, uint64_t id, uint64_t number,
                         const uint8_t *bytes, size_t len);
/* Answer on that stream, if it is still there. r: 0 or -errno. */
void raft_links_told(struct raft_links *links, uint64_t link, uint64_t number, int r);
/* Send HEAR to all that are within reach, except that one. */
void raft_links_hear(struct raft_links *links, uint64_t except, const uint8_t *bytes, size_t len);
#define RAFT_PASS_MAX ((size_t)5 << 20)
/* Send PASS to the replica; the number of the stream that the answer comes on, 0 = it is not sent. */
uint64_t raft_links_pass(struct raft_links *links, uint64_t id, uint64_t number,
                         const uint8_t *bytes, size_t len);
/* Send PASSED on that stream, if it is still there. */
void raft_links_passed(struct raft_links *links, uint64_t link, uint64_t number,
                       const uint8_t *bytes, size_t len);
/* Whether a stream to it is open. */
bool raft_links_up(const struct raft_links *links, uint64_t id);

/* Who lives at address? r: 0 and its id; -EHOSTUNREACH, -ECANCELED; why says. Runs once, never inside the call. */
typedef void (*raft_links_asked_fn)(int r, uint64_t id, const char *why, void *arg);
void raft_links_ask(struct raft_links *links, const char *name, const char *address,
                    raft_links_asked_fn done, void *arg);

/* "NAME@ADDRESS", as it stands in the members' list. false: not of that form. */
bool raft_address_split(const char *text, char name[static REPLICA_NAME_MAX + 1],
                        char address[static REPLICA_ADDRESS_MAX + 1]);

#endif
