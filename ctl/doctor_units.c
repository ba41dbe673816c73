/* The units: whether systemd replaces a noded that hangs or dies in time. Asked of systemd itself: what a file says may be
 * overridden, or not be read yet. Home of sd-bus for leasectl. */
#include "ctl/doctor_units.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/text.h"
#include "ctl/doctor.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define UNIT    SYSTEMD ".Unit"
#define SERVICE SYSTEMD ".Service"
#define CALL_US (3u * 1000000u)
/* What is here ends so long after its validity at the latest, also if noded hangs. */
#define GRACE_US (30u * 1000000u)
#define RESTART  "; then systemctl restart noded"
#define REVERT   "systemctl revert noded, or a drop-in (systemctl edit noded) with "

/* ---- asking ---- */

static sd_bus *connect_bus(void)
{
    sd_bus *bus = NULL;

    /* To root PID 1 itself answers, also without dbus. */
    if (geteuid() == 0 && sd_bus_new(&bus) >= 0) {
        if (sd_bus_set_address(bus, "unix:path=/run/systemd/private") >= 0 &&
            sd_bus_set_method_call_timeout(bus, CALL_US) >= 0 && sd_bus_start(bus) >= 0)
            return bus;
        bus = sd_bus_unref(bus);
    }
    if (sd_bus_open_system(&bus) < 0)
        return NULL;
    (void)sd_bus_set_method_call_timeout(bus, CALL_US);
    return bus;
}

/* *failed stays set once a property could not be had. */
static void text_of(sd_bus *bus, const char *path, const char *interface, const char *name,
                    char ret[32], bool *failed)
{
    char *text = NULL;
    int r = sd_bus_get_property_string(bus, SYSTEMD, path, interface, name, NULL, &text);

    *failed |= r < 0;
    if (r >= 0)
        snprintf(ret, 32, "%s", text);
    free(text);
}

static void number_of(sd_bus *bus, const char *path, const char *interface, const char *name,
                      char type, void *ret, bool *failed)
{
    *failed |= sd_bus_get_property_trivial(bus, SYSTEMD, path, interface, name, NULL, type, ret) <
               0;
}

/* false: it is not known. */
static bool look_at(sd_bus *bus, const char *name, struct doctor_unit *ret)
{
    auto_free char *path = NULL;
    bool failed = false;
    int stale = 0;

    *ret = (struct doctor_unit){.load = ""};
    if (sd_bus_path_encode("/org/freedesktop/systemd1/unit", name, &path) < 0)
        return false;
    text_of(bus, path, UNIT, "LoadState", ret->load, &failed);
    text_of(bus, path, UNIT, "ActiveState", ret->active, &failed);
    text_of(bus, path, UNIT, "UnitFileState", ret->file_state, &failed);
    number_of(bus, path, UNIT, "NeedDaemonReload", 'b', &stale, &failed);
    number_of(bus, path, UNIT, "StartLimitIntervalUSec", 't', &ret->limit_us, &failed);
    number_of(bus, path, UNIT, "StartLimitBurst", 'u', &ret->limit_burst, &failed);
    ret->stale = stale;
    if (failed || strcmp(ret->load, "loaded") != 0)
        return !failed;
    text_of(bus, path, SERVICE, "Restart", ret->restart, &failed);
    number_of(bus, path, SERVICE, "WatchdogUSec", 't', &ret->watchdog_us, &failed);
    number_of(bus, path, SERVICE, "WatchdogSignal", 'i', &ret->watchdog_signal, &failed);
    number_of(bus, path, SERVICE, "TimeoutAbortUSec", 't', &ret->abort_us, &failed);
    number_of(bus, path, SERVICE, "RestartUSec", 't', &ret->restart_us, &failed);
    return !failed;
}

/* ---- judging ---- */

bool doctor_unit_wanted(const struct doctor_unit *unit)
{
    return !strcmp(unit->active, "active") || !strncmp(unit->file_state, "enabled", 7);
}

