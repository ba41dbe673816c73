/* Calls of libxce against a server that answers, does not, or dies: what is sent again, under which id, for how long. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "common/clock.h"
#include "common/mem.h"
#include "tests/lib/tmp.h"
#include "tests/unit/client/kit.h"
#include "xce/client.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"

/* How much later than it should a thing may happen on a loaded machine. */
#define SLACK_MS 20000 /* what a machine may stand still that is busy with others */

static int get(struct fixture *f, struct xce_lease **ret)
{
    struct xce_key key = {.kind = XCE_BY_UID, .uid = 2013265920};

    return xce_lease_get(f->client, NULL, &key, ret);
}

static int acquire(struct fixture *f, const struct xce_call *call, struct xce_leases **ret)
{
    struct xce_spec spec = {.job = "j1", .ttl_ms = 60000};
    struct xce_acquire wanted = {.specs = &spec, .n_specs = 1};

    return xce_lease_acquire(f->client, call, &wanted, ret);
}

/* ---- answers ---- */

static void call_an_answer_is_unpacked(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    struct xce_lease *lease;

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(get(f, &lease), XCE_OK);
    assert_int_equal(lease->lease, 7);
    assert_int_equal(lease->uid, 2013265920);
    assert_string_equal(lease->name, "xce-1w00000-3");
    assert_string_equal(lease->owner.name, "alice");
    assert_int_equal(lease->state, XCE_ACTIVE);
    assert_string_equal(lease->job, "");
    assert_int_equal(lease->n_members, 0);
    /* It does not depend on the client. */
    xce_client_free(f->client);
    f->client = NULL;
    assert_string_equal(lease->name, "xce-1w00000-3");
    xce_free(lease);
}

static void call_broken_answers_are_failures_that_say_so(void **state)
{
    static const uint8_t rubbish[] = {0xff, 0xff, 0xff, 0xff}, nothing[1];
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER), kit_rule(f, "Get", FAKE_TWICE),
                                kit_rule(f, "Get", FAKE_EMPTY), kit_rule(f, "Get", FAKE_ANSWER)};
    static const char *const says[] = {"the server's answer: ", "twice", "empty", "holds no lease"};
    struct xce_lease *lease;

    for (size_t i = 0; i < 4; i++)
        rules[i].times = 1;
    rules[0].reply = rubbish;
    rules[0].reply_len = sizeof rubbish;
    rules[3].reply = nothing;
    rules[3].reply_len = 0;
    f->server = fake_start(f->path, rules, 4);
    kit_client(f, f->address, 5000, 5000);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(get(f, &lease), XCE_FAILED);
        if (!strstr(xce_client_message(f->client), says[i]))
            fail_msg("said: %s", xce_client_message(f->client));
    }
}

static void call_each_status_has_its_code(void **state)
{
    static const struct {
        enum grpc_status status;
        int code;
    } cases[] = {
        {GRPC_CANCELLED, XCE_FAILED},
        {GRPC_UNKNOWN, XCE_FAILED},
        {GRPC_INVALID_ARGUMENT, XCE_INVALID},
        {GRPC_NOT_FOUND, XCE_NOT_FOUND},
        {GRPC_ALREADY_EXISTS, XCE_EXISTS},
        {GRPC_PERMISSION_DENIED, XCE_NOT_FOUND},
        {GRPC_RESOURCE_EXHAUSTED, XCE_EXHAUSTED},
        {GRPC_FAILED_PRECONDITION, XCE_PRECONDITION},
        {GRPC_ABORTED, XCE_PRECONDITION},
        {GRPC_OUT_OF_RANGE, XCE_INVALID},
        {GRPC_UNIMPLEMENTED, XCE_UNSUPPORTED},
        {GRPC_INTERNAL, XCE_FAILED},
        {GRPC_DATA_LOSS, XCE_FAILED},
        {GRPC_UNAUTHENTICATED, XCE_NOT_FOUND},
    };
    enum { N = sizeof cases / sizeof cases[0] };
    struct fixture *f = *state;
    struct fake_rule rules[N];
    struct xce_lease *lease;

    for (size_t i = 0; i < N; i++)
        rules[i] = (struct fake_rule){.method = "Get",
                                      .deed = FAKE_STATUS,
                                      .times = 1,
                                      .status = cases[i].status,
                                      .message = "because \x1b[31m"};
    f->server = fake_start(f->path, rules, N);
    kit_client(f, f->address, 5000, 5000);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(get(f, &lease), cases[i].code);
        assert_string_equal(xce_client_message(f->client), "because \\x1b[31m");
    }
}

