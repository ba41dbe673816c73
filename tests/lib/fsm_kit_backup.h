/* Backups of fsm_kit.h's state machine, and what its nodes tell a state that was restored. */
#ifndef XCE_TESTS_LIB_FSM_KIT_BACKUP_H
#define XCE_TESTS_LIB_FSM_KIT_BACKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/fsm.h"
#include "tests/lib/fsm_kit.h"

/* A backup, and the state becoming that again: as fsm_restore and CmdRestore. */
struct kit_backup {
    uint8_t *bytes;
    size_t len;
};
struct kit_backup kit_backup(const struct kit *kit);
/* One that may have been used up. */
void kit_backup_done(struct kit_backup *backup);
/* The backup is used up. first: of the new incarnation's bytes. */
enum fsm_code kit_restore(struct kit *kit, struct kit_backup *backup, char first);
struct fsm_restored kit_restored(const struct kit *kit);
/* "n1,n2"; "" = none named. */
enum fsm_code kit_confirm(struct kit *kit, const char *nodes);
/* The node reports that it has seen this epoch, uid 0 = none; done: and no other. */
enum fsm_code kit_epoch(struct kit *kit, const char *node, uint32_t uid, uint32_t epoch, bool done);
/* The node says hello as it did before, has no epochs but those told already, and passes. */
void kit_come_back(struct kit *kit, const char *node, const char *machine);

#endif
