/* Between C-Raft and raft_uv: struct raft_io with some of its functions replaced.
 *
 *   snapshot_get   one that cannot be read is one that C-Raft does not send, not memory that nobody has set
 *   snapshot_put   an own snapshot waits until history is on disk up to it, for it cuts the log, and until none is read
 *   recv, send, tick   what C-Raft 0.22.1 gets wrong with messages is kept away from it (raft_guard.h)
 *   append         is timed: raft_uv tries a failed write again for ever and tells nobody
 *   load           each entry in memory of its own; the only voter begins another term (raft_guard.h, 10 and 15)
 *   set_term, set_vote   when one fails the replica falls silent for good: C-Raft would go on with what is not on disk, and
 *                  a vote that is forgotten is one that can be given twice */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "leased/engine/raft_inner.h"

/* A write that takes longer hangs or fails. */
#define STALL_MS 1000
/* What raft_uv makes ready at once. */
#define SEGMENT_BYTES (8u << 20)

static struct replica *replica_of_io(struct raft_io *io)
{
    return CONTAINER_OF(io, struct replica, io);
}

/* ---- loaded and sent ---- */

static int disk_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
                     struct raft_snapshot **snapshot, raft_index *start_index,
                     struct raft_entry *entries[], size_t *n_entries)
{
    struct raft_disk *disk = &replica_of_io(io)->disk;
    int rv = disk->uv.load(io, term, voted_for, snapshot, start_index, entries, n_entries);

    if (rv != 0)
        return rv;
    if (*snapshot)
        disk->snapshot_entry = (*snapshot)->index;
    raft_guard_own(*entries, *n_entries);
    disk->loaded = *entries;
    disk->n_loaded = *n_entries;
    if (!raft_guard_is_alone(replica_of_io(io)->identity.id, *snapshot, *entries, *n_entries))
        return 0;
    *term += 1;
    *voted_for = 0;
    return disk->uv.set_term(io, *term);
}

void raft_disk_unload(struct replica *replica)
{
    for (size_t i = 0; i < replica->disk.n_loaded; i++)
        raft_free(replica->disk.loaded[i].buf.base);
}

static int disk_send(struct raft_io *io, struct raft_io_send *req,
                     const struct raft_message *message, raft_io_send_cb cb)
{
    struct replica *replica = replica_of_io(io);
    struct raft_message mended;
    int rv;

    /* A snapshot may have been read while we closed; raft_uv would begin a new stream for it. */
    if (replica->over || replica->closing)
        return RAFT_NOCONNECTION;
    rv = raft_guard_send(&replica->disk.guard, &replica->raft, message, &mended);
    return rv ? rv : replica->disk.uv.send(io, req, &mended, cb);
}

/* ---- received ---- */

static void drop(struct raft_message *message)
{
    struct raft_append_entries *append = &message->append_entries;

    if (message->type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&message->install_snapshot.conf);
        raft_free(message->install_snapshot.data.base);
    } else if (message->type == RAFT_APPEND_ENTRIES && append->n_entries > 0) {
        raft_free(append->entries[0].batch);
        raft_free(append->entries);
    }
}

static void disk_recv(struct raft_io *io, struct raft_message *message)
{
    struct replica *replica = replica_of_io(io);
    struct raft_guard *guard = &replica->disk.guard;

    if (replica->over || replica->closing) {
        drop(message);
        return;
    }
    if (!raft_guard_recv(guard, &replica->raft, message))
        return;
    replica->disk.received = message;
    replica->disk.recv(io, message);
    replica->disk.received = NULL;
    raft_guard_settle(guard, &replica->raft);
    replica_observe(replica);
}

static void disk_ticked(struct raft_io *io)
{
    struct replica *replica = replica_of_io(io);

    raft_guard_tick(&replica->disk.guard, &replica->raft);
    replica->disk.tick(io);
    raft_guard_settle(&replica->disk.guard, &replica->raft);
}

static int disk_start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick,
                      raft_io_recv_cb recv)
{
    struct raft_disk *disk = &replica_of_io(io)->disk;

    disk->tick = tick;
    disk->recv = recv;
    return disk->uv.start(io, msecs, disk_ticked, disk_recv);
}

/* ---- term and vote ---- */

/* What came with the message may be freed already, and on a failure the library frees it (again): rather a leak. */
static void keep_batch(struct raft_message *message)
{
    if (message && message->type == RAFT_APPEND_ENTRIES && message->append_entries.n_entries > 0)
        message->append_entries.entries[0].batch = NULL;
}

