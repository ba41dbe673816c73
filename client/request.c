#include "client/request.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "client/call.h"
#include "client/client.h"
#include "client/result.h"
#include "common/err.h"

enum {
    ID_BYTES = 16,
    /* leased remembers an id for ten minutes at least: a time that was right a minute ago is not too old for it, however
     * long this client has been idle before. */
    FRESH_MS = 60 * 1000,
};

/* A list of one lease: the cheap call that everybody may make and whose reply bears the cluster time. */
static int ask_time(struct xce_client *client, const struct xce_call *call)
{
    static const struct call_method method = {"/xce.v1.LeaseService/List",
                                              &xce__v1__list_leases_reply__descriptor};
    Xce__V1__ListLeasesRequest request = XCE__V1__LIST_LEASES_REQUEST__INIT;
    struct pb_arena arena;
    ProtobufCMessage *reply;
    int code;

    request.page_size = 1;
    pb_arena_init(&arena, PB_ARENA_MAX);
    code = call_run(client, call, &method, &request.base, &arena, &reply);
    if (code == XCE_OK)
        client_saw_time(client, ((Xce__V1__ListLeasesReply *)reply)->now_ms);
    pb_arena_done(&arena);
    return code;
}

static int make_id(struct xce_client *client, struct xce_request *ret)
{
    struct xce_request request = {.id_len = ID_BYTES};

    /* 16 bytes come whole, or not at all before the kernel's pool is ready. */
    if (getrandom(request.id, ID_BYTES, 0) != ID_BYTES)
        return client_fail(client, XCE_FAILED, "no random bytes for a request id: %s",
                           err_text(errno));
    request.issued_ms = client->cluster_ms;
    *ret = request;
    return XCE_OK;
}

static bool time_is_fresh(const struct xce_client *client)
{
    return client->cluster_ms && loop_now_fresh_ms() - client->cluster_seen_ms < FRESH_MS;
}

int xce_request_new(struct xce_client *client, const struct xce_call *call, struct xce_request *ret)
{
    if (!time_is_fresh(client)) {
        int code = ask_time(client, call);

        if (code != XCE_OK)
            return code;
    }
    return make_id(client, ret);
}

void xce_client_request(const struct xce_client *client, struct xce_request *ret)
{
    *ret = client->request_seen ? client->request : (struct xce_request){0};
}

int request_prepare(struct xce_client *client, const struct xce_call *options, bool aged,
                    Xce__V1__RequestId *message)
{
    int code;

    client->request = (struct xce_request){0};
    client->request_seen = false;
    if (options && options->request) {
        if (options->request->id_len < XCE_REQUEST_ID_MIN ||
            options->request->id_len > XCE_REQUEST_ID_MAX)
            return client_fail(client, XCE_INVALID, "a request id has %d to %d bytes, not %zu",
                               XCE_REQUEST_ID_MIN, XCE_REQUEST_ID_MAX, options->request->id_len);
        client->request = *options->request;
    } else {
        code = aged ? xce_request_new(client, options, &client->request)
                    : make_id(client, &client->request);
        if (code != XCE_OK)
            return code;
    }
    client->request_seen = false;
    message->id.data = client->request.id;
    message->id.len = client->request.id_len;
    message->issued_at_ms = client->request.issued_ms;
    return XCE_OK;
}

void request_answered(struct xce_client *client, const Xce__V1__ReplyInfo *info)
{
    if (info)
        client_saw_time(client, info->now_ms);
}
