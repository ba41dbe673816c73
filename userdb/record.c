#include "userdb/record.h"

/* Dynamic: made when it was needed, gone afterwards. */
#define DISPOSITION "dynamic"

static struct json *whole(struct json *record)
{
    struct json *answer = json_new_object();

    json_set(answer, "record", record);
    json_set_bool(answer, "incomplete", false);
    return answer;
}

/* An empty text is given where it may be empty: where a field is missing clients put something else. But a record whose home
 * or shell is empty they refuse whole. */
struct json *record_user(const struct map_entry *entry, struct json *groups)
{
    struct json *record = json_new_object();

    json_set_string(record, "userName", map_name(entry));
    json_set_u64(record, "uid", entry->record.uid);
    json_set_u64(record, "gid", entry->record.gid);
    json_set_string(record, "realName", map_gecos(entry));
    if (*map_home(entry))
        json_set_string(record, "homeDirectory", map_home(entry));
    if (*map_shell(entry))
        json_set_string(record, "shell", map_shell(entry));
    json_set_string(record, "disposition", DISPOSITION);
    json_set_bool(record, "locked", true);
    if (groups)
        json_set(record, "memberOf", groups);
    json_set_string(record, "service", RECORD_SERVICE);
    return whole(record);
}

struct json *record_group(const char *name, uint32_t gid)
{
    struct json *record = json_new_object();

    json_set_string(record, "groupName", name);
    json_set_u64(record, "gid", gid);
    json_set_string(record, "disposition", DISPOSITION);
    json_set_string(record, "service", RECORD_SERVICE);
    return whole(record);
}

struct json *record_membership(const char *user, const char *group)
{
    struct json *pair = json_new_object();

    json_set_string(pair, "userName", user);
    json_set_string(pair, "groupName", group);
    return pair;
}
