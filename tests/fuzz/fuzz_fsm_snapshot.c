/* The inside of snapshots: frame and checksum are made right, so that every input gets to the decoder. What it takes is a
 * whole state, and comes through another snapshot unchanged. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/mem.h"
#include "leased/fsm/fsm.h"
#include "leased/fsm/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void put(uint8_t *at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void through_another(const struct fsm *fsm)
{
    struct fsm *again = NULL;
    uint8_t *bytes;
    size_t len;

    must(fsm_verify(fsm) == NULL);
    must(fsm_snapshot(fsm, &bytes, &len) == 0 && fsm_new(&again) == 0);
    must(fsm_restore(again, bytes, len, NULL) == 0);
    must(fsm_digest(again) == fsm_digest(fsm));
    fsm_free(again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len = SNAPSHOT_HEAD + size;
    uint8_t *bytes = mem_must_alloc(len);
    struct fsm *fsm;

    memcpy(bytes, SNAPSHOT_MAGIC, 8);
    put(bytes + 8, SNAPSHOT_VERSION, 4);
    put(bytes + 16, size, 8);
    if (size)
        memcpy(bytes + SNAPSHOT_HEAD, data, size);
    put(bytes + 12, digest_crc32c(0, bytes + SNAPSHOT_CRC_FROM, len - SNAPSHOT_CRC_FROM), 4);
    must(fsm_new(&fsm) == 0);
    if (fsm_restore(fsm, bytes, len, NULL) == 0)
        through_another(fsm);
    fsm_free(fsm);
    free(bytes);
    return 0;
}