static int fall_silent(struct replica *replica, int rv)
{
    if (rv == 0)
        return 0;
    keep_batch(replica->disk.received);
    replica_give_up(replica, "term and vote cannot be written");
    return rv;
}

static int disk_set_term(struct raft_io *io, raft_term term)
{
    struct replica *replica = replica_of_io(io);

    return fall_silent(replica, replica->disk.uv.set_term(io, term));
}

static int disk_set_vote(struct raft_io *io, raft_id id)
{
    struct replica *replica = replica_of_io(io);

    return fall_silent(replica, replica->disk.uv.set_vote(io, id));
}

/* ---- appends ---- */

struct disk_append {
    struct raft_io_append ours;
    struct replica *replica;
    struct raft_io_append *theirs;
    raft_io_append_cb cb;
};

static void append_ended(struct raft_disk *disk)
{
    disk->n_appends--;
    disk->progress_ms = loop_now_fresh_ms();
}

static void disk_appended(struct raft_io_append *req, int status)
{
    struct disk_append *append = CONTAINER_OF(req, struct disk_append, ours);
    struct disk_append mine = *append;

    free(append);
    append_ended(&mine.replica->disk);
    /* Left out of the file, the next one would stand in its place. */
    if (status != 0 && !mine.replica->closing)
        replica_die(mine.replica, "an append failed: %s", raft_strerror(status));
    mine.cb(mine.theirs, status);
    replica_observe(mine.replica);
}

static int disk_append(struct raft_io *io, struct raft_io_append *req,
                       const struct raft_entry entries[], unsigned n, raft_io_append_cb cb)
{
    struct replica *replica = replica_of_io(io);
    struct disk_append *append = mem_must_calloc(1, sizeof *append);
    int rv;

    *append = (struct disk_append){.replica = replica, .theirs = req, .cb = cb};
    if (replica->disk.n_appends++ == 0)
        replica->disk.progress_ms = loop_now_fresh_ms();
    rv = replica->disk.uv.append(io, &append->ours, entries, n, disk_appended);
    if (rv != 0) {
        append_ended(&replica->disk);
        free(append);
    }
    return rv;
}

static void look_at_stall(struct replica *replica)
{
    struct raft_disk *disk = &replica->disk;
    char what[ENGINE_WHY_MAX];
    uint64_t room, total;
    bool full;

    if (disk->n_appends == 0 || loop_now_fresh_ms() - disk->progress_ms < STALL_MS) {
        if (disk->n_appends == 0 && replica->engine.health < 0 && !replica->over)
            engine_set_health(&replica->engine, 0, NULL);
        return;
    }
    full = fs_free_bytes(replica->folder, &room, &total) == 0 && room < SEGMENT_BYTES;
    (void)snprintf(what, sizeof what, "%s: %s", replica->folder,
                   full ? "the disk is full" : "a write fails or hangs");
    engine_set_health(&replica->engine, full ? -ENOSPC : -EIO, what);
}

int raft_disk_refuses(const struct replica *replica)
{
    int r = replica->engine.health;

    return r == -ENOSPC && replica->raft.configuration.n > 1 ? -EIO : r;
}

void raft_disk_stalled(struct replica *replica)
{
    if (replica->ruling)
        (void)raft_member_step_down(replica);
    raft_pass_stalled(replica->pass);
}

/* ---- snapshots that are read, to be sent ---- */

/* So that what raft_uv has not set is nothing: it hands out a snapshot as it was allocated when it has found none. */
static void *zeroed(void *data, size_t size)
{
    (void)data;
    return calloc(1, size);
}

static void set_heap(void)
{
    static struct raft_heap heap;

    if (heap.malloc)
        return;
    heap = *raft_heap_get();
    heap.malloc = zeroed;
    raft_heap_set(&heap);
}

struct disk_get {
    struct raft_io_snapshot_get ours;
    struct replica *replica;
    struct raft_io_snapshot_get *theirs;
    raft_io_snapshot_get_cb cb;
};

static void disk_got(struct raft_io_snapshot_get *req, struct raft_snapshot *snapshot, int status)
{
    struct disk_get *get = CONTAINER_OF(req, struct disk_get, ours);
    struct disk_get mine = *get;

    free(get);
    mine.replica->disk.n_gets--;
    /* None at all is told as a success. */
    if (status != 0 || snapshot->n_bufs == 0) {
        log_warning(NULL, "%s: no snapshot can be read to be sent: %s", mine.replica->folder,
                    status ? raft_strerror(status) : "there is none");
        raft_guard_unread(snapshot);
    } else {
        raft_guard_read(&mine.replica->disk.guard, snapshot);
    }
    mine.cb(mine.theirs, snapshot, 0);
}

