/* pam_xce's arguments and decision: whatever a user is called, nobody comes in but the one lease that is here and ready, and
 * who is said to concern no map is foreign with each. Input: a byte of options, then argument NUL service NUL user. */
#include <stdlib.h>

#include "pam/check.h"
#include "tests/fuzz/map_image.h"

enum { NO_MAP = 1, SYNCED = 2, HAS_ACCOUNT = 4, ITS_UID = 8, DEAD = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

/* Up to the next NUL, in memory of its own of just that length. */
static char *take(const uint8_t **at, size_t *left)
{
    size_t len = *left > 0 ? strnlen((const char *)*at, *left) : 0;
    char *text = calloc(1, len + 1);

    must(text != NULL);
    if (len > 0)
        memcpy(text, *at, len);
    len += len < *left;
    *at += len;
    *left -= len;
    return text;
}

static const char *image(bool synced)
{
    static char bytes[IMAGE_BYTES] __attribute__((aligned(64)));
    struct xce_map_header *header = (void *)bytes;
    struct xce_map_record *record = (void *)(bytes + XCE_MAP_PAGE + IMAGE_PAIRS);

    image_make(bytes);
    header->synced = synced;
    record->flags |= XCE_MAP_SAID_READY;
    record->check = 0;
    record->check = words_check(record, sizeof(*record));
    return bytes;
}

static void conf_sound(const struct check_conf *conf)
{
    must(conf->services[0] != '\0' && name_prefix_valid(conf->prefix));
    must(conf->n_ranges <= XCE_RANGES_MAX);
    for (uint32_t i = 0; i < conf->n_ranges; i++)
        must(conf->ranges[i].first <= conf->ranges[i].last &&
             !map_reserved(conf->ranges[i].first, conf->ranges[i].last));
}

static void decide(const struct check_conf *conf, unsigned options, const struct check_who *who)
{
    const struct map map = {image(options & SYNCED), IMAGE_BYTES};
    struct map_entry entry;
    enum check verdict = check_decide(conf, options & NO_MAP ? NULL : &map,
                                      options & DEAD ? CHECK_ALIVE_MS + 1 : 0, who, &entry);

    must(check_text(verdict) != NULL);
    if (!check_concerns(who))
        must(verdict == CHECK_FOREIGN);
    if (verdict != CHECK_ALLOWED)
        return;
    must(!(options & (NO_MAP | DEAD)) && strcmp(who->user, "xce-1w00000-1") == 0);
    must(entry.record.uid == IMAGE_BASE && (!who->known || who->uid == IMAGE_BASE));
    must(strstr(conf->services, who->service) != NULL && who->service[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned options = size > 0 ? data[0] : 0;
    const uint8_t *at = data + (size > 0);
    size_t left = size - (size > 0);
    char *argument = take(&at, &left), *service = take(&at, &left), *user = take(&at, &left);
    struct check_who who = {.user = user, .service = service, .known = options & HAS_ACCOUNT};
    struct check_conf conf;

    who.uid = options & ITS_UID ? IMAGE_BASE : options >> 4;
    check_conf_init(&conf);
    (void)check_argument(&conf, argument);
    conf_sound(&conf);
    decide(&conf, options, &who);
    free(user);
    free(service);
    free(argument);
    return 0;
}
