/* The stream of changes: order, resumption, lists, and a reader that is slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "tests/lib/tmp.h"
#include "tests/unit/client/fake_server.h"
#include "xce/client.h"
#include "xce/v1/lease.pb-c.h"

enum {
    MESSAGES_MAX = 16,
    PATIENT_MS = 60000,
};

struct fixture {
    const char *path;
    char address[160];
    struct fake_server *server;
    struct xce_client *client;
    struct xce_watch *watch;
    uint8_t bytes[MESSAGES_MAX][256];
    struct fake_message messages[MESSAGES_MAX];
    size_t n_messages;
};

static int setup(void **state)
{
    static struct fixture f;
    struct xce_client_options options = {.timeout_ms = 5000, .patience_ms = 5000};

    f = (struct fixture){.path = tmp_path(tmp_dir(), "leased.sock")};
    snprintf(f.address, sizeof f.address, "unix:%s", f.path);
    options.server = f.address;
    assert_int_equal(xce_client_new(&options, &f.client, NULL), XCE_OK);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    xce_watch_free(f->watch);
    xce_client_free(f->client);
    fake_stop(f->server);
    return 0;
}

/* ---- what the server is to send ---- */

static void add(struct fixture *f, const Xce__V1__WatchEvent *event)
{
    size_t i = f->n_messages++;

    assert_true(i < MESSAGES_MAX);
    assert_true(xce__v1__watch_event__get_packed_size(event) <= sizeof f->bytes[i]);
    f->messages[i].len = xce__v1__watch_event__pack(event, f->bytes[i]);
    f->messages[i].bytes = f->bytes[i];
}

static void add_lease(struct fixture *f, uint64_t revision, uint64_t id, bool listed)
{
    Xce__V1__WatchEvent event = XCE__V1__WATCH_EVENT__INIT;
    Xce__V1__Lease lease = XCE__V1__LEASE__INIT;

    lease.lease = id;
    lease.revision = revision;
    event.revision = revision;
    if (listed) {
        event.event_case = XCE__V1__WATCH_EVENT__EVENT_LISTED;
        event.listed = &lease;
    } else {
        event.event_case = XCE__V1__WATCH_EVENT__EVENT_LEASE;
        event.lease = &lease;
    }
    add(f, &event);
}

static void add_synced(struct fixture *f, uint64_t revision)
{
    Xce__V1__WatchEvent event = XCE__V1__WATCH_EVENT__INIT;

    event.revision = revision;
    event.event_case = XCE__V1__WATCH_EVENT__EVENT_SYNCED;
    event.synced = true;
    add(f, &event);
}

static void add_skipped(struct fixture *f, uint64_t revision)
{
    Xce__V1__WatchEvent event = XCE__V1__WATCH_EVENT__INIT;

    event.revision = revision;
    event.event_case = XCE__V1__WATCH_EVENT__EVENT_SKIPPED_TO;
    event.skipped_to = revision;
    add(f, &event);
}

static struct fake_rule sends(const struct fixture *f, size_t first, size_t n, enum fake_deed deed)
{
    return (struct fake_rule){
        .method = "Watch",
        .deed = deed,
        .times = 1,
        .status = GRPC_UNAVAILABLE,
        .message = "leased is shutting down",
        .messages = f->messages + first,
        .n_messages = n,
    };
}

/* ---- what the reader gets ---- */

static void expect(struct fixture *f, enum xce_event_kind kind, uint64_t revision, uint64_t lease)
{
    struct xce_event *event;

    if (xce_watch_next(f->watch, PATIENT_MS, &event) != XCE_OK)
        fail_msg("no event %d: %s", (int)kind, xce_client_message(f->client));
    assert_int_equal(event->kind, kind);
    assert_int_equal(event->revision, revision);
    if (lease)
        assert_int_equal(event->lease->lease, lease);
    else
        assert_null(event->lease);
    xce_free(event);
}

static uint64_t since_of(struct fake_server *server, size_t call)
{
    static struct fake_call calls[FAKE_CALLS_MAX];
    Xce__V1__WatchRequest *request;
    uint64_t since;

    assert_true(fake_calls(server, calls, FAKE_CALLS_MAX) > call);
    request = xce__v1__watch_request__unpack(NULL, calls[call].request_len, calls[call].request);
    assert_non_null(request);
    since = request->since;
    xce__v1__watch_request__free_unpacked(request, NULL);
    return since;
}

