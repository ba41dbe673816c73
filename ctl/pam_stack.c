#include "ctl/pam_stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/text.h"

enum {
    ACTION_UNSET = -100,
    /* above 0: jump over so many lines */
    ACTION_IGNORE = 0,
    ACTION_OK = -1,
    ACTION_DONE = -2,
    ACTION_BAD = -3,
    ACTION_DIE = -4,
    ACTION_RESET = -5,
    JUMP_MAX = 4096,
    LEVELS_MAX = PAM_STACK_DEPTH_MAX + 2,
};

struct reader {
    struct pam_stack *stack;
    enum pam_stack_type type;
    pam_stack_read_fn read;
    void *arg;
    unsigned depth, level;
};

/* Where we are: for lines and for messages. */
struct place {
    const char *file;
    unsigned number;
};

const char *pam_stack_word(enum pam_stack_type type)
{
    static const char *const words[] = {"auth", "account", "session", "password"};

    return words[type];
}

/* ---- text ---- */

/* The next line of *rest, without its comment and joined with what goes on behind a backslash; NULL at the end. In place. */
static char *next_line(char **rest, unsigned *number)
{
    char *line = *rest, *at = line;

    while (at) {
        char *end = at + strcspn(at, "\n"), *hash = memchr(at, '#', (size_t)(end - at));
        char *last = hash ? hash : end;
        bool more = *end != 0;

        ++*number;
        while (!hash && last > at && strchr(" \t\r", last[-1]))
            last--;
        if (!hash && more && last > at && last[-1] == '\\') {
            memset(last - 1, ' ', (size_t)(end - last) + 2);
            at = end + 1;
            continue;
        }
        *last = 0;
        *rest = more ? end + 1 : NULL;
        return line;
    }
    return NULL;
}

/* The next word; one in brackets may hold blanks, and "\]". In place; "" at the end. */
static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t\r"), *to = word, *p = word;

    if (*p != '[') {
        p += strcspn(p, " \t\r");
        *rest = p + (*p != 0);
        *p = 0;
        return word;
    }
    for (p++; *p && *p != ']'; p++) {
        if (p[0] == '\\' && p[1] == ']')
            p++;
        *to++ = *p;
    }
    *rest = p + (*p != 0);
    *to = 0;
    return word;
}

/* ---- controls ---- */

static int action_of(const char *text)
{
    static const struct {
        const char *name;
        int action;
    } names[] = {{"ignore", ACTION_IGNORE}, {"ok", ACTION_OK},   {"done", ACTION_DONE},
                 {"bad", ACTION_BAD},       {"die", ACTION_DIE}, {"reset", ACTION_RESET}};
    uint32_t jump;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcasecmp(text, names[i].name))
            return names[i].action;
    return text_parse_u32(text, &jump, NULL) == 0 && jump && jump <= JUMP_MAX ? (int)jump
                                                                              : ACTION_BAD;
}

/* Of the values that a module may return those that matter here; how ours refuses depends on the type. */
static int answer_of(const char *value, enum pam_stack_type type)
{
    static const char *const refusals[] = {"auth_err", "perm_denied", "perm_denied", "authtok_err"};

    return !strcasecmp(value, "success")          ? PAM_STACK_SUCCESS
           : !strcasecmp(value, "ignore")         ? PAM_STACK_IGNORE
           : !strcasecmp(value, "module_unknown") ? PAM_STACK_UNKNOWN
           : !strcasecmp(value, refusals[type])   ? PAM_STACK_REFUSES
                                                  : -1;
}

/* What is not said is bad. */
static void fill(int actions[PAM_STACK_ANSWERS], int rest)
{
    for (size_t i = 0; i < PAM_STACK_ANSWERS; i++)
        if (actions[i] == ACTION_UNSET)
            actions[i] = rest;
}

/* "success=ok default=die". */
static void read_values(char *text, enum pam_stack_type type, int ret[PAM_STACK_ANSWERS])
{
    char *save = NULL;

    for (char *word = strtok_r(text, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
        char *equals = strchr(word, '=');
        int answer;

        if (!equals)
            break;
        *equals = 0;
        answer = answer_of(word, type);
        if (!strcasecmp(word, "default"))
            fill(ret, action_of(equals + 1));
        else if (answer >= 0)
            ret[answer] = action_of(equals + 1);
    }
    fill(ret, ACTION_BAD);
}

static void read_control(char *text, bool brackets, enum pam_stack_type type,
                         int ret[PAM_STACK_ANSWERS])
{
    static const struct {
        const char *name;
        int success, ignore, rest;
    } words[] = {
        {"required", ACTION_OK, ACTION_IGNORE, ACTION_BAD},
        {"requisite", ACTION_OK, ACTION_IGNORE, ACTION_DIE},
        {"sufficient", ACTION_DONE, ACTION_IGNORE, ACTION_IGNORE},
        {"optional", ACTION_OK, ACTION_IGNORE, ACTION_IGNORE},
    };

    for (size_t i = 0; i < PAM_STACK_ANSWERS; i++)
        ret[i] = ACTION_UNSET;
    for (size_t i = 0; !brackets && i < ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i].name) != 0)
            continue;
        ret[PAM_STACK_SUCCESS] = words[i].success;
        ret[PAM_STACK_IGNORE] = words[i].ignore;
        fill(ret, words[i].rest);
    }
    if (brackets)
        read_values(text, type, ret);
    fill(ret, ACTION_BAD);
}

