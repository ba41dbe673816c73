#include "userdb/varlink.h"

#include <errno.h>
#include <string.h>

static bool flag(const struct json_node *document, const char *key, bool *ret)
{
    const struct json_node *node = json_node_member(document, key);

    return !node || json_node_is_null(node) || json_node_bool(node, ret);
}

static bool read_parts(struct varlink_call *call)
{
    call->parameters = json_node_member(call->document, "parameters");
    if (json_node_is_null(call->parameters))
        call->parameters = NULL;
    return json_node_string(json_node_member(call->document, "method"), &call->method) &&
           (!call->parameters || json_node_is_object(call->parameters)) &&
           flag(call->document, "more", &call->more) &&
           flag(call->document, "oneway", &call->oneway);
}

int varlink_call_read(const char *bytes, size_t len, struct varlink_call *ret)
{
    struct varlink_call call = {0};
    int r = json_read(bytes, len, &call.document);

    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    if (!read_parts(&call)) {
        varlink_call_done(&call);
        return -EBADMSG;
    }
    *ret = call;
    return 0;
}

void varlink_call_done(struct varlink_call *call)
{
    json_node_free(call->document);
    *call = (struct varlink_call){0};
}

size_t varlink_interface_len(const char *method)
{
    const char *dot = strrchr(method, '.');

    return dot ? (size_t)(dot - method) : 0;
}

/* ---- replies ---- */

static void add(struct buf *out, struct json *reply)
{
    int r = json_print(reply, JSON_LINE, out);

    json_free(reply);
    buf_addc(out, '\0');
    if (r < 0 && !buf_error(out))
        out->error = r;
}

void varlink_reply(struct buf *out, struct json *parameters, bool continues)
{
    struct json *reply = json_new_object();

    json_set(reply, "parameters", parameters);
    if (continues)
        json_set_bool(reply, "continues", true);
    add(out, reply);
}

static void add_error(struct buf *out, const char *error, struct json *parameters)
{
    struct json *reply = json_new_object();

    json_set_string(reply, "error", error);
    json_set(reply, "parameters", parameters);
    add(out, reply);
}

void varlink_error(struct buf *out, const char *error)
{
    add_error(out, error, json_new_object());
}

void varlink_error_about(struct buf *out, const char *error, const char *key, const char *value)
{
    struct json *parameters = json_new_object();

    json_set_string(parameters, key, value);
    add_error(out, error, parameters);
}
