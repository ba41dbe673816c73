/* PoolService. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/text.h"
#include "leased/service/clear.h"
#include "leased/service/internal.h"
#include "leased/watch/lease_proto.h"
#include "xce/v1/pool.pb-c.h"

#define RANGES_MAX   256
#define COUNT_MAX    (16u << 20)
#define COUNT_SAMPLE 65536u
/* Where a suggestion begins: outside every class of systemd's UIDS-GIDS document and the id maps of SSSD and FreeIPA. */
#define SUGGEST_FIRST 2013265920u
#define SUGGEST_LAST  2147352575u /* below 0x7ffe0000 */
#define REJECTED_MAX  16
#define REJECTED_TEXT 160

/* ---- edge ---- */

static int check_name(const ProtobufCBinaryData *name, struct err *err)
{
    return text_check_pool((const char *)name->data, name->len, err);
}

static const struct fsm_pool *pool_named(const struct service *service,
                                         const ProtobufCBinaryData *name)
{
    char text[TEXT_POOL_MAX + 1];

    if (name->len > TEXT_POOL_MAX)
        return NULL;
    memcpy(text, name->data, name->len);
    text[name->len] = '\0';
    return fsm_pool(service_fsm(service), text);
}

/* protobuf-c keeps equal messages of two protos apart; these are the same in bytes and in C. */
static int convert_settings(const Xce__V1__PoolSettings *from, Xce__V1__CmdPoolSettings *ret,
                            struct err *err)
{
    int r;

    xce__v1__cmd_pool_settings__init(ret);
    if (!from)
        return 0;
    if ((from->home.len &&
         (r = text_check_path((const char *)from->home.data, from->home.len, err)) < 0) ||
        (from->shell.len &&
         (r = text_check_path((const char *)from->shell.data, from->shell.len, err)) < 0))
        return r;
    ret->ttl_min_ms = from->ttl_min_ms;
    ret->ttl_max_ms = from->ttl_max_ms;
    ret->ttl_default_ms = from->ttl_default_ms;
    ret->cooldown_ms = from->cooldown_ms;
    ret->ready_timeout_ms = from->ready_timeout_ms;
    ret->validity_ms = from->validity_ms;
    ret->witnesses = from->witnesses;
    ret->witnesses_set = from->witnesses_set;
    ret->max_per_owner = from->max_per_owner;
    ret->max_per_owner_set = from->max_per_owner_set;
    ret->home = from->home;
    ret->shell = from->shell;
    return 0;
}

static int check_ranges(Xce__V1__UidRange *const *ranges, size_t n, struct err *err)
{
    if (n > RANGES_MAX)
        return err_set(err, -EINVAL, "directory_ranges: %zu of them, at most %d", n, RANGES_MAX);
    for (size_t i = 0; i < n; i++)
        if (ranges[i]->first > ranges[i]->last)
            return err_set(err, -EINVAL, "directory_ranges: %u-%u runs backwards", ranges[i]->first,
                           ranges[i]->last);
    return 0;
}

/* What a pool is made or changed by, as the command has it. */
struct terms {
    Xce__V1__CmdPoolSettings settings;
    Xce__V1__CmdRange items[RANGES_MAX];
    Xce__V1__CmdRange *directory_ranges[RANGES_MAX];
};

