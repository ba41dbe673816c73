#include "noded/map_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "map/write.h"

struct node_map {
    struct map_writer *writer;
};

int node_map_open(const char *path, struct node_map **ret, struct node_map_past *ret_past,
                  struct err *err)
{
    struct node_map *m = mem_must_calloc(1, sizeof(*m));
    struct map_takeover how = {0};
    struct map_status status = {0};
    int r = map_writer_new(path, &m->writer, &how);

    if (r < 0) {
        free(m);
        return err_set(err, r, "%s: %s", path,
                       r == -EBUSY ? "another noded writes it" : err_text(r));
    }
    if (map_writer_map(m->writer))
        map_status(map_writer_map(m->writer), &status);
    *ret_past = (struct node_map_past){
        .taken = how.taken,
        .in_order = how.ended,
        .complete = how.taken && how.dropped == 0,
        .repaired = how.repaired,
        .revision = status.revision,
        .heard_boot_ms = status.heard_boot_ms,
        .why = how.why,
    };
    memcpy(ret_past->incarnation, status.incarnation, sizeof(ret_past->incarnation));
    memcpy(ret_past->prefix, status.prefix, sizeof(ret_past->prefix));
    *ret = m;
    return 0;
}

void node_map_close(struct node_map *m, bool in_order)
{
    if (!m)
        return;
    map_writer_free(m->writer, in_order);
    free(m);
}

void node_map_each(struct node_map *m, node_map_lease_fn fn, void *arg)
{
    const struct map *map = map_writer_map(m->writer);
    struct map_entry entry;

    if (!map)
        return;
    for (uint32_t uid = 0; map_next(map, uid, MAP_WANT_RECORD, &entry) == 0;
         uid = entry.record.uid + 1) {
        struct state_lease lease = {
            .lease = entry.record.lease,
            .revision = entry.record.revision,
            .uid = entry.record.uid,
            .epoch = entry.record.epoch,
            .phase = (enum state_phase)entry.record.state,
            .member = entry.record.flags & XCE_MAP_MEMBER,
            .owner = STATE_NO_OWNER,
        };
        fn(&lease, entry.record.flags & XCE_MAP_CLOSED, arg);
    }
}

size_t node_map_ranges(const struct node_map *m, struct xce_map_range *ret)
{
    const struct map *map = map_writer_map(m->writer);
    struct map_status status;

    if (!map)
        return 0;
    map_status(map, &status);
    memcpy(ret, status.ranges, status.n_ranges * sizeof(*ret));
    return status.n_ranges;
}

int node_map_shape(struct node_map *m, const char *prefix, const struct state_pool *pools,
                   size_t n_pools)
{
    struct map_span spans[XCE_RANGES_MAX];
    struct map_shape shape = {.prefix = prefix, .ranges = spans, .n_ranges = (uint32_t)n_pools};
    int r;

    for (size_t i = 0; i < n_pools; i++)
        spans[i] = (struct map_span){pools[i].first, pools[i].last};
    r = map_writer_shape(m->writer, &shape);
    return r < 0 ? r : 0;
}

int node_map_set(struct node_map *m, const struct state_lease *lease, uint8_t flags)
{
    struct map_lease record = {
        .uid = lease->uid,
        .epoch = lease->epoch,
        .lease = lease->lease,
        .revision = lease->revision,
        .state = (enum xce_map_lease)lease->phase,
        .flags = flags,
        .gecos = lease->gecos,
        .home = lease->home,
        .shell = lease->shell,
        .gids = lease->gids,
        .n_gids = lease->n_gids,
    };
    return map_writer_set(m->writer, &record);
}

void node_map_mark(struct node_map *m, uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop)
{
    /* A record that is not there any more needs no mark. */
    (void)map_writer_mark(m->writer, uid, epoch, add, drop);
}

void node_map_retire(struct node_map *m, uint32_t uid, uint32_t epoch, uint64_t revision)
{
    /* Likewise; and with a higher epoch in its place the name is gone already. */
    (void)map_writer_retire(m->writer, uid, epoch, revision);
}

void node_map_progress(struct node_map *m, uint64_t revision, bool synced)
{
    map_writer_progress(m->writer, revision, synced);
}

void node_map_incarnation(struct node_map *m, const uint8_t *incarnation, size_t len)
{
    map_writer_incarnation(m->writer, incarnation, len);
}

int node_map_beat(struct node_map *m, uint64_t boot_ms, uint64_t heard_boot_ms)
{
    int r = map_writer_beat(m->writer, boot_ms, heard_boot_ms);

    if (r == MAP_DAMAGED)
        return MAP_BROKEN;
    return r < 0 ? r : 0;
}

void node_map_reader_done(struct node_map_reader *reader)
{
    if (reader->open)
        map_close(&reader->map);
    reader->open = false;
}

bool node_map_exists(const struct node_map *m)
{
    return map_writer_map(m->writer) != NULL;
}

static bool reader_open(struct node_map_reader *reader)
{
    if (reader->open && map_superseded(&reader->map))
        node_map_reader_done(reader);
    /* Twice: the file may be replaced between our look and our open. */
    for (int i = 0; i < 2 && !reader->open; i++)
        reader->open = map_open(reader->path, &reader->map, NULL, NULL) == 0;
    return reader->open;
}

bool node_map_here(struct node_map_reader *reader, uint32_t uid)
{
    struct map_entry entry;
    int r;

    if (reader->none)
        return false;
    if (!reader_open(reader)) {
        reader->unsure = true;
        return true;
    }
    r = map_find_uid(&reader->map, uid, MAP_WANT_RECORD, &entry);
    if (r < 0) {
        reader->unsure = true;
        return true;
    }
    return r == 0 && map_here(&entry);
}

bool node_map_closed(struct node_map_reader *reader, uint32_t uid)
{
    struct map_entry entry;

    return !reader->none && reader_open(reader) &&
           map_find_uid(&reader->map, uid, MAP_WANT_RECORD, &entry) == 0 && map_ended(&entry);
}
