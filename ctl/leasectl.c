/* leasectl: from the command line to a verb. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "ctl/ctl.h"
#include "ctl/help.h"
#include "ctl/verb.h"

/* The words of the command line as they are taken off. */
struct line {
    int argc;
    char **argv;
};

/* An error on the way to --json must be an object, too. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--json"))
            return true;
    return false;
}

/* What may stand before the verb: global options. 0: line begins with the verb; else an exit status + 1. */
static int take_globals(struct ctl *ctl, struct line *line)
{
    struct option_set set = {ctl_global_options, &ctl->globals};
    struct err err = {0};
    int first;

    if (option_parse(line->argc, line->argv, true, &set, 1, &first, &err) < 0)
        return ctl_usage(ctl, "%s", err.text) + 1;
    line->argc -= first;
    line->argv += first;
    if (ctl->globals.version) {
        printf("leasectl %s\n", XCE_VERSION);
        return ctl_finish_stdout(ctl) + 1;
    }
    if (!line->argc && ctl->globals.help) {
        help_all();
        return ctl_finish_stdout(ctl) + 1;
    }
    if (!line->argc)
        return ctl_usage(ctl, "which verb?") + 1;
    return 0;
}

/* The same for the verb, which may be two words. */
static int take_verb(struct ctl *ctl, struct line *line)
{
    const char *word = line->argv[0], *group = NULL;

    if (verb_group_exists(word)) {
        group = word;
        if (line->argc < 2 || !strcmp(line->argv[1], "--help") || !strcmp(line->argv[1], "-h") ||
            ctl->globals.help) {
            if (line->argc < 2 && !ctl->globals.help)
                return ctl_usage(ctl, "%s: which verb? (leasectl %s --help)", group, group) + 1;
            help_group(group);
            return ctl_finish_stdout(ctl) + 1;
        }
        line->argc--;
        line->argv++;
        word = line->argv[0];
    }
    ctl->verb = verb_find(group, word);
    if (!ctl->verb)
        return ctl_usage(ctl, "%s%s%s: no such verb", group ? group : "", group ? " " : "", word) +
               1;
    return 0;
}

static int check_words(struct ctl *ctl, int n)
{
    const struct verb *verb = ctl->verb;
    const char *group = verb->group ? verb->group : "", *gap = verb->group ? " " : "";

    if (n < verb->words_least)
        return ctl_usage(ctl, "%s%s%s: %s is missing", group, gap, verb->name, verb->args);
    if (verb->words_most < 0 || n <= verb->words_most)
        return EXIT_OK;
    if (verb->args[0])
        return ctl_usage(ctl, "%s%s%s: too many words, wanted is: %s", group, gap, verb->name,
                         verb->args);
    return ctl_usage(ctl, "%s%s%s: takes no words", group, gap, verb->name);
}

/* The verb's own options and words; then the verb itself. */
static int run_verb(struct ctl *ctl, const struct line *line)
{
    const struct verb *verb = ctl->verb;
    void *memory = calloc(1, verb->memory + 1);
    struct option_set sets[] = {{verb->options, memory},
                                {ctl_global_options, &ctl->globals},
                                {verb->stale ? ctl_stale_options : NULL, &ctl->globals}};
    struct err err = {0};
    int first, status;

    if (!memory)
        return ctl_fail(ctl, XCE_FAILED, "out of memory");
    if (option_parse(line->argc, line->argv, verb->rest, sets, 3, &first, &err) < 0) {
        status = ctl_usage(ctl, "%s%s%s: %s", verb->group ? verb->group : "",
                           verb->group ? " " : "", verb->name, err.text);
    } else if (ctl->globals.help) {
        help_verb(verb);
        status = ctl_finish_stdout(ctl);
    } else {
        status = check_words(ctl, line->argc - first);
        if (status == EXIT_OK)
            status = verb->exec(ctl, memory, line->argc - first, line->argv + first);
    }
    option_done(sets, 1);
    free(memory);
    return status;
}

int main(int argc, char **argv)
{
    struct ctl ctl = {.globals.json = wants_json(argc, argv), .json_on_stdout = true};
    struct line line = {argc, argv};
    int status;

    fs_fill_standard();
    /* Names are UTF-8 whatever the locale; everything else is English. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    /* A reader that has gone is seen by write: a server that has gone must not end us. */
    (void)signal(SIGPIPE, SIG_IGN);
    status = take_globals(&ctl, &line);
    if (!status)
        status = take_verb(&ctl, &line);
    if (status)
        return status - 1;
    status = run_verb(&ctl, &line);
    xce_client_free(ctl.client);
    return status;
}