static void call_a_stale_read_says_so(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    struct xce_key key = {.kind = XCE_BY_UID, .uid = 2013265920};
    struct xce_call call = {.stale = true};
    struct fake_call seen[2];
    struct xce_lease *lease;

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(xce_lease_get(f->client, i ? &call : NULL, &key, &lease), XCE_OK);
        xce_free(lease);
    }
    assert_int_equal(fake_calls(f->server, seen, 2), 2);
    for (size_t i = 0; i < 2; i++) {
        Xce__V1__LeaseKey *request = xce__v1__lease_key__unpack(NULL, seen[i].request_len,
                                                                seen[i].request);

        assert_non_null(request);
        assert_int_equal(request->stale, i);
        xce__v1__lease_key__free_unpacked(request, NULL);
    }
}

static void call_what_can_not_be_stale_is_refused_here(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Acquire", FAKE_ANSWER)};
    struct xce_call call = {.stale = true};
    struct xce_cluster *cluster;
    struct xce_leases *leases;
    struct fake_call seen[1];

    f->server = fake_start(f->path, rules, 1);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(acquire(f, &call, &leases), XCE_INVALID);
    assert_int_equal(xce_cluster_status(f->client, &call, &cluster), XCE_INVALID);
    assert_non_null(strstr(xce_client_message(f->client), "stale"));
    assert_int_equal(fake_calls(f->server, seen, 1), 0);
}

/* ---- again under the same id ---- */

/* The request id of a recorded Acquire. */
static void id_of(const struct fake_call *call, uint8_t id[64], size_t *len, int64_t *issued_ms)
{
    Xce__V1__AcquireRequest *request = xce__v1__acquire_request__unpack(NULL, call->request_len,
                                                                        call->request);

    assert_non_null(request);
    assert_non_null(request->request);
    assert_in_range(request->request->id.len, XCE_REQUEST_ID_MIN, XCE_REQUEST_ID_MAX);
    memcpy(id, request->request->id.data, request->request->id.len);
    *len = request->request->id.len;
    *issued_ms = request->request->issued_at_ms;
    xce__v1__acquire_request__free_unpacked(request, NULL);
}

/* All recorded Acquires bear one id and one time. Their number. */
static size_t one_id(struct fake_server *server, int64_t issued_ms)
{
    static struct fake_call calls[FAKE_CALLS_MAX];
    size_t n = fake_calls(server, calls, FAKE_CALLS_MAX), found = 0, first_len = 0, len;
    uint8_t first[64], id[64];
    int64_t issued;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(calls[i].method, "Acquire") != 0)
            continue;
        id_of(&calls[i], id, &len, &issued);
        assert_int_equal(issued, issued_ms);
        if (!found++) {
            memcpy(first, id, len);
            first_len = len;
        }
        assert_int_equal(len, first_len);
        assert_memory_equal(id, first, len);
    }
    return found;
}

static void call_unavailable_is_repeated_under_the_same_id(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_STATUS),
                                kit_rule(f, "Acquire", FAKE_ANSWER)};
    struct xce_leases *leases;

    rules[1].times = 3;
    rules[1].status = GRPC_UNAVAILABLE;
    rules[1].message = "there is no leader";
    f->server = fake_start(f->path, rules, 3);
    kit_client(f, f->address, 10000, 10000);
    assert_int_equal(acquire(f, NULL, &leases), XCE_OK);
    assert_int_equal(leases->n, 1);
    assert_int_equal(leases->revision, 99);
    xce_free(leases);
    /* The time came from the check that was made first. */
    assert_int_equal(one_id(f->server, 4000), 4);
}

