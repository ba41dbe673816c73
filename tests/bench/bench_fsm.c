/* What the state machine costs: ns for each command of a lease's life, decoding included, and bytes for each lease.
 *
 * usage: bench_fsm [--json] [--leases N] [--batch N]
 *
 * Commands are packed before the clock runs; entries hold as many as the engine would put in one under load. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/buf.h"
#include "common/mem.h"
#include "leased/fsm/command.h"
#include "leased/fsm/fsm.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/node.pb-c.h"

#define FIRST_UID 2013265920u
#define ROUNDS    5

struct bench {
    struct fsm *fsm;
    int64_t now_ms;
    uint32_t n_leases, batch;
    bool json;
    struct buf *entries; /* of the step at hand */
    size_t n_entries, in_entry;
    struct buf command;
    uint64_t n_changes, n_bad;
    uint64_t last_lease;
    double best_ns[8];
};

enum step { ACQUIRE, READY, RENEW, RELEASE, CLEAN, RETIRE, FREE, STEPS };

static const char *const names[] = {"acquire_ns", "ready_ns",  "renew_ns", "release_ns",
                                    "clean_ns",   "retire_ns", "free_ns"};

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void on_change(const struct fsm_change *change, void *arg)
{
    struct bench *b = arg;

    (void)change;
    b->n_changes++;
}

static void on_outcome(size_t i, const struct fsm_outcome *outcome, void *arg)
{
    struct bench *b = arg;

    (void)i;
    b->n_bad += outcome->code != FSM_OK;
    if (outcome->code != FSM_OK && b->n_bad == 1)
        fprintf(stderr, "bench_fsm: %s\n", outcome->message);
    if (outcome->n_leases)
        b->last_lease = outcome->leases[outcome->n_leases - 1];
}

/* ---- entries ---- */

static void add(struct bench *b, const Xce__V1__Command *command)
{
    size_t len = xce__v1__command__get_packed_size(command);
    struct buf *entry;

    buf_reset(&b->command);
    xce__v1__command__pack(command, buf_reserve(&b->command, len));
    if (!b->n_entries || b->in_entry == b->batch) {
        b->entries = mem_must_realloc(b->entries, b->n_entries + 1, sizeof(*b->entries));
        buf_init(&b->entries[b->n_entries], COMMAND_ENTRY_MAX);
        command_entry_begin(&b->entries[b->n_entries++], b->now_ms, b->now_ms);
        b->in_entry = 0;
    }
    entry = &b->entries[b->n_entries - 1];
    command_entry_append(entry, (const uint8_t *)b->command.data, len);
    b->in_entry++;
}

/* Nanoseconds for all entries together. */
static int64_t apply(struct bench *b)
{
    struct fsm_hooks hooks = {on_change, on_outcome, b};
    int64_t began = now_ns(), took;

    for (size_t i = 0; i < b->n_entries; i++)
        if (fsm_apply(b->fsm, (const uint8_t *)b->entries[i].data, b->entries[i].len, &hooks) != 0)
            abort();
    took = now_ns() - began;
    for (size_t i = 0; i < b->n_entries; i++)
        buf_done(&b->entries[i]);
    b->n_entries = 0;
    if (b->n_bad)
        exit(1);
    return took;
}

static void note(struct bench *b, enum step step, int64_t took_ns)
{
    double each = (double)took_ns / b->n_leases;

    if (!b->best_ns[step] || each < b->best_ns[step])
        b->best_ns[step] = each;
}

/* ---- commands ---- */

static void set_request(Xce__V1__Request *request, uint64_t serial, uint8_t id[16])
{
    static uint8_t digest[16] = "digest-of-bytes";

    xce__v1__request__init(request);
    memset(id, 0x5a, 16);
    memcpy(id, &serial, sizeof(serial));
    request->principal = bytes_of("uid:1000");
    request->id = (ProtobufCBinaryData){16, id};
    request->digest = (ProtobufCBinaryData){16, digest};
}

