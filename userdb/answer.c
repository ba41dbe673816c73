#include "userdb/answer.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "userdb/interface.h"
#include "userdb/record.h"

#define INTERFACE "io.systemd.UserDatabase"
#define CORE      "org.varlink.service"

#define NO_RECORD_FOUND           INTERFACE ".NoRecordFound"
#define BAD_SERVICE               INTERFACE ".BadService"
#define SERVICE_NOT_AVAILABLE     INTERFACE ".ServiceNotAvailable"
#define CONFLICTING_RECORD_FOUND  INTERFACE ".ConflictingRecordFound"
#define ENUMERATION_NOT_SUPPORTED INTERFACE ".EnumerationNotSupported"

#define WANT_USER (MAP_WANT_PAIR | MAP_WANT_GIDS)

void walk_done(struct walk *walk)
{
    json_free(walk->held);
    *walk = (struct walk){0};
}

/* ---- parameters ---- */

/* What a call asks for: those that were given. */
struct query {
    const char *user, *group, *service, *interface;
    uint64_t id;
    bool has_id;
};

/* A parameter, and where it goes: a text, or else the id. */
struct parameter {
    const char *key;
    size_t text_at;
};

#define TEXT_AT(member) offsetof(struct query, member)
#define ID              SIZE_MAX

static bool take(const struct json_node *node, const struct parameter *parameter, struct query *ret)
{
    if (json_node_is_null(node))
        return true;
    if (parameter->text_at != ID)
        return json_node_string(node, (const char **)((char *)ret + parameter->text_at));
    ret->has_id = json_node_u64(node, &ret->id) && ret->id <= UINT32_MAX;
    return ret->has_id;
}

static const struct parameter *parameter_find(const struct parameter *known, const char *key)
{
    for (; known->key; known++)
        if (strcmp(known->key, key) == 0)
            return known;
    return NULL;
}

/* NULL; the key of a parameter that is not known, or not what it should be. Newer clients ask with more of them, and then
 * again without. */
static const char *query_read(const struct json_node *parameters, const struct parameter *known,
                              struct query *ret)
{
    *ret = (struct query){0};
    for (const char *key = json_node_next(parameters, NULL); key;
         key = json_node_next(parameters, key)) {
        const struct parameter *parameter = parameter_find(known, key);

        if (!parameter || !take(json_node_member(parameters, key), parameter, ret))
            return key;
    }
    return NULL;
}

/* ---- looking ---- */

/* What is asked for by id, by name, or both: found, or the error that says why not. */
static const char *look(const struct answers *answers, const struct query *query, const char *name,
                        unsigned want, struct map_entry *ret)
{
    struct leases *leases = answers->leases;
    int by_id = LEASES_NONE, by_name = LEASES_NONE;

    if (name)
        by_name = leases_by_name(leases, name, want, ret);
    if (query->has_id && by_name == 0)
        return query->id == ret->record.uid ? NULL : CONFLICTING_RECORD_FOUND;
    if (query->has_id)
        by_id = leases_by_uid(leases, (uint32_t)query->id, want, ret);
    if (by_name == LEASES_AWAY || by_id == LEASES_AWAY)
        return SERVICE_NOT_AVAILABLE;
    if (by_id == 0 && name)
        return CONFLICTING_RECORD_FOUND;
    return by_id == 0 || by_name == 0 ? NULL : NO_RECORD_FOUND;
}

/* Names of the supplementary groups; NULL: it has none. */
static struct json *group_names(const struct answers *answers, const struct map_entry *entry)
{
    struct json *names = entry->record.n_gids ? json_new_array() : NULL;
    char name[NAME_BUF];

    for (uint32_t i = 0; i < entry->record.n_gids; i++)
        if (leases_group_name(answers->leases, map_gids(entry)[i], name))
            json_append(names, json_new_string(name));
    return names;
}

static struct json *user_of(const struct answers *answers, const struct map_entry *entry)
{
    return record_user(entry, group_names(answers, entry));
}

/* ---- lists ---- */

/* Without memory an item is NULL, which spoils the reply, and with it the conversation. */
static void walk_add(struct walk *walk, struct buf *out, struct json *item)
{
    if (walk->held)
        varlink_reply(out, walk->held, true);
    walk->held = item;
    if (!item)
        out->error = -ENOMEM;
}

