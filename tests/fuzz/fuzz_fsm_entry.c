/* Log entries and commands out of foreign hands, applied to a state that holds leases. Pieces of the input: a length (two
 * bytes, little-endian), a kind (one byte), the bytes. Kind 0 is an entry as it is; others are a Command, put into an entry
 * so many seconds later. The kit recounts the state after each, and carries it through a twin and a snapshot. */
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/command.h"
#include "tests/lib/fsm_kit.h"

#define PIECES_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apply_piece(struct kit *kit, uint8_t kind, const uint8_t *bytes, size_t len)
{
    if (kind == 0) {
        (void)kit_apply_bytes(kit, bytes, len);
        return;
    }
    kit->now_ms += kind * 1000;
    command_entry_begin(&kit->entry, kit->now_ms, 0);
    command_entry_append(&kit->entry, bytes, len);
    if (command_entry_finish(&kit->entry) == 0)
        (void)kit_apply_bytes(kit, (const uint8_t *)kit->entry.data, kit->entry.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kit kit;

    kit_start(&kit, 8, 2);
    kit_active(&kit, "n1,n2");
    for (int i = 0; i < PIECES_MAX && size >= 3; i++) {
        size_t len = (size_t)data[0] | (size_t)data[1] << 8;
        uint8_t kind = data[2];

        data += 3;
        size -= 3;
        if (len > size)
            len = size;
        apply_piece(&kit, kind, data, len);
        data += len;
        size -= len;
    }
    kit_done(&kit);
    return 0;
}
