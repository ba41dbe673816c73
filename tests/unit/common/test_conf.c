#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/conf.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmp.h"

struct settings {
    const char *listen, *state;
    bool strict;
    uint32_t streams;
    uint64_t serial, cache;
    int64_t grace_ms, ttl_ms;
    int mirror;
    struct conf_list roots;
    struct conf_ranges ranges;
};

static const char *const mirror_words[] = {"all", "own", NULL};

static const struct conf_entry entries[] = {
    {"leased", "Listen", CONF_STRING, offsetof(struct settings, listen),
     .fallback = "127.0.0.1:7623", .min = 1, .max = 80, .restart = true, .help = "where to listen"},
    {"leased", "State", CONF_PATH, offsetof(struct settings, state), .fallback = "/var/lib/xce",
     .min = 1, .help = "where the state lies"},
    {"leased", "Strict", CONF_BOOL, offsetof(struct settings, strict), .fallback = "yes"},
    {"limits", "Streams", CONF_U32, offsetof(struct settings, streams), .fallback = "1024",
     .min = 1, .max = 65536},
    {"limits", "Serial", CONF_U64, offsetof(struct settings, serial), .fallback = "0"},
    {"limits", "Cache", CONF_SIZE, offsetof(struct settings, cache), .fallback = "64M",
     .min = 4096},
    {"limits", "Grace", CONF_DURATION, offsetof(struct settings, grace_ms), .fallback = "30s",
     .min = 1000, .max = 3600000},
    {"limits", "Ttl", CONF_DURATION_NONE, offsetof(struct settings, ttl_ms), .fallback = "none",
     .max = 86400000},
    {"node", "Mirror", CONF_WORD, offsetof(struct settings, mirror), .fallback = "all",
     .words = mirror_words, .help = "whose leases to mirror"},
    {"node", "Roots", CONF_LIST, offsetof(struct settings, roots), .fallback = "/tmp, /var/tmp",
     .max = 100},
    {"node", "Ranges", CONF_RANGES, offsetof(struct settings, ranges), .fallback = ""},
};

static int check_all(const void *settings, struct err *err)
{
    const struct settings *s = settings;

    if (s->mirror == 1 && s->streams == 7)
        return err_set(err, -EINVAL, "Mirror=own and Streams=7 cannot be together");
    return 0;
}

static const struct conf_table table = {
    .entries = entries,
    .n = ARRAY_LEN(entries),
    .settings_size = sizeof(struct settings),
    .check = check_all,
};

static struct conf *parsed(const char *text)
{
    struct conf *conf = NULL;
    struct err err = {0};
    int r = conf_load_bytes(&table, "c", text, strlen(text), &conf, &err);

    if (r != 0)
        fail_msg("%s", err.text);
    return conf;
}

static void conf_load_nothing_gives_defaults(void **state)
{
    AUTO(conf_free) struct conf *conf = parsed("");
    const struct settings *s = conf_settings(conf);

    assert_string_equal(s->listen, "127.0.0.1:7623");
    assert_string_equal(s->state, "/var/lib/xce");
    assert_true(s->strict);
    assert_int_equal(s->streams, 1024);
    assert_int_equal(s->cache, 64 << 20);
    assert_int_equal(s->grace_ms, 30000);
    assert_int_equal(s->ttl_ms, CONF_NO_LIMIT_MS);
    assert_int_equal(s->mirror, 0);
    assert_int_equal(s->roots.n, 2);
    assert_string_equal(s->roots.items[1], "/var/tmp");
    assert_int_equal(s->ranges.n, 0);
}

