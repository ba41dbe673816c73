/* Who may do what, in the state: compare and set, one form for the same rules, limits. The kit carries each state through a
 * snapshot and a twin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/digest.h"
#include "common/mem.h"
#include "leased/fsm/snapshot.h"
#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int setup(void **state)
{
    (void)state;
    kit_start(&kit, 8, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

static uint64_t revision(void)
{
    return fsm_rules_revision(kit.fsm);
}

static void rules_of_a_new_state_are_none(void **state)
{
    (void)state;
    assert_null(fsm_rules(kit.fsm));
    assert_int_equal(revision(), 0);
}

static void rules_set_are_told_and_kept_sorted(void **state)
{
    const Xce__V1__Rules *rules;

    (void)state;
    assert_int_equal(kit_rules(&kit, 0, "z=*:own;a=LeaseService/Get:all,LeaseService/*:own",
                               "user:bob=z,a;local:*=user;group:Physics Dept.=a;user:*=user"),
                     FSM_OK);
    assert_int_equal(kit.n_changes, 1);
    assert_int_equal(kit.changes[0].kind, CHANGE_RULES);
    assert_int_equal(revision(), kit.changes[0].revision);
    rules = fsm_rules(kit.fsm);
    assert_int_equal(rules->n_roles, 2);
    assert_memory_equal(rules->roles[0]->name.data, "a", 1);
    assert_memory_equal(rules->roles[0]->rights[0]->method.data, "LeaseService/*", 14);
    assert_int_equal(rules->n_bindings, 4);
    assert_int_equal(rules->bindings[0]->subject, XCE__V1__SUBJECT__SUBJECT_LOCAL);
    assert_memory_equal(rules->bindings[1]->name.data, "*", 1);
    assert_memory_equal(rules->bindings[2]->roles[0].data, "a", 1);
    assert_memory_equal(rules->bindings[3]->name.data, "Physics Dept.", 13);
}

static void rules_in_another_order_are_the_same(void **state)
{
    uint64_t before, digest;

    (void)state;
    assert_int_equal(kit_rules(&kit, 0, "a=A/B:own,A/C:all;b=", "user:x=a,b;user:y=a"), FSM_OK);
    before = revision();
    digest = fsm_digest(kit.fsm);
    assert_int_equal(kit_rules(&kit, before, "b=;a=A/C:all,A/B:own", "user:y=a;user:x=b,a"),
                     FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(revision(), before);
    assert_int_equal(fsm_digest(kit.fsm), digest);
}

static void rules_expected_at_another_revision_are_refused(void **state)
{
    uint64_t first;

    (void)state;
    assert_int_equal(kit_rules(&kit, 7, NULL, "local:*=user"), FSM_STALE);
    assert_int_equal(kit_rules(&kit, 0, NULL, "local:*=user"), FSM_OK);
    first = revision();
    assert_int_equal(kit_rules(&kit, 0, NULL, NULL), FSM_STALE);
    assert_non_null(strstr(kit.out.message, "read them again"));
    assert_int_equal(kit_rules(&kit, first, NULL, NULL), FSM_OK);
    assert_int_equal(fsm_rules(kit.fsm)->n_bindings, 0);
    assert_true(revision() > first);
}

/* No rules at all are rules: they were set. */
static void rules_that_are_empty_are_not_the_defaults(void **state)
{
    (void)state;
    assert_int_equal(kit_rules(&kit, 0, NULL, NULL), FSM_OK);
    assert_non_null(fsm_rules(kit.fsm));
    assert_true(revision() > 0);
}

static void rules_that_are_malformed_are_refused(void **state)
{
    static const char *const roles[] = {
        "=A/B:own",          "Big=A/B:own", "a b=A/B:own",  "a=A/B",     "a=A:own",  "a=/B:own",
        "a=A/:own",          "a=A/B/C:own", "a=A/B*:own",   "a=*/B:own", "a=**:own", "a=A B/C:own",
        "a=A/B:own,A/B:all", "a=;a=",       "a=A/B:own;a=", "-a=A/B:own"};
    static const char *const bindings[] = {
        "user:=a", "user:#1000=a", "user:1000=a", "node:n1=a",         "group:=a",    "local:a b=a",
        "user:x=", "user:x=A",     "user:x=a,a",  "user:x=a;user:x=b", "group:a\nb=a"};

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        assert_int_equal(kit_rules(&kit, 0, roles[i], NULL), FSM_INVALID);
    for (size_t i = 0; i < sizeof bindings / sizeof bindings[0]; i++)
        assert_int_equal(kit_rules(&kit, 0, NULL, bindings[i]), FSM_INVALID);
    assert_null(fsm_rules(kit.fsm));
}

/* n items, their numbers in between: "user:u0=a;user:u1=a". */
static char *many(const char *before, const char *after, size_t n)
{
    size_t size = n * 96 + 1, at = 0;
    char *text = mem_must_alloc(size);

    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%zu%s", before, i, after);
    return text;
}

