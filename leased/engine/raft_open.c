/* A replica opens: its folder is looked at and locked, links and library are made, the library starts. */
#include "leased/engine/replica.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "leased/engine/raft_inner.h"
#include "leased/engine/raft_list.h"

/* Bytes of commands that wait at most, beside their number. */
#define WAITING_BYTES (64u << 20)

#define CONNECT_RETRY_MS 50
#define DISK_RETRY_MS    200
#define INSTALL_MS       10000

/* ---- the links, and what they bring ---- */

static const char *contradicts(uint64_t id, const char *name, void *arg)
{
    return raft_member_contradicts(arg, id, name);
}

static bool is_member(uint64_t id, void *arg)
{
    const struct replica *replica = arg;

    return raft_list_has(&replica->raft.configuration, id);
}

static int join(const uint8_t *cluster, void *arg)
{
    struct replica *replica = arg;
    struct raft_identity identity = replica->identity;
    char why[ENGINE_WHY_MAX];
    int r;

    memcpy(identity.cluster, cluster, sizeof identity.cluster);
    r = raft_identity_write(replica->folder, &identity, why);
    if (r < 0) {
        log_error(NULL, "%s", why);
        return r;
    }
    replica->identity = identity;
    raft_links_set_cluster(replica->links, cluster);
    return 0;
}

static uint64_t current_term(void *arg)
{
    return raft_current_term(&((struct replica *)arg)->raft);
}

static void confirmed(uint64_t id, uint64_t number, uint64_t term, void *arg)
{
    raft_read_confirmed(arg, id, number, term);
}

static void taken(uint64_t link, uint64_t id, uint64_t number, const uint8_t *bytes, size_t len,
                  void *arg)
{
    raft_tell_taken(arg, link, id, number, bytes, len);
}

static void answered(uint64_t link, uint64_t number, int r, void *arg)
{
    raft_tell_answered(arg, link, number, r);
}

static void heard(const uint8_t *bytes, size_t len, void *arg)
{
    struct replica *replica = arg;

    if (!replica->closing)
        engine_later_told(&replica->engine, 0, bytes, len, NULL, NULL);
}

static void passed_on(uint64_t link, uint64_t number, const uint8_t *bytes, size_t len, void *arg)
{
    raft_pass_take(arg, link, number, bytes, len);
}

static void pass_answered(uint64_t link, uint64_t number, const uint8_t *bytes, size_t len,
                          void *arg)
{
    raft_pass_answered(((struct replica *)arg)->pass, link, number, bytes, len);
}

static void link_ended(uint64_t link, void *arg)
{
    raft_tell_ended(arg, link, -EAGAIN);
    raft_pass_ended(((struct replica *)arg)->pass, link);
}

static int make_links(struct replica *replica, const struct replica_links *links)
{
    struct raft_links_options options = {
        .loop = replica->engine.loop,
        .replicas = *links,
        .events = {contradicts, is_member, join, current_term, confirmed, taken, answered, heard,
                   passed_on, pass_answered, link_ended, replica},
        .id = replica->identity.id,
        .name = replica->name,
        .address = replica->address,
    };

    memcpy(options.cluster, replica->identity.cluster, sizeof options.cluster);
    return raft_links_new(&options, &replica->links);
}

/* ---- the folder ---- */

static int read_identity(struct replica *replica, char why[static ENGINE_WHY_MAX])
{
    struct raft_identity *identity = &replica->identity;
    char path[4096];
    int r = raft_identity_read(replica->folder, identity, why);

    if (r == 0 && strcmp(identity->name, replica->name) != 0) {
        (void)snprintf(why, ENGINE_WHY_MAX, "%s is the folder of replica %s, and this is %s",
                       replica->folder, identity->name, replica->name);
        return -EBADMSG;
    }
    if (r != -ENOENT)
        return r;
    (void)snprintf(path, sizeof path, "%s/metadata1", replica->folder);
    if (access(path, F_OK) == 0)
        return raft_folder_complain(replica->folder, replica->name, "replica", "it is missing",
                                    why);
    *identity = (struct raft_identity){.begin = RAFT_BEGIN_NO};
    raft_identity_new(identity, replica->name);
    return raft_identity_write(replica->folder, identity, why);
}

