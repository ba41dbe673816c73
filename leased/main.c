/* leased: hands out uid leases. Everything is in server.c. */
#include "common/log.h"
#include "common/program.h"
#include "leased/conf.h"
#include "leased/server.h"
#include "leased/server_tls.h"

static const struct program program = {
    .name = "leased",
    .purpose = "Hands out uid leases of this cluster.",
    .conf_path = LEASED_CONF_PATH,
    .conf = &leased_conf,
    .log_level = leased_conf_log_level,
    .check = server_tls_check,
};

int main(int argc, char **argv)
{
    AUTO(conf_free) struct conf *conf = NULL;
    int code = program_start(&program, argc, argv, &conf), r;

    if (code != PROGRAM_GO_ON)
        return code;
    do
        r = server_run(&conf);
    while (r == SERVER_AGAIN);
    code = r < 0 ? 1 : 0;
    log_close();
    return code;
}