static void conf_load_every_type_is_read(void **state)
{
    AUTO(conf_free)
    struct conf *conf = parsed(
        "# comment\n; comment\n\n[leased]\nListen = [::1]:7623 ; behind\nState=/srv/xce\r\n"
        "Strict : off\n[limits]\nStreams=65536\nSerial = 18446744073709551615\nCache = 2G\n"
        "Grace = 1m30s\nTtl\t=\t5m\n[node]\nMirror = own\nRoots = /a,\n  /b  /c\n\n   # in "
        "between\n"
        "  , /d\nRanges = 1000-1999,\n    5000-5999 7000\n");
    const struct settings *s = conf_settings(conf);

    assert_string_equal(s->listen, "[::1]:7623");
    assert_string_equal(s->state, "/srv/xce");
    assert_false(s->strict);
    assert_int_equal(s->streams, 65536);
    assert_true(s->serial == UINT64_MAX);
    assert_true(s->cache == UINT64_C(2) << 30);
    assert_int_equal(s->grace_ms, 90000);
    assert_int_equal(s->ttl_ms, 300000);
    assert_int_equal(s->mirror, 1);
    assert_int_equal(s->roots.n, 4);
    assert_string_equal(s->roots.items[2], "/c");
    assert_string_equal(s->roots.items[3], "/d");
    assert_int_equal(s->ranges.n, 3);
    assert_int_equal(s->ranges.items[1].last, 5999);
    assert_int_equal(s->ranges.items[2].first, 7000);
}

static void conf_load_accept_table(void **state)
{
    static const char *const rows[] = {
        "\xef\xbb\xbf[leased]\nListen=x\n",
        "[leased]\nListen=x",
        "[leased]\r\nListen=x\r\n",
        "[leased] ; comment\n[leased]\n[leased] # comment\n",
        "[node]\nRoots =\n",
        "[node]\nRoots = /a,\n",
        "[node]\nRoots = /user=a\n /user=b, c=d\n",
        "[node]\nRanges = 1-2 ; a=b\n\t3-4 ; a=b\n",
        "[leased]\nListen = a;b#c\n",
        "[leased]\nStrict = YES\n",
        "[limits]\nGrace = 1h\nTtl = 1d\nSerial=0\n",
        ("[leased]\nListen = gr\xc3\xbc\xc3\x9f"
         "e\n"),
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++)
        conf_free(parsed(rows[i]));
}

