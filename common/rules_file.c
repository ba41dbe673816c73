#include "common/rules_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/text.h"

#define ARENA_MAX  (8u << 20)
#define METHOD_MAX 96
#define BLANKS     " \t\r"

enum section {
    SECTION_TOP,
    SECTION_ROLE,
    SECTION_BINDINGS,
};

struct parser {
    struct rules_file *file;
    enum section section;
    struct err *err;
};

/* ---- words ---- */

/* Without blanks at both ends; in place. */
static char *trim(char *text)
{
    size_t len;

    text += strspn(text, BLANKS);
    len = strlen(text);
    while (len && strchr(BLANKS, text[len - 1]))
        len--;
    text[len] = '\0';
    return text;
}

static int no_memory(struct parser *p)
{
    return err_set(p->err, -ENOMEM, "out of memory");
}

static bool is_word(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
              (text[i] >= '0' && text[i] <= '9')))
            return false;
    return len > 0;
}

static int check_method(const char *method, struct err *err)
{
    const char *slash = strchr(method, '/');

    if (!strcmp(method, "*") ||
        (slash && strlen(method) <= METHOD_MAX && is_word(method, (size_t)(slash - method)) &&
         (!strcmp(slash + 1, "*") || is_word(slash + 1, strlen(slash + 1)))))
        return 0;
    return err_set(err, -EINVAL, "%s: must be Service/Method, Service/* or *", method);
}

static const struct {
    const char *word;
    enum rules_subject subject;
} subjects[] = {{"local", RULES_LOCAL}, {"user", RULES_USER}, {"group", RULES_GROUP}};

const char *rules_subject_word(enum rules_subject subject)
{
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        if (subjects[i].subject == subject)
            return subjects[i].word;
    return "";
}

static int check_subject(enum rules_subject subject, const char *name, struct err *err)
{
    if (subject == RULES_GROUP)
        return *name ? text_require("group", name, strlen(name), TEXT_OWNER_MAX, err)
                     : err_set(err, -EINVAL, "group: is empty");
    return strcmp(name, "*") ? text_check_owner(name, strlen(name), err) : 0;
}

int rules_subject_parse(const char *text, enum rules_subject *ret, const char **ret_name,
                        struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
        size_t len = strlen(subjects[i].word);

        if (strncmp(text, subjects[i].word, len) != 0 || text[len] != ':')
            continue;
        *ret = subjects[i].subject;
        *ret_name = text + len + 1;
        return check_subject(*ret, *ret_name, err);
    }
    return err_set(err, -EINVAL, "%s: must be local:NAME, user:NAME or group:NAME", text);
}

/* ---- lines ---- */

static int begin_role(struct parser *p, const char *name, unsigned line)
{
    struct rules_file *file = p->file;
    struct rules_role *role = &file->roles[file->n_roles];

    if (text_check_pool(name, strlen(name), p->err) < 0)
        return err_prefix(p->err, -EINVAL, "role");
    for (size_t i = 0; i < file->n_roles; i++)
        if (!strcmp(file->roles[i].name, name))
            return err_set(p->err, -EINVAL, "role %s is there since line %u", name,
                           file->roles[i].line);
    if (file->n_roles == RULES_ROLES_MAX)
        return err_set(p->err, -EINVAL, "more than %d roles", RULES_ROLES_MAX);
    role->rights = pb_arena_alloc(&file->arena, RULES_RIGHTS_MAX * sizeof *role->rights);
    if (!role->rights)
        return no_memory(p);
    role->name = name;
    role->n_rights = 0;
    role->line = line;
    file->n_roles++;
    p->section = SECTION_ROLE;
    return 0;
}

static int begin_section(struct parser *p, char *text, unsigned line)
{
    size_t len = strlen(text);

    if (text[len - 1] != ']')
        return err_set(p->err, -EINVAL, "%s: a section ends with ]", text);
    text[len - 1] = '\0';
    text = trim(text + 1);
    if (!strcmp(text, "bindings")) {
        p->section = SECTION_BINDINGS;
        return 0;
    }
    if (!strncmp(text, "role", 4) && strchr(BLANKS, text[4]) && text[4])
        return begin_role(p, trim(text + 4), line);
    return err_set(p->err, -EINVAL, "[%s]: must be [role NAME] or [bindings]", text);
}

static int add_right(struct parser *p, const char *method, const char *scope, unsigned line)
{
    struct rules_role *role = &p->file->roles[p->file->n_roles - 1];
    struct rules_right *right = &role->rights[role->n_rights];

    if (check_method(method, p->err) < 0)
        return -EINVAL;
    for (size_t i = 0; i < role->n_rights; i++)
        if (!strcmp(role->rights[i].method, method))
            return err_set(p->err, -EINVAL, "%s is there since line %u", method,
                           role->rights[i].line);
    if (role->n_rights == RULES_RIGHTS_MAX)
        return err_set(p->err, -EINVAL, "role %s: more than %d rights", role->name,
                       RULES_RIGHTS_MAX);
    if (strcmp(scope, "own") != 0 && strcmp(scope, "all") != 0)
        return err_set(p->err, -EINVAL, "%s = %s: must be own or all", method, scope);
    right->method = method;
    right->all = !strcmp(scope, "all");
    right->line = line;
    role->n_rights++;
    return 0;
}

