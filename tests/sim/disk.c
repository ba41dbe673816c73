/* Storage of a replica: what is on its disk outlives it; what is under way when it dies is there in part, in order. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cluster.h"

static struct replica *owner(struct raft_io *io)
{
    return io->impl;
}

/* ---- the disk itself ---- */

static void push(struct disk *disk, const struct raft_entry *entry)
{
    mem_must_grow(&disk->entries, &disk->cap, disk->n + 1, sizeof(*disk->entries));
    disk->entries[disk->n++] = (struct disk_entry){
        entry->term, entry->type, mem_must_dup(entry->buf.base, entry->buf.len), entry->buf.len};
}

static void cut_tail(struct replica *r, raft_index index)
{
    struct disk *disk = &r->disk;

    while (disk->n && disk->first + disk->n > index) {
        free(disk->entries[--disk->n].bytes);
        r->c->events[CLUSTER_TRUNCATED]++;
    }
}

static void cut_head(struct disk *disk, raft_index first)
{
    size_t gone = first <= disk->first ? 0 : (size_t)(first - disk->first);

    if (gone > disk->n)
        gone = disk->n;
    for (size_t i = 0; i < gone; i++)
        free(disk->entries[i].bytes);
    if (gone)
        memmove(disk->entries, disk->entries + gone, (disk->n - gone) * sizeof(*disk->entries));
    disk->n -= gone;
    disk->first += gone;
    if (!disk->n && disk->first < first)
        disk->first = first;
}

static void drop_snapshot(struct disk *disk)
{
    if (!disk->has_snapshot)
        return;
    raft_free(disk->snapshot.members.base);
    free(disk->snapshot.bytes);
    disk->has_snapshot = false;
}

void disk_done(struct disk *disk)
{
    drop_snapshot(disk);
    for (size_t i = 0; i < disk->n; i++)
        free(disk->entries[i].bytes);
    free(disk->entries);
}

static void put_snapshot(struct replica *r, const struct raft_snapshot *snapshot, unsigned trailing)
{
    struct disk *disk = &r->disk;
    struct disk_snapshot *kept = &disk->snapshot;
    size_t len = 0;

    members_check_snapshot(r->c, r, snapshot);
    drop_snapshot(disk);
    disk->has_snapshot = true;
    *kept = (struct disk_snapshot){.index = snapshot->index,
                                   .members_index = snapshot->configuration_index,
                                   .term = snapshot->term};
    if (raft_configuration_encode(&snapshot->configuration, &kept->members) != 0)
        abort();
    for (unsigned i = 0; i < snapshot->n_bufs; i++)
        kept->len += snapshot->bufs[i].len;
    kept->bytes = mem_must_alloc(kept->len);
    for (unsigned i = 0; i < snapshot->n_bufs; i++) {
        memcpy(kept->bytes + len, snapshot->bufs[i].base, snapshot->bufs[i].len);
        len += snapshot->bufs[i].len;
    }
    if (trailing == 0) { /* it comes from the leader: what was here before is another story */
        cut_head(disk, disk->first + disk->n);
        disk->first = snapshot->index + 1;
    } else if (snapshot->index > trailing) {
        cut_head(disk, snapshot->index - trailing + 1);
    }
}

/* ---- work under way ---- */

static void add_work(struct replica *r, const struct disk_work *work)
{
    struct disk_work *added = mem_must_dup(work, sizeof(*work));

    added->next = NULL;
    added->too_late = r->dying;
    *r->work_end = added;
    r->work_end = &added->next;
    if (r->work == added)
        cluster_at(r->c, r->c->w.now_ms + r->disk_ms,
                   &(struct event){.kind = AT_DISK, .replica = r->index});
}

static struct disk_work *take_work(struct replica *r)
{
    struct disk_work *work = r->work;

    r->work = work->next;
    if (!r->work)
        r->work_end = &r->work;
    return work;
}

const struct disk_entry *disk_find(const struct replica *r, raft_index index)
{
    static struct disk_entry found;
    const struct disk *disk = &r->disk;

    found.bytes = NULL;
    if (index >= disk->first && index < disk->first + disk->n)
        found = disk->entries[index - disk->first];
    for (const struct disk_work *work = r->work; work; work = work->next) {
        const struct raft_entry *entry;

        if ((work->kind == DISK_TRUNCATE && index >= work->index) ||
            (work->kind == DISK_PUT && work->trailing == 0))
            found.bytes = NULL; /* it is another story */
        if (work->kind != DISK_APPEND || index < work->index || index >= work->index + work->n)
            continue;
        entry = &work->entries[index - work->index];
        found = (struct disk_entry){entry->term, entry->type, entry->buf.base, entry->buf.len};
    }
    return found.bytes ? &found : NULL;
}

