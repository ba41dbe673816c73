/* leasectl doctor: what may be wrong with this machine. A check looks at one thing and says what it found; each finding has
 * a severity and, unless all is well, a cure. */
#ifndef XCE_CTL_DOCTOR_H
#define XCE_CTL_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map/read.h"

struct ctl;

enum severity {
    SEVERITY_OK,
    SEVERITY_NOTE,    /* worth knowing */
    SEVERITY_WARNING, /* works, but not as well or as safely as it should */
    SEVERITY_ERROR,   /* something is broken, or a guarantee does not hold */
};

struct finding {
    enum severity severity;
    const char *
        id; /* a constant: the word of its check, "-", and what it is; docs/cli-json.md has them all */
    char *message;
    char *cure; /* NULL = nothing to cure */
};

/* A range of uids of a pool, for checks of overlap. */
struct doctor_range {
    uint32_t first, last;
};

struct doctor {
    struct ctl *ctl;
    const char *root; /* "" for this machine; tests look at a folder */
    struct finding *findings;
    size_t n_findings;
    bool out_of_memory;
    /* What earlier checks have learned for later ones. */
    bool no_node; /* noded is not meant to run here */
    bool wants_userdbd;
    bool userdb_hangs; /* name services that ask it do, too */
    bool leased_answers;
    bool collides;  /* an account of this machine was told about */
    char node[256]; /* this machine's, if it is registered */
    bool have_map;
    struct map map;
    char prefix[XCE_PREFIX_LEN_MAX + 1];
    struct doctor_range ranges[XCE_RANGES_MAX];
    size_t n_ranges;
};

struct doctor_check {
    const char *name;
    void (*run)(struct doctor *doctor);
};

/* Say what was found. id: a constant. cure: NULL or a sentence. */
void doctor_found(struct doctor *doctor, enum severity severity, const char *id, const char *cure,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The length of the check's word in an id. */
size_t doctor_check_len(const char *id);

/* A file below the root, whole; NULL when it can not be read (errno says why). The caller frees. */
char *doctor_read(const struct doctor *doctor, const char *path);
/* root + path into ret. Returns ret. */
const char *doctor_path(const struct doctor *doctor, const char *path, char *ret, size_t size);

/* Whether nobody is leased here, as nobody mirrors leases. */
bool doctor_knows_no_leases(const struct doctor *doctor);

/* Where clients of systemd's user database find xce-userdbd. */
#define DOCTOR_USERDB_SOCKET "/run/systemd/userdb/io.xce.Lease"

/* Connected to a unix socket; -errno. It does not block. */
int doctor_connect(const struct doctor *doctor, const char *path);
/* Whether somebody listens there. */
bool doctor_listens(const struct doctor *doctor, const char *path);

/* The first pool range that [first, last] touches; NULL = none. */
const struct doctor_range *doctor_overlap(const struct doctor *doctor, uint32_t first,
                                          uint32_t last);
void doctor_add_range(struct doctor *doctor, uint32_t first, uint32_t last);

void doctor_done(struct doctor *doctor);

/* In the order in which they build on one another. */
extern const struct doctor_check doctor_checks[];
extern const size_t doctor_n_checks;

void doctor_check_units(struct doctor *doctor);
void doctor_check_noded(struct doctor *doctor);
void doctor_check_remnant(struct doctor *doctor);
void doctor_check_leased(struct doctor *doctor);
void doctor_check_pools(struct doctor *doctor);
void doctor_check_node(struct doctor *doctor);
void doctor_check_map(struct doctor *doctor);
void doctor_check_nsswitch(struct doctor *doctor);
void doctor_check_nss(struct doctor *doctor);
void doctor_check_nscd(struct doctor *doctor);
void doctor_check_userdb(struct doctor *doctor);
void doctor_check_pam(struct doctor *doctor);
void doctor_check_sshd(struct doctor *doctor);
void doctor_check_coredump(struct doctor *doctor);
void doctor_check_accounts(struct doctor *doctor);
void doctor_check_overlap(struct doctor *doctor);
void doctor_check_ranges(struct doctor *doctor);
void doctor_check_clock(struct doctor *doctor);
void doctor_check_permissions(struct doctor *doctor);
void doctor_check_kernel(struct doctor *doctor);

#endif
