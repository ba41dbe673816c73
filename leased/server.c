#include "leased/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/daemon.h"
#include "common/digest.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/net/grpc.h"
#include "common/net/loop.h"
#include "leased/audit/audit.h"
#include "leased/conf.h"
#include "leased/engine/replica.h"
#include "leased/history/history.h"
#include "leased/rpc/listener.h"
#include "leased/seed.h"
#include "leased/server_ask.h"
#include "leased/server_audit.h"
#include "leased/server_engine.h"
#include "leased/server_tls.h"
#include "leased/service/service.h"
#include "leased/watch/hub.h"
#include "xce/v1/command.pb-c.h"

#define ELAPSE_MS 50
#define CLOSE_MS  2000
#define SETTLE_MS 500
#define AGAIN_MS  1000 /* after which what a replica could not settle is tried again */
/* Without a leader for so long: no election takes as long, and clients have gone to another replica. */
#define LEADERLESS_MS 3000
#define RING_BYTES    (8u << 20)
#define SOCKET_MODE   0666

/* history ◀─ changes ─ engine(fsm) ─ changes ─▶ hub, service ◀─ requests ─ rpc */
struct server {
    struct conf **conf;
    struct loop *loop;
    struct history *history;
    struct hub *hub;
    struct fsm *fsm; /* the engine's */
    struct server_engine *served;
    struct engine *engine; /* of served */
    struct service *service;
    struct rpc_server *rpc;
    struct server_tls *tls; /* NULL without a certificate */
    struct server_ask *ask; /* other replicas */
    struct seed *seed;      /* to be planted; NULL = none, or there are rules */
    struct audit *audit;    /* NULL = none */
    struct loop_timer *elapse, *watchdog;
    struct loop_signal *terminate, *interrupt, *reload;
    bool leading, stopping;
    bool replicated, serving;
    bool again;    /* it ends to begin anew as something else */
    bool refusing; /* writes, for now: the disk */
    bool settling; /* a proposal of ours is under way */
    int64_t again_mono_ms;
    int64_t led_mono_ms; /* when somebody was known to lead last */
    int r;               /* why it ends */
    struct log_limit health_limit;
};

static const struct leased_settings *settings(const struct server *server)
{
    return conf_settings(*server->conf);
}

/* ---- the end ---- */

static void history_closed(void *arg)
{
    struct server *server = arg;

    server->history = NULL;
    loop_stop(server->loop);
}

static void engine_closed(void *arg)
{
    struct server *server = arg;

    server->engine = NULL;
    server_engine_free(server->served);
    server->served = NULL;
    service_free(server->service);
    server->service = NULL;
    hub_free(server->hub);
    server->hub = NULL;
    if (server->history)
        history_close(server->history, history_closed, server);
    else
        history_closed(server);
}

static void rpc_closed(void *arg)
{
    struct server *server = arg;

    server->rpc = NULL;
    if (server->engine)
        engine_close(server->engine, engine_closed, server);
    else
        engine_closed(server);
}

static void handed_over(int r, const char *why, void *arg)
{
    (void)arg;
    if (r < 0 && r != -ECANCELED)
        log_info(NULL, "leading is not handed over: %s", why);
}

/* Begin to end; r is what the process says of it. */
static void stop(struct server *server, int r)
{
    if (server->stopping)
        return;
    server->stopping = true;
    server->r = r;
    if (server->again)
        daemon_reloading();
    else
        daemon_stopping("stopping");
    log_info(LOG_FIELDS(.message_id = LOG_ID_STOPPING), "stopping");
    /* Another leads before our calls have ended: nobody has to find out that we are gone. */
    if (server->engine && server->replicated && server->leading)
        replica_transfer(server->engine, NULL, handed_over, server);
    if (server->elapse) /* else it is over before it began */
        loop_timer_stop(server->elapse);
    if (server->service)
        service_stop(server->service);
    server_ask_free(server->ask);
    server->ask = NULL;
    server_tls_stop(server->tls);
    if (server->rpc)
        rpc_server_close(server->rpc, CLOSE_MS, rpc_closed, server);
    else
        rpc_closed(server);
}

/* ---- what the engine says ---- */

static void changed(const struct fsm_change *change, void *arg)
{
    struct server *server = arg;

    history_changed(server->history, fsm_incarnation(server->fsm), change);
    hub_changed(server->hub, change);
    if (server->service)
        service_changed(server->service, change);
}

