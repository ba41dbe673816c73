/* What systemd knows of a unit, and what that is good for. */
#ifndef XCE_CTL_DOCTOR_UNITS_H
#define XCE_CTL_DOCTOR_UNITS_H

#include <stdbool.h>
#include <stdint.h>

struct doctor;

/* As systemd has it now, not as a file says. Times in microseconds; UINT64_MAX = infinity. */
struct doctor_unit {
    char load[32], active[32], file_state[32]; /* "loaded", "active", "enabled"; "" = not known */
    char restart[32];                          /* "always" */
    uint64_t watchdog_us, abort_us, restart_us;
    int32_t watchdog_signal;
    uint64_t limit_us;
    uint32_t limit_burst;
    bool stale; /* its file has changed since systemd read it */
};

/* Whether it is meant to run here. */
bool doctor_unit_wanted(const struct doctor_unit *unit);

/* Say what is wrong with noded's. Pure but for what it says. */
void doctor_judge_noded(struct doctor *doctor, const struct doctor_unit *unit);

#endif
