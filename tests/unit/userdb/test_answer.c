/* Tables of calls and what each is answered. */
#include "tests/unit/userdb/kit.h"

#define DB                "io.systemd.UserDatabase"
#define SERVICE           "'service':'io.xce.Lease'"
#define USER(parameters)  "{'method':'" DB ".GetUserRecord','parameters':{" parameters SERVICE "}}"
#define GROUP(parameters) "{'method':'" DB ".GetGroupRecord','parameters':{" parameters SERVICE "}}"
#define MEMBERS(parameters)                                                                        \
    "{'method':'" DB ".GetMemberships','more':true,'parameters':{" parameters SERVICE "}}"
#define ERROR(name) "{'error': '" DB "." name "', 'parameters': {}}"
#define INVALID(key)                                                                               \
    "{'error': 'org.varlink.service.InvalidParameter', 'parameters': {'parameter': '" key "'}}"

#define FIRST "xce-1w00000-1"
#define USER_FIRST                                                                                 \
    "{'parameters': {'record': {'userName': '" FIRST "', 'uid': 2013265920, 'gid': 2013265920, "   \
    "'realName': 'xce lease', 'homeDirectory': '/nonexistent', 'shell': '/usr/sbin/nologin', "     \
    "'disposition': 'dynamic', 'locked': true, "                                                   \
    "'memberOf': ['xce-gid-4001', 'xce-1w00001-11', 'xce-gid-4002'], "                             \
    "'service': 'io.xce.Lease'}, 'incomplete': false}}"
#define USER_SECOND                                                                                \
    "{'parameters': {'record': {'userName': 'xce-1w00001-11', 'uid': 2013265921, "                 \
    "'gid': 2013265921, 'realName': '', 'disposition': 'dynamic', "                                \
    "'locked': true, 'service': 'io.xce.Lease'}, 'incomplete': false}}"
#define GROUP_OF(name, gid)                                                                        \
    "{'parameters': {'record': {'groupName': '" name "', 'gid': " gid                              \
    ", 'disposition': 'dynamic', 'service': 'io.xce.Lease'}, 'incomplete': false}}"
#define PAIR(user, group, more)                                                                    \
    "{'parameters': {'userName': '" user "', 'groupName': '" group "'}" more "}"
#define GO_ON ", 'continues': true"

struct row {
    const char *call, *reply;
};

static void expect_all(struct kit *kit, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kit_expect(kit, rows[i].call, rows[i].reply);
}

static void answer_users_by_uid_and_name(void **state)
{
    static const struct row rows[] = {
        {USER("'uid':2013265920,"), USER_FIRST},
        {USER("'userName':'" FIRST "',"), USER_FIRST},
        {USER("'uid':2013265920,'userName':'" FIRST "',"), USER_FIRST},
        {USER("'uid':null,'userName':'" FIRST "',"), USER_FIRST},
        {USER("'uid':2013265921,"), USER_SECOND},
        /* its uid is another lease's, another's name is, or one of them is nobody's */
        {USER("'uid':2013265921,'userName':'" FIRST "',"), ERROR("ConflictingRecordFound")},
        {USER("'uid':1000,'userName':'" FIRST "',"), ERROR("ConflictingRecordFound")},
        {USER("'uid':2013265920,'userName':'root',"), ERROR("ConflictingRecordFound")},
        {USER("'uid':2013265920,'userName':'xce-1w00000-2',"), ERROR("ConflictingRecordFound")},
        {USER("'uid':1000,'userName':'alice',"), ERROR("NoRecordFound")},
        {USER("'uid':0,"), ERROR("NoRecordFound")},
        {USER("'uid':65534,"), ERROR("NoRecordFound")},
        {USER("'uid':4294967295,"), ERROR("NoRecordFound")},
        {USER("'uid':2013265922,"), ERROR("NoRecordFound")},
        {USER("'userName':'',"), ERROR("NoRecordFound")},
        {USER("'userName':'root',"), ERROR("NoRecordFound")},
        {USER("'userName':'xce-1w00000-2',"), ERROR("NoRecordFound")},
        {USER("'userName':'xce-gid-4001',"), ERROR("NoRecordFound")},
    };

    expect_all(*state, rows, ARRAY_LEN(rows));
}

