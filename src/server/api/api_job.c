/* api_job.c: a request's life: its answers are submitted, told as they come, and gone.
 *
 *     scheduler's thread                  server's thread
 *     on_token: into the answer's ring    api_job_go_on: ring ──► tell ──► exchange
 *     on_end: the answer has ended        api_job_gone: cancels
 *
 * A job lives until its exchange is gone and all its answers have ended, whichever is later. Where
 * a client reads too slowly its ring fills, and it is cancelled. */
#include <stdio.h>
#include <string.h>

#include "server/api/api_private.h"

/* ---- on the scheduler's thread ---- */

bool api_on_token(void *context, const mnem_request_token *token) {
    api_answer *answer = context;
    api *a = answer->job->api;
    const api_ring_token kept = {.ms = tell_now_ms(),
                                 .id = token->id,
                                 .index = token->index,
                                 .top_count = token->top_count,
                                 .logprob = token->logprob,
                                 .end = token->end};
    pthread_mutex_lock(&a->lock);
    const bool room = answer->count < answer->room;
    if (room) {
        char *at = answer->ring +
                   (size_t)((answer->first + answer->count) % answer->room) * answer->stride;
        memcpy(at, &kept, sizeof kept);
        memcpy(at + sizeof kept, token->top, (size_t)token->top_count * sizeof *token->top);
        answer->count++;
    } else
        answer->slow = true;
    const bool wake = api_note(a, &answer->job->owner);
    pthread_mutex_unlock(&a->lock);
    if (wake) http_server_wake(a->server);
    return room;
}

void api_on_end(void *context, const mnem_request_result *result) {
    api_answer *answer = context;
    api *a = answer->job->api;
    pthread_mutex_lock(&a->lock);
    answer->ended = true;
    answer->end = result->end;
    answer->status = result->status;
    answer->cached_tokens = result->cached_tokens;
    snprintf(answer->why, sizeof answer->why, "%s", result->text);
    const bool wake = api_note(a, &answer->job->owner);
    pthread_mutex_unlock(&a->lock);
    if (wake) http_server_wake(a->server);
}

void api_on_event(void *context, uint64_t request, mnem_request_event event) {
    api_answer *answer = context;
    api *a = answer->job->api;
    (void)request;
    if (event != MNEM_EVENT_PREEMPTED) return;
    pthread_mutex_lock(&a->lock);
    answer->job->preempted = true;
    const bool wake = api_note(a, &answer->job->owner);
    pthread_mutex_unlock(&a->lock);
    if (wake) http_server_wake(a->server);
}

void api_on_prompt(void *context, int32_t tokens, int32_t cached) {
    api_answer *answer = context;
    api *a = answer->job->api;
    pthread_mutex_lock(&a->lock);
    const int32_t at = answer->steps < API_STEPS ? answer->steps++ : API_STEPS - 1;
    answer->progress[at] = (api_progress){tokens, cached, tell_now_ms()};
    const bool wake = api_note(a, &answer->job->owner);
    pthread_mutex_unlock(&a->lock);
    if (wake) http_server_wake(a->server);
}

/* ---- what goes out ---- */

static void cancel(api_job *job) {
    if (!job->served || !job->served->scheduler) return;
    for (int32_t i = 0; i < job->answers; i++)
        if (job->answer[i].request && !job->answer[i].told_end)
            mnem_scheduler_cancel(job->served->scheduler, job->answer[i].request);
}

static void begin_stream(api_job *job) {
    if (job->streaming) return;
    job->streaming = true;
    http_stream_begin(job->exchange, 200,
                      job->tell.form->lines ? "application/x-ndjson" : "text/event-stream",
                      "Cache-Control: no-cache\r\n");
}

/* As much of what is told as there is room for. */
static void send(api_job *job) {
    api_text *out = &job->tell.out;
    size_t at = 0;
    if (!out->length) return;
    begin_stream(job);
    const size_t most = http_stream_most(job->exchange);
    while (at < out->length) {
        const size_t n = out->length - at < most ? out->length - at : most;
        if (!http_stream_write(job->exchange, out->bytes + at, n)) break;
        at += n;
    }
    if (at) job->quiet = 0;
    api_drop(out, at);
}

/* Ends with an error: a status, or an event where a status is out already. */
void api_job_fail(api_job *job, const api_error *error) {
    if (job->over) return;
    job->over = true;
    cancel(job);
    if (!job->exchange) return;
    if (!job->streaming) {
        api_answer_error(job->api, job->exchange, error, job->tell.form->error);
        return;
    }
    tell_error(&job->tell, error);
    send(job);
    if (job->tell.out.length)
        http_stream_abort(job->exchange);
    else
        http_stream_end(job->exchange);
}

