/* Results as the public header shows them: one block each, made out of a message of the API. */
#ifndef XCE_CLIENT_RESULT_H
#define XCE_CLIENT_RESULT_H

#include <stddef.h>

#include "common/pb.h"
#include "xce/client.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"
#include "xce/v1/pool.pb-c.h"

/* A zeroed object of size bytes that xce_free ends, with an arena for what it points to. NULL = no memory. */
void *result_new(size_t size);
struct pb_arena *result_arena(void *result);

/* Fill the public form. Strings are shared with the message, so it must live in the same arena. 0; -ENOMEM.
 * message may be NULL where the server left it out: everything is empty then. */
int result_lease(struct pb_arena *arena, const Xce__V1__Lease *message, struct xce_lease *ret);
void result_past(const Xce__V1__HistoryEntry *message, struct xce_past *ret);
int result_pool(struct pb_arena *arena, const Xce__V1__Pool *message, struct xce_pool *ret);
void result_node(const Xce__V1__Node *message, struct xce_node *ret);

#endif
