/* The whole of leased: built bottom-up, callbacks wired, torn down in reverse. */
#ifndef XCE_LEASED_SERVER_H
#define XCE_LEASED_SERVER_H

#include "common/conf.h"

struct server;

enum {
    SERVER_AGAIN = 1, /* it has become something else (`cluster init`): run it once more */
};

/* Open everything and serve; conf is borrowed and may be exchanged by a reload (SIGHUP): conf is where the owner keeps it.
 * 0 after a clean end; SERVER_AGAIN; -errno, and why it could not start is logged. */
int server_run(struct conf **conf);

#endif