static void conf_load_reject_table(void **state)
{
    static const char *const rows[][2] = {
        {"[leased]\nlisten = x\n", "c:2: unknown key leased.listen (is leased.Listen meant?)"},
        {"[leased]\n\nMirror = own\n", "c:3: unknown key leased.Mirror (is node.Mirror meant?)"},
        {"[leased]\nFoo = x\n", "c:2: unknown key leased.Foo"},
        {"[lease]\nFoo = x\n", "c:2: unknown section [lease] (of key Foo)"},
        {"Listen = x\n", "c:1: Listen stands before the first [section]"},
        {"[leased]\nListen = x\nState=/a\nListen = y\n",
         "c:4: leased.Listen is there twice, before at c:2"},
        {"[leased]\nListen\n", "c:2: neither \"key = value\" nor \"[section]\": \"Listen\""},
        {"[leased\nListen = x\n", "c:1: \"]\" is missing"},
        {"[leased] Listen = x\n", "c:1: \"Listen = x\" follows the section's name"},
        {"[leased]\n Listen = x\n", "c:2: is indented: a key begins at the start of its line"},
        {"[node]\nRoots = /a\n Ranges = 1-2\n",
         "c:3: is indented and looks like a key: begin it at the start of its line"},
        {"[node]\nRoots = /a\n Foo= 1-2\n",
         "c:3: is indented and looks like a key: begin it at the start of its line"},
        {"[node]\nRoots = /a\n  Ranges=1-2\n",
         "c:3: Ranges= inside a list: begin a key at the start of its line"},
        {"[leased]\nListen = a\n b\n",
         "c:3: leased.Listen: goes on in an indented line, which only a list may"},
        {"[leased]\nListen = x # y\n",
         "c:2: leased.Listen: a comment with # needs a line of its own"},
        {"[leased]\nListen =\n", "c:2: leased.Listen: is empty, at least 1"},
        {"[leased]\nState = var\n", "c:2: leased.State: path \"var\": must begin with /"},
        {"[leased]\nStrict = maybe\n", "c:2: leased.Strict: \"maybe\" is neither yes nor no"},
        {"[limits]\nStreams = 0\n", "c:2: limits.Streams: 0 is out of range, at least 1"},
        {"[limits]\nStreams = 65537\n",
         "c:2: limits.Streams: 65537 is out of range, at most 65536"},
        {"[limits]\nStreams = -1\n", "c:2: limits.Streams: \"-1\" is not a number"},
        {"[limits]\nStreams = 0x10\n", "c:2: limits.Streams: \"0x10\" is not a number"},
        {"[limits]\nStreams = 1 2\n", "c:2: limits.Streams: \"1 2\" is not a number"},
        {"[limits]\nSerial = 18446744073709551616\n",
         "c:2: limits.Serial: \"18446744073709551616\" is too large (at most "
         "18446744073709551615)"},
        {"[limits]\nCache = 64X\n", "c:2: limits.Cache: \"64X\": unknown unit \"X\" (K, M, G, T)"},
        {"[limits]\nCache = 1K\n", "c:2: limits.Cache: 1K is out of range, at least 4096"},
        {"[limits]\nGrace = 30\n", "c:2: limits.Grace: \"30\" has no unit (30s, 30m, 30h)"},
        {"[limits]\nGrace = 2h\n", "c:2: limits.Grace: 2h is out of range, at most 1h"},
        {"[limits]\nGrace = none\n",
         "c:2: limits.Grace: \"none\" is not possible here, a duration is needed"},
        {"[node]\nMirror = some\n", "c:2: node.Mirror: \"some\" is none of: all, own"},
        {"[node]\nRoots = /a,,/b\n", "c:2: node.Roots: an item of the list is empty"},
        {"[node]\nRoots = ,/b\n", "c:2: node.Roots: an item of the list is empty"},
        {"[node]\nRoots = a,;b\n", "c:2: node.Roots: an item of the list begins with \";\""},
        {"[node]\nRoots = a,#b\n", "c:2: node.Roots: an item of the list begins with \"#\""},
        {"[leased]\nListen =;x\n", "c:2: leased.Listen: is empty, at least 1"},
        {"[node]\nRanges = 2-1\n", "c:2: node.Ranges: the range 2-1 runs backwards"},
        {"[node]\nRanges = 1-5\n 4-9\n", "c:3: node.Ranges: the ranges 1-5 and 4-9 overlap"},
        {"[leased]\nListen = a\xff\n", "c:2: is not UTF-8 at byte 10"},
        {"[leased]\nListen = a\x1b[0m\n", "c:2: holds a control character at byte 10"},
        {"[leased]\rListen = x\n", "c:1: holds a control character at byte 8"},
        {"\xff\xfe[\n", "c:1: is not UTF-8 at byte 0"},
        {"[node]\nMirror = own\n[limits]\nStreams = 7\n",
         "c: Mirror=own and Streams=7 cannot be together"},
    };
    struct conf *conf;
    struct err err;
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(conf_load_bytes(&table, "c", rows[i][0], strlen(rows[i][0]), &conf, &err),
                         -EINVAL);
        assert_string_equal(err.text, rows[i][1]);
    }
    assert_int_equal(conf_load_bytes(&table, "c", "[leased]\nA\0=b", 13, &conf, &err), -EINVAL);
    assert_string_equal(err.text, "c:2: holds a NUL byte");
}

/* Nothing is ever cut: a line of any length is read whole or refused with its number. */
static void conf_load_long_lines_whole_or_refused(void **state)
{
    char text[500], expected[100];
    struct conf *conf;
    struct err err;
    size_t len;

    for (len = 150; len < 300; len++) {
        snprintf(text, sizeof(text), "[leased]\nState = /%0*d\n", (int)len - 9, 7);
        if (len <= CONF_LINE_MAX) {
            conf = parsed(text);
            assert_int_equal(strlen(((const struct settings *)conf_settings(conf))->state),
                             len - 8);
            conf_free(conf);
            continue;
        }
        assert_int_equal(conf_load_bytes(&table, "c", text, strlen(text), &conf, &err), -EINVAL);
        snprintf(expected, sizeof(expected), "c:2: the line is %zu bytes long, at most 196", len);
        assert_string_equal(err.text, expected);
    }
    /* A comment may be as long as it likes, and no part of it is taken for a line. */
    snprintf(text, sizeof(text), "# %0191d\n[leased]\n  ; %0191dFoo=1\n", 1, 2);
    conf_free(parsed(text));
}

static int load(const char *path, struct conf **ret, struct err *err)
{
    return conf_load(&table, path, false, NULL, 0, ret, err);
}

