/* The fixed vocabulary of what keeps a uid dirty, refused or blocked. Words go over the wire and into `explain`; their
 * meaning is in docs/node.md. A word is never given another meaning. */
#ifndef XCE_NODED_REASON_H
#define XCE_NODED_REASON_H

enum reason {
    REASON_NONE = 0,
    REASON_PROCESS,            /* a process or thread bears the id, and came back after each kill */
    REASON_PROCESS_UNKILLABLE, /* killed, but it does not end */
    REASON_UNIT,               /* a unit, timer or queued job with that user */
    REASON_IPC_SHM,
    REASON_IPC_SEM,
    REASON_IPC_MSG,
    REASON_MQUEUE,
    REASON_FILE,
    REASON_FILE_IMMUTABLE, /* its immutable or append-only flag could not be cleared */
    REASON_MOUNT,          /* a mount point of that uid */
    REASON_CRON,
    REASON_AT,
    REASON_MAIL,
    REASON_LINGER,
    REASON_GROUP_MEMBER, /* a group lists the name */
    REASON_ACCOUNT, /* another NSS service has a user with that uid or name: nothing of it is touched */
    REASON_GROUP,       /* likewise a group */
    REASON_SCAN_FAILED, /* could not look */
    REASON_UNGUARDED, /* the pool's overlap check has not passed on this node: nothing is touched */
    REASON_NO_SPACE,  /* no room for the map or the epochs */
    REASON_EPOCH,     /* older than an epoch that this node has seen for the uid */
    REASON_VALIDITY,  /* nothing heard from leased for the pool's validity */
    REASON_LEFTOVER,  /* something of the uid lies around and could not be removed */
    REASON_MAP,       /* the map can not hold the record */
    REASON_UNIT_FAILED, /* a unit with that user runs nothing, but its failure can not be reset */
    REASON_CLOSED, /* admission was closed before a restart, whose reason is not known any more */
    REASON_KEYRING, /* keys of it that its own keyrings do not hold, or that their permissions keep */
    REASON_JOURNAL, /* a journal of it could not be put away, or lets it in */
    REASON_OPEN_FILE, /* a file without a name, a socket or a pipe, which a process of somebody else has open */
    REASON_LOGIN, /* failed logins, or what sudo remembers */
    REASON_PROCESS_LENT, /* a process of root acts with the id, for longer than a server's call: it is not killed */
    N_REASONS,
};

/* "process", "ipc-shm", ...; "" for none. Static. */
const char *reason_word(enum reason reason);

#endif
