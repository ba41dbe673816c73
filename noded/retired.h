/* What has retired and has not been walked for since. A lease may be told again while it is retired (it is overdue, a member of it
 * was lost), and may drain and retire anew: each time has a number, and what was told first counts until a walk for all up to
 * the last one has ended. Pure. */
#ifndef XCE_NODED_RETIRED_H
#define XCE_NODED_RETIRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retired_list {
    struct retired {
        uint32_t uid;
        uint64_t first, last; /* the numbers of the times at which it was told */
    } * items;
    size_t n, cap;
    uint64_t nr; /* of the last time */
};

void retired_done(struct retired_list *list);

void retired_add(struct retired_list *list, uint32_t uid);
bool retired_has(const struct retired_list *list, uint32_t uid);

/* Each uid becomes one item, in ascending order; those that keep does not want go. */
void retired_tidy(struct retired_list *list, bool (*keep)(uint32_t uid, void *arg), void *arg);

/* Whether anything was told at or before nr. */
bool retired_wanted(const struct retired_list *list, uint64_t nr);
/* All that was told at or before nr has been walked for. */
void retired_walked(struct retired_list *list, uint64_t nr);

#endif
