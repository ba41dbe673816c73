/* Backups of the state, and what the world is like when one is restored: decision 14. */
#include <stdlib.h>

#include "common/mem.h"
#include "tests/sim/world.h"

/* Refused while nodes are not confirmed (service/cluster.c): then the backup before is the one to keep. */
void backup_make(struct world *w, const struct fsm *fsm)
{
    struct fsm_restored restored;

    fsm_get_restored(fsm, &restored);
    if (restored.waits)
        return;
    free(w->backup);
    if (fsm_snapshot(fsm, &w->backup, &w->backup_len) < 0)
        abort();
    say(w, "a backup is made");
}

/* All replicas are lost, with all that came after the backup. What was said to them is lost, too; nodes live on. */
void backup_restore(struct world *w)
{
    const char *why = "";

    say(w, "the backup is restored");
    if (fsm_restore(w->fsm, w->backup, w->backup_len, &why) < 0)
        violated(w, "a backup does not restore: %s", why);
    world_forget_messages(w);
    truth_restored(w);
    client_restored(w);
    for (int n = 0; n < SIM_NODES; n++)
        node_restored(w, &w->nodes[n]);
}

size_t backup_command(struct world *w, uint8_t bytes[static BACKUP_COMMAND_MAX])
{
    Xce__V1__CmdRestore restore = XCE__V1__CMD_RESTORE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t incarnation[16];

    for (size_t i = 0; i < sizeof(incarnation); i++)
        incarnation[i] = (uint8_t)roll(w, 256);
    restore.incarnation = (ProtobufCBinaryData){sizeof(incarnation), incarnation};
    /* In the product the clock makes gaps differ. */
    restore.gap = (uint32_t)(1024 + (w->incarnation - 1) * SIM_EPOCHS);
    command.kind_case = XCE__V1__COMMAND__KIND_RESTORE;
    command.restore = &restore;
    return xce__v1__command__pack(&command, bytes);
}

void backup_behave(struct world *w)
{
    if (chance(w, 5))
        client_confirm(w);
    if (w->backup && chance(w, 3)) /* some of which the backup does not know */
        client_pool(w);
    /* Nodes that are given up, and come late after all. */
    if (w->incarnation && chance(w, 4))
        node_verbs(w, &w->nodes[roll(w, SIM_NODES)]);
}
