#include "ctl/option.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "xce/client.h"

enum {
    ENTRIES_MAX = 64,
    LIST_MAX = 4096,
    /* getopt's return for entry i is CODE + i, above any character. */
    CODE = 1000,
};

/* The sets as getopt wants them. */
struct plan {
    struct option longs[ENTRIES_MAX + 1];
    const struct option_entry *entries[ENTRIES_MAX];
    void *memories[ENTRIES_MAX];
    bool seen[ENTRIES_MAX];
    size_t n;
    char letters[2 * ENTRIES_MAX + 3];
};

static int argument_of(const struct option_entry *entry)
{
    switch (entry->type) {
    case OPTION_FLAG:
        return no_argument;
    case OPTION_OPTIONAL:
        return optional_argument;
    default:
        return required_argument;
    }
}

static void plan_make(struct plan *plan, bool stop, const struct option_set *sets, size_t n_sets)
{
    char *letter = plan->letters;

    memset(plan, 0, sizeof *plan);
    if (stop)
        *letter++ = '+';
    *letter++ = ':';
    for (size_t s = 0; s < n_sets; s++) {
        for (const struct option_entry *entry = sets[s].entries; entry && entry->name; entry++) {
            size_t i = plan->n++;

            plan->entries[i] = entry;
            plan->memories[i] = (char *)sets[s].memory + entry->offset;
            plan->longs[i] = (struct option){entry->name, argument_of(entry), NULL, CODE + (int)i};
            if (!entry->letter)
                continue;
            *letter++ = entry->letter;
            if (argument_of(entry) == required_argument)
                *letter++ = ':';
        }
    }
}

static size_t plan_find(const struct plan *plan, int code)
{
    if (code >= CODE)
        return (size_t)(code - CODE);
    for (size_t i = 0; i < plan->n; i++)
        if (plan->entries[i]->letter == code)
            return i;
    return plan->n;
}

/* ---- values ---- */

static int list_add(struct option_list *list, const char *text, struct err *err)
{
    const char **items;

    if (list->n >= LIST_MAX)
        return err_set(err, -EINVAL, "given more than %d times", LIST_MAX);
    items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return -ENOMEM;
    items[list->n++] = text;
    list->items = items;
    return 0;
}

static int take_word(const struct option_entry *entry, const char *text, const char **ret,
                     struct err *err)
{
    char all[128] = "";

    for (size_t i = 0; entry->words[i]; i++) {
        if (!strcmp(entry->words[i], text)) {
            *ret = entry->words[i];
            return 0;
        }
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "",
                 entry->words[i]);
    }
    return err_set(err, -EINVAL, "%s: must be one of: %s", text, all);
}

static int take_duration(const char *text, bool none, int64_t *ret, struct err *err)
{
    int64_t ms;
    int r = text_parse_duration(text, &ms, err);

    if (r < 0)
        return r;
    if (r == TEXT_NO_LIMIT && !none)
        return err_set(err, -EINVAL, "none: must be a time, like 30s");
    if (r == TEXT_NO_LIMIT) {
        *ret = XCE_TTL_NONE;
        return 0;
    }
    if (ms <= 0)
        return err_set(err, -EINVAL, "%s: must be above 0%s", text, none ? " (or none)" : "");
    *ret = ms;
    return 0;
}

static int take_number(const struct option_entry *entry, const char *text, void *memory,
                       struct err *err)
{
    uint64_t value;
    int r = text_parse_u64(text, &value, err);

    if (r < 0)
        return r;
    if (entry->type == OPTION_NUMBER) {
        *(struct option_number *)memory = (struct option_number){true, value};
        return 0;
    }
    if (!value)
        return err_set(err, -EINVAL, "0: must be above 0");
    if (entry->type == OPTION_U64) {
        *(uint64_t *)memory = value;
        return 0;
    }
    if (value > UINT32_MAX)
        return err_set(err, -EINVAL, "%s: must be below 4294967296", text);
    *(uint32_t *)memory = (uint32_t)value;
    return 0;
}