static void applied(void *arg)
{
    struct server *server = arg;

    hub_flush(server->hub, clock_mono_ms());
    if (server->service)
        service_flush(server->service);
}

static const struct fsm_lease *next_lease(uint64_t after, void *arg)
{
    return fsm_lease_next(((struct server *)arg)->fsm, after);
}

static void restored(const struct fsm *fsm, void *arg)
{
    struct server *server = arg;

    history_restored(server->history, fsm_incarnation(fsm), fsm_revision(fsm), next_lease, server);
    if (server->service)
        service_restored(server->service);
}

static void give_up(void *arg)
{
    stop(arg, -EIO);
}

/* Any replica takes any request, as long as somebody leads; before there are state and rules none takes any. */
static void tell_serving(struct server *server)
{
    int64_t now_ms = clock_mono_ms();

    if (!server->rpc || server->stopping)
        return;
    if (server->leading || !server->replicated || replica_knows_leader(server->engine))
        server->led_mono_ms = now_ms;
    rpc_server_serving(server->rpc, !server->refusing && fsm_initialised(server->fsm) &&
                                        !service_rules_awaited(server->service) &&
                                        now_ms - server->led_mono_ms < LEADERLESS_MS);
}

static void health(int r, const char *what, void *arg)
{
    struct server *server = arg;
    unsigned held;

    if (r == -ESHUTDOWN && loop_defer(server->loop, give_up, server) < 0)
        abort();

    /* A disk that is nearly full comes and goes with every small write. */
    if (log_limit_ok(&server->health_limit, &held))
        log_at(r < 0 ? LOG_ERR : LOG_NOTICE, LOG_FIELDS(.message_id = LOG_ID_DISK), "%s%s",
               r < 0 ? "writes are refused: " : "writes are accepted again", r < 0 ? what : "");
    if (server->service)
        service_health(server->service, r, what);
    server->refusing = r < 0;
    tell_serving(server);
}

static void history_told(int r, const char *what, void *arg)
{
    (void)arg;
    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK), "history: %s", what);
    else
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DISK), "history is written again");
}

static uint64_t history_written(void *arg)
{
    const struct server *server = arg;

    return history_revision(server->history);
}

/* ---- ready ---- */

static void serve(struct server *server)
{
    int r;

    if (server->serving)
        return;
    server->serving = true;
    tell_serving(server);
    r = rpc_server_listen_unix(server->rpc, settings(server)->socket, SOCKET_MODE);
    if (r < 0) {
        log_error(NULL, "%s: %s", settings(server)->socket,
                  r == -EADDRINUSE ? "another leased serves it" : err_text(r));
        stop(server, r);
        return;
    }
    r = server_tls_serve(server->tls, server->rpc, settings(server));
    if (r < 0) {
        stop(server, r);
        return;
    }
    log_info(LOG_FIELDS(.message_id = LOG_ID_STARTED), "serving %s", settings(server)->socket);
    daemon_ready("serving %s", settings(server)->socket);
}

/* The seed is the first rules, or came second: another replica's is there already. */
static void planted(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct server *server = arg;

    server->settling = false;
    /* Whoever comes to it does it. */
    if (server->stopping || (r < 0 && server->replicated))
        return;
    seed_free(server->seed);
    server->seed = NULL;
    if (r < 0 || (outcome->code != FSM_OK && outcome->code != FSM_STALE)) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "%s: %s",
                  settings(server)->rbac_seed, r < 0 ? err_text(r) : outcome->message);
        stop(server, r < 0 ? r : -EINVAL);
        return;
    }
    if (outcome->code == FSM_OK)
        log_notice(NULL, "the rules are those of %s", settings(server)->rbac_seed);
    serve(server);
}

/* Nobody is served under other rules than those that the administrator wrote down: a single one serves nobody before, a
 * replica (which must be spoken to before it has a state) only root and the nodes. */
static void plant(struct server *server)
{
    if (fsm_rules_revision(server->fsm)) {
        seed_free(server->seed);
        server->seed = NULL;
    }
    if (!server->seed) {
        serve(server);
        return;
    }
    server->settling = true;
    seed_plant(server->seed, server->engine, planted, server);
}

static int read_seed(struct server *server)
{
    struct err err = {{0}};
    int r = 0;

    if (*settings(server)->rbac_seed && !fsm_rules_revision(server->fsm))
        r = seed_read(settings(server)->rbac_seed, &server->seed, &err);
    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "RbacSeed: %s", err.text);
    return r;
}

