#include "normalise/options.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/text.h"
#include "xce/map.h"

enum {
    OPTION_FROM = 1000,
    OPTION_TO,
    OPTION_ACL,
    OPTION_ALLOW_OVERLAY,
    OPTION_DEADLINE,
    OPTION_DRY_RUN,
    OPTION_JSON,
    OPTION_MAP,
    OPTION_MAX_EXCEPTIONS,
    OPTION_PROOF,
    OPTION_RATE,
    OPTION_THREADS,
    OPTION_VERSION,
    OPTION_HELP,
};

static const struct option table[] = {
    {"from", required_argument, NULL, OPTION_FROM},
    {"to", required_argument, NULL, OPTION_TO},
    {"acl", required_argument, NULL, OPTION_ACL},
    {"allow-overlay", no_argument, NULL, OPTION_ALLOW_OVERLAY},
    {"deadline", required_argument, NULL, OPTION_DEADLINE},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {"json", no_argument, NULL, OPTION_JSON},
    {"map", required_argument, NULL, OPTION_MAP},
    {"max-exceptions", required_argument, NULL, OPTION_MAX_EXCEPTIONS},
    {"proof", required_argument, NULL, OPTION_PROOF},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

static void help(void)
{
    (void)fputs(
        "xce-normalise --from UID[:GID] --to UID[:GID] [OPTION...] PATH...\n"
        "\n"
        "Gives files of one uid to another one, and proves that none is left. See "
        "xce-normalise(8).\n"
        "\n"
        "  --from UID[:GID]     whose files; without GID no group is changed\n"
        "  --to UID[:GID]       whom they go to\n"
        "  --acl all|owned      take the uid off everybody's access lists (default), or off\n"
        "                       files of the two uids and the group\n"
        "  --allow-overlay      also in an overlay, which copies each file that is changed\n"
        "  --deadline SECONDS   end by then, unproven\n"
        "  --dry-run            look and count, change nothing\n"
        "  --json               NDJSON, also on a terminal\n"
        "  --map FILE           the uid map, instead of " XCE_MAP_PATH_DEFAULT "\n"
        "  --max-exceptions N   tell of so many files one by one (default 1000)\n"
        "  --proof LEVEL        the least that is good enough: double-collect (default), "
        "inode-scan,\n"
        "                       quota\n"
        "  --rate N             change at most so many files a second\n"
        "  --threads N          at once (default: one for each processor, at most 8)\n"
        "  --version            print the version\n"
        "  --help               print this\n",
        stdout);
}

static const char *const proofs[] = {
    [PROOF_NONE] = "none",
    [PROOF_DOUBLE_COLLECT] = "double-collect",
    [PROOF_INODE_SCAN] = "inode-scan",
    [PROOF_QUOTA] = "quota",
};

const char *proof_name(enum proof proof)
{
    return proofs[proof];
}

static int proof_parse(const char *text, enum proof *ret, struct err *err)
{
    for (size_t i = PROOF_DOUBLE_COLLECT; i < ARRAY_LEN(proofs); i++)
        if (strcmp(text, proofs[i]) == 0) {
            *ret = (enum proof)i;
            return 0;
        }
    return err_set(err, -EINVAL, "--proof: \"%s\" is none of double-collect, inode-scan, quota",
                   text);
}

/* UID[:GID] */
static int pair_parse(const char *option, const char *text, uint32_t *ret_uid, uint32_t *ret_gid,
                      bool *ret_group, struct err *err)
{
    char part[32];
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    int r = -EINVAL;

    if (len >= sizeof part)
        return err_set(err, r, "%s: \"%s\" is no uid", option, text);
    memcpy(part, text, len);
    part[len] = '\0';
    r = text_parse_uid(part, ret_uid, err);
    if (r == 0 && colon)
        r = text_parse_uid(colon + 1, ret_gid, err);
    *ret_group = colon != NULL;
    return r < 0 ? err_prefix(err, -EINVAL, "%s", option) : 0;
}

static int acl_parse(const char *text, bool *ret_owned, struct err *err)
{
    *ret_owned = strcmp(text, "owned") == 0;
    if (*ret_owned || strcmp(text, "all") == 0)
        return 0;
    return err_set(err, -EINVAL, "--acl: \"%s\" is neither all nor owned", text);
}

/* 1 to max. */
static int count_parse(const char *option, const char *text, uint32_t max, uint32_t *ret,
                       struct err *err)
{
    int r = text_parse_u32(text, ret, err);

    if (r < 0)
        return err_prefix(err, -EINVAL, "%s", option);
    if (*ret < 1 || *ret > max)
        return err_set(err, -EINVAL, "%s: 1 to %u", option, max);
    return 0;
}

static unsigned threads_default(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);

    return n > 8 ? 8 : (unsigned)n;
}

