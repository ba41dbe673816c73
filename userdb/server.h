/* The daemon: one thread, one loop over a socket and its clients.
 *
 * Whoever asks this machine for any user waits for us, so a turn of the loop never waits for anything but the next event, and
 * one that lasts DEADLINE_MS ends the process: a socket that nobody listens at costs a client nothing, one that is not
 * answered costs it 45 s. The service manager's watchdog is served from the loop, for what can not end itself. */
#ifndef XCE_USERDB_SERVER_H
#define XCE_USERDB_SERVER_H

#include "common/conf.h"

/* Serve until told to end. conf is userdb_conf's, read again on SIGHUP. 0; -errno it could not begin, or go on; logged. */
int server_run(struct conf **conf);

#endif
