/* leasectl cluster backup. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "common/buf.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

#define BACKUP_MAX ((size_t)1 << 30)

/* All pieces of one copy. */
static int fetch(struct ctl *ctl, struct buf *ret, uint64_t *ret_revision)
{
    struct xce_call call = ctl_call(ctl);
    uint64_t copy = 0, size;

    do {
        struct xce_backup *piece;
        int code = xce_cluster_backup(ctl->client, &call, copy, ret->len, &piece);

        if (code != XCE_OK)
            return ctl_failed(ctl, code);
        buf_add(ret, piece->data, piece->len);
        size = piece->size;
        copy = piece->copy;
        *ret_revision = piece->revision;
        code = piece->len > 0 || ret->len == size ? XCE_OK : XCE_FAILED;
        xce_free(piece);
        if (code != XCE_OK || buf_error(ret) < 0)
            return ctl_fail(ctl, XCE_FAILED, "the copy can not be fetched whole");
    } while (ret->len < size);
    return EXIT_OK;
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
        status = fetch(ctl, &bytes, &revision);
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
