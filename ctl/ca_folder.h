/* The folder of a small CA, as `leasectl cert` keeps it:
 *
 *     ca.pem    its certificate           ca.key   its key, 0600
 *     crl.pem   the revocation list       index    one line for each certificate that was made here:
 *                                                  SERIAL KIND NAME NOT-AFTER REVOKED ("-" = not), times in RFC 3339;
 *                                                  "unknown -" for KIND NAME: revoked by its serial, and not made here
 *     lock      held while something is changed
 *
 * Every function says what is wrong on ctl, and gives an exit status. */
#ifndef XCE_CTL_CA_FOLDER_H
#define XCE_CTL_CA_FOLDER_H

#include "common/buf.h"
#include "common/cert_make.h"
#include "common/text.h"

struct ctl;

#define CA_FOLDER_DEFAULT "/etc/xce/ca"
#define CA_PATH_BUF       4200

struct ca_folder {
    const char *path;
    struct cert_ca *ca;
    char *pem; /* ca.pem, whole */
    char *index;
    int lock;
};

/* Make one; refused where there is any file of it. name: the CA's CN; NULL: one that is made of its key. */
int ca_folder_make(struct ctl *ctl, const char *path, const char *name, int64_t life_ms);

/* Open and lock. path NULL: CA_FOLDER_DEFAULT. */
int ca_folder_open(struct ctl *ctl, const char *path, struct ca_folder *ret);
void ca_folder_close(struct ca_folder *folder);

/* Whether the certificate in pem, read from path, was made by the CA, and is none of a CA. */
int ca_folder_made(struct ctl *ctl, const struct ca_folder *folder, const char *pem,
                   const char *path);

/* Note a certificate that was made. */
int ca_folder_note(struct ctl *ctl, struct ca_folder *folder, const struct cert_identity *identity);
/* Whether the index has it as revoked, and since when. */
bool ca_folder_revoked(const struct ca_folder *folder, const char *serial,
                       char ret_since[static TEXT_TIME_BUF]);
/* Mark as revoked what has that serial, and write the list anew. identity (NULL: not known) is what is noted of one that
 * the CA's key made elsewhere, as leased does. *ret_new = whether it was not revoked before. */
int ca_folder_revoke(struct ctl *ctl, struct ca_folder *folder, const char *serial,
                     const struct cert_identity *identity, bool *ret_new);
/* All that the index has of a node, and that have not ended. *ret_n = how many were not revoked before. XCE_NOT_FOUND: it has
 * none. */
int ca_folder_revoke_node(struct ctl *ctl, struct ca_folder *folder, const char *node,
                          size_t *ret_n);

/* "<folder>/<name>". Returns ret. */
char *ca_folder_file(const char *folder, const char *name, char ret[static CA_PATH_BUF]);

/* Read a PEM file. secret: a key's. */
int ca_read(struct ctl *ctl, const char *path, bool secret, char **ret);
/* Write one that must not be there yet. */
int ca_write_new(struct ctl *ctl, const char *path, const char *text, unsigned mode);

#endif
