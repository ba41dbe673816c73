#include "common/json_read.h"

#include <errno.h>
#include <jansson.h>

/* A node is jansson's own value: nothing is wrapped, so a part costs nothing. */
static json_t *inner(const struct json_node *node)
{
    return (json_t *)node;
}

int json_read(const char *bytes, size_t len, struct json_node **ret)
{
    json_error_t error;
    json_t *value = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &error);

    if (!value)
        return json_error_code(&error) == json_error_out_of_memory ? -ENOMEM : -EINVAL;
    *ret = (struct json_node *)value;
    return 0;
}

void json_node_free(struct json_node *document)
{
    json_decref(inner(document));
}

bool json_node_is_object(const struct json_node *node)
{
    return json_is_object(inner(node));
}

bool json_node_is_null(const struct json_node *node)
{
    return json_is_null(inner(node));
}

const struct json_node *json_node_member(const struct json_node *node, const char *key)
{
    return (const struct json_node *)json_object_get(inner(node), key);
}

const char *json_node_next(const struct json_node *node, const char *key)
{
    json_t *object = inner(node);
    void *at = key ? json_object_iter_next(object, json_object_iter_at(object, key))
                   : json_object_iter(object);

    return at ? json_object_iter_key(at) : NULL;
}

bool json_node_string(const struct json_node *node, const char **ret)
{
    if (!json_is_string(inner(node)))
        return false;
    *ret = json_string_value(inner(node));
    return true;
}

bool json_node_u64(const struct json_node *node, uint64_t *ret)
{
    if (!json_is_integer(inner(node)) || json_integer_value(inner(node)) < 0)
        return false;
    *ret = (uint64_t)json_integer_value(inner(node));
    return true;
}

bool json_node_bool(const struct json_node *node, bool *ret)
{
    if (!json_is_boolean(inner(node)))
        return false;
    *ret = json_is_true(inner(node));
    return true;
}
