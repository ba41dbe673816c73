#include "ctl/quote.h"

#include <string.h>

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_@%+=:,./-", c));
}

void quote_word(struct buf *buf, const char *text)
{
    bool plain = text[0] != 0;

    for (const char *p = text; *p && plain; p++)
        plain = is_plain(*p);
    if (plain) {
        buf_adds(buf, text);
        return;
    }
    buf_addc(buf, '\'');
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            buf_adds(buf, "'\\''");
        else
            buf_addc(buf, *p);
    }
    buf_addc(buf, '\'');
}

bool quote_splits_whole(const char *text)
{
    return text[0] && !text[strcspn(text, " \t\n*?[\\")];
}