static void watch_events_come_in_order_then_time_out(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[1];
    struct xce_event *event;

    add_lease(f, 11, 1, false);
    add_lease(f, 12, 2, false);
    rules[0] = sends(f, 0, 2, FAKE_STREAM);
    f->server = fake_start(f->path, rules, 1);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    assert_int_equal(xce_watch_revision(f->watch), 10);
    expect(f, XCE_EVENT_LEASE, 11, 1);
    assert_int_equal(xce_watch_revision(f->watch), 11);
    expect(f, XCE_EVENT_LEASE, 12, 2);
    assert_int_equal(xce_watch_next(f->watch, 50, &event), XCE_TIMEOUT);
    assert_int_equal(xce_watch_next(f->watch, 0, &event), XCE_TIMEOUT);
    assert_int_equal(since_of(f->server, 0), 10);
}

static void watch_a_broken_stream_is_resumed_by_revision(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[2];

    add_lease(f, 11, 1, false);
    add_lease(f, 12, 2, false);
    add_lease(f, 13, 1, false);
    rules[0] = sends(f, 0, 2, FAKE_STREAM_END);
    rules[1] = sends(f, 2, 1, FAKE_STREAM);
    f->server = fake_start(f->path, rules, 2);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    expect(f, XCE_EVENT_LEASE, 11, 1);
    expect(f, XCE_EVENT_LEASE, 12, 2);
    expect(f, XCE_EVENT_LEASE, 13, 1);
    assert_int_equal(since_of(f->server, 1), 12);
}

static void watch_a_server_that_comes_back_is_found(void **state)
{
    struct fixture *f = *state;
    struct fake_rule first[1], second[1];

    add_lease(f, 11, 1, false);
    add_lease(f, 12, 2, false);
    first[0] = sends(f, 0, 1, FAKE_STREAM);
    second[0] = sends(f, 1, 1, FAKE_STREAM);
    f->server = fake_start(f->path, first, 1);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    expect(f, XCE_EVENT_LEASE, 11, 1);
    fake_stop(f->server);
    f->server = fake_start(f->path, second, 1);
    expect(f, XCE_EVENT_LEASE, 12, 2);
    assert_int_equal(since_of(f->server, 0), 11);
}

static void watch_a_list_that_breaks_begins_anew(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[2];

    add_lease(f, 3, 1, true);
    add_lease(f, 5, 2, true);
    add_synced(f, 20);
    add_lease(f, 21, 2, false);
    rules[0] = sends(f, 0, 1, FAKE_STREAM_END);
    rules[1] = sends(f, 0, 4, FAKE_STREAM);
    f->server = fake_start(f->path, rules, 2);
    assert_int_equal(xce_watch_new(f->client, 0, &f->watch), XCE_OK);
    expect(f, XCE_EVENT_LISTED, 3, 1);
    expect(f, XCE_EVENT_SKIPPED, 0, 0);
    assert_int_equal(xce_watch_revision(f->watch), 0);
    expect(f, XCE_EVENT_LISTED, 3, 1);
    expect(f, XCE_EVENT_LISTED, 5, 2);
    expect(f, XCE_EVENT_SYNCED, 20, 0);
    assert_int_equal(xce_watch_revision(f->watch), 20);
    expect(f, XCE_EVENT_LEASE, 21, 2);
    assert_int_equal(since_of(f->server, 1), 0);
}

static void watch_what_was_skipped_is_told(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[2];

    add_skipped(f, 400);
    add_lease(f, 7, 1, true);
    add_synced(f, 410);
    add_lease(f, 411, 1, false);
    rules[0] = sends(f, 0, 3, FAKE_STREAM_END);
    rules[1] = sends(f, 3, 1, FAKE_STREAM);
    f->server = fake_start(f->path, rules, 2);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    expect(f, XCE_EVENT_SKIPPED, 400, 0);
    expect(f, XCE_EVENT_LISTED, 7, 1);
    expect(f, XCE_EVENT_SYNCED, 410, 0);
    expect(f, XCE_EVENT_LEASE, 411, 1);
    assert_int_equal(since_of(f->server, 1), 410);
}

