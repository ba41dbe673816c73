#include "tests/lib/fsm_kit_backup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/lib/fsm_kit_inner.h"

struct kit_backup kit_backup(const struct kit *kit)
{
    struct kit_backup backup;

    if (fsm_snapshot(kit->fsm, &backup.bytes, &backup.len) < 0)
        kit_die("no memory", NULL);
    return backup;
}

void kit_backup_done(struct kit_backup *backup)
{
    free(mem_take(backup->bytes));
}

enum fsm_code kit_restore(struct kit *kit, struct kit_backup *backup, char first)
{
    uint8_t incarnation[16] = "?a new incarnat";
    Xce__V1__CmdRestore restore = XCE__V1__CMD_RESTORE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    const char *why = "";

    if (fsm_restore(kit->fsm, backup->bytes, backup->len, &why) < 0 ||
        fsm_restore(kit->twin, backup->bytes, backup->len, &why) < 0)
        kit_die("the backup can not be restored", why);
    free(mem_take(backup->bytes));
    incarnation[0] = (uint8_t)first;
    restore.incarnation = (ProtobufCBinaryData){sizeof incarnation, incarnation};
    restore.gap = kit->gap;
    restore.above = kit->above;
    restore.above_lease = kit->above_lease;
    command.kind_case = XCE__V1__COMMAND__KIND_RESTORE;
    command.restore = &restore;
    return kit_apply(kit, &command);
}

struct fsm_restored kit_restored(const struct kit *kit)
{
    struct fsm_restored ret;

    fsm_get_restored(kit->fsm, &ret);
    return ret;
}

enum fsm_code kit_confirm(struct kit *kit, const char *nodes)
{
    Xce__V1__CmdConfirm confirm = XCE__V1__CMD_CONFIRM__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    ProtobufCBinaryData list[16];
    char text[256], *at = text, *name;

    snprintf(text, sizeof text, "%s", nodes);
    confirm.nodes = list;
    while (*text && (name = strsep(&at, ",")) && confirm.n_nodes < 16)
        list[confirm.n_nodes++] = kit_bytes(name);
    command.kind_case = XCE__V1__COMMAND__KIND_CONFIRM;
    command.confirm = &confirm;
    return kit_apply(kit, &command);
}

/* How many epochs were told in that session; one that is over leaves its place. */
static uint64_t *told_in(struct kit *kit, uint64_t session)
{
    size_t oldest = 0;

    for (size_t i = 0; i < ARRAY_LEN(kit->told); i++) {
        if (kit->told[i].session == session)
            return &kit->told[i].n;
        if (kit->told[i].session < kit->told[oldest].session)
            oldest = i;
    }
    kit->told[oldest].session = session;
    kit->told[oldest].n = 0;
    return &kit->told[oldest].n;
}

enum fsm_code kit_epoch(struct kit *kit, const char *node, uint32_t uid, uint32_t epoch, bool done)
{
    Xce__V1__CmdEpoch told = XCE__V1__CMD_EPOCH__INIT;
    Xce__V1__CmdEpoch *list[] = {&told};
    Xce__V1__CmdReport report = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint64_t *before = told_in(kit, kit_node(kit, node)->session);
    enum fsm_code code;

    told.uid = uid;
    told.epoch = epoch;
    report.node = kit_bytes(node);
    report.session = kit_node(kit, node)->session;
    report.n_epochs = uid != 0;
    report.epochs = list;
    report.epochs_done = done;
    report.epochs_before = *before + kit->lost;
    kit->lost = 0;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &report;
    code = kit_apply(kit, &command);
    if (code == FSM_OK)
        *before = done ? 0 : *before + report.n_epochs;
    return code;
}

void kit_come_back(struct kit *kit, const char *node, const char *machine)
{
    if (kit_hello(kit, node, machine, "boot-1", true) != FSM_OK ||
        kit_epoch(kit, node, 0, 0, true) != FSM_OK)
        kit_die("the node can not come back", kit->out.message);
    kit_watermark(kit, node, fsm_revision(kit->fsm));
}