static void call_a_server_that_dies_in_it_is_asked_again(void **state)
{
    struct fixture *f = *state;
    struct fake_rule dies[] = {kit_rule(f, "Check", FAKE_ANSWER), kit_rule(f, "Acquire", FAKE_DIE)};
    struct fake_rule answers[] = {kit_rule(f, "Acquire", FAKE_ANSWER)};
    struct xce_request before, request;
    struct xce_leases *leases;
    struct xce_call call = {.timeout_ms = 1000, .request = &before};

    f->server = fake_start(f->path, dies, 2);
    kit_client(f, f->address, 1000, 500);
    assert_int_equal(xce_request_new(f->client, NULL, &before), XCE_OK);
    assert_int_equal(before.issued_ms, 4000);
    assert_int_equal(acquire(f, &call, &leases), XCE_UNREACHABLE);
    assert_true(fake_dead(f->server));
    /* It may have been done: the id is there to repeat it. */
    xce_client_request(f->client, &request);
    assert_int_equal(request.id_len, before.id_len);
    assert_memory_equal(request.id, before.id, before.id_len);
    fake_stop(f->server);
    f->server = fake_start(f->path, answers, 1);
    assert_int_equal(acquire(f, &call, &leases), XCE_OK);
    xce_free(leases);
    assert_int_equal(one_id(f->server, 4000), 1);
}

struct reviver {
    struct fixture *f;
    const struct fake_rule *rules;
};

/* Waits for the death, then is the successor. */
static void *revive(void *arg)
{
    struct reviver *reviver = arg;
    struct fixture *f = reviver->f;

    while (!fake_dead(f->server))
        usleep(1000);
    fake_stop(f->server);
    f->server = fake_start(f->path, reviver->rules, 1);
    return NULL;
}

static void call_goes_on_with_the_successor(void **state)
{
    struct fixture *f = *state;
    struct fake_rule dies[] = {kit_rule(f, "Check", FAKE_ANSWER), kit_rule(f, "Acquire", FAKE_DIE)};
    struct fake_rule answers[] = {kit_rule(f, "Acquire", FAKE_ANSWER)};
    struct reviver reviver = {f, answers};
    struct xce_leases *leases;
    pthread_t thread;

    f->server = fake_start(f->path, dies, 2);
    kit_client(f, f->address, 20000, 20000);
    assert_int_equal(pthread_create(&thread, NULL, revive, &reviver), 0);
    assert_int_equal(acquire(f, NULL, &leases), XCE_OK);
    xce_free(leases);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(one_id(f->server, 4000), 1);
}

static void call_a_definite_answer_is_not_repeated(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_STATUS)};
    struct xce_leases *leases;

    rules[1].status = GRPC_RESOURCE_EXHAUSTED;
    rules[1].message = "no free uid: 3 active";
    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(acquire(f, NULL, &leases), XCE_EXHAUSTED);
    assert_string_equal(xce_client_message(f->client), "no free uid: 3 active");
    assert_int_equal(one_id(f->server, 4000), 1);
}

static void call_time_is_asked_for_once(void **state)
{
    static struct fake_call calls[FAKE_CALLS_MAX];
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_ANSWER)};
    struct xce_leases *leases;

    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(acquire(f, NULL, &leases), XCE_OK);
        xce_free(leases);
    }
    assert_int_equal(fake_calls(f->server, calls, FAKE_CALLS_MAX), 4);
    assert_string_equal(calls[0].method, "Check");
    assert_string_equal(calls[1].method, "Acquire");
    assert_string_equal(calls[3].method, "Acquire");
}

