#include "nss_xce/pack.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* Bytes of home and shell that are copied whatever they are, if there is room. */
#define QUICK 48

int pack_passwd(const struct map_entry *entry, struct passwd *ret, char *buf, size_t len)
{
    const struct xce_map_record *record = &entry->record;
    size_t name_len = record->name_len;
    size_t text_len = name_len + 3 + record->gecos_len + 1;
    size_t pair_len = (size_t)entry->pair.home_len + 1 + entry->pair.shell_len + 1;

    if (len < text_len + pair_len)
        return -ERANGE;
    if (len >= sizeof(record->text) + QUICK && pair_len <= QUICK) {
        /* Whole fields, which the compiler makes a few moves of: there is room for what nobody asked for. */
        memcpy(buf, record->text, sizeof(record->text));
        memcpy(buf + text_len, entry->pair.text, QUICK);
    } else {
        memcpy(buf, record->text, text_len);
        memcpy(buf + text_len, entry->pair.text, pair_len);
    }
    ret->pw_name = buf;
    ret->pw_passwd = buf + name_len + 1;
    ret->pw_uid = record->uid;
    ret->pw_gid = record->gid;
    ret->pw_gecos = buf + name_len + 3;
    ret->pw_dir = buf + text_len;
    ret->pw_shell = buf + text_len + entry->pair.home_len + 1;
    return 0;
}

int pack_group(const struct map_entry *entry, struct group *ret, char *buf, size_t len)
{
    const struct xce_map_record *record = &entry->record;
    size_t pad = -(uintptr_t)buf % _Alignof(char *);
    size_t text_at = pad + sizeof(char *), text_len = (size_t)record->name_len + 3;

    if (len < text_at + text_len)
        return -ERANGE;
    ret->gr_mem = (char **)(buf + pad);
    ret->gr_mem[0] = NULL;
    memcpy(buf + text_at, record->text, text_len);
    ret->gr_name = buf + text_at;
    ret->gr_passwd = buf + text_at + record->name_len + 1;
    ret->gr_gid = record->gid;
    return 0;
}
