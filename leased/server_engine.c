#include "leased/server_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/address.h"
#include "common/err.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "common/net/tls_port.h"
#include "common/net/transport.h"
#include "leased/conf.h"
#include "leased/engine/replica.h"
#include "leased/server_tls.h"

#define CONNECT_MS 2000

struct server_engine {
    struct loop *loop;
    struct leased_settings
        settings; /* what it points to is the configuration's, for as long as leased runs */
    struct server_tls *tls;
    struct engine *engine;
    struct replica_links links;
    char *single_path, *kept_path, *folder, *name, *address;
};

/* ---- streams between replicas: mutual TLS, and nothing else ---- */

static int64_t patience_ms(const struct server_engine *served)
{
    return 2 * served->settings.election_ms + 500;
}

static int connect_replica(const char *name, const char *address,
                           const struct transport_events *events, void *events_arg,
                           struct transport **ret, void *arg)
{
    struct server_engine *served = arg;
    char peer[CERT_URI_MAX + 1];
    const struct tls_target target = {
        .address = address,
        .alpn = TLS_ALPN_RAFT,
        .peer = peer,
        .timeout_ms = CONNECT_MS,
        .user_timeout_ms = patience_ms(served),
    };

    if (snprintf(peer, sizeof peer, CERT_URI_REPLICA "%s", name) >= (int)sizeof peer)
        return -EINVAL;
    return tls_connect(served->loop, server_tls_keys(served->tls), &target, events, events_arg,
                       ret);
}

static bool proves(const struct transport *transport, const char *name, void *arg)
{
    const struct cert_identity *peer = transport->peer.tls;

    (void)arg;
    return peer && peer->kind == CERT_REPLICA && strcmp(peer->name, name) == 0;
}

static void accept_replica(struct transport *transport, void *arg)
{
    struct server_engine *served = arg;

    if (served->engine)
        replica_accept(served->engine, transport);
    else
        transport_free(transport);
}

static int offer_protocol(struct server_engine *served)
{
    const struct tls_protocol protocol = {
        .alpn = TLS_ALPN_RAFT,
        .kinds = CERT_REPLICA,
        .accept = accept_replica,
        .arg = served,
        .user_timeout_ms = patience_ms(served),
    };

    return tls_port_protocol(server_tls_port(served->tls), &protocol);
}

/* ---- opening ---- */

static int complain(int r, const char *why)
{
    log_error(NULL, "%s", why);
    return r;
}

static int open_single(struct server_engine *served, const struct engine_options *options,
                       struct fsm *fsm, const struct engine_hooks *hooks)
{
    char why[ENGINE_WHY_MAX];
    int r = engine_open_sqlite(served->loop, served->single_path, options, fsm, hooks,
                               &served->engine, why);

    return r < 0 ? complain(r, why) : 0;
}

static void note_closed(void *arg)
{
    *(bool *)arg = true;
}

/* The state in engine.db, as a snapshot. */
static int read_single(struct server_engine *served, uint8_t **ret, size_t *ret_len)
{
    char why[ENGINE_WHY_MAX];
    struct engine *engine;
    bool closed = false;
    struct fsm *fsm;
    int r = fsm_new(&fsm);

    if (r < 0)
        return r;
    r = engine_open_sqlite(served->loop, served->single_path, NULL, fsm, NULL, &engine, why);
    if (r < 0)
        return complain(r, why);
    r = fsm_snapshot(fsm, ret, ret_len);
    engine_close(engine, note_closed, &closed);
    while (!closed)
        loop_step(served->loop, 100);
    return r;
}

/* What was taken over is kept under a name that nobody opens. */
static void put_single_aside(const struct server_engine *served)
{
    if (access(served->single_path, F_OK) < 0)
        return;
    if (rename(served->single_path, served->kept_path) < 0)
        log_warning(NULL, "%s: %s", served->single_path, strerror(errno));
    else
        log_notice(NULL, "%s is now in the log of the replicas; it is kept as %s",
                   served->single_path, served->kept_path);
}

/* Where the others look for us is what we were added as; to be told another address they need more than a setting. */
static void compare_advertised(const struct server_engine *served)
{
    char own[ADDRESS_TEXT_BUF];
    struct replica_status status;
    struct address address;
    struct err err;

    if (!served->settings.advertise[0] ||
        address_parse(served->settings.advertise, false, &address, &err) < 0)
        return;
    (void)address_format(&address, own);
    replica_get_status(served->engine, &status);
    for (size_t i = 0; i < status.n_members; i++)
        if (status.members[i].id == status.id && strcmp(status.members[i].address, own) != 0)
            log_warning(NULL,
                        "leased.Advertise is %s, but the members' list has %s for this replica, "
                        "and there the others look for it: remove it, and add it anew",
                        own, status.members[i].address);
}