static void conf_load_drop_ins_win_in_order_of_names(void **state)
{
    const char *dir = tmp_dir(), *path, *drop_ins;
    AUTO(conf_free) struct conf *conf = NULL;
    const struct settings *s;
    struct conf_row row;
    struct err err = {0};

    path = tmp_write(dir, "leased.conf", "[leased]\nListen = main\nState=/main\n");
    drop_ins = tmp_path(dir, "leased.conf.d");
    assert_int_equal(mkdir(drop_ins, 0755), 0);
    tmp_write(drop_ins, "20-b.conf", "[leased]\nListen = twenty\n[limits]\nStreams=20\n");
    tmp_write(drop_ins, "10-a.conf", "[leased]\nListen = ten\n[limits]\nStreams=10\nSerial=10\n");
    tmp_write(drop_ins, "30-c.conf.bak", "[nonsense\n");
    tmp_write(drop_ins, ".hidden.conf", "[nonsense\n");
    assert_int_equal(load(path, &conf, &err), 0);
    s = conf_settings(conf);
    assert_string_equal(s->listen, "twenty");
    assert_string_equal(s->state, "/main");
    assert_int_equal(s->streams, 20);
    assert_int_equal(s->serial, 10);
    conf_row(conf, 0, &row);
    assert_string_equal(row.origin, tmp_path(dir, "leased.conf.d/20-b.conf:2"));
    conf_row(conf, 2, &row);
    assert_string_equal(row.origin, "default");
}

static void conf_load_error_in_drop_in_names_it(void **state)
{
    const char *dir = tmp_dir(), *drop_ins = tmp_path(dir, "x.conf.d");
    struct conf *conf = NULL;
    struct err err = {0};

    assert_int_equal(mkdir(drop_ins, 0755), 0);
    tmp_write(drop_ins, "a.conf", "[leased]\nFoo=1\n");
    assert_int_equal(load(tmp_path(dir, "x.conf"), &conf, &err), -EINVAL);
    assert_string_equal(err.text, tmp_path(dir, "x.conf.d/a.conf:2: unknown key leased.Foo"));
    assert_null(conf);
}

static void conf_load_missing_file_matters_if_it_was_named(void **state)
{
    const char *path = tmp_path(tmp_dir(), "none.conf");
    struct conf *conf = NULL;
    struct err err = {0};

    assert_int_equal(conf_load(&table, path, true, NULL, 0, &conf, &err), -ENOENT);
    assert_non_null(strstr(err.text, "none.conf: No such file"));
    assert_int_equal(conf_load(&table, path, false, NULL, 0, &conf, &err), 0);
    conf_free(conf);
}

static void conf_load_untrusted_file_refused(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_write(dir, "a.conf", "");
    struct conf *conf = NULL;
    struct err err = {0};

    assert_int_equal(chmod(path, 0664), 0);
    assert_int_equal(load(path, &conf, &err), -EPERM);
    assert_non_null(strstr(err.text, "others than its owner may write it (mode 0664)"));
    assert_int_equal(chmod(path, 0646), 0);
    assert_int_equal(load(path, &conf, &err), -EPERM);
    assert_int_equal(chmod(path, 0644), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 0), 0);
        assert_int_equal(load(path, &conf, &err), -EPERM);
        assert_non_null(strstr(err.text, "belongs to uid 12345"));
    }
    assert_int_equal(load(dir, &conf, &err), -EPERM);
    assert_non_null(strstr(err.text, "is not a regular file"));
    path = tmp_path(dir, "fifo.conf");
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_int_equal(load(path, &conf, &err), -EPERM);
}

static void conf_load_file_too_large_refused(void **state)
{
    const char *path;
    char *big = malloc(CONF_FILE_MAX + 2);
    struct conf *conf = NULL;
    struct err err = {0};

    memset(big, '\n', CONF_FILE_MAX + 1);
    path = tmp_write_bytes(tmp_dir(), "big.conf", big, CONF_FILE_MAX + 1);
    assert_int_equal(load(path, &conf, &err), -EFBIG);
    assert_int_equal(conf_load_bytes(&table, "c", big, CONF_FILE_MAX + 1, &conf, &err), -EFBIG);
    assert_int_equal(conf_load_bytes(&table, "c", big, CONF_FILE_MAX, &conf, &err), 0);
    conf_free(conf);
    free(big);
}

