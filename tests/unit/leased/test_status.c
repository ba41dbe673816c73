/* What a caller reads of an errno of ours. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "leased/rpc/status.h"

/* All that engine.h says of a proposal or a read, and health. */
static void status_of_what_an_engine_says_is_no_internal_error(void **state)
{
    static const struct {
        int r;
        enum grpc_status status;
    } cases[] = {
        {-EAGAIN, GRPC_UNAVAILABLE},
        {-ECONNABORTED, GRPC_UNAVAILABLE},
        {-ECANCELED, GRPC_UNAVAILABLE},
        {-ESHUTDOWN, GRPC_UNAVAILABLE},
        {-EIO, GRPC_UNAVAILABLE},
        {-ENOSPC, GRPC_RESOURCE_EXHAUSTED},
        {-ENOBUFS, GRPC_RESOURCE_EXHAUSTED},
        {-EMSGSIZE, GRPC_RESOURCE_EXHAUSTED},
        {-EINVAL, GRPC_INVALID_ARGUMENT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (rpc_status(cases[i].r) != cases[i].status)
            fail_msg("%s: %s", strerror(-cases[i].r), grpc_status_name(rpc_status(cases[i].r)));
        assert_string_not_equal(rpc_status_text(cases[i].r), "internal error");
    }
    assert_int_equal(rpc_status(-EXDEV), GRPC_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_of_what_an_engine_says_is_no_internal_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
