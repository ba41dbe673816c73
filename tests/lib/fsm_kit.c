#include "tests/lib/fsm_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/command.h"
#include "tests/lib/fsm_kit_inner.h"

void kit_die(const char *what, const char *more)
{
    fprintf(stderr, "fsm kit: %s%s%s\n", what, more ? ": " : "", more ? more : "");
    abort();
}

ProtobufCBinaryData kit_bytes(const char *text)
{
    return (ProtobufCBinaryData){text ? strlen(text) : 0, (uint8_t *)text};
}

/* ---- life ---- */

void kit_init(struct kit *kit)
{
    *kit = (struct kit){.now_ms = 1000, .principal = "user:alice"};
    buf_init(&kit->entry, COMMAND_ENTRY_MAX);
    buf_init(&kit->command, COMMAND_ENTRY_MAX);
    if (fsm_new(&kit->fsm) < 0 || fsm_new(&kit->twin) < 0)
        kit_die("no memory", NULL);
}

void kit_done(struct kit *kit)
{
    fsm_free(kit->fsm);
    fsm_free(kit->twin);
    buf_done(&kit->entry);
    buf_done(&kit->command);
    free(kit->changes);
    *kit = (struct kit){0};
}

void kit_start(struct kit *kit, uint32_t n_uids, int n_nodes)
{
    uint8_t incarnation[16] = "0123456789abcdef";
    Xce__V1__CmdInit init = XCE__V1__CMD_INIT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    kit_init(kit);
    init.prefix = kit_bytes("xce-");
    init.incarnation = (ProtobufCBinaryData){sizeof(incarnation), incarnation};
    command.kind_case = XCE__V1__COMMAND__KIND_INIT;
    command.init = &init;
    kit_apply(kit, &command);
    if (n_uids &&
        kit_pool_create(kit, KIT_POOL, KIT_FIRST_UID, KIT_FIRST_UID + n_uids - 1) != FSM_OK)
        kit_die("the pool was refused", kit->out.message);
    for (int i = 1; i <= n_nodes; i++) {
        char name[32], machine[32];

        snprintf(name, sizeof(name), "n%d", i);
        snprintf(machine, sizeof(machine), "machine-%d", i);
        kit_hello(kit, name, machine, "boot-1", false);
    }
    kit_watermarks(kit);
}

/* ---- applying ---- */

static void on_change(const struct fsm_change *change, void *arg)
{
    struct kit *kit = arg;
    struct kit_change *c;

    if (kit->follow)
        kit->follow(change, kit->follow_arg);
    mem_must_grow(&kit->changes, &kit->cap_changes, kit->n_changes + 1, sizeof(*kit->changes));
    c = &kit->changes[kit->n_changes++];
    *c = (struct kit_change){
        .revision = change->revision, .kind = change->kind, .expiry_only = change->expiry_only};
    if (change->lease) {
        c->lease = change->lease->id;
        c->uid = change->lease->uid;
        c->state = change->lease->state;
        c->quarantine = change->lease->quarantine;
        c->before = change->before;
        c->quarantined = change->quarantined;
    }
    if (change->node) {
        snprintf(c->name, sizeof(c->name), "%s", change->node->name);
        c->node_state = change->node->state;
    }
    if (change->pool)
        snprintf(c->name, sizeof(c->name), "%s", change->pool->name);
    if (change->blocked)
        snprintf(c->blocked, sizeof(c->blocked), "%s", change->blocked->reason);
    if (change->revision != fsm_revision(kit->fsm))
        kit_die("a change without the state's revision", NULL);
}

static void on_outcome(size_t i, const struct fsm_outcome *outcome, void *arg)
{
    struct kit *kit = arg;

    (void)i;
    kit->out = *outcome;
    if (outcome->n_leases)
        memcpy(kit->out_leases, outcome->leases, outcome->n_leases * sizeof(uint64_t));
    kit->out.leases = kit->out_leases;
    if ((outcome->code == FSM_OK) != !*outcome->message)
        kit_die("an outcome without its message, or with one too many", outcome->message);
}

