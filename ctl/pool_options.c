#include "ctl/pool_options.h"

#include <string.h>

#include "common/text.h"
#include "ctl/ctl.h"

const char *const pool_witnesses[] = {"connected", "all", NULL};

void pool_settings(const struct pool_settings_options *given, struct xce_pool_settings *ret)
{
    *ret = (struct xce_pool_settings){
        .ttl_min_ms = given->ttl_min_ms,
        .ttl_max_ms = given->ttl_max_ms,
        .ttl_default_ms = given->ttl_default_ms,
        .cooldown_ms = given->cooldown_ms,
        .ready_timeout_ms = given->ready_timeout_ms,
        .validity_ms = given->validity_ms,
        .witnesses_set = given->witnesses != NULL,
        .witnesses = given->witnesses && !strcmp(given->witnesses, "all") ? XCE_WITNESSES_ALL
                                                                          : XCE_WITNESSES_CONNECTED,
        .max_per_owner_set = given->max_per_owner.given,
        .max_per_owner = (uint32_t)given->max_per_owner.value,
        .home = given->home,
        .shell = given->shell,
    };
}

int pool_directory(struct ctl *ctl, const char *text, struct xce_range *ranges, size_t *ret_n,
                   bool *ret_none)
{
    struct text_range parsed[POOL_DIRECTORY_MAX];
    struct err err = {0};

    *ret_n = 0;
    *ret_none = !strcmp(text, "none");
    if (*ret_none)
        return EXIT_OK;
    if (text_parse_ranges(text, parsed, POOL_DIRECTORY_MAX, ret_n, &err) < 0)
        return ctl_usage(ctl, "--directory-ranges: %s", err.text);
    for (size_t i = 0; i < *ret_n; i++)
        ranges[i] = (struct xce_range){parsed[i].first, parsed[i].last};
    return EXIT_OK;
}