static void initialised(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct server *server = arg;

    server->settling = false;
    if (server->stopping || (r < 0 && server->replicated))
        return;
    if (r < 0 || outcome->code != FSM_OK) {
        log_error(NULL, "the state could not be made: %s", r < 0 ? err_text(r) : outcome->message);
        stop(server, r < 0 ? r : -EIO);
        return;
    }
    plant(server);
}

/* A new state gets its name prefix and a random incarnation. */
static void initialise(struct server *server)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdInit init = XCE__V1__CMD_INIT__INIT;
    uint8_t incarnation[16], bytes[128];

    digest_random(incarnation, sizeof incarnation);
    init.prefix.data = (uint8_t *)settings(server)->prefix;
    init.prefix.len = strlen(settings(server)->prefix);
    init.incarnation.data = incarnation;
    init.incarnation.len = sizeof incarnation;
    server->settling = true;
    command.kind_case = XCE__V1__COMMAND__KIND_INIT;
    command.init = &init;
    engine_propose(server->engine, bytes, xce__v1__command__pack(&command, bytes), initialised,
                   server);
}

/* What is seen to first: that there is a state, that it is the one that is meant, both by whoever leads; that it has rules. */
static void settle(void *arg)
{
    struct server *server = arg;
    const struct fsm *fsm = server->fsm;
    bool leads = server->leading || !server->replicated;

    if (server->stopping || server->settling || (!leads && !fsm_initialised(fsm)))
        return;
    if (!fsm_initialised(fsm)) {
        initialise(server);
    } else if (leads && strcmp(fsm_prefix(fsm), settings(server)->prefix)) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD),
                  "leased.Prefix is \"%s\", but the state in %s was made with \"%s\", and names "
                  "never change",
                  settings(server)->prefix, settings(server)->state_dir, fsm_prefix(fsm));
        stop(server, -EINVAL);
    } else {
        plant(server);
    }
}

/* Of a replica; a single one ends when it cannot. */
static void settle_again(struct server *server)
{
    if (!server->replicated || clock_mono_ms() < server->again_mono_ms)
        return;
    server->again_mono_ms = clock_mono_ms() + AGAIN_MS;
    if (server->seed || !fsm_initialised(server->fsm))
        settle(server);
}

/* The engine is open: runs from the loop, when everything is wired. The single replica leads by now. A replica serves what
 * can be served without a leader, too. */
static void begin(void *arg)
{
    struct server *server = arg;

    if (server->stopping)
        return;
    if (server->replicated)
        serve(server);
    settle(server);
}

static void told(const uint8_t *bytes, size_t len, void *arg)
{
    const struct server *server = arg;

    if (server->service)
        service_told(server->service, bytes, len);
}

static void leader(bool leading, void *arg)
{
    struct server *server = arg;

    server->leading = leading;
    if (server->service)
        service_leading(server->service, leading);
    if (server->replicated && server->serving && leading &&
        loop_defer(server->loop, settle, server) < 0)
        abort();
}

/* ---- time, signals ---- */

/* Who was removed is not held on to. */
static void follow_members(struct server *server)
{
    struct replica_status status;

    if (!server->replicated)
        return;
    replica_get_status(server->engine, &status);
    server_ask_keep(server->ask, &status);
}

static void elapse(void *arg)
{
    struct server *server = arg;

    follow_members(server);
    settle_again(server);
    tell_serving(server);
    service_elapse(server->service);
    hub_flush(server->hub, clock_mono_ms());
}

static void watchdog(void *arg)
{
    (void)arg;
    daemon_watchdog();
}

static void terminate(int signum, void *arg)
{
    (void)signum;
    stop(arg, 0);
}

/* What the certificates of nodes are made with. */
static int take_ca(struct server *server)
{
    struct err err = {{0}};
    int r = server_tls_set_ca(settings(server), server->service, &err);

    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD),
                  "certificates of nodes are made as before: %s", err.text);
    return r;
}

static void certificates_changed(void *arg)
{
    struct server *server = arg;

    if (!server->stopping)
        (void)take_ca(server);
}

