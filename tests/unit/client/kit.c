#include "tests/unit/client/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/tmp.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/rbac.pb-c.h"

static void pack_replies(struct fixture *f)
{
    Xce__V1__Owner owner = XCE__V1__OWNER__INIT;
    Xce__V1__Lease lease = XCE__V1__LEASE__INIT, *leases[] = {&lease};
    Xce__V1__ReplyInfo info = XCE__V1__REPLY_INFO__INIT;
    Xce__V1__LeaseReply reply = XCE__V1__LEASE_REPLY__INIT;
    Xce__V1__AcquireReply acquired = XCE__V1__ACQUIRE_REPLY__INIT;
    Xce__V1__ReplyInfo before = XCE__V1__REPLY_INFO__INIT;
    Xce__V1__CheckReply checked = XCE__V1__CHECK_REPLY__INIT;

    owner.name = (char *)"alice";
    owner.uid = 1000;
    owner.gid = 1001;
    lease.lease = KIT_LEASE;
    lease.uid = lease.gid = KIT_UID;
    lease.epoch = 3;
    lease.name = (char *)"xce-1w00000-3";
    lease.owner = &owner;
    lease.state = XCE__V1__LEASE_STATE__LEASE_STATE_ACTIVE;
    info.revision = 99;
    info.now_ms = 5000;
    reply.info = acquired.info = &info;
    reply.lease = &lease;
    acquired.leases = leases;
    acquired.n_leases = 1;
    before.now_ms = KIT_CHECKED_MS;
    before.revision = 98;
    checked.info = &before;
    f->lease_len = xce__v1__lease_reply__pack(&reply, f->lease);
    f->acquired_len = xce__v1__acquire_reply__pack(&acquired, f->acquired);
    f->checked_len = xce__v1__check_reply__pack(&checked, f->checked);
}

int kit_setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){.path = tmp_path(tmp_dir(), "leased.sock")};
    snprintf(f.address, sizeof f.address, "unix:%s", f.path);
    pack_replies(&f);
    *state = &f;
    return 0;
}

int kit_teardown(void **state)
{
    struct fixture *f = *state;

    xce_client_free(f->client);
    fake_stop(f->server);
    return 0;
}

void kit_client(struct fixture *f, const char *address, int64_t timeout_ms, int64_t patience_ms)
{
    struct xce_client_options options = {
        .server = address, .timeout_ms = timeout_ms, .patience_ms = patience_ms};
    char why[XCE_MESSAGE_MAX] = "";

    if (xce_client_new(&options, &f->client, why) != XCE_OK)
        fail_msg("%s", why);
}

struct fake_rule kit_rule(const struct fixture *f, const char *method, enum fake_deed deed)
{
    struct fake_rule rule = {.method = method, .deed = deed};

    if (!strcmp(method, "Acquire")) {
        rule.reply = f->acquired;
        rule.reply_len = f->acquired_len;
    } else if (!strcmp(method, "Check")) {
        rule.reply = f->checked;
        rule.reply_len = f->checked_len;
    } else {
        rule.reply = f->lease;
        rule.reply_len = f->lease_len;
    }
    return rule;
}