static int lock(struct replica *replica, char why[static ENGINE_WHY_MAX])
{
    struct err err = {{0}};
    char path[4096];
    int r;

    if (snprintf(path, sizeof path, "%s/lock", replica->folder) >= (int)sizeof path)
        return -ENAMETOOLONG;
    r = fs_lock_file(path, &replica->lock_fd, &err);
    if (r < 0)
        (void)snprintf(why, ENGINE_WHY_MAX, "%s", err.text);
    return r;
}

/* ---- the library ---- */

static void set_up_raft(struct replica *replica, const struct replica_options *options)
{
    struct raft *raft = &replica->raft;
    unsigned entries = (unsigned)replica->engine.options.snapshot_entries;
    unsigned seed;

    digest_random(&seed, sizeof seed);
    raft->data = replica;
    raft_seed(raft, seed);
    raft_set_pre_vote(raft, true);
    raft_set_election_timeout(raft, options->election_ms ? options->election_ms : 150);
    raft_set_heartbeat_timeout(raft, options->heartbeat_ms ? options->heartbeat_ms : 30);
    raft_set_install_snapshot_timeout(raft, INSTALL_MS);
    raft_set_snapshot_threshold(raft, entries);
}

static int make_raft(struct replica *replica, const struct replica_options *options,
                     char why[static ENGINE_WHY_MAX])
{
    int rv = raft_uv_init(&replica->io, loop_uv(replica->engine.loop), replica->folder,
                          raft_links_transport(replica->links));

    if (rv != 0) {
        (void)snprintf(why, ENGINE_WHY_MAX, "%s: %s", replica->folder, raft_strerror(rv));
        return -EIO;
    }
    replica->has_io = true;
    raft_uv_set_auto_recovery(&replica->io, false);
    raft_uv_set_connect_retry_delay(&replica->io, CONNECT_RETRY_MS);
    raft_uv_set_disk_retry(&replica->io, DISK_RETRY_MS);
    raft_disk_init(replica);
    replica_set_fsm(replica);
    rv = raft_init(&replica->raft, &replica->io, &replica->raft_fsm, replica->identity.id,
                   replica->raft_address);
    if (rv != 0) {
        (void)snprintf(why, ENGINE_WHY_MAX, "%s: %s", replica->folder, raft_errmsg(&replica->raft));
        return -EIO;
    }
    replica->has_raft = true;
    set_up_raft(replica, options);
    return 0;
}

/* Alone in the members' list. Once it is there the library refuses to do it again, which is fine. */
static int bootstrap(struct replica *replica, char why[static ENGINE_WHY_MAX])
{
    struct raft_configuration members;
    int rv;

    if (replica->identity.begin == RAFT_BEGIN_NO)
        return 0;
    raft_configuration_init(&members);
    rv = raft_configuration_add(&members, replica->identity.id, replica->raft_address, RAFT_VOTER);
    if (rv == 0)
        rv = raft_bootstrap(&replica->raft, &members);
    raft_configuration_close(&members);
    if (rv == 0 || rv == RAFT_CANTBOOTSTRAP)
        return 0;
    (void)snprintf(why, ENGINE_WHY_MAX, "%s: cannot begin: %s", replica->folder,
                   raft_errmsg(&replica->raft));
    return rv == RAFT_NOSPACE ? -ENOSPC : -EIO;
}

static int start_raft(struct replica *replica, char why[static ENGINE_WHY_MAX])
{
    char snapshot[128];
    int rv = raft_start(&replica->raft);

    if (rv == 0) {
        replica->started = true;
        return 0;
    }
    if (replica->restore_why[0]) {
        (void)raft_folder_newest_snapshot(replica->folder, snapshot);
        return raft_folder_complain(replica->folder, replica->name, snapshot, replica->restore_why,
                                    why);
    }
    (void)snprintf(why, ENGINE_WHY_MAX, "%s: %s", replica->folder, raft_errmsg(&replica->raft));
    return rv == RAFT_CORRUPT || rv == RAFT_MALFORMED ? -EBADMSG : -EIO;
}

