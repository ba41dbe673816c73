/* What libpam makes of the files of a service: its lines of one type, includes followed; and what comes of them, if each module
 * says this or that. Pure but for the reading of files, which is the caller's.
 *
 * As in libpam: lines go on behind a backslash; "#" begins a comment; types and controls are of any case; "-" before a type only
 * keeps the log quiet; "@include FILE" and "TYPE include FILE" stand for what is in FILE, "TYPE substack FILE" too, but what is
 * decided in there ends that part alone; "[value=action ...]" may jump over lines. */
#ifndef XCE_CTL_PAM_STACK_H
#define XCE_CTL_PAM_STACK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"

enum pam_stack_type {
    PAM_STACK_AUTH,
    PAM_STACK_ACCOUNT,
    PAM_STACK_SESSION,
    PAM_STACK_PASSWORD,
    PAM_STACK_TYPES,
};

/* What a module may say, as far as it matters here. */
enum pam_stack_answer {
    PAM_STACK_SUCCESS,
    PAM_STACK_IGNORE,
    PAM_STACK_REFUSES,
    PAM_STACK_UNKNOWN, /* its file is missing */
    PAM_STACK_ANSWERS,
    PAM_STACK_ABSENT = PAM_STACK_ANSWERS, /* as if the line were not there */
};

enum {
    PAM_STACK_LINES_MAX = 4096,
    PAM_STACK_DEPTH_MAX = 16, /* files in files */
    PAM_STACK_FILES_MAX = 256,
};

struct pam_stack_line {
    char *module, *args; /* as written; args "" for none */
    char *file;
    unsigned number; /* of the line in its file */
    unsigned level;  /* of substacks */
    bool substack;   /* begins one: no module */
    int actions[PAM_STACK_ANSWERS];
};

struct pam_stack {
    struct pam_stack_line *lines;
    size_t n, cap;
    size_t n_files;
    char why[256]; /* of -EBADMSG: made for people */
};

/* The text of a service's file, or of one by its path if the name begins with "/"; NULL: there is none. The caller frees.
 * ret_path: where it was. */
typedef char *(*pam_stack_read_fn)(const char *name, char *ret_path, size_t size, void *arg);

/* The lines of that type of a service: into ret, which is empty. 0; -ENOENT there is no such file; -EBADMSG libpam would refuse
 * everybody, or what it does can not be told: see why; -ENOMEM. */
int pam_stack_read(struct pam_stack *ret, pam_stack_read_fn read, void *arg, const char *service,
                   enum pam_stack_type type);
void pam_stack_done(struct pam_stack *stack);
AUTO_DEFINE(struct pam_stack, pam_stack_done);

struct pam_stack_verdict {
    bool lets_in;
    bool asked;                       /* our module was */
    const struct pam_stack_line *end; /* the line that ended it; NULL: the last one did */
};

/* What comes of it if our module says that, pam_deny.so and pam_rootok.so refuse, and every other module is content. */
struct pam_stack_verdict pam_stack_run(const struct pam_stack *stack, const char *ours,
                                       enum pam_stack_answer answer);

/* Whether the line is of that module, by whatever path. */
bool pam_stack_is(const struct pam_stack_line *line, const char *module);

/* The type as it is written. Static. */
const char *pam_stack_word(enum pam_stack_type type);

#endif
