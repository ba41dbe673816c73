#include "common/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "common/text.h"

#define HOST_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
#define V6_BYTES   "0123456789abcdefABCDEF:.%" HOST_BYTES

static int take_port(const char *text, const char *port, struct address *ret, struct err *err)
{
    uint32_t number;

    if (text_parse_u32(port, &number, NULL) < 0 || number == 0 || number > 65535)
        return err_set(err, -EINVAL, "%s: \"%s\" is no port (1 to 65535)", text, port);
    (void)snprintf(ret->port, sizeof ret->port, "%u", number);
    return 0;
}

static int take_host(const char *text, const char *host, size_t len, struct address *ret,
                     struct err *err)
{
    if (len == 0)
        return err_set(err, -EINVAL, "\"%s\" is no HOST:PORT: it names no host", text);
    if (len > ADDRESS_HOST_MAX)
        return err_set(err, -EINVAL, "%s: a host's name has at most %d bytes", text,
                       ADDRESS_HOST_MAX);
    memcpy(ret->host, host, len);
    ret->host[len] = '\0';
    return 0;
}

/* "[2001:db8::1]:7623" */
static int parse_bracketed(const char *text, struct address *ret, struct err *err)
{
    const char *end = strchr(text, ']');
    int r;

    if (!end || (end[1] != '\0' && end[1] != ':'))
        return err_set(err, -EINVAL, "\"%s\" is no [ADDRESS]:PORT", text);
    r = take_host(text, text + 1, (size_t)(end - text - 1), ret, err);
    if (r < 0)
        return r;
    if (!strchr(ret->host, ':') || strspn(ret->host, V6_BYTES) != strlen(ret->host))
        return err_set(err, -EINVAL, "%s: \"%s\" is no IPv6 address", text, ret->host);
    return take_port(text, end[1] ? end + 2 : ADDRESS_PORT_DEFAULT, ret, err);
}

int address_parse(const char *text, bool wildcard, struct address *ret, struct err *err)
{
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    int r;

    if (text[0] == '[')
        return parse_bracketed(text, ret, err);
    if (colon && strchr(colon + 1, ':'))
        return err_set(err, -EINVAL, "%s: an IPv6 address is written [ADDRESS]:PORT", text);
    r = take_host(text, text, len, ret, err);
    if (r < 0)
        return r;
    if (strcmp(ret->host, "*") == 0) {
        if (!wildcard)
            return err_set(err, -EINVAL, "%s: * is no host that one can connect to", text);
    } else if (strspn(ret->host, HOST_BYTES) != len) {
        return err_set(err, -EINVAL, "%s: \"%s\" is no host's name", text, ret->host);
    }
    return take_port(text, colon ? colon + 1 : ADDRESS_PORT_DEFAULT, ret, err);
}

bool address_is_unix(const char *text)
{
    return strncmp(text, "unix:", 5) == 0;
}

int address_check_server(const char *text, struct err *err)
{
    struct address address;
    const char *path = text + 5;

    if (!address_is_unix(text))
        return address_parse(text, false, &address, NULL) == 0
                   ? 0
                   : err_set(err, -EINVAL, "%s: a server is written unix:/PATH or HOST:PORT", text);
    if (path[0] != '/')
        return err_set(err, -EINVAL, "%s: the path of a socket begins with /", text);
    if (strlen(path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return err_set(err, -EINVAL, "%s: the path of a socket has at most %zu bytes", text,
                       sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    return 0;
}

char *address_format(const struct address *address, char ret[static ADDRESS_TEXT_BUF])
{
    (void)snprintf(ret, ADDRESS_TEXT_BUF, strchr(address->host, ':') ? "[%s]:%s" : "%s:%s",
                   address->host, address->port);
    return ret;
}
