/* Strings kept once and counted: names of nodes and owners, reasons, principals, messages of refused requests.
 *
 * A string has an address (for those who show it) and a number (for the request table, where eight bytes count).
 * Neither ever leaves the process. Bytes hold no NUL. Allocation aborts. */
#ifndef XCE_LEASED_FSM_INTERN_H
#define XCE_LEASED_FSM_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct intern {
    uint64_t key;
    struct intern_string **by_id; /* [0] unused */
    uint32_t *heads;              /* ids; 0 = none */
    uint32_t n_ids, cap_ids, free_id;
    uint32_t n_heads, n_strings; /* n_heads is a power of two */
    size_t bytes;                /* of all strings, with what each costs beside its text */
};

void intern_init(struct intern *intern, uint64_t key);
void intern_done(struct intern *intern);

/* One reference more. len 0 gives NULL, and so do the other two with NULL. */
const char *intern_add(struct intern *intern, const void *bytes, size_t len);
const char *intern_text(struct intern *intern, const char *text);
const char *intern_ref(const char *string);
/* One reference less. NULL is fine. */
void intern_put(struct intern *intern, const char *string);
/* The string or NULL; no reference. */
const char *intern_find(const struct intern *intern, const void *bytes, size_t len);

/* How many references there are; string is not NULL. */
uint32_t intern_refs(const char *string);
/* 0 for NULL, and back. */
uint32_t intern_id(const char *string);
const char *intern_string(const struct intern *intern, uint32_t id);

#endif
