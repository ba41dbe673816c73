/* What tests of the client share: a fake leased at an address of its own, canned replies, a client. */
#ifndef XCE_TESTS_UNIT_CLIENT_KIT_H
#define XCE_TESTS_UNIT_CLIENT_KIT_H

#include "tests/unit/client/fake_server.h"
#include "xce/client.h"

/* Of the canned lease. */
#define KIT_LEASE      7
#define KIT_UID        2013265920
#define KIT_CHECKED_MS 4000 /* cluster time of the canned check */

struct fixture {
    const char *path;
    char address[160];
    struct fake_server *server;
    struct xce_client *client;
    uint8_t lease[512], acquired[512], checked[64];
    size_t lease_len, acquired_len, checked_len;
};

/* cmocka's fixture: nothing runs yet; what runs at the end is ended. */
int kit_setup(void **state);
int kit_teardown(void **state);

/* f->client. */
void kit_client(struct fixture *f, const char *address, int64_t timeout_ms, int64_t patience_ms);

/* What is done with calls of that method; FAKE_ANSWER gives the canned reply. */
struct fake_rule kit_rule(const struct fixture *f, const char *method, enum fake_deed deed);

#endif
