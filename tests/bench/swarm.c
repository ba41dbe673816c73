#include "tests/bench/swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/net/grpc.h"
#include "tests/bench/claims_rig.h"
#include "tests/bench/cluster_rig.h"
#include "xce/v1/node.pb-c.h"

/* Connections and hellos under way at once. */
#define COMING_MAX 16
#define START_S    600
#define SEEN_S     60
#define STEP_MS    10
/* noded looks for what should not be there so often when nothing calls it. */
#define PASS_MS 60000

struct sim_node {
    struct swarm *swarm;
    struct grpc_channel *channel;
    struct grpc_request *session;
    char name[16];
    bool welcome;
    uint64_t position, watermark, seq; /* position: it holds everything up to there; 0 = not yet */
};

struct swarm {
    struct cluster *cluster;
    struct loop_timer *timer;
    struct sim_node *nodes;
    size_t n, n_begun, n_listed;
    int64_t heartbeat_ms, began_ms;
    size_t n_steps;   /* of the timer */
    uint64_t n_ended; /* sessions; they are begun again */
    uint64_t goal;
    size_t n_behind;
    bool stopping;
};

static void say(struct sim_node *node, const Xce__V1__SessionUp *up)
{
    uint8_t bytes[512];
    size_t len = xce__v1__session_up__get_packed_size(up);

    if (len > sizeof bytes)
        rig_die("a session's message is too long", NULL);
    (void)xce__v1__session_up__pack(up, bytes);
    /* One that has failed: its end comes, and says why. */
    if (node->session)
        (void)grpc_request_send(node->session, bytes, len);
}

static void beat(struct sim_node *node)
{
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Heartbeat heartbeat = XCE__V1__HEARTBEAT__INIT;

    heartbeat.seq = ++node->seq;
    heartbeat.watermark = heartbeat.pass_began = node->watermark;
    up.body_case = XCE__V1__SESSION_UP__BODY_HEARTBEAT;
    up.heartbeat = &heartbeat;
    say(node, &up);
}

/* ---- the session ---- */

static void came(struct sim_node *node, uint64_t revision)
{
    struct swarm *swarm = node->swarm;

    if (node->position < swarm->goal && revision >= swarm->goal)
        swarm->n_behind--;
    if (node->position == 0) {
        swarm->n_listed++;
        node->watermark = revision;
        beat(node);
    }
    node->position = revision;
}

static void message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct sim_node *node = arg;
    uint64_t revision = rig_changes_revision(data, len);
    Xce__V1__SessionDown *down;

    (void)request;
    if (revision)
        came(node, revision);
    if (node->welcome)
        return;
    down = xce__v1__session_down__unpack(NULL, len, data);
    if (!down || down->body_case != XCE__V1__SESSION_DOWN__BODY_WELCOME)
        rig_die(node->name, "is not welcomed");
    node->welcome = true;
    node->swarm->heartbeat_ms = down->welcome->heartbeat_ms;
    xce__v1__session_down__free_unpacked(down, NULL);
}

static void ended(struct grpc_request *request, enum grpc_status status, const char *text,
                  bool sent, void *arg)
{
    struct sim_node *node = arg;

    struct swarm *swarm = node->swarm;

    (void)request, (void)status, (void)sent;
    node->session = NULL;
    if (swarm->stopping)
        return;
    if (swarm->n_ended++ % 1000 == 0)
        (void)fprintf(stderr, "swarm: session %llu of node %s ended: %s\n",
                      (unsigned long long)swarm->n_ended, node->name, text);
    if (node->position > 0) {
        swarm->n_listed--;
        swarm->n_behind += node->position >= swarm->goal;
    }
    node->position = 0;
    node->welcome = false;
}

static void begin(struct sim_node *node)
{
    static const struct grpc_request_events events = {.message = message, .end = ended};
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Hello hello = XCE__V1__HELLO__INIT;
    char machine_id[33];

    (void)snprintf(machine_id, sizeof machine_id, "%032zx",
                   (size_t)(node - node->swarm->nodes) + 1);
    if (grpc_request_start(node->channel, "/xce.v1.NodeService/Session", 0, NULL, &events, node,
                           &node->session) < 0)
        rig_die(node->name, "no session");
    hello.node = (ProtobufCBinaryData){strlen(node->name), (uint8_t *)node->name};
    hello.machine_id = (ProtobufCBinaryData){32, (uint8_t *)machine_id};
    hello.boot_id = hello.machine_id;
    up.body_case = XCE__V1__SESSION_UP__BODY_HELLO;
    up.hello = &hello;
    say(node, &up);
}

