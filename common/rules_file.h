/* Rules for people: who may do what, as a file. Read by leased (RbacSeed=) and by leasectl rbac apply, written by
 * leasectl rbac show.
 *
 *     # comment                          (also with ";"; only whole lines)
 *     revision = 12                      at the top, or not at all: the rules that these replace
 *     [role look]                        a role of one's own
 *     LeaseService/Get = own
 *     NodeService/List = all
 *     [bindings]                         SUBJECT = ROLE, ROLE
 *     local:alice = user
 *     user:alice = look, operator
 *     group:Physics Dept. = scheduler
 *
 * A right is for a method ("Service/Method"), or with an asterisk for all methods of a service, or for all there are; an
 * asterisk for all local users, or all users, too. The last "=" of a line divides it. Form, names and limits are checked
 * here, each error with its line; whether roles and methods exist is leased's to say. One thread per object. */
#ifndef XCE_COMMON_RULES_FILE_H
#define XCE_COMMON_RULES_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/pb.h"

#define RULES_FILE_MAX    (1 << 20) /* bytes */
#define RULES_ROLES_MAX   64
#define RULES_RIGHTS_MAX  256  /* of a role */
#define RULES_BINDING_MAX 1024 /* bindings */
#define RULES_BOUND_MAX   16   /* roles of a binding */

enum rules_subject {
    RULES_LOCAL = 1,
    RULES_USER = 2,
    RULES_GROUP = 3,
};

struct rules_right {
    const char *method;
    bool all; /* else own */
    unsigned line;
};

struct rules_role {
    const char *name;
    struct rules_right *rights;
    size_t n_rights;
    unsigned line;
};

struct rules_binding {
    enum rules_subject subject;
    const char *name; /* "*" = everybody of the kind; not of a group */
    const char **roles;
    size_t n_roles;
    unsigned line;
};

struct rules_file {
    bool has_revision;
    uint64_t revision;
    struct rules_role *roles;
    size_t n_roles;
    struct rules_binding *bindings;
    size_t n_bindings;
    struct pb_arena arena; /* holds all of it */
};

/* Read bytes that stand in a file called name. 0; -EINVAL, err "NAME:LINE: ..."; -ENOMEM. ret is empty on failure. */
int rules_file_parse(const char *name, const char *bytes, size_t len, struct rules_file *ret,
                     struct err *err);
/* Read a file. Errors as above, and -errno, err names the path. */
int rules_file_read(const char *path, struct rules_file *ret, struct err *err);
void rules_file_done(struct rules_file *file);

/* "local", "user", "group". Static. */
const char *rules_subject_word(enum rules_subject subject);
/* "user:alice" into its parts, name within text. 0; -EINVAL with err. */
int rules_subject_parse(const char *text, enum rules_subject *ret, const char **ret_name,
                        struct err *err);

#endif
