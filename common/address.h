/* "HOST:PORT" as a person writes it. Text only: nothing is looked up.
 *
 *     ctl1:7623   ctl1   192.0.2.1:7623   [2001:db8::1]:7623   [::1]   *:7623 (where listening is meant)
 *
 * libc only, no allocation, any thread. */
#ifndef XCE_COMMON_ADDRESS_H
#define XCE_COMMON_ADDRESS_H

#include <stdbool.h>

#include "common/err.h"

#define ADDRESS_HOST_MAX     253
#define ADDRESS_PORT_DEFAULT "7623"
#define ADDRESS_TEXT_BUF     (ADDRESS_HOST_MAX + 10)

struct address {
    char host[ADDRESS_HOST_MAX + 1]; /* without brackets; "*" = every address of the machine */
    char port[6];                    /* 1..65535, decimal */
};

/* 0; -EINVAL, err says what is wrong with which address. wildcard: "*" is allowed. */
int address_parse(const char *text, bool wildcard, struct address *ret, struct err *err);

/* Whether text says where a leased is: "unix:" and an absolute path that fits a socket's address, or HOST:PORT.
 * 0; -EINVAL with err. */
int address_check_server(const char *text, struct err *err);
bool address_is_unix(const char *text);

/* As it would be written, brackets where they are needed. Returns ret. */
char *address_format(const struct address *address, char ret[static ADDRESS_TEXT_BUF]);

#endif
