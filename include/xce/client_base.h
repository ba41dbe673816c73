/* libxce: the client itself, how calls are made and how they fail. Read client.h first. */
#ifndef XCE_CLIENT_BASE_H
#define XCE_CLIENT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XCE_API __attribute__((visibility("default")))

struct xce_client;
struct xce_watch;
struct xce_op;

/* Numbers never change. 0 to 6 are also what leasectl exits with; with the others it exits 1. */
enum xce_code {
    XCE_OK = 0,
    /* Something inside; the message says what. Of a change that a server has seen (xce_client_request): the outcome is not
     * known. */
    XCE_FAILED = 1,
    /* The request can not be right, whatever the state. */
    XCE_INVALID = 2,
    /* Not there, or not yours to see or do. */
    XCE_NOT_FOUND = 3,
    /* No server could be reached, or none leads. Of a change that a server has seen: the outcome is not known. */
    XCE_UNREACHABLE = 4,
    /* The deadline passed. Of a change: the outcome is not known; repeat it under its id (xce_client_request). */
    XCE_TIMEOUT = 5,
    /* No free uid, a quota, a full disk, a limit. */
    XCE_EXHAUSTED = 6,
    /* (owner, job), pool or node: there is one of that name. */
    XCE_EXISTS = 7,
    /* Not in this state: an overlap, a node that is not ready, a lease that has gone on since. */
    XCE_PRECONDITION = 8,
    /* This server does not know it. */
    XCE_UNSUPPORTED = 9,
    /* The caller gave it up (xce_call.give_up); of a change: the outcome is not known. */
    XCE_CANCELLED = 10,
};

/* "ok", "failed", "invalid_argument", "not_found", "unavailable", "deadline_exceeded", "resource_exhausted",
 * "already_exists", "failed_precondition", "unimplemented", "cancelled". Static; any thread. */
XCE_API const char *xce_code_name(int code);

#define XCE_MESSAGE_MAX 512 /* bytes with NUL */

/* ---- the client ---- */

#define XCE_SERVER_DEFAULT "unix:/run/xce/leased.sock"
#define XCE_CONF_DEFAULT   "/etc/xce/client.conf"

/* All zero = the defaults. */
struct xce_client_options {
    /* Where leased is: "unix:/run/xce/leased.sock", or "ctl1:7623" over TLS (then the configuration or XCE_CERT, XCE_KEY
     * and XCE_CA name the files of a certificate, its key, and the CA of the servers); several, any of which may be asked,
     * with commas between. NULL: the environment variable XCE_SERVER (not in a set-id process), else Server= of the
     * configuration, else XCE_SERVER_DEFAULT. */
    const char *server;
    /* NULL: XCE_CONF_DEFAULT, which may be missing; else it must be there. */
    const char *conf;
    /* Deadline of a call that names none. 0: Timeout= of the configuration, else 30 s. */
    int64_t timeout_ms;
    /* Give up with XCE_UNREACHABLE when for so long no server could be reached or none led, although the deadline is not
     * over. 0: ConnectTimeout= of the configuration, else 10 s. */
    int64_t patience_ms;
};

/* Make a client; nothing is connected yet. options may be NULL; they are copied.
 * XCE_OK; XCE_INVALID (server, configuration), XCE_FAILED (memory, descriptors): why (may be NULL) holds a sentence. */
XCE_API int xce_client_new(const struct xce_client_options *options, struct xce_client **ret,
                           char why[XCE_MESSAGE_MAX]);

/* Close what is open, watches too; calls under way end with XCE_CANCELLED (their done is called). NULL is fine. */
XCE_API void xce_client_free(struct xce_client *client);

/* What the last call that failed had to say: one sentence, no control characters, at most XCE_MESSAGE_MAX - 1 bytes. Dies
 * with the next call on this client. Never NULL. */
XCE_API const char *xce_client_message(const struct xce_client *client);

/* The servers as they were configured. Lives as long as the client. */
XCE_API const char *xce_client_servers(const struct xce_client *client);

/* Free a result of any call below. NULL is fine. Any thread. */
XCE_API void xce_free(void *result);

/* ---- request ids ---- */

