#include "noded/unit/bus.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "common/clock.h"
#include "common/mem.h"
#include "map/name.h"

#define MANAGER_FOLDER "/run/systemd/system"
#define MANAGER_SOCKET "unix:path=/run/systemd/private"
#define TRANSIENT      "/run/systemd/transient"
#define DESTINATION    "org.freedesktop.systemd1"
#define MANAGER_PATH   "/org/freedesktop/systemd1"
#define MANAGER        DESTINATION ".Manager"
#define UNIT           DESTINATION ".Unit"
#define CALL_US        (10u * 1000000u)
#define POLL_NS        5000000L
#define AWAY_MS        1000 /* for a manager that is being executed anew: some 100 ms */
#define AWAY_POLL_NS   20000000L
#define KNOWN_MAX      4096
#define IDS_MAX        8

/* Numbers and leases' names among a unit's user, group and supplementary groups. */
struct unit_ids {
    uint32_t id[IDS_MAX];
    unsigned n;
};

/* What a unit's ids were when we asked. They can change with a reload of the manager alone, as long as it stays loaded from a
 * file and no transient one takes its name. */
struct known {
    UT_hash_handle hh;
    struct unit_ids ids;
    unsigned turn; /* when it was listed last */
    char name[];
};

struct bus {
    sd_bus *bus;
    char prefix[NAME_PREFIX_MAX + 1];
    struct known *known;
    uint64_t loaded_us;    /* the manager's last reload, as known is of */
    unsigned turn;         /* counts the listings */
    int64_t away_until_ms; /* it is waited for until then; 0 = it answered last time */
};

/* One line of ListUnits that matters. Strings belong to the message. */
struct listed {
    const char *name, *load, *active, *path;
    uint32_t job;
};

struct bus *bus_new(const char *prefix)
{
    struct bus *bus = mem_must_calloc(1, sizeof(*bus));

    bus_prefix(bus, prefix);
    return bus;
}

static void known_forget(struct bus *bus)
{
    struct known *known, *next;

    HASH_ITER(hh, bus->known, known, next)
    {
        HASH_DEL(bus->known, known);
        free(known);
    }
}

static void bus_disconnect(struct bus *bus)
{
    sd_bus_close(bus->bus);
    bus->bus = sd_bus_unref(bus->bus);
}

void bus_free(struct bus *bus)
{
    if (!bus)
        return;
    bus_disconnect(bus);
    known_forget(bus);
    free(bus);
}

void bus_prefix(struct bus *bus, const char *prefix)
{
    (void)snprintf(bus->prefix, sizeof(bus->prefix), "%s", prefix);
    known_forget(bus);
}

static int bus_connect(struct bus *bus)
{
    int r;

    if (bus->bus && sd_bus_is_open(bus->bus) > 0)
        return 0;
    bus_disconnect(bus);
    if (access(MANAGER_FOLDER, F_OK) < 0)
        return errno == ENOENT ? BUS_NO_MANAGER : -errno;
    r = sd_bus_new(&bus->bus);
    if (r < 0)
        return r;
    r = sd_bus_set_address(bus->bus, MANAGER_SOCKET);
    if (r >= 0)
        r = sd_bus_set_method_call_timeout(bus->bus, CALL_US);
    if (r >= 0)
        r = sd_bus_start(bus->bus);
    if (r < 0) {
        bus_disconnect(bus);
        return r;
    }
    return 0;
}

/* While the manager is executed anew its socket is not there, or nobody listens, and who was connected is cut off. Whether to
 * try again after that; it has waited for a moment then. Of one that stays away all further tries fail at once. */
static bool bus_retry(struct bus *bus, int r)
{
    int64_t now_ms = clock_mono_ms();

    if (r != -ENOENT && r != -ECONNREFUSED && r != -ECONNRESET && r != -ENOTCONN && r != -EPIPE) {
        bus->away_until_ms = 0;
        return false;
    }
    if (bus->away_until_ms == 0)
        bus->away_until_ms = now_ms + AWAY_MS;
    else if (now_ms >= bus->away_until_ms)
        return false;
    (void)nanosleep(&(struct timespec){.tv_nsec = AWAY_POLL_NS}, NULL);
    return true;
}

