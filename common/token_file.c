#include "common/token_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 256

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_secret(const char *text, uint8_t ret[static TOKEN_SECRET_LEN])
{
    if (strlen(text) != 2 * TOKEN_SECRET_LEN)
        return false;
    for (size_t i = 0; i < TOKEN_SECRET_LEN; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static int take_line(const char *line, struct token_file *ret, bool *has_token, struct err *err)
{
    if (!line[0] || line[0] == '#')
        return 0;
    if (strncmp(line, "node = ", 7) == 0) {
        int r = text_check_node(line + 7, strlen(line + 7), err);

        if (r == 0)
            (void)snprintf(ret->node, sizeof ret->node, "%s", line + 7);
        return r;
    }
    if (strncmp(line, "token = ", 8) == 0) {
        *has_token = parse_secret(line + 8, ret->secret);
        return *has_token
                   ? 0
                   : err_set(err, -EINVAL, "token: must be %d hex digits", 2 * TOKEN_SECRET_LEN);
    }
    return err_set(err, -EINVAL, "is no enrolment token: what is \"%s\"?", line);
}

int token_file_parse(const char *text, struct token_file *ret, struct err *err)
{
    struct token_file token = {.ca = ""};
    char line[LINE_MAX_BYTES];
    bool has_token = false;
    int r = 0;

    while (r == 0 && *text && *text != '-') {
        size_t len = strcspn(text, "\n");

        if (len >= sizeof line)
            return err_set(err, -EINVAL, "is no enrolment token: a line is too long");
        memcpy(line, text, len);
        line[len] = '\0';
        text += len + (text[len] == '\n');
        r = take_line(line, &token, &has_token, err);
    }
    if (r < 0)
        return r;
    if (!has_token || !token.node[0])
        return err_set(err, -EINVAL, "is no enrolment token: it names no %s",
                       has_token ? "node" : "token");
    token.ca = text;
    *ret = token;
    return 0;
}

void token_file_format(const struct token_file *token, int64_t end_ms, struct buf *ret)
{
    char end[TEXT_TIME_BUF];

    buf_addf(ret,
             "# xce-lease enrolment token of node %s: good once, until %s\nnode = %s\ntoken = ",
             token->node, text_format_time(end_ms, end), token->node);
    buf_add_hex(ret, token->secret, sizeof token->secret);
    buf_adds(ret, "\n");
    buf_adds(ret, token->ca);
}