static void walk_end(struct walk *walk, struct buf *out)
{
    if (walk->held)
        varlink_reply(out, walk->held, false);
    else
        varlink_error(out, NO_RECORD_FOUND);
    *walk = (struct walk){0};
}

static void walk_memberships(const struct answers *answers, struct walk *walk, struct buf *out,
                             const struct map_entry *entry)
{
    char group[NAME_BUF];

    for (uint32_t i = 0; i < entry->record.n_gids; i++)
        if (leases_group_name(answers->leases, map_gids(entry)[i], group))
            walk_add(walk, out, record_membership(map_name(entry), group));
}

void answer_walk(const struct answers *answers, struct buf *out, struct walk *walk)
{
    struct map_entry entry;
    int r = leases_next(answers->leases, &walk->uid, WANT_USER, &entry);

    if (r == LEASES_MORE)
        return;
    if (r != 0)
        walk_end(walk, out);
    else if (walk->kind == WALK_USERS)
        walk_add(walk, out, user_of(answers, &entry));
    else if (walk->kind == WALK_GROUPS)
        walk_add(walk, out, record_group(map_name(&entry), entry.record.gid));
    else
        walk_memberships(answers, walk, out, &entry);
}

static void walk_begin(const struct answers *answers, const struct varlink_call *call,
                       enum walk_kind kind, struct buf *out, struct walk *walk)
{
    if (!answers->enumerate)
        varlink_error(out, ENUMERATION_NOT_SUPPORTED);
    else if (!call->more)
        varlink_error(out, VARLINK_EXPECTED_MORE);
    else
        *walk = (struct walk){.kind = kind};
}

/* ---- the methods ---- */

static void get_user(const struct answers *answers, const struct varlink_call *call,
                     const struct query *query, struct buf *out, struct walk *walk)
{
    struct map_entry entry;
    const char *error;

    if (!query->has_id && !query->user) {
        walk_begin(answers, call, WALK_USERS, out, walk);
        return;
    }
    error = look(answers, query, query->user, WANT_USER, &entry);
    if (error)
        varlink_error(out, error);
    else
        varlink_reply(out, user_of(answers, &entry), false);
}

static void get_group(const struct answers *answers, const struct varlink_call *call,
                      const struct query *query, struct buf *out, struct walk *walk)
{
    struct map_entry entry;
    const char *error;
    uint32_t gid;

    if (!query->has_id && !query->group) {
        walk_begin(answers, call, WALK_GROUPS, out, walk);
        return;
    }
    if (query->group && leases_group_gid(answers->leases, query->group, &gid) == 0) {
        if (query->has_id && query->id != gid)
            varlink_error(out, CONFLICTING_RECORD_FOUND);
        else
            varlink_reply(out, record_group(query->group, gid), false);
        return;
    }
    error = look(answers, query, query->group, MAP_WANT_RECORD, &entry);
    if (error)
        varlink_error(out, error);
    else
        varlink_reply(out, record_group(map_name(&entry), entry.record.gid), false);
}

/* The groups of a user; both given: whether he is in it. Who is in a group is not told by its name alone, here as by NSS. */
static void get_memberships(const struct answers *answers, const struct varlink_call *call,
                            const struct query *query, struct buf *out, struct walk *walk)
{
    struct walk pairs = {0};
    struct map_entry entry;
    char group[NAME_BUF];
    int r;

    if (!query->user && !query->group) {
        walk_begin(answers, call, WALK_MEMBERSHIPS, out, walk);
        return;
    }
    r = query->user ? leases_by_name(answers->leases, query->user, MAP_WANT_GIDS, &entry)
                    : LEASES_NONE;
    if (r == LEASES_AWAY) {
        varlink_error(out, SERVICE_NOT_AVAILABLE);
        return;
    }
    if (r == 0 && !query->group && !call->more && entry.record.n_gids > 1) {
        varlink_error(out, VARLINK_EXPECTED_MORE);
        return;
    }
    for (uint32_t i = 0; r == 0 && i < entry.record.n_gids; i++)
        if (leases_group_name(answers->leases, map_gids(&entry)[i], group) &&
            (!query->group || strcmp(group, query->group) == 0))
            walk_add(&pairs, out, record_membership(map_name(&entry), group));
    walk_end(&pairs, out);
}

