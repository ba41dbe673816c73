/* --help, out of the tables. */
#ifndef XCE_CTL_HELP_H
#define XCE_CTL_HELP_H

struct verb;

void help_all(void);
void help_group(const char *group);
void help_verb(const struct verb *verb);

#endif
