/* libxce: lease uids, resolve what became of them, give them back.
 *
 *     struct xce_client *client;
 *     char why[XCE_MESSAGE_MAX];
 *     if (xce_client_new(NULL, &client, why) != XCE_OK)
 *         return complain(why);
 *     struct xce_spec spec = {.job = "j1", .ttl_ms = 60000};
 *     struct xce_acquire acquire = {.specs = &spec, .n_specs = 1, .wait = true};
 *     struct xce_leases *leases;
 *     if (xce_lease_acquire(client, NULL, &acquire, &leases) != XCE_OK)
 *         complain(xce_client_message(client));
 *     ... leases->items[0].uid ...
 *     xce_free(leases);
 *     xce_client_free(client);
 *
 * Calls block, and never beyond their deadline; the same calls are made from an event loop with xce_call.done, see "for an
 * event loop" in client_base.h. A call that changes something bears a request id; while the deadline is
 * not over it is sent again under that same id when a server can not be reached or the connection breaks, so it happens
 * once and is answered once, whatever became of the first copy.
 *
 * Units: times that end in _ms are milliseconds; wall times are ms since 1970-01-01T00:00:00Z; cluster time (now_ms of a
 * result) is a clock of its own that only leased keeps. Strings are UTF-8 and end in NUL; those of results are never NULL
 * ("" = none), those of requests may be NULL (= "").
 * Errors: a call gives an enum xce_code; xce_client_message says the rest in one sentence. Results are set on success only.
 * Ownership: what a request points to is borrowed for the call. Each result is one block; xce_free frees it with all that
 * it points to. It does not depend on the client.
 * Threads: a client is for one thread at a time; different clients do not know of each other. No signal handler, no
 * thread and no global state is made; SIGPIPE is not raised. A client does not survive fork(): make another one.
 * Descriptors are close-on-exec. */
#ifndef XCE_CLIENT_H
#define XCE_CLIENT_H

#include "xce/client_base.h"
#include "xce/client_cluster.h"
#include "xce/client_lease.h"
#include "xce/client_rbac.h"

#endif
