/* Calls of libxce from an event loop: only poll(2) on the client's descriptor, and dispatch when it says so. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/mem.h"
#include "tests/lib/tmp.h"
#include "tests/unit/client/kit.h"
#include "xce/v1/lease.pb-c.h"

/* How much later than it should a thing may happen on a loaded machine. */
#define SLACK_MS 20000
#define FAR_MS   60000

/* What became of a call. */
struct told {
    int times, code;
    uint64_t lease;
    char message[XCE_MESSAGE_MAX];
    struct xce_request request;
    void (*also)(struct xce_client *client, void *arg);
    void *arg;
};

static void note(struct xce_client *client, int code, struct told *told)
{
    told->times++;
    told->code = code;
    snprintf(told->message, sizeof told->message, "%s", xce_client_message(client));
    xce_client_request(client, &told->request);
    if (told->also)
        told->also(client, told->arg);
}

static void one_lease(struct xce_client *client, int code, void *result, void *arg)
{
    struct told *told = arg;

    assert_int_equal(code == XCE_OK, result != NULL);
    if (result)
        told->lease = ((struct xce_lease *)result)->lease;
    xce_free(result);
    note(client, code, told);
}

static void many_leases(struct xce_client *client, int code, void *result, void *arg)
{
    struct told *told = arg;
    struct xce_leases *leases = result;

    assert_int_equal(code == XCE_OK, result != NULL);
    if (leases && leases->n)
        told->lease = leases->items[0].lease;
    xce_free(result);
    note(client, code, told);
}

/* All that an event loop does. Whether it became ready in time. */
static bool serve(struct xce_client *client, int64_t until_ms)
{
    struct pollfd p = {.fd = xce_client_fd(client), .events = POLLIN};
    int64_t left = until_ms - clock_mono_ms();

    if (left < 0 || poll(&p, 1, (int)left) <= 0)
        return false;
    return xce_client_dispatch(client) == XCE_OK;
}

static void serve_until(struct xce_client *client, const int *times, int wanted)
{
    int64_t until_ms = clock_mono_ms() + FAR_MS;

    while (*times < wanted)
        if (!serve(client, until_ms))
            fail_msg("told %d times, not %d", *times, wanted);
}

static struct xce_call call_of(struct told *told, xce_done_fn done, struct xce_op **op)
{
    return (struct xce_call){.done = done, .done_arg = told, .op = op};
}

static int get(struct fixture *f, struct told *told, struct xce_op **op)
{
    struct xce_key key = {.kind = XCE_BY_UID, .uid = KIT_UID};
    struct xce_call call = call_of(told, one_lease, op);

    return xce_lease_get(f->client, &call, &key, NULL);
}

static int acquire(struct fixture *f, struct told *told)
{
    struct xce_spec spec = {.job = "j1", .ttl_ms = 60000};
    struct xce_acquire wanted = {.specs = &spec, .n_specs = 1};
    struct xce_call call = call_of(told, many_leases, NULL);

    return xce_lease_acquire(f->client, &call, &wanted, NULL);
}

/* ---- answers ---- */

static void async_an_answer_comes_once_from_dispatch(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    struct told told = {0};

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(get(f, &told, NULL), XCE_OK);
    assert_int_equal(told.times, 0);
    serve_until(f->client, &told.times, 1);
    assert_int_equal(told.code, XCE_OK);
    assert_int_equal(told.lease, KIT_LEASE);
    assert_string_equal(told.message, "");
    /* Idle: nothing to do, and nothing more is told. */
    assert_false(serve(f->client, clock_mono_ms() + 50) && serve(f->client, clock_mono_ms() + 50) &&
                 serve(f->client, clock_mono_ms() + 50));
    assert_int_equal(told.times, 1);
}

static void async_a_grant_asks_for_the_time_first(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_ANSWER)};
    static struct fake_call calls[8];
    Xce__V1__AcquireRequest *request;
    struct told told = {0};

    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(acquire(f, &told), XCE_OK);
    serve_until(f->client, &told.times, 1);
    assert_int_equal(told.code, XCE_OK);
    assert_int_equal(told.lease, KIT_LEASE);
    assert_int_equal(fake_calls(f->server, calls, 8), 2);
    request = xce__v1__acquire_request__unpack(NULL, calls[1].request_len, calls[1].request);
    assert_non_null(request);
    assert_int_equal(request->request->issued_at_ms, KIT_CHECKED_MS);
    assert_int_equal(request->request->id.len, told.request.id_len);
    assert_memory_equal(request->request->id.data, told.request.id, told.request.id_len);
    assert_int_equal(request->n_leases, 1);
    xce__v1__acquire_request__free_unpacked(request, NULL);
}

