/* A lease by hand is the lease by protobuf-c, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leased/watch/lease_proto.h"
#include "leased/watch/lease_wire.h"
#include "tests/lib/fsm_kit.h"

#define MEMBERS_MAX 40
#define GIDS_MAX    20

static uint64_t random_state;

static uint64_t roll(uint64_t n)
{
    /* xorshift64; the seed is fixed: what fails fails again. */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

/* Small and large numbers, and those at the edges of varints. */
static uint64_t number(unsigned bits)
{
    static const uint64_t edges[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX};
    uint64_t value = roll(3) ? roll((uint64_t)1 << roll(bits)) : edges[roll(7)];

    return bits < 64 ? value & (((uint64_t)1 << bits) - 1) : value;
}

static const char *text(char *room, size_t max)
{
    size_t len = roll(3) ? roll(max + 1) : 0;

    if (roll(5) == 0)
        return NULL;
    for (size_t i = 0; i < len; i++)
        room[i] = (char)('a' + roll(26));
    room[len] = '\0';
    return room;
}

struct made {
    struct fsm_lease lease;
    struct fsm_node nodes[MEMBERS_MAX];
    struct fsm_member members[MEMBERS_MAX];
    char names[MEMBERS_MAX][3][300];
    uint32_t gids[GIDS_MAX];
    char pool[64], job[200], owner[65];
};

static void make(struct made *m)
{
    struct fsm_lease *lease = &m->lease;

    memset(m, 0, sizeof *m);
    lease->id = number(63);
    lease->uid = (uint32_t)number(31) + 1;
    lease->epoch = (uint32_t)number(31) + 1;
    lease->state = (enum lease_state)(1 + roll(7));
    lease->quarantine = (uint32_t)roll(32);
    lease->cause = (enum end_cause)roll(8);
    lease->pool = roll(2) ? "main" : text(m->pool, 31);
    lease->pool = lease->pool ? lease->pool : "";
    lease->job = text(m->job, 128);
    lease->owner.name = text(m->owner, 64);
    lease->owner.uid = (uint32_t)number(32);
    lease->owner.gid = (uint32_t)number(32);
    lease->n_members = (uint32_t)roll(roll(10) ? 4 : MEMBERS_MAX);
    lease->members = m->members;
    for (uint32_t i = 0; i < lease->n_members; i++) {
        const char *name = text(m->names[i][0], 63);

        m->nodes[i].name = name ? name : "n";
        m->members[i].node = &m->nodes[i];
        m->members[i].proof = (enum member_proof)roll(6);
        m->members[i].released = roll(2);
        m->members[i].reason = text(m->names[i][1], 40);
        m->members[i].detail = text(m->names[i][2], 250);
    }
    lease->n_gids = (uint32_t)roll(GIDS_MAX);
    lease->gids = m->gids;
    for (uint32_t i = 0; i < lease->n_gids; i++)
        m->gids[i] = (uint32_t)number(32);
    lease->ttl_ms = (int64_t)number(40);
    lease->expires_ms = (int64_t)number(46);
    lease->granted_wall_ms = (int64_t)number(46) - (roll(20) ? 0 : 1000000);
    lease->changed_wall_ms = (int64_t)number(46);
    lease->revision = number(63);
}

static void compare(const struct fsm *fsm, const struct made *m, int64_t offset_ms)
{
    size_t bound = lease_wire_bound(fsm, &m->lease), len;
    uint8_t *ours = malloc(bound), *theirs;
    struct lease_proto proto;
    size_t ours_len = lease_wire(fsm, &m->lease, offset_ms, ours);

    assert_int_equal(lease_proto_init(&proto, fsm, &m->lease, offset_ms), 0);
    len = xce__v1__lease__get_packed_size(&proto.message);
    theirs = malloc(len + 1);
    (void)xce__v1__lease__pack(&proto.message, theirs);
    assert_true(ours_len <= bound);
    assert_int_equal(ours_len, len);
    assert_memory_equal(ours, theirs, len);
    lease_proto_done(&proto);
    free(ours);
    free(theirs);
}

static void wire_is_what_protobuf_c_makes(void **state)
{
    static struct made m;
    struct kit *kit = *state;

    random_state = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        make(&m);
        compare(kit->fsm, &m, roll(2) ? (int64_t)number(41) : 0);
    }
}

static int setup(void **state)
{
    static struct kit kit;

    kit_start(&kit, 16, 1);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wire_is_what_protobuf_c_makes, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
