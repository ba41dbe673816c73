/* Host lists: expanded within the limit or refused; every name is a node name; collapsing and expanding again gives the
 * same set. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/text.h"

#define MOST 2000

static void must(bool holds)
{
    if (!holds)
        abort();
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void same_set(struct hostlist *a, struct hostlist *b)
{
    size_t i;

    must(a->n == b->n);
    qsort(a->names, a->n, sizeof(char *), compare);
    qsort(b->names, b->n, sizeof(char *), compare);
    for (i = 0; i < a->n; i++)
        must(strcmp(a->names[i], b->names[i]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hostlist list = {0}, again = {0};
    struct buf text = BUF_INIT(1 << 20);
    struct err err = {0};
    size_t i;

    if (hostlist_expand((const char *)data, size, MOST, &list, &err) < 0) {
        must(err.text[0] != '\0' &&
             text_check(err.text, strlen(err.text), ERR_TEXT_MAX, NULL) == 0);
        return 0;
    }
    must(list.n > 0 && list.n <= MOST);
    for (i = 0; i < list.n; i++)
        must(text_check_node(list.names[i], strlen(list.names[i]), NULL) == 0);
    must(hostlist_collapse(list.names, list.n, &text) == 0);
    must(hostlist_expand(buf_str(&text), text.len, MOST, &again, NULL) == 0);
    same_set(&list, &again);
    hostlist_done(&list);
    hostlist_done(&again);
    buf_done(&text);
    return 0;
}