static void conf_load_must_be_set_key_is_named(void **state)
{
    static const struct conf_entry must[] = {{"a", "Key", CONF_STRING, 0}};
    static const struct conf_table must_table = {must, 1, sizeof(char *), NULL};
    struct conf *conf = NULL;
    struct err err = {0};

    assert_int_equal(conf_load_bytes(&must_table, "c", "", 0, &conf, &err), -EINVAL);
    assert_string_equal(err.text, "c: a.Key must be set");
}

static void conf_override_wins_and_is_named(void **state)
{
    static const struct conf_override good = {"leased", "Listen", "there", "XCE_SERVER"},
                                      bad = {"limits", "Grace", "x", "--grace"},
                                      foreign = {"leased", "State", "/a\x1b", "XCE_STATE"},
                                      unknown = {"leased", "Foo", "x", "--foo"};
    AUTO(conf_free) struct conf *conf = NULL;
    struct conf_row row;
    struct err err = {0};

    assert_int_equal(conf_load(&table, "/nonexistent", false, &bad, 1, &conf, &err), -EINVAL);
    assert_string_equal(err.text, "--grace: \"x\" is not a duration (30s, 5m, 1h30m)");
    assert_int_equal(conf_load(&table, "/nonexistent", false, &foreign, 1, &conf, &err), -EINVAL);
    assert_string_equal(err.text, "XCE_STATE: State: holds a control character at byte 2");
    assert_int_equal(conf_load(&table, "/nonexistent", false, &unknown, 1, &conf, &err), -EINVAL);
    assert_int_equal(conf_load(&table, "/nonexistent", false, &good, 1, &conf, &err), 0);
    assert_int_equal(conf_reload(&conf, NULL, &err), 0);
    conf_row(conf, 0, &row);
    assert_string_equal(row.value, "there");
    assert_string_equal(row.origin, "XCE_SERVER");
}

static void conf_reload_error_keeps_the_old(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_write(dir, "a.conf", "[limits]\nStreams=5\n");
    AUTO(conf_free) struct conf *conf = NULL;
    const struct settings *s;
    struct err err = {0};

    assert_int_equal(load(path, &conf, &err), 0);
    s = conf_settings(conf);
    tmp_write(dir, "a.conf", "[limits]\nStreams=6\nFoo=1\n");
    assert_int_equal(conf_reload(&conf, NULL, &err), -EINVAL);
    assert_ptr_equal(conf_settings(conf), s);
    assert_int_equal(s->streams, 5);
    tmp_write(dir, "a.conf", "[limits]\nStreams=6\n");
    assert_int_equal(conf_reload(&conf, NULL, &err), 0);
    s = conf_settings(conf);
    assert_int_equal(s->streams, 6);
}

static void conf_reload_restart_keys_stay_and_are_told(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_write(dir, "a.conf", "[leased]\nListen=one\n");
    AUTO(conf_free) struct conf *conf = NULL;
    AUTO(buf_done) struct buf pending = BUF_INIT(1000);
    const struct settings *s;
    struct err err = {0};

    assert_int_equal(load(path, &conf, &err), 0);
    tmp_write(dir, "a.conf", "[leased]\nListen=two\nState=/new\n");
    assert_int_equal(conf_reload(&conf, &pending, &err), 0);
    s = conf_settings(conf);
    assert_string_equal(s->listen, "one");
    assert_string_equal(s->state, "/new");
    assert_string_equal(buf_str(&pending), "leased.Listen");
}

/* What is printed as effective, read again, gives the same. */
static void conf_print_effective_can_be_read_again(void **state)
{
    AUTO(buf_done)
    struct buf text = BUF_INIT(100000), first = BUF_INIT(100000), second = BUF_INIT(100000);
    struct conf *conf;
    struct conf_row row;
    unsigned i;

    buf_adds(&text, "[leased]\nListen=a;b\n[node]\nRoots = /x\n");
    for (i = 0; i < 60; i++)
        buf_addf(&text, "  /some/longish/path/%03u\n", i);
    conf = parsed(buf_str(&text));
    conf_print_effective(conf, &first);
    conf_free(conf);
    assert_int_equal(buf_error(&first), 0);
    conf = parsed(buf_str(&first));
    assert_int_equal(((const struct settings *)conf_settings(conf))->roots.n, 61);
    conf_row(conf, 0, &row);
    assert_string_equal(row.origin, "c:3");
    conf_print_effective(conf, &second);
    conf_free(conf);
    assert_memory_equal(first.data, "[leased]\n# c:2\nListen = a;b\n# default\nState = ", 46);
    assert_non_null(strstr(second.data, "/some/longish/path/059\n"));
}

