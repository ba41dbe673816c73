/* Whether somebody else has an account, a group, or an id map where a lease would be: asked of every name service of this
 * machine but our own.
 *
 * NSS modules are foreign code that may hang, leak or crash, so they live in a process of their own (collide_serve), which
 * its parent ends when it does not answer. This header has its inside and the form of its packets; noded/accounts.h
 * is the parent's side. */
#ifndef XCE_NODED_COLLIDE_H
#define XCE_NODED_COLLIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map/name.h"

#define COLLIDE_UIDS_MAX    256 /* in one question; each has at most one answer */
#define COLLIDE_ANSWERS_MAX 256
#define COLLIDE_DETAIL_MAX  96

enum collide_kind {
    COLLIDE_UIDS = 1, /* each uid, its gid, and the name that epoch gives it (epoch 0: no name) */
    /* uids[0].uid..uids[1].uid: every entry that can be listed, id maps, login.defs */
    COLLIDE_RANGE = 2,
    COLLIDE_RANGE_FILES = 3, /* the same without services that may take long */
    /* the name of whose account uids[0].uid is, as getpwuid has it: the detail of the one answer; none = nobody's */
    COLLIDE_NAME = 4,
};

/* A packet each way, in the machine's form. */
struct collide_question {
    uint32_t kind, serial, n;
    char prefix[NAME_PREFIX_MAX + 4];
    struct collide_uid {
        uint32_t uid, epoch;
    } uids[COLLIDE_UIDS_MAX];
};

struct collide_answer {
    uint32_t serial;
    uint32_t n;     /* answers here; a uid without one is nobody's */
    uint32_t total; /* found; above n: more than fit */
    struct collide_found {
        uint32_t uid;
        uint32_t reason; /* REASON_ACCOUNT, REASON_GROUP, REASON_GROUP_MEMBER, REASON_SCAN_FAILED */
        uint32_t whole;  /* 1: not this uid alone, a whole range overlaps (id maps, login.defs) */
        char detail[COLLIDE_DETAIL_MAX];
    } found[COLLIDE_ANSWERS_MAX];
};

/* Where the lists are; tests give others. */
struct collide_files {
    const char *nsswitch, *passwd, *group, *subuid, *subgid, *login_defs;
    const char *providers; /* sockets that nss-systemd asks */
    const char *userdb[6]; /* static records of systemd-userdbd, ends with NULL */
};
extern const struct collide_files collide_files_default;

/* Answer questions on the socket until it ends; for main of the child process. Does not return before that. */
void collide_serve(int socket, const struct collide_files *files);

/* ---- inside ---- */

/* Answer one question; the services must have been configured. */
void collide_ask(const struct collide_question *question, const struct collide_files *files,
                 struct collide_answer *ret);
/* The part of it that reads id maps and login.defs. */
void collide_maps(uint32_t first, uint32_t last, const struct collide_files *files,
                  struct collide_answer *ret);
/* Users, or groups, of each uid, or all that are listed in a range, asked of each of these services (as name_services gives
 * them). One that is not installed, or lists nothing, has nobody; one that does not answer may have anybody:
 * REASON_SCAN_FAILED, of a range for its first uid. */
void collide_services_ask(const char *services, bool groups,
                          const struct collide_question *question, struct collide_answer *ret);
/* Whether another service than ours answered by that name: nss-systemd shows our own leases, too. */
bool collide_is_foreign(const char *prefix, const char *name, uint32_t uid);
/* The name that is asked about; ret: NAME_BUF bytes. false = none is. */
bool collide_name(const char *prefix, const struct collide_uid *q, char *ret);
/* A second finding about the same uid is left out; but who has it says more than that somebody was not to be asked. */
void collide_add(struct collide_answer *answer, uint32_t uid, unsigned reason, bool whole,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
