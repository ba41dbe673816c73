/* The uid map: there, whole, fresh; and whether name services show what is in it. */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "ctl/ctl.h"
#include "ctl/doctor.h"

enum {
    /* noded writes its heartbeat at least every few seconds. */
    STALE_MS = 30 * 1000,
    DEAF_MS = 60 * 1000,
    /* So many leases are looked up by name service. */
    SAMPLE = 64,
};

static void judge_records(struct doctor *doctor, const struct map_status *status)
{
    size_t damaged = 0, named = 0;
    struct map_entry entry;

    for (uint32_t i = 0; i < status->n_ranges; i++) {
        for (uint32_t k = 0; k < status->ranges[i].count; k++) {
            int r = map_find_uid(&doctor->map, status->ranges[i].first + k,
                                 MAP_WANT_PAIR | MAP_WANT_GIDS, &entry);

            damaged += r == -EBADMSG;
            named += r == 0;
        }
    }
    if (damaged)
        doctor_found(doctor, SEVERITY_ERROR, "map-damaged",
                     "systemctl restart noded: it repairs the map",
                     "%s: %zu records are damaged, their uids do not resolve", XCE_MAP_PATH_DEFAULT,
                     damaged);
    else
        doctor_found(doctor, SEVERITY_OK, "map-ok", NULL,
                     "%u uids in %u ranges, %zu leases resolve", status->n_records,
                     status->n_ranges, named);
}

static void judge_beat(struct doctor *doctor, const struct map_status *status)
{
    int64_t now_ms = clock_mono_ms();
    int64_t beat_ms = now_ms - (int64_t)status->beat_boot_ms;
    int64_t heard_ms = now_ms - (int64_t)status->heard_boot_ms;

    if (!status->beat_boot_ms && !status->ended) {
        doctor_found(doctor, SEVERITY_WARNING, "map-young", "ask again in a few seconds",
                     "noded has just begun: it has not looked through this machine yet");
        return;
    }
    if (status->ended || beat_ms > STALE_MS) {
        doctor_found(doctor, SEVERITY_ERROR, "map-stale", "systemctl status noded",
                     "noded %s: the map is %lld s old", status->ended ? "has ended" : "hangs",
                     (long long)(beat_ms / 1000));
        return;
    }
    if (!status->synced)
        doctor_found(doctor, SEVERITY_WARNING, "map-behind",
                     "leasectl node list; see the journal of noded",
                     "noded has not caught up with leased");
    else if (!status->heard_boot_ms || heard_ms > DEAF_MS)
        doctor_found(doctor, SEVERITY_WARNING, "map-deaf",
                     "is leased up, and is Server= of noded.conf right?",
                     "noded has not heard of leased for %lld s; past the pool's validity it ends "
                     "what runs here",
                     (long long)(heard_ms / 1000));
}

static void no_map(struct doctor *doctor, int r, const char *why)
{
    if (r == -ENOENT)
        doctor_found(doctor, SEVERITY_ERROR, "map-missing", "systemctl start noded",
                     "%s is missing: no leased uid has a name on this machine",
                     XCE_MAP_PATH_DEFAULT);
    else
        doctor_found(doctor, SEVERITY_ERROR, "map-unusable",
                     r == -EPERM ? "find out who changed it; then remove it and restart noded"
                                 : "systemctl restart noded",
                     "%s can not be used: %s", XCE_MAP_PATH_DEFAULT, why ? why : err_text(r));
}

void doctor_check_map(struct doctor *doctor)
{
    struct map_status status;
    const char *why = NULL;
    char path[PATH_MAX];
    int r = map_open(doctor_path(doctor, XCE_MAP_PATH_DEFAULT, path, sizeof path), &doctor->map,
                     NULL, &why);

    if (r < 0) {
        if (r != -ENOENT || !doctor->no_node)
            no_map(doctor, r, why);
        return;
    }
    doctor->have_map = true;
    map_status(&doctor->map, &status);
    memcpy(doctor->prefix, status.prefix, sizeof doctor->prefix);
    for (uint32_t i = 0; i < status.n_ranges; i++)
        doctor_add_range(doctor, status.ranges[i].first,
                         status.ranges[i].first + status.ranges[i].count - 1);
    judge_beat(doctor, &status);
    judge_records(doctor, &status);
}

/* ---- by name service ---- */

/* 0 = passwd and group agree with the entry. */
static int disagrees(struct doctor *doctor, const struct map_entry *entry)
{
    uint32_t uid = entry->record.uid;
    const struct passwd *passwd = getpwuid(uid);
    const struct group *group;

    if (!passwd || strcmp(passwd->pw_name, map_name(entry)) != 0) {
        doctor_found(doctor, SEVERITY_ERROR, "nss-passwd",
                     passwd ? "remove the other account, or flush nscd and sssd"
                            : "is libnss-xce installed, and xce in the passwd line of "
                              "/etc/nsswitch.conf?",
                     "uid %u is leased as %s, but getpwuid says %s", uid, map_name(entry),
                     passwd ? passwd->pw_name : "nothing");
        return 1;
    }
    group = getgrgid(entry->record.gid);
    if (group && !strcmp(group->gr_name, map_name(entry)))
        return 0;
    doctor_found(doctor, SEVERITY_ERROR, "nss-group",
                 "is xce in the group line of /etc/nsswitch.conf?",
                 "gid %u is leased as %s, but getgrgid says %s", entry->record.gid, map_name(entry),
                 group ? group->gr_name : "nothing");
    return 1;
}

void doctor_check_nss(struct doctor *doctor)
{
    struct map_entry entry;
    size_t n = 0;

    for (uint32_t from = 0; doctor->have_map && n < SAMPLE; n++) {
        if (map_next(&doctor->map, from, MAP_WANT_RECORD, &entry) != 0)
            break;
        /* One is enough to see that it does not work. */
        if (disagrees(doctor, &entry))
            return;
        from = entry.record.uid + 1;
    }
    if (n)
        doctor_found(doctor, SEVERITY_OK, "nss-ok", NULL, "%zu leases looked up: all as in the map",
                     n);
}
