#include "client/op.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/call.h"
#include "client/client.h"
#include "client/result.h"
#include "common/err.h"
#include "common/pb.h"
#include "xce/v1/rbac.pb-c.h"

enum {
    ID_BYTES = 16,
    /* How often a caller is asked whether he gives up. */
    GIVE_UP_MS = 100,
    /* A packed RequestId, with its tag and length. */
    ID_MOST = 2 + 2 + XCE_REQUEST_ID_MAX + 11,
    /* Field 1, length-delimited. */
    ID_TAG = 0x0a,
};

struct xce_op {
    LIST_ENTRY(xce_op) link;
    struct xce_client *client;
    struct op_spec spec; /* its request is packed, and may be gone */
    void *result;
    uint8_t *bytes; /* the request, with room for its id */
    size_t len;
    int64_t deadline_ms;
    struct call *call;
    struct xce_request request; /* the id; id_len 0 = none yet */
    bool seen;                  /* a server may have seen it */
    bool inner;                 /* of a call that blocks: done is ours */
    xce_done_fn done;
    void *arg;
};

static void op_free(struct xce_op *op)
{
    LIST_REMOVE(op, link);
    call_abandon(op->call);
    xce_free(op->result);
    free(op->bytes);
    free(op);
}

/* What xce_client_request will say. */
static void note_request(const struct xce_op *op)
{
    struct xce_client *client = op->client;

    if (op->spec.kind == OP_READ || op->spec.kind == OP_ID)
        return;
    client->request = op->request;
    client->request_seen = op->seen;
}

/* The client's message is set. The op is gone when done is told: nothing can be done to it any more. */
static void finish(struct xce_op *op, int code)
{
    struct xce_client *client = op->client;
    void *result = code == XCE_OK ? op->result : NULL, *arg = op->arg;
    xce_done_fn done = op->done;
    bool inner = op->inner;

    note_request(op);
    if (code == XCE_OK) {
        op->result = NULL;
        client->message[0] = 0;
    }
    op_free(op);
    client->calling_back += !inner;
    done(client, code, result, arg);
    client->calling_back -= !inner;
}

/* ---- the call itself ---- */

static void answered(const struct call_end *end, void *arg)
{
    struct xce_op *op = arg;
    struct xce_client *client = op->client;
    ProtobufCMessage *reply;
    struct err err = {0};
    int code = end->code, r;

    op->call = NULL;
    op->seen = end->seen;
    if (code != XCE_OK) {
        finish(op, client_fail(client, code, "%s", end->message));
        return;
    }
    r = pb_unpack(result_arena(op->result), op->spec.reply, end->reply, end->reply_len, &reply,
                  &err);
    if (r < 0)
        code = client_fail(client, XCE_FAILED, "the server's answer: %s",
                           err.text[0] ? err.text : err_text(r));
    else
        code = op->spec.take(client, reply, op->result);
    finish(op, code);
}

static int start_call(struct xce_op *op, const struct call_spec *spec, call_done_fn done)
{
    struct call_spec timed = *spec;
    int r;

    timed.timeout_ms = op->deadline_ms - loop_now_fresh_ms();
    if (timed.timeout_ms < 1)
        timed.timeout_ms = 1;
    r = call_start(op->client, &timed, done, op, &op->call);
    if (r < 0)
        return client_fail(op->client, XCE_FAILED, "the call can not be made: %s", err_text(r));
    return XCE_OK;
}

/* ---- request ids ---- */

/* Without a time if the one that is known is old: a grant asks first, other changes do not need one. */
static int make_id(struct xce_client *client, struct xce_request *ret)
{
    struct xce_request request = {.id_len = ID_BYTES};

    /* 16 bytes come whole, or not at all before the kernel's pool is ready. */
    if (getrandom(request.id, ID_BYTES, 0) != ID_BYTES)
        return client_fail(client, XCE_FAILED, "no random bytes for a request id: %s",
                           err_text(errno));
    request.issued_ms = client_time_is_fresh(client) ? client->cluster_ms : 0;
    *ret = request;
    return XCE_OK;
}

/* Protobuf does not mind the order of fields. */
static void append_id(struct xce_op *op)
{
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    size_t len;

    id.id.data = op->request.id;
    id.id.len = op->request.id_len;
    id.issued_at_ms = op->request.issued_ms;
    len = xce__v1__request_id__pack(&id, op->bytes + op->len + 2);
    assert(len < 0x80);
    op->bytes[op->len] = ID_TAG;
    op->bytes[op->len + 1] = (uint8_t)len;
    op->len += 2 + len;
}

