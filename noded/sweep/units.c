/* Units, timers and queued jobs with that user, also those that have not forked yet or whose process has not changed its
 * uid yet: so this comes before the look at processes. */
#include <errno.h>

#include "common/err.h"
#include "noded/sweep/kinds.h"

static void unit_look(uint32_t uid, const char *unit, bool failed, void *arg)
{
    struct sweep *sweep = arg;
    const struct sweep_units *units = sweep->places->units;
    enum reason reason = failed ? REASON_UNIT_FAILED : REASON_UNIT;
    int r;

    if (!sweep_wants(sweep, uid))
        return;
    if (!sweep->remove) {
        sweep_found(sweep, uid, reason, "%s", unit);
        return;
    }
    r = units->stop(unit, sweep_patience_ms(sweep, REASON_UNIT), units->arg);
    if (r == -ETIMEDOUT)
        sweep_waited_in_vain(sweep, REASON_UNIT);
    if (r < 0) {
        sweep_found(sweep, uid, reason, "%s: %s", unit, err_text(r));
        return;
    }
    sweep_found(sweep, uid, reason, "%s", unit);
    sweep_removed(sweep);
}

void sweep_units(struct sweep *sweep)
{
    const struct sweep_units *units = sweep->places->units;
    int r;

    if (!units)
        return;
    r = units->list(unit_look, sweep, units->arg);
    if (r < 0)
        sweep_failed(sweep, "units", r);
}
