/* Users and groups as people write them, resolved on this machine. */
#ifndef XCE_CTL_ACCOUNT_H
#define XCE_CTL_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

#include "xce/client.h"

struct ctl;

/* "alice", "1000", or "1000:1000" where no service knows the uid. name: memory for ret->name. An exit status. */
int account_owner(struct ctl *ctl, const char *text, char *name, size_t size,
                  struct xce_owner *ret);

/* "video,1500": names and numbers of groups. *ret is the caller's to free. An exit status. */
int account_gids(struct ctl *ctl, const char *text, uint32_t **ret, size_t *ret_n);

#endif