/* All that the request needs is known. */
static int go(struct xce_op *op)
{
    struct call_spec spec = {.path = op->spec.path, .request = op->bytes};
    int code = XCE_OK;

    if (op->spec.kind != OP_READ) {
        if (!op->request.id_len)
            code = make_id(op->client, &op->request);
        if (code != XCE_OK)
            return code;
        append_id(op);
    }
    spec.request_len = op->len;
    return start_call(op, &spec, answered);
}

static void time_answered(const struct call_end *end, void *arg)
{
    struct xce_op *op = arg;
    struct xce_client *client = op->client;
    Xce__V1__CheckReply *reply;
    int code = end->code;

    op->call = NULL;
    if (code != XCE_OK) {
        finish(op, client_fail(client, code, "%s", end->message));
        return;
    }
    reply = xce__v1__check_reply__unpack(NULL, end->reply_len, end->reply);
    if (!reply || !reply->info) {
        if (reply)
            xce__v1__check_reply__free_unpacked(reply, NULL);
        finish(op, client_fail(client, XCE_FAILED, "the server's answer bears no cluster time"));
        return;
    }
    client_saw_info(client, reply->info);
    xce__v1__check_reply__free_unpacked(reply, NULL);
    code = op->spec.kind == OP_ID ? make_id(client, op->result) : go(op);
    if (code != XCE_OK || op->spec.kind == OP_ID)
        finish(op, code);
}

/* Whether we may acquire: the cheap call that everybody may make and whose reply bears the cluster time. */
static int ask_time(struct xce_op *op)
{
    static const char method[] = "LeaseService/Acquire";
    struct call_spec spec = {.path = "/xce.v1.RbacService/Check"};
    Xce__V1__CheckRequest request = XCE__V1__CHECK_REQUEST__INIT;
    uint8_t bytes[64];

    request.method.data = (uint8_t *)(uintptr_t)method;
    request.method.len = sizeof method - 1;
    spec.request = bytes;
    spec.request_len = xce__v1__check_request__pack(&request, bytes);
    return start_call(op, &spec, time_answered);
}

/* ---- beginning ---- */

static int take_id(struct xce_op *op, const struct xce_request *request)
{
    if (!request)
        return XCE_OK;
    if (request->id_len < XCE_REQUEST_ID_MIN || request->id_len > XCE_REQUEST_ID_MAX)
        return client_fail(op->client, XCE_INVALID, "a request id has %d to %d bytes, not %zu",
                           XCE_REQUEST_ID_MIN, XCE_REQUEST_ID_MAX, request->id_len);
    op->request = *request;
    return XCE_OK;
}

static int pack(struct xce_op *op, const ProtobufCMessage *request)
{
    size_t len = request ? protobuf_c_message_get_packed_size(request) : 0;

    op->bytes = malloc(len + ID_MOST);
    if (!op->bytes)
        return client_fail(op->client, XCE_FAILED, "out of memory");
    if (request)
        op->len = protobuf_c_message_pack(request, op->bytes);
    return XCE_OK;
}

static int begin(struct xce_op *op, const struct xce_call *options)
{
    enum op_kind kind = op->spec.kind;
    int code = pack(op, op->spec.request);

    op->spec.request = NULL;
    if (code == XCE_OK && options && kind != OP_READ && kind != OP_ID)
        code = take_id(op, options->request);
    if (code != XCE_OK)
        return code;
    if (kind == OP_ID ||
        (kind == OP_GRANT && !op->request.id_len && !client_time_is_fresh(op->client)))
        return ask_time(op);
    return go(op);
}

/* result is taken over. XCE_OK: done will be told, once. */
static int op_begin(struct xce_client *client, const struct xce_call *options,
                    const struct op_spec *spec, void *result, struct xce_op **ret)
{
    struct xce_op *op = calloc(1, sizeof *op);
    int code;

    if (!op || !result) {
        free(op);
        xce_free(result);
        return client_fail(client, XCE_FAILED, "out of memory");
    }
    op->client = client;
    op->spec = *spec;
    op->result = result;
    op->deadline_ms = loop_now_fresh_ms() + client_timeout(client, options);
    LIST_INSERT_HEAD(&client->ops, op, link);
    if (spec->kind == OP_CHANGE || spec->kind == OP_GRANT)
        client->request_seen = false;
    code = begin(op, options);
    if (code != XCE_OK) {
        op_free(op);
        return code;
    }
    *ret = op;
    return XCE_OK;
}