/* ---- all of it ---- */

static int open_replica(struct replica *replica, const struct replica_options *options,
                        char why[static ENGINE_WHY_MAX])
{
    int r = fs_mkdir_p(replica->folder, 0700);

    (void)snprintf(why, ENGINE_WHY_MAX, "%s: %s", replica->folder, strerror(-r));
    if (r < 0 || (r = lock(replica, why)) < 0 || (r = read_identity(replica, why)) < 0)
        return r;
    if (replica->identity.begin == RAFT_BEGIN_STATE && !options->state) {
        (void)snprintf(why, ENGINE_WHY_MAX,
                       "%s waits for the state of the single replica, and there is none",
                       replica->folder);
        return -ENOENT;
    }
    (void)snprintf(why, ENGINE_WHY_MAX, "%s: out of memory", replica->folder);
    if ((r = raft_folder_check(replica->folder, replica->name, why)) < 0 ||
        (r = make_links(replica, options->links)) < 0 ||
        (r = make_raft(replica, options, why)) < 0 || (r = bootstrap(replica, why)) < 0)
        return r;
    return start_raft(replica, why);
}

static int replica_new(struct loop *loop, const struct replica_options *options,
                       const struct engine_options *engine_options, struct fsm *fsm,
                       const struct engine_hooks *hooks, struct replica **ret)
{
    struct replica *replica = calloc(1, sizeof *replica);
    const struct engine_options *limits;
    int r;

    if (!replica)
        return -ENOMEM;
    r = raft_pass_new(replica, &replica->pass);
    if (r == 0)
        r = engine_init(&replica->engine, &replica_ops, loop, engine_options, hooks, fsm);
    if (r < 0) {
        raft_pass_free(replica->pass);
        free(replica);
        return r;
    }
    limits = &replica->engine.options;
    batch_queue_init(&replica->queue,
                     &(struct batch_limits){limits->batch_commands, limits->batch_bytes,
                                            limits->waiting_commands, WAITING_BYTES},
                     engine_begin_batch, replica);
    replica->lock_fd = -1;
    replica->folder = mem_must_strdup(options->folder);
    replica->name = mem_must_strdup(options->name);
    replica->address = mem_must_strdup(options->address);
    (void)snprintf(replica->raft_address, sizeof replica->raft_address, "%s@%s", options->name,
                   options->address);
    *ret = replica;
    return 0;
}

static bool fits(const struct replica_options *options, char why[static ENGINE_WHY_MAX])
{
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
    char both[REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX + 2];

    if (snprintf(both, sizeof both, "%s@%s", options->name, options->address) < (int)sizeof both &&
        raft_address_split(both, name, address) && strcmp(name, options->name) == 0 && address[0])
        return true;
    (void)snprintf(why, ENGINE_WHY_MAX,
                   "replica %s at %s: a name has 1 to %u characters without @, an address 1 to %u",
                   options->name, options->address, REPLICA_NAME_MAX, REPLICA_ADDRESS_MAX);
    return false;
}

int engine_open_raft(struct loop *loop, const struct replica_options *options,
                     const struct engine_options *engine_options, struct fsm *fsm,
                     const struct engine_hooks *hooks, struct engine **ret,
                     char why[static ENGINE_WHY_MAX])
{
    struct replica *replica;
    int r = fits(options, why) ? replica_new(loop, options, engine_options, fsm, hooks, &replica)
                               : -EINVAL;

    if (r < 0) {
        fsm_free(fsm);
        return r;
    }
    r = open_replica(replica, options, why);
    if (r == 0)
        r = replica_begin(replica, options);
    if (r < 0) {
        replica_abandon(replica);
        return r;
    }
    *ret = &replica->engine;
    return 0;
}
