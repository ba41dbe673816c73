/* What each call is answered: the one table of methods. Pure but for the map.
 *
 * A call has one reply or error at once, or begins a *walk*: a list that is made piece by piece, as fast as its reader takes
 * it. Errors are those of io.systemd.UserDatabase and org.varlink.service. */
#ifndef XCE_USERDB_ANSWER_H
#define XCE_USERDB_ANSWER_H

#include <stdbool.h>

#include "userdb/leases.h"
#include "userdb/varlink.h"

struct answers {
    struct leases *leases;
    bool enumerate; /* lists of all are given */
};

enum walk_kind {
    WALK_NONE = 0,
    WALK_USERS,
    WALK_GROUPS,
    WALK_MEMBERSHIPS,
};

struct walk {
    enum walk_kind kind;
    uint32_t uid; /* to go on with */
    /* the last one found: it is told when there is another, for all but the last say "continues" */
    struct json *held;
};

/* All zero is the begin. */
void walk_done(struct walk *walk);

/* Add the reply to out, or begin the walk (its kind is WALK_NONE before); for a call without replies only look. Failure
 * sticks to out. */
void answer_call(const struct answers *answers, const struct varlink_call *call, struct buf *out,
                 struct walk *walk);
/* Go on with it, by a piece; at its end its kind is WALK_NONE. */
void answer_walk(const struct answers *answers, struct buf *out, struct walk *walk);

#endif
