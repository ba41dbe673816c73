/* What service.c needs of enroll.c. */
#ifndef XCE_LEASED_SERVICE_ENROLL_H
#define XCE_LEASED_SERVICE_ENROLL_H

struct enroll;

void enroll_free(struct enroll *enroll);

#endif
