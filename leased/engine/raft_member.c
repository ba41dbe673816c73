/* Who belongs to the cluster, and who leads it. One change at a time: C-Raft allows no more, and a majority of every list
 * overlaps with one of the next only then. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/net/loop.h"
#include "leased/engine/raft_ask.h"
#include "leased/engine/raft_inner.h"
#include "leased/engine/raft_list.h"

#define STEP_DOWN_MS 1000

enum change_kind {
    CHANGE_ASK = 1, /* for its id */
    CHANGE_ADD,
    CHANGE_PROMOTE,
    CHANGE_REMOVE,
};

struct member_change {
    struct raft_change req;
    struct replica *replica; /* NULL: answered; the library still has req */
    enum change_kind kind;
    uint64_t id;
    char name[REPLICA_NAME_MAX + 1];
    char address[REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX + 2];
    replica_done_fn done;
    void *arg;
};

/* An answer for the next round. */
struct answer {
    int r;
    char why[ENGINE_WHY_MAX];
    replica_done_fn done;
    void *arg;
};

static void tell(int r, void *arg)
{
    struct answer *answer = arg;

    (void)r;
    answer->done(answer->r, answer->why, answer->arg);
    free(answer);
}

void raft_member_answer(struct replica *replica, int r, const char *why, replica_done_fn done,
                        void *arg)
{
    struct answer *answer = mem_must_calloc(1, sizeof *answer);

    answer->r = r;
    (void)snprintf(answer->why, sizeof answer->why, "%s", why);
    answer->done = done;
    answer->arg = arg;
    engine_later_ready(&replica->engine, 0, tell, answer);
}

/* ---- the list ---- */

const char *raft_member_contradicts(struct replica *replica, uint64_t id, const char *name)
{
    const struct raft *raft = &replica->raft;
    const struct raft_server *server = raft_list_contradicts(
        &raft->configuration, !raft_guard_hears(&replica->disk.guard, raft), id, name);
    char theirs[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];

    if (!server)
        return NULL;
    (void)raft_address_split(server->address, theirs, address);
    (void)snprintf(replica->contradiction, sizeof replica->contradiction,
                   strcmp(theirs, name) == 0
                       ? "member %s has folder %016llx, not %016" PRIx64
                         ": it was wiped; leasectl cluster remove %s, then add it again"
                       : "member %s has folder %016llx (%016" PRIx64 ", %s)",
                   theirs, server->id, id, name);
    return replica->contradiction;
}

void raft_member_status(const struct replica *replica, struct replica_status *ret)
{
    struct raft *raft = (struct raft *)&replica->raft;
    const struct raft_configuration *members = &raft->configuration;
    const char *address;
    raft_id leader;

    raft_leader(raft, &leader, &address);
    *ret = (struct replica_status){
        .id = replica->identity.id,
        .term = raft_current_term(raft),
        .last_entry = raft_last_index(raft),
        .applied = raft_last_applied(raft),
        .snapshot_entry = replica->disk.snapshot_entry,
        .begun = members->n > 0,
        .leader = leader,
    };
    memcpy(ret->cluster, replica->identity.cluster, sizeof ret->cluster);
    for (unsigned i = 0; i < members->n && i < REPLICA_MEMBERS_MAX; i++) {
        const struct raft_server *server = &members->servers[i];
        struct replica_member *member = &ret->members[ret->n_members++];
        raft_index match = 0;

        member->id = server->id;
        (void)raft_address_split(server->address, member->name, member->address);
        member->role = server->role == RAFT_VOTER ? REPLICA_VOTER : REPLICA_LEARNER;
        member->leads = server->id == leader;
        member->up = server->id == replica->identity.id ||
                     raft_links_up(replica->links, server->id);
        /* The library is a leader still when it has been closed, but knows of nobody any more. */
        if (raft_state(raft) == RAFT_LEADER && !replica->closing &&
            raft_match_index(raft, server->id, &match) == 0)
            member->last_entry = match;
    }
}

/* ---- changes ---- */

static void end_change(struct member_change *change, int r, const char *why)
{
    struct replica *replica = change->replica;

    replica->change = NULL;
    raft_member_answer(replica, r, why, change->done, change->arg);
    free(change);
}

static const char *change_text(int rv)
{
    switch (rv) {
    case RAFT_LEADERSHIPLOST:
        return "leadership was lost meanwhile: ask again";
    case RAFT_NOCONNECTION:
        return "it did not catch up";
    case RAFT_CANTCHANGE:
        return "another change of the members is under way";
    case RAFT_NOTLEADER:
        return "this replica does not lead";
    default:
        return raft_strerror(rv);
    }
}

