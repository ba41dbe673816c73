/* The audit file that the settings name: for leased while it runs, and for a restore while it does not. */
#ifndef XCE_LEASED_SERVER_AUDIT_H
#define XCE_LEASED_SERVER_AUDIT_H

#include "common/err.h"

struct audit;
struct leased_settings;

/* 0, and *ret is NULL where there is to be none; -errno as audit_open, err names the setting. */
int server_audit_open(const struct leased_settings *settings, struct audit **ret, struct err *err);

#endif