static int take(const struct option_entry *entry, const char *text, void *memory, struct err *err)
{
    if (text && !text[0])
        return err_set(err, -EINVAL, "the value is empty");
    switch (entry->type) {
    case OPTION_FLAG:
        *(bool *)memory = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)memory = text;
        return 0;
    case OPTION_LIST:
        return list_add(memory, text, err);
    case OPTION_DURATION:
    case OPTION_TTL:
        return take_duration(text, entry->type == OPTION_TTL, memory, err);
    case OPTION_WORD:
    case OPTION_OPTIONAL:
        return take_word(entry, text ? text : entry->words[0], memory, err);
    case OPTION_U32:
    case OPTION_U64:
    case OPTION_NUMBER:
        return take_number(entry, text, memory, err);
    }
    return err_set(err, -EINVAL, "no such type of option");
}

/* ---- the whole line ---- */

static int accept(struct plan *plan, size_t i, struct err *err)
{
    const struct option_entry *entry = plan->entries[i];
    int r;

    if (plan->seen[i] && entry->type != OPTION_LIST && entry->type != OPTION_FLAG)
        return err_set(err, -EINVAL, "--%s: given twice", entry->name);
    plan->seen[i] = true;
    r = take(entry, optarg, plan->memories[i], err);
    if (r < 0 && r != -ENOMEM)
        return err_prefix(err, -EINVAL, "--%s", entry->name);
    return r;
}

/* getopt has refused what it last looked at. */
static int refuse(const struct plan *plan, char **argv, int code, struct err *err)
{
    const char *word = argv[optind - 1];
    size_t i;

    if (code == ':') {
        i = plan_find(plan, optopt);
        return err_set(err, -EINVAL, "--%s: needs a value (%s)", plan->entries[i]->name,
                       plan->entries[i]->arg);
    }
    if (optopt >= CODE)
        return err_set(err, -EINVAL, "--%s: takes no value",
                       plan->entries[plan_find(plan, optopt)]->name);
    if (optopt)
        return err_set(err, -EINVAL, "-%c: no such option", optopt);
    return err_set(err, -EINVAL, "%s: no such option, or not clear which", word);
}

int option_parse(int argc, char **argv, bool stop, const struct option_set *sets, size_t n_sets,
                 int *ret_first, struct err *err)
{
    struct plan plan;
    int code, r;

    plan_make(&plan, stop, sets, n_sets);
    opterr = 0;
    optind = 0; /* glibc: begin anew, and forget what was moved */
    while ((code = getopt_long(argc, argv, plan.letters, plan.longs, NULL)) != -1) {
        if (code == '?' || code == ':')
            return refuse(&plan, argv, code, err);
        r = accept(&plan, plan_find(&plan, code), err);
        if (r < 0)
            return r;
    }
    *ret_first = optind;
    return 0;
}

void option_done(const struct option_set *sets, size_t n_sets)
{
    for (size_t s = 0; s < n_sets; s++) {
        for (const struct option_entry *entry = sets[s].entries; entry && entry->name; entry++) {
            struct option_list *list = (void *)((char *)sets[s].memory + entry->offset);

            if (entry->type != OPTION_LIST)
                continue;
            free(list->items);
            *list = (struct option_list){0};
        }
    }
}

const char *option_spelling(const struct option_entry *entry, char *ret, size_t size)
{
    char letter[8] = "    ";
    const char *open = "", *close = "";

    if (entry->letter)
        snprintf(letter, sizeof letter, "-%c, ", entry->letter);
    if (entry->type == OPTION_OPTIONAL) {
        open = "[=";
        close = "]";
    } else if (entry->type != OPTION_FLAG) {
        open = " ";
    }
    snprintf(ret, size, "%s--%s%s%s%s", letter, entry->name, open,
             entry->type == OPTION_FLAG ? "" : entry->arg, close);
    return ret;
}