static int change_errno(int rv)
{
    switch (rv) {
    case RAFT_LEADERSHIPLOST:
        return -ECONNABORTED;
    case RAFT_NOCONNECTION:
        return -ETIMEDOUT;
    case RAFT_CANTCHANGE:
        return -EBUSY;
    case RAFT_NOTLEADER:
        return -EAGAIN;
    case RAFT_NOSPACE:
        return -ENOSPC;
    default:
        return -EIO;
    }
}

static void promote(struct member_change *change);

static void changed(struct raft_change *req, int status)
{
    struct member_change *change = CONTAINER_OF(req, struct member_change, req);

    if (!change->replica)
        free(change);
    else if (status != 0)
        end_change(change, change_errno(status), change_text(status));
    else if (change->kind == CHANGE_ADD)
        promote(change);
    else
        end_change(change, 0, "");
}

static void submitted(struct member_change *change, int rv)
{
    if (rv != 0)
        end_change(change, change_errno(rv), change_text(rv));
}

static void promote(struct member_change *change)
{
    change->kind = CHANGE_PROMOTE;
    submitted(change,
              raft_guard_promote(&change->replica->raft, &change->req, change->id, changed));
}

static bool is_up(raft_id id, void *arg)
{
    return raft_links_up(((const struct replica *)arg)->links, id);
}

static struct raft_list list_of(struct replica *replica)
{
    return (struct raft_list){&replica->raft.configuration, replica->identity.id, is_up, replica};
}

/* No change of the list gives a member another address: it is not as if there were nothing to do. */
static bool is_elsewhere(const struct member_change *change, char why[static ENGINE_WHY_MAX])
{
    const struct raft_server *server = raft_list_find(&change->replica->raft.configuration,
                                                      change->name);
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];

    if (!server || server->id != change->id || strcmp(server->address, change->address) == 0 ||
        !raft_address_split(server->address, name, address))
        return false;
    (void)snprintf(why, ENGINE_WHY_MAX,
                   "%s is a member at %s: to move it, remove it, then add it with an empty state",
                   name, address);
    return true;
}

static void asked(int r, uint64_t id, const char *why, void *arg)
{
    struct member_change *change = arg;
    struct replica *replica = change->replica;
    char text[ENGINE_WHY_MAX];

    if (!replica) {
        free(change);
        return;
    }
    /* Who leads anew changes nothing before its first entry is agreed on (Raft's single-server changes rest on that). */
    if (!replica->engine.leading) {
        end_change(change, -EAGAIN, "leadership was lost meanwhile: ask again");
        return;
    }
    if (r < 0) {
        (void)snprintf(text, sizeof text,
                       "%s: %s; to be added it has to run with Engine = raft and a folder without "
                       "engine.db",
                       change->address, why);
        end_change(change, r, text);
        return;
    }
    change->id = id;
    if (is_elsewhere(change, text)) {
        end_change(change, -EEXIST, text);
        return;
    }
    switch (raft_list_next(&replica->raft.configuration, id, change->name)) {
    case RAFT_LIST_OTHER:
        end_change(change, -EEXIST,
                   "it is a member with another folder: it was wiped; remove it first");
        break;
    case RAFT_LIST_DONE:
        end_change(change, 0, "");
        break;
    case RAFT_LIST_PROMOTE:
        promote(change);
        break;
    case RAFT_LIST_ADD:
        change->kind = CHANGE_ADD;
        submitted(change, raft_add(&replica->raft, &change->req, id, change->address, changed));
        break;
    }
}

/* Who is to be asked instead, as far as we know. */
static const char *not_leading(const struct replica *replica, char why[static ENGINE_WHY_MAX])
{
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
    const char *text;
    raft_id leader;

    raft_leader((struct raft *)&replica->raft, &leader, &text);
    if (leader != 0 && leader != replica->identity.id && raft_address_split(text, name, address))
        (void)snprintf(why, ENGINE_WHY_MAX, "%s leads: ask there (--server %s)", name, address);
    else
        (void)snprintf(why, ENGINE_WHY_MAX, "nobody leads now: ask again");
    return why;
}

/* Another one that leads has been asked instead. */
static bool passed_on(struct replica *replica, Xce__V1__MemberChangeKind kind, const char *name,
                      const char *address, replica_done_fn done, void *arg)
{
    return !replica->closing && !replica->ruling &&
           raft_ask(replica, kind, name, address, done, arg);
}

static struct member_change *change_new(struct replica *replica, enum change_kind kind,
                                        const char *name, replica_done_fn done, void *arg)
{
    struct member_change *change;
    char room[ENGINE_WHY_MAX];
    const char *why = NULL;
    int r = 0;

    if (replica->closing || !replica->engine.leading) {
        r = replica->closing ? -ECANCELED : -EAGAIN;
        why = not_leading(replica, room);
    } else if (replica->change) {
        r = -EBUSY;
        why = "another change of the members is under way";
    }
    if (r < 0) {
        raft_member_answer(replica, r, why, done, arg);
        return NULL;
    }
    change = mem_must_calloc(1, sizeof *change);
    change->replica = replica;
    change->kind = kind;
    (void)snprintf(change->name, sizeof change->name, "%s", name);
    change->done = done;
    change->arg = arg;
    replica->change = change;
    return change;
}

