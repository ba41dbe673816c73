#include "ctl/acquire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hostlist.h"
#include "common/mem.h"
#include "common/text.h"
#include "ctl/account.h"
#include "ctl/ctl.h"

enum {
    /* Up to eight members may refuse one after the other, each in its ready timeout. */
    WAIT_TIMEOUT_MS = 120 * 1000,
};

/* What the specs point to. */
struct draft {
    struct hostlist nodes;
    struct xce_owner owner;
    char owner_name[256];
    uint32_t *gids;
    char **jobs;
    struct xce_spec *specs;
    uint32_t count;
};

static void draft_done(struct draft *draft)
{
    hostlist_done(&draft->nodes);
    free(draft->gids);
    for (uint32_t i = 0; draft->jobs && i < draft->count; i++)
        free(draft->jobs[i]);
    free(draft->jobs);
    free(draft->specs);
}
AUTO_DEFINE(struct draft, draft_done);

/* What all leases of the batch have in common. */
static int common_spec(struct ctl *ctl, const struct acquire_spec *given, struct draft *draft,
                       struct xce_spec *ret)
{
    struct err err = {0};
    int status = EXIT_OK;

    *ret = (struct xce_spec){
        .pool = given->pool,
        .job = given->job,
        .ttl_ms = given->ttl_ms,
        .write_paths = given->write_paths.items,
        .n_write_paths = given->write_paths.n,
    };
    if (given->nodes && !strcmp(given->nodes, "all")) {
        ret->all_nodes = true;
    } else if (given->nodes) {
        if (hostlist_expand(given->nodes, strlen(given->nodes), 0, &draft->nodes, &err) < 0)
            return ctl_usage(ctl, "--nodes: %s", err.text);
        ret->nodes = draft->nodes.names;
        ret->n_nodes = draft->nodes.n;
    }
    if (given->gids)
        status = account_gids(ctl, given->gids, &draft->gids, &ret->n_gids);
    ret->gids = draft->gids;
    if (status != EXIT_OK || !given->owner)
        return status;
    ret->owner = &draft->owner;
    return account_owner(ctl, given->owner, draft->owner_name, sizeof draft->owner_name,
                         &draft->owner);
}

/* The job of lease i: %i becomes i. NULL: no memory. */
static char *numbered(const char *job, uint32_t i)
{
    const char *mark = strstr(job, "%i");
    char *text;

    if (!mark)
        return strdup(job);
    if (asprintf(&text, "%.*s%" PRIu32 "%s", (int)(mark - job), job, i, mark + 2) < 0)
        return NULL;
    return text;
}

static int draft_make(struct ctl *ctl, const struct acquire_spec *given, uint32_t count,
                      struct draft *ret)
{
    struct xce_spec common;
    int status;

    ret->count = count;
    ret->jobs = calloc(count, sizeof *ret->jobs);
    ret->specs = calloc(count, sizeof *ret->specs);
    if (!ret->jobs || !ret->specs)
        return ctl_fail(ctl, XCE_FAILED, "out of memory");
    status = common_spec(ctl, given, ret, &common);
    for (uint32_t i = 0; status == EXIT_OK && i < count; i++) {
        ret->specs[i] = common;
        if (!given->job || count == 1)
            continue;
        ret->jobs[i] = numbered(given->job, i + 1);
        if (!ret->jobs[i])
            status = ctl_fail(ctl, XCE_FAILED, "out of memory");
        ret->specs[i].job = ret->jobs[i];
    }
    return status;
}

/* ---- the request's id ---- */

/* "ID" or "ID@ISSUED": the second is what a message about an unknown outcome names. */
static int parse_request_id(struct ctl *ctl, const char *text, struct xce_request *ret)
{
    const char *at = strrchr(text, '@');
    size_t len = at ? (size_t)(at - text) : strlen(text);
    struct err err = {0};
    uint64_t issued = 0;

    if (len < XCE_REQUEST_ID_MIN || len > XCE_REQUEST_ID_MAX)
        return ctl_usage(ctl, "--request-id: %s: has %zu bytes, must be %d to %d", text, len,
                         XCE_REQUEST_ID_MIN, XCE_REQUEST_ID_MAX);
    if (at && (text_parse_u64(at + 1, &issued, &err) < 0 || issued > INT64_MAX))
        return ctl_usage(ctl, "--request-id: %s: behind the @ must stand a number", text);
    memcpy(ret->id, text, len);
    ret->id_len = len;
    if (at)
        ret->issued_ms = (int64_t)issued;
    return EXIT_OK;
}