/* Whoever ends leaves no listener: the next call drops the way to it, and with it those under way. */
static void async_calls_under_way_are_made_again_when_the_server_ends(void **state)
{
    enum { N = 8 };
    struct fixture *f = *state;
    struct fake_rule hangs[] = {kit_rule(f, "Get", FAKE_HANG)};
    struct fake_rule answers[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    const char *path = tmp_path(tmp_dir(), "second.sock");
    struct fake_server *second = fake_start(path, answers, 1);
    static struct told told[N + 1];
    static struct fake_call calls[N];
    int64_t until_ms = clock_mono_ms() + FAR_MS;
    char addresses[400];

    memset(told, 0, sizeof told);
    f->server = fake_start(f->path, hangs, 1);
    snprintf(addresses, sizeof addresses, "%s,unix:%s", f->address, path);
    kit_client(f, addresses, FAR_MS, FAR_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(get(f, &told[i], NULL), XCE_OK);
    while (fake_calls(f->server, calls, N) < N) {
        assert_true(clock_mono_ms() < until_ms);
        (void)serve(f->client, clock_mono_ms() + 20);
    }
    fake_leave(f->server);
    /* Read its GOAWAY. */
    assert_true(serve(f->client, until_ms));
    while (serve(f->client, clock_mono_ms() + 50))
        ;
    assert_int_equal(get(f, &told[N], NULL), XCE_OK);
    for (int i = 0; i <= N; i++) {
        serve_until(f->client, &told[i].times, 1);
        assert_string_equal(told[i].message, "");
        assert_int_equal(told[i].code, XCE_OK);
    }
    assert_true(clock_mono_ms() < until_ms - FAR_MS / 2);
    fake_stop(second);
}

static void async_many_calls_are_under_way_at_once(void **state)
{
    enum { N = 200 };
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    static struct told told[N];
    int64_t until_ms = clock_mono_ms() + FAR_MS;

    memset(told, 0, sizeof told);
    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    for (int i = 0; i < N; i++)
        assert_int_equal(get(f, &told[i], NULL), XCE_OK);
    for (int i = 0; i < N; i++) {
        while (!told[i].times)
            assert_true(serve(f->client, until_ms));
        assert_int_equal(told[i].code, XCE_OK);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(told[i].times, 1);
}

static void async_a_call_that_waits_lets_the_others_go_on(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    struct xce_key key = {.kind = XCE_BY_UID, .uid = KIT_UID};
    struct xce_lease *lease;
    struct told told = {0};

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(get(f, &told, NULL), XCE_OK);
    for (int i = 0; i < 100 && !told.times; i++) {
        assert_int_equal(xce_lease_get(f->client, NULL, &key, &lease), XCE_OK);
        xce_free(lease);
    }
    assert_int_equal(told.times, 1);
}

/* ---- deadlines, and servers that are away ---- */

static void async_the_deadline_is_kept(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Release", FAKE_HANG)};
    struct told told = {0};
    struct xce_call call = call_of(&told, one_lease, NULL);
    int64_t began_ms = clock_mono_ms();

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 60000, 60000);
    call.timeout_ms = 300;
    assert_int_equal(xce_lease_release(f->client, &call, KIT_LEASE, 3, NULL, NULL), XCE_OK);
    serve_until(f->client, &told.times, 1);
    assert_int_equal(told.code, XCE_TIMEOUT);
    assert_in_range(clock_mono_ms() - began_ms, 300, 300 + SLACK_MS);
    /* It may have been done: the id is there to repeat it. */
    assert_int_not_equal(told.request.id_len, 0);
}

static void async_a_change_is_repeated_under_its_own_id(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Renew", FAKE_STATUS),
                                kit_rule(f, "Renew", FAKE_ANSWER)};
    static struct fake_call calls[16];
    struct told told[2] = {0};

    rules[0].times = 3;
    rules[0].status = GRPC_UNAVAILABLE;
    rules[0].message = "there is no leader";
    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    for (int i = 0; i < 2; i++) {
        struct xce_call call = call_of(&told[i], one_lease, NULL);

        assert_int_equal(xce_lease_renew(f->client, &call, KIT_LEASE, 3, 1000, NULL), XCE_OK);
    }
    serve_until(f->client, &told[0].times, 1);
    serve_until(f->client, &told[1].times, 1);
    assert_int_equal(fake_calls(f->server, calls, 16), 5);
    assert_memory_not_equal(told[0].request.id, told[1].request.id, XCE_REQUEST_ID_MIN);
    for (int i = 0; i < 5; i++) {
        Xce__V1__RenewRequest *request = xce__v1__renew_request__unpack(NULL, calls[i].request_len,
                                                                        calls[i].request);

        assert_true(!memcmp(request->request->id.data, told[0].request.id, XCE_REQUEST_ID_MIN) ||
                    !memcmp(request->request->id.data, told[1].request.id, XCE_REQUEST_ID_MIN));
        xce__v1__renew_request__free_unpacked(request, NULL);
    }
}

static void async_no_server_is_told_when_patience_is_over(void **state)
{
    struct fixture *f = *state;
    struct told told = {0};

    kit_client(f, f->address, FAR_MS, 200);
    assert_int_equal(get(f, &told, NULL), XCE_OK);
    serve_until(f->client, &told.times, 1);
    assert_int_equal(told.code, XCE_UNREACHABLE);
    assert_non_null(strstr(told.message, f->path));
}

/* ---- the end of a call, of the client ---- */

static void async_a_cancelled_call_is_not_told(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER),
                                kit_rule(f, "Release", FAKE_ANSWER)};
    struct told cancelled = {0}, told = {0};
    struct xce_call call;
    struct xce_op *op;

    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    call = call_of(&cancelled, one_lease, &op);
    assert_int_equal(xce_lease_release(f->client, &call, KIT_LEASE, 3, NULL, NULL), XCE_OK);
    assert_int_equal(get(f, &told, NULL), XCE_OK);
    xce_op_cancel(op);
    serve_until(f->client, &told.times, 1);
    while (serve(f->client, clock_mono_ms() + 50))
        ;
    assert_int_equal(cancelled.times, 0);
    xce_op_cancel(NULL);
}

