/* noded: mirrors leases on this machine and keeps it clean. Everything is in noded.c. */
#include <string.h>

#include "common/log.h"
#include "common/program.h"
#include "noded/accounts.h"
#include "noded/conf.h"
#include "noded/noded.h"

static const struct program program = {
    .name = "noded",
    .purpose = "Mirrors uid leases on this machine, and keeps it clean.",
    .conf_path = NODED_CONF_PATH,
    .conf = &noded_conf,
    .log_level = noded_conf_log_level,
    .check = noded_tls_check,
};

int main(int argc, char **argv)
{
    AUTO(conf_free) struct conf *conf = NULL;
    int code;

    /* Started by noded itself. */
    if (argc == 2 && strcmp(argv[1], NODED_ACCOUNTS_OPTION) == 0) {
        collide_serve(ACCOUNTS_FD, &collide_files_default);
        return 0;
    }
    if ((argc == 2 || argc == 3) && strcmp(argv[1], NODED_STANDBY_OPTION) == 0)
        return noded_standby(argc == 3 ? argv[2] : NODED_CONF_PATH, "/proc/self/exe");
    code = program_start(&program, argc, argv, &conf);
    if (code != PROGRAM_GO_ON)
        return code;
    code = noded_run(&conf, "/proc/self/exe");
    log_close();
    return code;
}
