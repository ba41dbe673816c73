#include "noded/reason.h"

#include <stddef.h>

const char *reason_word(enum reason reason)
{
    static const char *const words[N_REASONS] = {
        [REASON_NONE] = "",
        [REASON_PROCESS] = "process",
        [REASON_PROCESS_UNKILLABLE] = "process-unkillable",
        [REASON_UNIT] = "unit",
        [REASON_IPC_SHM] = "ipc-shm",
        [REASON_IPC_SEM] = "ipc-sem",
        [REASON_IPC_MSG] = "ipc-msg",
        [REASON_MQUEUE] = "mqueue",
        [REASON_FILE] = "file",
        [REASON_FILE_IMMUTABLE] = "file-immutable",
        [REASON_MOUNT] = "mount",
        [REASON_CRON] = "cron",
        [REASON_AT] = "at",
        [REASON_MAIL] = "mail",
        [REASON_LINGER] = "linger",
        [REASON_GROUP_MEMBER] = "group-member",
        [REASON_ACCOUNT] = "account",
        [REASON_GROUP] = "group",
        [REASON_SCAN_FAILED] = "scan-failed",
        [REASON_UNGUARDED] = "unguarded",
        [REASON_NO_SPACE] = "no-space",
        [REASON_EPOCH] = "epoch",
        [REASON_VALIDITY] = "validity",
        [REASON_LEFTOVER] = "leftover",
        [REASON_MAP] = "map",
        [REASON_UNIT_FAILED] = "unit-failed",
        [REASON_CLOSED] = "closed",
        [REASON_KEYRING] = "keyring",
        [REASON_JOURNAL] = "journal",
        [REASON_OPEN_FILE] = "open-file",
        [REASON_LOGIN] = "login",
        [REASON_PROCESS_LENT] = "process-lent",
    };
    return (unsigned)reason < N_REASONS && words[reason] ? words[reason] : "";
}
