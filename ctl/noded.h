/* noded of this machine, for a release that no leased can be told of. */
#ifndef XCE_CTL_NODED_H
#define XCE_CTL_NODED_H

struct ctl;
struct xce_client;

#define NODED_SOCKET "/run/xce/noded.sock"

/* A client of it; xce_client_free. socket NULL: NODED_SOCKET. An exit status. */
int noded_client(struct ctl *ctl, const char *socket, struct xce_client **ret);

#endif
