/* xce-userdbd: tells systemd's user database of leases. Everything is in server.c. */
#include "common/log.h"
#include "common/program.h"
#include "userdb/conf.h"
#include "userdb/server.h"

static const struct program program = {
    .name = "xce-userdbd",
    .purpose = "Tells systemd's user database of uid leases.",
    .conf_path = USERDB_CONF_PATH,
    .conf = &userdb_conf,
    .log_level = userdb_conf_log_level,
};

int main(int argc, char **argv)
{
    AUTO(conf_free) struct conf *conf = NULL;
    int code = program_start(&program, argc, argv, &conf);

    if (code != PROGRAM_GO_ON)
        return code;
    code = server_run(&conf) < 0 ? 1 : 0;
    log_close();
    return code;
}
