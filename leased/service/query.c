/* LeaseService: Get and List. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/text.h"
#include "leased/service/find.h"
#include "leased/service/internal.h"
#include "leased/watch/lease_proto.h"
#include "xce/v1/lease.pb-c.h"

#define PAGE_DEFAULT 1000
#define PAGE_MAX     2000
/* A page ends early rather than grow past this: gRPC clients take 4 MiB. */
#define PAGE_BYTES (2u << 20)

/* ---- finding by key ---- */

/* Nothing wanted: it is. */
static bool is(const ProtobufCBinaryData *wanted, const char *value)
{
    return !wanted->len ||
           (strlen(value) == wanted->len && !memcmp(value, wanted->data, wanted->len));
}

static bool name_key(const struct fsm *fsm, const ProtobufCBinaryData *name, struct find_key *ret)
{
    return name_decode(fsm_prefix(fsm), (const char *)name->data, name->len, &ret->uid,
                       &ret->epoch) == 0;
}

/* Whose job is meant; false = of somebody who has no uid, so nobody's. */
static bool job_owner(const struct service_request *request, const Xce__V1__LeaseKey *key,
                      uint32_t *ret)
{
    *ret = key->owner ? key->owner->uid : request->principal.uid;
    return key->owner || request->principal.has_uid;
}

static int job_key(const struct fsm *fsm, const struct service_request *request,
                   const Xce__V1__LeaseKey *key, struct find_key *ret, struct err *err)
{
    char job[TEXT_JOB_MAX + 1];
    uint32_t owner;
    int r = text_check_job((const char *)key->job.data, key->job.len, err);

    if (r < 0)
        return r;
    memcpy(job, key->job.data, key->job.len);
    job[key->job.len] = '\0';
    if (job_owner(request, key, &owner))
        ret->lease = fsm_lease_of_job(fsm, owner, job);
    return 0;
}

int find_lease(struct service *service, const struct service_request *request,
               const Xce__V1__LeaseKey *key, struct find_key *ret, struct err *err)
{
    const struct fsm *fsm = service_fsm(service);
    int r = 0;

    memset(ret, 0, sizeof *ret);
    switch (key->key_case) {
    case XCE__V1__LEASE_KEY__KEY_LEASE:
        ret->lease = fsm_lease(fsm, key->lease);
        break;
    case XCE__V1__LEASE_KEY__KEY_UID:
        ret->uid = key->uid;
        ret->lease = fsm_lease_of_uid(fsm, key->uid);
        break;
    case XCE__V1__LEASE_KEY__KEY_NAME:
        if (!name_key(fsm, &key->name, ret))
            return err_set(err, FSM_NOT_FOUND,
                           "no lease of that name: it is not of the form %sUID-EPOCH",
                           fsm_prefix(fsm));
        ret->lease = fsm_lease_of_uid(fsm, ret->uid);
        if (ret->lease && ret->lease->epoch != ret->epoch)
            ret->lease = NULL;
        break;
    case XCE__V1__LEASE_KEY__KEY_JOB:
        r = job_key(fsm, request, key, ret, err);
        break;
    default:
        return err_set(err, -EINVAL, "key: one of lease, uid, name, job is needed");
    }
    if (ret->lease && !service_sees(request, &ret->lease->owner))
        ret->lease = NULL;
    return r;
}

const struct fsm_lease *find_ended(struct service *service, const struct service_request *request,
                                   const Xce__V1__LeaseKey *key)
{
    const struct fsm *fsm = service_fsm(service);
    const struct fsm_lease *found = NULL;
    uint32_t owner;

    if (key->key_case != XCE__V1__LEASE_KEY__KEY_JOB || !job_owner(request, key, &owner))
        return NULL;
    /* All leases are gone through: not for who may see none of them. */
    if (request->scope == SCOPE_OWN && owner != request->principal.uid)
        return NULL;
    for (const struct fsm_lease *lease = fsm_lease_next(fsm, 0); lease;
         lease = fsm_lease_next(fsm, lease->id))
        if (lease->owner.uid == owner && is(&key->job, lease->job) &&
            service_sees(request, &lease->owner))
            found = lease;
    return found;
}

static void get(struct service *service, struct service_request *request)
{
    struct find_key found;
    struct err err = {{0}};
    int r = find_lease(service, request, (const Xce__V1__LeaseKey *)request->message, &found, &err);

    if (r != 0)
        service_refuse(request, r, "%s", err.text);
    else if (!found.lease)
        service_refuse(request, FSM_NOT_FOUND, "no such lease");
    else
        service_reply_lease(service, request, found.lease->id);
}

void service_lease_get(struct service *service, struct service_request *request)
{
    service_read(service, request, get);
}

/* ---- lists ---- */