static void check_snapshot(struct kit *kit)
{
    uint8_t *bytes, *again;
    size_t len, len_again;
    const char *why = NULL;
    uint64_t digest = fsm_digest(kit->fsm);

    if (fsm_digest(kit->twin) != digest)
        kit_die("the twin differs", NULL);
    if (fsm_snapshot(kit->fsm, &bytes, &len) < 0)
        kit_die("no memory", NULL);
    /* From now on the twin is the one that came out of a snapshot. */
    if (fsm_restore(kit->twin, bytes, len, &why) < 0)
        kit_die("a snapshot can not be restored", why);
    why = fsm_verify(kit->twin);
    if (why)
        kit_die("after a restore", why);
    if (fsm_snapshot(kit->twin, &again, &len_again) < 0 || len != len_again ||
        memcmp(bytes, again, len) != 0 || fsm_digest(kit->twin) != digest)
        kit_die("a snapshot is not canonical", NULL);
    free(bytes);
    free(again);
}

int kit_apply_bytes(struct kit *kit, const uint8_t *bytes, size_t len)
{
    struct fsm_hooks hooks = {on_change, on_outcome, kit};
    uint64_t before = fsm_revision(kit->fsm);
    struct fsm_restored restored;
    const char *why;
    int r;

    kit->n_changes = 0;
    r = fsm_apply(kit->fsm, bytes, len, &hooks);
    if (kit->light)
        return r;
    if (fsm_apply(kit->twin, bytes, len, NULL) != r)
        kit_die("the twin says something else", NULL);
    why = fsm_verify(kit->fsm);
    if (why)
        kit_die("after an entry", why);
    fsm_get_restored(kit->fsm, &restored);
    if (restored.revision > before) /* by this very entry */
        before = restored.revision;
    for (size_t i = 0; i < kit->n_changes; i++)
        if (kit->changes[i].revision != before + i + 1)
            kit_die("a change out of order", NULL);
    if (before + kit->n_changes != fsm_revision(kit->fsm))
        kit_die("a revision without a change", NULL);
    check_snapshot(kit);
    return r;
}

void kit_request(struct kit *kit, const char *id, uint8_t digest, int64_t issued_ms)
{
    kit->id = id;
    kit->digest = digest;
    kit->issued_ms = issued_ms;
}

enum fsm_code kit_apply(struct kit *kit, Xce__V1__Command *command)
{
    Xce__V1__Request request = XCE__V1__REQUEST__INIT;
    size_t len;
    int r;

    request.principal = kit_bytes(kit->principal);
    request.id = kit_bytes(kit->id);
    request.digest = (ProtobufCBinaryData){1, &kit->digest};
    request.issued_at_ms = kit->issued_ms;
    command->request = &request;
    len = xce__v1__command__get_packed_size(command);
    buf_reset(&kit->command);
    xce__v1__command__pack(command, buf_reserve(&kit->command, len));
    buf_commit(&kit->command, len);
    command_entry_begin(&kit->entry, kit->now_ms, kit->now_ms + 1700000000000);
    command_entry_append(&kit->entry, (const uint8_t *)kit->command.data, len);
    if (command_entry_finish(&kit->entry) < 0)
        kit_die("the entry is not whole", NULL);
    r = kit_apply_bytes(kit, (const uint8_t *)kit->entry.data, kit->entry.len);
    if (r != 0)
        kit_die("an entry was not taken", NULL);
    kit->id = NULL;
    return kit->out.code;
}

/* ---- leases ---- */

#define KIT_NODES 64

struct built {
    Xce__V1__CmdGrant grant;
    ProtobufCBinaryData nodes[KIT_NODES];
    char names[512];
};

