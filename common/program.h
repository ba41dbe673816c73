/* What every daemon's main does before its own work: arguments, configuration, log.
 *
 *     PROGRAM [--config FILE] [--check-config | --show-config] [--version] [--help] [its own options]
 *
 * Sets umask 0077, ignores SIGPIPE, and blocks SIGHUP: it waits until a loop asks for it (loop_signal_new), so that it ends
 * no daemon that begins or ends, and no reload is lost. One thread: main's, before there are others. */
#ifndef XCE_COMMON_PROGRAM_H
#define XCE_COMMON_PROGRAM_H

#include "common/conf.h"

/* One that only this program has. */
struct program_option {
    const char *name; /* without dashes */
    const char *arg;  /* what --help calls its value; NULL = it takes none */
    const char *help;
    const char **value; /* where it goes; without a value: its name */
};

#define PROGRAM_OPTIONS_MAX 4

struct program {
    const char *name;      /* "leased" */
    const char *purpose;   /* one sentence for --help */
    const char *conf_path; /* read unless --config names another */
    const struct conf_table *conf;
    /* The syslog level that settings ask for. */
    int (*log_level)(const void *settings);
    /* For --check-config: what the files that settings name are worth. 0; negative with err. NULL = there are none. */
    int (*check)(const void *settings, struct err *err);
    /* Ends with one without a name; NULL = none. */
    const struct program_option *more;
};

enum {
    PROGRAM_GO_ON = -1,
};

/* PROGRAM_GO_ON: the configuration is read and the log open, *ret is the caller's to free; else the exit code: 0 what
 * was asked for is done; 2 wrong arguments or configuration, said on stderr. */
int program_start(const struct program *program, int argc, char **argv, struct conf **ret);

#endif
