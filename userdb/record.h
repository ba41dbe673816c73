/* A lease as the records of io.systemd.UserDatabase, field by field what the NSS module shows of it. Pure. NULL: no memory. */
#ifndef XCE_USERDB_RECORD_H
#define XCE_USERDB_RECORD_H

#include "common/json.h"
#include "map/read.h"

/* Names this provider to its clients: the file name of its socket, and "service" in each call and record. noded knows by the
 * "xce" in it that what we show is no other name service's. */
#define RECORD_SERVICE "io.xce.Lease"

/* {"record": {...}, "incomplete": false}; entry has its pair. groups: names of its supplementary gids, an array that is
 * given away; NULL: there are none. */
struct json *record_user(const struct map_entry *entry, struct json *groups);
/* The private group of a lease, without members: it is the primary group of its only one. */
struct json *record_group(const char *name, uint32_t gid);
/* {"userName": ..., "groupName": ...} */
struct json *record_membership(const char *user, const char *group);

#endif
