/* Whether somebody may come in as that user: the decision of pam_xce, out of the uid map alone. Pure: values in, a verdict
 * out; pam_xce.c asks PAM and the machine, and tells PAM.
 *
 * Whose business it is
 *   A user is a lease's, or would be, if one of these says so:
 *     - the name is one of our form, <prefix><uid>-<epoch>, and the uid in it is in a range. Another spelling of it counts
 *       as well: capitals, leading zeros, o i l for 0 1 1;
 *     - the name is a number that is in a range;
 *     - the machine's account of that name has a uid in a range, whatever the name.
 *   Everybody else is foreign: no verdict, and if it can not be a lease's on any cluster the map is not even opened.
 *
 * Which ranges and which prefix
 *   Those of the map. Without one that can be used (missing, damaged, superseded, not root's, unreadable), and beside one
 *   that has not caught up with the cluster, those of the module's arguments; by default what is shipped: the sample pool's
 *   range and "xce-". As the true ranges are not known then, a name of just our form with that prefix is a lease's, whatever
 *   uid is in it.
 *
 * Who comes in
 *   The one name of a lease that is *here* (map_here) and for which this machine has said READY, for a service of the list,
 *   if the machine's account of that name, should it have one, is that uid, and while noded lives. Nobody else: not under the
 *   number, an earlier epoch, another account of the same uid. Without a map, nobody. */
#ifndef XCE_PAM_CHECK_H
#define XCE_PAM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "map/name.h"
#include "map/read.h"

/* noded says about once a second that it lives; whom a dead one has let in nobody would end. ms */
#define CHECK_ALIVE_MS 60000

struct check_span {
    uint32_t first, last;
};

/* The module's arguments: see check_argument. */
struct check_conf {
    const char *services; /* "a,b": borrowed */
    char prefix[NAME_PREFIX_MAX + 1];
    struct check_span ranges[XCE_RANGES_MAX];
    uint32_t n_ranges;
};

struct check_who {
    const char *user, *service; /* as PAM has them */
    bool known;                 /* the machine has an account of that name, */
    uint32_t uid;               /* this one */
};

enum check {
    CHECK_FOREIGN = 0,
    CHECK_ALLOWED,
    CHECK_NO_MAP,
    CHECK_OTHER_NAME,
    CHECK_NO_LEASE,
    CHECK_DAMAGED,
    CHECK_NOT_HERE,
    CHECK_NOT_READY,
    CHECK_OTHER_ACCOUNT,
    CHECK_SERVICE,
    CHECK_STALE,
};

/* The defaults of the arguments. */
void check_conf_init(struct check_conf *conf);

/* Take one argument in: "services=a,b", "prefix=p-", "ranges=A-B,C-D" (or "none"). It is borrowed. False, and nothing
 * changed, if it is none of these: the defaults let nobody in who would not come in anyway. */
bool check_argument(struct check_conf *conf, const char *argument);

/* Whether the map has to be asked at all; false: CHECK_FOREIGN, whatever it says. */
bool check_concerns(const struct check_who *who);

/* The verdict. map: NULL if there is none that can be used. now_ms: CLOCK_BOOTTIME. ret_entry is set with CHECK_ALLOWED,
 * scratch otherwise. */
enum check check_decide(const struct check_conf *conf, const struct map *map, int64_t now_ms,
                        const struct check_who *who, struct map_entry *ret_entry);

/* Why not, for the log. */
const char *check_text(enum check verdict);

#endif
