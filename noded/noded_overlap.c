/* Before a pool is made or grows leased asks whether somebody has a uid of it here. The last question alone is answered. */
#include <errno.h>
#include <string.h>

#include "noded/noded_inside.h"
#include "noded/reason.h"

/* In all less than leased waits. */
#define LIST_MS  3000
#define FILES_MS 2000

static void ask(struct noded *n, bool files);

/* What somebody has is said before what is not known. */
static void answer_take(struct noded *n, const struct collide_answer *answer)
{
    const struct collide_found *doubt = NULL;

    for (uint32_t i = 0; i < answer->n; i++) {
        const struct collide_found *found = &answer->found[i];

        if (found->reason != REASON_SCAN_FAILED) {
            session_overlap(n->session, n->overlap.asked, found->uid, found->detail);
            return;
        }
        doubt = found;
    }
    session_overlap(n->session, n->overlap.asked, 0, doubt ? doubt->detail : "");
}

static void asked(int r, const struct collide_answer *answer, void *arg)
{
    struct noded *n = arg;
    bool files = n->overlap.files;

    n->overlap.asking = false;
    if (r == -ECANCELED)
        return;
    if (n->overlap.question != n->overlap.asked)
        ask(n, n->checking_files);
    else if (r == 0)
        answer_take(n, answer);
    else if (!files)
        ask(n, true); /* as the check of a pool does: each uid is asked for before it is used */
    else
        session_overlap(n->session, n->overlap.asked, 0, "its name services do not answer");
}

static void ask(struct noded *n, bool files)
{
    struct collide_question q = {
        .kind = files ? COLLIDE_RANGE_FILES : COLLIDE_RANGE,
        .n = 2,
        .uids = {{n->overlap.first, 0}, {n->overlap.last, 0}},
    };

    memcpy(q.prefix, n->prefix, sizeof(n->prefix));
    n->overlap.asking = true;
    n->overlap.files = files;
    n->overlap.asked = n->overlap.question;
    accounts_ask(n->overlap.accounts, &q, files ? FILES_MS : LIST_MS, asked, n);
}

void noded_op_overlap(uint64_t question, uint32_t first, uint32_t last, void *arg)
{
    struct noded *n = arg;

    if (atomic_load(&n->stopping))
        return;
    n->overlap.question = question;
    n->overlap.first = first;
    n->overlap.last = last;
    if (!n->overlap.asking)
        ask(n, n->checking_files);
}
