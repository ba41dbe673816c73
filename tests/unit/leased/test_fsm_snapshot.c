/* Snapshots: whole ones restore (the kit checks that after every entry of every test), damaged ones are refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/digest.h"
#include "leased/fsm/snapshot.h"
#include "tests/lib/fsm_kit.h"

struct fixture {
    struct kit kit;
    uint8_t *bytes;
    size_t len;
};

/* A state with something of every kind in it. */
static int rich(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct kit *kit = &f->kit;
    struct kit_grant two[] = {{.job = "w", .wait = true, .nodes = "n1,n3"}, {.job = "x"}};
    uint64_t id;

    kit_start(kit, 24, 4);
    kit_pool_set(kit, &(struct kit_pool_set){.max_per_owner = 20, .max_per_owner_set = true});
    kit_pool_make(kit, 70000,
                  &(struct kit_pool_set){
                      .name = "old", .last = 70009, .directory = {80000, 80001}, .home = "/h"});
    kit_acquire(kit, &(struct kit_grant){.pool = "old"});
    kit_finish(kit, kit->out_leases[0]);
    kit_pool_retire(kit, "old");
    kit_block(kit, "n1", KIT_FIRST_UID + 20, "account");
    kit_block(kit, "n1", KIT_FIRST_UID, "group");
    id = kit_active(kit, "n1,n2");
    kit_active(kit, "n4");
    kit_lost(kit, "n4", false);
    kit_fence(kit, "n4", "machine-4", "boot-1");
    kit_release(kit, id, NULL);
    kit_report(kit, "n1", id, KIT_CLEAN, NULL);
    kit_report(kit, "n2", id, KIT_DIRTY, "file");
    id = kit_active(kit, "n3");
    kit_release(kit, id, NULL);
    kit_report(kit, "n3", id, KIT_CLEAN, NULL);
    kit_elapse(kit, 300000);
    id = kit_active(kit, "n3");
    kit_finish(kit, id);
    kit_request(kit, "failed", 1, kit->now_ms);
    kit_acquire(kit, &(struct kit_grant){.pool = "nowhere"});
    kit_request(kit, "waits", 1, kit->now_ms);
    kit_acquire_many(kit, two, 2);
    kit_request(kit, "renewed", 1, 0);
    kit_renew(kit, kit->out_leases[1], 0);
    kit_verb(kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, "new disk");
    kit_report_uid(kit, "n1", kit_node(kit, "n1")->session, KIT_FIRST_UID + 21, 0, KIT_STRAY,
                   "process");
    kit_block(kit, "n3", KIT_FIRST_UID + 21, "leftover");
    kit_hello(kit, "n3", "machine-3", "boot-2", false);
    kit_hello(kit, "n3", "machine-9", "boot-9", false);
    assert_int_equal(fsm_snapshot(kit->fsm, &f->bytes, &f->len), 0);
    *state = f;
    return 0;
}

static int end(void **state)
{
    struct fixture *f = *state;

    kit_done(&f->kit);
    free(f->bytes);
    free(f);
    return 0;
}

static void seal(uint8_t *bytes, size_t len)
{
    uint32_t crc = digest_crc32c(0, bytes + 16, len - 16);

    for (int i = 0; i < 4; i++)
        bytes[12 + i] = (uint8_t)(crc >> (8 * i));
}

static void snapshot_with_any_bit_turned_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t before = fsm_digest(f->kit.fsm);
    const char *why;

    for (size_t i = 0; i < f->len; i += i < 64 ? 1 : 37) {
        why = NULL;
        f->bytes[i] ^= (uint8_t)(1 << (i % 8));
        assert_int_equal(fsm_restore(f->kit.fsm, f->bytes, f->len, &why), -EBADMSG);
        assert_non_null(why);
        f->bytes[i] ^= (uint8_t)(1 << (i % 8));
    }
    assert_int_equal(fsm_digest(f->kit.fsm), before);
    assert_int_equal(fsm_restore(f->kit.fsm, f->bytes, f->len, NULL), 0);
}

static void snapshot_cut_short_is_refused(void **state)
{
    struct fixture *f = *state;
    const char *why;

    for (size_t len = 0; len < f->len; len += len < 64 ? 1 : 101)
        assert_int_equal(fsm_restore(f->kit.fsm, f->bytes, len, &why), -EBADMSG);
}

