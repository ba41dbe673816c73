/* Varlink: calls are JSON objects that end in a NUL byte, and so are replies. Here single ones; the stream of them is in
 * session.h. Pure. */
#ifndef XCE_USERDB_VARLINK_H
#define XCE_USERDB_VARLINK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_read.h"

struct varlink_call {
    struct json_node *document;
    const char *method;                 /* "io.systemd.UserDatabase.GetUserRecord" */
    const struct json_node *parameters; /* an object, or NULL: there are none */
    bool more;                          /* several replies are welcome */
    bool oneway;                        /* none is */
};

/* Read a call, without its NUL. Strings and parameters live until varlink_call_done. 0; -EBADMSG it is none; -ENOMEM. */
int varlink_call_read(const char *bytes, size_t len, struct varlink_call *ret);
void varlink_call_done(struct varlink_call *call);
AUTO_DEFINE(struct varlink_call, varlink_call_done);

/* "io.systemd.UserDatabase" of a method of it, "" of a method without dots. Bytes of the name; the last part is behind the
 * dot there. */
size_t varlink_interface_len(const char *method);

/* Add a reply with its NUL. parameters are given away; NULL, for want of memory, spoils it. Failure sticks to out. */
void varlink_reply(struct buf *out, struct json *parameters, bool continues);
void varlink_error(struct buf *out, const char *error);
/* The same with a parameter, a text. */
void varlink_error_about(struct buf *out, const char *error, const char *key, const char *value);

#define VARLINK_INVALID_PARAMETER   "org.varlink.service.InvalidParameter"
#define VARLINK_METHOD_NOT_FOUND    "org.varlink.service.MethodNotFound"
#define VARLINK_INTERFACE_NOT_FOUND "org.varlink.service.InterfaceNotFound"
#define VARLINK_EXPECTED_MORE       "org.varlink.service.ExpectedMore"

#endif
