#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "leased/engine/raft_list.h"

/* a to c vote, d learns; ids 1 to 4. */
struct fixture {
    struct raft_configuration members;
    unsigned up; /* bits */
    struct raft_list list;
};

static bool up(raft_id id, void *arg)
{
    return ((const struct fixture *)arg)->up >> id & 1;
}

static int setup(void **state)
{
    static struct fixture f;

    raft_configuration_init(&f.members);
    assert_int_equal(raft_configuration_add(&f.members, 1, "a@h:1", RAFT_VOTER), 0);
    assert_int_equal(raft_configuration_add(&f.members, 2, "b@h:1", RAFT_VOTER), 0);
    assert_int_equal(raft_configuration_add(&f.members, 3, "c@h:1", RAFT_VOTER), 0);
    assert_int_equal(raft_configuration_add(&f.members, 4, "d@h:1", RAFT_SPARE), 0);
    f.up = 1 << 2 | 1 << 3 | 1 << 4;
    f.list = (struct raft_list){&f.members, 1, up, &f};
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    raft_configuration_close(&((struct fixture *)*state)->members);
    return 0;
}

static raft_id contradicts(const struct fixture *f, bool old, raft_id id, const char *name)
{
    const struct raft_server *server = raft_list_contradicts(&f->members, old, id, name);

    return server ? server->id : 0;
}

static void contradiction_is_by_name_and_folder(void **state)
{
    const struct fixture *f = *state;

    assert_int_equal(contradicts(f, false, 1, "a"), 0);
    assert_int_equal(contradicts(f, false, 9, "x"), 0);
    assert_int_equal(contradicts(f, false, 9, "a"), 1);
    assert_int_equal(contradicts(f, false, 2, "x"), 2);
}

static void contradiction_of_an_old_list_is_by_folder(void **state)
{
    const struct fixture *f = *state;

    assert_int_equal(contradicts(f, true, 1, "a"), 0);
    assert_int_equal(contradicts(f, true, 9, "a"), 0); /* it was added again */
    assert_int_equal(contradicts(f, true, 2, "a"), 2);
    assert_int_equal(contradicts(f, true, 2, "x"), 2);
}

static void next_step_goes_by_name_and_folder(void **state)
{
    const struct fixture *f = *state;

    assert_int_equal(raft_list_next(&f->members, 9, "x"), RAFT_LIST_ADD);
    assert_int_equal(raft_list_next(&f->members, 4, "d"), RAFT_LIST_PROMOTE);
    assert_int_equal(raft_list_next(&f->members, 3, "c"), RAFT_LIST_DONE);
    assert_int_equal(raft_list_next(&f->members, 9, "c"), RAFT_LIST_OTHER);
}

static void add_needs_a_majority_that_answers(void **state)
{
    struct fixture *f = *state;
    int r;

    assert_null(raft_list_may_add(&f->list, "x", &r));
    f->up = 1 << 2; /* with it three of four */
    assert_null(raft_list_may_add(&f->list, "x", &r));
    f->up = 0;
    assert_non_null(raft_list_may_add(&f->list, "x", &r));
    assert_int_equal(r, -EBUSY);
    assert_null(raft_list_may_add(&f->list, "d", &r)); /* it is there already */
}

static void remove_needs_a_majority_without_it(void **state)
{
    struct fixture *f = *state;
    const struct raft_server *server;
    int r;

    assert_null(raft_list_may_remove(&f->list, "b", &server, &r));
    assert_int_equal(server->id, 2);
    f->up = 1 << 2;
    assert_null(raft_list_may_remove(&f->list, "c", &server, &r)); /* that one is down */
    assert_non_null(raft_list_may_remove(&f->list, "b", &server, &r));
    assert_int_equal(r, -EBUSY);
    assert_null(raft_list_may_remove(&f->list, "d", &server, &r));
    assert_non_null(raft_list_may_remove(&f->list, "a", &server, &r)); /* it leads */
    assert_int_equal(r, -EBUSY);
    assert_non_null(raft_list_may_remove(&f->list, "x", &server, &r));
    assert_int_equal(r, -ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(contradiction_is_by_name_and_folder), TEST(contradiction_of_an_old_list_is_by_folder),
        TEST(next_step_goes_by_name_and_folder),   TEST(add_needs_a_majority_that_answers),
        TEST(remove_needs_a_majority_without_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