/* "a, b" into the binding's roles. */
static int split_roles(struct parser *p, char *roles, struct rules_binding *ret)
{
    ret->roles = pb_arena_alloc(&p->file->arena, RULES_BOUND_MAX * sizeof *ret->roles);
    if (!ret->roles)
        return no_memory(p);
    for (char *role; (role = strsep(&roles, ","));) {
        role = trim(role);
        if (text_check_pool(role, strlen(role), p->err) < 0)
            return err_prefix(p->err, -EINVAL, "role");
        for (size_t i = 0; i < ret->n_roles; i++)
            if (!strcmp(ret->roles[i], role))
                return err_set(p->err, -EINVAL, "role %s is there twice", role);
        if (ret->n_roles == RULES_BOUND_MAX)
            return err_set(p->err, -EINVAL, "more than %d roles", RULES_BOUND_MAX);
        ret->roles[ret->n_roles++] = role;
    }
    return 0;
}

static int add_binding(struct parser *p, const char *subject, char *roles, unsigned line)
{
    struct rules_file *file = p->file;
    struct rules_binding binding = {.line = line};
    int r = rules_subject_parse(subject, &binding.subject, &binding.name, p->err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < file->n_bindings; i++)
        if (file->bindings[i].subject == binding.subject &&
            !strcmp(file->bindings[i].name, binding.name))
            return err_set(p->err, -EINVAL, "%s is there since line %u", subject,
                           file->bindings[i].line);
    if (file->n_bindings == RULES_BINDING_MAX)
        return err_set(p->err, -EINVAL, "more than %d bindings", RULES_BINDING_MAX);
    r = split_roles(p, roles, &binding);
    if (r < 0)
        return r;
    file->bindings[file->n_bindings++] = binding;
    return 0;
}

static int set_top(struct parser *p, const char *key, const char *value)
{
    if (strcmp(key, "revision") != 0)
        return err_set(p->err, -EINVAL, "%s: stands in no section", key);
    if (p->file->has_revision)
        return err_set(p->err, -EINVAL, "revision is there twice");
    if (text_parse_u64(value, &p->file->revision, p->err) < 0)
        return err_prefix(p->err, -EINVAL, "revision");
    p->file->has_revision = true;
    return 0;
}

static int take_line(struct parser *p, char *text, unsigned line)
{
    char *equals;

    text = trim(text);
    if (!*text || *text == '#' || *text == ';')
        return 0;
    if (*text == '[')
        return begin_section(p, text, line);
    equals = strrchr(text, '=');
    if (!equals)
        return err_set(p->err, -EINVAL, "%s: there is no = in it", text);
    *equals = '\0';
    text = trim(text);
    switch (p->section) {
    case SECTION_ROLE:
        return add_right(p, text, trim(equals + 1), line);
    case SECTION_BINDINGS:
        return add_binding(p, text, equals + 1, line);
    case SECTION_TOP:
        break;
    }
    return set_top(p, text, trim(equals + 1));
}

/* ---- whole files ---- */

static int take_lines(struct parser *p, const char *name, char *text)
{
    unsigned line = 0;
    int r = 0;

    for (char *at; r == 0 && (at = strsep(&text, "\n"));) {
        r = take_line(p, at, ++line);
        if (r < 0)
            r = err_prefix(p->err, r, "%s:%u", name, line);
    }
    return r;
}

int rules_file_parse(const char *name, const char *bytes, size_t len, struct rules_file *ret,
                     struct err *err)
{
    struct parser p = {.file = ret, .err = err};
    char *copy;
    size_t at;
    int r;

    memset(ret, 0, sizeof *ret);
    pb_arena_init(&ret->arena, ARENA_MAX);
    if (len > RULES_FILE_MAX)
        return err_set(err, -EINVAL, "%s: longer than %d bytes", name, RULES_FILE_MAX);
    r = text_check_utf8(bytes, len, &at);
    if (r != 0) {
        unsigned line = 1;

        for (size_t i = 0; i < at; i++)
            line += bytes[i] == '\n';
        return err_set(err, -EINVAL, "%s:%u: %s", name, line, text_outcome_text(r));
    }
    copy = pb_arena_alloc(&ret->arena, len + 1);
    ret->roles = pb_arena_alloc(&ret->arena, RULES_ROLES_MAX * sizeof *ret->roles);
    ret->bindings = pb_arena_alloc(&ret->arena, RULES_BINDING_MAX * sizeof *ret->bindings);
    if (copy && ret->roles && ret->bindings) {
        memcpy(copy, bytes, len);
        copy[len] = '\0';
        r = take_lines(&p, name, copy);
    } else {
        r = no_memory(&p);
    }
    if (r < 0)
        rules_file_done(ret);
    return r;
}

int rules_file_read(const char *path, struct rules_file *ret, struct err *err)
{
    char *bytes;
    size_t len;
    int r = fs_read_file(AT_FDCWD, path, RULES_FILE_MAX, &bytes, &len);

    memset(ret, 0, sizeof *ret);
    if (r < 0)
        return err_set(err, r, "%s: %s", path, err_text(r));
    r = rules_file_parse(path, bytes, len, ret, err);
    free(bytes);
    return r;
}

void rules_file_done(struct rules_file *file)
{
    pb_arena_done(&file->arena);
    memset(file, 0, sizeof *file);
}
