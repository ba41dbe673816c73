/* How functions of this project fail, and the sentence that goes with it.
 *
 * int f(...): 0 done; a negative errno = it failed, passed up unchanged; a positive number = an outcome out of that
 * header's enum, which the direct caller settles. Where a person must learn what was wrong with his input, the function
 * takes a struct err as well and puts one sentence in it: it names the thing and ends without a full stop.
 * Nothing here allocates; any thread. */
#ifndef XCE_COMMON_ERR_H
#define XCE_COMMON_ERR_H

#define ERR_TEXT_MAX 255

/* All zero = nothing said. text is valid UTF-8 without control bytes: foreign bytes in it come escaped. */
struct err {
    char text[ERR_TEXT_MAX + 1];
};

/* Say what was wrong and give back r, so that it can end a function: return err_set(err, -EINVAL, "...", ...).
 *   err   NULL = nobody wants to know; what it said before is replaced. May be among the arguments.
 *   r     any number, returned unchanged
 * What is too long ends in "...". errno is kept. */
int err_set(struct err *err, int r, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Put "context: " before what err says already. Returns r. */
int err_prefix(struct err *err, int r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The name of an errno of either sign: "ENOSPC"; "0" for 0; "EUNKNOWN" for what has none. Static. */
const char *err_name(int r);

/* What it means, in English whatever the locale: "No space left on device". Static. */
const char *err_text(int r);

#endif
