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
#include "leased/service/internal.h"
#include "leased/service/session.h"

/* Less than another replica has for its answer. */
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
    int64_t until_ms;
    survey_fn done;
    void *arg;
    struct heard heard[OVERLAPS_MAX];
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

int survey_begin(struct service *service, const struct fsm_range *range, survey_fn done, void *arg)
{
    struct survey *survey;
    size_t n = 0;

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
    survey->until_ms = service->deps.mono_ms() + SURVEY_MS;
    survey->done = done;
    survey->arg = arg;
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

static void finish(struct service *service, struct survey *survey, bool ending)
{
    AUTO(buf_done) struct buf answered = BUF_INIT(HOSTLIST_TEXT_MAX);
    Xce__V1__OverlapReply reply = XCE__V1__OVERLAP_REPLY__INIT;
    Xce__V1__Overlap *overlaps[OVERLAPS_MAX];

    TAILQ_REMOVE(&service->surveys, survey, link);
    add_answered(survey, &answered);
    for (size_t i = 0; i < survey->n_heard; i++)
        overlaps[i] = &survey->heard[i].message;
    reply.overlaps = overlaps;
    reply.n_overlaps = survey->n_heard;
    reply.answered = (char *)(uintptr_t)buf_str(&answered);
    survey->done(ending ? NULL : &reply, survey->arg);
    free(survey->answered);
    free(survey);
}

void survey_elapse(struct service *service)
{
    int64_t now_ms = service->deps.mono_ms();
    struct survey *survey = first_of(service);

    if (!survey)
        return;
    /* Nobody else's answer can be taken for one to this question. */
    while (!survey->question.question)
        digest_random(&survey->question.question, sizeof survey->question.question);
    if (session_survey(service, &survey->question) || now_ms >= survey->until_ms)
        finish(service, survey, false);
}

void survey_stop(struct service *service)
{
    struct survey *survey;

    while ((survey = first_of(service)))
        finish(service, survey, true);
}

static void keep(struct survey *survey, const char *node, const Xce__V1__OverlapAnswer *answer)
{
    struct heard *heard;

    if (survey->n_heard == OVERLAPS_MAX)
        return;
    heard = &survey->heard[survey->n_heard++];
    xce__v1__overlap__init(&heard->message);
    memcpy(heard->node, node, strlen(node) + 1);
    (void)text_escape(answer->what.data, answer->what.len, heard->what, sizeof heard->what);
    heard->message.node = heard->node;
    heard->message.what = heard->what;
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