static void build(struct built *b, const struct kit_grant *from)
{
    const char *nodes = from->nodes ? from->nodes : "n1";
    char *save = NULL;

    xce__v1__cmd_grant__init(&b->grant);
    b->grant.pool = kit_bytes(from->pool);
    b->grant.job = kit_bytes(from->job);
    b->grant.owner_name = kit_bytes(from->owner ? from->owner : "alice");
    b->grant.owner_uid = from->owner_uid ? from->owner_uid : 1000;
    b->grant.owner_gid = b->grant.owner_uid;
    b->grant.ttl_ms = from->ttl_ms == -2 ? 0 : from->ttl_ms ? from->ttl_ms : 60000;
    b->grant.all_nodes = strcmp(nodes, "all") == 0;
    b->grant.nodes = b->nodes;
    snprintf(b->names, sizeof(b->names), "%s", nodes);
    for (char *name = strtok_r(b->names, ",", &save); name && !b->grant.all_nodes;
         name = strtok_r(NULL, ",", &save))
        b->nodes[b->grant.n_nodes++] = kit_bytes(name);
}

enum fsm_code kit_acquire_many(struct kit *kit, const struct kit_grant *grants, size_t n)
{
    struct built *built = mem_must_calloc(n, sizeof(*built));
    Xce__V1__CmdGrant **list = mem_must_calloc(n, sizeof(Xce__V1__CmdGrant *));
    Xce__V1__CmdAcquire acquire = XCE__V1__CMD_ACQUIRE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    enum fsm_code code;

    for (size_t i = 0; i < n; i++) {
        build(&built[i], &grants[i]);
        list[i] = &built[i].grant;
    }
    acquire.n_grants = n;
    acquire.grants = list;
    acquire.adopt = grants[0].adopt;
    acquire.wait = grants[0].wait;
    command.kind_case = XCE__V1__COMMAND__KIND_ACQUIRE;
    command.acquire = &acquire;
    code = kit_apply(kit, &command);
    free(built);
    free(list);
    return code;
}

enum fsm_code kit_acquire(struct kit *kit, const struct kit_grant *grant)
{
    return kit_acquire_many(kit, grant, 1);
}

uint64_t kit_active(struct kit *kit, const char *nodes)
{
    uint64_t id;

    if (kit_acquire(kit, &(struct kit_grant){.nodes = nodes}) != FSM_OK)
        kit_die("no lease", kit->out.message);
    id = kit->out_leases[0];
    for (uint32_t i = 0; i < kit_lease(kit, id)->n_members; i++)
        kit_report(kit, kit_lease(kit, id)->members[i].node->name, id, KIT_READY, NULL);
    if (kit_state(kit, id) != LEASE_ACTIVE)
        kit_die("not active", NULL);
    return id;
}

static uint32_t epoch_of(const struct kit *kit, uint64_t lease)
{
    const struct fsm_lease *l = fsm_lease(kit->fsm, lease);

    return l ? l->epoch : 1;
}

static enum fsm_code apply_renew(struct kit *kit, uint64_t lease, Xce__V1__CmdRenew *renew)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    renew->lease = lease;
    renew->epoch = epoch_of(kit, lease);
    command.kind_case = XCE__V1__COMMAND__KIND_RENEW;
    command.renew = renew;
    return kit_apply(kit, &command);
}

enum fsm_code kit_renew(struct kit *kit, uint64_t lease, int64_t ttl_ms)
{
    Xce__V1__CmdRenew renew = XCE__V1__CMD_RENEW__INIT;

    renew.ttl_ms = ttl_ms;
    return apply_renew(kit, lease, &renew);
}

enum fsm_code kit_add(struct kit *kit, uint64_t lease, const char *nodes)
{
    Xce__V1__CmdRenew renew = XCE__V1__CMD_RENEW__INIT;
    ProtobufCBinaryData list[KIT_NODES];
    char names[512], *save = NULL;

    snprintf(names, sizeof(names), "%s", nodes);
    renew.nodes = list;
    for (char *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save))
        list[renew.n_nodes++] = kit_bytes(name);
    return apply_renew(kit, lease, &renew);
}

