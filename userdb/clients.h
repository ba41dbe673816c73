/* Those who are connected, and which of them has to go when there is no place for another.
 *
 * Nobody can hold the others up: who makes no progress for CLIENTS_IDLE_MS is cut, and with all places taken it is one of the
 * user who has most of them (of several, the one of the highest uid), the one that has been quiet longest. One thread. */
#ifndef XCE_USERDB_CLIENTS_H
#define XCE_USERDB_CLIENTS_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#include "userdb/session.h"

#define CLIENTS_MAX     256
#define CLIENTS_IDLE_MS 10000

struct client {
    int fd; /* -1: the place is free */
    uid_t uid;
    int64_t moved_ms; /* when bytes last went, either way */
    uint64_t moved;   /* the same as a count */
    struct session session;
};

struct clients {
    struct client all[CLIENTS_MAX];
    unsigned n;
    uint64_t moves;
};

void clients_init(struct clients *clients);
void clients_done(struct clients *clients);

/* Take a connection in; another may have to go. fd is given away. */
void clients_add(struct clients *clients, int fd, uid_t uid, int64_t now_ms);
/* Cut those that have been quiet for too long. */
void clients_tidy(struct clients *clients, int64_t now_ms);

/* What to wait for of this one, for poll(2). */
short client_events(const struct client *client);
/* Whether it has work that waits for nothing: a list to go on with, a call that came with another. */
bool client_busy(const struct client *client);
/* Read, answer and write what can be done now: a bounded piece of it. It may be gone afterwards. */
void client_turn(struct clients *clients, struct client *client, const struct answers *answers,
                 int64_t now_ms);

#endif
