/* What a node says, checked and made what goes into the log. Values only: no session, no state. */
#ifndef XCE_LEASED_SERVICE_REPORT_H
#define XCE_LEASED_SERVICE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/node.pb-c.h"

/* Whether it is a machine id or a boot id: 32 lowercase hex digits. */
bool report_is_id(const ProtobufCBinaryData *id);

/* Name, ids and number of proofs. 0; -EINVAL, err names the field. */
int report_check_hello(const Xce__V1__Hello *hello, struct err *err);
/* The names of pools. 0; -EINVAL. */
int report_check_pools(const Xce__V1__Report *report, struct err *err);

/* The same for the log: *ret is one block, to be freed with free; strings stay where they are.
 * 0; -EINVAL a word is no text, err names which; -ENOMEM. */
int report_members(Xce__V1__MemberReport *const *from, size_t n, Xce__V1__CmdMember ***ret,
                   struct err *err);
int report_blocks(Xce__V1__BlockReport *const *from, size_t n, Xce__V1__CmdBlock ***ret,
                  struct err *err);
/* -EINVAL: too many. */
int report_epochs(Xce__V1__EpochReport *const *from, size_t n, Xce__V1__CmdEpoch ***ret,
                  struct err *err);

#endif
