/* One command as a transient unit of the system's systemd, waited for.
 *
 * systemd-run starts it and holds its pipes. How it ended is recorded by ExecStopPost=, which runs as root when everything
 * of the unit is gone: systemd-run's own status can not tell a death by SIGTERM from success. */
#ifndef XCE_CTL_EXEC_UNIT_H
#define XCE_CTL_EXEC_UNIT_H

#include <stddef.h>
#include <stdint.h>

#include "ctl/option.h"
#include "xce/client.h"

struct ctl;

struct exec_unit {
    struct ctl *ctl;
    const struct xce_lease *lease;
    const struct option_list *properties, *setenv;
    char **command; /* NULL-terminated */
    /* Called about every tick_ms while the command runs; 0 = never. */
    void (*tick)(struct exec_unit *unit);
    int64_t tick_ms;
};

/* The signals that are passed on to the command. Returns their number. */
size_t exec_unit_signals(const int **ret);
/* Block them, and SIGCHLD: before anything is acquired. */
void exec_unit_block_signals(void);

/* Whether this machine can do it at all. An exit status. */
int exec_unit_check(struct ctl *ctl, const char *program);

/* Nobody saw how it ended: the lease tells whether it was killed with it. */
#define EXEC_UNIT_UNRECORDED (-1)

/* Run it. The command's exit status, 128 + signal; EXEC_UNIT_UNRECORDED; EXIT_FAILED with a message when it could not be
 * started. */
int exec_unit_run(struct exec_unit *unit);

#endif