static void cancel_other(struct xce_client *client, void *arg)
{
    xce_op_cancel(*(struct xce_op **)arg);
}

static void async_a_callback_may_cancel_another_call(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER), kit_rule(f, "Renew", FAKE_HANG)};
    struct told cancelled = {0};
    struct xce_op *op;
    struct told told = {.also = cancel_other, .arg = &op};
    struct xce_call call = call_of(&cancelled, one_lease, &op);

    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(xce_lease_renew(f->client, &call, KIT_LEASE, 3, 0, NULL), XCE_OK);
    assert_int_equal(get(f, &told, NULL), XCE_OK);
    serve_until(f->client, &told.times, 1);
    xce_client_free(f->client);
    f->client = NULL;
    assert_int_equal(cancelled.times, 0);
}

static void async_calls_under_way_end_with_the_client(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_HANG)};
    struct told told[3] = {0};

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(get(f, &told[i], NULL), XCE_OK);
    assert_int_equal(xce_client_dispatch(f->client), XCE_OK);
    xce_client_free(f->client);
    f->client = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(told[i].times, 1);
        assert_int_equal(told[i].code, XCE_CANCELLED);
    }
}

static void free_it(struct xce_client *client, void *arg)
{
    xce_client_free(client);
}

static void async_a_callback_may_free_the_client(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER), kit_rule(f, "Renew", FAKE_HANG)};
    struct told told = {.also = free_it}, pending = {0};
    struct xce_call call = call_of(&pending, one_lease, NULL);
    int64_t until_ms = clock_mono_ms() + FAR_MS;

    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(xce_lease_renew(f->client, &call, KIT_LEASE, 3, 0, NULL), XCE_OK);
    assert_int_equal(get(f, &told, NULL), XCE_OK);
    while (serve(f->client, until_ms))
        ;
    f->client = NULL;
    assert_int_equal(told.times, 1);
    assert_int_equal(pending.times, 1);
    assert_int_equal(pending.code, XCE_CANCELLED);
}

static void wait_in_it(struct xce_client *client, void *arg)
{
    struct xce_key key = {.kind = XCE_BY_UID, .uid = KIT_UID};
    struct xce_lease *lease;

    assert_int_equal(xce_lease_get(client, NULL, &key, &lease), XCE_INVALID);
    assert_int_equal(xce_client_dispatch(client), XCE_INVALID);
    *(bool *)arg = true;
}