/* The states that are asked for, as bits. */
static int wanted_states(const Xce__V1__ListLeasesRequest *filter, uint32_t *ret, struct err *err)
{
    uint32_t states = filter->all ? UINT32_MAX : 1u << LEASE_GRANTED | 1u << LEASE_ACTIVE;

    if (filter->n_states)
        states = 0;
    for (size_t i = 0; i < filter->n_states; i++) {
        int state = (int)filter->states[i];

        if (state < LEASE_GRANTED || state > LEASE_FREE)
            return err_set(err, -EINVAL, "states: %d is no state of a lease", state);
        states |= 1u << state;
    }
    *ret = states;
    return 0;
}

static int check_filter(const Xce__V1__ListLeasesRequest *filter, struct err *err)
{
    uint32_t states;
    int r = wanted_states(filter, &states, err);

    if (r == 0 && filter->pool.len)
        r = text_check_pool((const char *)filter->pool.data, filter->pool.len, err);
    if (r == 0 && filter->job.len)
        r = text_check_job((const char *)filter->job.data, filter->job.len, err);
    if (r == 0 && filter->node.len)
        r = text_check_node((const char *)filter->node.data, filter->node.len, err);
    return r;
}

static bool has_node(const ProtobufCBinaryData *wanted, const struct fsm_lease *lease)
{
    if (!wanted->len)
        return true;
    for (uint32_t i = 0; i < lease->n_members; i++)
        if (is(wanted, lease->members[i].node->name))
            return true;
    return false;
}

static bool listed(const struct service_request *request, uint32_t states,
                   const struct fsm_lease *lease)
{
    const Xce__V1__ListLeasesRequest *filter = (const Xce__V1__ListLeasesRequest *)request->message;

    if (!service_sees(request, &lease->owner))
        return false;
    if (filter->owner_filter_case == XCE__V1__LIST_LEASES_REQUEST__OWNER_FILTER_OWNER_UID &&
        filter->owner_uid != lease->owner.uid)
        return false;
    return (states & 1u << lease->state) && (!filter->quarantined || lease->quarantine) &&
           is(&filter->pool, lease->pool) && is(&filter->job, lease->job) &&
           has_node(&filter->node, lease);
}

struct page {
    struct lease_proto *protos;
    Xce__V1__Lease **pointers;
    size_t n, max, bytes;
    uint32_t states;
    uint64_t next;
};

static int page_fill(struct page *page, struct service *service,
                     const struct service_request *request)
{
    const Xce__V1__ListLeasesRequest *filter = (const Xce__V1__ListLeasesRequest *)request->message;
    const struct fsm *fsm = service_fsm(service);
    int64_t offset_ms = service_wall_offset_ms(service);
    const struct fsm_lease *lease;
    uint64_t after = filter->after;

    while ((lease = fsm_lease_next(fsm, after))) {
        struct lease_proto *proto = &page->protos[page->n];

        if (listed(request, page->states, lease)) {
            if (page->n == page->max || page->bytes > PAGE_BYTES) {
                page->next = after;
                return 0;
            }
            if (lease_proto_init(proto, fsm, lease, offset_ms) < 0)
                return -ENOMEM;
            page->pointers[page->n++] = &proto->message;
            page->bytes += xce__v1__lease__get_packed_size(&proto->message);
        }
        after = lease->id;
    }
    return 0;
}

static void list(struct service *service, struct service_request *request)
{
    const Xce__V1__ListLeasesRequest *filter = (const Xce__V1__ListLeasesRequest *)request->message;
    Xce__V1__ListLeasesReply reply = XCE__V1__LIST_LEASES_REPLY__INIT;
    struct page page = {.max = filter->page_size ? filter->page_size : PAGE_DEFAULT};
    int r = -ENOMEM;

    if (page.max > PAGE_MAX)
        page.max = PAGE_MAX;
    (void)wanted_states(filter, &page.states, NULL);
    page.protos = malloc(page.max * sizeof *page.protos);
    page.pointers = malloc(page.max * sizeof *page.pointers);
    if (page.protos && page.pointers)
        r = page_fill(&page, service, request);
    if (r < 0) {
        service_refuse(request, r, NULL);
    } else {
        reply.leases = page.pointers;
        reply.n_leases = page.n;
        reply.next = page.next;
        reply.revision = fsm_revision(service_fsm(service));
        reply.now_ms = engine_told_ms(service->deps.engine);
        reply.stale = request->stale;
        service_reply(request, &reply.base);
    }
    for (size_t i = 0; i < page.n; i++)
        lease_proto_done(&page.protos[i]);
    free(page.protos);
    free(page.pointers);
}

void service_lease_list(struct service *service, struct service_request *request)
{
    struct err err = {{0}};

    if (check_filter((const Xce__V1__ListLeasesRequest *)request->message, &err) < 0)
        service_refuse(request, -EINVAL, "%s", err.text);
    else
        service_read(service, request, list);
}
