/* leased: hands out uid leases. Everything is in server.c; a backup is restored in server_restore.c. */
#include "common/log.h"
#include "common/program.h"
#include "leased/conf.h"
#include "leased/seed.h"
#include "leased/server.h"
#include "leased/server_restore.h"
#include "leased/server_tls.h"

static const char *restore, *aside, *json;

static const struct program_option options[] = {
    {"restore", "FILE", "begin anew with this backup, and end; see leasectl(1), cluster restore",
     &restore},
    {"set-aside", NULL, "with --restore: move the state that is there away", &aside},
    {"json", NULL, "with --restore: say what has become of it as JSON", &json},
    {0},
};

/* A seed that was taken is looked at, too: whether it was, only a leased that runs can say. */
static int check_files(const void *data, struct err *err)
{
    const struct leased_settings *settings = data;
    struct seed *seed = NULL;
    int r = server_tls_check(settings, err);

    if (r < 0 || !settings->rbac_seed[0])
        return r;
    r = seed_read(settings->rbac_seed, &seed, err);
    seed_free(seed);
    return r < 0 ? err_prefix(err, r, "leased.RbacSeed") : 0;
}

static const struct program program = {
    .name = "leased",
    .purpose = "Hands out uid leases of this cluster.",
    .conf_path = LEASED_CONF_PATH,
    .conf = &leased_conf,
    .log_level = leased_conf_log_level,
    .check = check_files,
    .more = options,
};

int main(int argc, char **argv)
{
    AUTO(conf_free) struct conf *conf = NULL;
    int code = program_start(&program, argc, argv, &conf), r;

    if (code != PROGRAM_GO_ON)
        return code;
    if (restore)
        return server_restore(conf_settings(conf), &(const struct restore_options){
                                                       restore, aside != NULL, json != NULL});
    do
        r = server_run(&conf);
    while (r == SERVER_AGAIN);
    code = r < 0 ? 1 : 0;
    log_close();
    return code;
}
