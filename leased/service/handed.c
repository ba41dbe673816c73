#include "leased/service/handed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/log.h"
#include "leased/fsm/fsm.h"
#include "leased/service/internal.h"

#define ID_MIN 16
#define ID_MAX 64

static bool has_member(const struct fsm_lease *lease, const char *node)
{
    for (uint32_t i = 0; i < lease->n_members; i++)
        if (!strcmp(lease->members[i].node->name, node))
            return !lease->members[i].released;
    return false;
}

/* A member's word ends a lease anyway; so root there may release it, and who holds it, and who runs under it. Whether who has the
 * holder's number has his name as well, noded has asked its machine. */
static bool may_release(const struct fsm_lease *lease, const char *node, uint32_t caller)
{
    return has_member(lease, node) &&
           (caller == 0 || caller == lease->uid || caller == lease->owner.uid);
}

static void propose(struct service *service, const char *node, const Xce__V1__DeferredRelease *told,
                    engine_done_fn done, void *arg)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
    Xce__V1__Request request = XCE__V1__REQUEST__INIT;
    uint8_t bytes[64], digest[DIGEST_LEN];
    char principal[128];

    release.lease = told->lease;
    release.epoch = told->epoch;
    digest_bytes(bytes, xce__v1__cmd_release__pack(&release, bytes), digest);
    (void)snprintf(principal, sizeof principal, "node:%s", node);
    request.principal.data = (uint8_t *)principal;
    request.principal.len = strlen(principal);
    request.id = told->id;
    request.digest.data = digest;
    request.digest.len = sizeof digest;
    command.request = &request;
    command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
    command.release = &release;
    service_propose_own(service, &command, done, arg);
}

int handed_release(struct service *service, const char *node, const Xce__V1__DeferredRelease *told,
                   engine_done_fn done, void *arg, const char **message)
{
    const struct fsm_lease *lease = fsm_lease(service_fsm(service), told->lease);

    *message = "a release is handed over with an id of 16 to 64 bytes";
    if (told->id.len < ID_MIN || told->id.len > ID_MAX)
        return -EINVAL;
    if (!lease || lease->epoch != told->epoch || lease->uid != told->uid ||
        lease->state > LEASE_ACTIVE)
        return 0;
    if (!may_release(lease, node, told->caller)) {
        log_warning(LOG_FIELDS(.lease = lease->id, .uid = lease->uid, .node = node),
                    "a release that uid %" PRIu32 " handed over on the node is not taken: it is "
                    "neither root, nor the holder, nor the lease",
                    told->caller);
        return 0;
    }
    log_notice(
        LOG_FIELDS(.lease = lease->id, .uid = lease->uid, .epoch = lease->epoch, .node = node),
        "released: handed over on the node by uid %" PRIu32, told->caller);
    propose(service, node, told, done, arg);
    return HANDED_PROPOSED;
}