static void async_a_call_that_waits_is_refused_in_a_callback(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    bool tried = false;
    struct told told = {.also = wait_in_it, .arg = &tried};

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(get(f, &told, NULL), XCE_OK);
    serve_until(f->client, &told.times, 1);
    assert_true(tried);
}

static void async_a_request_that_can_not_be_right_does_not_begin(void **state)
{
    struct fixture *f = *state;
    struct told told = {0};
    struct xce_request request = {.id_len = XCE_REQUEST_ID_MIN - 1};
    struct xce_call call = call_of(&told, one_lease, NULL);

    kit_client(f, f->address, 5000, 5000);
    call.request = &request;
    assert_int_equal(xce_lease_renew(f->client, &call, KIT_LEASE, 3, 0, NULL), XCE_INVALID);
    xce_client_free(f->client);
    f->client = NULL;
    assert_int_equal(told.times, 0);
}

static void got_id(struct xce_client *client, int code, void *result, void *arg)
{
    struct told *told = arg;

    assert_int_equal(code, XCE_OK);
    told->request = *(struct xce_request *)result;
    told->times++;
    xce_free(result);
}

static void async_an_id_may_be_made_ahead(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER)};
    struct told told = {0};
    struct xce_call call = call_of(&told, got_id, NULL);

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(xce_request_new(f->client, &call, NULL), XCE_OK);
    assert_int_equal(told.times, 0);
    serve_until(f->client, &told.times, 1);
    assert_int_equal(told.request.issued_ms, KIT_CHECKED_MS);
    assert_in_range(told.request.id_len, XCE_REQUEST_ID_MIN, XCE_REQUEST_ID_MAX);
}

/* ---- watches ---- */

static void async_a_watch_is_read_without_waiting(void **state)
{
    struct fixture *f = *state;
    Xce__V1__WatchEvent synced = XCE__V1__WATCH_EVENT__INIT;
    uint8_t bytes[32];
    struct fake_message message = {bytes, 0};
    struct fake_rule rule = {
        .method = "Watch", .deed = FAKE_STREAM, .messages = &message, .n_messages = 1};
    int64_t until_ms = clock_mono_ms() + FAR_MS, began_ms;
    struct xce_event *event;
    struct xce_watch *watch;
    int code;

    synced.revision = 5;
    synced.event_case = XCE__V1__WATCH_EVENT__EVENT_SYNCED;
    synced.synced = 1;
    message.len = xce__v1__watch_event__pack(&synced, bytes);
    f->server = fake_start(f->path, &rule, 1);
    kit_client(f, f->address, 60000, 60000);
    assert_int_equal(xce_watch_new(f->client, 0, &watch), XCE_OK);
    began_ms = clock_mono_ms();
    code = xce_watch_next(watch, 0, &event); /* a quick server's event may be there already */
    assert_true(clock_mono_ms() - began_ms < SLACK_MS);
    while (code == XCE_TIMEOUT) {
        assert_true(serve(f->client, until_ms));
        code = xce_watch_next(watch, 0, &event);
    }
    assert_int_equal(code, XCE_OK);
    assert_int_equal(event->kind, XCE_EVENT_SYNCED);
    xce_free(event);
    xce_watch_free(watch);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, kit_setup, kit_teardown)
    const struct CMUnitTest tests[] = {
        T(async_an_answer_comes_once_from_dispatch),
        T(async_a_grant_asks_for_the_time_first),
        T(async_calls_under_way_are_made_again_when_the_server_ends),
        T(async_many_calls_are_under_way_at_once),
        T(async_a_call_that_waits_lets_the_others_go_on),
        T(async_the_deadline_is_kept),
        T(async_a_change_is_repeated_under_its_own_id),
        T(async_no_server_is_told_when_patience_is_over),
        T(async_a_cancelled_call_is_not_told),
        T(async_a_callback_may_cancel_another_call),
        T(async_calls_under_way_end_with_the_client),
        T(async_a_callback_may_free_the_client),
        T(async_a_call_that_waits_is_refused_in_a_callback),
        T(async_a_request_that_can_not_be_right_does_not_begin),
        T(async_an_id_may_be_made_ahead),
        T(async_a_watch_is_read_without_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