enum fsm_code kit_release(struct kit *kit, uint64_t lease, const char *node)
{
    Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    release.lease = lease;
    release.epoch = epoch_of(kit, lease);
    release.node = kit_bytes(node);
    command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
    command.release = &release;
    return kit_apply(kit, &command);
}

enum fsm_code kit_revoke(struct kit *kit, uint64_t lease, const char *reason)
{
    Xce__V1__CmdRevoke revoke = XCE__V1__CMD_REVOKE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    revoke.lease = lease;
    revoke.epoch = epoch_of(kit, lease);
    revoke.reason = kit_bytes(reason);
    command.kind_case = XCE__V1__COMMAND__KIND_REVOKE;
    command.revoke = &revoke;
    return kit_apply(kit, &command);
}

/* ---- nodes ---- */

enum fsm_code kit_report_uid(struct kit *kit, const char *node, uint64_t session, uint32_t uid,
                             uint32_t epoch, int kind, const char *reason)
{
    Xce__V1__CmdMember member = XCE__V1__CMD_MEMBER__INIT;
    Xce__V1__CmdMember *list[] = {&member};
    Xce__V1__CmdReport report = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    member.uid = uid;
    member.epoch = epoch;
    member.kind = (uint32_t)kind;
    member.reason = kit_bytes(reason);
    report.node = kit_bytes(node);
    report.session = session;
    report.n_members = 1;
    report.members = list;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &report;
    return kit_apply(kit, &command);
}

enum fsm_code kit_report(struct kit *kit, const char *node, uint64_t lease, int kind,
                         const char *reason)
{
    const struct fsm_lease *l = kit_lease(kit, lease);

    return kit_report_uid(kit, node, kit_node(kit, node)->session, l->uid, l->epoch, kind, reason);
}

enum fsm_code kit_block(struct kit *kit, const char *node, uint32_t uid, const char *reason)
{
    Xce__V1__CmdBlock block = XCE__V1__CMD_BLOCK__INIT;
    Xce__V1__CmdBlock *list[] = {&block};
    Xce__V1__CmdReport report = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    block.uid = uid;
    block.reason = kit_bytes(reason);
    block.detail = kit_bytes("user bob");
    report.node = kit_bytes(node);
    report.session = kit_node(kit, node)->session;
    report.n_blocks = 1;
    report.blocks = list;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &report;
    return kit_apply(kit, &command);
}

static enum fsm_code say_hello(struct kit *kit, const char *node, const char *machine,
                               const char *boot, bool clean_start, bool returned)
{
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    hello.node = kit_bytes(node);
    hello.machine_id = kit_bytes(machine);
    hello.boot_id = kit_bytes(boot);
    hello.clean_start = clean_start;
    hello.returned = returned;
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    return kit_apply(kit, &command);
}

enum fsm_code kit_hello(struct kit *kit, const char *node, const char *machine, const char *boot,
                        bool clean_start)
{
    return say_hello(kit, node, machine, boot, clean_start, false);
}

enum fsm_code kit_returns(struct kit *kit, const char *node, const char *machine, const char *boot)
{
    return say_hello(kit, node, machine, boot, false, true);
}

enum fsm_code kit_watermark(struct kit *kit, const char *node, uint64_t revision)
{
    Xce__V1__CmdWatermark mark = XCE__V1__CMD_WATERMARK__INIT;
    Xce__V1__CmdWatermark *list[] = {&mark};
    Xce__V1__CmdWatermarks marks = XCE__V1__CMD_WATERMARKS__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    mark.node = kit_bytes(node);
    mark.session = kit_node(kit, node)->session;
    mark.revision = revision;
    marks.n_marks = 1;
    marks.marks = list;
    command.kind_case = XCE__V1__COMMAND__KIND_WATERMARKS;
    command.watermarks = &marks;
    return kit_apply(kit, &command);
}

