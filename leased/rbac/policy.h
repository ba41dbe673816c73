/* Who may call what, on whose objects. Pure: values in, a scope out.
 *
 * The dispatcher asks once, before any handler; handlers only narrow their view to the scope they are given. A method
 * that no role could ever name is refused when the table is made (rpc/method.c).
 * Built in until rules are replicated state: root on the machine's own socket is admin, everybody else is user. */
#ifndef XCE_LEASED_RBAC_POLICY_H
#define XCE_LEASED_RBAC_POLICY_H

#include <stdbool.h>
#include <stdint.h>

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

/* Whether these are one: the same uid and the same name. So a uid that was given to somebody else, and a name that has
 * another uid here, own nothing of what was. An owner who never had a name ("#1000") is whoever the kernel says has that
 * uid; over TLS he is nobody. docs/decisions/0007. */
bool policy_owns(const struct principal *principal, const char *owner_name, uint32_t owner_uid);

/* Whether an object of that owner is visible in scope. */
bool policy_sees(const struct principal *principal, enum policy_scope scope, const char *owner_name,
                 uint32_t owner_uid);

#endif
