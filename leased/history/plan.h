/* What is to be fetched from another replica to fill a gap, and whether what it sends is that. Pure: values in, values out.
 *
 * The other one is a replica of ours by its certificate; it may still be broken, or of another story. So an outline or a
 * page that can not be right is refused whole, and what is fetched ends: leases come in ascending order up to one that was
 * named before the first page, and no period has more of them than it has had changes. */
#ifndef XCE_LEASED_HISTORY_PLAN_H
#define XCE_LEASED_HISTORY_PLAN_H

#include "leased/history/refill.h"

#define PLAN_WHY_MAX     256
#define PLAN_PERIODS_MAX 1024 /* and gaps, of another's outline */

/* A period of the source, to be fetched from the lease after `after` up to `last`. */
struct plan_part {
    int64_t number;
    struct history_foreign period;
    uint64_t after, last;
};

struct plan {
    uint64_t id; /* another plan has another; never 0 */
    struct plan_part *parts;
    size_t n_parts;
    struct history_rest *rest;
    size_t n_rest;
};

/* What has not come yet, with some room: who is asked may be ahead of us. */
struct plan_newest {
    uint64_t revision, lease;
};

/* How the gap, one of ours, is filled with theirs.
 * 0, to be freed with plan_done; -ENOENT they know no more than we, or not yet; -EBADMSG that is no outline. why says. */
int plan_make(const struct history_gap *gap, const struct history_outline *ours,
              const struct history_outline *theirs, const struct plan_newest *newest,
              struct plan *ret, char why[static PLAN_WHY_MAX]);
/* All zero is fine. */
void plan_done(struct plan *plan);

/* Whether these are the next leases of the part. 0; -EBADMSG, why says. */
int plan_check(const struct plan_part *part, uint64_t after, const struct history_entry *entries,
               size_t n, char why[static PLAN_WHY_MAX]);

#endif
