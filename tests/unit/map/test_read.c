/* The reader over files that are not as they should be: it answers as before, or not at all, and reads nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "map/name.h"
#include "tests/lib/map_fixture.h"

#define BASE  FIXTURE_BASE
#define UID_A BASE
#define UID_B (BASE + 5)
#define UID_C (BASE + 1003)

/* A map with three leases, as bytes that end where readable memory ends. */
struct image {
    struct map_fixture f;
    size_t size;
    char *bytes;    /* to damage */
    char *original; /* not to */
    struct map map;
    struct map_entry expect[3];
};

static const uint32_t uids[3] = {UID_A, UID_B, UID_C};

static char *guarded(size_t size)
{
    size_t room = (size + 4095) / 4096 * 4096;
    char *at = mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    assert_int_equal(mprotect(at + room, 4096, PROT_NONE), 0);
    return at;
}

static int setup(void **state)
{
    static const uint32_t gids[] = {7, 77, 777, 7777};
    const struct map_span ranges[] = {{BASE, BASE + 7}, {BASE + 1000, BASE + 1007}};
    const struct map_shape shape = {"xce-", ranges, 2};
    struct image *image = calloc(1, sizeof(*image));
    struct map_lease lease = fixture_lease(UID_C, 99);

    fixture_begin(&image->f);
    fixture_start(&image->f);
    assert_int_equal(map_writer_shape(image->f.writer, &shape), MAP_REPLACED);
    fixture_set(&image->f, UID_A, 1);
    fixture_set(&image->f, UID_B, 1000000);
    lease.gids = gids;
    lease.n_gids = 4;
    assert_int_equal(map_writer_set(image->f.writer, &lease), 0);
    image->size = map_writer_map(image->f.writer)->size;
    image->original = guarded(image->size);
    image->bytes = guarded(image->size);
    memcpy(image->original, map_writer_map(image->f.writer)->base, image->size);
    memcpy(image->bytes, image->original, image->size);
    image->map = (struct map){image->bytes, image->size};
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            map_find_uid(&image->map, uids[i], MAP_WANT_PAIR | MAP_WANT_GIDS, &image->expect[i]),
            0);
    *state = image;
    return 0;
}

static int teardown(void **state)
{
    struct image *image = *state;

    assert_int_equal(munmap(image->bytes, image->size + 4096), 0);
    assert_int_equal(munmap(image->original, image->size + 4096), 0);
    fixture_end(&image->f);
    free(image);
    return 0;
}

static bool same(const struct map_entry *a, const struct map_entry *b)
{
    return memcmp((const char *)&a->record + 4, (const char *)&b->record + 4, 116) == 0 &&
           strcmp(map_home(a), map_home(b)) == 0 && strcmp(map_shell(a), map_shell(b)) == 0 &&
           memcmp(map_gids(a), map_gids(b), 4 * a->record.n_gids) == 0;
}

static const struct map_entry *expected(const struct image *image, uint32_t uid)
{
    for (int i = 0; i < 3; i++)
        if (uids[i] == uid)
            return &image->expect[i];
    return NULL;
}

/* Every kind of look-up: an answer must be the right one. How many there were. */
static int look_everywhere(const struct image *image, const char *what, size_t where)
{
    const unsigned want = MAP_WANT_PAIR | MAP_WANT_GIDS;
    struct map_status status;
    struct map_entry e;
    uint32_t next = 0;
    int answers = 0;

    for (int i = 0; i < 3; i++) {
        if (map_find_uid(&image->map, uids[i], want, &e) == 0) {
            if (!same(&e, &image->expect[i]))
                fail_msg("%s %zu: a wrong answer by uid", what, where);
            answers++;
        }
        if (map_find_name(&image->map, map_name(&image->expect[i]), want, &e) == 0 &&
            !same(&e, &image->expect[i]))
            fail_msg("%s %zu: a wrong answer by name", what, where);
    }
    for (uint32_t uid = BASE + 1; uid < BASE + 5; uid++)
        if (map_find_uid(&image->map, uid, want, &e) == 0)
            fail_msg("%s %zu: an answer for a uid without lease", what, where);
    while (map_next(&image->map, next, want, &e) == 0) {
        if (!expected(image, e.record.uid) || !same(&e, expected(image, e.record.uid)))
            fail_msg("%s %zu: a wrong entry in a walk", what, where);
        if (e.record.uid < next)
            fail_msg("%s %zu: the walk goes back", what, where);
        next = e.record.uid + 1;
    }
    map_status(&image->map, &status);
    return answers;
}