#define XCE_REQUEST_ID_MIN 16
#define XCE_REQUEST_ID_MAX 64

/* The same id again, from the same user, gets the same answer for ten minutes, less when tens of thousands a
 * second come; with another content it is XCE_INVALID. Make it right before the call: issued_ms lets leased
 * refuse a copy that comes so late that the id is forgotten (XCE_PRECONDITION). */
struct xce_request {
    uint8_t id[XCE_REQUEST_ID_MAX];
    size_t id_len;     /* XCE_REQUEST_ID_MIN to XCE_REQUEST_ID_MAX bytes of any value */
    int64_t issued_ms; /* cluster time when the id was made; 0 = not known */
};

/* How a call ended that was begun with xce_call.done. code: enum xce_code; result: what *ret would be set to, yours to
 * xce_free; NULL unless code is XCE_OK. xce_client_message and xce_client_request speak of this call while it runs. */
typedef void (*xce_done_fn)(struct xce_client *client, int code, void *result, void *arg);

/* How a call is made. NULL = all zero. */
struct xce_call {
    int64_t timeout_ms; /* deadline from now; 0 = the client's */
    /* Reads of leases, nodes and pools only, else XCE_INVALID: what the server that is asked knows will do, old or not. It
     * needs no leader and no majority then; the result's revision says how far it goes. */
    bool stale;
    /* Changes only. NULL: one is made for this call. Give one that was kept to repeat a call whose outcome is unknown. */
    const struct xce_request *request;
    /* NULL, or asked ten times a second while the call waits: true ends it with XCE_CANCELLED. Makes no call itself. */
    bool (*give_up)(void *arg);
    void *give_up_arg;
    /* NULL: the call waits for its answer. Else it only begins: XCE_OK says that done will be called, exactly once, from
     * xce_client_dispatch, with the deadline as the latest time; ret is not used. Any other code: it has not begun, and
     * done will not be called. give_up is not asked. */
    xce_done_fn done;
    void *done_arg;
    /* NULL, or set to the call under way, for xce_op_cancel. It is gone when done is called. */
    struct xce_op **op;
};

/* ---- for an event loop ----
 *
 * Any number of calls may be under way on one client, each begun with xce_call.done. Watches are read with
 * xce_watch_next(watch, 0, ...) until it says XCE_TIMEOUT, after each dispatch and after each call that waits: events may
 * have come meanwhile.
 *
 *     poll(&(struct pollfd){.fd = xce_client_fd(client), .events = POLLIN}, 1, -1);
 *     xce_client_dispatch(client);
 *
 * In done: further calls with done are fine, so are xce_op_cancel of other calls and xce_client_free, which then takes
 * place when the callback has returned. A call that waits, or a dispatch, is refused there with XCE_INVALID. A call that
 * waits, made elsewhere, lets the others go on: their done may run inside it. */

/* Readable when there is something to dispatch, a deadline too. Borrowed: poll it (level-triggered), nothing else. Lives
 * as long as the client. */
XCE_API int xce_client_fd(const struct xce_client *client);

/* Do what is ready; never waits. XCE_OK; XCE_CANCELLED: a callback has freed the client, it is gone. */
XCE_API int xce_client_dispatch(struct xce_client *client);

/* Give up a call that is under way: done is not called any more. Of a change: the outcome is not known, and
 * xce_client_request says its id. NULL does nothing. */
XCE_API void xce_op_cancel(struct xce_op *op);

/* Make a request id that may be kept before the call is made, so that also a crash of the caller loses nothing. May ask a
 * server for the cluster time, in the way of call (its request is not used). XCE_OK; XCE_UNREACHABLE, XCE_TIMEOUT,
 * XCE_FAILED, XCE_CANCELLED. */
XCE_API int xce_request_new(struct xce_client *client, const struct xce_call *call,
                            struct xce_request *ret);

/* The id that the last changing call on this client was made under, if a server may have seen it; id_len 0 = none has, there
 * is nothing to repeat. */
XCE_API void xce_client_request(const struct xce_client *client, struct xce_request *ret);

#ifdef __cplusplus
}
#endif

#endif
