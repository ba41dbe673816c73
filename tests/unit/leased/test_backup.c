/* Copies of the state that are fetched piece by piece: each stays what it was until it has been fetched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leased/fsm/fsm.h"
#include "tests/lib/service_kit.h"
#include "xce/v1/cluster.pb-c.h"

#define PIECE   (1u << 20)
#define KEPT_MS 60000
#define UIDS    32768 /* whose leases make more than one piece */

struct fetch {
    struct service_request request;
    Xce__V1__BackupRequest message;
    bool done;
    int r;
    uint64_t copy, size;
    uint8_t *bytes;
    size_t len;
};

struct fixture {
    struct service_kit kit;
    struct fetch a, b, c;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    service_kit_init(&f->kit, UIDS);
    for (uint32_t i = 0; i < UIDS / FSM_BATCH_MAX; i++) {
        struct kit_call call;

        service_kit_acquire(&f->kit, &call, i + 1, FSM_BATCH_MAX);
        service_kit_settle(&f->kit);
        kit_call_cancel(&call);
        kit_call_done(&call);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    service_kit_done(&f->kit);
    free(f->a.bytes);
    free(f->b.bytes);
    free(f->c.bytes);
    free(f);
    return 0;
}

static void replied(int r, const char *message, const ProtobufCMessage *base, void *arg)
{
    const Xce__V1__BackupReply *reply = (const Xce__V1__BackupReply *)base;
    struct fetch *fetch = arg;

    (void)message;
    fetch->done = true;
    fetch->r = r;
    if (r != 0)
        return;
    fetch->copy = reply->copy;
    fetch->size = reply->size;
    fetch->bytes = realloc(fetch->bytes, reply->size);
    memcpy(fetch->bytes + fetch->len, reply->data.data, reply->data.len);
    fetch->len += reply->data.len;
}

/* The next piece of it; the outcome. */
static int next(struct fixture *f, struct fetch *fetch)
{
    xce__v1__backup_request__init(&fetch->message);
    fetch->message.copy = fetch->copy;
    fetch->message.offset = fetch->len;
    fetch->done = false;
    fetch->request = (struct service_request){
        .scope = SCOPE_ALL, .message = &fetch->message.base, .reply = replied, .reply_arg = fetch};
    principal_from_peer(0, 0, "root", &fetch->request.principal);
    service_handle(f->kit.service, &fetch->request, service_cluster_backup, true);
    service_kit_settle(&f->kit);
    assert_true(fetch->done);
    return fetch->r;
}

static void finish(struct fixture *f, struct fetch *fetch)
{
    while (fetch->len < fetch->size)
        assert_int_equal(next(f, fetch), 0);
}

static void backup_goes_on_when_another_one_begins(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(next(f, &f->a), 0);
    assert_int_equal(f->a.len, PIECE);
    service_kit_settle(&f->kit); /* the state goes on, too */
    assert_int_equal(next(f, &f->b), 0);
    assert_true(f->a.copy != f->b.copy);
    finish(f, &f->a);
    finish(f, &f->b);
    assert_int_equal(f->a.size, f->b.size);
}

static void backup_that_there_is_no_room_for_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(next(f, &f->a), 0);
    assert_int_equal(next(f, &f->b), 0);
    assert_int_equal(next(f, &f->c), FSM_PRECONDITION);
    finish(f, &f->b);
    assert_int_equal(next(f, &f->c), 0);
    finish(f, &f->c);
    finish(f, &f->a);
}

static void backup_that_nobody_fetches_makes_room(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(next(f, &f->a), 0);
    service_kit_elapse(&f->kit, KEPT_MS / 2);
    assert_int_equal(next(f, &f->b), 0);
    service_kit_elapse(&f->kit, KEPT_MS / 2);
    assert_int_equal(next(f, &f->a), FSM_PRECONDITION);
    assert_int_equal(next(f, &f->c), 0);
    finish(f, &f->b);
    finish(f, &f->c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(backup_goes_on_when_another_one_begins),
        TEST(backup_that_there_is_no_room_for_is_refused),
        TEST(backup_that_nobody_fetches_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
