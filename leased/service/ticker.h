/* What leased does by itself as time passes, while it leads: due moves, watermarks, nodes that fall silent.
 * Everything goes through the log; this only proposes. */
#ifndef XCE_LEASED_SERVICE_TICKER_H
#define XCE_LEASED_SERVICE_TICKER_H

#include <stdint.h>

#include "leased/service/service.h"

struct ticker;

int ticker_new(struct service *service, struct ticker **ret);
void ticker_free(struct ticker *ticker);

/* Leadership began or ended: silence is counted from now. */
void ticker_leading(struct ticker *ticker);
void ticker_elapse(struct ticker *ticker);

/* A node spoke under a session, and said its watermark. */
void ticker_heard(struct ticker *ticker, const char *node, uint64_t session, uint64_t watermark);

/* Wall clock when the node was last heard by this replica; 0 = never. */
int64_t ticker_heard_wall_ms(const struct ticker *ticker, const char *node);

#endif
