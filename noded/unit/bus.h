/* The service manager: home of sd-bus. Which units run, or will run, as which user, and stopping them.
 *
 * Speaks to PID 1 over its private socket, as systemctl does, so that a restart of dbus is nobody's matter here. Without
 * systemd as PID 1 there is nothing to find (BUS_NO_MANAGER); a manager that does not answer is an error, never "nothing". One
 * that is gone while it is executed anew (daemon-reexec) is waited for, for a second.
 * Blocks, each call with a limit. One thread at a time per object; make one per thread. */
#ifndef XCE_NODED_UNIT_BUS_H
#define XCE_NODED_UNIT_BUS_H

#include <stdbool.h>
#include <stdint.h>

struct bus;

enum {
    BUS_NO_MANAGER = 1, /* /run/systemd/system does not exist: PID 1 is something else */
};

/* prefix: of lease names, copied. Connects when first used, and again after a failure. Never NULL. */
struct bus *bus_new(const char *prefix);
void bus_free(struct bus *bus);
/* The cluster's prefix has become known, or changed. */
void bus_prefix(struct bus *bus, const char *prefix);

/* A unit of a leased uid: a service and the like with that user, group or supplementary group (by number or by a lease's
 * name), a timer or other trigger of such a service, our slice of the uid, or what logind keeps for it.
 * failed: it runs nothing and will not by itself, its failure is only remembered. */
typedef void (*bus_unit_fn)(uint32_t uid, const char *unit, bool failed, void *arg);

/* Call found, at least once, for each unit that is running, has a job, waits to trigger, or has failed and still lies
 * around, whose user or group is in min..max. 0; BUS_NO_MANAGER; -errno could not look. */
int bus_units(struct bus *bus, uint32_t min, uint32_t max, bus_unit_fn found, void *arg);

/* Whether the manager has that unit in mind, running or not; without a manager nobody has. Nothing is loaded by asking.
 * 1; 0; -errno. */
int bus_loaded(struct bus *bus, const char *unit);

/* Stop it at once: cancel its job, kill what it has, wait until it is down, forget its failure.
 * 0 also if there is no such unit; -ETIMEDOUT; -errno. */
int bus_stop(struct bus *bus, const char *unit, int64_t wait_ms);

/* Which uid a user setting means: a number, or the canonical name of a lease. false = none of ours. */
bool bus_user_uid(const char *prefix, const char *user, uint32_t *ret_uid);
/* Which uid a unit is about by its name alone: "xce-UID-EPOCH.slice", "user-UID.slice", "user@UID.service", ... */
bool bus_name_uid(const char *unit, uint32_t *ret_uid);

#endif
