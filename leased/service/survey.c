#include "leased/service/survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/hostlist.h"
#include "common/mem.h"
#include "common/text.h"
#include "leased/service/gather.h"
#include "leased/service/internal.h"
#include "leased/service/session.h"

/* Together less than another replica has for its answer. */
#define TURN_MS      1000
#define SURVEY_MS    6000
#define SURVEYS_MAX  16
#define OVERLAPS_MAX 8 /* kept of all that nodes say */
#define WHAT_MAX     256

struct heard {
    Xce__V1__Overlap message;
    char node[TEXT_NODE_MAX + 1], what[WHAT_MAX];
};

struct survey {
    TAILQ_ENTRY(survey) link;
    Xce__V1__OverlapQuestion question; /* number 0: it waits for others */
    int64_t until_ms;                  /* of its turn; then of the answers */
    bool listed;                       /* this machine has been looked at */
    bool all;                          /* nodes are asked in any case */
    bool here;                         /* and somebody has a uid there: no node need be asked */
    survey_fn done;
    void *arg;
    struct heard heard[OVERLAPS_MAX + 1]; /* the last place is this machine's alone */
    size_t n_heard;
    struct answered {
        char node[TEXT_NODE_MAX + 1];
    } * answered;
    size_t n_answered, cap;
};

static struct survey *first_of(struct service *service)
{
    return TAILQ_FIRST(&service->surveys);
}

static struct heard *add_heard(struct survey *survey, const char *node, const void *what,
                               size_t len)
{
    struct heard *heard = &survey->heard[survey->n_heard++];

    xce__v1__overlap__init(&heard->message);
    memcpy(heard->node, node, strlen(node) + 1);
    (void)text_escape(what, len, heard->what, sizeof heard->what);
    heard->message.node = heard->node;
    heard->message.what = heard->what;
    return heard;
}

static void listed(int r, const struct overlap *overlap, void *arg)
{
    struct survey *survey = arg;
    const struct overlap_taken *taken;
    struct heard *heard;

    survey->listed = true;
    if (r < 0) {
        (void)add_heard(survey, "", gather_why(r), strlen(gather_why(r)));
        return;
    }
    taken = overlap_find(overlap, survey->question.first, survey->question.last);
    if (!taken)
        return;
    heard = add_heard(survey, "", taken->what, strlen(taken->what));
    heard->message.first = taken->first;
    heard->message.last = taken->last;
    survey->here = !survey->all;
}

int survey_begin(struct service *service, const struct fsm_range *range, bool all, survey_fn done,
                 void *arg)
{
    struct survey *survey;
    size_t n = 0;
    int r;

    TAILQ_FOREACH(survey, &service->surveys, link)
    n++;
    if (n >= SURVEYS_MAX)
        return -ENOBUFS;
    survey = calloc(1, sizeof *survey);
    if (!survey)
        return -ENOMEM;
    xce__v1__overlap_question__init(&survey->question);
    survey->question.first = range->first;
    survey->question.last = range->last;
    survey->until_ms = service->deps.mono_ms() + TURN_MS;
    survey->all = all;
    survey->done = done;
    survey->arg = arg;
    r = gather_wait(service->gather, listed, survey);
    if (r < 0) {
        free(survey);
        return r;
    }
    TAILQ_INSERT_TAIL(&service->surveys, survey, link);
    return 0;
}

/* Their names in the short form; what does not fit has not answered. */
static void add_answered(const struct survey *survey, struct buf *ret)
{
    const char **names = mem_must_calloc(survey->n_answered + 1, sizeof *names);

    for (size_t i = 0; i < survey->n_answered; i++)
        names[i] = survey->answered[i].node;
    if (survey->n_answered && hostlist_collapse(names, survey->n_answered, ret) < 0)
        buf_reset(ret);
    free(names);
}

static void finish(struct service *service, struct survey *survey, int r)
{
    AUTO(buf_done) struct buf answered = BUF_INIT(HOSTLIST_TEXT_MAX);
    Xce__V1__OverlapReply reply = XCE__V1__OVERLAP_REPLY__INIT;
    Xce__V1__Overlap *overlaps[OVERLAPS_MAX + 1];

    gather_forget(service->gather, survey);
    TAILQ_REMOVE(&service->surveys, survey, link);
    add_answered(survey, &answered);
    for (size_t i = 0; i < survey->n_heard; i++)
        overlaps[i] = &survey->heard[i].message;
    reply.overlaps = overlaps;
    reply.n_overlaps = survey->n_heard;
    reply.answered = (char *)(uintptr_t)buf_str(&answered);
    survey->done(r, r == 0 ? &reply : NULL, survey->arg);
    free(survey->answered);
    free(survey);
}

static void refuse_late(struct service *service, int64_t now_ms)
{
    struct survey *survey = first_of(service), *next;

    for (; survey; survey = next) {
        next = TAILQ_NEXT(survey, link);
        if (!survey->question.question && now_ms >= survey->until_ms)
            finish(service, survey, -EAGAIN);
    }
}

static bool is_over(struct service *service, const struct survey *survey, int64_t now_ms)
{
    bool all = session_survey(service, &survey->question);

    return survey->here || (survey->listed && (all || now_ms >= survey->until_ms));
}

void survey_elapse(struct service *service)
{
    int64_t now_ms = service->deps.mono_ms();
    struct survey *survey;

    refuse_late(service, now_ms);
    survey = first_of(service);
    if (!survey)
        return;
    if (!survey->question.question)
        survey->until_ms = now_ms + SURVEY_MS;
    /* Nobody else's answer can be taken for one to this question. */
    while (!survey->question.question)
        digest_random(&survey->question.question, sizeof survey->question.question);
    if (is_over(service, survey, now_ms))
        finish(service, survey, 0);
}

void survey_stop(struct service *service)
{
    struct survey *survey;

    while ((survey = first_of(service)))
        finish(service, survey, -ECANCELED);
}

static void keep(struct survey *survey, const char *node, const Xce__V1__OverlapAnswer *answer)
{
    struct heard *heard;

    if (survey->n_heard >= OVERLAPS_MAX)
        return;
    heard = add_heard(survey, node, answer->what.data, answer->what.len);
    heard->message.first = heard->message.last = answer->uid;
}

void survey_heard(struct service *service, const char *node, const Xce__V1__OverlapAnswer *answer)
{
    struct survey *survey = first_of(service);

    if (!survey || survey->question.question != answer->question)
        return;
    /* One that begins anew may be asked again, and counts twice. */
    if (mem_grow(&survey->answered, &survey->cap, survey->n_answered + 1, HOSTLIST_MAX,
                 sizeof *survey->answered) < 0)
        return;
    memcpy(survey->answered[survey->n_answered++].node, node, strlen(node) + 1);
    if (answer->uid || answer->what.len)
        keep(survey, node, answer);
}
