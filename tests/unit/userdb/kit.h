/* A map of three leases, and the conversation of one client about it. Needs root, as the map must be root's. */
#ifndef XCE_TESTS_UNIT_USERDB_KIT_H
#define XCE_TESTS_UNIT_USERDB_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/map_fixture.h"
#include "userdb/session.h"

#define BASE FIXTURE_BASE

struct kit {
    struct map_fixture map;
    struct leases leases;
    struct answers answers;
    struct session session;
    char text[1 << 20]; /* of the last replies */
};

static int kit_setup(void **state)
{
    static const uint32_t gids[] = {4001, BASE + 1, 4002};
    struct kit *kit = calloc(1, sizeof(*kit));
    struct map_lease lease = fixture_lease(BASE, 1);

    fixture_begin(&kit->map);
    fixture_start(&kit->map);
    fixture_shape(&kit->map, 1000);
    lease.gids = gids;
    lease.n_gids = 3;
    assert_int_equal(map_writer_set(kit->map.writer, &lease), 0);
    lease = fixture_lease(BASE + 1, 33);
    lease.gecos = lease.home = lease.shell = "";
    lease.state = XCE_MAP_COOLING;
    assert_int_equal(map_writer_set(kit->map.writer, &lease), 0);
    fixture_set(&kit->map, BASE + 900, 2);
    kit->leases.path = kit->map.path;
    kit->answers.leases = &kit->leases;
    session_init(&kit->session);
    *state = kit;
    return 0;
}

static int kit_teardown(void **state)
{
    struct kit *kit = *state;

    session_done(&kit->session);
    leases_done(&kit->leases);
    fixture_end(&kit->map);
    free(kit);
    return 0;
}

/* Everything that there is to be sent, as text: a line for each reply. */
static inline const char *kit_replies(struct kit *kit)
{
    size_t len = 0;

    leases_refresh(&kit->leases, 1);
    for (int r = 1; r > 0 || kit->session.out.len > 0;) {
        size_t n = kit->session.out.len;

        assert_true(len + n < sizeof(kit->text));
        memcpy(kit->text + len, n ? kit->session.out.data : "", n);
        len += n;
        if (n)
            session_sent(&kit->session, n);
        r = session_work(&kit->session, &kit->answers);
        assert_true(r >= 0);
    }
    kit->text[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (kit->text[i] == '\0')
            kit->text[i] = i + 1 < len ? '\n' : '\0';
    return kit->text;
}

/* The replies to one call, given with ' for each ". */
static inline const char *kit_ask(struct kit *kit, const char *call)
{
    char text[1024];
    size_t len = strlen(call);

    assert_true(len < sizeof(text));
    for (size_t i = 0; i <= len; i++)
        text[i] = call[i] == '\'' ? '"' : call[i];
    assert_int_equal(session_feed(&kit->session, text, len + 1), 0);
    return kit_replies(kit);
}

/* The same text, with ' for each ". */
static inline void kit_expect(struct kit *kit, const char *call, const char *expected)
{
    char text[4096];
    size_t len = strlen(expected);
    const char *got = kit_ask(kit, call);

    assert_true(len < sizeof(text));
    for (size_t i = 0; i <= len; i++)
        text[i] = expected[i] == '\'' ? '"' : expected[i];
    if (strcmp(got, text) != 0)
        fail_msg("%s\n   gives %s\ninstead of %s", call, got, text);
}

#endif
