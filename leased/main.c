/* leased: hands out uid leases. Arguments and configuration; the rest is server.c. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/log.h"
#include "leased/conf.h"
#include "leased/server.h"

static const char usage[] =
    "leased [--config FILE] [--check-config | --show-config]\n"
    "\n"
    "Hands out uid leases of this cluster. See leased(8).\n"
    "\n"
    "  --config FILE    instead of " LEASED_CONF_PATH " (and FILE.d/*.conf)\n"
    "  --check-config   read the configuration, say what is wrong with it, and end\n"
    "  --show-config    print the configuration in force and where each value comes from\n"
    "  --version        print the version\n"
    "  --help           print this\n";

enum { OPTION_CONFIG = 1000, OPTION_CHECK, OPTION_SHOW, OPTION_VERSION, OPTION_HELP };

static const struct option options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"check-config", no_argument, NULL, OPTION_CHECK},
    {"show-config", no_argument, NULL, OPTION_SHOW},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

struct arguments {
    const char *config;
    bool check, show;
};

/* -1 = go on; else the exit code. */
static int parse(int argc, char **argv, struct arguments *ret)
{
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case OPTION_CONFIG:
            ret->config = optarg;
            break;
        case OPTION_CHECK:
            ret->check = true;
            break;
        case OPTION_SHOW:
            ret->show = true;
            break;
        case OPTION_VERSION:
            (void)puts("leased " XCE_VERSION);
            return 0;
        case OPTION_HELP:
            (void)fputs(usage, stdout);
            return 0;
        default:
            (void)fputs("Try leased --help.\n", stderr);
            return 2;
        }
    if (optind == argc)
        return -1;
    (void)fprintf(stderr, "leased: no argument is expected, and \"%s\" is one\n", argv[optind]);
    return 2;
}

static void show(const struct conf *conf)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);

    conf_print_effective(conf, &text);
    (void)fputs(buf_str(&text), stdout);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    AUTO(conf_free) struct conf *conf = NULL;
    struct err err = {{0}};
    int code = parse(argc, argv, &arguments);

    if (code >= 0)
        return code;
    (void)umask(0077);
    (void)signal(SIGPIPE, SIG_IGN);
    if (conf_load(&leased_conf, arguments.config ? arguments.config : LEASED_CONF_PATH,
                  arguments.config != NULL, NULL, 0, &conf, &err) < 0) {
        (void)fprintf(stderr, "leased: %s\n", err.text);
        return 2;
    }
    if (arguments.show)
        show(conf);
    if (arguments.check || arguments.show)
        return 0;
    log_open(&(const struct log_options){
        .ident = "leased",
        .level = leased_conf_log_level(conf_settings(conf)),
        .timestamps = true,
    });
    code = server_run(&conf) < 0 ? 1 : 0;
    log_close();
    return code;
}