/* With the right checksum all the same: whatever gets in is a whole state, whatever does not leaves no trace. */
static void snapshot_damaged_and_sealed_again_never_gives_a_broken_state(void **state)
{
    struct fixture *f = *state;
    uint64_t before = fsm_digest(f->kit.fsm);
    uint8_t *copy = malloc(f->len);
    size_t refused = 0, n = 0;

    for (size_t i = 24; i < f->len; i++) {
        static const uint8_t masks[] = {0x01, 0x80, 0xff};
        const char *why = NULL;
        struct fsm *fsm;
        int r;

        memcpy(copy, f->bytes, f->len);
        copy[i] ^= masks[i % 3];
        seal(copy, f->len);
        assert_int_equal(fsm_new(&fsm), 0);
        r = fsm_restore(fsm, copy, f->len, &why);
        if (r == 0)
            why = fsm_verify(fsm);
        if (r == 0 && why)
            fail_msg("byte %zu: %s", i, why);
        refused += r != 0;
        n++;
        fsm_free(fsm);
    }
    free(copy);
    assert_in_range(refused, n / 10, n - 1);
    assert_int_equal(fsm_digest(f->kit.fsm), before);
}

/* Only what earlier ones can not know is written as what they can not read. */
static void snapshot_is_of_the_version_that_its_state_needs(void **state)
{
    static const uint32_t versions[] = {SNAPSHOT_PLAIN,   SNAPSHOT_PASSING, SNAPSHOT_DOUBLED,
                                        SNAPSHOT_PASSING, SNAPSHOT_PLAIN,   SNAPSHOT_VERSION};
    struct kit kit;
    uint8_t *bytes;
    size_t len;

    kit_start(&kit, 4, 1);
    for (int i = 0; i < 6; i++) {
        if (i == 1)
            kit_report_uid(&kit, "n1", kit_node(&kit, "n1")->session, KIT_FIRST_UID, 0, KIT_STRAY,
                           "process");
        if (i == 2)
            kit_block(&kit, "n1", KIT_FIRST_UID, "leftover");
        if (i == 3)
            kit_report_uid(&kit, "n1", kit_node(&kit, "n1")->session, KIT_FIRST_UID, 0, KIT_CLEAN,
                           NULL);
        if (i == 4)
            kit_watermarks(&kit);
        if (i == 5)
            kit_hello(&kit, "n1", "machine-1", "boot-2", false);
        assert_int_equal(fsm_snapshot(kit.fsm, &bytes, &len), 0);
        assert_int_equal(bytes[8], versions[i]);
        free(bytes);
    }
    kit_done(&kit);
}

static void snapshot_of_another_version_says_so(void **state)
{
    struct fixture *f = *state;
    const char *why = NULL;

    f->bytes[8] = SNAPSHOT_VERSION + 1;
    assert_int_equal(fsm_restore(f->kit.fsm, f->bytes, f->len, &why), -EBADMSG);
    assert_string_equal(why, "of a version that is not known");
}

static void snapshot_of_an_empty_state_restores(void **state)
{
    struct fixture *f = *state;
    struct fsm *fsm;
    uint8_t *bytes;
    size_t len;

    assert_int_equal(fsm_new(&fsm), 0);
    assert_int_equal(fsm_snapshot(fsm, &bytes, &len), 0);
    assert_int_equal(fsm_restore(f->kit.fsm, bytes, len, NULL), 0);
    assert_int_equal(fsm_digest(f->kit.fsm), fsm_digest(fsm));
    assert_int_not_equal(fsm_restore(fsm, bytes, len - 1, NULL), 0);
    assert_false(fsm_initialised(f->kit.fsm));
    fsm_free(fsm);
    free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rich, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(snapshot_with_any_bit_turned_is_refused),
        TEST(snapshot_cut_short_is_refused),
        TEST(snapshot_damaged_and_sealed_again_never_gives_a_broken_state),
        TEST(snapshot_of_another_version_says_so),
        cmocka_unit_test(snapshot_is_of_the_version_that_its_state_needs),
        TEST(snapshot_of_an_empty_state_restores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
