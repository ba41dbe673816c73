/* Filling the caller's buffer: every length, every alignment, nothing outside. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nss_xce/pack.h"
#include "tests/lib/map_fixture.h"

#define CANARY 0xa5
#define AROUND 64

struct texts {
    const char *gecos, *home, *shell;
};

static const struct texts kinds[] = {
    {"", "", ""},
    {"xce lease", "/nonexistent", "/usr/sbin/nologin"},
    {"0123456789012345678901234567890123456", "/h", "/bin/sh"},
    {"g", "/home/of/some/length/that/is/longer/than/what/is/copied/at/once/by/far", "/s"},
    {"", "", "/a/shell/of/some/length/that/is/longer/than/what/is/copied/at/once/by/far"},
};

static void find(struct map_fixture *f, size_t kind, struct map_entry *entry)
{
    struct map_lease lease = fixture_lease(FIXTURE_BASE + 1, 12345);

    lease.gecos = kinds[kind].gecos;
    lease.home = kinds[kind].home;
    lease.shell = kinds[kind].shell;
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    assert_int_equal(map_find_uid(map_writer_map(f->writer), lease.uid, MAP_WANT_PAIR, entry), 0);
}

static int setup(void **state)
{
    struct map_fixture *f = malloc(sizeof(*f));

    fixture_begin(f);
    fixture_start(f);
    fixture_shape(f, 4);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_end(*state);
    free(*state);
    return 0;
}

/* Room of len bytes at an address that is `shift` off, in the middle of canaries. */
static char *room(char *all, size_t size, size_t shift)
{
    memset(all, CANARY, size);
    return all + AROUND + shift;
}

static void check_canaries(const char *all, size_t size, const char *buf, size_t len)
{
    for (size_t i = 0; i < size; i++)
        if ((all + i < buf || all + i >= buf + len) && (unsigned char)all[i] != CANARY)
            fail_msg("byte %td of a buffer of %zu is written", all + i - buf, len);
}

static void inside(const char *text, const char *buf, size_t len)
{
    assert_true(text >= buf && text < buf + len);
    assert_non_null(memchr(text, '\0', (size_t)(buf + len - text)));
}

static void check_passwd(const struct passwd *pw, size_t kind, const char *buf, size_t len)
{
    const char *const texts[] = {pw->pw_name, pw->pw_passwd, pw->pw_gecos, pw->pw_dir,
                                 pw->pw_shell};

    for (int i = 0; i < 5; i++)
        inside(texts[i], buf, len);
    assert_string_equal(pw->pw_name, "xce-1w00001-c1s");
    assert_string_equal(pw->pw_passwd, "x");
    assert_string_equal(pw->pw_gecos, kinds[kind].gecos);
    assert_string_equal(pw->pw_dir, kinds[kind].home);
    assert_string_equal(pw->pw_shell, kinds[kind].shell);
    assert_int_equal(pw->pw_uid, FIXTURE_BASE + 1);
    assert_int_equal(pw->pw_gid, FIXTURE_BASE + 1);
}

static void pack_f14_passwd_at_every_length(void **state)
{
    struct map_entry entry;
    char *all = malloc(1024);

    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        size_t needed = strlen("xce-1w00001-c1s") + strlen("x") + strlen(kinds[kind].gecos) +
                        strlen(kinds[kind].home) + strlen(kinds[kind].shell) + 5;

        find(*state, kind, &entry);
        for (size_t shift = 0; shift < 16; shift++) {
            for (size_t len = 0; len < needed + 200; len++) {
                char *buf = room(all, 1024, shift);
                struct passwd pw;

                assert_int_equal(pack_passwd(&entry, &pw, buf, len), len < needed ? -ERANGE : 0);
                check_canaries(all, 1024, buf, len < needed ? 0 : len);
                if (len >= needed)
                    check_passwd(&pw, kind, buf, len);
            }
        }
    }
    free(all);
}

static void pack_f14_group_at_every_length_and_alignment(void **state)
{
    struct map_entry entry;
    char *all = malloc(512);

    find(*state, 1, &entry);
    for (size_t shift = 0; shift < 16; shift++) {
        for (size_t len = 0; len < 160; len++) {
            char *buf = room(all, 512, shift);
            size_t pad = (sizeof(char *) - (uintptr_t)buf % sizeof(char *)) % sizeof(char *);
            size_t needed = pad + sizeof(char *) + strlen("xce-1w00001-c1s") + strlen("x") + 2;
            struct group gr;

            assert_int_equal(pack_group(&entry, &gr, buf, len), len < needed ? -ERANGE : 0);
            check_canaries(all, 512, buf, len < needed ? 0 : len);
            if (len < needed)
                continue;
            inside(gr.gr_name, buf, len);
            inside(gr.gr_passwd, buf, len);
            assert_string_equal(gr.gr_name, "xce-1w00001-c1s");
            assert_string_equal(gr.gr_passwd, "x");
            assert_int_equal(gr.gr_gid, FIXTURE_BASE + 1);
            assert_int_equal((uintptr_t)gr.gr_mem % sizeof(char *), 0);
            assert_true((char *)gr.gr_mem >= buf && (char *)(gr.gr_mem + 1) <= buf + len);
            assert_null(gr.gr_mem[0]);
        }
    }
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pack_f14_passwd_at_every_length, setup, teardown),
        cmocka_unit_test_setup_teardown(pack_f14_group_at_every_length_and_alignment, setup,
                                        teardown),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
