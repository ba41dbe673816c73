/* leasectl cluster backup. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

#define BACKUP_MAX ((size_t)1 << 30)
#define LOST_MAX   5

struct fetch {
    struct buf *bytes;
    uint64_t copy; /* the server's, whose pieces these are; 0 = none yet */
    uint64_t revision, size;
    int64_t end_ms; /* of all of it; 0 = each piece has its own time */
    unsigned lost;  /* copies */
};

/* Another server was asked, or this one was gone meanwhile: there the copy is not known. */
static bool begin_anew(struct fetch *fetch, int code)
{
    if (code != XCE_PRECONDITION || !fetch->copy || ++fetch->lost > LOST_MAX)
        return false;
    buf_reset(fetch->bytes);
    fetch->copy = 0;
    return true;
}

static int fetch_piece(struct ctl *ctl, struct fetch *fetch)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_backup *piece;
    bool grows;
    int code;

    if (fetch->end_ms) {
        call.timeout_ms = fetch->end_ms - clock_mono_ms();
        if (call.timeout_ms <= 0)
            return ctl_fail(ctl, XCE_TIMEOUT, "the copy was not there in time");
    }
    code = xce_cluster_backup(ctl->client, &call, fetch->copy, fetch->bytes->len, &piece);
    if (code != XCE_OK)
        return begin_anew(fetch, code) ? EXIT_OK : ctl_failed(ctl, code);
    buf_add(fetch->bytes, piece->data, piece->len);
    fetch->size = piece->size;
    fetch->copy = piece->copy;
    fetch->revision = piece->revision;
    grows = piece->len > 0 || fetch->bytes->len == fetch->size;
    xce_free(piece);
    if (!grows || buf_error(fetch->bytes) < 0)
        return ctl_fail(ctl, XCE_FAILED, "the copy can not be fetched whole");
    return EXIT_OK;
}

/* All pieces of one copy. */
static int fetch_all(struct ctl *ctl, struct buf *ret, uint64_t *ret_revision)
{
    struct fetch fetch = {.bytes = ret};
    int status;

    if (ctl->globals.timeout_ms)
        fetch.end_ms = clock_mono_ms() + ctl->globals.timeout_ms;
    do
        status = fetch_piece(ctl, &fetch);
    while (status == EXIT_OK && (!fetch.copy || ret->len < fetch.size));
    *ret_revision = fetch.revision;
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    AUTO(buf_done) struct buf bytes = BUF_INIT(BACKUP_MAX);
    struct json *object;
    uint64_t revision = 0;
    int status = ctl_connect(ctl), r;

    (void)memory;
    (void)n_words;
    if (status == EXIT_OK)
        status = fetch_all(ctl, &bytes, &revision);
    if (status != EXIT_OK)
        return status;
    r = fs_write_file(AT_FDCWD, words[0], bytes.data, bytes.len, 0600);
    if (r < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s: %s", words[0], strerror(-r));
    if (!ctl->globals.json) {
        ctl_say(ctl, "%s: the state at revision %" PRIu64 ", %zu bytes", words[0], revision,
                bytes.len);
        return EXIT_OK;
    }
    object = json_new_object();
    json_set_string(object, "file", words[0]);
    json_set_u64(object, "revision", revision);
    json_set_u64(object, "bytes", bytes.len);
    return ctl_print_json(ctl, object);
}

const struct verb cmd_cluster_backup = {
    .group = "cluster",
    .name = "backup",
    .args = "FILE",
    .summary = "Write a copy of the state to a file",
    .more = "Everything that was acknowledged before it was asked for: pools, leases, nodes, "
            "epochs, rules,\n"
            "answers to requests. Not the history. The file appears whole or not at all, for its "
            "owner\n"
            "alone.",
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
