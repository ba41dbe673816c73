/* Accounts that other machines have in the ranges of pools: leased asks all of them. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/doctor.h"

enum {
    ASK_MS = 15000, /* more than leased takes when some do not answer */
    POOLS_ASK_MS = 5000,
};

#define CURE                                                                                       \
    "there: give it another uid (usermod -u, groupmod -g), then leasectl pool unblock NAME UID "   \
    "--reason WHY; until then the uid is not leased, and nothing of it is touched"

/* What the check of accounts has told already, on this machine. */
static bool is_told(const struct doctor *doctor, const struct xce_overlap *overlap)
{
    const char *server = xce_client_servers(doctor->ctl->client);
    bool here = overlap->node[0] ? !strcmp(overlap->node, doctor->node)
                                 : !overlap->replica[0] && !strncmp(server, "unix:", 5);

    return here && doctor->collides;
}

static void tell(struct doctor *doctor, const char *pool, const struct xce_overlap *overlap)
{
    const char *kind = overlap->node[0]      ? "node"
                       : overlap->replica[0] ? "replica"
                                             : "leased's machine";
    const char *name = overlap->node[0] ? overlap->node : overlap->replica;
    char uids[32];

    if (!overlap->range.last) {
        doctor_found(doctor, SEVERITY_WARNING, "overlap-unknown",
                     "is it up? leasectl node list; a name service that is down is named in the "
                     "journal of noded there",
                     "%s%s%s does not say whether anybody there has a uid of pool %s: %s", kind,
                     *name ? " " : "", name, pool, overlap->what);
        return;
    }
    if (is_told(doctor, overlap))
        return;
    if (overlap->range.first == overlap->range.last)
        snprintf(uids, sizeof uids, "%u", overlap->range.first);
    else
        snprintf(uids, sizeof uids, "%u-%u", overlap->range.first, overlap->range.last);
    doctor_found(doctor, SEVERITY_ERROR, "overlap-taken", CURE, "%s%s%s: %s of pool %s: %s", kind,
                 *name ? " " : "", name, uids, pool, overlap->what);
}

/* false: there is no more to be had of others. */
static bool look_at(struct doctor *doctor, const char *pool)
{
    struct xce_client *client = doctor->ctl->client;
    struct xce_call call = {.timeout_ms = ASK_MS};
    struct xce_overlaps *overlaps;
    int code = xce_pool_overlap(client, &call, pool, &overlaps);

    if (code != XCE_OK) {
        doctor_found(doctor, SEVERITY_NOTE, "overlap-unasked",
                     code == XCE_NOT_FOUND ? "ask as an administrator or operator" : "ask again",
                     "the other machines are not asked for accounts in pools: %s",
                     xce_client_message(client));
        return false;
    }
    for (size_t i = 0; i < overlaps->n; i++)
        tell(doctor, pool, &overlaps->items[i]);
    xce_free(overlaps);
    return true;
}

void doctor_check_overlap(struct doctor *doctor)
{
    struct xce_call call = {.timeout_ms = POOLS_ASK_MS};
    size_t before = doctor->n_findings;
    struct xce_pools *pools;

    if (!doctor->leased_answers || xce_pool_list(doctor->ctl->client, &call, &pools) != XCE_OK)
        return;
    for (size_t i = 0; i < pools->n; i++)
        if (!look_at(doctor, pools->items[i].name))
            break;
    if (pools->n && doctor->n_findings == before && !doctor->collides)
        doctor_found(doctor, SEVERITY_OK, "overlap-ok", NULL,
                     "no machine has an account in a pool");
    xce_free(pools);
}
