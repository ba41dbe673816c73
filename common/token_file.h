/* The file that brings a node its enrolment token, and the CA that it may trust:
 *
 *     # xce-lease enrolment token of node n1: good once, until 2025-11-29T17:05:00.000Z
 *     node = n1
 *     token = 64 hex digits
 *     -----BEGIN CERTIFICATE-----      the CAs, PEM, to the end of the file
 *
 * Whoever reads it may become the node: 0600. Pure; any thread. */
#ifndef XCE_COMMON_TOKEN_FILE_H
#define XCE_COMMON_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/text.h"

#define TOKEN_SECRET_LEN 32
#define TOKEN_FILE_MAX   (64 * 1024)

struct token_file {
    char node[TEXT_NODE_MAX + 1];
    uint8_t secret[TOKEN_SECRET_LEN];
    const char *ca; /* in the text that was parsed; "" = none */
};

/* text ends with NUL and outlives *ret. 0; -EINVAL with err. */
int token_file_parse(const char *text, struct token_file *ret, struct err *err);
/* end_ms: wall clock, for the comment. */
void token_file_format(const struct token_file *token, int64_t end_ms, struct buf *ret);

#endif
