/* The list of members, and what may be done to it: rules that need no engine, stream or clock. raft_member.c goes by them, and
 * so does the simulator (tests/sim).
 *
 * Names and addresses stand in the list as "NAME@ADDRESS" (raft_link.h), the id is that of the folder. All pure; what they
 * return lives as long as the list does. */
#ifndef XCE_LEASED_ENGINE_RAFT_LIST_H
#define XCE_LEASED_ENGINE_RAFT_LIST_H

#include <raft.h>
#include <stdbool.h>

/* As the one who leads sees it. */
struct raft_list {
    const struct raft_configuration *members;
    raft_id own;
    bool (*up)(raft_id id, void *arg); /* whether another one can be reached */
    void *arg;
};

enum raft_list_step {
    RAFT_LIST_ADD,     /* it is no member */
    RAFT_LIST_PROMOTE, /* it does not vote yet */
    RAFT_LIST_DONE,    /* it votes */
    RAFT_LIST_OTHER,   /* a member of this name has another folder */
};

/* NULL: nobody has this name. */
const struct raft_server *raft_list_find(const struct raft_configuration *members,
                                         const char *name);
bool raft_list_has(const struct raft_configuration *members, raft_id id);
/* The member that has this name or this folder, but not both; NULL = none. A list that may be old (raft_guard_hears) can not
 * say whose folder a name has by now: whoever was wiped and added again meanwhile may lead. It still says who else has this
 * folder. */
const struct raft_server *raft_list_contradicts(const struct raft_configuration *members, bool old,
                                                raft_id id, const char *name);
/* What comes next for one that is to become a voter. */
enum raft_list_step raft_list_next(const struct raft_configuration *members, raft_id id,
                                   const char *name);
/* NULL, or a sentence why not; then *r is -EBUSY. */
const char *raft_list_may_add(const struct raft_list *list, const char *name, int *r);
/* NULL, and *ret; or a sentence why not, and *r: -ENOENT nobody has this name, -EBUSY. */
const char *raft_list_may_remove(const struct raft_list *list, const char *name,
                                 const struct raft_server **ret, int *r);

#endif
