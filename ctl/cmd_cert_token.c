/* leasectl cert token: a file with which one machine may enrol as a node. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/json.h"
#include "common/token_file.h"
#include "ctl/ca_folder.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

struct token_options {
    const char *out;
    int64_t ttl_ms;
};

static const struct option_entry options[] = {
    {"out", 0, OPTION_TEXT, offsetof(struct token_options, out), "FILE",
     "where the token goes (default: NODE.token)", NULL},
    {"lifetime", 0, OPTION_DURATION, offsetof(struct token_options, ttl_ms), "TIME",
     "within which it must be used (default: 1h, at most 30d)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int print(struct ctl *ctl, const char *node, const char *path, int64_t end_ms)
{
    char end[TEXT_TIME_BUF];
    struct json *object;

    (void)text_format_time(end_ms, end);
    if (!ctl->globals.json) {
        printf("%s\n", path);
        ctl_say(ctl,
                "%s: lets one machine become node %s until %s. Bring it there (EnrollToken= of "
                "noded) by a way that nobody else can read.",
                path, node, end);
        return ctl_finish_stdout(ctl);
    }
    object = json_new_object();
    json_set_string(object, "node", node);
    json_set_string(object, "until", end);
    json_set_string(object, "file", path);
    return ctl_print_json(ctl, object);
}

static int write_token(struct ctl *ctl, struct token_file *token, const struct xce_token *made,
                       const char *path)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TOKEN_FILE_MAX);
    int64_t end_ms = clock_wall_ms() + made->ttl_ms;
    int status;

    token->ca = made->ca;
    token_file_format(token, end_ms, &text);
    if (buf_error(&text) < 0)
        return ctl_fail(ctl, XCE_FAILED, "the CA is too long for a token");
    status = ca_write_new(ctl, path, buf_str(&text), 0600);
    explicit_bzero(text.data, text.len);
    return status == EXIT_OK ? print(ctl, token->node, path, end_ms) : status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct token_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct token_file token = {0};
    struct xce_token *made;
    uint8_t hash[DIGEST_SHA256_LEN];
    char path[CA_PATH_BUF];
    struct err err = {{0}};
    int status = EXIT_OK, code;

    (void)n_words;
    if (text_check_node(words[0], strlen(words[0]), &err) < 0)
        return ctl_usage(ctl, "%s", err.text);
    (void)snprintf(token.node, sizeof token.node, "%s", words[0]);
    (void)snprintf(path, sizeof path, "%s%s", given->out ? given->out : words[0],
                   given->out ? "" : ".token");
    if (access(path, F_OK) == 0)
        status = ctl_fail(ctl, XCE_EXISTS, "%s: is there already, and is not written over", path);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    digest_random(token.secret, sizeof token.secret);
    digest_sha256(token.secret, sizeof token.secret, hash);
    code = xce_node_token(ctl->client, &call, token.node, hash, given->ttl_ms, &made);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = write_token(ctl, &token, made, path);
    xce_free(made);
    return status;
}

const struct verb cmd_cert_token = {
    .group = "cert",
    .name = "token",
    .args = "NODE",
    .summary = "Let one machine enrol as a node, once",
    .more =
        "Writes a file for EnrollToken= of noded: the secret, of which leased keeps no more than\n"
        "a hash, and the CA. Who reads it first may become the node.",
    .options = options,
    .memory = sizeof(struct token_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
