/* Names: whatever decodes is the one name of its uid and epoch, and every way to decode agrees. Input: prefix NUL name. */
#include <stdlib.h>
#include <string.h>

#include "map/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

static void check(const char *prefix, const char *name, size_t len)
{
    uint32_t uid, epoch, same_uid, same_epoch;
    char again[NAME_BUF];
    int r = name_decode(prefix, name, len, &uid, &epoch);

    must(r == 0 || r == NAME_FOREIGN);
    if (r != 0)
        return;
    must(uid != 0 && epoch != 0);
    must(name_encode(prefix, uid, epoch, again) == len && memcmp(again, name, len) == 0);
    must(name_decode_numbers(name + strlen(prefix), len - strlen(prefix), &same_uid, &same_epoch) ==
         0);
    must(same_uid == uid && same_epoch == epoch);
    must(name_decode_uid(again + strlen(prefix), &same_uid) == 0 && same_uid == uid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t prefix_len = nul ? (size_t)(nul - data) : 0;
    size_t len = nul ? size - prefix_len - 1 : size;
    /* each in memory of its own, of just that length */
    char *prefix = calloc(1, prefix_len + 1), *text = calloc(1, len + 1),
         *name = calloc(1, len + !len);
    uint32_t uid;

    must(prefix && name && text);
    if (size > 0) {
        memcpy(prefix, data, prefix_len);
        memcpy(name, data + size - len, len);
        memcpy(text, data + size - len, len);
    }
    check("xce-", name, len);
    (void)name_decode_uid(text, &uid);
    if (name_prefix_valid(prefix)) {
        must(prefix_len >= 2 && prefix_len <= NAME_PREFIX_MAX);
        check(prefix, name, len);
    }
    free(text);
    free(name);
    free(prefix);
    return 0;
}
