/* The reader of the map over a map that anything may have been done to, and over plain bytes. Whatever it finds is whole. */
#include <stdlib.h>

#include "map/read.h"
#include "tests/fuzz/map_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

static void check_entry(const struct map_entry *e, uint32_t uid)
{
    must(map_named(e) && e->record.uid == uid && e->record.gid == uid);
    must(strlen(map_name(e)) <= XCE_NAME_LEN_MAX && strlen(map_gecos(e)) <= XCE_GECOS_LEN_MAX);
    must(map_home(e) + strlen(map_home(e)) < e->pair.text + sizeof(e->pair.text));
    must(map_shell(e) + strlen(map_shell(e)) < e->pair.text + sizeof(e->pair.text));
    for (uint32_t i = 0; i < e->record.n_gids; i++)
        must(map_gids(e)[i] != 0 && map_gids(e)[i] != UINT32_MAX);
}

static void look(const struct map *map)
{
    const unsigned want = MAP_WANT_PAIR | MAP_WANT_GIDS;
    struct map_status status;
    struct map_entry e;
    char name[NAME_BUF];
    uint32_t next = 0;

    (void)map_fault(map->base, map->size);
    map_status(map, &status);
    for (uint32_t uid = IMAGE_BASE - 2; uid < IMAGE_BASE + 110; uid++) {
        if (map_find_uid(map, uid, want, &e) == 0)
            check_entry(&e, uid);
        (void)map_find_uid(map, uid, want | MAP_WANT_ANY, &e);
        (void)name_encode("xce-", uid, 1 + uid % 100, name);
        if (map_find_name(map, name, want, &e) == 0)
            must(strcmp(map_name(&e), name) == 0);
    }
    for (int i = 0; i < 1000 && map_next(map, next, want, &e) == 0; i++) {
        must(e.record.uid >= next);
        check_entry(&e, e.record.uid);
        next = e.record.uid + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char sound[IMAGE_BYTES] __attribute__((aligned(64)));
    size_t bytes = size > 0 && (data[0] & 0x80) ? size - 1 : IMAGE_BYTES;
    char *image;

    if (sound[0] == 0)
        image_make(sound);
    if (bytes < XCE_MAP_PAGE)
        bytes = XCE_MAP_PAGE;
    /* just as long as it is said to be, so that a sanitizer sees each byte too far */
    image = aligned_alloc(64, (bytes + 63) / 64 * 64);
    must(image != NULL);
    memset(image, 0, (bytes + 63) / 64 * 64);
    if (size > 0 && (data[0] & 0x80)) {
        memcpy(image, data + 1, size - 1);
    } else {
        memcpy(image, sound, IMAGE_BYTES);
        image_change(image, data, size);
    }
    look(&(struct map){image, (bytes + 63) / 64 * 64});
    free(image);
    return 0;
}
