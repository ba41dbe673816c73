/* Who may call what, on whose objects. Pure: values in, a scope out.
 *
 * The dispatcher asks once, before any handler; handlers only narrow their view to the scope they are given. A method
 * that no role could ever name is refused when the table is made (rpc/method.c).
 * Built in until rules are replicated state: root on the machine's own socket is admin, everybody else is user. */
#ifndef XCE_LEASED_RBAC_POLICY_H
#define XCE_LEASED_RBAC_POLICY_H

#include <stdbool.h>

#include "leased/rbac/principal.h"

enum policy_scope {
    SCOPE_NONE = 0, /* may not call it */
    SCOPE_OWN = 1,  /* sees and changes what is his own; the rest looks absent */
    SCOPE_ALL = 2,
};

/* The widest scope in which principal may call method ("LeaseService/Get"). */
enum policy_scope policy_decide(const struct principal *principal, const char *method);

/* Whether some role names the method; one that none does can not be registered. */
bool policy_knows(const char *method);

/* Whether an object of that owner is visible in scope. */
bool policy_sees(const struct principal *principal, enum policy_scope scope, uint32_t owner_uid);

#endif
