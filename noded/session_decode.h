/* What comes down the stream, checked and told piece by piece. Internal to session. */
#ifndef XCE_NODED_SESSION_DECODE_H
#define XCE_NODED_SESSION_DECODE_H

#include "common/err.h"
#include "noded/session.h"
#include "xce/v1/node.pb-c.h"

/* Tell the pieces of a message of changes to ops. node: our own name. 0; -EBADMSG and err: not sound, some may have been told
 * (they were sound). */
int session_decode_changes(const Xce__V1__Changes *changes, const char *node,
                           const struct session_ops *ops, void *arg, struct err *err);
int session_decode_welcome(const Xce__V1__Welcome *message, struct session_welcome *ret,
                           struct err *err);
int session_decode_look_ahead(const Xce__V1__LookAhead *message, const struct session_ops *ops,
                              void *arg, struct err *err);

#endif
