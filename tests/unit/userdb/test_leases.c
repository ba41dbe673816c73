/* The map under a daemon that lives longer than it: made late, replaced, removed, damaged; and what it costs in memory. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/userdb/kit.h"

static int find(struct kit *kit, uint32_t uid)
{
    struct map_entry entry;

    return leases_by_uid(&kit->leases, uid, MAP_WANT_RECORD, &entry);
}

static void leases_map_that_comes_late_is_found_at_once(void **state)
{
    struct kit *kit = *state;
    char away[128];

    (void)snprintf(away, sizeof(away), "%s.away", kit->map.path);
    assert_int_equal(rename(kit->map.path, away), 0);
    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE), LEASES_AWAY);
    assert_int_equal(find(kit, 0), LEASES_NONE);
    assert_int_equal(rename(away, kit->map.path), 0);
    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE), 0);
    assert_int_equal(find(kit, BASE + 2), LEASES_NONE);
}

static void leases_map_that_is_replaced_is_found_at_once(void **state)
{
    struct kit *kit = *state;

    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE), 0);
    fixture_shape(&kit->map, 5000);
    fixture_set(&kit->map, BASE + 4000, 1);
    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE + 4000), 0);
}

/* Its writer knows nothing of it, so the old one does not say so. */
static void leases_map_that_is_removed_is_noticed_within_a_second(void **state)
{
    struct kit *kit = *state;

    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE), 0);
    assert_int_equal(unlink(kit->map.path), 0);
    leases_refresh(&kit->leases, 3000);
    assert_int_equal(find(kit, BASE), 0); /* as good as before */
    map_writer_free(kit->map.writer, true);
    fixture_start(&kit->map);
    fixture_shape(&kit->map, 10);
    fixture_set(&kit->map, BASE + 5, 1);
    leases_refresh(&kit->leases, 3999);
    assert_int_equal(find(kit, BASE + 5), LEASES_NONE);
    leases_refresh(&kit->leases, 4000);
    assert_int_equal(find(kit, BASE + 5), 0);
    assert_int_equal(find(kit, BASE), LEASES_NONE);
}

static void leases_map_that_can_not_be_believed_is_none(void **state)
{
    struct kit *kit = *state;

    assert_int_equal(chmod(kit->map.path, 0666), 0);
    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE), LEASES_AWAY);
    assert_non_null(kit->leases.fault);
    assert_int_equal(chmod(kit->map.path, 0644), 0);
    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE), 0);
    assert_null(kit->leases.fault);
    assert_int_equal(chown(kit->map.path, 65534, 0), 0);
    fixture_shape(&kit->map, 2000);
    assert_int_equal(chown(kit->map.path, 65534, 0), 0);
    leases_refresh(&kit->leases, 1000);
    assert_int_equal(find(kit, BASE), LEASES_AWAY);
}

static void leases_walk_meets_each_once_in_bounded_steps(void **state)
{
    static const uint32_t expected[] = {BASE, BASE + 1, BASE + 900};
    struct kit *kit = *state;
    struct map_entry entry;
    uint32_t uid = 0, n = 0;
    int r, steps = 0;

    leases_refresh(&kit->leases, 1000);
    while ((r = leases_next(&kit->leases, &uid, MAP_WANT_RECORD, &entry)) != LEASES_NONE) {
        steps++;
        if (r == LEASES_MORE)
            continue;
        assert_int_equal(r, 0);
        assert_true(n < 3);
        assert_int_equal(entry.record.uid, expected[n++]);
    }
    assert_int_equal(n, 3);
    /* Of a thousand uids a few hundred are looked at in each. */
    assert_in_range(steps, 5, 10);
    assert_int_equal(leases_next(&kit->leases, &uid, MAP_WANT_RECORD, &entry), LEASES_NONE);
    uid = UINT32_MAX;
    assert_int_equal(leases_next(&kit->leases, &uid, MAP_WANT_RECORD, &entry), LEASES_NONE);
}

/* Pages of the map that this process has in its tables. */
static unsigned long resident_kib(const struct map *map)
{
    unsigned long first, kib = 0, value;
    FILE *file = fopen("/proc/self/smaps", "re");
    bool in_it = false;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-%*x %*4s", &first) == 1 && strchr(line, '-') && line[0] != 'R')
            in_it = first == (unsigned long)map->base;
        if (in_it && sscanf(line, "Rss: %lu kB", &value) == 1)
            kib = value;
    }
    (void)fclose(file);
    return kib;
}

static void leases_keep_little_of_a_large_map_in_memory(void **state)
{
    struct kit *kit = *state;
    struct map_entry entry;
    uint32_t uid = 0;
    unsigned long most = 0;

    fixture_shape(&kit->map, 65536);
    for (uint32_t i = 0; i < 65536; i++)
        fixture_set(&kit->map, BASE + i, 50);
    leases_refresh(&kit->leases, 1000);
    for (uint32_t i = 0; i < 65536; i++) {
        assert_int_equal(leases_by_uid(&kit->leases, BASE + i * 997 % 65536, MAP_WANT_PAIR, &entry),
                         0);
        if (i % 1000 == 0 && resident_kib(&kit->leases.map) > most)
            most = resident_kib(&kit->leases.map);
    }
    assert_in_range(most, 1, 3000);
    while (leases_next(&kit->leases, &uid, MAP_WANT_PAIR, &entry) == 0)
        if (uid % 1000 == 0)
            assert_in_range(resident_kib(&kit->leases.map), 1, 3000);
}

int main(void)
{
#define LEASES_TEST(fn) cmocka_unit_test_setup_teardown(fn, kit_setup, kit_teardown)
    const struct CMUnitTest tests[] = {
        LEASES_TEST(leases_map_that_comes_late_is_found_at_once),
        LEASES_TEST(leases_map_that_is_replaced_is_found_at_once),
        LEASES_TEST(leases_map_that_is_removed_is_noticed_within_a_second),
        LEASES_TEST(leases_map_that_can_not_be_believed_is_none),
        LEASES_TEST(leases_walk_meets_each_once_in_bounded_steps),
        LEASES_TEST(leases_keep_little_of_a_large_map_in_memory),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