static void add_acquire(struct bench *b, uint64_t serial)
{
    Xce__V1__Request request;
    Xce__V1__CmdGrant grant = XCE__V1__CMD_GRANT__INIT;
    Xce__V1__CmdGrant *grants[] = {&grant};
    Xce__V1__CmdAcquire acquire = XCE__V1__CMD_ACQUIRE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    ProtobufCBinaryData node = bytes_of("node-1");
    uint8_t id[16];
    char job[40];

    set_request(&request, serial, id);
    request.issued_at_ms = b->now_ms;
    snprintf(job, sizeof(job), "%08" PRIx64 "-0000-4000-8000-000000000000", serial);
    grant.job = bytes_of(job);
    grant.owner_name = bytes_of("alice");
    grant.owner_uid = grant.owner_gid = 1000;
    grant.ttl_ms = -1;
    grant.n_nodes = 1;
    grant.nodes = &node;
    acquire.n_grants = 1;
    acquire.grants = grants;
    command.request = &request;
    command.kind_case = XCE__V1__COMMAND__KIND_ACQUIRE;
    command.acquire = &acquire;
    add(b, &command);
}

static void add_renew(struct bench *b, uint64_t serial, const struct fsm_lease *lease)
{
    Xce__V1__Request request;
    Xce__V1__CmdRenew renew = XCE__V1__CMD_RENEW__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t id[16];

    set_request(&request, serial, id);
    renew.lease = lease->id;
    renew.epoch = lease->epoch;
    command.request = &request;
    command.kind_case = XCE__V1__COMMAND__KIND_RENEW;
    command.renew = &renew;
    add(b, &command);
}

static void add_release(struct bench *b, uint64_t serial, const struct fsm_lease *lease)
{
    Xce__V1__Request request;
    Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t id[16];

    set_request(&request, serial, id);
    release.lease = lease->id;
    release.epoch = lease->epoch;
    command.request = &request;
    command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
    command.release = &release;
    add(b, &command);
}

static void add_report(struct bench *b, const struct fsm_lease *lease, int kind)
{
    Xce__V1__CmdMember member = XCE__V1__CMD_MEMBER__INIT;
    Xce__V1__CmdMember *members[] = {&member};
    Xce__V1__CmdReport report = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    member.uid = lease->uid;
    member.epoch = lease->epoch;
    member.kind = (uint32_t)kind;
    report.node = bytes_of("node-1");
    report.session = 1;
    report.n_members = 1;
    report.members = members;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &report;
    add(b, &command);
}

static void add_tick(struct bench *b)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    add(b, &command);
}

static void add_watermark(struct bench *b)
{
    Xce__V1__CmdWatermark mark = XCE__V1__CMD_WATERMARK__INIT;
    Xce__V1__CmdWatermark *marks[] = {&mark};
    Xce__V1__CmdWatermarks watermarks = XCE__V1__CMD_WATERMARKS__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    mark.node = bytes_of("node-1");
    mark.session = 1;
    mark.revision = fsm_revision(b->fsm);
    watermarks.n_marks = 1;
    watermarks.marks = marks;
    command.kind_case = XCE__V1__COMMAND__KIND_WATERMARKS;
    command.watermarks = &watermarks;
    add(b, &command);
}

static void start(struct bench *b)
{
    uint8_t incarnation[16] = "0123456789abcdef";
    Xce__V1__CmdInit init = XCE__V1__CMD_INIT__INIT;
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;
    Xce__V1__CmdPoolCreate create = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    if (fsm_new(&b->fsm) < 0)
        abort();
    init.prefix = bytes_of("xce-");
    init.incarnation = (ProtobufCBinaryData){16, incarnation};
    command.kind_case = XCE__V1__COMMAND__KIND_INIT;
    command.init = &init;
    add(b, &command);
    range.first = FIRST_UID;
    range.last = FIRST_UID + b->n_leases - 1;
    create.name = bytes_of("main");
    create.range = &range;
    create.directory_none = true;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &create;
    add(b, &command);
    hello.node = bytes_of("node-1");
    hello.machine_id = bytes_of("0123456789abcdef0123456789abcdef");
    hello.boot_id = bytes_of("fedcba98-7654-3210-fedc-ba9876543210");
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    add(b, &command);
    (void)apply(b);
    add_watermark(b);
    (void)apply(b);
}

