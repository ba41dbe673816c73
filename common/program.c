#include "common/program.h"

#include <assert.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fsutil.h"
#include "common/log.h"

enum { OPTION_CONFIG = 1000, OPTION_CHECK, OPTION_SHOW, OPTION_VERSION, OPTION_HELP, OPTION_MORE };

#define N_COMMON 5

static const struct option options[N_COMMON] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"check-config", no_argument, NULL, OPTION_CHECK},
    {"show-config", no_argument, NULL, OPTION_SHOW},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
};

struct arguments {
    const char *config;
    bool check, show;
};

static void help(const struct program *program)
{
    (void)printf(
        "%s [--config FILE] [--check-config | --show-config]\n"
        "\n"
        "%s See %s(8).\n"
        "\n"
        "  --config FILE    instead of %s (and FILE.d/*.conf)\n"
        "  --check-config   read the configuration, say what is wrong with it, and end\n"
        "  --show-config    print the configuration in force and where each value comes from\n"
        "  --version        print the version\n"
        "  --help           print this\n",
        program->name, program->purpose, program->name, program->conf_path);
    for (const struct program_option *more = program->more; more && more->name; more++)
        (void)printf("  --%s%s%s   %s\n", more->name, more->arg ? " " : "",
                     more->arg ? more->arg : "", more->help);
}

/* The options that all have, and this one's own. */
static void list_options(const struct program *program,
                         struct option ret[static N_COMMON + PROGRAM_OPTIONS_MAX + 1])
{
    size_t n = N_COMMON;

    memcpy(ret, options, sizeof options);
    for (const struct program_option *more = program->more; more && more->name; more++, n++) {
        assert(n < N_COMMON + PROGRAM_OPTIONS_MAX);
        ret[n] = (struct option){more->name, more->arg ? required_argument : no_argument, NULL,
                                 OPTION_MORE + (int)(n - N_COMMON)};
    }
    ret[n] = (struct option){0};
}

static int parse(const struct program *program, int argc, char **argv, struct arguments *ret)
{
    struct option all[N_COMMON + PROGRAM_OPTIONS_MAX + 1];
    const struct program_option *more;
    int option;

    list_options(program, all);
    while ((option = getopt_long(argc, argv, "", all, NULL)) != -1)
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
            (void)printf("%s " XCE_VERSION "\n", program->name);
            return 0;
        case OPTION_HELP:
            help(program);
            return 0;
        default:
            if (option < OPTION_MORE) {
                (void)fprintf(stderr, "Try %s --help.\n", program->name);
                return 2;
            }
            more = &program->more[option - OPTION_MORE];
            *more->value = more->arg ? optarg : more->name;
            break;
        }
    if (optind == argc)
        return PROGRAM_GO_ON;
    (void)fprintf(stderr, "%s: no argument is expected, and \"%s\" is one\n", program->name,
                  argv[optind]);
    return 2;
}

static void show(const struct conf *conf)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);

    conf_print_effective(conf, &text);
    (void)fputs(buf_str(&text), stdout);
}

static int check(const struct program *program, const struct conf *conf)
{
    struct err err = {{0}};

    if (!program->check || program->check(conf_settings(conf), &err) == 0)
        return 0;
    (void)fprintf(stderr, "%s: %s\n", program->name, err.text);
    return 2;
}

static void hold_reload(void)
{
    sigset_t only;

    (void)sigemptyset(&only);
    (void)sigaddset(&only, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &only, NULL);
    (void)signal(SIGHUP, SIG_DFL); /* what is ignored does not wait */
}

int program_start(const struct program *program, int argc, char **argv, struct conf **ret)
{
    struct arguments arguments = {0};
    struct conf *conf;
    struct err err = {{0}};
    int code;

    fs_fill_standard();
    code = parse(program, argc, argv, &arguments);

    if (code != PROGRAM_GO_ON)
        return code;
    (void)umask(0077);
    (void)signal(SIGPIPE, SIG_IGN);
    if (conf_load(program->conf, arguments.config ? arguments.config : program->conf_path,
                  arguments.config != NULL, NULL, 0, &conf, &err) < 0) {
        (void)fprintf(stderr, "%s: %s\n", program->name, err.text);
        return 2;
    }
    if (arguments.check || arguments.show) {
        code = 0;
        if (arguments.show)
            show(conf);
        else
            code = check(program, conf);
        conf_free(conf);
        return code;
    }
    hold_reload();
    log_open(&(const struct log_options){
        .ident = program->name,
        .level = program->log_level(conf_settings(conf)),
        .timestamps = true,
    });
    *ret = conf;
    return PROGRAM_GO_ON;
}
