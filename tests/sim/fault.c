/* What goes wrong with machines, disks, links and clocks of replicas. */
#include "tests/sim/cluster.h"

static struct replica *any_replica(struct cluster *c)
{
    return &c->replicas[roll(&c->w, (uint64_t)c->n)];
}

static int64_t until(struct cluster *c, uint64_t ms)
{
    return c->w.now_ms + 1 + (int64_t)roll(&c->w, ms);
}

/* ---- links ---- */

/* These on one side, all others on the other. */
static void part(struct cluster *c, unsigned side, int64_t until_ms)
{
    for (int a = 0; a < c->n; a++)
        for (int b = 0; b < c->n; b++)
            if ((side >> a & 1) != (side >> b & 1))
                c->links[a][b].cut_until_ms = until_ms;
}

static void cut(struct cluster *c)
{
    int64_t until_ms = until(c, 4000);
    int lead = c->w.ops->lead(&c->w);
    int a = any_replica(c)->index, b = any_replica(c)->index;

    switch (roll(&c->w, 3)) {
    case 0:
        if (lead < 0)
            break;
        c->events[CLUSTER_LEADER_ALONE]++;
        part(c, 1u << lead, until_ms);
        break;
    case 1:
        if (a == lead || b == lead)
            break;
        c->events[CLUSTER_MINORITY]++;
        part(c, 1u << a | (c->n > 3 ? 1u << b : 0), until_ms);
        break;
    default:
        c->events[CLUSTER_ONE_WAY]++;
        c->links[a][b].cut_until_ms = until_ms;
        break;
    }
    say(&c->w, "links are cut until %lld", (long long)until_ms);
}

static void mend(struct cluster *c)
{
    for (int a = 0; a < c->n; a++)
        for (int b = 0; b < c->n; b++)
            c->links[a][b] = (struct link){0};
}

static void shape_traffic(struct cluster *c)
{
    c->drop_percent = chance(&c->w, 50) ? 0 : (unsigned)roll(&c->w, 20);
    c->twice_percent = chance(&c->w, 50) ? 0 : (unsigned)roll(&c->w, 10);
    c->late_percent = chance(&c->w, 50) ? 0 : (unsigned)roll(&c->w, 5);
    c->unread_percent = chance(&c->w, 50) ? 0 : (unsigned)roll(&c->w, 50);
}

/* ---- machines ---- */

static void die(struct cluster *c)
{
    struct replica *r = any_replica(c);

    if (r->up)
        replica_crash(r);
}

static void pause_one(struct cluster *c)
{
    struct replica *r = any_replica(c);

    if (!cluster_answers(c, r))
        return;
    c->events[CLUSTER_PAUSED]++;
    r->paused_until_ms = until(c, chance(&c->w, 20) ? 70000 : 2000); /* or longer than any ttl */
    cluster_at(c, r->paused_until_ms, &(struct event){.kind = AT_RESUME, .replica = r->index});
    say(&c->w, "replica %d stands still until %lld", r->index, (long long)r->paused_until_ms);
}

static void jump(struct cluster *c)
{
    c->events[CLUSTER_WALL_JUMP]++;
    any_replica(c)->wall_ms += chance(&c->w, 50) ? 3600000 : -3600000;
}

/* ---- disks ---- */

static void spoil_disk(struct cluster *c)
{
    struct replica *r = any_replica(c);

    switch (roll(&c->w, 4)) {
    case 0:
        c->events[CLUSTER_FULL_DISK]++;
        r->full_until_ms = until(c, 3000);
        break;
    case 1:
        r->bad_vote = r->up;
        break;
    case 2:
        c->events[CLUSTER_SLOW_DISK]++;
        r->stuck_until_ms = until(c, 2000);
        break;
    default:
        r->disk_ms = 1 + (int64_t)roll(&c->w, chance(&c->w, 20) ? 200 : 5);
        break;
    }
}

void fault_step(struct cluster *c)
{
    struct world *w = &c->w;

    if (roll(w, 2000) == 0)
        cluster_suspend(c, FSM_REQUEST_MS + (int64_t)roll(w, 60000));
    if (!chance(w, 1 + (unsigned)(w->seed % 4)))
        return;
    switch (roll(w, 10)) {
    case 0:
    case 1:
        die(c);
        break;
    case 2:
    case 3:
        cut(c);
        break;
    case 4:
        c->links[roll(w, (uint64_t)c->n)][roll(w, (uint64_t)c->n)].slow_until_ms = until(c, 3000);
        break;
    case 5:
        shape_traffic(c);
        break;
    case 6:
        mend(c);
        break;
    case 7:
        pause_one(c);
        break;
    case 8:
        spoil_disk(c);
        break;
    default:
        jump(c);
        break;
    }
}

/* It dies before others have heard of the change, or there is no room for the next. */
void fault_change(struct cluster *c, struct replica *leader)
{
    if (c->w.healing)
        return;
    if (chance(&c->w, 15)) {
        int64_t at_ms = until(c, chance(&c->w, 50) ? 3 : 150);

        if (chance(&c->w, 50)) /* what it says meanwhile is not on its disk, */
            leader->stuck_until_ms = at_ms + 1;
        else /* or what it writes nobody hears */
            part(c, 1u << leader->index, at_ms + 1);
        cluster_at(c, at_ms, &(struct event){.kind = AT_CRASH, .replica = leader->index});
    }
    if (!chance(&c->w, 10))
        return;
    c->events[CLUSTER_FULL_DISK]++;
    for (int i = 0; i < c->n; i++)
        c->replicas[i].full_until_ms = until(c, 300);
}

void fault_heal(struct cluster *c)
{
    mend(c);
    c->w.healing = true;
    for (int i = 0; i < c->n; i++) {
        struct replica *r = &c->replicas[i];

        r->bad_vote = false;
        r->paused_until_ms = r->stuck_until_ms = r->full_until_ms = 0;
        r->disk_ms = 1;
        if (!r->up)
            replica_start(r);
    }
}