/* An id that can be typed again, and the cluster time. */
static int make_request(struct ctl *ctl, const char *text, const struct xce_call *call,
                        struct xce_request *ret)
{
    static const char digits[] = "0123456789abcdef";
    struct xce_request drawn, given = {0};
    int code, status;

    if (text) {
        status = parse_request_id(ctl, text, &given);
        if (status != EXIT_OK)
            return status;
        if (strrchr(text, '@')) {
            *ret = given;
            return EXIT_OK;
        }
    }
    code = xce_request_new(ctl->client, call, &drawn);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    if (text) {
        given.issued_ms = drawn.issued_ms;
        *ret = given;
        return EXIT_OK;
    }
    *ret = (struct xce_request){.issued_ms = drawn.issued_ms, .id_len = 2 * drawn.id_len};
    for (size_t i = 0; i < drawn.id_len; i++) {
        ret->id[2 * i] = (uint8_t)digits[drawn.id[i] >> 4];
        ret->id[2 * i + 1] = (uint8_t)digits[drawn.id[i] & 15];
    }
    return EXIT_OK;
}

static int told_failure(struct ctl *ctl, int code, const struct xce_request *request)
{
    if (!ctl_may_be_done(ctl, code))
        return ctl_failed(ctl, code);
    return ctl_fail(ctl, code,
                    "%s; it may have been done: to be sure, repeat it with --request-id %.*s@%lld",
                    xce_client_message(ctl->client), (int)request->id_len,
                    (const char *)request->id, (long long)request->issued_ms);
}

/* "n[3-4] (draining), n7 (lost)": each state once, in the order in which it comes first. */
static void tell_left_out(const struct ctl *ctl, const struct xce_leases *leases)
{
    auto_free const char **names = calloc(leases->n_left_out + 1, sizeof *names);
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);
    size_t n = leases->n_left_out, told = 0;

    for (size_t i = 0; names && told < n; i++) {
        const char *state = leases->left_out[i].state;
        size_t n_names = 0, before = 0;

        while (before < i && strcmp(leases->left_out[before].state, state) != 0)
            before++;
        if (before < i)
            continue;
        for (size_t k = i; k < n; k++)
            if (!strcmp(leases->left_out[k].state, state))
                names[n_names++] = leases->left_out[k].node;
        buf_adds(&text, told ? ", " : "");
        (void)hostlist_collapse(names, n_names, &text);
        buf_addf(&text, " (%s)", state);
        told += n_names;
    }
    if (told)
        ctl_say(ctl, "not on all nodes: without %s", buf_str(&text));
}

int acquire_run(struct ctl *ctl, const struct acquire_spec *spec, uint32_t count, bool adopt,
                const char *request_id, struct xce_leases **ret)
{
    AUTO(draft_done) struct draft draft = {0};
    struct xce_acquire acquire = {.n_specs = count, .wait = spec->wait, .adopt = adopt};
    struct xce_call call = ctl_call(ctl);
    struct xce_request request;
    int64_t began_ms = clock_mono_ms();
    int code, status;

    status = draft_make(ctl, spec, count, &draft);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    if (!call.timeout_ms && spec->wait)
        call.timeout_ms = WAIT_TIMEOUT_MS;
    status = make_request(ctl, request_id, &call, &request);
    if (status != EXIT_OK)
        return status;
    call.request = &request;
    if (call.timeout_ms) {
        /* Asking for the time has cost some of it. */
        call.timeout_ms -= clock_mono_ms() - began_ms;
        if (call.timeout_ms < 1)
            call.timeout_ms = 1;
    }
    acquire.specs = draft.specs;
    code = xce_lease_acquire(ctl->client, &call, &acquire, ret);
    if (code != XCE_OK)
        return told_failure(ctl, code, &request);
    tell_left_out(ctl, *ret);
    return EXIT_OK;
}