void xce_op_cancel(struct xce_op *op)
{
    if (!op)
        return;
    if (op->call)
        op->seen = call_seen(op->call);
    note_request(op);
    op_free(op);
}

void op_cancel_all(struct xce_client *client)
{
    struct xce_op *op;

    while ((op = LIST_FIRST(&client->ops))) {
        if (op->call)
            op->seen = call_seen(op->call);
        finish(op, client_fail(client, XCE_CANCELLED, "the client was freed"));
    }
}

/* ---- for a caller that waits ---- */

struct wait {
    bool over;
    int code;
    void *result;
    int64_t asked_ms; /* when the caller was asked last whether he gives up */
};

static void wait_over(struct xce_client *client, int code, void *result, void *arg)
{
    struct wait *wait = arg;

    (void)client;
    wait->over = true;
    wait->code = code;
    wait->result = result;
}

/* Ask the caller, not more often than was promised: a step of the loop may end early. */
static bool gives_up(struct wait *wait, const struct xce_call *options)
{
    int64_t now_ms = loop_now_fresh_ms();

    if (!options || !options->give_up || now_ms - wait->asked_ms < GIVE_UP_MS)
        return false;
    wait->asked_ms = now_ms;
    return options->give_up(options->give_up_arg);
}

static int run_and_wait(struct xce_client *client, const struct xce_call *options,
                        struct xce_op *op, void *ret)
{
    struct wait wait = {.asked_ms = loop_now_fresh_ms()};

    op->inner = true;
    op->done = wait_over;
    op->arg = &wait;
    while (!wait.over) {
        if (!client_step(client, options && options->give_up ? GIVE_UP_MS : 1000))
            return XCE_CANCELLED;
        if (!wait.over && gives_up(&wait, options)) {
            xce_op_cancel(op);
            return client_fail(client, XCE_CANCELLED, "given up");
        }
    }
    if (wait.code == XCE_OK)
        memcpy(ret, &wait.result, sizeof wait.result);
    return wait.code;
}

/* Messages of reads that need no leader have a field of this name. */
static bool make_stale(const ProtobufCMessage *request)
{
    const protobuf_c_boolean *stale = pb_flag(request, "stale");

    /* The verb's own, on its stack. */
    if (stale)
        *(protobuf_c_boolean *)(uintptr_t)stale = true;
    return stale != NULL;
}

int op_run(struct xce_client *client, const struct xce_call *options, const struct op_spec *spec,
           void *result, void *ret)
{
    bool waits = !options || !options->done;
    struct xce_op *op = NULL;
    int code;

    client->message[0] = 0;
    if (client->closing || (waits && client->calling_back)) {
        xce_free(result);
        return client_fail(client, client->closing ? XCE_CANCELLED : XCE_INVALID,
                           client->closing ? "the client is being freed"
                                           : "a call that waits was made inside a callback");
    }
    if (options && options->stale &&
        (spec->kind != OP_READ || !spec->request || !make_stale(spec->request))) {
        xce_free(result);
        return client_fail(client, XCE_INVALID, "stale: this is no read that may be old");
    }
    code = op_begin(client, options, spec, result, &op);
    if (code != XCE_OK)
        return code;
    if (waits)
        return run_and_wait(client, options, op, ret);
    op->done = options->done;
    op->arg = options->done_arg;
    if (options->op)
        *options->op = op;
    return XCE_OK;
}

int xce_request_new(struct xce_client *client, const struct xce_call *call, struct xce_request *ret)
{
    static const struct op_spec spec = {.kind = OP_ID};
    struct xce_request *request;
    int code;

    if (!(call && call->done) && client_time_is_fresh(client))
        return make_id(client, ret);
    code = op_run(client, call, &spec, result_new(sizeof *request), &request);
    if (code == XCE_OK && !(call && call->done)) {
        *ret = *request;
        xce_free(request);
    }
    return code;
}

void xce_client_request(const struct xce_client *client, struct xce_request *ret)
{
    *ret = client->request_seen ? client->request : (struct xce_request){0};
}