static void do_work(struct replica *r, const struct disk_work *work, unsigned n)
{
    switch (work->kind) {
    case DISK_APPEND:
        for (unsigned i = 0; i < n; i++)
            push(&r->disk, &work->entries[i]);
        break;
    case DISK_TRUNCATE:
        cut_tail(r, work->index);
        break;
    case DISK_PUT:
        put_snapshot(r, work->snapshot, work->trailing);
        break;
    case DISK_GET:
        break;
    }
}

/* A copy for the library, which frees it. */
static struct raft_snapshot *copy_snapshot(const struct disk_snapshot *kept)
{
    struct raft_snapshot *snapshot = raft_calloc(1, sizeof(*snapshot));

    snapshot->bufs = raft_calloc(1, sizeof(*snapshot->bufs));
    snapshot->n_bufs = 1;
    snapshot->bufs[0].len = kept->len;
    snapshot->bufs[0].base = raft_malloc(kept->len);
    memcpy(snapshot->bufs[0].base, kept->bytes, kept->len);
    snapshot->index = kept->index;
    snapshot->term = kept->term;
    snapshot->configuration_index = kept->members_index;
    if (raft_configuration_decode(&kept->members, &snapshot->configuration) != 0)
        abort();
    return snapshot;
}

static struct raft_snapshot *read_snapshot(struct replica *r)
{
    struct cluster *c = r->c;
    struct raft_snapshot *snapshot;

    if (c->w.healing || !chance(&c->w, c->unread_percent)) {
        snapshot = copy_snapshot(&r->disk.snapshot);
        raft_guard_read(&r->guard, snapshot);
        return snapshot;
    }
    snapshot = raft_malloc(sizeof(*snapshot));
    raft_guard_unread(snapshot);
    c->events[CLUSTER_UNREAD]++;
    return snapshot;
}

static void tell(struct replica *r, const struct disk_work *work, int status)
{
    switch (work->kind) {
    case DISK_APPEND:
        work->append->cb(work->append, status);
        break;
    case DISK_PUT:
        work->put->cb(work->put, status);
        break;
    case DISK_GET: /* never canceled: sending what it got fails instead */
        work->get->cb(work->get, read_snapshot(r), 0);
        break;
    case DISK_TRUNCATE:
        break;
    }
}

void disk_step(struct replica *r)
{
    struct cluster *c = r->c;
    struct disk_work *work;

    if (r->stuck_until_ms > c->w.now_ms) {
        cluster_at(c, r->stuck_until_ms, &(struct event){.kind = AT_DISK, .replica = r->index});
        return;
    }
    work = take_work(r);
    do_work(r, work, work->n);
    if (r->work)
        cluster_at(c, c->w.now_ms + r->disk_ms,
                   &(struct event){.kind = AT_DISK, .replica = r->index});
    if (work->kind == DISK_PUT)
        c->events[work->trailing ? CLUSTER_SNAPSHOT : CLUSTER_INSTALLED]++;
    tell(r, work, 0);
    free(work);
}

void disk_crash(struct replica *r)
{
    struct world *w = &r->c->w;
    const struct disk_work *work = r->work;

    while (work && !work->too_late && chance(w, 50)) {
        do_work(r, work, work->n);
        work = work->next;
    }
    if (!work || work->too_late)
        return;
    r->c->events[CLUSTER_TORN]++;
    if (work->kind == DISK_APPEND)
        do_work(r, work, (unsigned)roll(w, work->n));
}

void disk_cancel(struct replica *r)
{
    while (r->work) {
        struct disk_work *work = take_work(r);

        tell(r, work, RAFT_CANCELED);
        free(work);
    }
}

/* ---- raft_io ---- */

