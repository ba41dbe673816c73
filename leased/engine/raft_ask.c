#include "leased/engine/raft_ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/net/loop.h"
#include "common/text.h"
#include "leased/engine/raft_inner.h"

/* Who handed over may still say so. */
#define LOST_MS 2000

/* A change that the leader has been asked for. */
struct asking {
    LIST_ENTRY(asking) all;
    struct replica *replica;
    uint64_t leader, link, number;
    int64_t led_ms; /* when the one that was asked led last */
    bool leaves;    /* it is about ourselves: the log does not come here any more */
    replica_done_fn done;
    void *arg;
    int r;
    char why[ENGINE_WHY_MAX]; /* longer than what is put there */
};

static const struct {
    int r;
    Xce__V1__MemberResult result;
} results[] = {
    {0, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_OK},
    {-EAGAIN, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_NOT_LEADER},
    {-ECANCELED, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_UNKNOWN},
    {-ECONNABORTED, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_UNKNOWN},
    {-EBUSY, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_BUSY},
    {-EEXIST, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_EXISTS},
    {-ENOENT, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_ABSENT},
    {-EHOSTUNREACH, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_UNREACHABLE},
    {-ETIMEDOUT, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_LATE},
    {-ENOSPC, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_DISK_FULL},
    {-EIO, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_DISK_FAILED},
    {-EINVAL, XCE__V1__MEMBER_RESULT__MEMBER_RESULT_INVALID},
};

/* ---- here ---- */

static void answer(int r, void *arg)
{
    struct asking *asking = arg;

    (void)r; /* whether we have applied it: the members are listed as we know them */
    asking->done(asking->r, asking->why, asking->arg);
    free(asking);
}

/* What was said is told once what was done is seen here, too. */
static void end(struct asking *asking, int r, const char *why, size_t why_len)
{
    struct replica *replica = asking->replica;

    LIST_REMOVE(asking, all);
    asking->r = r;
    if (why_len)
        memcpy(asking->why, why, why_len);
    if (r == 0 && !asking->leaves && !replica->engine.leading)
        raft_pass_read(replica->pass, answer, asking);
    else
        engine_later_ready(&replica->engine, 0, answer, asking);
}

bool raft_ask(struct replica *replica, Xce__V1__MemberChangeKind kind, const char *name,
              const char *address, replica_done_fn done, void *arg)
{
    Xce__V1__PassRequest request = XCE__V1__PASS_REQUEST__INIT;
    Xce__V1__MemberChange change = XCE__V1__MEMBER_CHANGE__INIT;
    struct asking *asking;
    uint64_t link, number;
    const char *at;
    raft_id leader;

    change.kind = kind;
    change.name = (ProtobufCBinaryData){name ? strlen(name) : 0, (uint8_t *)(uintptr_t)name};
    change.address = (ProtobufCBinaryData){address ? strlen(address) : 0,
                                           (uint8_t *)(uintptr_t)address};
    request.change = &change;
    raft_leader(&replica->raft, &leader, &at);
    link = raft_pass_send(replica->pass, &request, &number);
    if (!link)
        return false;
    asking = mem_must_calloc(1, sizeof *asking);
    *asking = (struct asking){
        .replica = replica,
        .leader = leader,
        .led_ms = loop_now_fresh_ms(),
        .link = link,
        .number = number,
        .leaves = kind == XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_REMOVE && name &&
                  strcmp(name, replica->name) == 0,
        .done = done,
        .arg = arg,
    };
    LIST_INSERT_HEAD(&replica->askings, asking, all);
    return true;
}

void raft_ask_answered(struct replica *replica, uint64_t link, uint64_t number,
                       const Xce__V1__PassReply *reply)
{
    const Xce__V1__MemberChanged *changed = reply ? reply->changed : NULL;
    const char *unknown = "the leader's answer can not be read";
    const char *nobody = "nobody leads now: ask again";
    struct asking *asking;
    int r = -ECONNABORTED;
    struct err err;

    LIST_FOREACH(asking, &replica->askings, all)
    if (asking->link == link && asking->number == number)
        break;
    if (!asking)
        return;
    if (reply && reply->result == XCE__V1__PASS_RESULT__PASS_RESULT_NOT_LEADER) {
        end(asking, -EAGAIN, nobody, strlen(nobody));
        return;
    }
    if (!changed || (changed->why.len && text_require("why", changed->why.data, changed->why.len,
                                                      ENGINE_WHY_MAX - 1, &err) < 0)) {
        end(asking, r, unknown, strlen(unknown));
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        if (results[i].result == changed->result)
            r = results[i].r;
    end(asking, r, (const char *)changed->why.data, changed->why.len);
}

static const char leader_lost[] = "the leader was lost: look, then ask again";

void raft_ask_ended(struct replica *replica, uint64_t link, int r)
{
    const char *why = r == -ECANCELED ? "leased stops" : leader_lost;
    struct asking *asking, *next;

    for (asking = LIST_FIRST(&replica->askings); asking; asking = next) {
        next = LIST_NEXT(asking, all);
        if (!link || asking->link == link)
            end(asking, r, why, strlen(why));
    }
}

void raft_ask_tick(struct replica *replica)
{
    int64_t now_ms = loop_now_fresh_ms();
    struct asking *asking, *next;
    const char *address;
    raft_id leader = 0;

    raft_leader(&replica->raft, &leader, &address);
    for (asking = LIST_FIRST(&replica->askings); asking; asking = next) {
        next = LIST_NEXT(asking, all);
        if (asking->leader == leader)
            asking->led_ms = now_ms;
        else if (now_ms - asking->led_ms > LOST_MS)
            end(asking, -ECONNABORTED, leader_lost, strlen(leader_lost));
    }
}

/* ---- at the leader ---- */

static bool as_text(const ProtobufCBinaryData *bytes, size_t size, char *ret)
{
    if (bytes->len >= size || (bytes->len && memchr(bytes->data, '\0', bytes->len)))
        return false;
    if (bytes->len)
        memcpy(ret, bytes->data, bytes->len);
    ret[bytes->len] = '\0';
    return true;
}

void raft_ask_take(struct replica *replica, const Xce__V1__MemberChange *change,
                   replica_done_fn done, void *arg)
{
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
    struct engine *engine = &replica->engine;
    bool sound = as_text(&change->name, sizeof name, name) &&
                 as_text(&change->address, sizeof address, address);

    switch (sound ? change->kind : XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_NONE) {
    case XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_ADD:
        replica_add(engine, name, address, done, arg);
        break;
    case XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_REMOVE:
        replica_remove(engine, name, done, arg);
        break;
    case XCE__V1__MEMBER_CHANGE_KIND__MEMBER_CHANGE_TRANSFER:
        replica_transfer(engine, *name ? name : NULL, done, arg);
        break;
    default:
        raft_member_answer(replica, -EINVAL, "the leader does not understand what was asked", done,
                           arg);
    }
}

void raft_ask_result(int r, const char *why, Xce__V1__MemberChanged *ret)
{
    xce__v1__member_changed__init(ret);
    ret->result = XCE__V1__MEMBER_RESULT__MEMBER_RESULT_UNKNOWN;
    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        if (results[i].r == r)
            ret->result = results[i].result;
    ret->why = (ProtobufCBinaryData){strlen(why), (uint8_t *)(uintptr_t)why};
}
