/* What replicas tell each other beside the log. Somebody who does not lead tells the leader, who hands it on to the others,
 * makes sure that it still leads, and answers. */
#include <errno.h>
#include <stdlib.h>

#include "common/mem.h"
#include "leased/engine/raft_inner.h"

/* Told to the leader, not answered yet. */
struct telling {
    LIST_ENTRY(telling) all;
    uint64_t leader, link, number;
    engine_ready_fn done;
    void *arg;
};

/* Told to us by another one, who waits. */
struct hearing {
    struct replica *replica;
    uint64_t link, number;
};

static void answer(struct replica *replica, struct telling *telling, int r)
{
    LIST_REMOVE(telling, all);
    engine_later_ready(&replica->engine, r, telling->done, telling->arg);
    free(telling);
}

void raft_tell(struct replica *replica, const uint8_t *bytes, size_t len, engine_ready_fn done,
               void *arg)
{
    struct telling *telling;
    const char *address;
    raft_id leader = 0;
    uint64_t link;

    engine_later_told(&replica->engine, 0, bytes, len, NULL, NULL);
    if (replica->engine.leading) {
        raft_links_hear(replica->links, 0, bytes, len);
        if (done)
            raft_read_ask(replica, done, arg);
        return;
    }
    raft_leader(&replica->raft, &leader, &address);
    link = leader ? raft_links_tell(replica->links, leader, ++replica->last_telling, bytes, len)
                  : 0;
    if (!done)
        return;
    if (!link) {
        engine_later_ready(&replica->engine, -EAGAIN, done, arg);
        return;
    }
    telling = mem_must_calloc(1, sizeof *telling);
    *telling = (struct telling){
        .leader = leader, .link = link, .number = replica->last_telling, .done = done, .arg = arg};
    LIST_INSERT_HEAD(&replica->tellings, telling, all);
}

void raft_tell_answered(struct replica *replica, uint64_t link, uint64_t number, int r)
{
    struct telling *telling;

    LIST_FOREACH(telling, &replica->tellings, all)
    if (telling->link == link && telling->number == number) {
        answer(replica, telling, r);
        return;
    }
}

void raft_tell_ended(struct replica *replica, uint64_t link, int r)
{
    struct telling *telling, *next;

    for (telling = LIST_FIRST(&replica->tellings); telling; telling = next) {
        next = LIST_NEXT(telling, all);
        if (!link || telling->link == link)
            answer(replica, telling, r);
    }
}

/* A leader that is none any more may never answer: behind a cut, streams stay open for long. */
void raft_tell_tick(struct replica *replica)
{
    struct telling *telling, *next;
    const char *address;
    raft_id leader = 0;

    raft_leader(&replica->raft, &leader, &address);
    for (telling = LIST_FIRST(&replica->tellings); telling; telling = next) {
        next = LIST_NEXT(telling, all);
        if (telling->leader != leader)
            answer(replica, telling, -EAGAIN);
    }
}

static void confirmed(int r, void *arg)
{
    struct hearing *hearing = arg;

    raft_links_told(hearing->replica->links, hearing->link, hearing->number, r);
    free(hearing);
}

void raft_tell_taken(struct replica *replica, uint64_t link, uint64_t id, uint64_t number,
                     const uint8_t *bytes, size_t len)
{
    struct hearing *hearing;

    if (!replica->engine.leading) {
        raft_links_told(replica->links, link, number, -EAGAIN);
        return;
    }
    engine_later_told(&replica->engine, 0, bytes, len, NULL, NULL);
    raft_links_hear(replica->links, id, bytes, len);
    hearing = mem_must_calloc(1, sizeof *hearing);
    *hearing = (struct hearing){replica, link, number};
    raft_read_ask(replica, confirmed, hearing);
}
