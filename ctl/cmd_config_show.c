/* leasectl config show: what client.conf says and what comes of it. */
#include <stdio.h>
#include <string.h>

#include "client/settings.h"
#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

struct config_options {
    bool effective;
};

static const struct option_entry options[] = {
    {"effective", 0, OPTION_FLAG, offsetof(struct config_options, effective), NULL, "defaults too",
     NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static bool shown(const struct config_options *given, const struct conf_row *row)
{
    return given->effective || strcmp(row->origin, "default") != 0;
}

static int print_json(struct ctl *ctl, const struct config_options *given, const struct conf *conf)
{
    struct json *object = json_new_object(), *settings = json_new_array();

    for (size_t i = 0; i < client_conf_table.n; i++) {
        struct json *setting;
        struct conf_row row;

        conf_row(conf, i, &row);
        if (!shown(given, &row))
            continue;
        setting = json_new_object();
        json_set_string(setting, "section", row.entry->section);
        json_set_string(setting, "key", row.entry->key);
        json_set_string(setting, "value", row.value);
        json_set_string(setting, "origin", row.origin);
        json_append(settings, setting);
    }
    json_set(object, "settings", settings);
    return ctl_print_json(ctl, object);
}

static int print_text(struct ctl *ctl, const struct config_options *given, const struct conf *conf)
{
    bool section = false;

    for (size_t i = 0; i < client_conf_table.n; i++) {
        struct conf_row row;

        conf_row(conf, i, &row);
        if (!shown(given, &row))
            continue;
        if (!section)
            printf("[%s]\n", row.entry->section);
        section = true;
        printf("# %s\n%s = %s\n", row.origin, row.entry->key, row.value);
    }
    return ctl_finish_stdout(ctl);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct config_options *given = memory;
    struct conf *conf;
    struct err err = {0};
    int status;

    (void)n_words;
    (void)words;
    if (client_settings_load(ctl->globals.conf, ctl->globals.server, &conf, &err) < 0)
        return ctl_fail(ctl, XCE_INVALID, "%s", err.text);
    status = ctl->globals.json ? print_json(ctl, given, conf) : print_text(ctl, given, conf);
    conf_free(conf);
    return status;
}

const struct verb cmd_config_show = {
    .group = "config",
    .name = "show",
    .args = "",
    .summary = "Show the settings of client.conf and where each comes from",
    .options = options,
    .memory = sizeof(struct config_options),
    .exec = exec,
};