/* A call whose reply or error belongs to the caller; the connection is dropped if it is the one that failed. */
static int bus_call(struct bus *bus, sd_bus_message *m, sd_bus_error *error, sd_bus_message **ret)
{
    int r = sd_bus_call(bus->bus, m, 0, error, ret);

    if (r > 0)
        r = 0; /* it may say 1 for a success, which here means that the unit is gone */
    if (r == -ECONNRESET || r == -ENOTCONN || r == -EPIPE || r == -ETIMEDOUT)
        bus_disconnect(bus);
    return r;
}

/* Whether the error says that there is no such unit any more. */
static bool unit_gone(const sd_bus_error *error)
{
    return sd_bus_error_has_name(error, "org.freedesktop.systemd1.NoSuchUnit") ||
           sd_bus_error_has_name(error, "org.freedesktop.DBus.Error.UnknownObject") ||
           sd_bus_error_has_name(error, "org.freedesktop.DBus.Error.UnknownInterface") ||
           sd_bus_error_has_name(error, "org.freedesktop.DBus.Error.UnknownProperty");
}

/* ret: to be freed; "" if the unit is gone or has no such property. */
static int property_string(struct bus *bus, const char *path, const char *interface,
                           const char *property, char **ret)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    int r = sd_bus_get_property_string(bus->bus, DESTINATION, path, interface, property, &error,
                                       ret);

    if (r < 0 && unit_gone(&error)) {
        *ret = mem_must_strdup("");
        r = 0;
    }
    sd_bus_error_free(&error);
    return r < 0 ? r : 0;
}

static const char *user_interface(const char *unit)
{
    const char *dot = strrchr(unit, '.');

    if (!dot)
        return NULL;
    if (strcmp(dot, ".service") == 0)
        return DESTINATION ".Service";
    if (strcmp(dot, ".socket") == 0)
        return DESTINATION ".Socket";
    if (strcmp(dot, ".mount") == 0)
        return DESTINATION ".Mount";
    if (strcmp(dot, ".swap") == 0)
        return DESTINATION ".Swap";
    return NULL;
}

static bool is_transient(const char *unit)
{
    char path[sizeof(TRANSIENT) + 1 + NAME_MAX + 1];

    (void)snprintf(path, sizeof(path), "%s/%s", TRANSIENT, unit);
    return access(path, F_OK) == 0;
}

static void known_drop(struct bus *bus, struct known *known)
{
    HASH_DEL(bus->known, known);
    free(known);
}

/* What the manager had let go of it may have read anew since, without a reload of its own. */
static void known_unlisted_drop(struct bus *bus)
{
    struct known *known, *next;

    HASH_ITER(hh, bus->known, known, next)
    {
        if (known->turn != bus->turn)
            known_drop(bus, known);
    }
}

static void known_put(struct bus *bus, const char *name, const struct unit_ids *ids)
{
    size_t len = strlen(name);
    struct known *known;

    /* Instances of templates come and go under ever new names. */
    if (HASH_COUNT(bus->known) >= KNOWN_MAX)
        known_forget(bus);
    known = mem_must_calloc(1, sizeof(*known) + len + 1);

    memcpy(known->name, name, len + 1);
    known->ids = *ids;
    known->turn = bus->turn;
    HASH_ADD_KEYPTR(hh, bus->known, known->name, len, known);
}

static void ids_add(struct bus *bus, struct unit_ids *ids, const char *text)
{
    uint32_t id;

    if (ids->n == IDS_MAX || !bus_user_uid(bus->prefix, text, &id))
        return;
    for (unsigned i = 0; i < ids->n; i++)
        if (ids->id[i] == id)
            return;
    ids->id[ids->n++] = id;
}