void replica_add(struct engine *engine, const char *name, const char *address, replica_done_fn done,
                 void *arg)
{
    struct replica *replica = replica_of(engine);
    const struct raft_list list = list_of(replica);
    struct member_change *change;
    const char *why;
    int r;

    if (passed_on(replica, XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_ADD, name, address, done,
                  arg))
        return;
    change = change_new(replica, CHANGE_ASK, name, done, arg);
    if (!change)
        return;
    (void)snprintf(change->address, sizeof change->address, "%s@%s", name, address);
    why = raft_list_may_add(&list, name, &r);
    if (why)
        end_change(change, r, why);
    else
        raft_links_ask(replica->links, name, address, asked, change);
}

void replica_remove(struct engine *engine, const char *name, replica_done_fn done, void *arg)
{
    struct replica *replica = replica_of(engine);
    const struct raft_list list = list_of(replica);
    const struct raft_server *server;
    struct member_change *change;
    const char *why;
    int r;

    if (passed_on(replica, XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_REMOVE, name, NULL, done,
                  arg))
        return;
    change = change_new(replica, CHANGE_REMOVE, name, done, arg);
    if (!change)
        return;
    why = raft_list_may_remove(&list, name, &server, &r);
    if (why)
        end_change(change, r, why);
    else
        submitted(change, raft_remove(&replica->raft, &change->req, server->id, changed));
}

/* ---- transfer ---- */

static void transferred(struct raft_transfer *req)
{
    struct replica *replica = req->data;
    replica_done_fn done = replica->transferred;
    const char *address;
    raft_id leader;
    bool ok;

    raft_leader(&replica->raft, &leader, &address);
    ok = leader != 0 && leader != replica->identity.id &&
         (replica->transfer_to == 0 || leader == replica->transfer_to);
    replica->transferring = false;
    replica->transferred = NULL;
    if (done && !replica->closing)
        raft_member_answer(replica, ok ? 0 : -ETIMEDOUT, ok ? "" : "it did not take over in time",
                           done, replica->transferred_arg);
    engine_flush_soon(&replica->engine);
}

static int begin_transfer(struct replica *replica, uint64_t id)
{
    int rv;

    replica->transfer.data = replica;
    replica->transfer_to = id;
    replica->transferring = true;
    rv = raft_transfer(&replica->raft, &replica->transfer, id, transferred);
    if (rv != 0)
        replica->transferring = false;
    return rv;
}

bool raft_member_step_down(struct replica *replica)
{
    int64_t now = loop_now_fresh_ms();

    if (replica->transferring || now - replica->stepped_down_ms < STEP_DOWN_MS)
        return false;
    replica->stepped_down_ms = now;
    return begin_transfer(replica, 0) == 0;
}

void replica_transfer(struct engine *engine, const char *name, replica_done_fn done, void *arg)
{
    struct replica *replica = replica_of(engine);
    const struct raft_server *server = name ? raft_list_find(&replica->raft.configuration, name)
                                            : NULL;
    char room[ENGINE_WHY_MAX];
    const char *why = NULL;
    int r = 0;

    if (passed_on(replica, XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_TRANSFER, name, NULL, done,
                  arg))
        return;
    if (replica->closing || !replica->ruling) {
        r = replica->closing ? -ECANCELED : -EAGAIN;
        why = not_leading(replica, room);
    } else if (replica->transferring) {
        r = -EBUSY;
        why = "it is being handed over already";
    } else if (name && (!server || server->role != RAFT_VOTER)) {
        r = -ENOENT;
        why = "no voting member has this name";
    } else if (server && server->id == replica->identity.id) {
        raft_member_answer(replica, 0, "", done, arg);
        return;
    } else if (begin_transfer(replica, server ? server->id : 0) != 0) {
        r = -EBUSY;
        why = "there is nobody to hand over to";
    }
    if (r < 0) {
        raft_member_answer(replica, r, why, done, arg);
        return;
    }
    replica->transferred = done;
    replica->transferred_arg = arg;
}

/* ---- the end ---- */

void raft_member_lost(struct replica *replica, int r)
{
    struct member_change *change = mem_take(replica->change);

    if (change) {
        raft_member_answer(replica, r, "leased stops", change->done, change->arg);
        change->replica = NULL;
    }
    if (replica->transferred)
        raft_member_answer(replica, r, "leased stops", replica->transferred,
                           replica->transferred_arg);
    replica->transferred = NULL;
}