/* ---- lines ---- */

static int bad(const struct reader *reader, const struct place *place, const char *what)
{
    snprintf(reader->stack->why, sizeof reader->stack->why, "%.128s:%u: %s", place->file,
             place->number, what);
    return -EBADMSG;
}

/* A line at the end, with its place. ret: to be filled further. */
static int add(const struct reader *reader, const struct place *place, const char *module,
               const char *args, struct pam_stack_line **ret)
{
    struct pam_stack *stack = reader->stack;
    struct pam_stack_line *line;
    int r = mem_grow(&stack->lines, &stack->cap, stack->n + 1, PAM_STACK_LINES_MAX,
                     sizeof *stack->lines);

    if (r == -ENOBUFS)
        return bad(reader, place, "too many lines");
    if (r < 0)
        return r;
    line = &stack->lines[stack->n++];
    *line = (struct pam_stack_line){
        .module = strdup(module),
        .args = strdup(args),
        .file = strdup(place->file),
        .number = place->number,
        .level = reader->level,
    };
    *ret = line;
    return line->module && line->args && line->file ? 0 : -ENOMEM;
}

static int read_file(struct reader *reader, const char *name, const struct place *from);

static int include(struct reader *reader, const struct place *place, const char *name,
                   bool substack)
{
    struct pam_stack_line *line;
    int r;

    if (!*name)
        return bad(reader, place, "includes nothing");
    if (substack) {
        r = add(reader, place, "", "", &line);
        if (r < 0)
            return r;
        line->substack = true;
        reader->level++;
    }
    r = read_file(reader, name, place);
    reader->level -= substack;
    return r;
}

static int read_line(struct reader *reader, const struct place *place, char *text)
{
    char *type = next_word(&text), *control;
    struct pam_stack_line *line;
    const char *module;
    bool known = false, brackets;
    size_t len;
    int r;

    if (!*type)
        return 0;
    if (!strcasecmp(type, "@include"))
        return include(reader, place, next_word(&text), false);
    type += *type == '-';
    for (size_t i = 0; i < PAM_STACK_TYPES; i++)
        known |= !strcasecmp(type, pam_stack_word(i));
    if (!known)
        return bad(reader, place, "begins with no type that PAM knows");
    if (strcasecmp(type, pam_stack_word(reader->type)) != 0)
        return 0;
    brackets = text[strspn(text, " \t\r")] == '[';
    control = next_word(&text);
    module = next_word(&text);
    if (!brackets && (!strcasecmp(control, "include") || !strcasecmp(control, "substack")))
        return include(reader, place, module, !strcasecmp(control, "substack"));
    if (!*module)
        return bad(reader, place, "names no module");
    text += strspn(text, " \t\r");
    for (len = strlen(text); len && strchr(" \t\r", text[len - 1]);)
        text[--len] = 0;
    r = add(reader, place, module, text, &line);
    if (r == 0)
        read_control(control, brackets, reader->type, line->actions);
    return r;
}

/* from: where it is included; NULL: it is the service's own. */
static int read_file(struct reader *reader, const char *name, const struct place *from)
{
    char path[TEXT_PATH_MAX + 1];
    struct place place = {.file = path};
    auto_free char *text = NULL;
    char *rest;
    int r = 0;

    if (reader->depth >= PAM_STACK_DEPTH_MAX || reader->stack->n_files >= PAM_STACK_FILES_MAX)
        return bad(reader, from, "files include one another without an end");
    text = rest = reader->read(name, path, sizeof path, reader->arg);
    if (!text && from)
        return bad(reader, from, "includes a file that is not there");
    if (!text)
        return -ENOENT;
    reader->stack->n_files++;
    reader->depth++;
    for (char *line; r == 0; r = read_line(reader, &place, line)) {
        /* The number is that of the last of several that are one. */
        line = next_line(&rest, &place.number);
        if (!line)
            break;
    }
    reader->depth--;
    return r;
}

int pam_stack_read(struct pam_stack *ret, pam_stack_read_fn read, void *arg, const char *service,
                   enum pam_stack_type type)
{
    struct reader reader = {.stack = ret, .type = type, .read = read, .arg = arg};

