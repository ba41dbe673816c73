/* Replicas whose history lags too far or can not be written: they say so to each other (tell.h), who leads hands over to one
 * that is well, and while a majority of the voters is degraded Acquire, alone, is refused.
 *
 * Why refuse: what was granted must be found in the history for ever, and it is there only when it is in the files of most
 * replicas. Nothing of this is in the log: it holds as long as it is said, and ends by itself. */
#ifndef XCE_LEASED_SERVICE_DEGRADED_H
#define XCE_LEASED_SERVICE_DEGRADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/service/service.h"

struct degraded;

#define DEGRADED_WHY_MAX 256 /* bytes of a sentence, with NUL */

int degraded_new(struct service *service, struct degraded **ret);
void degraded_free(struct degraded *degraded);

/* Look at our own history, say what has changed, hand over. */
void degraded_elapse(struct degraded *degraded);
/* A replica, this one too, has said how it is; why is empty when it is well. */
void degraded_heard(struct degraded *degraded, uint64_t replica, const ProtobufCBinaryData *why);

/* Why the replica is degraded, as far as it is known here; "" = it is not. Lives until the next elapse. */
const char *degraded_why(const struct degraded *degraded, uint64_t replica);
/* Whether no lease may be granted now, and the sentence for it. */
bool degraded_refuses(const struct degraded *degraded, char *why, size_t size);

#endif