static uint64_t add_us(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void judge_watchdog(struct doctor *doctor, const struct doctor_unit *unit)
{
    uint64_t us = add_us(unit->watchdog_us, unit->restart_us);
    char text[TEXT_DURATION_BUF];

    if (!unit->watchdog_us || unit->watchdog_us == UINT64_MAX) {
        doctor_found(doctor, SEVERITY_ERROR, "units-watchdog-off", REVERT "WatchdogSec=10s" RESTART,
                     "noded.service has no watchdog: while noded hangs nothing that runs here ends "
                     "when its validity is over");
        return;
    }
    if (unit->watchdog_signal != SIGKILL)
        us = add_us(us, unit->abort_us);
    if (us <= GRACE_US)
        return;
    doctor_found(
        doctor, SEVERITY_WARNING, "units-watchdog-late",
        REVERT "WatchdogSec=10s, TimeoutAbortSec=3s" RESTART,
        "noded.service: one that hangs is replaced only after %s: what runs here may go on "
        "for more than 30s past its validity",
        us == UINT64_MAX ? "infinity" : text_format_duration((int64_t)(us / 1000), text));
}

static void judge_restart(struct doctor *doctor, const struct doctor_unit *unit)
{
    if (strcmp(unit->restart, "always") != 0 && strcmp(unit->restart, "on-failure") != 0)
        doctor_found(doctor, SEVERITY_ERROR, "units-restart", REVERT "Restart=always",
                     "noded.service has Restart=%s: one that fails is not replaced", unit->restart);
    /* Reached only if so many starts fit into the time. */
    else if (unit->limit_us && unit->limit_burst &&
             unit->restart_us < unit->limit_us / unit->limit_burst)
        doctor_found(doctor, SEVERITY_WARNING, "units-start-limit",
                     REVERT "[Unit] StartLimitIntervalSec=0",
                     "noded.service: after %u starts within %" PRIu64
                     " s it is given up on, and nothing that runs here ends any more",
                     unit->limit_burst, unit->limit_us / 1000000);
}

void doctor_judge_noded(struct doctor *doctor, const struct doctor_unit *unit)
{
    if (!doctor_unit_wanted(unit))
        return;
    if (unit->stale)
        doctor_found(doctor, SEVERITY_WARNING, "units-stale", "systemctl daemon-reload",
                     "noded.service has changed since systemd read it");
    if (strncmp(unit->file_state, "enabled", 7) != 0)
        doctor_found(doctor, SEVERITY_WARNING, "units-disabled", "systemctl enable noded",
                     "noded.service runs, and does not when this machine is started again: it is "
                     "%s",
                     unit->file_state[0] ? unit->file_state : "not enabled");
    judge_watchdog(doctor, unit);
    judge_restart(doctor, unit);
}

/* What ends what is here if noded is stopped, or can not start. */
static void judge_standby(struct doctor *doctor, const struct doctor_unit *noded,
                          const struct doctor_unit *standby)
{
    if (doctor_unit_wanted(noded) && strcmp(standby->active, "active") != 0)
        doctor_found(
            doctor, SEVERITY_WARNING, "units-standby", "systemctl start noded-standby",
            "noded-standby.service does not run: while noded does not either, nothing that "
            "runs here ends when its validity is over");
}

void doctor_check_units(struct doctor *doctor)
{
    struct doctor_unit noded, standby, userdbd;
    size_t before = doctor->n_findings;
    sd_bus *bus;

    if (doctor->root[0] || access("/run/systemd/system", F_OK) < 0)
        return;
    bus = connect_bus();
    if (!bus || !look_at(bus, "noded.service", &noded) ||
        !look_at(bus, "noded-standby.service", &standby) ||
        !look_at(bus, "xce-userdbd.service", &userdbd)) {
        doctor_found(doctor, SEVERITY_WARNING, "units-unknown", "systemctl status noded, as root",
                     "systemd does not say what it has of noded.service");
        sd_bus_flush_close_unref(bus);
        return;
    }
    sd_bus_flush_close_unref(bus);
    doctor->no_node = !doctor_unit_wanted(&noded);
    doctor->wants_userdbd = doctor_unit_wanted(&userdbd);
    doctor_judge_noded(doctor, &noded);
    judge_standby(doctor, &noded, &standby);
    if (!doctor->no_node && doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "units-ok", NULL,
                     "noded is replaced when it hangs or dies");
}
