/* System V IPC: shared memory, semaphores, message queues. Who made an object can not be forged, but whose it is can: IPC_SET
 * lets its owner write any uid and gid there. So it is a finding if a wanted id made it, or root, who gave it to one. What
 * anybody else gave to one goes, too, but is none: he could do that again for ever, and keep every uid from being free. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "common/mem.h"
#include "noded/sweep/ipc.h"
#include "noded/sweep/sweep.h"

struct ipc_kind {
    const char *file;
    enum reason reason;
    int (*remove)(int id); /* 0 it is gone; 1 not yet, as memory that is attached; -1 with errno */
};

/* It goes with the last process that has it attached. */
static int shm_remove(int id)
{
    struct shmid_ds now;

    if (shmctl(id, IPC_RMID, NULL) < 0)
        return -1;
    return shmctl(id, IPC_STAT, &now) == 0 && now.shm_perm.mode & SHM_DEST;
}

static int sem_remove(int id)
{
    return semctl(id, 0, IPC_RMID);
}

static int msg_remove(int id)
{
    return msgctl(id, IPC_RMID, NULL);
}

/* Where each wanted column stands, by the names in the first line: the kernel has added columns before. */
static bool columns_find(char *header, const char *id_name, int ret[static 5])
{
    static const char *const ids[] = {"uid", "gid", "cuid", "cgid"};
    char *rest = header;
    int column = 0;

    for (int i = 0; i < 5; i++)
        ret[i] = -1;
    for (char *word; (word = strsep(&rest, " \t\n")); column++) {
        if (!*word) {
            column--;
            continue;
        }
        if (strcmp(word, id_name) == 0)
            ret[4] = column;
        for (int i = 0; i < 4; i++)
            if (strcmp(word, ids[i]) == 0)
                ret[i] = column;
    }
    for (int i = 0; i < 5; i++)
        if (ret[i] < 0)
            return false;
    return true;
}

/* The five numbers of a line: uid, gid, cuid, cgid, id of the object. */
static bool line_numbers(char *line, const int columns[static 5], long long ret[static 5])
{
    int column = 0, n = 0;
    char *rest = line;

    for (char *word; (word = strsep(&rest, " \t\n"));) {
        if (!*word)
            continue;
        for (int i = 0; i < 5; i++) {
            char *end;
            if (columns[i] != column)
                continue;
            ret[i] = strtoll(word, &end, 10);
            if (*end)
                return false;
            n++;
        }
        column++;
    }
    return n == 5;
}

/* A segment that is attached outlives its removal, with the ids that it has. */
static void shm_give_back(int id)
{
    struct shmid_ds ds;

    if (shmctl(id, IPC_STAT, &ds) < 0)
        return;
    ds.shm_perm.uid = ds.shm_perm.cuid;
    ds.shm_perm.gid = ds.shm_perm.cgid;
    (void)shmctl(id, IPC_SET, &ds);
}

static bool is_gone(int error)
{
    return error == EINVAL || error == EIDRM;
}

/* Report the one that stands there, if it is wanted. */
static bool id_look(struct sweep *sweep, const struct ipc_kind *kind, long long id,
                    long long object)
{
    if (!sweep_wants(sweep, (uint32_t)id))
        return false;
    sweep_found(sweep, (uint32_t)id, kind->reason, "id %lld", object);
    return true;
}

/* What somebody gave to a wanted id. */
static void forged_end(struct sweep *sweep, const struct ipc_kind *kind,
                       const long long n[static 5])
{
    int r;

    if (!sweep->remove ||
        (!sweep_wants(sweep, (uint32_t)n[0]) && !sweep_wants(sweep, (uint32_t)n[1])))
        return;
    r = kind->remove((int)n[4]);
    if (r > 0)
        shm_give_back((int)n[4]);
    if (r >= 0) {
        sweep_removed(sweep);
    } else if (!is_gone(errno)) {
        (void)id_look(sweep, kind, n[0], n[4]);
        (void)id_look(sweep, kind, n[1], n[4]);
    }
}

static void object_look(struct sweep *sweep, const struct ipc_kind *kind,
                        const long long n[static 5])
{
    bool found = id_look(sweep, kind, n[2], n[4]);

    found |= id_look(sweep, kind, n[3], n[4]);
    if (n[2] == 0) {
        found |= id_look(sweep, kind, n[0], n[4]);
        found |= id_look(sweep, kind, n[1], n[4]);
    }
    if (!found)
        forged_end(sweep, kind, n);
    else if (sweep->remove && kind->remove((int)n[4]) == 0)
        sweep_removed(sweep);
}

static void ipc_run(struct sweep *sweep, const struct ipc_kind *kind, const char *id_name)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = NULL;
    char path[4096];
    size_t cap = 0;
    int columns[5];

    (void)snprintf(path, sizeof(path), "%s/sysvipc/%s", sweep->places->proc, kind->file);
    file = fopen(path, "re");
    if (!file) {
        if (errno != ENOENT) /* a kernel without it */
            sweep_failed(sweep, path, errno);
        return;
    }
    if (getline(&line, &cap, file) < 0 || !columns_find(line, id_name, columns)) {
        sweep_failed(sweep, path, EBADMSG);
        return;
    }
    while (getline(&line, &cap, file) > 0) {
        long long numbers[5];
        if (line_numbers(line, columns, numbers))
            object_look(sweep, kind, numbers);
        else
            sweep_failed(sweep, path, EBADMSG);
    }
    if (ferror(file))
        sweep_failed(sweep, path, EIO);
}

void ipc_sysv_look(struct sweep *sweep)
{
    ipc_run(sweep, &(struct ipc_kind){"shm", REASON_IPC_SHM, .remove = shm_remove}, "shmid");
    ipc_run(sweep, &(struct ipc_kind){"sem", REASON_IPC_SEM, .remove = sem_remove}, "semid");
    ipc_run(sweep, &(struct ipc_kind){"msg", REASON_IPC_MSG, .remove = msg_remove}, "msqid");
}