void kit_watermarks(struct kit *kit)
{
    uint64_t revision = fsm_revision(kit->fsm);
    char names[256][80];
    size_t n = 0;

    for (const struct fsm_node *node = fsm_node_next(kit->fsm, NULL); node && n < 256;
         node = fsm_node_next(kit->fsm, node))
        if (node->state != NODE_LOST && node->state != NODE_FENCED)
            snprintf(names[n++], sizeof(names[0]), "%s", node->name);
    for (size_t i = 0; i < n; i++)
        kit_watermark(kit, names[i], revision);
}

enum fsm_code kit_lost(struct kit *kit, const char *node, bool heard_again)
{
    Xce__V1__CmdNodeLost lost = XCE__V1__CMD_NODE_LOST__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    lost.node = kit_bytes(node);
    lost.session = kit_node(kit, node)->session;
    lost.heard_again = heard_again;
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_LOST;
    command.node_lost = &lost;
    return kit_apply(kit, &command);
}

static enum fsm_code verb(struct kit *kit, const char *node, int which, const char *reason,
                          const char *machine, const char *boot)
{
    Xce__V1__CmdNodeVerb cmd = XCE__V1__CMD_NODE_VERB__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    cmd.node = kit_bytes(node);
    cmd.verb = (Xce__V1__NodeVerb)which;
    cmd.reason = kit_bytes(reason);
    cmd.machine_id = kit_bytes(machine);
    cmd.boot_id = kit_bytes(boot);
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_VERB;
    command.node_verb = &cmd;
    return kit_apply(kit, &command);
}

enum fsm_code kit_verb(struct kit *kit, const char *node, int which, const char *reason)
{
    return verb(kit, node, which, reason, NULL, NULL);
}

enum fsm_code kit_fence(struct kit *kit, const char *node, const char *machine, const char *boot)
{
    return verb(kit, node, XCE__V1__NODE_VERB__NODE_VERB_FENCE, "power is off", machine, boot);
}

/* ---- time ---- */

enum fsm_code kit_tick(struct kit *kit)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    return kit_apply(kit, &command);
}

enum fsm_code kit_grace(struct kit *kit, int64_t grace_ms)
{
    Xce__V1__CmdGrace grace = XCE__V1__CMD_GRACE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    grace.grace_ms = grace_ms;
    command.kind_case = XCE__V1__COMMAND__KIND_GRACE;
    command.grace = &grace;
    return kit_apply(kit, &command);
}

void kit_elapse(struct kit *kit, int64_t ms)
{
    int64_t end_ms = kit->now_ms + ms;

    while (fsm_next_due_ms(kit->fsm) <= end_ms) {
        if (fsm_next_due_ms(kit->fsm) > kit->now_ms)
            kit->now_ms = fsm_next_due_ms(kit->fsm);
        kit_tick(kit);
    }
    kit->now_ms = end_ms;
    kit_tick(kit);
}

/* ---- pools ---- */

enum fsm_code kit_pool_create(struct kit *kit, const char *name, uint32_t first, uint32_t last)
{
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;
    Xce__V1__CmdPoolCreate create = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    range.first = first;
    range.last = last;
    create.name = kit_bytes(name);
    create.range = &range;
    create.directory_none = true;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &create;
    return kit_apply(kit, &command);
}

struct built_pool {
    Xce__V1__CmdPoolSettings settings;
    Xce__V1__CmdRange directory;
    Xce__V1__CmdRange *list[1];
    size_t n;
};

static void build_pool(struct built_pool *b, const struct kit_pool_set *set)
{
    xce__v1__cmd_pool_settings__init(&b->settings);
    xce__v1__cmd_range__init(&b->directory);
    b->settings.ttl_min_ms = set->ttl_min_ms;
    b->settings.ttl_max_ms = set->ttl_max_ms;
    b->settings.ttl_default_ms = set->ttl_default_ms;
    b->settings.cooldown_ms = set->cooldown_ms;
    b->settings.ready_timeout_ms = set->ready_timeout_ms;
    b->settings.validity_ms = set->validity_ms;
    b->settings.witnesses = set->witnesses_all;
    b->settings.witnesses_set = set->witnesses_all || set->witnesses_connected;
    b->settings.max_per_owner = set->max_per_owner;
    b->settings.max_per_owner_set = set->max_per_owner_set;
    b->settings.home = kit_bytes(set->home);
    b->settings.shell = kit_bytes(set->shell);
    b->directory.first = set->directory.first;
    b->directory.last = set->directory.last;
    b->list[0] = &b->directory;
    b->n = set->directory.last != 0;
}

