/* How a certificate is shown. */
#ifndef XCE_CTL_VIEW_CERT_H
#define XCE_CTL_VIEW_CERT_H

#include "common/cert_make.h"

struct ctl;

struct view_cert {
    const struct cert_identity *identity;
    unsigned uses;
    const char *issuer;
    const char *file, *key; /* NULL = none to name */
};

/* One certificate, all of it. An exit status. */
int view_cert(struct ctl *ctl, const struct view_cert *cert);
/* The same of one that has just been written. */
int view_cert_pem(struct ctl *ctl, const char *pem, const char *file, const char *key);

#endif