/* Also what only just fitted into a line. */
static void conf_print_effective_longest_values_fit(void **state)
{
    AUTO(buf_done) struct buf text = BUF_INIT(100000), printed = BUF_INIT(100000);
    struct conf *conf;
    const struct settings *s;

    buf_addf(&text, "[leased]\nState=/%0189d\n[node]\nRoots=\n /%0194d\n /%0194d\n", 1, 2, 3);
    conf = parsed(buf_str(&text));
    conf_print_effective(conf, &printed);
    conf_free(conf);
    conf = parsed(buf_str(&printed));
    s = conf_settings(conf);
    assert_int_equal(strlen(s->state), 190);
    assert_int_equal(s->roots.n, 2);
    assert_int_equal(strlen(s->roots.items[1]), 195);
    conf_free(conf);
}

static void conf_print_sample_shows_types_and_defaults(void **state)
{
    AUTO(buf_done) struct buf text = BUF_INIT(100000);
    struct conf *conf;

    conf_print_sample(&table, &text);
    assert_int_equal(buf_error(&text), 0);
    assert_non_null(strstr(text.data,
                           "[leased]\n# where to listen (string, 1 to 80; takes a restart)\n"
                           "#Listen = 127.0.0.1:7623\n"));
    assert_non_null(strstr(text.data, "# Grace (duration, 1s to 1h)\n#Grace = 30s\n"));
    assert_non_null(strstr(text.data, "# whose leases to mirror (all|own)\n#Mirror = all\n"));
    conf = parsed(buf_str(&text));
    conf_free(conf);
}

static int load_and_reload(void *arg)
{
    AUTO(conf_free) struct conf *conf = NULL;
    struct err err;
    int r;

    r = load(arg, &conf, &err);
    return r < 0 ? r : conf_reload(&conf, NULL, &err);
}

static void conf_load_each_allocation_failing_is_enomem(void **state)
{
    const char *dir = tmp_dir(), *path = tmp_path(dir, "a.conf");

    tmp_write(dir, "a.conf", "[node]\nRoots = /a\n  /b\nRanges = 1-2\n");
    assert_int_equal(mkdir(tmp_path(dir, "a.conf.d"), 0755), 0);
    tmp_write(dir, "a.conf.d/x.conf", "[leased]\nListen=y\n");
    assert_true(fault_each_allocation(load_and_reload, (void *)path, -ENOMEM) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conf_load_nothing_gives_defaults),
        cmocka_unit_test(conf_load_every_type_is_read),
        cmocka_unit_test(conf_load_accept_table),
        cmocka_unit_test(conf_load_reject_table),
        cmocka_unit_test(conf_load_long_lines_whole_or_refused),
        cmocka_unit_test(conf_load_drop_ins_win_in_order_of_names),
        cmocka_unit_test(conf_load_error_in_drop_in_names_it),
        cmocka_unit_test(conf_load_missing_file_matters_if_it_was_named),
        cmocka_unit_test(conf_load_untrusted_file_refused),
        cmocka_unit_test(conf_load_file_too_large_refused),
        cmocka_unit_test(conf_load_must_be_set_key_is_named),
        cmocka_unit_test(conf_override_wins_and_is_named),
        cmocka_unit_test(conf_reload_error_keeps_the_old),
        cmocka_unit_test(conf_reload_restart_keys_stay_and_are_told),
        cmocka_unit_test(conf_print_effective_can_be_read_again),
        cmocka_unit_test(conf_print_effective_longest_values_fit),
        cmocka_unit_test(conf_print_sample_shows_types_and_defaults),
        cmocka_unit_test(conf_load_each_allocation_failing_is_enomem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
