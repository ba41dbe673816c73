/* Reading JSON that others wrote. The other half of common/json.h, and with it the home of jansson.
 *
 * A document is read whole; its parts are borrowed from it and die with it. What a part is asked for and is not, is simply
 * not there: so a look for a key three levels down needs no checks on the way. NULL is taken everywhere.
 * Depth is bounded by jansson (2,048); how many bytes there may be is the caller's to bound. One thread per document. */
#ifndef XCE_COMMON_JSON_READ_H
#define XCE_COMMON_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"

/* A value of a document, or the document itself. */
struct json_node;

/* Read the one object or array that the bytes are. Bytes that are no UTF-8, a key twice in an object, U+0000 in a string, an
 * integer above 63 bits, anything behind: -EINVAL; -ENOMEM. The document is the caller's. */
int json_read(const char *bytes, size_t len, struct json_node **ret);
void json_node_free(struct json_node *document);
AUTO_DEFINE_PTR(struct json_node, json_node_free);

bool json_node_is_object(const struct json_node *node);
bool json_node_is_null(const struct json_node *node);

/* The value of a key; NULL: there is none, or node is no object. */
const struct json_node *json_node_member(const struct json_node *node, const char *key);
/* The key behind this one, NULL for the first; NULL when there is none. In the order in which they were written. */
const char *json_node_next(const struct json_node *node, const char *key);

/* Whether it is one, and then its value. A string ends in NUL and has none inside. */
bool json_node_string(const struct json_node *node, const char **ret);
bool json_node_u64(const struct json_node *node, uint64_t *ret);
bool json_node_bool(const struct json_node *node, bool *ret);

#endif