static int ids_add_groups(struct bus *bus, const char *path, const char *interface,
                          struct unit_ids *ids)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    char **groups = NULL;
    int r = sd_bus_get_property_strv(bus->bus, DESTINATION, path, interface, "SupplementaryGroups",
                                     &error, &groups);

    if (r < 0 && unit_gone(&error))
        r = 0;
    for (char **g = groups; g && *g; g++) {
        ids_add(bus, ids, *g);
        free(*g);
    }
    free(groups);
    sd_bus_error_free(&error);
    return r < 0 ? r : 0;
}

static int ids_read(struct bus *bus, const char *path, const char *interface, struct unit_ids *ids)
{
    static const char *const properties[] = {"User", "Group"};

    for (size_t i = 0; i < ARRAY_LEN(properties); i++) {
        auto_free char *text = NULL;
        int r = property_string(bus, path, interface, properties[i], &text);
        if (r < 0)
            return r;
        ids_add(bus, ids, text);
    }
    return ids_add_groups(bus, path, interface, ids);
}

/* Whom a unit runs as. ret: empty before. 0; -errno. */
static int unit_ids(struct bus *bus, const struct listed *unit, struct unit_ids *ret)
{
    const char *interface = user_interface(unit->name);
    struct known *known;
    bool transient;
    int r;

    if (bus_name_uid(unit->name, &ret->id[0])) {
        ret->n = 1;
        return 0;
    }
    if (!interface)
        return 0;
    transient = is_transient(unit->name);
    HASH_FIND_STR(bus->known, unit->name, known);
    if (known && !transient) {
        known->turn = bus->turn;
        *ret = known->ids;
        return 0;
    }
    if (known)
        known_drop(bus, known);
    r = ids_read(bus, unit->path, interface, ret);
    /* One that is only named by others is not-found, and has no ids before it is made. */
    if (r == 0 && !transient && strcmp(unit->load, "loaded") == 0)
        known_put(bus, unit->name, ret);
    return r;
}

static bool is_down(const char *active)
{
    return strcmp(active, "inactive") == 0;
}

static bool is_failed(const char *active)
{
    return strcmp(active, "failed") == 0;
}

/* Object path of a loaded unit, to be freed; 1 there is none. */
static int unit_path(struct bus *bus, const char *unit, char **ret)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    const char *path;
    int r = sd_bus_call_method(bus->bus, DESTINATION, MANAGER_PATH, MANAGER, "GetUnit", &error,
                               &reply, "s", unit);

    if (r < 0 && unit_gone(&error))
        r = 1;
    else if (r >= 0)
        r = sd_bus_message_read(reply, "o", &path) < 0 ? -EBADMSG : 0;
    if (r == 0)
        *ret = mem_must_strdup(path);
    sd_bus_message_unref(reply);
    sd_bus_error_free(&error);
    return r;
}

/* 1 it waits for nothing (or is gone), and nobody is about to start it; 0 it may trigger; -errno. */
static int trigger_is_idle(struct bus *bus, const char *unit)
{
    auto_free char *path = NULL, *active = NULL;
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    uint32_t job = 0;
    int r = unit_path(bus, unit, &path);

    if (r == 0)
        r = property_string(bus, path, UNIT, "ActiveState", &active);
    if (r != 0)
        return r;
    if (*active == '\0')
        return 1;
    if (!is_down(active) && !is_failed(active))
        return 0;
    r = sd_bus_get_property(bus->bus, DESTINATION, path, UNIT, "Job", &error, &reply, "(uo)");
    if (r < 0 && unit_gone(&error))
        r = 1;
    else if (r >= 0)
        r = sd_bus_message_read(reply, "(uo)", &job, NULL) < 0 ? -EBADMSG : job == 0;
    sd_bus_message_unref(reply);
    sd_bus_error_free(&error);
    return r;
}