static void flip(struct image *image, size_t bit)
{
    image->bytes[bit / 8] ^= (char)(1 << bit % 8);
}

static void read_any_flipped_bit_of_the_header_is_harmless(void **state)
{
    struct image *image = *state;
    size_t fixed = offsetof(struct xce_map_header, check) + 8;

    assert_null(map_fault(image->bytes, image->size));
    for (size_t bit = 0; bit < (size_t)XCE_MAP_PAGE * 8; bit++) {
        flip(image, bit);
        if (bit / 8 < fixed && !map_fault(image->bytes, image->size) &&
            !map_superseded(&image->map))
            fail_msg("bit %zu of the header does not show", bit);
        (void)look_everywhere(image, "header bit", bit);
        flip(image, bit);
    }
    assert_int_equal(look_everywhere(image, "mended", 0), 3);
}

static void read_any_flipped_bit_of_a_record_is_not_found(void **state)
{
    struct image *image = *state;
    const struct xce_map_header *header = (const void *)image->bytes;
    size_t at = header->records_at + 5 * sizeof(struct xce_map_record);

    for (size_t bit = at * 8; bit < (at + sizeof(struct xce_map_record)) * 8; bit++) {
        struct map_entry e;

        flip(image, bit);
        if (map_find_uid(&image->map, UID_B, 0, &e) == 0)
            fail_msg("bit %zu of the record does not show", bit - at * 8);
        assert_int_equal(look_everywhere(image, "record bit", bit - at * 8), 2);
        flip(image, bit);
    }
    assert_int_equal(look_everywhere(image, "mended", 0), 3);
}

static void read_any_flipped_bit_of_homes_and_gids_is_harmless(void **state)
{
    struct image *image = *state;
    const struct xce_map_header *header = (const void *)image->bytes;
    size_t pair = header->pairs_at, block = header->blocks_at;

    for (size_t bit = pair * 8; bit < (pair + sizeof(struct xce_map_pair)) * 8; bit++) {
        flip(image, bit);
        (void)look_everywhere(image, "pair bit", bit - pair * 8);
        flip(image, bit);
    }
    for (size_t bit = block * 8; bit < (block + XCE_MAP_BLOCK) * 8; bit++) {
        flip(image, bit);
        assert_in_range(look_everywhere(image, "block bit", bit - block * 8), 2, 3);
        flip(image, bit);
    }
    /* what the checks cover: home, shell, gids */
    flip(image, (pair + 16) * 8);
    flip(image, (block + 8) * 8);
    assert_int_equal(look_everywhere(image, "flipped", 0), 0);
}

static void read_ends_where_the_mapping_ends(void **state)
{
    struct image *image = *state;
    struct map whole = image->map;

    for (size_t size = XCE_MAP_PAGE; size < image->size; size += 4096) {
        char *part = guarded(size);

        memcpy(part, image->original, size);
        image->map = (struct map){part, size};
        assert_string_equal(map_fault(part, size), "is damaged: size");
        (void)look_everywhere(image, "cut at", size);
        assert_int_equal(munmap(part, size + 4096), 0);
    }
    image->map = whole;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Words of the header, set to numbers that offsets and lengths go wrong with; every one alone, and many together. */
static void read_wild_numbers_are_harmless(void **state)
{
    static const uint64_t wild[] = {0,          1,          0x7f,       0xff,
                                    0xffff,     0x7fffffff, 0x80000000, UINT32_MAX,
                                    UINT64_MAX, INT64_MAX,  4095,       UINT64_MAX - 127};
    struct image *image = *state;
    const struct xce_map_header *header = (const void *)image->original;
    const size_t parts[][2] = {{0, XCE_MAP_PAGE},
                               {header->records_at, 16 * sizeof(struct xce_map_record)},
                               {header->pairs_at, sizeof(struct xce_map_pair)},
                               {header->blocks_at, XCE_MAP_BLOCK}};
    uint64_t seed = 88172645463325252u;

    for (size_t p = 0; p < 4; p++) {
        for (size_t at = parts[p][0]; at < parts[p][0] + parts[p][1]; at += 4) {
            for (size_t k = 0; k < sizeof(wild) / sizeof(wild[0]); k++) {
                memcpy(image->bytes + at, &wild[k], 4 + 4 * (at % 8 == 0));
                (void)look_everywhere(image, "word", at);
                memcpy(image->bytes + at, image->original + at, 8);
            }
        }
    }
    for (int i = 0; i < 20000; i++) {
        for (int k = 0; k < 8; k++) {
            size_t p = next_random(&seed) % 4;
            size_t at = parts[p][0] + next_random(&seed) % (parts[p][1] / 8) * 8;
            uint64_t word = next_random(&seed) >> next_random(&seed) % 64;

            memcpy(image->bytes + at, &word, 8);
        }
        (void)look_everywhere(image, "round", (size_t)i);
        memcpy(image->bytes, image->original, image->size);
    }
}

static void read_record_that_stays_odd_is_not_found_in_short_time(void **state)
{
    struct image *image = *state;
    struct xce_map_header *header = (void *)image->bytes;
    struct xce_map_record *record = (void *)(image->bytes + header->records_at);
    struct map_entry e;
    struct timespec from, to;

    record->seq |= 1;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &from), 0);
    assert_int_equal(map_find_uid(&image->map, UID_A, 0, &e), -EAGAIN);
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &to), 0);
    assert_true(to.tv_sec - from.tv_sec < 20);
    /* an intent that is for another record, or is damaged, does not help */
    header->intent_target = 1u << 31;
    assert_int_equal(map_find_uid(&image->map, UID_A, 0, &e), -EAGAIN);
    header->intent_target = 7ull << 32 | 1;
    assert_int_equal(map_find_uid(&image->map, UID_A, 0, &e), -EBADMSG);
}

