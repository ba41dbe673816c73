/* Accounts of those who call: the name of a local uid, the uid of a certificate's name. NSS is asked away from the loop and
 * remembered for a minute, so that an account that goes, or comes, is noticed.
 *
 * "There is no such account" and "NSS does not say" are told apart: the first is an answer, the second is none. What NSS
 * said at most ten minutes ago stands in for an answer that does not come. One thread: the loop's. */
#ifndef XCE_LEASED_RPC_USERNAME_H
#define XCE_LEASED_RPC_USERNAME_H

#include <stdint.h>

#include "leased/rbac/principal.h"

struct clock;
struct loop;
struct usernames;

struct username {
    uint32_t uid, gid;
    char name[PRINCIPAL_NAME_MAX + 1];
};

enum {
    /* no such account; a name that is longer than PRINCIPAL_NAME_MAX counts as none */
    USERNAME_NONE = 1,
};

/* Find the account of name, or with NULL of uid. 0 *ret is set; USERNAME_NONE; -errno no answer can be had. May block; on
 * a thread of its own. */
typedef int (*usernames_look_up_fn)(const char *name, uint32_t uid, struct username *ret);
/* What NSS says. A name is found only as it is written. */
int usernames_nss(const char *name, uint32_t uid, struct username *ret);

/* 0; -ENOMEM. */
int usernames_new(struct loop *loop, const struct clock *clock, usernames_look_up_fn look_up,
                  struct usernames **ret);
/* Look-ups under way end first with -ECANCELED. */
void usernames_free(struct usernames *names);

/* The account of name, or with NULL of uid, as far as it is known: 0 and *ret, which dies with the next call into this
 * header; USERNAME_NONE there was none a moment ago; -EAGAIN it is to be asked for. uid 0 is always root. */
int usernames_known(struct usernames *names, const char *name, uint32_t uid,
                    const struct username **ret);

/* r as above, -EAGAIN: NSS gives no answer within 500 ms. who is NULL unless r is 0. */
typedef void (*usernames_done_fn)(int r, const struct username *who, void *arg);

/* Ask; done runs once, later. 0; -ENOMEM. */
int usernames_ask(struct usernames *names, const char *name, uint32_t uid, usernames_done_fn done,
                  void *arg);
/* done will not be called for arg any more. */
void usernames_forget(struct usernames *names, void *arg);

#endif
