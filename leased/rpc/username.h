/* Names of the local users who call: NSS asked away from the loop, remembered for a while.
 * A name only annotates (owners, history): whoever NSS does not name in time is "#<uid>". */
#ifndef XCE_LEASED_RPC_USERNAME_H
#define XCE_LEASED_RPC_USERNAME_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct usernames;

/* Write the name of uid ("" = it has none) into ret, PRINCIPAL_NAME_MAX + 1 bytes. May block; on a thread of its own. */
typedef void (*usernames_look_up_fn)(uint32_t uid, char *ret);
/* What NSS says. */
void usernames_nss(uint32_t uid, char *ret);

/* 0; -ENOMEM. */
int usernames_new(struct loop *loop, usernames_look_up_fn look_up, struct usernames **ret);
/* Look-ups under way end first with NULL. */
void usernames_free(struct usernames *names);

/* Whether there is nothing to ask: *ret is the name, or NULL for a uid that had none a moment ago. It dies with the next
 * call into this header. */
bool usernames_known(struct usernames *names, uint32_t uid, const char **ret);

/* Ask; done runs once, later, with NULL when there is none or the look-up takes longer than 500 ms. 0; -ENOMEM. */
int usernames_ask(struct usernames *names, uint32_t uid, void (*done)(const char *name, void *arg),
                  void *arg);
/* done will not be called for arg any more. */
void usernames_forget(struct usernames *names, void *arg);

#endif