static int disk_snapshot_get(struct raft_io *io, struct raft_io_snapshot_get *req,
                             raft_io_snapshot_get_cb cb)
{
    struct replica *replica = replica_of_io(io);
    struct disk_get *get = mem_must_calloc(1, sizeof *get);
    int rv;

    *get = (struct disk_get){.replica = replica, .theirs = req, .cb = cb};
    replica->disk.n_gets++;
    rv = replica->disk.uv.snapshot_get(io, &get->ours, disk_got);
    if (rv != 0) {
        replica->disk.n_gets--;
        free(get);
    }
    return rv;
}

/* ---- own snapshots ---- */

struct disk_put {
    struct raft_io_snapshot_put ours;
    struct replica *replica;
    struct raft_io_snapshot_put *theirs;
    raft_io_snapshot_put_cb cb;
    uint64_t index;
};

static void disk_put_done(struct raft_io_snapshot_put *req, int status)
{
    struct disk_put *put = CONTAINER_OF(req, struct disk_put, ours);
    struct disk_put mine = *put;
    struct raft_disk *disk = &mine.replica->disk;
    bool own = mine.theirs == disk->put;

    free(put);
    if (status == 0)
        disk->snapshot_entry = mine.index;
    if (own)
        disk->put = NULL;
    mine.cb(mine.theirs, status);
    if (own)
        replica_snapshot_ended(mine.replica, mine.index, status == 0 ? 0 : -ECANCELED);
    replica_observe(mine.replica);
}

static int put_now(struct replica *replica, unsigned trailing, struct raft_io_snapshot_put *req,
                   const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb)
{
    struct disk_put *put = mem_must_calloc(1, sizeof *put);
    int rv;

    *put = (struct disk_put){.replica = replica, .theirs = req, .cb = cb, .index = snapshot->index};
    rv = replica->disk.uv.snapshot_put(&replica->io, trailing, &put->ours, snapshot, disk_put_done);
    if (rv != 0)
        free(put);
    return rv;
}

/* Two files are kept: two that are written while one is read would take that one away. */
static bool may_put(const struct replica *replica)
{
    const struct engine_hooks *hooks = &replica->engine.hooks;

    return replica->disk.n_gets == 0 &&
           (!hooks->history_revision ||
            hooks->history_revision(hooks->arg) >= replica->disk.snapshot_revision);
}

static int disk_snapshot_put(struct raft_io *io, unsigned trailing,
                             struct raft_io_snapshot_put *req, const struct raft_snapshot *snapshot,
                             raft_io_snapshot_put_cb cb)
{
    struct replica *replica = replica_of_io(io);
    struct raft_disk *disk = &replica->disk;
    int rv;

    /* 0: one that was received; the state begins anew with it. */
    if (trailing == 0)
        return put_now(replica, trailing, req, snapshot, cb);
    disk->put = req;
    disk->snapshot = snapshot;
    disk->put_done = cb;
    disk->trailing = trailing;
    disk->held = !may_put(replica);
    if (disk->held)
        return 0;
    rv = put_now(replica, trailing, req, snapshot, cb);
    if (rv != 0)
        disk->put = NULL;
    return rv;
}

static void put_held(struct replica *replica)
{
    struct raft_disk *disk = &replica->disk;

    if (!disk->put || !disk->held || !may_put(replica))
        return;
    disk->held = false;
    if (put_now(replica, disk->trailing, disk->put, disk->snapshot, disk->put_done) != 0)
        replica_die(replica, "no memory for a snapshot");
}

void raft_disk_tick(struct replica *replica)
{
    put_held(replica);
    look_at_stall(replica);
}

void raft_disk_close(struct replica *replica)
{
    struct raft_disk *disk = &replica->disk;

    if (disk->put && disk->held)
        disk->put_done(mem_take(disk->put), RAFT_CANCELED);
}

void raft_disk_init(struct replica *replica)
{
    struct raft_io *io = &replica->io;

    set_heap();
    replica->disk.uv = *io;
    io->load = disk_load;
    io->start = disk_start;
    io->send = disk_send;
    io->set_term = disk_set_term;
    io->set_vote = disk_set_vote;
    io->append = disk_append;
    io->snapshot_get = disk_snapshot_get;
    io->snapshot_put = disk_snapshot_put;
}