static void finish(api_job *job) {
    if (!job->tell.stream) {
        job->over = true;
        http_respond_borrowed(job->exchange, 200, "application/json", NULL, job->tell.out.bytes,
                              job->tell.out.length);
        return;
    }
    send(job);
    if (job->tell.out.length) return; /* on_writable comes */
    job->over = true;
    http_stream_end(job->exchange);
}

/* ---- on the server's thread: what has come ---- */

/* Takes a token out of the ring; false: there is none. */
static bool pop_token(api_answer *answer, mnem_request_token *token, mnem_token_logprob *top,
                      double *ms) {
    api_ring_token kept;
    api *a = answer->job->api;
    pthread_mutex_lock(&a->lock);
    const bool any = answer->count > 0;
    if (any) {
        const char *at = answer->ring + (size_t)answer->first * answer->stride;
        memcpy(&kept, at, sizeof kept);
        memcpy(top, at + sizeof kept, (size_t)kept.top_count * sizeof *top);
        answer->first = (answer->first + 1) % answer->room;
        answer->count--;
        *ms = kept.ms;
        *token = (mnem_request_token){.id = kept.id,
                                      .index = kept.index,
                                      .end = kept.end,
                                      .logprob = kept.logprob,
                                      .top = top,
                                      .top_count = kept.top_count};
    }
    pthread_mutex_unlock(&a->lock);
    return any;
}

static tell_finish finish_of(const api_answer *answer) {
    if (answer->end == MNEM_END_STOP) return TELL_STOP;
    return answer->end == MNEM_END_LENGTH ? TELL_LENGTH : TELL_FAILED;
}

static bool refuse_end(const api_answer *answer, api_error *error) {
    if (answer->end == MNEM_END_ERROR)
        return api_refuse(error, answer->status == MNEM_OVER_BUDGET ? 400 : 500, NULL, "%s",
                          answer->why);
    if (answer->slow)
        return api_refuse(error, 408, NULL,
                          "the client read the response too slowly, so the server ended it: read "
                          "it faster, or ask for fewer tokens");
    error->retry_seconds = 5;
    return api_refuse(error, 503, NULL, "the server is shutting down, so this answer was ended");
}

static bool refuse_cut(const api_answer *answer, api_error *error) {
    static const char *const params[ASK_FORMS] = {[ASK_CHAT] = "max_tokens",
                                                  [ASK_RESPONSES] = "max_output_tokens",
                                                  [ASK_MESSAGES] = "max_tokens",
                                                  [ASK_OLLAMA_CHAT] = "num_predict"};
    const tell *t = &answer->job->tell;
    error->code = "tool_call_cut";
    return api_refuse(
        error, 400, params[t->protocol],
        "the tool call is incomplete, because the answer reached the limit of tokens or the end of "
        "the context after %d tokens: allow more tokens, or shorten the prompt",
        t->choice[answer->index].tokens);
}

/* Tokens while there is room for what they tell. */
static void tell_tokens_of(api_job *job, api_answer *answer) {
    enum { OUT_MOST = 64 << 10 };
    tell_choice *choice = &job->tell.choice[answer->index];
    mnem_token_logprob top[MNEM_TOP_LOGPROBS];
    mnem_request_token token;
    while ((!job->tell.stream || job->tell.out.length < OUT_MOST) &&
           pop_token(answer, &token, top, &choice->now_ms)) {
        if (token.index >= 0) api_seat_add(job, token.id);
        if (choice->stopped_by || choice->ended || tell_token(choice, &token)) continue;
        mnem_scheduler_cancel(job->served->scheduler, answer->request);
    }
}

static void tell_steps_of(api_job *job, api_answer *answer) {
    api_progress steps[API_STEPS];
    pthread_mutex_lock(&job->api->lock);
    const int32_t n = answer->steps;
    memcpy(steps, answer->progress, (size_t)n * sizeof *steps);
    answer->steps = 0;
    pthread_mutex_unlock(&job->api->lock);
    for (int32_t i = 0; i < n; i++)
        tell_progress(&job->tell.choice[answer->index], steps[i].tokens, steps[i].cached,
                      steps[i].ms);
}

