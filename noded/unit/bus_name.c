/* Uids in the names of users and units. */
#include <stdlib.h>
#include <string.h>

#include "map/name.h"
#include "noded/unit/bus.h"

/* Decimal without sign or leading zero; how many characters, 0 = none. */
static size_t number_read(const char *text, uint32_t *ret)
{
    uint64_t value = 0;
    size_t n = 0;

    if (text[0] == '0')
        return 0;
    for (; text[n] >= '0' && text[n] <= '9'; n++) {
        value = value * 10 + (uint64_t)(text[n] - '0');
        if (value > UINT32_MAX)
            return 0;
    }
    *ret = (uint32_t)value;
    return n;
}

bool bus_user_uid(const char *prefix, const char *user, uint32_t *ret_uid)
{
    uint32_t epoch;
    size_t n = number_read(user, ret_uid);

    if (n > 0 && user[n] == '\0')
        return true;
    return name_decode(prefix, user, strlen(user), ret_uid, &epoch) == 0;
}

bool bus_name_uid(const char *unit, uint32_t *ret_uid)
{
    static const struct {
        const char *before, *after;
        bool epoch; /* "-EPOCH" may stand between */
    } forms[] = {
        {"xce-", ".slice", true},
        {"user-", ".slice", false},
        {"user@", ".service", false},
        {"user-runtime-dir@", ".service", false},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t len = strlen(forms[i].before), n;
        uint32_t epoch;
        const char *rest = unit + len;
        if (strncmp(unit, forms[i].before, len) != 0 || (n = number_read(rest, ret_uid)) == 0)
            continue;
        rest += n;
        if (forms[i].epoch && *rest == '-' && (n = number_read(rest + 1, &epoch)) > 0)
            rest += 1 + n;
        if (strcmp(rest, forms[i].after) == 0)
            return true;
    }
    return false;
}
