#include "leased/service/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/text.h"
#include "leased/fsm/fsm.h"

#define ID_LEN     32
#define PROOFS_MAX (1u << 20)
#define EPOCHS_MAX (1u << 16)

bool report_is_id(const ProtobufCBinaryData *id)
{
    if (id->len != ID_LEN)
        return false;
    for (size_t i = 0; i < id->len; i++)
        if (!memchr("0123456789abcdef", id->data[i], 16))
            return false;
    return true;
}

int report_check_hello(const Xce__V1__Hello *hello, struct err *err)
{
    int r = text_check_node((const char *)hello->node.data, hello->node.len, err);

    if (r < 0)
        return r;
    if (!report_is_id(&hello->machine_id) || !report_is_id(&hello->boot_id))
        return err_set(err, -EINVAL, "machine_id, boot_id: 32 lowercase hex digits each");
    if (hello->n_proofs > PROOFS_MAX)
        return err_set(err, -EINVAL, "proofs: %zu of them, at most %u", hello->n_proofs,
                       PROOFS_MAX);
    return 0;
}

/* The words of item i of a list of what. */
static int check_words(const char *what, size_t i, const ProtobufCBinaryData *reason,
                       const ProtobufCBinaryData *detail, struct err *err)
{
    int r = text_require("reason", reason->data, reason->len, TEXT_NOTE_MAX, err);

    if (r == 0)
        r = text_require("detail", detail->data, detail->len, TEXT_NOTE_MAX, err);
    return r < 0 ? err_prefix(err, r, "%s[%zu]", what, i) : 0;
}

int report_members(Xce__V1__MemberReport *const *from, size_t n, Xce__V1__CmdMember ***ret,
                   struct err *err)
{
    /* One block: the pointers, then what they point to. */
    auto_free Xce__V1__CmdMember **pointers = calloc(n ? n : 1,
                                                     sizeof *pointers + sizeof **pointers);
    Xce__V1__CmdMember *items = (Xce__V1__CmdMember *)(void *)(pointers + n);

    if (!pointers)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = check_words("members", i, &from[i]->reason, &from[i]->detail, err);

        if (r < 0)
            return r;
        xce__v1__cmd_member__init(&items[i]);
        items[i].uid = from[i]->uid;
        items[i].epoch = from[i]->epoch;
        items[i].kind = from[i]->kind;
        items[i].reason = from[i]->reason;
        items[i].detail = from[i]->detail;
        pointers[i] = &items[i];
    }
    *ret = mem_take(pointers);
    return 0;
}

int report_blocks(Xce__V1__BlockReport *const *from, size_t n, Xce__V1__CmdBlock ***ret,
                  struct err *err)
{
    /* One block, as above. */
    auto_free Xce__V1__CmdBlock **pointers = calloc(n ? n : 1,
                                                    sizeof *pointers + sizeof **pointers);
    Xce__V1__CmdBlock *items = (Xce__V1__CmdBlock *)(void *)(pointers + n);

    if (!pointers)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = check_words("blocks", i, &from[i]->reason, &from[i]->detail, err);

        if (r < 0)
            return r;
        xce__v1__cmd_block__init(&items[i]);
        items[i].uid = from[i]->uid;
        items[i].reason = from[i]->reason;
        items[i].detail = from[i]->detail;
        pointers[i] = &items[i];
    }
    *ret = mem_take(pointers);
    return 0;
}

int report_epochs(Xce__V1__EpochReport *const *from, size_t n, Xce__V1__CmdEpoch ***ret,
                  struct err *err)
{
    /* One block, as above. */
    auto_free Xce__V1__CmdEpoch **pointers = calloc(n ? n : 1,
                                                    sizeof *pointers + sizeof **pointers);
    Xce__V1__CmdEpoch *items = (Xce__V1__CmdEpoch *)(void *)(pointers + n);

    if (!pointers)
        return -ENOMEM;
    if (n > EPOCHS_MAX)
        return err_set(err, -EINVAL, "epochs: %zu of them, at most %u in a report", n, EPOCHS_MAX);
    for (size_t i = 0; i < n; i++) {
        xce__v1__cmd_epoch__init(&items[i]);
        items[i].uid = from[i]->uid;
        items[i].epoch = from[i]->epoch;
        pointers[i] = &items[i];
    }
    *ret = mem_take(pointers);
    return 0;
}

int report_check_pools(const Xce__V1__Report *report, struct err *err)
{
    int r = 0;

    if (report->n_pools > FSM_POOLS_MAX)
        return err_set(err, -EINVAL, "pools: %zu of them, at most %d", report->n_pools,
                       FSM_POOLS_MAX);
    for (size_t i = 0; r == 0 && i < report->n_pools; i++) {
        const ProtobufCBinaryData *pool = &report->pools[i]->pool;

        r = text_check_pool((const char *)pool->data, pool->len, err);
        if (r < 0)
            r = err_prefix(err, r, "pools[%zu]", i);
    }
    return r;
}