/* What comes after a server was lost may be a restored backup, to which its time is the future. */
static void call_time_is_asked_for_again_when_the_server_was_lost(void **state)
{
    struct fixture *f = *state;
    struct fake_rule dies[] = {kit_rule(f, "Check", FAKE_ANSWER),
                               kit_rule(f, "Acquire", FAKE_ANSWER), kit_rule(f, "Get", FAKE_DIE)};
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_ANSWER)};
    struct xce_request request;
    struct xce_leases *leases;
    struct xce_lease *lease;

    f->server = fake_start(f->path, dies, 3);
    kit_client(f, f->address, 5000, 300);
    assert_int_equal(acquire(f, NULL, &leases), XCE_OK);
    xce_free(leases);
    assert_int_equal(xce_request_new(f->client, NULL, &request), XCE_OK);
    assert_int_equal(request.issued_ms, 5000);
    assert_int_equal(get(f, &lease), XCE_UNREACHABLE);
    fake_stop(f->server);
    f->server = fake_start(f->path, rules, 2);
    assert_int_equal(acquire(f, NULL, &leases), XCE_OK);
    xce_free(leases);
    assert_int_equal(one_id(f->server, KIT_CHECKED_MS), 1);
}

/* At high rates answers are kept for seconds: an older time might be too old for a request that nobody has seen. */
static void call_time_is_asked_for_again_when_it_is_old(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_ANSWER)};
    struct xce_request request;
    struct xce_leases *leases;

    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 300);
    assert_int_equal(acquire(f, NULL, &leases), XCE_OK);
    xce_free(leases);
    assert_int_equal(xce_request_new(f->client, NULL, &request), XCE_OK);
    assert_int_equal(request.issued_ms, 5000);
    f->client->cluster_seen_ms -= 2500; /* it has been idle */
    assert_int_equal(xce_request_new(f->client, NULL, &request), XCE_OK);
    assert_int_equal(request.issued_ms, KIT_CHECKED_MS);
}

/* Nor does what nobody has confirmed tell the time. */
static void call_that_is_stale_tells_no_time(void **state)
{
    struct fixture *f = *state;
    Xce__V1__ListLeasesReply reply = XCE__V1__LIST_LEASES_REPLY__INIT;
    struct fake_rule rules[] = {kit_rule(f, "List", FAKE_ANSWER),
                                kit_rule(f, "Check", FAKE_ANSWER)};
    struct xce_call call = {.stale = true};
    struct xce_lease_filter filter = {0};
    struct xce_request request;
    struct xce_leases *leases;
    uint8_t bytes[64];

    reply.now_ms = 1000;
    reply.stale = true;
    rules[0].times = 1;
    rules[0].reply = bytes;
    rules[0].reply_len = xce__v1__list_leases_reply__pack(&reply, bytes);
    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(xce_lease_list(f->client, &call, &filter, &leases), XCE_OK);
    xce_free(leases);
    assert_int_equal(xce_request_new(f->client, NULL, &request), XCE_OK);
    assert_int_equal(request.issued_ms, KIT_CHECKED_MS);
}

static void call_bad_request_ids_are_refused_here(void **state)
{
    struct fixture *f = *state;
    struct xce_request request = {.id_len = 15};
    struct xce_call call = {.request = &request};
    struct xce_leases *leases;

    kit_client(f, f->address, 5000, 5000);
    assert_int_equal(acquire(f, &call, &leases), XCE_INVALID);
    assert_non_null(strstr(xce_client_message(f->client), "16 to 64 bytes, not 15"));
    request.id_len = 65;
    assert_int_equal(acquire(f, &call, &leases), XCE_INVALID);
}

/* ---- giving up ---- */

static bool at_the_third(void *arg)
{
    return ++*(int *)arg == 3;
}