static void reload(int signum, void *arg)
{
    struct server *server = arg;
    AUTO(buf_done) struct buf pending = BUF_INIT(4096);
    struct err err = {{0}};
    bool all;

    (void)signum;
    if (server->stopping)
        return;
    daemon_reloading();
    if (conf_reload(server->conf, &pending, &err) < 0) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "the old configuration stays: %s",
                  err.text);
    } else {
        log_set_level(leased_conf_log_level(settings(server)));
        service_set_times(server->service, settings(server)->heartbeat_ms,
                          settings(server)->lost_after_ms, settings(server)->grace_ms);
        all = server_tls_reload(server->tls, settings(server)) == 0 && take_ca(server) == 0;
        log_notice(LOG_FIELDS(.message_id = LOG_ID_RELOADED), "%s read again%s%s",
                   all ? "configuration" : "the rest of the configuration is",
                   pending.len ? "; these need a restart: " : "", buf_str(&pending));
    }
    daemon_ready("serving %s", settings(server)->socket);
}

/* ---- the start ---- */

static int offload(void (*work)(void *arg), void (*done)(int r, void *arg), void *arg,
                   void *offload_arg)
{
    const struct server *server = offload_arg;

    return loop_work_submit_slow(server->loop, work, done, arg);
}

static int open_history(struct server *server)
{
    const struct history_options options = {.lag_bytes = settings(server)->history_lag};
    char path[TEXT_PATH_MAX + 32], why[HISTORY_WHY_MAX];
    int r;

    (void)snprintf(path, sizeof path, "%s/history.db", settings(server)->state_dir);
    r = history_open(server->loop, path, &options, history_told, server, &server->history, why);
    if (r < 0)
        log_error(NULL, "%s", why);
    return r;
}

static int64_t cluster_ms(void *arg)
{
    return engine_now_ms(arg);
}

static int open_engine(struct server *server)
{
    const struct engine_hooks hooks = {
        .restored = restored,
        .change = changed,
        .applied = applied,
        .leader = leader,
        .history_revision = history_written,
        .told = told,
        .health = health,
        .arg = server,
    };
    int r = fsm_new(&server->fsm);

    if (r < 0)
        return r;
    r = hub_new(server->fsm, RING_BYTES, clock_wall_ms, &server->hub);
    if (r < 0) {
        fsm_free(server->fsm);
        return r;
    }
    r = server_engine_open(server->loop, settings(server), server->tls, server->fsm, &hooks,
                           &server->served);
    if (r < 0)
        return r;
    server->engine = server_engine(server->served);
    hub_set_clock(server->hub, cluster_ms, server->engine);
    server->replicated = engine_is_replica(server->engine);
    /* The log of a replica comes to where it was only by and by, and never goes back. */
    if (server->replicated)
        return 0;
    history_opened(server->history, fsm_incarnation(server->fsm), fsm_revision(server->fsm),
                   next_lease, server);
    return 0;
}

static void policy_changed(void *arg)
{
    const struct server *server = arg;

    if (server->rpc)
        rpc_server_policy_changed(server->rpc);
}

static void begin_anew(void *arg)
{
    struct server *server = arg;

    server->again = true;
    stop(server, 0);
}

static int cluster_init(char *why, void *arg)
{
    struct server *server = arg;
    uint64_t history = history_revision(server->history);
    int r;

    /* As in check_not_lost; the replica itself may still be added to the cluster that it was lost from. */
    if (history && !fsm_initialised(server->fsm)) {
        (void)snprintf(why, ENGINE_WHY_MAX,
                       "no state is here, but %s/history.db goes up to revision %llu: add this "
                       "replica to its cluster, or restore a backup; or, if nothing of its leases "
                       "is left on any machine, move history.db aside and restart leased",
                       settings(server)->state_dir, (unsigned long long)history);
        return -EINVAL;
    }
    r = server_engine_init(server->served, why);
    if (r == 0 && loop_defer(server->loop, begin_anew, server) < 0)
        abort();
    return r;
}

static int open_service(struct server *server)
{
    struct service_options options = {
        .heartbeat_ms = settings(server)->heartbeat_ms,
        .lost_after_ms = settings(server)->lost_after_ms,
        .grace_ms = settings(server)->grace_ms,
        .rules_awaited = server->seed != NULL,
    };
    const struct service_deps deps = {
        .engine = server->engine,
        .hub = server->hub,
        .history = server->history,
        .offload = offload,
        .offload_arg = server,
        .wall_ms = clock_wall_ms,
        .mono_ms = clock_mono_ms,
        .policy_changed = policy_changed,
        .policy_arg = server,
        .cluster_init = cluster_init,
        .cluster_arg = server,
        .ask_replica = server_ask_replica,
        .ask_arg = server->ask,
    };
    const struct grpc_limits limits = {.connections = settings(server)->connections};
    struct err err = {{0}};
    int r = fs_machine_id(options.machine_id);

    if (r < 0) {
        log_error(NULL, "/etc/machine-id: %s", err_text(r));
        return r;
    }
    r = service_new(&options, &deps, &server->service);
    if (r < 0)
        return r;
    r = server_tls_set_ca(settings(server), server->service, &err);
    if (r < 0) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "%s", err.text);
        return r;
    }
    server_tls_on_change(server->tls, certificates_changed, server);
    if (server->leading)
        service_leading(server->service, true);
    r = rpc_server_new(server->loop, server->service, &limits, &server->rpc);
    if (r == 0)
        rpc_server_audit(server->rpc, server->audit);
    return r;
}

