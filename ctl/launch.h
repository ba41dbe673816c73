/* How a command is run under a lease by systemd: the arguments of systemd-run.
 *
 * Every argument is one word without white space or pattern characters, so that
 *     systemd-run $(leasectl acquire --print systemd-run ...) COMMAND
 * works by the shell's word splitting. */
#ifndef XCE_CTL_LAUNCH_H
#define XCE_CTL_LAUNCH_H

#include <stddef.h>

#include "xce/client.h"

#define LAUNCH_ARGS_MAX 64

struct launch {
    char *args[LAUNCH_ARGS_MAX];
    size_t n;
};

/* 0; -ENOMEM; -EINVAL: the lease has a name that can not be one word (leased would have to be broken). */
int launch_make(const struct xce_lease *lease, struct launch *ret);
void launch_done(struct launch *launch);

/* "xce-2013265920-3.slice": everything sanctioned runs below it. size 48 is enough. */
void launch_slice(const struct xce_lease *lease, char *ret, size_t size);

#endif