static void for_all(struct bench *b, enum step step)
{
    uint64_t id = 0;

    for (const struct fsm_lease *lease; (lease = fsm_lease_next(b->fsm, id)); id = lease->id) {
        uint64_t serial = (uint64_t)step << 60 | lease->id;

        if (step == READY)
            add_report(b, lease, XCE__V1__REPORT_KIND__REPORT_KIND_READY);
        else if (step == RENEW)
            add_renew(b, serial, lease);
        else if (step == RELEASE)
            add_release(b, serial, lease);
        else
            add_report(b, lease, XCE__V1__REPORT_KIND__REPORT_KIND_CLEAN);
    }
    note(b, step, apply(b));
}

static void take_all(struct bench *b)
{
    for (uint32_t i = 0; i < b->n_leases; i++)
        add_acquire(b, b->last_lease + 1 + i);
    note(b, ACQUIRE, apply(b));
}

static void give_back_all(struct bench *b)
{
    int64_t took = 0;

    b->now_ms += 1000;
    for_all(b, READY);
    for_all(b, RENEW);
    for_all(b, RELEASE);
    for_all(b, CLEAN);
    b->now_ms += 300000;
    while (fsm_next_due_ms(b->fsm) <= b->now_ms) {
        add_tick(b);
        took += apply(b);
    }
    note(b, RETIRE, took);
    add_watermark(b);
    took = apply(b);
    while (fsm_next_due_ms(b->fsm) <= b->now_ms) {
        add_tick(b);
        took += apply(b);
    }
    note(b, FREE, took);
}

/* ---- figures ---- */

static void figure(const struct bench *b, const char *name, double value, const char *unit)
{
    static bool more;

    if (b->json)
        printf("%s\"%s\": %.1f", more ? ", " : "{\"bench\": \"fsm\", \"figures\": {", name, value);
    else
        printf("%-28s %10.1f %s\n", name, value, unit);
    more = true;
}

static void snapshots(const struct bench *b)
{
    struct fsm *other;
    uint8_t *bytes;
    size_t len;
    int64_t began = now_ns();

    if (fsm_snapshot(b->fsm, &bytes, &len) < 0 || fsm_new(&other) < 0)
        abort();
    figure(b, "snapshot_ms", (double)(now_ns() - began) / 1e6, "ms");
    figure(b, "snapshot_mib", (double)len / (1 << 20), "MiB");
    began = now_ns();
    if (fsm_restore(other, bytes, len, NULL) < 0)
        abort();
    figure(b, "restore_ms", (double)(now_ns() - began) / 1e6, "ms");
    began = now_ns();
    if (fsm_digest(other) != fsm_digest(b->fsm))
        abort();
    figure(b, "digest_ms", (double)(now_ns() - began) / 2e6, "ms");
    fsm_free(other);
    free(bytes);
}

static void parse(struct bench *b, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            b->json = true;
        } else if (strcmp(argv[i], "--leases") == 0 && i + 1 < argc) {
            b->n_leases = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--batch") == 0 && i + 1 < argc) {
            b->batch = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: bench_fsm [--json] [--leases N] [--batch N]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.now_ms = 1000, .n_leases = 65536, .batch = 64};
    size_t before, full;

    parse(&b, argc, argv);
    buf_init(&b.command, COMMAND_ENTRY_MAX);
    start(&b);
    malloc_trim(0);
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    take_all(&b);
    malloc_trim(0);
    full = mallinfo2().uordblks + mallinfo2().hblkhd;
    figure(&b, "bytes_per_lease", (double)(full - before) / b.n_leases,
           "bytes, its request's answer included");
    snapshots(&b);
    give_back_all(&b);
    for (int round = 1; round < ROUNDS; round++) {
        take_all(&b);
        give_back_all(&b);
    }
    for (int step = 0; step < STEPS; step++)
        figure(&b, names[step], b.best_ns[step], "ns each");
    if (b.json)
        printf("}}\n");
    buf_done(&b.command);
    free(b.entries);
    fsm_free(b.fsm);
    return 0;
}
