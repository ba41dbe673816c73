/* Names of the local users who call: NSS asked away from the loop, remembered for a while.
 * A name only annotates (owners, history): whoever NSS does not name in time is "#<uid>". */
#ifndef XCE_LEASED_RPC_USERNAME_H
#define XCE_LEASED_RPC_USERNAME_H

#include <stdint.h>

struct loop;
struct usernames;

int usernames_new(struct loop *loop, struct usernames **ret);
/* Look-ups under way end first with NULL. */
void usernames_free(struct usernames *names);

/* The name if it is known now, else NULL. Dies with the next call into this header. */
const char *usernames_known(struct usernames *names, uint32_t uid);

/* Ask; done runs once, later, with NULL when there is none or NSS takes longer than 500 ms. 0; -ENOMEM. */
int usernames_ask(struct usernames *names, uint32_t uid, void (*done)(const char *name, void *arg),
                  void *arg);
/* done will not be called for arg any more. */
void usernames_forget(struct usernames *names, void *arg);

#endif
