/* leasectl watch: changes of leases as they come. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

enum {
    /* How often a reader of our stdout that has gone is looked for. */
    LOOK_MS = 500,
};

struct watch_options {
    struct option_number since;
};

static const struct option_entry options[] = {
    {"since", 0, OPTION_NUMBER, offsetof(struct watch_options, since), "REVISION",
     "changes after this one; 0: what is there first", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* A list under way: it comes by lease, and is printed by revision, so it is kept until it is whole. */
struct watching {
    struct ctl *ctl;
    struct xce_watch *watch;
    struct xce_event **listed;
    size_t n_listed;
    bool skipped; /* the list under way stands in for changes that are lost */
    struct output_stream stream;
    int64_t out_of_reach; /* times the server was */
};

static struct json *event_json(const struct xce_lease *lease, const char *event)
{
    struct json *object = view_lease_json(lease);

    json_set_string(object, "event", event);
    return object;
}

static struct json *mark_json(const char *event, uint64_t revision)
{
    struct json *object = json_new_object();

    json_set_string(object, "event", event);
    json_set_u64(object, "revision", revision);
    return object;
}

static int print(struct watching *watching, const struct xce_lease *lease, const char *event)
{
    struct ctl *ctl = watching->ctl;

    if (ctl->globals.json)
        return ctl_print_json_line(ctl, event_json(lease, event));
    return output_stream(ctl, &watching->stream, &view_leases, lease);
}

/* ---- a list ---- */

static void forget_list(struct watching *watching)
{
    for (size_t i = 0; i < watching->n_listed; i++)
        xce_free(watching->listed[i]);
    free(watching->listed);
    watching->listed = NULL;
    watching->n_listed = 0;
}

/* Takes the event. */
static int keep_listed(struct watching *watching, struct xce_event *event)
{
    struct xce_event **grown;

    grown = reallocarray(watching->listed, watching->n_listed + 1, sizeof *grown);
    if (!grown) {
        xce_free(event);
        return ctl_fail(watching->ctl, XCE_FAILED, "out of memory");
    }
    grown[watching->n_listed++] = event;
    watching->listed = grown;
    return EXIT_OK;
}

static int by_revision(const void *a, const void *b)
{
    uint64_t left = (*(struct xce_event *const *)a)->lease->revision;
    uint64_t right = (*(struct xce_event *const *)b)->lease->revision;

    return left < right ? -1 : left > right;
}

static int list_complete(struct watching *watching, uint64_t revision)
{
    struct ctl *ctl = watching->ctl;
    int status = EXIT_OK;

    if (watching->n_listed)
        qsort(watching->listed, watching->n_listed, sizeof(struct xce_event *), by_revision);
    for (size_t i = 0; status == EXIT_OK && i < watching->n_listed; i++)
        status = print(watching, watching->listed[i]->lease, "listed");
    forget_list(watching);
    if (status == EXIT_OK && watching->skipped && ctl->globals.json)
        status = ctl_print_json_line(ctl, mark_json("synced", revision));
    watching->skipped = false;
    ctl_say(ctl, "watching from revision %" PRIu64, revision);
    return status;
}

static int skipped(struct watching *watching, uint64_t revision)
{
    struct ctl *ctl = watching->ctl;

    forget_list(watching);
    watching->skipped = true;
    ctl_say(ctl,
            "changes up to revision %" PRIu64 " are lost; all leases follow, and what is not "
            "among them is free",
            revision);
    return ctl->globals.json ? ctl_print_json_line(ctl, mark_json("skipped", revision)) : EXIT_OK;
}

/* Takes the event. */
static int take(struct watching *watching, struct xce_event *event)
{
    int status = EXIT_OK;

    switch (event->kind) {
    case XCE_EVENT_LISTED:
        return keep_listed(watching, event);
    case XCE_EVENT_LEASE:
        status = print(watching, event->lease, "changed");
        break;
    case XCE_EVENT_SKIPPED:
        status = skipped(watching, event->revision);
        break;
    case XCE_EVENT_SYNCED:
        status = list_complete(watching, event->revision);
        break;
    }
    xce_free(event);
    return status;
}

/* ---- the stream ---- */

/* `leasectl watch | head -1` must end although nothing more is to be written. */
static bool reader_gone(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO, .events = 0};

    return poll(&fd, 1, 0) > 0 && (fd.revents & POLLERR);
}

static int follow(struct watching *watching)
{
    struct ctl *ctl = watching->ctl;
    int64_t left_ms = ctl->globals.timeout_ms;

    for (;;) {
        struct xce_event *event;
        int code, status;

        code = xce_watch_next(watching->watch, LOOK_MS, &event);
        if (code == XCE_UNREACHABLE) {
            /* Once anything came it is a matter of time; before, of a wrong address. */
            if (!watching->out_of_reach++ && !xce_watch_revision(watching->watch))
                return ctl_failed(ctl, code);
            ctl_say(ctl, "%s; trying on", xce_client_message(ctl->client));
        } else if (code == XCE_OK) {
            status = take(watching, event);
            if (status != EXIT_OK)
                return status;
        } else if (code != XCE_TIMEOUT) {
            return ctl_failed(ctl, code);
        }
        if (code == XCE_OK)
            continue;
        if (reader_gone())
            return EXIT_OK;
        if (ctl->globals.timeout_ms && (left_ms -= LOOK_MS) <= 0)
            return EXIT_OK;
    }
}

/* The revision now: what comes after it is "from now on". */
static int ask_revision(struct ctl *ctl, uint64_t *ret)
{
    struct xce_lease_filter filter = {.page_size = 1};
    struct xce_call call = ctl_call(ctl);
    struct xce_leases *leases;
    int code = xce_lease_list(ctl->client, &call, &filter, &leases);

    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    *ret = leases->revision;
    xce_free(leases);
    ctl_say(ctl, "watching from revision %" PRIu64, *ret);
    return EXIT_OK;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct watch_options *given = memory;
    struct watching watching = {.ctl = ctl};
    uint64_t since = given->since.value;
    int status = output_begin(ctl, &view_leases), code;

    (void)n_words;
    (void)words;
    if (status == EXIT_OK && !given->since.given)
        status = ask_revision(ctl, &since);
    if (status != EXIT_OK)
        return status;
    code = xce_watch_new(ctl->client, since, &watching.watch);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = follow(&watching);
    xce_watch_free(watching.watch);
    forget_list(&watching);
    return status;
}

const struct verb cmd_watch = {
    .name = "watch",
    .args = "",
    .summary = "Print changes of leases as they come",
    .more =
        "With --json each line is a lease with one key more: \"event\", which is \"changed\", or\n"
        "\"listed\" for one of a list. Lines come in the order of revisions; the last one of a "
        "lease\n"
        "has state free. Where changes are lost a line {\"event\": \"skipped\", \"revision\": R} "
        "says\n"
        "so; all leases follow as \"listed\", then {\"event\": \"synced\", \"revision\": R}.\n"
        "A lost connection is made again. --timeout ends it after that time with status 0.",
    .options = options,
    .memory = sizeof(struct watch_options),
    .exec = exec,
};