static void call_that_is_given_up_ends_at_once(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_HANG)};
    int asked = 0;
    struct xce_request made, request;
    struct xce_call call = {.request = &made, .give_up = at_the_third, .give_up_arg = &asked};
    struct xce_leases *leases;
    int64_t began_ms;

    f->server = fake_start(f->path, rules, 2);
    kit_client(f, f->address, 20000, 20000);
    assert_int_equal(xce_request_new(f->client, NULL, &made), XCE_OK);
    began_ms = clock_mono_ms();
    assert_int_equal(acquire(f, &call, &leases), XCE_CANCELLED);
    assert_true(clock_mono_ms() - began_ms < 15000);
    assert_int_equal(asked, 3);
    xce_client_request(f->client, &request);
    assert_int_equal(request.id_len, 16);
}

/* ---- deadlines ---- */

static void call_a_silent_server_ends_at_the_deadline(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Check", FAKE_ANSWER),
                                kit_rule(f, "Acquire", FAKE_HANG), kit_rule(f, "Get", FAKE_HANG)};
    struct xce_request request;
    struct xce_leases *leases;
    struct xce_lease *lease;
    int64_t began_ms;

    f->server = fake_start(f->path, rules, 3);
    kit_client(f, f->address, 2000, 60000);
    began_ms = clock_mono_ms();
    assert_int_equal(get(f, &lease), XCE_TIMEOUT);
    assert_in_range(clock_mono_ms() - began_ms, 1995, 2000 + SLACK_MS);
    began_ms = clock_mono_ms();
    assert_int_equal(acquire(f, NULL, &leases), XCE_TIMEOUT);
    assert_in_range(clock_mono_ms() - began_ms, 1995, 2000 + SLACK_MS);
    xce_client_request(f->client, &request);
    assert_int_equal(request.id_len, 16);
    assert_int_equal(request.issued_ms, 4000);
}

static void call_no_server_ends_when_patience_does(void **state)
{
    struct fixture *f = *state;
    struct xce_request request;
    struct xce_leases *leases;
    struct xce_lease *lease;
    const char *said;
    int64_t began_ms;

    kit_client(f, f->address, 60000, 300);
    began_ms = clock_mono_ms();
    assert_int_equal(get(f, &lease), XCE_UNREACHABLE);
    assert_in_range(clock_mono_ms() - began_ms, 250, 300 + 1000 + SLACK_MS);
    said = strstr(xce_client_message(f->client), f->address);
    assert_non_null(said);
    assert_null(strstr(said + 1, f->address)); /* once is enough */
    /* A deadline before that counts, too; and nothing was sent. */
    xce_client_free(f->client);
    kit_client(f, f->address, 2000, 60000);
    began_ms = clock_mono_ms();
    assert_int_equal(acquire(f, NULL, &leases), XCE_UNREACHABLE);
    assert_in_range(clock_mono_ms() - began_ms, 1995, 2000 + SLACK_MS);
    xce_client_request(f->client, &request);
    assert_int_equal(request.id_len, 0);
}

/* Listens and never accepts: what a stopped leased looks like. */
static int deaf_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void call_a_stopped_server_ends_at_the_deadline(void **state)
{
    struct fixture *f = *state;
    struct xce_lease *lease;
    int64_t began_ms;
    int fd = deaf_socket(f->path);

    kit_client(f, f->address, 300, 60000);
    began_ms = clock_mono_ms();
    assert_int_equal(get(f, &lease), XCE_TIMEOUT);
    assert_in_range(clock_mono_ms() - began_ms, 295, 300 + SLACK_MS);
    close(fd);
}

static void call_another_server_is_asked(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    char addresses[400];
    struct xce_lease *lease;
    int64_t began_ms;

    f->server = fake_start(f->path, rules, 1);
    snprintf(addresses, sizeof addresses, "unix:/nonexistent/sock,%s", f->address);
    kit_client(f, addresses, 60000, 60000);
    began_ms = clock_mono_ms();
    assert_int_equal(get(f, &lease), XCE_OK);
    xce_free(lease);
    assert_true(clock_mono_ms() - began_ms < 100 + SLACK_MS);
}