static void answer_groups_by_gid_and_name(void **state)
{
    static const struct row rows[] = {
        {GROUP("'gid':2013265920,"), GROUP_OF(FIRST, "2013265920")},
        {GROUP("'groupName':'xce-1w00001-11',"), GROUP_OF("xce-1w00001-11", "2013265921")},
        {GROUP("'gid':2013265921,'groupName':'" FIRST "',"), ERROR("ConflictingRecordFound")},
        {GROUP("'gid':4001,"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'audio',"), ERROR("NoRecordFound")},
        /* the names of supplementary groups */
        {GROUP("'groupName':'xce-gid-4001',"), GROUP_OF("xce-gid-4001", "4001")},
        {GROUP("'gid':4001,'groupName':'xce-gid-4001',"), GROUP_OF("xce-gid-4001", "4001")},
        {GROUP("'gid':4002,'groupName':'xce-gid-4001',"), ERROR("ConflictingRecordFound")},
        {GROUP("'groupName':'xce-gid-04001',"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'xce-gid-0',"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'xce-gid-',"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'xce-gid--1',"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'xce-gid-4294967295',"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'xce-gid-4294967296',"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'xce-gid-2013265920',"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'abc-gid-4001',"), ERROR("NoRecordFound")},
    };

    expect_all(*state, rows, ARRAY_LEN(rows));
}

static void answer_memberships(void **state)
{
    static const struct row rows[] = {
        {MEMBERS("'userName':'" FIRST "',"),
         PAIR(FIRST, "xce-gid-4001", GO_ON) "\n" PAIR(FIRST, "xce-1w00001-11",
                                                      GO_ON) "\n" PAIR(FIRST, "xce-gid-4002", "")},
        {MEMBERS("'userName':'" FIRST "','groupName':'xce-gid-4002',"),
         PAIR(FIRST, "xce-gid-4002", "")},
        {MEMBERS("'userName':'" FIRST "','groupName':'audio',"), ERROR("NoRecordFound")},
        {MEMBERS("'userName':'xce-1w00001-11',"), ERROR("NoRecordFound")},
        {MEMBERS("'userName':'root',"), ERROR("NoRecordFound")},
        {MEMBERS("'userName':'xce-1w00000-2',"), ERROR("NoRecordFound")},
        {MEMBERS("'groupName':'" FIRST "',"), ERROR("NoRecordFound")},
        {MEMBERS("'groupName':'xce-gid-4001',"), ERROR("NoRecordFound")},
        /* Who takes one reply is given no list, but one is one. */
        {"{'method':'" DB ".GetMemberships','parameters':{'userName':'" FIRST "'," SERVICE "}}",
         "{'error': 'org.varlink.service.ExpectedMore', 'parameters': {}}"},
        {"{'method':'" DB ".GetMemberships','parameters':{'userName':'" FIRST
         "','groupName':'xce-gid-4001'," SERVICE "}}",
         PAIR(FIRST, "xce-gid-4001", "")},
    };

    expect_all(*state, rows, ARRAY_LEN(rows));
}

static void answer_lists_only_if_it_may(void **state)
{
    static const struct row refused[] = {
        {USER(""), ERROR("EnumerationNotSupported")},
        {GROUP("'gid':null,"), ERROR("EnumerationNotSupported")},
        {MEMBERS(""), ERROR("EnumerationNotSupported")},
    };
    static const struct row given[] = {
        {USER(""), "{'error': 'org.varlink.service.ExpectedMore', 'parameters': {}}"},
        {"{'method':'" DB ".GetGroupRecord','more':true,'parameters':{" SERVICE "}}",
         "{'parameters': {'record': {'groupName': '" FIRST
         "', 'gid': 2013265920, 'disposition': 'dynamic', 'service': 'io.xce.Lease'}, "
         "'incomplete': false}" GO_ON "}\n"
         "{'parameters': {'record': {'groupName': 'xce-1w00001-11', 'gid': 2013265921, "
         "'disposition': 'dynamic', 'service': 'io.xce.Lease'}, 'incomplete': false}" GO_ON
         "}\n" GROUP_OF("xce-1w000w4-2", "2013266820")},
        {MEMBERS(""), PAIR(FIRST, "xce-gid-4001", GO_ON) "\n" PAIR(
                          FIRST, "xce-1w00001-11", GO_ON) "\n" PAIR(FIRST, "xce-gid-4002", "")},
    };
    struct kit *kit = *state;

    expect_all(kit, refused, ARRAY_LEN(refused));
    kit->answers.enumerate = true;
    expect_all(kit, given, ARRAY_LEN(given));
    for (uint32_t uid = BASE; uid < BASE + 1000; uid++)
        (void)map_writer_retire(kit->map.writer, uid,
                                uid == BASE       ? 1
                                : uid == BASE + 1 ? 33
                                                  : 2,
                                9);
    kit_expect(kit, "{'method':'" DB ".GetUserRecord','more':true,'parameters':{" SERVICE "}}",
               ERROR("NoRecordFound"));
}

static void answer_lists_each_lease_once(void **state)
{
    struct kit *kit = *state;
    const char *text, *line;
    unsigned n = 0;

    for (uint32_t i = 0; i < 1000; i++)
        fixture_set(&kit->map, BASE + i, 40);
    kit->answers.enumerate = true;
    text = kit_ask(kit,
                   "{'method':'" DB ".GetGroupRecord','more':true,'parameters':{" SERVICE "}}");
    for (line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL, n++) {
        char gid[32];

        (void)snprintf(gid, sizeof(gid), "\"gid\": %u,", BASE + n);
        assert_non_null(strstr(line, gid));
        assert_true(strstr(line, gid) - line < 100);
    }
    assert_int_equal(n, 1000);
}

static void answer_other_calls(void **state)
{
    static const struct row rows[] = {
        {"{'method':'" DB ".GetUserRecord','parameters':{'uid':2013265920}}", ERROR("BadService")},
        {"{'method':'" DB ".GetUserRecord'}", ERROR("BadService")},
        {"{'method':'" DB
         ".GetUserRecord','parameters':{'uid':2013265920,'service':'io.systemd.DynamicUser'}}",
         ERROR("BadService")},
        {USER("'uid':-1,"), INVALID("uid")},
        {USER("'uid':4294967296,"), INVALID("uid")},
        {USER("'uid':1.5,"), INVALID("uid")},
        {USER("'uid':'1000',"), INVALID("uid")},
        {USER("'userName':1000,"), INVALID("userName")},
        {USER("'uid':1,'uidMin':1,"), INVALID("uidMin")},
        {USER("'fuzzyNames':['a'],"), INVALID("fuzzyNames")},
        {GROUP("'uid':1,"), INVALID("uid")},
        {MEMBERS("'uid':1,"), INVALID("uid")},
        {"{'method':'org.varlink.service.GetInfo','parameters':{'x':1}}", INVALID("x")},
        {"{'method':'" DB ".GetSomething'}",
         "{'error': 'org.varlink.service.MethodNotFound', 'parameters': {'method': '" DB
         ".GetSomething'}}"},
        {"{'method':'org.varlink.service.getInfo'}",
         "{'error': 'org.varlink.service.MethodNotFound', 'parameters': {'method': "
         "'org.varlink.service.getInfo'}}"},
        {"{'method':'io.systemd.Resolve.Ping'}",
         "{'error': 'org.varlink.service.InterfaceNotFound', 'parameters': {'interface': "
         "'io.systemd.Resolve'}}"},
        {"{'method':''}",
         "{'error': 'org.varlink.service.InterfaceNotFound', 'parameters': {'interface': ''}}"},
        {"{'method':'org.varlink.service.GetInterfaceDescription','parameters':{'interface':'a.b'}"
         "}",
         "{'error': 'org.varlink.service.InterfaceNotFound', 'parameters': {'interface': 'a.b'}}"},
        {"{'method':'org.varlink.service.GetInfo'}",
         "{'parameters': {'vendor': 'xce-lease', 'product': 'xce-userdbd', 'version': '" XCE_VERSION
         "', 'url': '', 'interfaces': ['org.varlink.service', 'io.systemd.UserDatabase']}}"},
        {"{'method':'" DB ".GetUserRecord','oneway':true}", ""},
    };

    expect_all(*state, rows, ARRAY_LEN(rows));
}

static void answer_describes_each_method_that_it_has(void **state)
{
    static const char *const words[] = {"method GetUserRecord(",
                                        "method GetGroupRecord(",
                                        "method GetMemberships(",
                                        "error NoRecordFound ",
                                        "error BadService ",
                                        "error ServiceNotAvailable ",
                                        "error ConflictingRecordFound ",
                                        "error EnumerationNotSupported "};
    const char *text = kit_ask(*state, "{'method':'org.varlink.service.GetInterfaceDescription',"
                                       "'parameters':{'interface':'" DB "'}}");

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_non_null(strstr(text, words[i]));
    text = kit_ask(*state, "{'method':'org.varlink.service.GetInterfaceDescription',"
                           "'parameters':{'interface':'org.varlink.service'}}");
    assert_non_null(strstr(text, "method GetInfo("));
}

/* What can not be ours is nobody's, map or not: the errors of a look-up must not depend on whether noded runs. */
static void answer_without_a_map_is_away_only_for_what_may_be_ours(void **state)
{
    static const struct row rows[] = {
        {USER("'uid':2013265920,"), ERROR("ServiceNotAvailable")},
        {USER("'userName':'" FIRST "',"), ERROR("ServiceNotAvailable")},
        {USER("'uid':1000,'userName':'" FIRST "',"), ERROR("ServiceNotAvailable")},
        {USER("'uid':0,"), ERROR("NoRecordFound")},
        {USER("'uid':65534,"), ERROR("NoRecordFound")},
        {USER("'userName':'root',"), ERROR("NoRecordFound")},
        {USER("'userName':'nosuchuser',"), ERROR("NoRecordFound")},
        {GROUP("'gid':0,"), ERROR("NoRecordFound")},
        {GROUP("'groupName':'xce-gid-4001',"), ERROR("NoRecordFound")},
        {MEMBERS("'userName':'root',"), ERROR("NoRecordFound")},
        {MEMBERS("'userName':'" FIRST "',"), ERROR("ServiceNotAvailable")},
        {MEMBERS("'groupName':'" FIRST "',"), ERROR("NoRecordFound")},
        {USER(""), ERROR("EnumerationNotSupported")},
    };
    struct kit *kit = *state;

    kit->leases.path = "/nonexistent/uidmap";
    expect_all(kit, rows, ARRAY_LEN(rows));
    kit->answers.enumerate = true;
    kit_expect(kit, "{'method':'" DB ".GetUserRecord','more':true,'parameters':{" SERVICE "}}",
               ERROR("NoRecordFound"));
}

int main(void)
{
#define ANSWER_TEST(fn) cmocka_unit_test_setup_teardown(fn, kit_setup, kit_teardown)
    const struct CMUnitTest tests[] = {
        ANSWER_TEST(answer_users_by_uid_and_name),
        ANSWER_TEST(answer_groups_by_gid_and_name),
        ANSWER_TEST(answer_memberships),
        ANSWER_TEST(answer_lists_only_if_it_may),
        ANSWER_TEST(answer_lists_each_lease_once),
        ANSWER_TEST(answer_other_calls),
        ANSWER_TEST(answer_describes_each_method_that_it_has),
        ANSWER_TEST(answer_without_a_map_is_away_only_for_what_may_be_ours),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
