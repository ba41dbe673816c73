/* Epochs to disk, a batch at a time, off the loop. */
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "noded/noded_inside.h"

struct persist {
    struct noded *n;
    struct epoch_entry *entries;
    size_t n_entries;
    bool rewrite;
    int r;
};

static void recall(const struct epoch_entry *entry, void *arg)
{
    state_recall_epoch(
        arg, &(struct state_epoch){entry->uid, entry->epoch, entry->closed, entry->swept});
}

int noded_epochs_start(struct noded *n, bool *ret_torn)
{
    struct err err = {0};
    int r = epochs_open(n->epochs_path, recall, n->state, &n->epochs, ret_torn, &err);

    if (r < 0)
        log_error(NULL, "%s", err.text);
    else if (*ret_torn)
        log_notice(NULL, "%s: the end, which nobody relied on, was torn and has been cut off",
                   n->epochs_path);
    return r;
}

void noded_epochs_say(struct noded *n)
{
    size_t n_epochs;
    auto_free struct state_epoch *epochs = state_member_epochs(n->state, &n_epochs);

    log_notice(LOG_FIELDS(.node = n->node),
               "a backup was restored: telling leased %zu epochs that were seen here", n_epochs);
    session_epochs(n->session, epochs, n_epochs);
}

static struct epoch_entry entry_of(const struct state_epoch *e)
{
    return (struct epoch_entry){e->uid, e->epoch, e->closed, e->swept};
}

static void work(void *arg)
{
    struct persist *p = arg;

    p->r = p->rewrite ? epochs_rewrite(p->n->epochs, p->entries, p->n_entries)
                      : epochs_append(p->n->epochs, p->entries, p->n_entries);
}

static void done(int r, void *arg)
{
    struct persist *p = arg;
    struct noded *n = p->n;

    noded_offload_done(n);
    if (r == 0)
        r = p->r;
    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK),
                  "%s: cannot be written (%s): no lease becomes ready here", n->epochs_path,
                  err_text(r));
    state_persisted(n->state, r);
    free(p->entries);
    free(p);
    noded_touch(n);
}

void noded_op_persist(const struct state_epoch *entries, size_t n_entries, void *arg)
{
    struct noded *n = arg;
    struct persist *p = mem_must_calloc(1, sizeof(*p));
    auto_free struct state_epoch *all = NULL;
    size_t n_all = 0;

    p->n = n;
    p->rewrite = epochs_grown(n->epochs, state_n_epochs(n->state));
    if (p->rewrite)
        all = state_epochs(n->state, &n_all);
    p->entries = mem_must_calloc(n_all + n_entries, sizeof(*p->entries));
    for (size_t i = 0; i < n_all; i++)
        p->entries[p->n_entries++] = entry_of(&all[i]);
    for (size_t i = 0; i < n_entries; i++)
        p->entries[p->n_entries++] = entry_of(&entries[i]);
    noded_offload_slow(n, work, done, p);
}