/* What may start a service: its triggers, which are found under the same uid. */
static int triggers_tell(struct bus *bus, uint32_t uid, const char *path, bus_unit_fn found,
                         void *arg)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    char **triggers = NULL;
    int r = sd_bus_get_property_strv(bus->bus, DESTINATION, path, UNIT, "TriggeredBy", &error,
                                     &triggers);

    if (r < 0 && unit_gone(&error))
        r = 0;
    for (char **t = triggers; t && *t; t++) {
        int is_idle = r < 0 ? r : trigger_is_idle(bus, *t);
        if (is_idle == 0)
            found(uid, *t, false, arg);
        else if (is_idle < 0)
            r = is_idle;
        free(*t);
    }
    free(triggers);
    sd_bus_error_free(&error);
    return r < 0 ? r : 0;
}

static int listed_look(struct bus *bus, const struct listed *unit, uint32_t min, uint32_t max,
                       bus_unit_fn found, void *arg)
{
    struct unit_ids ids = {.n = 0};
    int r = unit_ids(bus, unit, &ids);

    for (unsigned i = 0; r == 0 && i < ids.n; i++) {
        if (ids.id[i] < min || ids.id[i] > max)
            continue;
        if (!is_down(unit->active) || unit->job)
            found(ids.id[i], unit->name, is_failed(unit->active) && !unit->job, arg);
        r = triggers_tell(bus, ids.id[i], unit->path, found, arg);
    }
    return r;
}

/* Everything that is known of users dies with a reload of the manager. */
static int known_check(struct bus *bus)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    uint64_t loaded_us = 0;
    int r = sd_bus_get_property_trivial(bus->bus, DESTINATION, MANAGER_PATH, MANAGER,
                                        "UnitsLoadFinishTimestampMonotonic", &error, 't',
                                        &loaded_us);

    sd_bus_error_free(&error);
    if (r < 0)
        return r;
    if (loaded_us != bus->loaded_us)
        known_forget(bus);
    bus->loaded_us = loaded_us;
    return 0;
}

static int units_list(struct bus *bus, sd_bus_message **ret)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *m = NULL;
    int r = sd_bus_message_new_method_call(bus->bus, &m, DESTINATION, MANAGER_PATH, MANAGER,
                                           "ListUnits");

    if (r >= 0)
        r = bus_call(bus, m, &error, ret);
    sd_bus_message_unref(m);
    sd_bus_error_free(&error);
    return r < 0 ? r : 0;
}

static int units_look(struct bus *bus, sd_bus_message *reply, uint32_t min, uint32_t max,
                      bus_unit_fn found, void *arg)
{
    struct listed unit;
    int r = sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");

    bus->turn++;
    while (r > 0) {
        r = sd_bus_message_read(reply, "(ssssssouso)", &unit.name, NULL, &unit.load, &unit.active,
                                NULL, NULL, &unit.path, &unit.job, NULL, NULL);
        if (r <= 0)
            break;
        r = listed_look(bus, &unit, min, max, found, arg);
        if (r == 0)
            r = 1;
    }
    if (r == 0)
        known_unlisted_drop(bus);
    return r;
}

static int units_once(struct bus *bus, uint32_t min, uint32_t max, bus_unit_fn found, void *arg)
{
    sd_bus_message *reply = NULL;
    int r = bus_connect(bus);

    if (r != 0)
        return r;
    r = known_check(bus);
    if (r == 0)
        r = units_list(bus, &reply);
    if (r == 0)
        r = units_look(bus, reply, min, max, found, arg);
    sd_bus_message_unref(reply);
    if (r < 0)
        bus_disconnect(bus);
    return r < 0 ? r : 0;
}

int bus_units(struct bus *bus, uint32_t min, uint32_t max, bus_unit_fn found, void *arg)
{
    int r;

    do
        r = units_once(bus, min, max, found, arg);
    while (bus_retry(bus, r));
    return r;
}