    return read_file(&reader, service, NULL);
}

void pam_stack_done(struct pam_stack *stack)
{
    for (size_t i = 0; i < stack->n; i++) {
        free(stack->lines[i].module);
        free(stack->lines[i].args);
        free(stack->lines[i].file);
    }
    free(stack->lines);
    *stack = (struct pam_stack){0};
}

/* ---- what comes of it ---- */

/* What libpam has come to so far. */
struct state {
    enum { UNDECIDED, GOOD, FAILED } impression;
    bool success; /* the status that goes with it */
};

struct run {
    const struct pam_stack *stack;
    const char *ours;
    enum pam_stack_answer answer;
    struct state state, before[LEVELS_MAX]; /* each substack */
};

bool pam_stack_is(const struct pam_stack_line *line, const char *module)
{
    const char *slash = strrchr(line->module, '/');

    return !strcmp(slash ? slash + 1 : line->module, module);
}

static bool absent(const struct run *run, size_t i)
{
    const struct pam_stack_line *line = &run->stack->lines[i];

    return run->answer == PAM_STACK_ABSENT && !line->substack && pam_stack_is(line, run->ours);
}

static size_t next(const struct run *run, size_t i)
{
    for (i++; i < run->stack->n && absent(run, i); i++)
        ;
    return i;
}

/* The last line that belongs to what n jumps over, seen from i: a substack counts as one line. *ret_short: there are not so
 * many. */
static size_t jump(const struct run *run, size_t i, int n, bool *ret_short)
{
    const struct pam_stack_line *lines = run->stack->lines;
    unsigned level = lines[i].level;
    size_t k;

    for (k = next(run, i); n > 0 && k < run->stack->n && lines[k].level >= level; n--) {
        i = k;
        for (k = next(run, i); k < run->stack->n && lines[k].level > level; k = next(run, i))
            i = k;
    }
    *ret_short = n > 0;
    return i;
}

static size_t rest_of_level(const struct run *run, size_t i)
{
    unsigned level = run->stack->lines[i].level;
    size_t k;

    for (k = next(run, i); k < run->stack->n && run->stack->lines[k].level >= level;
         k = next(run, i))
        i = k;
    return i;
}

static enum pam_stack_answer answer(const struct run *run, const struct pam_stack_line *line)
{
    if (pam_stack_is(line, run->ours))
        return run->answer;
    return pam_stack_is(line, "pam_deny.so") || pam_stack_is(line, "pam_rootok.so")
               ? PAM_STACK_REFUSES
               : PAM_STACK_SUCCESS;
}

static void fail(struct state *state)
{
    *state = (struct state){.impression = FAILED};
}

/* One line; the index of the last one that is done with by that. *ret_end: it has ended its level. */
static size_t step(struct run *run, size_t i, bool *ret_end)
{
    const struct pam_stack_line *line = &run->stack->lines[i];
    enum pam_stack_answer said = answer(run, line);
    int action = line->actions[said];
    struct state *state = &run->state;
    bool cut = false;

    switch (action) {
    case ACTION_IGNORE:
        return i;
    case ACTION_RESET:
        *state = run->before[line->level];
        return i;
    case ACTION_OK:
    case ACTION_DONE:
        if (said != PAM_STACK_IGNORE &&
            (state->impression == UNDECIDED || (state->impression == GOOD && state->success))) {
            if (said == PAM_STACK_SUCCESS)
                state->impression = GOOD;
            state->success = said == PAM_STACK_SUCCESS;
        }
        *ret_end = state->impression == GOOD && action == ACTION_DONE;
        return *ret_end ? rest_of_level(run, i) : i;
    case ACTION_BAD:
    case ACTION_DIE:
        if (state->impression != FAILED)
            fail(state);
        *ret_end = action == ACTION_DIE;
        return *ret_end ? rest_of_level(run, i) : i;
    default:
        i = jump(run, i, action, &cut);
        if (cut)
            fail(state);
        return i;
    }
}

struct pam_stack_verdict pam_stack_run(const struct pam_stack *stack, const char *ours,
                                       enum pam_stack_answer answer)
{
    struct run run = {.stack = stack, .ours = ours, .answer = answer};
    struct pam_stack_verdict ret = {0};
    unsigned level = 0;

    for (size_t i = next(&run, (size_t)-1); i < stack->n; i = next(&run, i)) {
        const struct pam_stack_line *line = &stack->lines[i];
        bool end = false;

        if (line->level > level)
            run.before[line->level] = run.state;
        level = line->level;
        if (line->substack)
            continue;
        ret.asked |= pam_stack_is(line, ours);
        i = step(&run, i, &end);
        if (end)
            ret.end = line;
    }
    ret.lets_in = run.state.impression == GOOD && run.state.success;
    return ret;
}