enum fsm_code kit_pool_set(struct kit *kit, const struct kit_pool_set *set)
{
    Xce__V1__CmdPoolSet cmd = XCE__V1__CMD_POOL_SET__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct built_pool b;

    build_pool(&b, set);
    cmd.name = kit_bytes(set->name ? set->name : KIT_POOL);
    cmd.settings = &b.settings;
    cmd.last = set->last;
    cmd.n_directory_ranges = b.n;
    cmd.directory_ranges = b.list;
    cmd.directory_none = set->directory_none;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_SET;
    command.pool_set = &cmd;
    return kit_apply(kit, &command);
}

enum fsm_code kit_pool_make(struct kit *kit, uint32_t first, const struct kit_pool_set *set)
{
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;
    Xce__V1__CmdPoolCreate create = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct built_pool b;

    build_pool(&b, set);
    range.first = first;
    range.last = set->last;
    create.name = kit_bytes(set->name ? set->name : KIT_POOL);
    create.range = &range;
    create.settings = &b.settings;
    create.n_directory_ranges = b.n;
    create.directory_ranges = b.list;
    create.directory_none = set->directory_none;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &create;
    return kit_apply(kit, &command);
}

#define RULES_OF_A_KIND 2048

/* Rules out of the kit's notation; lives until the next. */
struct rules_builder {
    char *text;
    Xce__V1__Rules rules;
    Xce__V1__Role *roles[RULES_OF_A_KIND];
    Xce__V1__Binding *bindings[RULES_OF_A_KIND];
    void *pieces[RULES_OF_A_KIND * 4];
    size_t n_pieces;
};

static void *piece(struct rules_builder *b, size_t size)
{
    return b->pieces[b->n_pieces++] = mem_must_calloc(1, size);
}

static void build_role(struct rules_builder *b, char *text)
{
    Xce__V1__Role *role = piece(b, sizeof(*role));
    char *rest = text, *item;

    xce__v1__role__init(role);
    role->name = kit_bytes(strsep(&rest, "="));
    role->rights = piece(b, 512 * sizeof(*role->rights));
    while ((item = strsep(&rest, ",")) && *item) {
        Xce__V1__Right *right = piece(b, sizeof(*right));

        xce__v1__right__init(right);
        right->method = kit_bytes(strsep(&item, ":"));
        right->scope = !item                  ? XCE__V1__SCOPE__SCOPE_UNSPECIFIED
                       : !strcmp(item, "all") ? XCE__V1__SCOPE__SCOPE_ALL
                                              : XCE__V1__SCOPE__SCOPE_OWN;
        role->rights[role->n_rights++] = right;
    }
    b->roles[b->rules.n_roles++] = role;
}

static void build_binding(struct rules_builder *b, char *text)
{
    Xce__V1__Binding *binding = piece(b, sizeof(*binding));
    char *rest = text, *subject = strsep(&rest, ":"), *name = strsep(&rest, "="), *item;

    xce__v1__binding__init(binding);
    binding->subject = !strcmp(subject, "local")   ? XCE__V1__SUBJECT__SUBJECT_LOCAL
                       : !strcmp(subject, "user")  ? XCE__V1__SUBJECT__SUBJECT_USER
                       : !strcmp(subject, "group") ? XCE__V1__SUBJECT__SUBJECT_GROUP
                                                   : XCE__V1__SUBJECT__SUBJECT_UNSPECIFIED;
    binding->name = kit_bytes(name);
    binding->roles = piece(b, 32 * sizeof(*binding->roles));
    while ((item = strsep(&rest, ",")) && *item)
        binding->roles[binding->n_roles++] = kit_bytes(item);
    b->bindings[b->rules.n_bindings++] = binding;
}