static void watch_refusals_end_it(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {{.method = "Watch",
                                 .deed = FAKE_STATUS,
                                 .status = GRPC_PERMISSION_DENIED,
                                 .message = "not permitted"}};
    struct xce_event *event;

    f->server = fake_start(f->path, rules, 1);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    assert_int_equal(xce_watch_next(f->watch, PATIENT_MS, &event), XCE_NOT_FOUND);
    assert_string_equal(xce_client_message(f->client), "not permitted");
    assert_int_equal(xce_watch_next(f->watch, PATIENT_MS, &event), XCE_NOT_FOUND);
}

static void watch_damaged_messages_end_it(void **state)
{
    static const uint8_t rubbish[] = {0x12, 0xff};
    static const struct fake_message message = {rubbish, sizeof rubbish};
    struct fixture *f = *state;
    struct fake_rule rules[] = {
        {.method = "Watch", .deed = FAKE_STREAM, .messages = &message, .n_messages = 1}};
    struct xce_event *event;

    f->server = fake_start(f->path, rules, 1);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    assert_int_equal(xce_watch_next(f->watch, PATIENT_MS, &event), XCE_FAILED);
}

static void watch_no_server_is_unreachable_and_goes_on(void **state)
{
    struct fixture *f = *state;
    struct xce_client_options options = {.server = f->address, .patience_ms = 200};
    struct fake_rule rules[1];
    struct xce_event *event;
    int64_t began_ms;

    xce_client_free(f->client);
    assert_int_equal(xce_client_new(&options, &f->client, NULL), XCE_OK);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    began_ms = clock_mono_ms();
    assert_int_equal(xce_watch_next(f->watch, PATIENT_MS, &event), XCE_UNREACHABLE);
    assert_true(clock_mono_ms() - began_ms < PATIENT_MS / 2);
    assert_non_null(strstr(xce_client_message(f->client), f->path));
    add_lease(f, 11, 1, false);
    rules[0] = sends(f, 0, 1, FAKE_STREAM);
    f->server = fake_start(f->path, rules, 1);
    for (int code = XCE_UNREACHABLE; code == XCE_UNREACHABLE;) {
        code = xce_watch_next(f->watch, PATIENT_MS, &event);
        if (code == XCE_OK)
            xce_free(event);
        else
            assert_int_equal(code, XCE_UNREACHABLE);
    }
}

/* Many megabytes are there to be sent: they wait at the server, not in the client. */
static void watch_a_slow_reader_holds_the_server(void **state)
{
    enum { ALL = 200000 };
    struct fixture *f = *state;
    struct fake_rule rules[1];
    struct xce_event *event;
    size_t held;

    add_lease(f, 11, 1, false);
    rules[0] = sends(f, 0, 1, FAKE_STREAM);
    rules[0].repeat = ALL - 1;
    f->server = fake_start(f->path, rules, 1);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    expect(f, XCE_EVENT_LEASE, 11, 1);
    /* Until nothing more comes in, nothing more is sent. */
    for (held = 0; held != fake_streamed(f->server);) {
        held = fake_streamed(f->server);
        usleep(200000);
    }
    assert_true(held < ALL);
    for (int i = 1; i < ALL; i++) {
        assert_int_equal(xce_watch_next(f->watch, PATIENT_MS, &event), XCE_OK);
        xce_free(event);
    }
    assert_int_equal(fake_streamed(f->server), ALL);
}

static void watch_outlives_its_client(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[1];
    struct xce_event *event;

    add_lease(f, 11, 1, false);
    add_lease(f, 12, 1, false);
    rules[0] = sends(f, 0, 2, FAKE_STREAM);
    f->server = fake_start(f->path, rules, 1);
    assert_int_equal(xce_watch_new(f->client, 10, &f->watch), XCE_OK);
    expect(f, XCE_EVENT_LEASE, 11, 1);
    xce_client_free(f->client);
    f->client = NULL;
    assert_int_equal(xce_watch_next(f->watch, 10, &event), XCE_FAILED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(watch_events_come_in_order_then_time_out),
        TEST(watch_a_broken_stream_is_resumed_by_revision),
        TEST(watch_a_server_that_comes_back_is_found),
        TEST(watch_a_list_that_breaks_begins_anew),
        TEST(watch_what_was_skipped_is_told),
        TEST(watch_refusals_end_it),
        TEST(watch_damaged_messages_end_it),
        TEST(watch_no_server_is_unreachable_and_goes_on),
        TEST(watch_a_slow_reader_holds_the_server),
        TEST(watch_outlives_its_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