static void get_info(const struct answers *answers, const struct varlink_call *call,
                     const struct query *query, struct buf *out, struct walk *walk)
{
    struct json *info = json_new_object(), *interfaces = json_new_array();

    json_append(interfaces, json_new_string(CORE));
    json_append(interfaces, json_new_string(INTERFACE));
    json_set_string(info, "vendor", "xce-lease");
    json_set_string(info, "product", "xce-userdbd");
    json_set_string(info, "version", XCE_VERSION);
    json_set_string(info, "url", "");
    json_set(info, "interfaces", interfaces);
    varlink_reply(out, info, false);
}

static void get_description(const struct answers *answers, const struct varlink_call *call,
                            const struct query *query, struct buf *out, struct walk *walk)
{
    const char *name = query->interface ? query->interface : "";
    struct json *parameters;

    if (strcmp(name, INTERFACE) != 0 && strcmp(name, CORE) != 0) {
        varlink_error_about(out, VARLINK_INTERFACE_NOT_FOUND, "interface", name);
        return;
    }
    parameters = json_new_object();
    json_set_string(parameters, "description",
                    strcmp(name, CORE) == 0 ? interface_core : interface_user_database);
    varlink_reply(out, parameters, false);
}

/* ---- the table of them ---- */

static const struct parameter of_user[] = {
    {"uid", ID}, {"userName", TEXT_AT(user)}, {"service", TEXT_AT(service)}, {0}};
static const struct parameter of_group[] = {
    {"gid", ID}, {"groupName", TEXT_AT(group)}, {"service", TEXT_AT(service)}, {0}};
static const struct parameter of_memberships[] = {
    {"userName", TEXT_AT(user)}, {"groupName", TEXT_AT(group)}, {"service", TEXT_AT(service)}, {0}};
static const struct parameter of_nothing[] = {{0}};
static const struct parameter of_description[] = {{"interface", TEXT_AT(interface)}, {0}};

static const struct method {
    const char *name;
    const struct parameter *parameters;
    bool to_service; /* says which provider it means */
    void (*answer)(const struct answers *answers, const struct varlink_call *call,
                   const struct query *query, struct buf *out, struct walk *walk);
} methods[] = {
    {INTERFACE ".GetUserRecord", of_user, true, get_user},
    {INTERFACE ".GetGroupRecord", of_group, true, get_group},
    {INTERFACE ".GetMemberships", of_memberships, true, get_memberships},
    {CORE ".GetInfo", of_nothing, false, get_info},
    {CORE ".GetInterfaceDescription", of_description, false, get_description},
};

static bool interface_is(const char *method, const char *name)
{
    size_t len = varlink_interface_len(method);

    return len == strlen(name) && strncmp(method, name, len) == 0;
}

static void refuse_method(const char *method, struct buf *out)
{
    auto_free char *interface = mem_dup(method, varlink_interface_len(method));

    if (interface_is(method, INTERFACE) || interface_is(method, CORE))
        varlink_error_about(out, VARLINK_METHOD_NOT_FOUND, "method", method);
    else if (interface)
        varlink_error_about(out, VARLINK_INTERFACE_NOT_FOUND, "interface", interface);
    else
        out->error = -ENOMEM;
}

static void answer_method(const struct answers *answers, const struct varlink_call *call,
                          const struct method *method, struct buf *out, struct walk *walk)
{
    struct query query;
    const char *wrong = query_read(call->parameters, method->parameters, &query);

    if (wrong)
        varlink_error_about(out, VARLINK_INVALID_PARAMETER, "parameter", wrong);
    else if (method->to_service && (!query.service || strcmp(query.service, RECORD_SERVICE) != 0))
        varlink_error(out, BAD_SERVICE);
    else
        method->answer(answers, call, &query, out, walk);
}

void answer_call(const struct answers *answers, const struct varlink_call *call, struct buf *out,
                 struct walk *walk)
{
    /* No method does anything: where no reply is wanted, there is nothing to do. */
    if (call->oneway)
        return;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(methods[i].name, call->method) == 0) {
            answer_method(answers, call, &methods[i], out, walk);
            return;
        }
    refuse_method(call->method, out);
}