static int open_clocks(struct server *server)
{
    int64_t watchdog_ms = daemon_watchdog_ms();
    int r;

    if ((r = loop_timer_new(server->loop, elapse, server, &server->elapse)) < 0 ||
        (r = loop_timer_new(server->loop, watchdog, server, &server->watchdog)) < 0 ||
        (r = loop_signal_new(server->loop, SIGTERM, terminate, server, &server->terminate)) < 0 ||
        (r = loop_signal_new(server->loop, SIGINT, terminate, server, &server->interrupt)) < 0 ||
        (r = loop_signal_new(server->loop, SIGHUP, reload, server, &server->reload)) < 0)
        return r;
    loop_timer_start(server->elapse, ELAPSE_MS, ELAPSE_MS);
    if (watchdog_ms)
        loop_timer_start(server->watchdog, watchdog_ms, watchdog_ms);
    return 0;
}

/* A new state beside a history that knows of leases: the old one was lost, and with it the epochs and who holds what. To
 * begin anew would give uids out while something of their holders may be left. */
static int check_not_lost(const struct server *server, uint64_t history)
{
    if (!history || fsm_initialised(server->fsm) || server->replicated)
        return 0;
    log_error(NULL,
              "%s/engine.db holds no state, but history.db beside it goes up to revision %llu: "
              "restore engine.db; or, "
              "if nothing of its leases is left on any machine, move history.db aside",
              settings(server)->state_dir, (unsigned long long)history);
    return -EBADMSG;
}

static int open_state(struct server *server)
{
    uint64_t history;
    int r = open_history(server);

    if (r < 0)
        return r;
    history = history_revision(server->history);
    r = open_engine(server);
    return r < 0 ? r : check_not_lost(server, history);
}

static int open_audit(struct server *server)
{
    struct err err = {{0}};
    int r = server_audit_open(settings(server), &server->audit, &err);

    if (r < 0)
        log_error(NULL, "%s", err.text);
    return r;
}

static int open_all(struct server *server)
{
    int r = fs_mkdir_p(settings(server)->state_dir, 0700);

    if (r < 0) {
        log_error(NULL, "%s: %s", settings(server)->state_dir, err_text(r));
        return r;
    }
    if ((r = server_tls_new(server->loop, settings(server), &server->tls)) < 0 ||
        (r = open_state(server)) < 0 || (r = read_seed(server)) < 0 ||
        (r = open_audit(server)) < 0 ||
        (r = server_ask_new(server->loop, server_tls_keys(server->tls), &server->ask)) < 0 ||
        (r = open_service(server)) < 0 || (r = open_clocks(server)) < 0)
        return r;
    return loop_defer(server->loop, begin, server);
}

int server_run(struct conf **conf)
{
    struct server server = {.conf = conf,
                            .led_mono_ms = -LEADERLESS_MS,
                            .health_limit = {.interval_ms = 10000, .burst = 4}};
    int r = loop_new(&server.loop);

    if (r < 0)
        return r;
    r = open_all(&server);
    if (r < 0)
        stop(&server, r);
    loop_run(server.loop);
    audit_close(server.audit);
    /* Everything is closed and on disk: a look-up that hangs in some name service is not waited for. */
    if (!loop_work_settle(server.loop, SETTLE_MS)) {
        log_warning(NULL, "a look-up of accounts hangs: ending without it");
        _exit(server.r < 0);
    }
    server_tls_free(server.tls);
    seed_free(server.seed);
    loop_signal_free(server.terminate);
    loop_signal_free(server.interrupt);
    loop_signal_free(server.reload);
    loop_timer_free(server.watchdog);
    loop_timer_free(server.elapse);
    loop_free(server.loop);
    return server.r == 0 && server.again ? SERVER_AGAIN : server.r;
}