enum fsm_code kit_rules(struct kit *kit, uint64_t expected, const char *roles, const char *bindings)
{
    static struct rules_builder b;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRules rules = XCE__V1__CMD_RULES__INIT;
    char *copies[2] = {mem_must_strdup(roles ? roles : ""),
                       mem_must_strdup(bindings ? bindings : "")};
    char *rest = copies[0], *item;
    enum fsm_code code;

    memset(&b, 0, sizeof(b));
    xce__v1__rules__init(&b.rules);
    b.rules.roles = b.roles;
    b.rules.bindings = b.bindings;
    while ((item = strsep(&rest, ";")) && *item)
        build_role(&b, item);
    rest = copies[1];
    while ((item = strsep(&rest, ";")) && *item)
        build_binding(&b, item);
    rules.expected = expected;
    rules.rules = &b.rules;
    command.kind_case = XCE__V1__COMMAND__KIND_RULES;
    command.rules = &rules;
    code = kit_apply(kit, &command);
    while (b.n_pieces)
        free(b.pieces[--b.n_pieces]);
    free(copies[0]);
    free(copies[1]);
    return code;
}

enum fsm_code kit_pool_retire(struct kit *kit, const char *name)
{
    Xce__V1__CmdPoolRetire retire = XCE__V1__CMD_POOL_RETIRE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    retire.name = kit_bytes(name);
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_RETIRE;
    command.pool_retire = &retire;
    return kit_apply(kit, &command);
}

enum fsm_code kit_unblock(struct kit *kit, uint32_t uid)
{
    Xce__V1__CmdUnblock unblock = XCE__V1__CMD_UNBLOCK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    unblock.name = kit_bytes(KIT_POOL);
    unblock.uid = uid;
    command.kind_case = XCE__V1__COMMAND__KIND_UNBLOCK;
    command.unblock = &unblock;
    return kit_apply(kit, &command);
}

/* ---- asking ---- */

void kit_finish(struct kit *kit, uint64_t lease)
{
    if (kit_state(kit, lease) <= LEASE_ACTIVE)
        kit_release(kit, lease, NULL);
    for (uint32_t i = 0;
         kit_state(kit, lease) == LEASE_DRAINING && i < kit_lease(kit, lease)->n_members; i++)
        kit_report(kit, kit_lease(kit, lease)->members[i].node->name, lease, KIT_CLEAN, NULL);
    if (kit_state(kit, lease) == LEASE_COOLING)
        kit_elapse(kit, kit_lease(kit, lease)->due_ms - kit->now_ms);
    kit_watermarks(kit);
}

const struct fsm_lease *kit_lease(const struct kit *kit, uint64_t lease)
{
    const struct fsm_lease *l = fsm_lease(kit->fsm, lease);

    if (!l)
        kit_die("no such lease", NULL);
    return l;
}

enum lease_state kit_state(const struct kit *kit, uint64_t lease)
{
    const struct fsm_lease *l = fsm_lease(kit->fsm, lease);

    return l ? l->state : LEASE_FREE;
}

const struct fsm_member *kit_member(const struct kit *kit, uint64_t lease, const char *node)
{
    const struct fsm_lease *l = kit_lease(kit, lease);

    for (uint32_t i = 0; i < l->n_members; i++)
        if (strcmp(l->members[i].node->name, node) == 0)
            return &l->members[i];
    kit_die("no member", node);
    return NULL;
}

const struct fsm_node *kit_node(const struct kit *kit, const char *node)
{
    const struct fsm_node *n = fsm_node(kit->fsm, node);

    if (!n)
        kit_die("no such node", node);
    return n;
}

const struct fsm_pool *kit_pool(const struct kit *kit)
{
    return fsm_pool(kit->fsm, KIT_POOL);
}

struct fsm_counts kit_counts(const struct kit *kit)
{
    struct fsm_counts counts;

    fsm_pool_counts(kit_pool(kit), &counts);
    return counts;
}
