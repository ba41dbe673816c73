#include "ctl/help.h"

#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/verb.h"

static void print_options(const struct option_entry *entries)
{
    char spelling[80];

    for (const struct option_entry *entry = entries; entry && entry->name; entry++)
        printf("  %-30s %s\n", option_spelling(entry, spelling, sizeof spelling), entry->help);
}

static void print_verb_line(const struct verb *verb)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s%s", verb->group ? verb->group : "", verb->group ? " " : "",
             verb->name);
    printf("  %-16s %s\n", name, verb->summary);
}

static void print_statuses(void)
{
    printf(
        "\nExit status: 0 done, 1 failed, 2 usage, 3 not found or not permitted, 4 no leader or\n"
        "unreachable, 5 timeout, 6 exhausted.\n");
}

void help_all(void)
{
    const struct verb *verb;

    printf("Usage: leasectl [OPTIONS] VERB ...\n\nLease uids, see what became of them, give them "
           "back.\n\nVerbs:\n");
    for (size_t i = 0; (verb = verb_at(i)); i++)
        print_verb_line(verb);
    printf("\nOptions, before or behind the verb:\n");
    print_options(ctl_global_options);
    print_statuses();
    printf("\nleasectl VERB --help says more; so does leasectl(1).\n");
}

void help_group(const char *group)
{
    const struct verb *verb;

    printf("Usage: leasectl %s VERB ...\n\nVerbs:\n", group);
    for (size_t i = 0; (verb = verb_at(i)); i++)
        if (verb->group && !strcmp(verb->group, group))
            print_verb_line(verb);
    printf("\nleasectl %s VERB --help says more.\n", group);
}

void help_verb(const struct verb *verb)
{
    printf("Usage: leasectl %s%s%s [OPTIONS]%s%s\n\n%s.\n", verb->group ? verb->group : "",
           verb->group ? " " : "", verb->name, verb->args[0] ? " " : "", verb->args, verb->summary);
    if (verb->more)
        printf("\n%s\n", verb->more);
    if (verb->options || verb->stale)
        printf("\nOptions:\n");
    print_options(verb->options);
    print_options(verb->stale ? ctl_stale_options : NULL);
    printf("\nOptions of every verb:\n");
    print_options(ctl_global_options);
    print_statuses();
}
