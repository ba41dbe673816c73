/* Who may call what, on whose objects. Pure: values in, a scope out.
 *
 * The dispatcher asks once, before any handler; handlers only narrow their view to the scope they are given. Rules are
 * replicated state (xce.v1.Rules): roles beside the built-in ones, and bindings of roles to whom. Rights are the union of
 * all roles that a caller has, of equal methods the widest scope counts, and what is not given is not there.
 * No rule changes these: root of leased's own machine is admin, a node has role node, every user may ask what he may, a
 * replica may ask others for what their history holds and whether uids are taken there, and nothing else, and nobody else
 * may that. */
#ifndef XCE_LEASED_RBAC_POLICY_H
#define XCE_LEASED_RBAC_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "leased/rbac/methods.h"
#include "leased/rbac/principal.h"
#include "xce/v1/rbac.pb-c.h"

/* Rules made ready to be asked. */
struct policy;

/* The rules that hold while none were set: every local user has role user, and the organizations xce-admin, xce-operator,
 * xce-scheduler and xce-user of a certificate give the role of that name. Constant. */
const Xce__V1__Rules *policy_defaults(void);

/* Rules out of the FSM; NULL = the defaults. A role that does not exist (a newer leased wrote it) gives nothing. Never
 * NULL. rules need not live on. */
struct policy *policy_new(const Xce__V1__Rules *rules);
void policy_free(struct policy *policy);

/* The widest scope in which principal may call method ("LeaseService/Get"). */
enum policy_scope policy_decide(const struct policy *policy, const struct principal *principal,
                                const char *method);

/* Whether other rules could give principal another right to method: not to those that stand in no rules. */
bool policy_is_by_rules(const struct principal *principal, const char *method);

/* Whether some role could name the method; one that none can can not be registered. */
bool policy_knows(const char *method);

/* Whether these are one: the same uid and the same name. So a uid that was given to somebody else, and a name that has
 * another uid here, own nothing of what was. An owner who never had a name ("#1000") is whoever the kernel says has that
 * uid; over TLS he is nobody. docs/decisions/0007. */
bool policy_owns(const struct principal *principal, const char *owner_name, uint32_t owner_uid);

/* Whether an object of that owner is visible in scope. */
bool policy_sees(const struct principal *principal, enum policy_scope scope, const char *owner_name,
                 uint32_t owner_uid);

/* Whether node name is the caller's own or he sees all. */
bool policy_sees_node(const struct principal *principal, enum policy_scope scope, const char *name);

/* ---- for people (explain.c) ---- */

/* Whether rules mean something: roles, methods and scopes that there are, no built-in role made anew. 0; -EINVAL, err
 * names the place. Whether they are well formed is the FSM's to say. */
int policy_check(const Xce__V1__Rules *rules, struct err *err);

#define POLICY_SUBJECT_BUF (PRINCIPAL_NAME_MAX + 8)

/* What decided, as policy_decide would: the binding, the role, and which of its rights. Empty with SCOPE_NONE; subject and
 * role are also for what every user may. */
struct policy_reason {
    enum policy_scope scope;
    char subject[POLICY_SUBJECT_BUF]; /* "group:hpc", "local:*", "root", "node" */
    char role[40];
    char right[METHODS_MAX + 1]; /* "LeaseService/" and an asterisk */
};

void policy_explain(const Xce__V1__Rules *rules, const struct principal *principal,
                    const char *method, struct policy_reason *ret);

/* Whether one of the caller's bindings has this role. */
bool policy_has_role(const Xce__V1__Rules *rules, const struct principal *principal,
                     const void *role, size_t len);

#endif
