/* What libpam calls: pam_xce.so, pam_sm_*(3). It keeps everybody but its job away from a leased uid; check.h says who comes
 * in. The manual is pam_xce(8).
 *
 *   who            auth, password   account        session open    setcred       session close, setcred delete
 *   foreign        IGNORE           IGNORE         IGNORE          IGNORE        IGNORE
 *   allowed        IGNORE           SUCCESS        SUCCESS, XCE_*  SUCCESS       SUCCESS
 *   refused        AUTH_ERR,        PERM_DENIED    PERM_DENIED     CRED_ERR      (never got in) IGNORE
 *                  AUTHTOK_ERR
 *
 * Who has no name (PAM_USER) is refused, for he can not be shown to be foreign; auth asks for one, as each module does, and
 * says PAM_INCOMPLETE while an application that lives by events has no answer yet.
 *
 * Nobody is ever let in by auth: a lease has no password, so all that can be said of it is that there is nothing against it.
 * Closing decides nothing: it runs when the lease may be over already, and as the leased uid (in systemd's case).
 *
 * A guest in a foreign process: it keeps nothing between calls but a mark in PAM's own data, no descriptor and no mapping. No
 * thread, lock, environment, socket, abort or allocation of its own; what libpam does for it (pam_syslog, pam_putenv, the
 * account by pam_modutil_getpwnam) libpam answers for. The path of the map is fixed when it is built. */
#ifndef XCE_PAM_PAM_XCE_H
#define XCE_PAM_PAM_XCE_H

#include <security/pam_modules.h>

#define XCE_EXPORT __attribute__((visibility("default")))

/* Arguments as in pam_sm_authenticate(3) and its like; argv is that of check_argument, and what can not be read is said in
 * the log and left at its default. PAM_SILENT: the user is told nothing. */
XCE_EXPORT int pam_sm_authenticate(pam_handle_t *pamh, int flags, int argc, const char **argv);
XCE_EXPORT int pam_sm_setcred(pam_handle_t *pamh, int flags, int argc, const char **argv);
XCE_EXPORT int pam_sm_acct_mgmt(pam_handle_t *pamh, int flags, int argc, const char **argv);
XCE_EXPORT int pam_sm_open_session(pam_handle_t *pamh, int flags, int argc, const char **argv);
XCE_EXPORT int pam_sm_close_session(pam_handle_t *pamh, int flags, int argc, const char **argv);
XCE_EXPORT int pam_sm_chauthtok(pam_handle_t *pamh, int flags, int argc, const char **argv);

#endif
