/* Who asks: the one notion of identity behind the rpc layer. A value; copying it is fine. */
#ifndef XCE_LEASED_RBAC_PRINCIPAL_H
#define XCE_LEASED_RBAC_PRINCIPAL_H

#include <stdbool.h>
#include <stdint.h>

#define PRINCIPAL_KEY_MAX  64
#define PRINCIPAL_NAME_MAX 255

struct principal {
    /* Unique and stable: "uid:1000". Request ids are kept under it. */
    char key[PRINCIPAL_KEY_MAX];
    /* For people; "#1000" where no service names the uid. */
    char name[PRINCIPAL_NAME_MAX + 1];
    uint32_t uid, gid;
    /* On this machine, by the kernel's word: "the calling machine" is this one. */
    bool local;
};

/* The principal of a process on our unix socket. name NULL or empty: "#<uid>". */
void principal_from_peer(uint32_t uid, uint32_t gid, const char *name, struct principal *ret);

#endif