static void load_entries(const struct disk *disk, struct raft_entry **ret)
{
    struct raft_entry *entries;
    uint8_t *batch;
    size_t size = 0;

    *ret = NULL;
    if (!disk->n)
        return;
    for (size_t i = 0; i < disk->n; i++)
        size += disk->entries[i].len;
    batch = raft_malloc(size);
    entries = raft_calloc(disk->n, sizeof(*entries));
    size = 0;
    for (size_t i = 0; i < disk->n; i++) {
        const struct disk_entry *from = &disk->entries[i];

        entries[i].term = from->term;
        entries[i].type = from->type;
        entries[i].buf.base = memcpy(batch + size, from->bytes, from->len);
        entries[i].buf.len = from->len;
        entries[i].batch = batch;
        size += from->len;
    }
    *ret = entries;
}

static int method_load(struct raft_io *io, raft_term *term, raft_id *vote,
                       struct raft_snapshot **snapshot, raft_index *start,
                       struct raft_entry **entries, size_t *n)
{
    struct replica *r = owner(io);

    *snapshot = r->disk.has_snapshot ? copy_snapshot(&r->disk.snapshot) : NULL;
    r->c->events[CLUSTER_RESTORED] += r->disk.has_snapshot;
    *start = r->disk.first;
    *n = r->disk.n;
    r->disk.next = r->disk.first + r->disk.n;
    load_entries(&r->disk, entries);
    raft_guard_own(*entries, *n);
    if (raft_guard_is_alone(r->id, *snapshot, *entries, *n)) {
        r->disk.term++;
        r->disk.vote = 0;
    }
    *term = r->disk.term;
    *vote = r->disk.vote;
    return 0;
}

static int method_bootstrap(struct raft_io *io, const struct raft_configuration *members)
{
    struct replica *r = owner(io);
    struct raft_entry entry = {.term = 1, .type = RAFT_CHANGE};

    if (raft_configuration_encode(members, &entry.buf) != 0)
        abort();
    r->disk.term = 1;
    r->disk.first = 1;
    push(&r->disk, &entry);
    raft_free(entry.buf.base);
    return 0;
}

static int method_recover(struct raft_io *io, const struct raft_configuration *members)
{
    (void)io, (void)members;
    return RAFT_IOERR;
}

/* A vote that is given and then forgotten makes two leaders: who can not write it down must not live on. The library is not
 * told, for its way out frees entries twice; nothing that it does from now on gets out. */
static int write_vote(struct replica *r, raft_term term, raft_id vote)
{
    r->dying |= r->bad_vote;
    if (r->dying)
        return 0;
    r->disk.term = term;
    r->disk.vote = vote;
    return 0;
}

static int method_set_term(struct raft_io *io, raft_term term)
{
    return write_vote(owner(io), term, 0);
}

static int method_set_vote(struct raft_io *io, raft_id vote)
{
    return write_vote(owner(io), owner(io)->disk.term, vote);
}

static int method_append(struct raft_io *io, struct raft_io_append *req,
                         const struct raft_entry entries[], unsigned n, raft_io_append_cb cb)
{
    struct replica *r = owner(io);

    req->cb = cb;
    add_work(
        r,
        &(struct disk_work){
            .kind = DISK_APPEND, .append = req, .entries = entries, .n = n, .index = r->disk.next});
    r->disk.next += n;
    return 0;
}

static int method_truncate(struct raft_io *io, raft_index index)
{
    add_work(owner(io), &(struct disk_work){.kind = DISK_TRUNCATE, .index = index});
    owner(io)->disk.next = index;
    return 0;
}

static int method_put(struct raft_io *io, unsigned trailing, struct raft_io_snapshot_put *req,
                      const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb)
{
    req->cb = cb;
    add_work(owner(io),
             &(struct disk_work){
                 .kind = DISK_PUT, .put = req, .snapshot = snapshot, .trailing = trailing});
    if (trailing == 0)
        owner(io)->disk.next = snapshot->index + 1;
    return 0;
}

static int method_get(struct raft_io *io, struct raft_io_snapshot_get *req,
                      raft_io_snapshot_get_cb cb)
{
    req->cb = cb;
    add_work(owner(io), &(struct disk_work){.kind = DISK_GET, .get = req});
    return 0;
}

void disk_methods(struct raft_io *io)
{
    io->load = method_load;
    io->bootstrap = method_bootstrap;
    io->recover = method_recover;
    io->set_term = method_set_term;
    io->set_vote = method_set_vote;
    io->append = method_append;
    io->truncate = method_truncate;
    io->snapshot_put = method_put;
    io->snapshot_get = method_get;
}
