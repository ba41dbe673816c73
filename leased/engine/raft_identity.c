#include "leased/engine/raft_folder.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/fsutil.h"

#define FILE_MAX 1024

static const char *const begins[] = {"no", "first", "state"};

static int say(char why[static ENGINE_WHY_MAX], int r, const char *folder, const char *what)
{
    (void)snprintf(why, ENGINE_WHY_MAX, "%s/replica: %s", folder, what);
    return r;
}

/* Everything but the line of the checksum. */
static void print(struct buf *buf, const struct raft_identity *identity)
{
    buf_addf(buf, "xce-replica 1\nid %016" PRIx64 "\nname %s\ncluster ", identity->id,
             identity->name);
    buf_add_hex(buf, identity->cluster, sizeof identity->cluster);
    buf_addf(buf, "\nbegin %s\n", begins[identity->begin]);
}

int raft_identity_write(const char *folder, const struct raft_identity *identity,
                        char why[static ENGINE_WHY_MAX])
{
    char bytes[FILE_MAX], path[4096];
    struct buf buf;
    int r = fs_mkdir_p(folder, 0700);

    buf_init_fixed(&buf, bytes, sizeof bytes);
    print(&buf, identity);
    buf_addf(&buf, "crc %08" PRIx32 "\n", digest_crc32c(0, buf.data, buf.len));
    assert(buf_error(&buf) == 0);
    if (snprintf(path, sizeof path, "%s/replica", folder) >= (int)sizeof path)
        r = -ENAMETOOLONG;
    if (r == 0)
        r = fs_write_file(AT_FDCWD, path, buf.data, buf.len, 0600);
    return r < 0 ? say(why, r, folder, strerror(-r)) : 0;
}

static bool unhex(const char *text, uint8_t *ret, size_t len)
{
    if (strlen(text) != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        char digits[3] = {0}, *end;

        memcpy(digits, text + 2 * i, 2);
        ret[i] = (uint8_t)strtoul(digits, &end, 16);
        if (end != digits + 2)
            return false;
    }
    return true;
}

static bool parse(const char *text, struct raft_identity *ret)
{
    char cluster[40], begin[8];
    uint32_t crc;
    int end = -1, all = -1;

    memset(ret, 0, sizeof *ret);
    if (sscanf(text,
               "xce-replica 1\nid %16" SCNx64
               "\nname %64[^\n]\ncluster %39s\nbegin %7s\n%ncrc %8" SCNx32 "\n%n",
               &ret->id, ret->name, cluster, begin, &end, &crc, &all) != 5 ||
        all < 0 || text[all] != '\0' || !unhex(cluster, ret->cluster, sizeof ret->cluster))
        return false;
    while (ret->begin < 3 && strcmp(begins[ret->begin], begin))
        ret->begin++;
    return ret->begin < 3 && ret->id != 0 && digest_crc32c(0, text, (size_t)end) == crc;
}

void raft_identity_new(struct raft_identity *identity, const char *name)
{
    memset(identity, 0, sizeof *identity);
    while (identity->id == 0)
        digest_random(&identity->id, sizeof identity->id);
    (void)snprintf(identity->name, sizeof identity->name, "%s", name);
}

int raft_identity_read(const char *folder, struct raft_identity *ret,
                       char why[static ENGINE_WHY_MAX])
{
    auto_free char *text = NULL;
    struct raft_identity identity;
    char path[4096];
    int r = 0;

    if (snprintf(path, sizeof path, "%s/replica", folder) >= (int)sizeof path)
        r = -ENAMETOOLONG;
    if (r == 0)
        r = fs_read_file(AT_FDCWD, path, FILE_MAX, &text, NULL);
    if (r == -ENOENT)
        return say(why, r, folder, "is not there");
    if (r < 0 && r != -EBADMSG && r != -EFBIG)
        return say(why, r, folder, strerror(-r));
    if (r < 0 || !parse(text, &identity)) {
        (void)snprintf(why, ENGINE_WHY_MAX,
                       "%s/replica: damaged, so it is not known which replica this is; move %s "
                       "aside, take the replica "
                       "out (leasectl cluster remove NAME, asked of another one), start leased and "
                       "add it again "
                       "(leasectl cluster add NAME)",
                       folder, folder);
        return -EBADMSG;
    }
    *ret = identity;
    return 0;
}

int replica_inhabited(const char *folder, char why[static ENGINE_WHY_MAX])
{
    struct raft_identity identity;
    char path[4096];
    int r = raft_identity_read(folder, &identity, why);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    if (identity.begin == RAFT_BEGIN_STATE)
        return 2;
    if (snprintf(path, sizeof path, "%s/metadata1", folder) >= (int)sizeof path)
        return say(why, -ENAMETOOLONG, folder, "the name is too long");
    /* The library writes it with its first term: before it has heard of anybody, or voted. */
    return identity.begin == RAFT_BEGIN_FIRST || access(path, F_OK) == 0;
}

int replica_prepare(const char *folder, const char *name, bool with_state,
                    char why[static ENGINE_WHY_MAX])
{
    struct raft_identity identity;
    char path[4096];
    int r = raft_identity_read(folder, &identity, why);

    if (r == -ENOENT)
        raft_identity_new(&identity, name);
    else if (r < 0)
        return r;
    if (snprintf(path, sizeof path, "%s/metadata1", folder) >= (int)sizeof path)
        return say(why, -ENAMETOOLONG, folder, "the name is too long");
    if (access(path, F_OK) == 0)
        return say(why, -EEXIST, folder, "this replica belongs to a cluster already");
    digest_random(identity.cluster, sizeof identity.cluster);
    identity.begin = with_state ? RAFT_BEGIN_STATE : RAFT_BEGIN_FIRST;
    return raft_identity_write(folder, &identity, why);
}
