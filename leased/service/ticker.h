/* What leased does by itself as time passes, while it leads: due moves, watermarks, nodes that fall silent.
 * Everything goes through the log; this only proposes. */
#ifndef XCE_LEASED_SERVICE_TICKER_H
#define XCE_LEASED_SERVICE_TICKER_H

#include <stdbool.h>
#include <stdint.h>

#include "leased/service/service.h"

struct ticker;

/* 0; -ENOMEM. */
int ticker_new(struct service *service, struct ticker **ret);
void ticker_free(struct ticker *ticker);

/* Leadership began or ended: silence is counted from now. */
void ticker_leading(struct ticker *ticker);
/* Do what is due. */
void ticker_elapse(struct ticker *ticker);

#define TICKER_HANGS_MAX 255
/* A node spoke under a session, here or at another replica, and said its watermark, and at what a look hangs there ("" = at
 * nothing; copied, and cut). */
void ticker_heard(struct ticker *ticker, const char *node, uint64_t session, uint64_t watermark,
                  const char *hangs);
/* It has hung up. */
void ticker_gone(struct ticker *ticker, const char *node, uint64_t session);

/* Whether some replica has a session with the node now. */
bool ticker_connected(const struct ticker *ticker, const char *node);

/* What it said last of what hangs there; "" = nothing, or it has hung up. Lives until it says something else. */
const char *ticker_hangs(const struct ticker *ticker, const char *node);

/* Wall clock when this replica last heard, or heard of, the node; 0 = never. */
int64_t ticker_heard_wall_ms(const struct ticker *ticker, const char *node);
/* Wall clock since when all nodes would be heard here: it leads since then, or follows, or runs. */
int64_t ticker_listening_wall_ms(const struct ticker *ticker);

#endif