static void read_f18_f19_foreign_ids_and_names(void **state)
{
    static const uint32_t foreign[] = {
        0,        1,        999,        1000,        65534,          65535,
        BASE - 1, BASE + 8, BASE + 999, BASE + 1008, UINT32_MAX - 1, UINT32_MAX};
    static const char *const names[] = {"",     "x",    "root",  "nobody", "x.y",     "a/b",
                                        "a:b",  "a\nb", "xce",   "xce-",   "xce-0",   "xce-\xff",
                                        "4711", "-1",   "0x1f4", "xcex-1", "\xc3\xa9"};
    struct image *image = *state;
    struct map_entry e;

    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        assert_int_equal(map_find_uid(&image->map, foreign[i], 0, &e), MAP_FOREIGN);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(map_find_name(&image->map, names[i], 0, &e), MAP_FOREIGN);
    /* a name of our form, but of no range */
    assert_int_equal(map_find_name(&image->map, "xce-zz-1", 0, &e), MAP_ABSENT);
    assert_int_equal(map_find_name(&image->map, "xce-1w00001-1", 0, &e), MAP_ABSENT);
}

static void read_every_uid_of_many_ranges(void **state)
{
    struct map_span ranges[XCE_RANGES_MAX];
    struct map_shape shape = {"xce-", ranges, 0};
    struct map_fixture f;
    struct map_entry e;

    (void)state;
    fixture_begin(&f);
    fixture_start(&f);
    for (uint32_t n = 0; n <= XCE_RANGES_MAX; n++) {
        uint32_t last = BASE + 10 * n;

        /* in descending order; the file has them ascending */
        for (uint32_t i = 0; i < n; i++)
            ranges[n - 1 - i] = (struct map_span){BASE + 10 * i, BASE + 10 * i + i % 9};
        shape.n_ranges = n;
        assert_int_equal(map_writer_shape(f.writer, &shape), MAP_REPLACED);
        for (uint32_t uid = BASE - 1; uid < last + 1; uid++) {
            bool in = uid >= BASE && uid < last && (uid - BASE) % 10 <= (uid - BASE) / 10 % 9;

            if (map_covers(map_writer_map(f.writer), uid) != in)
                fail_msg("%u ranges: uid base+%d", n, (int)(uid - BASE));
            if (in)
                fixture_set(&f, uid, n);
            assert_int_equal(map_find_uid(map_writer_map(f.writer), uid, 0, &e),
                             in ? 0 : MAP_FOREIGN);
        }
    }
    fixture_end(&f);
}

static void read_walk_sees_each_lease_once_in_order(void **state)
{
    struct image *image = *state;
    struct map_entry e;
    uint32_t next = 0, n = 0;

    while (map_next(&image->map, next, MAP_WANT_PAIR, &e) == 0) {
        assert_int_equal(e.record.uid, uids[n++]);
        assert_string_equal(map_home(&e), "/nonexistent");
        next = e.record.uid + 1;
    }
    assert_int_equal(n, 3);
    assert_int_equal(map_next(&image->map, UINT32_MAX, 0, &e), MAP_ABSENT);
    assert_int_equal(map_next(&image->map, BASE + 1000, 0, &e), 0);
    assert_int_equal(e.record.uid, UID_C);
}