static void go_on_answer(api_job *job, api_answer *answer, api_error *error) {
    tell_choice *choice = &job->tell.choice[answer->index];
    if (answer->told_end) return;
    if (!job->over) tell_steps_of(job, answer);
    if (!job->over) tell_tokens_of(job, answer);
    pthread_mutex_lock(&job->api->lock);
    if (job->over) answer->count = 0;
    const bool ended = answer->ended && answer->count == 0;
    pthread_mutex_unlock(&job->api->lock);
    if (!ended) return;
    answer->told_end = true;
    job->answers_open--;
    if (job->over) return;
    if (answer->index % job->tell.n == 0) job->tell.cached_tokens += answer->cached_tokens;
    const tell_finish how = choice->stopped_by ? TELL_STOPPED
                            : choice->ended    ? TELL_STOP
                                               : finish_of(answer);
    if (how == TELL_FAILED)
        refuse_end(answer, error);
    else if (how == TELL_LENGTH && tell_is_cut(choice))
        refuse_cut(answer, error);
    else
        tell_end(choice, how);
}

/* Stops using the model, since all answers have ended: so it can be unloaded before the client has
 * read them. */
static void let_go(api_job *job) {
    if (!job->served) return;
    for (int32_t i = 0; i < job->answers; i++) api_limit_drop(job->api, &job->answer[i].limit);
    api_slot *slot = job->served->slot;
    api_served_leave(job->api, job->served);
    job->served = NULL;
    if (job->keep.said) api_keep(job->api, slot, job->keep.seconds);
}

static void job_free(api_job *job) {
    api *a = job->api;
    let_go(job);
    if (job->before)
        job->before->next = job->next;
    else
        a->jobs = job->next;
    if (job->next) job->next->before = job->before;
    api_seat_leave(job);
    for (int32_t i = 0; i < job->answers; i++) api_free(&a->memory, job->answer[i].ring);
    tell_fini(&job->tell);
    api_free(&a->memory, job->answer);
    api_free(&a->memory, job->stops);
    api_free(&a->memory, job);
}

static void free_if_done(api_job *job) {
    pthread_mutex_lock(&job->api->lock);
    const bool woken = job->owner.woken; /* it is in the list, and will be looked at */
    pthread_mutex_unlock(&job->api->lock);
    if (!woken && !job->exchange && job->answers_open == 0) job_free(job);
}

/* Since it was asked last. */
static bool was_preempted(api_job *job) {
    pthread_mutex_lock(&job->api->lock);
    const bool was = job->preempted;
    job->preempted = false;
    pthread_mutex_unlock(&job->api->lock);
    return was;
}

/* A comment that says of a stream why it stood still. It goes in front of what goes on: clients
 * that look for events in what they read at a time (vLLM's benchmark) would lose the next one
 * behind a comment that comes alone. */
static void go_on_answers(api_job *job, api_error *error) {
    static const char comment[] = ": preempted\n\n";
    api_text *out = &job->tell.out;
    const size_t before = out->length;
    if (was_preempted(job)) job->aside = job->tell.stream && !job->tell.form->lines;
    if (job->aside) api_say(out, comment);
    for (int32_t i = 0; i < job->answers; i++) go_on_answer(job, &job->answer[i], error);
    if (!job->aside) return;
    if (out->length == before + sizeof comment - 1)
        out->length = before;
    else
        job->aside = false;
}

/* To try again helps where others have the memory. */
static void refuse_answer(const api *a, api_error *error) {
    const bool shared = a->jobs && a->jobs->next;
    if (shared) error->retry_seconds = 1;
    api_refuse(error, shared ? 429 : 413, NULL,
               "the response needs more memory than is free for responses: ask for fewer tokens, "
               "or stream the response");
}

/* Where a job is over its tokens are taken out all the same: its answers end then. */
void api_job_go_on(api_job *job) {
    api_error error = {0};
    go_on_answers(job, &error);
    if (!job->over && tell_failed(&job->tell)) refuse_answer(job->api, &error);
    if (error.status) api_job_fail(job, &error);
    if (job->answers_open == 0) let_go(job);
    if (!job->over && job->exchange) {
        if (job->answers_open == 0)
            finish(job);
        else if (job->tell.stream)
            send(job);
    }
    free_if_done(job);
}

void api_job_gone(api_job *job) {
    job->exchange = NULL;
    job->over = true;
    cancel(job);
    free_if_done(job);
}

/* Who waits is told that the server lives; the head is out then, and what goes wrong is an event.
 * An empty line ends an event that has nothing, which is none; a comment would be text, of which
 * clients make something that look for events in what they read at a time. A line of JSON may begin
 * with a space. */
void api_job_tick(api_job *job) {
    if (job->over || !job->exchange || !job->tell.stream || ++job->quiet < API_PING_SECONDS) return;
    if (job->tell.out.length) return;
    api_say(&job->tell.out, job->tell.form->lines ? " " : "\n");
    send(job);
}