static int open_replica(struct server_engine *served, const struct engine_options *options,
                        struct fsm *fsm, const struct engine_hooks *hooks, bool takes_over)
{
    struct replica_options replica = {
        .folder = served->folder,
        .name = served->name,
        .address = served->address,
        .election_ms = (unsigned)served->settings.election_ms,
        .heartbeat_ms = (unsigned)served->settings.raft_heartbeat_ms,
        .links = &served->links,
    };
    auto_free uint8_t *state = NULL;
    char why[ENGINE_WHY_MAX];
    int r = takes_over ? read_single(served, &state, &replica.state_len) : 0;

    if (r == 0)
        r = offer_protocol(served);
    if (r < 0) {
        fsm_free(fsm);
        return r;
    }
    replica.state = state;
    if (!takes_over)
        put_single_aside(served);
    r = engine_open_raft(served->loop, &replica, options, fsm, hooks, &served->engine, why);
    if (r < 0)
        return complain(r, why);
    compare_advertised(served);
    return 0;
}

static int open_engine(struct server_engine *served, struct fsm *fsm,
                       const struct engine_hooks *hooks)
{
    const struct engine_options options = {.grace_ms = served->settings.grace_ms};
    bool raft = served->settings.engine == LEASED_RAFT;
    char why[ENGINE_WHY_MAX];
    int lives = replica_inhabited(served->folder, why);

    if (lives >= 0 && !raft && lives > 0) {
        lives = -EINVAL;
        (void)snprintf(
            why, sizeof why,
            "%s is the folder of a replica, and its leases are there: leased.Engine must be raft",
            served->folder);
    }
    if (lives < 0) {
        fsm_free(fsm);
        return complain(lives, why);
    }
    if (!raft)
        return open_single(served, &options, fsm, hooks);
    if (lives == 0 && access(served->single_path, F_OK) == 0) {
        log_notice(NULL, "%s goes on alone until leasectl cluster init makes it the first replica",
                   served->single_path);
        return open_single(served, &options, fsm, hooks);
    }
    return open_replica(served, &options, fsm, hooks, lives == 2);
}

static int make(struct loop *loop, const struct leased_settings *settings, struct server_tls *tls,
                struct server_engine **ret)
{
    struct server_engine *served = calloc(1, sizeof *served);
    const char *address = leased_conf_address(settings);

    if (!served)
        return -ENOMEM;
    served->loop = loop;
    served->settings = *settings;
    served->tls = tls;
    served->links = (struct replica_links){connect_replica, proves, served};
    served->name = mem_must_strdup(tls ? tls_keys_identity(server_tls_keys(tls))->name : "");
    served->address = mem_must_strdup(address ? address : "");
    if (asprintf(&served->single_path, "%s/engine.db", settings->state_dir) < 0 ||
        asprintf(&served->kept_path, "%s/engine.db.single", settings->state_dir) < 0 ||
        asprintf(&served->folder, "%s/raft", settings->state_dir) < 0)
        abort();
    *ret = served;
    return 0;
}

int server_engine_open(struct loop *loop, const struct leased_settings *settings,
                       struct server_tls *tls, struct fsm *fsm, const struct engine_hooks *hooks,
                       struct server_engine **ret)
{
    struct server_engine *served;
    int r = make(loop, settings, tls, &served);

    if (r < 0) {
        fsm_free(fsm);
        return r;
    }
    r = open_engine(served, fsm, hooks);
    if (r < 0) {
        server_engine_free(served);
        return r;
    }
    *ret = served;
    return 0;
}

struct engine *server_engine(const struct server_engine *served)
{
    return served->engine;
}

int server_engine_init(struct server_engine *served, char why[static ENGINE_WHY_MAX])
{
    bool single = !engine_is_replica(served->engine);

    if (served->settings.engine == LEASED_RAFT)
        return replica_prepare(served->folder, served->name, single, why);
    (void)snprintf(why, ENGINE_WHY_MAX,
                   "leased.Engine is sqlite on this machine: set it to raft, with Listen and a "
                   "certificate, restart leased, then ask again");
    return -EINVAL;
}

void server_engine_free(struct server_engine *served)
{
    if (!served)
        return;
    free(served->single_path);
    free(served->kept_path);
    free(served->folder);
    free(served->name);
    free(served->address);
    free(served);
}
