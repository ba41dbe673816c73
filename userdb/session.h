/* The conversation with one client: its bytes in, ours out. Knows no socket; pure but for the map.
 *
 *   bytes ── session_feed ─▶ in ── session_work: one call, or a piece of a list ─▶ out ── sent, session_sent
 *
 * One call at a time: while there is something to be sent, or a list is not over, nothing is taken in, so a client that does
 * not read has two bounded buffers and no more. */
#ifndef XCE_USERDB_SESSION_H
#define XCE_USERDB_SESSION_H

#include "userdb/answer.h"

#define SESSION_CALL_MAX 8192  /* bytes of a call; those of nss-systemd are below 512 */
#define SESSION_OUT_FULL 8192  /* with so many to be sent no more of a list is made */
#define SESSION_OUT_MAX  65536 /* of a call that is answered at once: 256 groups of one user */

struct session {
    struct buf in, out;
    struct walk walk;
};

void session_init(struct session *session);
void session_done(struct session *session);

/* Whether bytes may be fed now. */
bool session_hungry(const struct session *session);
/* 0; -EMSGSIZE a call is too long; -ENOMEM. */
int session_feed(struct session *session, const char *bytes, size_t len);
/* Do a piece of what can be done now. 0 there is nothing; 1 something was done; -EBADMSG no call; -ENOMEM. After an error the
 * conversation is over. */
int session_work(struct session *session, const struct answers *answers);

/* So many bytes of out have been sent. */
void session_sent(struct session *session, size_t len);

#endif