static void call_a_silent_server_is_left_for_another(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    const char *deaf = tmp_path(tmp_dir(), "deaf");
    char addresses[400];
    struct xce_lease *lease;
    int fd = deaf_socket(deaf);

    f->server = fake_start(f->path, rules, 1);
    snprintf(addresses, sizeof addresses, "unix:%s,%s", deaf, f->address);
    kit_client(f, addresses, 8000, 8000);
    assert_int_equal(get(f, &lease), XCE_OK);
    xce_free(lease);
    close(fd);
}

/* Two servers: the fixture's, of those rules, and another behind it that answers Get. */
static struct fake_server *two_servers(struct fixture *f, const struct fake_rule *rules, size_t n)
{
    struct fake_rule answers[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    const char *path = tmp_path(tmp_dir(), "second.sock");
    char addresses[400];

    f->server = fake_start(f->path, rules, n);
    snprintf(addresses, sizeof addresses, "%s,unix:%s", f->address, path);
    kit_client(f, addresses, 20000, 20000);
    return fake_start(path, answers, 1);
}

static void call_a_server_that_soon_has_a_leader_is_not_left(void **state)
{
    static struct fake_call calls[FAKE_CALLS_MAX];
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_STATUS), kit_rule(f, "Get", FAKE_ANSWER)};
    struct fake_server *second;
    struct xce_lease *lease;
    int64_t began_ms;

    rules[0].times = 4;
    rules[0].status = GRPC_UNAVAILABLE;
    rules[0].message = "there is no leader";
    second = two_servers(f, rules, 2);
    began_ms = clock_mono_ms();
    assert_int_equal(get(f, &lease), XCE_OK);
    xce_free(lease);
    /* Where the machine stood still for longer than a client stays it was right to leave. */
    if (clock_mono_ms() - began_ms < 900) {
        assert_int_equal(fake_calls(f->server, calls, FAKE_CALLS_MAX), 5);
        assert_int_equal(fake_calls(second, calls, FAKE_CALLS_MAX), 0);
    }
    fake_stop(second);
}

static void call_a_server_that_stays_without_a_leader_is_left(void **state)
{
    static struct fake_call calls[FAKE_CALLS_MAX];
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_STATUS)};
    struct fake_server *second;
    struct xce_lease *lease;
    int64_t began_ms;

    rules[0].status = GRPC_UNAVAILABLE;
    rules[0].message = "there is no leader";
    second = two_servers(f, rules, 1);
    began_ms = clock_mono_ms();
    assert_int_equal(get(f, &lease), XCE_OK);
    xce_free(lease);
    assert_in_range(clock_mono_ms() - began_ms, 900, 1100 + SLACK_MS);
    assert_int_equal(fake_calls(second, calls, FAKE_CALLS_MAX), 1);
    fake_stop(second);
}

/* Says hello, and never a word again: a machine without power, or behind a cut. */
static void *fall_silent(void *arg)
{
    static const uint8_t settings[9] = {[3] = 4};
    int fd = accept(*(const int *)arg, NULL, NULL);

    assert(fd >= 0 && write(fd, settings, sizeof settings) == sizeof settings);
    return (void *)(intptr_t)fd;
}

static void call_a_server_that_falls_silent_is_left(void **state)
{
    struct fixture *f = *state;
    struct fake_rule rules[] = {kit_rule(f, "Get", FAKE_ANSWER)};
    const char *path = tmp_path(tmp_dir(), "silent");
    int fd = deaf_socket(path);
    struct xce_lease *lease;
    char addresses[400];
    int64_t began_ms;
    pthread_t thread;
    void *accepted;

    f->server = fake_start(f->path, rules, 1);
    snprintf(addresses, sizeof addresses, "unix:%s,%s", path, f->address);
    kit_client(f, addresses, 60000, 60000);
    assert_int_equal(pthread_create(&thread, NULL, fall_silent, &fd), 0);
    began_ms = clock_mono_ms();
    assert_int_equal(get(f, &lease), XCE_OK);
    xce_free(lease);
    assert_true(clock_mono_ms() - began_ms < 2000 + 2 * SLACK_MS);
    assert_int_equal(pthread_join(thread, &accepted), 0);
    close((int)(intptr_t)accepted);
    close(fd);
}