/* The caller's to free. NULL: there is something wrong, and that is the answer. */
static struct terms *read_terms(struct service_request *request,
                                const Xce__V1__PoolSettings *settings,
                                Xce__V1__UidRange *const *ranges, size_t n)
{
    struct terms *terms = malloc(sizeof *terms);
    struct err err = {{0}};

    if (!terms) {
        service_refuse(request, -ENOMEM, NULL);
        return NULL;
    }
    if (convert_settings(settings, &terms->settings, &err) < 0 ||
        check_ranges(ranges, n, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        free(terms);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        xce__v1__cmd_range__init(&terms->items[i]);
        terms->items[i].first = ranges[i]->first;
        terms->items[i].last = ranges[i]->last;
        terms->directory_ranges[i] = &terms->items[i];
    }
    return terms;
}

/* ---- answers ---- */

static void reply_pool(struct service *service, struct service_request *request,
                       const ProtobufCBinaryData *name)
{
    const struct fsm_pool *pool = pool_named(service, name);
    Xce__V1__PoolReply reply = XCE__V1__POOL_REPLY__INIT;
    Xce__V1__ReplyInfo info;
    struct pool_proto proto;

    if (!pool) {
        service_refuse(request, FSM_NOT_FOUND, "no pool %.*s", (int)name->len,
                       (const char *)name->data);
        return;
    }
    if (pool_proto_init(&proto, service_fsm(service), pool, service_wall_offset_ms(service),
                        request->scope == SCOPE_ALL) < 0) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    service_reply_info(service, &info);
    info.stale = request->stale;
    reply.info = &info;
    reply.pool = &proto.message;
    service_reply(request, &reply.base);
    pool_proto_done(&proto);
}

/* An empty pool that retires is gone at once: then the answer is what it was. */
static void reply_gone(struct service *service, struct service_request *request,
                       const ProtobufCBinaryData *of)
{
    Xce__V1__PoolReply reply = XCE__V1__POOL_REPLY__INIT;
    Xce__V1__Pool gone = XCE__V1__POOL__INIT;
    Xce__V1__ReplyInfo info;
    char name[TEXT_POOL_MAX + 1];

    memcpy(name, of->data, of->len);
    name[of->len] = '\0';
    gone.name = name;
    gone.state = XCE__V1__POOL_STATE__POOL_STATE_RETIRING;
    service_reply_info(service, &info);
    reply.info = &info;
    reply.pool = &gone;
    service_reply(request, &reply.base);
}

static void replied_by_name(struct service *service, struct service_request *request,
                            const struct fsm_outcome *outcome)
{
    /* Each of these requests begins with its request id and has the name second; see pool.proto. */
    const ProtobufCMessageDescriptor *type = request->message->descriptor;
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(type,
                                                                                            "name");
    const ProtobufCBinaryData *name = (const ProtobufCBinaryData *)((const uint8_t *)
                                                                        request->message +
                                                                    field->offset);

    (void)outcome;
    if (pool_named(service, name))
        reply_pool(service, request, name);
    else
        reply_gone(service, request, name);
}

/* ---- create ---- */

static void create_clear(struct service *service, struct service_request *request,
                         const struct fsm_range *of)
{
    const Xce__V1__CreatePoolRequest *message = (const Xce__V1__CreatePoolRequest *)
                                                    request->message;
    auto_free struct terms *terms = read_terms(
        request, message->settings, message->directory_ranges, message->n_directory_ranges);
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdPoolCreate create = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;

    if (!terms)
        return;
    range.first = of->first;
    range.last = of->last;
    create.name = message->name;
    create.range = &range;
    create.directory_ranges = terms->directory_ranges;
    create.n_directory_ranges = message->n_directory_ranges;
    create.directory_none = message->directory_none;
    create.settings = &terms->settings;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &create;
    service_propose(service, request, message->request, &command, replied_by_name);
}

/* What can not be right is said before anybody is asked; what was done already is only answered again. */
static void create_sensible(struct service *service, struct service_request *request)
{
    const Xce__V1__CreatePoolRequest *message = (const Xce__V1__CreatePoolRequest *)
                                                    request->message;
    auto_free struct terms *terms = read_terms(
        request, message->settings, message->directory_ranges, message->n_directory_ranges);
    const struct fsm_range range = {message->range->first, message->range->last};

    if (terms && service_answered(service, request, message->request))
        create_clear(service, request, &range);
    else if (terms)
        clear_everywhere(service, request, &range, create_clear);
}

void service_pool_create(struct service *service, struct service_request *request)
{
    const Xce__V1__CreatePoolRequest *message = (const Xce__V1__CreatePoolRequest *)
                                                    request->message;
    struct err err = {{0}};

    if (check_name(&message->name, &err) < 0)
        service_refuse(request, -EINVAL, "%s", err.text);
    else if (!message->range || message->range->first > message->range->last)
        service_refuse(request, -EINVAL, "range: first must not be above last");
    else if (message->directory_none == (message->n_directory_ranges > 0))
        service_refuse(request, -EINVAL,
                       "directory_ranges: name the ranges that directory services use, or say "
                       "none; one of the two");
    else
        create_sensible(service, request);
}

/* ---- get, list ---- */

static void get(struct service *service, struct service_request *request)
{
    reply_pool(service, request, &((const Xce__V1__PoolKey *)request->message)->name);
}

void service_pool_get(struct service *service, struct service_request *request)
{
    struct err err = {{0}};

    if (check_name(&((const Xce__V1__PoolKey *)request->message)->name, &err) < 0)
        service_refuse(request, -EINVAL, "%s", err.text);
    else
        service_read(service, request, get);
}

static void overlap_told(struct service *service, struct service_request *request,
                         const struct clear_told *told, size_t n)
{
    auto_free Xce__V1__PoolOverlap *overlaps = mem_must_calloc(n + 1, sizeof *overlaps);
    auto_free Xce__V1__PoolOverlap **pointers = mem_must_calloc(n + 1, sizeof *pointers);
    Xce__V1__PoolOverlapReply reply = XCE__V1__POOL_OVERLAP_REPLY__INIT;

    (void)service;
    for (size_t i = 0; i < n; i++) {
        pointers[i] = &overlaps[i];
        xce__v1__pool_overlap__init(&overlaps[i]);
        overlaps[i].first = told[i].first;
        overlaps[i].last = told[i].last;
        overlaps[i].what = (char *)(uintptr_t)told[i].what;
        overlaps[i].node = (char *)(uintptr_t)told[i].node;
        overlaps[i].replica = (char *)(uintptr_t)told[i].replica;
    }
    reply.n_overlaps = n;
    reply.overlaps = pointers;
    service_reply(request, &reply.base);
}

static void overlap(struct service *service, struct service_request *request)
{
    const ProtobufCBinaryData *name = &((const Xce__V1__PoolKey *)request->message)->name;
    const struct fsm_pool *pool = pool_named(service, name);

    if (pool)
        clear_tell(service, request, &pool->range, overlap_told);
    else
        service_refuse(request, FSM_NOT_FOUND, "no pool %.*s", (int)name->len,
                       (const char *)name->data);
}

void service_pool_overlap(struct service *service, struct service_request *request)
{
    struct err err = {{0}};

    if (check_name(&((const Xce__V1__PoolKey *)request->message)->name, &err) < 0)
        service_refuse(request, -EINVAL, "%s", err.text);
    else
        service_read(service, request, overlap);
}

static size_t count_pools(const struct fsm *fsm)
{
    const struct fsm_pool *pool = NULL;
    size_t n = 0;

    while ((pool = fsm_pool_next(fsm, pool)))
        n++;
    return n;
}

static void list(struct service *service, struct service_request *request)
{
    Xce__V1__ListPoolsReply reply = XCE__V1__LIST_POOLS_REPLY__INIT;
    const struct fsm *fsm = service_fsm(service);
    size_t max = count_pools(fsm), n = 0;
    struct pool_proto *protos = calloc(max ? max : 1, sizeof *protos);
    Xce__V1__Pool **pointers = calloc(max ? max : 1, sizeof *pointers);
    const struct fsm_pool *pool = NULL;
    int r = protos && pointers ? 0 : -ENOMEM;

    while (r == 0 && (pool = fsm_pool_next(fsm, pool))) {
        r = pool_proto_init(&protos[n], fsm, pool, service_wall_offset_ms(service),
                            request->scope == SCOPE_ALL);
        if (r == 0) {
            pointers[n] = &protos[n].message;
            n++;
        }
    }
    if (r < 0) {
        service_refuse(request, r, NULL);
    } else {
        reply.pools = pointers;
        reply.n_pools = n;
        reply.revision = fsm_revision(fsm);
        reply.stale = request->stale;
        service_reply(request, &reply.base);
    }
    for (size_t i = 0; i < n; i++)
        pool_proto_done(&protos[i]);
    free(protos);
    free(pointers);
}

void service_pool_list(struct service *service, struct service_request *request)
{
    service_read(service, request, list);
}

/* ---- set ---- */

static void propose_set(struct service *service, struct service_request *request)
{
    const Xce__V1__SetPoolRequest *message = (const Xce__V1__SetPoolRequest *)request->message;
    auto_free struct terms *terms = read_terms(
        request, message->settings, message->directory_ranges, message->n_directory_ranges);
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdPoolSet set = XCE__V1__CMD_POOL_SET__INIT;

    if (!terms)
        return;
    set.name = message->name;
    set.settings = &terms->settings;
    set.last = message->last;
    set.directory_ranges = terms->directory_ranges;
    set.n_directory_ranges = message->n_directory_ranges;
    set.directory_none = message->directory_none;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_SET;
    command.pool_set = &set;
    service_propose(service, request, message->request, &command, replied_by_name);
}

static void set_clear(struct service *service, struct service_request *request,
                      const struct fsm_range *range)
{
    const Xce__V1__SetPoolRequest *message = (const Xce__V1__SetPoolRequest *)request->message;
    const struct fsm_pool *pool = pool_named(service, &message->name);

    if (pool && pool->range.last + 1 < range->first)
        service_refuse(request, FSM_PRECONDITION, "pool %s was made anew meanwhile", pool->name);
    else
        propose_set(service, request);
}

/* Only what is new of it is asked about; what is not sensible the FSM refuses. */
static void grow(struct service *service, struct service_request *request)
{
    const Xce__V1__SetPoolRequest *message = (const Xce__V1__SetPoolRequest *)request->message;
    const struct fsm_pool *pool = pool_named(service, &message->name);
    struct fsm_range range = {0, message->last};

    if (service_answered(service, request, message->request)) {
        propose_set(service, request);
    } else if (pool && message->last > pool->range.last) {
        range.first = pool->range.last + 1;
        clear_everywhere(service, request, &range, set_clear);
    } else if (!service_doubts(service, request)) {
        propose_set(service, request);
    }
}

void service_pool_set(struct service *service, struct service_request *request)
{
    const Xce__V1__SetPoolRequest *message = (const Xce__V1__SetPoolRequest *)request->message;
    struct err err = {{0}};

    if (check_name(&message->name, &err) < 0)
        service_refuse(request, -EINVAL, "%s", err.text);
    else if (message->directory_none && message->n_directory_ranges)
        service_refuse(request, -EINVAL, "directory_ranges: either ranges or none");
    else if (message->last)
        grow(service, request);
    else
        propose_set(service, request);
}

/* ---- suggest ---- */

struct suggestion {
    struct fsm_range range;
    char texts[REJECTED_MAX][REJECTED_TEXT]; /* what was in the way of lower ones */
    size_t n_rejected;
};

/* What stands in the way of first..last: the end of it, its words in ret; 0 = nothing. */
static uint32_t obstacle(struct service *service, const Xce__V1__SuggestPoolRequest *message,
                         const struct overlap *overlap, const struct fsm_range *range,
                         char ret[static REJECTED_TEXT])
{
    const struct overlap_taken *taken = overlap_find(overlap, range->first, range->last);
    const struct fsm_pool *pool = NULL;

    if (taken) {
        (void)snprintf(ret, REJECTED_TEXT, "%u-%u: %s", taken->first, taken->last, taken->what);
        return taken->last;
    }
    while ((pool = fsm_pool_next(service_fsm(service), pool)))
        if (pool->range.first <= range->last && pool->range.last >= range->first) {
            (void)snprintf(ret, REJECTED_TEXT, "%u-%u: pool %s", pool->range.first,
                           pool->range.last, pool->name);
            return pool->range.last;
        }
    for (size_t i = 0; i < message->n_directory_ranges; i++) {
        const Xce__V1__UidRange *directory = message->directory_ranges[i];

        if (directory->first <= range->last && directory->last >= range->first) {
            (void)snprintf(ret, REJECTED_TEXT, "%u-%u: directory service", directory->first,
                           directory->last);
            return directory->last;
        }
    }
    return 0;
}

/* The lowest clear range of count uids from first on, above what was in the way; false: there is none. */
static bool find_room(struct service *service, const Xce__V1__SuggestPoolRequest *message,
                      const struct overlap *overlap, struct suggestion *ret)
{
    uint32_t count = message->count ? message->count : COUNT_SAMPLE, end;

    ret->range.first = SUGGEST_FIRST;
    while (count <= SUGGEST_LAST - ret->range.first + 1) {
        char spare[REJECTED_TEXT];
        bool keep = ret->n_rejected < REJECTED_MAX;

        ret->range.last = ret->range.first + count - 1;
        end = obstacle(service, message, overlap, &ret->range,
                       keep ? ret->texts[ret->n_rejected] : spare);
        if (!end)
            return true;
        ret->n_rejected += keep;
        if (end >= SUGGEST_LAST)
            break;
        ret->range.first = end + 1;
    }
    return false;
}

static void suggest_checked(struct service *service, struct service_request *request,
                            const struct overlap *overlap)
{
    const Xce__V1__SuggestPoolRequest *message = (const Xce__V1__SuggestPoolRequest *)
                                                     request->message;
    Xce__V1__SuggestPoolReply reply = XCE__V1__SUGGEST_POOL_REPLY__INIT;
    Xce__V1__UidRange found = XCE__V1__UID_RANGE__INIT;
    struct suggestion suggestion = {0};
    char *rejected[REJECTED_MAX];

    if (!find_room(service, message, overlap, &suggestion)) {
        service_refuse(request, FSM_PRECONDITION, "no room for %u uids between %u and %u",
                       message->count ? message->count : COUNT_SAMPLE, SUGGEST_FIRST, SUGGEST_LAST);
        return;
    }
    for (size_t i = 0; i < suggestion.n_rejected; i++)
        rejected[i] = suggestion.texts[i];
    found.first = suggestion.range.first;
    found.last = suggestion.range.last;
    reply.range = &found;
    reply.rejected = rejected;
    reply.n_rejected = suggestion.n_rejected;
    service_reply(request, &reply.base);
}

static void suggest(struct service *service, struct service_request *request)
{
    clear_gather(service, request, suggest_checked);
}

void service_pool_suggest(struct service *service, struct service_request *request)
{
    const Xce__V1__SuggestPoolRequest *message = (const Xce__V1__SuggestPoolRequest *)
                                                     request->message;
    struct err err = {{0}};

    if (message->count > COUNT_MAX)
        service_refuse(request, -EINVAL, "count: %u, at most %u", message->count, COUNT_MAX);
    else if (check_ranges(message->directory_ranges, message->n_directory_ranges, &err) < 0)
        service_refuse(request, -EINVAL, "%s", err.text);
    else
        service_read(service, request, suggest);
}

/* ---- unblock, retire ---- */

void service_pool_unblock(struct service *service, struct service_request *request)
{
    const Xce__V1__UnblockRequest *message = (const Xce__V1__UnblockRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdUnblock unblock = XCE__V1__CMD_UNBLOCK__INIT;
    const ProtobufCBinaryData *reason = &message->reason;
    struct err err = {{0}};

    if (check_name(&message->name, &err) < 0 ||
        text_require("reason", reason->data, reason->len, TEXT_NOTE_MAX, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    if (!reason->len) {
        service_refuse(request, -EINVAL, "reason: say why, it is kept");
        return;
    }
    unblock.name = message->name;
    unblock.uid = message->uid;
    unblock.reason = *reason;
    command.kind_case = XCE__V1__COMMAND__KIND_UNBLOCK;
    command.unblock = &unblock;
    service_propose(service, request, message->request, &command, replied_by_name);
}

void service_pool_retire(struct service *service, struct service_request *request)
{
    const Xce__V1__RetirePoolRequest *message = (const Xce__V1__RetirePoolRequest *)
                                                    request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdPoolRetire retire = XCE__V1__CMD_POOL_RETIRE__INIT;
    struct err err = {{0}};

    if (check_name(&message->name, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    retire.name = message->name;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_RETIRE;
    command.pool_retire = &retire;
    service_propose(service, request, message->request, &command, replied_by_name);
}
