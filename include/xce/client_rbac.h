/* libxce: who may do what, for administrators. Read client.h first. */
#ifndef XCE_CLIENT_RBAC_H
#define XCE_CLIENT_RBAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xce/client_base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum xce_scope {
    XCE_SCOPE_NONE = 0,
    XCE_SCOPE_OWN = 1, /* what is one's own; the rest looks absent */
    XCE_SCOPE_ALL = 2,
};
/* "none", "own", "all"; "unknown". Static. */
XCE_API const char *xce_scope_word(int scope);

struct xce_right {
    /* "LeaseService/Get"; with an asterisk for the method all of that service; "*" alone: all there are */
    const char *method;
    int scope; /* enum xce_scope: own or all */
};

struct xce_role {
    const char *name;
    const struct xce_right *rights;
    size_t n_rights;
    bool builtin; /* of xce_rbac_roles; else false */
    bool yours;   /* likewise: the caller has it */
};

enum xce_subject {
    XCE_SUBJECT_LOCAL = 1, /* a user on leased's own machine, by name; "*" = every one */
    XCE_SUBJECT_USER = 2,  /* a user by certificate, by CN; "*" = every one */
    XCE_SUBJECT_GROUP = 3, /* every user whose certificate has this O */
};
/* "local", "user", "group"; "unknown". Static. */
XCE_API const char *xce_subject_word(int subject);

struct xce_binding {
    int subject; /* enum xce_subject */
    const char *name;
    const char *const *roles;
    size_t n_roles;
};

/* At most 64 roles of 256 rights, 1024 bindings of 16 roles. Root of leased's own machine and nodes are in no binding. */
struct xce_rules {
    uint64_t revision; /* 0 = none were ever set: these are the defaults */
    const struct xce_role *roles;
    size_t n_roles;
    const struct xce_binding *bindings;
    size_t n_bindings;
};

/* The rules in force. */
XCE_API int xce_rbac_get(struct xce_client *client, const struct xce_call *call,
                         struct xce_rules **ret);
/* Replace them all, if rules->revision is still theirs. XCE_PRECONDITION: it is not, read again; or the caller could not
 * change the rules any more under these. XCE_INVALID: the message names the place. */
XCE_API int xce_rbac_set(struct xce_client *client, const struct xce_call *call,
                         const struct xce_rules *rules, struct xce_rules **ret);

struct xce_roles {
    const struct xce_role *items;
    size_t n;
};

/* The built-in roles and the others; who may not see all sees those that he has. */
XCE_API int xce_rbac_roles(struct xce_client *client, const struct xce_call *call,
                           struct xce_roles **ret);

enum xce_principal {
    XCE_PRINCIPAL_SELF = 0, /* the caller */
    XCE_PRINCIPAL_ROOT = 1, /* root of leased's own machine */
    XCE_PRINCIPAL_LOCAL = 2,
    XCE_PRINCIPAL_USER = 3,
    XCE_PRINCIPAL_NODE = 4,
};

struct xce_question {
    int principal; /* enum xce_principal */
    const char *name;
    const char *const *groups; /* of a user */
    size_t n_groups;
    const char *method;
    const char *owner; /* whose object; NULL = his own */
};

struct xce_decision {
    bool allowed;
    int scope;           /* enum xce_scope: of the method */
    const char *subject; /* of the binding that decided: "group:hpc", "root", "node"; "" = none */
    const char *role;
    const char *right; /* of the role: "LeaseService/Get" */
};

/* Whether somebody may; about others only for who may see the rules. */
XCE_API int xce_rbac_check(struct xce_client *client, const struct xce_call *call,
                           const struct xce_question *question, struct xce_decision **ret);

#ifdef __cplusplus
}
#endif

#endif