static int loaded_once(struct bus *bus, const char *unit)
{
    auto_free char *path = NULL;
    int r = bus_connect(bus);

    if (r == BUS_NO_MANAGER)
        return 0;
    if (r == 0)
        r = unit_path(bus, unit, &path);
    if (r < 0)
        bus_disconnect(bus);
    return r < 0 ? r : r == 0;
}

int bus_loaded(struct bus *bus, const char *unit)
{
    int r;

    do
        r = loaded_once(bus, unit);
    while (bus_retry(bus, r));
    return r;
}

/* ---- stopping ---- */

/* 0; 1 there is no such unit; -errno. */
static int manager_call(struct bus *bus, const char *method, const char *types, const char *unit,
                        const char *text, int number)
{
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *m = NULL, *reply = NULL;
    int r = sd_bus_message_new_method_call(bus->bus, &m, DESTINATION, MANAGER_PATH, MANAGER,
                                           method);

    if (r >= 0 && strcmp(types, "s") == 0)
        r = sd_bus_message_append(m, "s", unit);
    else if (r >= 0 && strcmp(types, "ss") == 0)
        r = sd_bus_message_append(m, "ss", unit, text);
    else if (r >= 0)
        r = sd_bus_message_append(m, "ssi", unit, text, number);
    if (r >= 0)
        r = bus_call(bus, m, &error, &reply);
    if (r < 0 && unit_gone(&error))
        r = 1;
    sd_bus_message_unref(m);
    sd_bus_message_unref(reply);
    sd_bus_error_free(&error);
    return r < 0 ? r : r == 1;
}

/* 1 it is down (or gone), 0 not yet. */
static int unit_is_down(struct bus *bus, const char *unit, bool *ret_failed)
{
    auto_free char *path = NULL, *active = NULL;
    int r = unit_path(bus, unit, &path);

    *ret_failed = false;
    if (r != 0)
        return r;
    r = property_string(bus, path, UNIT, "ActiveState", &active);
    if (r < 0)
        return r;
    *ret_failed = is_failed(active);
    return *ret_failed || *active == '\0' || is_down(active);
}

static int wait_down(struct bus *bus, const char *unit, int64_t wait_ms, bool *ret_failed)
{
    int64_t deadline_ms = clock_mono_ms() + wait_ms;
    int r;

    while ((r = unit_is_down(bus, unit, ret_failed)) == 0) {
        if (clock_mono_ms() >= deadline_ms)
            return -ETIMEDOUT;
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return r < 0 ? r : 0;
}

/* The manager would not: only that it is down all the same makes up for it. */
static int down_although(struct bus *bus, const char *unit, int refused, bool *ret_failed)
{
    int r = unit_is_down(bus, unit, ret_failed);

    return r == 0 ? refused : r < 0 ? r : 0;
}

static int stop_once(struct bus *bus, const char *unit, int64_t wait_ms)
{
    bool failed = false;
    int r = bus_connect(bus), refused;

    if (r != 0)
        return r < 0 ? r : 0;
    /* First the job: it takes the place of one that would start it, and keeps it from being restarted when it dies. */
    refused = manager_call(bus, "StopUnit", "ss", unit, "replace", 0);
    if (refused == 1)
        return 0;
    /* Nothing to kill is an error to some kinds of units. */
    if (bus->bus)
        (void)manager_call(bus, "KillUnit", "ssi", unit, "all", SIGKILL);
    if (!bus->bus)
        return refused < 0 ? refused : -ECONNRESET;
    r = refused < 0 ? down_although(bus, unit, refused, &failed)
                    : wait_down(bus, unit, wait_ms, &failed);
    if (r == 0 && failed)
        r = manager_call(bus, "ResetFailedUnit", "s", unit, NULL, 0);
    return r < 0 ? r : 0;
}

int bus_stop(struct bus *bus, const char *unit, int64_t wait_ms)
{
    int r;

    do
        r = stop_once(bus, unit, wait_ms);
    while (bus_retry(bus, r));
    return r;
}