/* ---- the client ---- */

static void call_client_options_are_checked(void **state)
{
    static const struct {
        struct xce_client_options options;
        const char *says;
    } cases[] = {
        {{.server = "tcp:localhost:1"}, "tcp:localhost:1: a server is written unix:"},
        {{.server = "unix:x"}, "unix:x: the path of a socket begins"},
        {{.server = "ctl1:7623"}, "a server over TCP needs a certificate: client.Certificate"},
        {{.server = "unix:/a, http://b"}, "http://b: a server is written unix:"},
        {{.conf = "/nonexistent/client.conf"}, "/nonexistent/client.conf"},
    };
    char why[XCE_MESSAGE_MAX];
    struct xce_client *client;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(xce_client_new(&cases[i].options, &client, why), XCE_INVALID);
        if (!strstr(why, cases[i].says))
            fail_msg("said: %s", why);
    }
    xce_client_free(NULL);
    xce_free(NULL);
}

static void call_server_comes_from_option_environment_file(void **state)
{
    const char *conf = tmp_write(tmp_dir(), "client.conf",
                                 "[client]\nServer = unix:/of/file\nTimeout = 7s\n");
    struct xce_client_options options = {.conf = conf};
    struct xce_client *client;

    (void)state;
    unsetenv("XCE_SERVER");
    assert_int_equal(xce_client_new(&options, &client, NULL), XCE_OK);
    assert_string_equal(xce_client_servers(client), "unix:/of/file");
    xce_client_free(client);
    setenv("XCE_SERVER", "unix:/of/environment,unix:/second", 1);
    assert_int_equal(xce_client_new(&options, &client, NULL), XCE_OK);
    assert_string_equal(xce_client_servers(client), "unix:/of/environment,unix:/second");
    xce_client_free(client);
    options.server = "unix:/of/option";
    assert_int_equal(xce_client_new(&options, &client, NULL), XCE_OK);
    assert_string_equal(xce_client_servers(client), "unix:/of/option");
    xce_client_free(client);
    unsetenv("XCE_SERVER");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(call_an_answer_is_unpacked),
        TEST(call_broken_answers_are_failures_that_say_so),
        TEST(call_each_status_has_its_code),
        TEST(call_a_stale_read_says_so),
        TEST(call_what_can_not_be_stale_is_refused_here),
        TEST(call_unavailable_is_repeated_under_the_same_id),
        TEST(call_a_server_that_dies_in_it_is_asked_again),
        TEST(call_goes_on_with_the_successor),
        TEST(call_a_definite_answer_is_not_repeated),
        TEST(call_time_is_asked_for_once),
        TEST(call_time_is_asked_for_again_when_the_server_was_lost),
        TEST(call_time_is_asked_for_again_when_it_is_old),
        TEST(call_that_is_stale_tells_no_time),
        TEST(call_bad_request_ids_are_refused_here),
        TEST(call_that_is_given_up_ends_at_once),
        TEST(call_a_silent_server_ends_at_the_deadline),
        TEST(call_no_server_ends_when_patience_does),
        TEST(call_a_stopped_server_ends_at_the_deadline),
        TEST(call_another_server_is_asked),
        TEST(call_a_silent_server_is_left_for_another),
        TEST(call_a_server_that_soon_has_a_leader_is_not_left),
        TEST(call_a_server_that_stays_without_a_leader_is_left),
        TEST(call_a_server_that_falls_silent_is_left),
        TEST(call_client_options_are_checked),
        TEST(call_server_comes_from_option_environment_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
