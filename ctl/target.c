#include "ctl/target.h"

#include <inttypes.h>
#include <string.h>

#include "common/text.h"
#include "ctl/account.h"
#include "ctl/ctl.h"

static int key_of_word(struct ctl *ctl, const char *word, struct target_keys *ret)
{
    struct err err = {0};
    uint64_t number;

    if (!word[0])
        return ctl_usage(ctl, "TARGET is empty");
    if (strspn(word, "0123456789") != strlen(word)) {
        ret->keys[ret->n++] = (struct xce_key){.kind = XCE_BY_NAME, .text = word};
        return EXIT_OK;
    }
    if (text_parse_u64(word, &number, &err) < 0)
        return ctl_usage(ctl, "TARGET: %s", err.text);
    if (number && number <= UINT32_MAX)
        ret->keys[ret->n++] = (struct xce_key){.kind = XCE_BY_UID, .uid = (uint32_t)number};
    if (number)
        ret->keys[ret->n++] = (struct xce_key){.kind = XCE_BY_LEASE, .lease = number};
    return number ? EXIT_OK : ctl_usage(ctl, "TARGET: 0 is no lease and is never leased");
}

static int key_of_job(struct ctl *ctl, const struct target *target, struct target_keys *ret)
{
    struct xce_key *key = &ret->keys[ret->n++];

    *key = (struct xce_key){.kind = XCE_BY_JOB, .text = target->job};
    if (!target->owner)
        return EXIT_OK;
    key->owner = &ret->owner;
    return account_owner(ctl, target->owner, ret->owner_name, sizeof ret->owner_name, &ret->owner);
}

int target_keys(struct ctl *ctl, const struct target *target, const char *word,
                struct target_keys *ret)
{
    int given = (word != NULL) + (target->uid != 0) + (target->lease != 0) +
                (target->name != NULL) + (target->job != NULL);

    *ret = (struct target_keys){0};
    if (given == 0)
        return ctl_usage(ctl, "which lease? give a TARGET, --uid, --lease, --name or --job");
    if (given > 1)
        return ctl_usage(ctl, "give one of TARGET, --uid, --lease, --name and --job");
    if (target->owner && !target->job)
        return ctl_usage(ctl, "--owner: goes with --job");
    if (word)
        return key_of_word(ctl, word, ret);
    if (target->job)
        return key_of_job(ctl, target, ret);
    if (target->uid)
        ret->keys[0] = (struct xce_key){.kind = XCE_BY_UID, .uid = target->uid};
    else if (target->lease)
        ret->keys[0] = (struct xce_key){.kind = XCE_BY_LEASE, .lease = target->lease};
    else
        ret->keys[0] = (struct xce_key){.kind = XCE_BY_NAME, .text = target->name};
    ret->n = 1;
    return EXIT_OK;
}

/* A bare number: the one that is there, if it is one. */
static int find_number(struct ctl *ctl, const struct target_keys *keys, struct xce_lease **ret)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_lease *by_uid = NULL, *by_lease = NULL;
    int code = xce_lease_get(ctl->client, &call, &keys->keys[0], &by_uid);

    if (code == XCE_OK || code == XCE_NOT_FOUND)
        code = xce_lease_get(ctl->client, &call, &keys->keys[1], &by_lease);
    if (by_uid && by_lease && by_uid->lease != by_lease->lease)
        code = XCE_INVALID;
    else if (by_uid && code == XCE_NOT_FOUND)
        code = XCE_OK;
    if (code == XCE_OK) {
        *ret = by_uid ? by_uid : by_lease;
        xce_free(by_uid ? by_lease : NULL);
        return EXIT_OK;
    }
    xce_free(by_uid);
    xce_free(by_lease);
    if (code == XCE_INVALID && keys->keys[0].uid)
        return ctl_usage(ctl,
                         "%u is a leased uid and the number of another lease: say --uid or "
                         "--lease",
                         keys->keys[0].uid);
    if (code == XCE_NOT_FOUND)
        return ctl_fail(ctl, code, "%u: no lease holds this uid or has this number",
                        keys->keys[0].uid);
    return ctl_failed(ctl, code);
}

int target_failed(struct ctl *ctl, int code, const struct xce_key *key)
{
    const char *message = xce_client_message(ctl->client);

    if (code != XCE_NOT_FOUND)
        return ctl_failed(ctl, code);
    switch (key->kind) {
    case XCE_BY_UID:
        return ctl_fail(ctl, code, "%s: uid %" PRIu32, message, key->uid);
    case XCE_BY_LEASE:
        return ctl_fail(ctl, code, "%s: lease %" PRIu64, message, key->lease);
    case XCE_BY_NAME:
        return ctl_fail(ctl, code, "%s: name %s", message, key->text);
    case XCE_BY_JOB:
        return ctl_fail(ctl, code, "%s: job %s of %s", message, key->text,
                        key->owner ? key->owner->name : "yours");
    }
    return ctl_failed(ctl, code);
}

/* A job that has no lease now may have one that ended, and whose uid is not free yet. */
static int find_ended(struct ctl *ctl, const struct xce_key *job, struct xce_lease **ret)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_explanation *explanation;
    struct xce_key key = {.kind = XCE_BY_LEASE};
    int code = xce_lease_explain(ctl->client, &call, job, &explanation);

    if (code != XCE_OK)
        return code;
    key.lease = explanation->lease ? explanation->lease->lease : 0;
    xce_free(explanation);
    return xce_lease_get(ctl->client, &call, &key, ret);
}

int target_find(struct ctl *ctl, const struct target *target, const char *word,
                struct xce_lease **ret)
{
    struct target_keys keys;
    struct xce_call call;
    int status = target_keys(ctl, target, word, &keys);
    int code;

    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    if (keys.n == 2)
        return find_number(ctl, &keys, ret);
    call = ctl_call(ctl);
    code = xce_lease_get(ctl->client, &call, &keys.keys[0], ret);
    if (code == XCE_NOT_FOUND && keys.keys[0].kind == XCE_BY_JOB)
        code = find_ended(ctl, &keys.keys[0], ret);
    return code == XCE_OK ? EXIT_OK : target_failed(ctl, code, &keys.keys[0]);
}