/* ---- all of them ---- */

/* Each node's turn comes once in a heartbeat, and one beat of many tells of a new pass. One without a session tries again. */
static void step(void *arg)
{
    struct swarm *swarm = arg;
    size_t steps = swarm->heartbeat_ms ? (size_t)swarm->heartbeat_ms / STEP_MS : 1;
    size_t beats = PASS_MS / STEP_MS / steps;
    size_t round = swarm->n_steps / steps;

    for (size_t i = swarm->n_steps % steps; i < swarm->n_begun; i += steps) {
        struct sim_node *node = &swarm->nodes[i];

        if (!node->session)
            begin(node);
        if (node->position == 0)
            continue;
        if (i / steps % beats == round % beats)
            node->watermark = node->position;
        beat(node);
    }
    swarm->n_steps++;
}

static void run(struct swarm *swarm, int64_t until_ms, const char *what)
{
    if (clock_mono_ms() > until_ms)
        rig_die("waited in vain for", what);
    loop_step(swarm->cluster->loop, 20);
}

void swarm_start(struct cluster *cluster, size_t n, struct swarm **ret)
{
    int64_t until_ms = clock_mono_ms() + (int64_t)START_S * 1000;
    struct swarm *swarm = mem_must_calloc(1, sizeof *swarm);

    swarm->cluster = cluster;
    swarm->nodes = mem_must_calloc(n, sizeof *swarm->nodes);
    swarm->n = n;
    if (loop_timer_new(cluster->loop, step, swarm, &swarm->timer) < 0)
        rig_die("timer", NULL);
    loop_timer_start(swarm->timer, STEP_MS, STEP_MS);
    while (swarm->n_listed < n) {
        while (swarm->n_begun < n && swarm->n_begun - swarm->n_listed < COMING_MAX) {
            struct sim_node *node = &swarm->nodes[swarm->n_begun];
            struct load load = {.loop = cluster->loop};

            node->swarm = swarm;
            (void)snprintf(node->name, sizeof node->name, "s%zu", swarm->n_begun);
            cluster_channels(cluster, (unsigned)(swarm->n_begun % CLUSTER_REPLICAS), 1, &load);
            node->channel = load.channels[0];
            begin(node);
            swarm->n_begun++;
        }
        run(swarm, until_ms, "the sessions of all nodes");
    }
    while (!cluster_node_ready(cluster, SWARM_FIRST))
        run(swarm, until_ms, "a node to be ready");
    *ret = swarm;
}

void swarm_until(struct swarm *swarm, uint64_t revision)
{
    int64_t until_ms = clock_mono_ms() + (int64_t)SEEN_S * 1000;

    swarm->goal = revision;
    swarm->n_behind = 0;
    for (size_t i = 0; i < swarm->n; i++)
        swarm->n_behind += swarm->nodes[i].position < revision;
    while (swarm->n_behind > 0)
        run(swarm, until_ms, "all sessions to see a grant");
}

void swarm_rest(struct swarm *swarm, double seconds)
{
    int64_t until_us = clock_mono_us() + (int64_t)(seconds * 1e6);

    while (clock_mono_us() < until_us)
        loop_step(swarm->cluster->loop, STEP_MS);
}

static void note_closed(void *arg)
{
    --*(size_t *)arg;
}

void swarm_stop(struct swarm *swarm)
{
    size_t open = swarm->n_begun;

    swarm->stopping = true;
    loop_timer_free(swarm->timer);
    for (size_t i = 0; i < swarm->n_begun; i++)
        grpc_channel_close(swarm->nodes[i].channel, note_closed, &open);
    while (open)
        loop_step(swarm->cluster->loop, 1000);
    free(swarm->nodes);
    free(swarm);
}
