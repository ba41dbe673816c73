/* A backup is restored into a cluster, as leased does it: all replicas are off and their folders cleared away; one gets the
 * state of the backup in its new incarnation (server_restore.c), leads alone and puts it into its log as the first entry
 * (raft.c); the others are added to it. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cluster.h"

/* In no log: on the machine of the administrator. */
static void begin_anew(struct cluster *c)
{
    struct world *w = &c->w;
    struct buf entry = BUF_INIT(COMMAND_ENTRY_MAX);
    uint8_t bytes[BACKUP_COMMAND_MAX];
    struct fsm_restored restored;

    backup_restore(w);
    command_entry_begin(&entry, fsm_now_ms(w->fsm), 0);
    command_entry_append(&entry, bytes, backup_command(w, bytes));
    if (command_entry_finish(&entry) < 0)
        violated(w, "an entry is not whole");
    world_commit(w, (const uint8_t *)entry.data, entry.len, -1);
    buf_done(&entry);
    fsm_get_restored(w->fsm, &restored);
    if (!restored.waits)
        violated(w, "a backup is restored and waits for no node");
}

static void clear_away(struct cluster *c)
{
    for (int i = 0; i < c->n; i++) {
        struct replica *r = &c->replicas[i];

        if (r->up)
            replica_crash(r);
        r->generation++; /* nobody starts it */
        replica_wipe(r);
        r->spare = false;
    }
    cluster_forget(c);
}

static void restore(struct cluster *c)
{
    struct replica *first = &c->replicas[roll(&c->w, (uint64_t)c->n)];

    clear_away(c);
    begin_anew(c);
    if (fsm_snapshot(c->w.fsm, &first->state, &first->state_len) < 0)
        abort();
    cluster_bootstrap(c, first->index, 1);
    for (int i = 0; i < c->n; i++)
        cluster_at(c, c->w.now_ms + 1 + (int64_t)roll(&c->w, 500),
                   &(struct event){.kind = AT_START, .replica = i});
    c->changing = true; /* the others are added */
    c->events[CLUSTER_BACKUP]++;
}

void restore_step(struct cluster *c)
{
    struct world *w = &c->w;
    int lead;

    if (w->seed % 5 != 3)
        return;
    lead = w->ops->lead(w);
    if (lead >= 0 && roll(w, 60) == 0)
        backup_make(w, c->replicas[lead].fsm);
    if (w->backup && roll(w, 250) == 0)
        restore(c);
    backup_behave(w);
}