struct given {
    bool from, to, from_group, to_group;
};

static int take(int option, struct options *o, struct given *given, struct err *err)
{
    switch (option) {
    case OPTION_FROM:
        given->from = true;
        return pair_parse("--from", optarg, &o->ids.uid, &o->ids.gid, &given->from_group, err);
    case OPTION_TO:
        given->to = true;
        return pair_parse("--to", optarg, &o->ids.to_uid, &o->ids.to_gid, &given->to_group, err);
    case OPTION_ACL:
        return acl_parse(optarg, &o->acl_owned, err);
    case OPTION_ALLOW_OVERLAY:
        o->allow_overlay = true;
        return 0;
    case OPTION_DEADLINE:
        return count_parse("--deadline", optarg, OPTIONS_DEADLINE_MAX, &o->deadline_s, err);
    case OPTION_DRY_RUN:
        o->dry_run = true;
        return 0;
    case OPTION_JSON:
        o->json = true;
        return 0;
    case OPTION_MAP:
        o->map = optarg;
        return 0;
    case OPTION_MAX_EXCEPTIONS:
        return text_parse_u64(optarg, &o->max_exceptions, err) < 0
                   ? err_prefix(err, -EINVAL, "--max-exceptions")
                   : 0;
    case OPTION_PROOF:
        return proof_parse(optarg, &o->least, err);
    case OPTION_RATE:
        return count_parse("--rate", optarg, OPTIONS_RATE_MAX, &o->rate, err);
    case OPTION_THREADS:
        return count_parse("--threads", optarg, OPTIONS_THREADS_MAX, &o->threads, err);
    default:
        return err_set(err, -EINVAL, "see xce-normalise --help");
    }
}

static int check(struct options *o, const struct given *given, struct err *err)
{
    struct ids *ids = &o->ids;

    if (!given->from || !given->to)
        return err_set(err, -EINVAL, "--from and --to are both needed");
    if (given->from_group != given->to_group)
        return err_set(err, -EINVAL, "--from and --to: both with a gid, or none");
    ids->groups = given->from_group;
    if (ids->uid == ids->to_uid)
        return err_set(err, -EINVAL, "--from and --to are the same uid");
    if (ids->groups && ids->gid == ids->to_gid)
        return err_set(err, -EINVAL, "--from and --to are the same gid: leave it out");
    if (o->n_paths == 0)
        return err_set(err, -EINVAL, "no path is given");
    return 0;
}

int options_parse(int argc, char **argv, struct options *ret, struct err *err)
{
    struct options o = {
        .map = XCE_MAP_PATH_DEFAULT,
        .least = PROOF_DOUBLE_COLLECT,
        .threads = threads_default(),
        .max_exceptions = 1000,
    };
    struct given given = {0};
    int option, r;

    optind = 0;
    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (option == OPTION_HELP) {
            help();
            return OPTIONS_DONE;
        }
        if (option == OPTION_VERSION) {
            (void)puts("xce-normalise " XCE_VERSION);
            return OPTIONS_DONE;
        }
        r = take(option, &o, &given, err);
        if (r < 0)
            return r;
    }
    o.paths = argv + optind;
    o.n_paths = (size_t)(argc - optind);
    r = check(&o, &given, err);
    if (r == 0)
        *ret = o;
    return r;
}