static enum fsm_code try(const char *start, const char *before, const char *after, size_t n,
                         bool bindings)
{
    char *text = many(before, after, n), *whole = mem_must_alloc(strlen(start) + strlen(text) + 1);
    enum fsm_code code;

    memcpy(whole, start, strlen(start));
    memcpy(whole + strlen(start), text, strlen(text) + 1);
    code = kit_rules(&kit, revision(), bindings ? NULL : whole, bindings ? whole : NULL);
    free(text);
    free(whole);
    return code;
}

static void rules_have_limits(void **state)
{
    (void)state;
    assert_int_equal(try("", "r", "=;", FSM_ROLES_MAX, false), FSM_OK);
    assert_int_equal(try("", "r", "=;", FSM_ROLES_MAX + 1, false), FSM_INVALID);
    assert_int_equal(try("r=", "A/M", ":own,", FSM_RIGHTS_MAX, false), FSM_OK);
    assert_int_equal(try("r=", "A/M", ":own,", FSM_RIGHTS_MAX + 1, false), FSM_INVALID);
    assert_int_equal(try("", "user:u", "=a;", FSM_BINDINGS_MAX, true), FSM_OK);
    assert_int_equal(try("", "user:u", "=a;", FSM_BINDINGS_MAX + 1, true), FSM_INVALID);
    assert_int_equal(try("user:x=", "r", ",", FSM_BOUND_MAX, true), FSM_OK);
    assert_int_equal(try("user:x=", "r", ",", FSM_BOUND_MAX + 1, true), FSM_INVALID);
    assert_non_null(strstr(kit.out.message, "16"));
}

static void rules_of_a_request_are_set_once(void **state)
{
    (void)state;
    kit_request(&kit, "one", 1, 0);
    assert_int_equal(kit_rules(&kit, 0, NULL, "local:*=user"), FSM_OK);
    kit_request(&kit, "one", 1, 0);
    assert_int_equal(kit_rules(&kit, 0, NULL, "local:*=user"), FSM_OK);
    assert_true(kit.out.replayed);
    assert_int_equal(kit.n_changes, 0);
}

/* ---- snapshots ---- */

static void seal(uint8_t *bytes, size_t len, uint32_t version)
{
    uint64_t body = len - SNAPSHOT_HEAD;
    uint32_t crc;

    memcpy(bytes + 8, &version, 4);
    memcpy(bytes + 16, &body, 8);
    crc = digest_crc32c(0, bytes + SNAPSHOT_CRC_FROM, len - SNAPSHOT_CRC_FROM);
    memcpy(bytes + 12, &crc, 4);
}

/* Version 1 is the same without its last part. */
static void rules_are_missing_in_old_snapshots(void **state)
{
    struct fsm *fsm;
    uint8_t *bytes;
    size_t len;

    (void)state;
    assert_int_equal(fsm_snapshot(kit.fsm, &bytes, &len), 0);
    /* Tokens, of which there are none, come behind them. */
    len -= 4;
    seal(bytes, len - 12, 1);
    assert_int_equal(fsm_new(&fsm), 0);
    assert_int_equal(fsm_restore(fsm, bytes, len - 12, NULL), 0);
    assert_int_equal(fsm_digest(fsm), fsm_digest(kit.fsm));
    seal(bytes, len - 12, 2);
    assert_int_not_equal(fsm_restore(fsm, bytes, len - 12, NULL), 0);
    fsm_free(fsm);
    free(bytes);
}

/* Every byte of the rules turned around: refused, or another state that is whole. */
static void rules_damaged_in_a_snapshot_are_refused_or_whole(void **state)
{
    const char *why;
    struct fsm *fsm;
    uint8_t *bytes;
    size_t len, refused = 0;

    (void)state;
    assert_int_equal(kit_rules(&kit, 0, "a=A/B:own,A/C:all", "user:x=a;user:y=a"), FSM_OK);
    assert_int_equal(fsm_snapshot(kit.fsm, &bytes, &len), 0);
    assert_int_equal(fsm_new(&fsm), 0);
    for (size_t i = len - 70; i < len; i++) {
        bytes[i] ^= 0x15;
        seal(bytes, len, SNAPSHOT_VERSION);
        if (fsm_restore(fsm, bytes, len, &why) < 0)
            refused++;
        else
            assert_null(fsm_verify(fsm));
        bytes[i] ^= 0x15;
    }
    assert_true(refused > 40);
    fsm_free(fsm);
    free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rules_of_a_new_state_are_none),
        TEST(rules_set_are_told_and_kept_sorted),
        TEST(rules_in_another_order_are_the_same),
        TEST(rules_expected_at_another_revision_are_refused),
        TEST(rules_that_are_empty_are_not_the_defaults),
        TEST(rules_that_are_malformed_are_refused),
        TEST(rules_have_limits),
        TEST(rules_of_a_request_are_set_once),
        TEST(rules_are_missing_in_old_snapshots),
        TEST(rules_damaged_in_a_snapshot_are_refused_or_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