static void refused(const char *path, int error, const char *why)
{
    struct map map;
    const char *said = "";

    assert_int_equal(map_open(path, &map, NULL, &said), error);
    assert_string_equal(said, why);
    assert_int_equal(map_open(path, &map, NULL, NULL), error);
}

static void read_f48_untrusted_files_are_refused(void **state)
{
    struct image *image = *state;
    const char *path = image->f.path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct map map;
    char other[104];
    int fd;

    assert_int_equal(map_open(path, &map, NULL, NULL), 0);
    map_close(&map);
    assert_int_equal(chmod(path, 0666), 0);
    refused(path, -EPERM, "others than root may write it");
    assert_int_equal(chmod(path, 0664), 0);
    refused(path, -EPERM, "others than root may write it");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chown(path, 1000, 0), 0);
    refused(path, -EPERM, "does not belong to root");
    assert_int_equal(chown(path, 0, 1000), 0);
    assert_int_equal(map_open(path, &map, NULL, NULL), 0);
    map_close(&map);
    (void)snprintf(other, sizeof(other), "%s/other", image->f.dir);
    refused(other, -ENOENT, "cannot be opened");
    assert_int_equal(symlink(path, other), 0);
    refused(other, -EPERM, "is a symbolic link");
    assert_int_equal(unlink(other), 0);
    assert_int_equal(mkfifo(other, 0600), 0);
    refused(other, -EPERM, "is not a regular file");
    assert_int_equal(unlink(other), 0);
    refused(image->f.dir, -EPERM, "is not a regular file");
    refused("/dev/zero", -EPERM, "is not a regular file");
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", other);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    refused(other, -EPERM, "is not a regular file");
    assert_int_equal(close(fd), 0);
}

static void read_damaged_files_are_refused_by_name(void **state)
{
    struct image *image = *state;
    const char *path = image->f.path;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct xce_map_header *header = mmap(NULL, XCE_MAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                         0);

    assert_true(header != MAP_FAILED);
    assert_int_equal(close(fd), 0);
    map_writer_free(image->f.writer, true);
    image->f.writer = NULL;
    header->state = XCE_MAP_SUPERSEDED;
    refused(path, -ESTALE, "is superseded");
    header->state = 3;
    refused(path, -EBADMSG, "is damaged: state");
    header->state = XCE_MAP_ALIVE;
    header->prefix[0] = 'y';
    refused(path, -EBADMSG, "is damaged: check of the header");
    header->prefix[0] = 'x';
    header->compat = XCE_MAP_VERSION + 1;
    refused(path, -EBADMSG, "is of another version");
    header->compat = XCE_MAP_VERSION;
    header->magic ^= 1;
    refused(path, -EBADMSG, "is not a uid map");
    header->magic ^= 1;
    assert_int_equal(truncate(path, (off_t)image->size + 4096), 0);
    refused(path, -EBADMSG, "is damaged: size");
    assert_int_equal(truncate(path, 4095), 0);
    refused(path, -EBADMSG, "its size is not that of a map");
    assert_int_equal(truncate(path, 0), 0);
    refused(path, -EBADMSG, "its size is not that of a map");
    assert_int_equal(truncate(path, (off_t)1 << 36), 0);
    refused(path, -EBADMSG, "its size is not that of a map");
    assert_int_equal(munmap(header, XCE_MAP_PAGE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(read_any_flipped_bit_of_the_header_is_harmless, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(read_any_flipped_bit_of_a_record_is_not_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(read_any_flipped_bit_of_homes_and_gids_is_harmless, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(read_ends_where_the_mapping_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(read_wild_numbers_are_harmless, setup, teardown),
        cmocka_unit_test_setup_teardown(read_record_that_stays_odd_is_not_found_in_short_time,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(read_f18_f19_foreign_ids_and_names, setup, teardown),
        cmocka_unit_test(read_every_uid_of_many_ranges),
        cmocka_unit_test_setup_teardown(read_walk_sees_each_lease_once_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(read_f48_untrusted_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(read_damaged_files_are_refused_by_name, setup, teardown),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
