/* Every method there is, and what the built-in roles may do with it: one row each. Constant.
 *
 * A method that has no row here can not be served (rpc/method.c), so a new one is nobody's until somebody decided. */
#ifndef XCE_LEASED_RBAC_METHODS_H
#define XCE_LEASED_RBAC_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define METHODS_MAX 96

/* The one that somebody may call who has no certificate yet: what he shows is a token. */
#define METHODS_OF_STRANGERS "NodeService/Enroll"

/* The one that every user may call, about himself, whatever the rules say: so he learns what he may, and the cluster time,
 * which a request id of LeaseService/Acquire bears. */
#define METHODS_OF_ALL_USERS "RbacService/Check"

enum policy_scope {
    SCOPE_NONE = 0, /* may not call it */
    SCOPE_OWN = 1,  /* sees and changes what is his own; the rest looks absent */
    SCOPE_ALL = 2,
};

enum builtin_role {
    BUILTIN_ADMIN = 0,
    BUILTIN_OPERATOR,
    BUILTIN_SCHEDULER,
    BUILTIN_USER,
    BUILTIN_NODE,
    N_BUILTIN_ROLES,
};

struct method_row {
    const char *name; /* "LeaseService/Get" */
    bool all_only;    /* nothing of it is anybody's own: scope own is no right */
    bool replicas;    /* between replicas: theirs alone, no role has it, and no rule can give it */
    uint8_t scopes[N_BUILTIN_ROLES];
};

/* What a call of it is to the audit file. */
enum method_kind {
    METHOD_READ = 0,
    METHOD_USE = 1, /* changes something of a lease's holder */
    /* an administrator's act; what is not known to be one of the others is one, too */
    METHOD_ACT = 2,
};

enum method_kind methods_kind(const char *name);

/* Row i, NULL past the end; by name. */
const struct method_row *methods_at(size_t i);
/* The index; METHODS_MAX = there is no such method. O(log n). */
size_t methods_find(const char *name);

/* "admin" ... */
const char *methods_role_name(enum builtin_role role);
/* N_BUILTIN_ROLES = it is none of them. */
enum builtin_role methods_role_find(const void *name, size_t len);

/* Whether a right's text ("LeaseService/Get", "LeaseService/" and an asterisk, or an asterisk alone) names the method. */
bool methods_match(const void *right, size_t len, const char *method);

#endif
