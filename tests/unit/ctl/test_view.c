/* Leases, pools and nodes as JSON: the schema of docs/cli-json.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "ctl/view.h"

static const struct xce_member members[] = {
    {"n1", XCE_PROOF_CLEAN, "", "", false},
    {"n2", XCE_PROOF_DIRTY, "file", "/tmp/\x1b[31mx", true},
};
static const char *const reasons[] = {"dirty"};
static const uint32_t gids[] = {44, 1000};

static struct xce_lease lease(void)
{
    return (struct xce_lease){
        .lease = UINT64_MAX,
        .uid = 2013265920,
        .gid = 2013265920,
        .epoch = 3,
        .name = "xce-1v00000-3",
        .pool = "main",
        .job = "j \"1\"",
        .owner = {"alice", 1000, 1001},
        .members = members,
        .n_members = 2,
        .state = XCE_DRAINING,
        .quarantined = true,
        .reasons = reasons,
        .n_reasons = 1,
        .gids = gids,
        .n_gids = 2,
        .expires_ms = 1764432300123,
        .ttl_ms = 30000,
        .granted_ms = 1764432270123,
        .changed_ms = 1764432300124,
        .revision = 12,
        .home = "/nonexistent",
        .shell = "/usr/sbin/nologin",
        .end_cause = "expired",
    };
}

static void expect(struct json *value, const char *text)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(65536);

    assert_int_equal(json_print(value, JSON_LINE, &buf), 0);
    assert_string_equal(buf_str(&buf), text);
    json_free(value);
}

static void view_lease_has_the_documented_keys(void **state)
{
    struct xce_lease leased = lease();

    (void)state;
    expect(
        view_lease_json(&leased),
        "{\"lease\": 18446744073709551615, \"uid\": 2013265920, \"gid\": 2013265920, \"epoch\": "
        "3, \"name\": \"xce-1v00000-3\", \"pool\": \"main\", \"job\": \"j \\\"1\\\"\", \"owner\": "
        "{\"name\": \"alice\", \"uid\": 1000, \"gid\": 1001}, \"nodes\": [\"n1\", \"n2\"], "
        "\"members\": [{\"node\": \"n1\", \"proof\": \"clean\", \"reason\": \"\", \"detail\": "
        "\"\", \"released\": false}, {\"node\": \"n2\", \"proof\": \"dirty\", \"reason\": "
        "\"file\", \"detail\": \"/tmp/\\u001b[31mx\", \"released\": true}], \"state\": "
        "\"draining\", \"quarantined\": true, \"reasons\": [\"dirty\"], \"write_paths\": [], "
        "\"gids\": [44, 1000], \"expires\": \"2025-11-29T16:05:00.123Z\", \"ttl_ms\": 30000, "
        "\"granted\": \"2025-11-29T16:04:30.123Z\", \"changed\": \"2025-11-29T16:05:00.124Z\", "
        "\"cause\": \"expired\", \"home\": \"/nonexistent\", \"shell\": \"/usr/sbin/nologin\", "
        "\"revision\": 12}");
}

static void view_lease_without_ttl_expires_null(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(65536);
    struct xce_lease leased = lease();
    struct json *value;

    (void)state;
    leased.expires_ms = leased.ttl_ms = 0;
    value = view_lease_json(&leased);
    assert_int_equal(json_print(value, JSON_LINE, &buf), 0);
    assert_non_null(strstr(buf_str(&buf), "\"expires\": null, \"ttl_ms\": 0,"));
    json_free(value);
}

static void view_states_and_proofs_are_lowercase_words(void **state)
{
    (void)state;
    for (int i = XCE_GRANTED; i <= XCE_FREE; i++)
        for (const char *p = xce_lease_state_word(i); *p; p++)
            assert_true(*p >= 'a' && *p <= 'z');
    assert_string_equal(xce_lease_state_word(0), "unknown");
    assert_string_equal(xce_lease_state_word(8), "unknown");
    assert_string_equal(xce_lease_state_word(-1), "unknown");
    assert_string_equal(xce_proof_word(XCE_PROOF_PENDING), "pending");
    assert_string_equal(xce_node_state_word(77), "unknown");
    assert_string_equal(xce_code_name(XCE_UNSUPPORTED), "unimplemented");
    assert_string_equal(xce_code_name(99), "unknown");
}

static void view_pool_has_name_range_and_state(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(65536);
    struct xce_pool pool = {
        .name = "main",
        .range = {2013265920, 2013331455},
        .state = XCE_POOL_OPEN,
        .prefix = "xce-",
        .settings = {.home = "/", .shell = "/bin/sh"},
        .directory_none = true,
    };
    struct json *value = view_pool_json(&pool);

    (void)state;
    assert_int_equal(json_print(value, JSON_LINE, &buf), 0);
    assert_non_null(strstr(
        buf_str(&buf), "{\"name\": \"main\", \"range\": \"2013265920-2013331455\", \"first\": "
                       "2013265920, \"last\": 2013331455, \"size\": 65536, \"state\": \"open\""));
    assert_non_null(strstr(buf_str(&buf), "\"counts\": null"));
    json_free(value);
}

static void view_tables_hold_every_column_of_json(void **state)
{
    static const char *const keys[] = {
        "lease", "uid",   "gid",         "epoch",   "name",        "pool",    "job",     "owner",
        "nodes", "state", "quarantined", "reasons", "write_paths", "expires", "revision"};

    (void)state;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        bool found = false;

        for (size_t i = 0; i < view_leases.n_columns; i++)
            found = found || !strcmp(view_leases.columns[i].name, keys[k]);
        if (!found)
            fail_msg("no column %s", keys[k]);
    }
}

static void cell_is(const struct output_table *table, const char *column, const void *row,
                    const char *text)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(65536);

    for (size_t i = 0; i < table->n_columns; i++) {
        if (strcmp(table->columns[i].name, column) != 0)
            continue;
        table->columns[i].cell(row, &buf);
        assert_string_equal(buf_str(&buf), text);
        return;
    }
    fail_msg("no column %s", column);
}

static void view_cells_of_a_lease(void **state)
{
    struct xce_lease leased = lease();

    (void)state;
    cell_is(&view_leases, "nodes", &leased, "n[1-2]");
    cell_is(&view_leases, "members", &leased, "n1=clean,n2=dirty(file)");
    cell_is(&view_leases, "expires", &leased, "2025-11-29T16:05:00.123Z");
    cell_is(&view_leases, "ttl", &leased, "30s");
    cell_is(&view_leases, "owner", &leased, "alice");
    leased.expires_ms = leased.ttl_ms = 0;
    leased.owner.name = "";
    cell_is(&view_leases, "expires", &leased, "never");
    cell_is(&view_leases, "ttl", &leased, "none");
    cell_is(&view_leases, "owner", &leased, "#1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(view_lease_has_the_documented_keys),
        cmocka_unit_test(view_lease_without_ttl_expires_null),
        cmocka_unit_test(view_states_and_proofs_are_lowercase_words),
        cmocka_unit_test(view_pool_has_name_range_and_state),
        cmocka_unit_test(view_tables_hold_every_column_of_json),
        cmocka_unit_test(view_cells_of_a_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
