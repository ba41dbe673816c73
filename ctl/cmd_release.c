/* leasectl release: give leases back. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/noded.h"
#include "ctl/target.h"
#include "ctl/verb.h"
#include "ctl/view.h"
#include "ctl/wait.h"

enum {
    /* Of --wait, without --timeout. */
    WAIT_TIMEOUT_MS = 10 * 60 * 1000,
};

struct release_options {
    struct target target;
    const char *node;
    const char *wait;
    bool deferred;
    const char *noded;
};

static const char *const wait_words[] = {"clean", "free", NULL};

static const struct option_entry options[] = {
    TARGET_OPTIONS(struct release_options),
    TARGET_OPTIONS_JOB(struct release_options),
    {"node", 0, OPTION_TEXT, offsetof(struct release_options, node), "NODE",
     "let go of this member alone", NULL},
    {"wait", 'w', OPTION_OPTIONAL, offsetof(struct release_options, wait), "clean|free",
     "wait until all members have proved it clean, or the uid is free", wait_words},
    {"deferred", 0, OPTION_FLAG, offsetof(struct release_options, deferred), NULL,
     "hand it to noded of this machine, which tells leased when it is there", NULL},
    {"noded", 0, OPTION_TEXT, offsetof(struct release_options, noded), "SOCKET",
     "with --deferred: where noded is (default: /run/xce/noded.sock)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* One lease; *ret (may stay NULL) is the caller's to free. */
static int release(struct ctl *ctl, const struct release_options *given, const char *word,
                   struct xce_lease **ret)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_lease *lease;
    int status = target_find(ctl, &given->target, word, &lease), code;

    if (status != EXIT_OK)
        return status;
    code = xce_lease_release(ctl->client, &call, lease->lease, lease->epoch, given->node, ret);
    xce_free(lease);
    return code == XCE_OK ? EXIT_OK : ctl_failed_change(ctl, code);
}

/* One that was released, and how it stood when the waiting for it ended. */
struct released {
    struct xce_lease *lease;
    struct wait_end end; /* zero: as in lease */
};

static const struct xce_lease *as_of_now(const struct released *released)
{
    if (released->end.gone)
        released->lease->state = XCE_FREE;
    return released->end.last && !released->end.gone ? released->end.last->lease : released->lease;
}

static int wait_all(struct ctl *ctl, const struct release_options *given, struct released *leases,
                    size_t n)
{
    enum wait_for what = !strcmp(given->wait, "free") ? WAIT_FREE : WAIT_CLEAN;
    int64_t timeout_ms = ctl->globals.timeout_ms ? ctl->globals.timeout_ms : WAIT_TIMEOUT_MS;
    int64_t deadline_ms = clock_mono_ms() + timeout_ms;
    int worst = EXIT_OK;

    for (size_t i = 0; i < n; i++) {
        int status = wait_lease(ctl, leases[i].lease, what, deadline_ms, &leases[i].end);

        if (worst == EXIT_OK)
            worst = status;
    }
    return worst;
}

static int print(struct ctl *ctl, const struct released *leases, size_t n, bool many)
{
    struct json *object, *array;
    struct output *output;
    int status = EXIT_OK;

    if (!many)
        return n ? view_lease(ctl, as_of_now(&leases[0])) : EXIT_OK;
    if (ctl->globals.json) {
        object = json_new_object();
        array = json_new_array();
        for (size_t i = 0; i < n; i++)
            json_append(array, view_lease_json(as_of_now(&leases[i])));
        json_set(object, "leases", array);
        return ctl_print_json(ctl, object);
    }
    output = output_new(ctl, &view_leases);
    if (!output)
        return EXIT_FAILED;
    for (size_t i = 0; i < n && status == EXIT_OK; i++)
        status = output_add(output, as_of_now(&leases[i]), 1);
    if (status == EXIT_OK)
        return output_print(output);
    output_free(output);
    return status;
}

/* All that can be released are; the first failure is the status. */
static int release_all(struct ctl *ctl, const struct release_options *given, size_t n, char **words)
{
    struct released *leases = calloc(n, sizeof *leases);
    int worst = EXIT_OK, status;
    size_t done = 0;

    if (!leases)
        return ctl_fail(ctl, XCE_FAILED, "out of memory");
    for (size_t i = 0; i < n; i++) {
        status = release(ctl, given, words ? words[i] : NULL, &leases[done].lease);
        if (status == EXIT_OK)
            done++;
        else if (worst == EXIT_OK)
            worst = status;
    }
    if (given->wait && worst == EXIT_OK)
        worst = wait_all(ctl, given, leases, done);
    /* With --json there is one object on stdout: the error, if there was one. */
    if (worst == EXIT_OK || !ctl->globals.json) {
        status = print(ctl, leases, done, n > 1);
        if (worst == EXIT_OK)
            worst = status;
    }
    for (size_t i = 0; i < done; i++) {
        xce_free(leases[i].lease);
        wait_end_done(&leases[i].end);
    }
    free(leases);
    return worst;
}

/* ---- without leased ---- */

static int check_deferred(struct ctl *ctl, const struct release_options *given)
{
    if (given->wait || given->node)
        return ctl_usage(ctl, "--deferred: leased is not asked, so neither --wait nor --node");
    if (given->target.job)
        return ctl_usage(ctl, "--deferred: noded knows no jobs: give a uid, a name or --lease");
    return EXIT_OK;
}

/* A bare number is a uid if noded knows it as one. */
static int hand_over(struct ctl *ctl, const struct release_options *given, const char *word,
                     struct xce_deferred **ret)
{
    struct xce_call call = ctl_call(ctl);
    struct target_keys keys;
    int status = target_keys(ctl, &given->target, word, &keys), code = XCE_NOT_FOUND;

    if (status != EXIT_OK)
        return status;
    for (size_t i = 0; i < keys.n && code == XCE_NOT_FOUND; i++)
        code = xce_lease_release_deferred(ctl->client, &call, &keys.keys[i], ret);
    return code == XCE_OK ? EXIT_OK : ctl_failed_change(ctl, code);
}

static int release_deferred(struct ctl *ctl, const struct release_options *given, int n_words,
                            char **words)
{
    size_t n = n_words ? (size_t)n_words : 1, done = 0;
    struct xce_deferred *rows = calloc(n, sizeof *rows), *one;
    int worst = check_deferred(ctl, given), status;

    if (!rows)
        return ctl_fail(ctl, XCE_FAILED, "out of memory");
    if (worst == EXIT_OK)
        worst = noded_client(ctl, given->noded, &ctl->client);
    for (size_t i = 0; ctl->client && i < n; i++) {
        status = hand_over(ctl, given, n_words ? words[i] : NULL, &one);
        if (status == EXIT_OK) {
            rows[done++] = *one;
            xce_free(one);
        } else if (worst == EXIT_OK) {
            worst = status;
        }
    }
    if (ctl->client && (worst == EXIT_OK || (done && !ctl->globals.json))) {
        status = view_deferreds(ctl, rows, done, n > 1);
        worst = worst == EXIT_OK ? status : worst;
    }
    free(rows);
    return worst;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct release_options *given = memory;
    int status = output_check(ctl, given->deferred ? &view_deferred : &view_leases);

    if (status != EXIT_OK)
        return status;
    if (given->wait && given->node)
        return ctl_usage(ctl, "--wait: is for a whole lease, not for one --node");
    if (given->noded && !given->deferred)
        return ctl_usage(ctl, "--noded: goes with --deferred");
    if (given->deferred)
        return release_deferred(ctl, given, n_words, words);
    return release_all(ctl, given, n_words ? (size_t)n_words : 1, n_words ? words : NULL);
}

const struct verb cmd_release = {
    .name = "release",
    .args = "[TARGET...]",
    .summary = "Give a lease back",
    .more = TARGET_HELP
    "\n"
    "Whatever still runs under the uid is killed. The uid is leased again only\n"
    "when every member has proved it clean and the cool-down is over.\n"
    "\n"
    "--deferred, on a member, is for when no controller can be reached: noded ends\n"
    "there what is left of the lease, keeps the release on disk, and tells leased\n"
    "when it is there. By root, by who holds the lease, or by the leased uid.",
    .options = options,
    .memory = sizeof(struct release_options),
    .words_most = -1,
    .exec = exec,
};
