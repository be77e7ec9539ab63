/* serve_step.c: one step: who is in it, with how many tokens, and what comes of it.
 *
 * Idea: everybody who generates is in every step with one token. What is left of the time that a
 * step may take goes to prompts, half of it to the most senior and half to the one that has the
 * least to go: a long prompt neither stops those that talk nor those that only say hello.
 *
 *     rows of a step    g g g g g | p1 p1 p1 p1 p1 | p3 p3 p3 p3 p3      one pass, up to a chunk
 *
 * Where ranks run the model several steps are under way, of groups of lanes that take turns: while
 * one rank computes for one group another does for the next. A lane is in one of them at a time,
 * but for pieces of a prompt, which follow each other.
 *
 * Before a step runs its pages are there: cached prefixes go, then a lane is set aside; whoever
 * still lacks a page waits for the next step, the most junior first.
 * Invariant: a lane's ids up to its count are final. Nothing is allocated. */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/minmax.h"
#include "serve/serve_private.h"

/* Of the time that a step may take, what is planned for: costs are means. */
#define PLANNED 0.85
/* Where nobody generates a step may be longer: larger pieces run faster. */
enum { ALONE = 4 };

/* ---- ends ---- */

void mnem__lane_end(mnem_scheduler *s, mnem__lane *lane, mnem_request_end end, mnem_status status,
                    const char *text) {
    mnem__request *r = lane->request;
    mnem__set_aside_forget(s, lane);
    if (lane->sequence)
        mnem__prefix_keep(s, lane);
    else
        mnem__lane_free(lane);
    mnem__request_end(s, r, end, status, text);
}

static mnem__lane *lane_of(mnem_scheduler *s, const mnem__request *r) {
    for (int32_t i = 0; i < s->lanes; i++)
        if (s->lane[i].state == MNEM__LANE_BUSY && s->lane[i].request == r) return &s->lane[i];
    return NULL;
}

static bool is_flying(mnem_scheduler *s, const mnem__request *r) {
    const mnem__lane *lane = r->state == MNEM__REQUEST_BEGUN ? lane_of(s, r) : NULL;
    return lane && lane->flies;
}

/* The next request that is to be cancelled; under no lock, since ending it calls back. What a step
 * under way chooses for is cancelled behind it. */
static mnem__request *next_cancelled(mnem_scheduler *s) {
    mnem__request *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (int32_t i = 0; i < s->request_slots && !found; i++) {
        mnem__request *r = &s->requests[i];
        if (r->state != MNEM__REQUEST_FREE && (r->cancelled || s->dropping) && !is_flying(s, r))
            found = r;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void end_cancelled(mnem_scheduler *s) {
    for (mnem__request *r; (r = next_cancelled(s)) != NULL;) {
        mnem__lane *lane = lane_of(s, r);
        if (lane)
            mnem__lane_end(s, lane, MNEM_END_CANCELLED, MNEM_OK, "");
        else
            mnem__request_end(s, r, MNEM_END_CANCELLED, MNEM_OK, "");
    }
}

/* ---- functions between steps ---- */

static void make_call(mnem_scheduler *s, const mnem__serve_call *call) {
    int32_t open = 0;
    for (int32_t i = 0; i < s->lanes; i++) open += s->lane[i].sequence != NULL;
    for (int32_t i = 0; i < s->lanes && s->lanes - open < call->sequences; i++) {
        if (s->lane[i].state != MNEM__LANE_CACHED) continue;
        mnem__lane_free(&s->lane[i]);
        open--;
    }
    if (call->sequences > 0) mnem__prefix_evict(s, s->pages.most);
    call->function(call->context, s->engine);
}

/* Those that wait now: who calls again at once waits for a step of the others. */
static void make_calls(mnem_scheduler *s) {
    pthread_mutex_lock(&s->lock);
    for (int32_t left = s->calls; left > 0; left--) {
        const mnem__serve_call call = s->call[0];
        s->calls--;
        for (int32_t i = 0; i < s->calls; i++) s->call[i] = s->call[i + 1];
        pthread_mutex_unlock(&s->lock);
        make_call(s, &call);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- how many tokens of whom ---- */

static bool can_run(const mnem__lane *lane) {
    return lane->sequence && lane->swap.state == MNEM__SWAP_NONE && !lane->flies;
}

/* Up to so many more of the lane's tokens; returns how many of them are left over. */
static int32_t give(mnem__lane *lane, int32_t tokens) {
    const int32_t most = mnem__lane_left(lane) - lane->n;
    const int32_t n = mnem__min_i32(mnem__max_i32(tokens, 0), most);
    lane->n += n;
    return tokens - n;
}

typedef struct crowd {
    int32_t generating, prompts, position; /* position: behind how many the deepest prompt stands */
    mnem__lane *senior, *quick; /* of the prompts: the most senior, the one with the least to go */
} crowd;

/* Of those that generate a step takes so many: with several steps under way each has its part. */
static int32_t group_of(const mnem_scheduler *s) {
    int32_t generating = 0;
    for (int32_t i = 0; i < s->ordered; i++) {
        const mnem__lane *lane = s->order[i];
        generating += lane->flies || (can_run(lane) && mnem__lane_generates(lane));
    }
    return (generating + s->flights_most - 1) / s->flights_most;
}

static crowd look_around(mnem_scheduler *s) {
    crowd c = {0};
    const int32_t group = group_of(s);
    for (int32_t i = 0; i < s->ordered; i++) {
        mnem__lane *lane = s->order[i];
        lane->n = 0;
        if (!can_run(lane)) continue;
        if (mnem__lane_generates(lane)) {
            if (c.generating == group) continue; /* the next step has it */
            lane->n = 1;
            c.generating++;
            continue;
        }
        c.prompts++;
        c.position = mnem__max_i32(c.position, mnem__lane_length(lane));
        if (!c.senior) c.senior = lane;
        if (!c.quick || mnem__lane_left(lane) < mnem__lane_left(c.quick)) c.quick = lane;
    }
    return c;
}

/* Whether weights come from the disk: the more rows read them together the better. Where that alone
 * takes longer than a step may, prompts take all the room of the pass that there is anyway. */
static bool streams(const mnem_scheduler *s) {
    mnem_engine_stats stats;
    mnem_engine_stats_get(s->engine, &stats);
    return stats.bytes_streamed > 0;
}

static int32_t prompt_tokens(const mnem_scheduler *s, const crowd *c) {
    const int32_t room = mnem__max_i32(s->chunk - c->generating, 1);
    const double most = s->options.step_milliseconds * 1e-3 * PLANNED;
    const bool streamed = streams(s);
    if (streamed && (c->generating == 0 || s->cost.step > most)) return room;
    const double seconds =
        c->generating > 0 ? mnem__step_cost_bound(&s->cost, most, streamed) : ALONE * most;
    return mnem__min_i32(
        room, mnem__step_cost_tokens(&s->cost, c->position, seconds, MNEM__SERVE_PROMPT_LEAST));
}

static void deal_tokens(mnem_scheduler *s, const crowd *c) {
    if (c->prompts == 0) return;
    const int32_t tokens = prompt_tokens(s, c);
    int32_t left = c->senior == c->quick ? tokens : tokens / 2;
    left = tokens - left + give(c->quick, left);
    left = give(c->senior, left);
    for (int32_t i = 0; i < s->ordered && left > 0; i++)
        if (can_run(s->order[i]) && !mnem__lane_generates(s->order[i]))
            left = give(s->order[i], left);
}

/* ---- pages for them ---- */

/* Whether tokens of the prompt are still to be told. */
static bool scores(const mnem__request *r) {
    return r->asked.prompt_logprobs && r->scored < r->asked.prompt_tokens;
}

/* A lane's part; its last token's logits are wanted where nothing is known behind it, and those in
 * front of tokens of the prompt that are to be told. */
static mnem_step_part part_of(const mnem__lane *lane) {
    const int32_t length = mnem__lane_length(lane);
    const bool last = length + lane->n == lane->count;
    int32_t first = last ? lane->n - 1 : lane->n;
    if (scores(lane->request))
        first = mnem__min_i32(first, mnem__max_i32(lane->request->scored - 1 - length, 0));
    return (mnem_step_part){lane->sequence, lane->ids + length, lane->n, first};
}

/* The one that begins next. */
static mnem__flight *next_flight(mnem_scheduler *s) {
    return &s->flight[(s->flight_first + s->flights) % s->flights_most];
}

/* Those with tokens, the ones that generate first: they are in the first pass. */
static int32_t make_parts(mnem_scheduler *s) {
    mnem__flight *f = next_flight(s);
    int32_t count = 0;
    for (int prompts = 0; prompts < 2; prompts++) {
        for (int32_t i = 0; i < s->ordered; i++) {
            mnem__lane *lane = s->order[i];
            if (!can_run(lane) || lane->n == 0 || mnem__lane_generates(lane) == (prompts == 1))
                continue;
            f->part_lane[count] = lane;
            f->parts[count++] = part_of(lane);
        }
        if (prompts == 0) f->rows = count;
    }
    f->count = count;
    return count;
}

/* What must be free for a step of these parts: what they take, and beside what others take all that
 * is reserved for the requests that can't be set aside any more. */
static mnem_page_count pages_wanted(mnem_scheduler *s, int32_t count) {
    const mnem__flight *f = next_flight(s);
    mnem_page_count need = {0}, one, rest;
    mnem_engine_step_pages(s->engine, f->parts, count, &need);
    rest = mnem__page_count_plus(need, mnem__pages_promised(s, true));
    for (int32_t i = 0; i < count; i++) {
        if (!f->part_lane[i]->request->whole) continue;
        mnem_engine_step_pages(s->engine, &f->parts[i], 1, &one);
        rest = mnem__page_count_minus(rest, one);
    }
    return mnem__page_count_max(need, rest);
}

/* Takes the most junior out that needs a page. False: nobody does. */
static bool leave_one_out(mnem_scheduler *s, int32_t count) {
    const mnem__flight *f = next_flight(s);
    mnem__lane *found = NULL;
    for (int32_t i = 0; i < count; i++) {
        mnem_page_count need;
        mnem__lane *lane = f->part_lane[i];
        mnem_engine_step_pages(s->engine, &f->parts[i], 1, &need);
        if (mnem__page_count_total(need) == 0 || lane->request->whole) continue;
        if (!found || mnem__request_before(found->request, lane->request)) found = lane;
    }
    if (found) found->n = 0;
    return found != NULL;
}

/* The parts of a step whose pages are there; how many. */
static int32_t find_pages(mnem_scheduler *s) {
    const mnem__lane *senior = s->ordered > 0 ? s->order[0] : NULL;
    for (;;) {
        const int32_t count = make_parts(s);
        if (count == 0) return 0;
        mnem_page_count wanted = pages_wanted(s, count);
        if (mnem__prefix_evict(s, wanted)) return count;
        wanted = pages_wanted(s, count); /* a page that was shared needs no copy any more */
        if (mnem__page_count_fits(wanted, mnem__pages_free(s))) return count;
        const mnem_page_count soon =
            mnem__page_count_plus(mnem__pages_free(s), mnem__set_aside_coming(s));
        if (!mnem__page_count_fits(wanted, soon) && mnem__set_aside_one(s, senior)) continue;
        if (!leave_one_out(s, count)) return count;
    }
}

/* ---- running ---- */

static bool on_logits(void *context, int32_t part, int32_t index, const float *logits) {
    const mnem__flight *f = context;
    mnem__lane *lane = f->part_lane[part];
    const int32_t next = (int32_t)(f->parts[part].ids - lane->ids) + index + 1;
    if (next == lane->count)
        mnem__choose_token(f->scheduler, lane, logits);
    else
        mnem__score_prompt(f->scheduler, lane, logits);
    return true;
}

static void count_time(mnem_scheduler *s, const mnem__request *r, double now) {
    if (r->chosen == 0)
        mnem__histogram_add(&s->now.first_token, now - r->submitted);
    else
        mnem__histogram_add(&s->now.between_tokens, now - r->last);
}

static bool tell_token(mnem_scheduler *s, mnem__lane *lane) {
    mnem__request *r = lane->request;
    const mnem__choice_made *c = &lane->choice;
    const mnem_request_token token = {.request = r->number,
                                      .index = r->chosen,
                                      .id = c->id,
                                      .end = mnem__ends_turn(s, c->id) && !r->asked.ignore_end,
                                      .logprob = c->logprob,
                                      .top = c->top,
                                      .top_count = c->top_count};
    const double now = mnem__seconds();
    count_time(s, r, now);
    if (r->chosen++ == 0) {
        r->first = now;
        mnem__event_request(MNEM__PHASE_FIRST, r->number);
    }
    r->last = now;
    s->now.tokens++;
    return r->asked.on_token(r->asked.context, &token);
}

/* Whether the request goes on behind what was chosen; *end: why not. */
static bool goes_on(mnem_scheduler *s, mnem__lane *lane, mnem_request_end *end) {
    mnem__request *r = lane->request;
    mnem__choice_made *c = &lane->choice;
    *end = MNEM_END_STOP;
    if (c->id < 0) return false;
    if (mnem__ends_turn(s, c->id) && !r->asked.ignore_end) {
        if (!r->asked.prompt_logprobs || tell_token(s, lane)) return false;
        *end = MNEM_END_CANCELLED;
        return false;
    }
    if (r->asked.match) c->status = mnem_match_accept(r->asked.match, c->id);
    *end = MNEM_END_ERROR;
    if (c->status != MNEM_OK) {
        snprintf(c->text, sizeof c->text, "%s", mnem_last_error());
        return false;
    }
    lane->ids[lane->count++] = c->id;
    *end = MNEM_END_CANCELLED;
    if (!tell_token(s, lane)) return false;
    *end = MNEM_END_STOP;
    if (r->asked.match && mnem_match_is_done(r->asked.match)) return false;
    *end = MNEM_END_LENGTH;
    return r->chosen < r->tokens_most;
}

/* Takes what was chosen for the lane, if something was. */
static void advance(mnem_scheduler *s, mnem__lane *lane) {
    mnem__choice_made *c = &lane->choice;
    mnem_request_end end = MNEM_END_ERROR;
    if (!c->made) return;
    c->made = false;
    if (c->status == MNEM_OK && goes_on(s, lane, &end)) return;
    char text[MNEM__SERVE_TEXT];
    const bool failed = end == MNEM_END_ERROR;
    snprintf(text, sizeof text, "%s", failed ? c->text : "");
    mnem__lane_end(s, lane, end, failed ? c->status : MNEM_OK, text);
}

/* From its begin to its logits: what a token of its waits for, with others' steps between. */
static void learn(mnem_scheduler *s, const mnem__flight *f, double seconds) {
    int32_t tokens = 0;
    for (int32_t i = 0; i < f->count; i++) tokens += f->parts[i].n;
    mnem__step_cost_learn(&s->cost, f->rows, tokens - f->rows, f->position, seconds);
    s->now.steps++;
    s->now.step_seconds_last = seconds;
    if (f->rows > 0 && seconds > s->now.step_seconds_longest) s->now.step_seconds_longest = seconds;
    mnem__histogram_add(&s->now.step, seconds);
    s->now.tokens_per_s += (tokens / seconds - s->now.tokens_per_s) / 16;
}

static void end_parts(mnem_scheduler *s, const mnem__flight *f, mnem_status status) {
    char text[MNEM__SERVE_TEXT] = "";
    if (status != MNEM_OK) snprintf(text, sizeof text, "%s", mnem_last_error());
    for (int32_t i = 0; i < f->count; i++) {
        mnem__lane *lane = f->part_lane[i];
        if (status == MNEM_OK)
            advance(s, lane);
        else
            mnem__lane_end(s, lane, MNEM_END_ERROR, status, text);
    }
}

/* Whether the part's logits are wanted: its last token is the lane's, or the prompt is told. */
static bool chooses(const mnem_step_part *part) {
    return part->first_logits < part->n;
}

/* How far the prompts of a step have come. Over ranks only for those whose token is chosen: others
 * may have left their lane meanwhile. */
static void tell_prompts(const mnem_scheduler *s, const mnem__flight *f) {
    for (int32_t i = 0; i < f->count; i++) {
        const mnem__lane *lane = f->part_lane[i];
        const mnem__request *r = lane->request;
        if (s->flights_most > 1 && !chooses(&f->parts[i])) continue;
        if (!r || r->chosen > 0 || !r->asked.on_prompt) continue;
        const int32_t tokens = (int32_t)(f->parts[i].ids - lane->ids) + f->parts[i].n;
        r->asked.on_prompt(r->asked.context, tokens, r->cached_tokens);
    }
}

/* One that can't be begun, since others are under way, is begun when they have landed. */
static void take_off(mnem_scheduler *s, const crowd *c) {
    mnem__flight *f = next_flight(s);
    f->position = c->position;
    f->start = mnem__seconds();
    const mnem_status status =
        mnem_engine_step_begin(s->engine, f->parts, f->count, on_logits, f, &f->ended);
    if (status == MNEM_BUSY) return;
    if (status != MNEM_OK) {
        end_parts(s, f, status);
        return;
    }
    f->seconds = f->ended ? mnem__seconds() - f->start : 0; /* it may land much later */
    for (int32_t i = 0; i < f->count; i++) f->part_lane[i]->flies = chooses(&f->parts[i]);
    s->flights++;
}

/* Takes what the oldest one chose. Of lanes that didn't fly others may have come of it. */
static void land(mnem_scheduler *s) {
    mnem__flight *f = &s->flight[s->flight_first];
    const mnem_status status = f->ended ? MNEM_OK : mnem_engine_step_end(s->engine);
    int32_t kept = 0;
    if (status == MNEM_OK) learn(s, f, f->ended ? f->seconds : mnem__seconds() - f->start);
    if (status == MNEM_OK) tell_prompts(s, f);
    for (int32_t i = 0; i < f->count; i++) {
        if (!chooses(&f->parts[i])) continue;
        f->part_lane[i]->flies = false;
        f->part_lane[kept++] = f->part_lane[i];
    }
    f->count = kept;
    s->flight_first = (s->flight_first + 1) % s->flights_most;
    s->flights--;
    end_parts(s, f, status);
}

/* The number of the newest request. */
static uint64_t newest_request(mnem_scheduler *s) {
    pthread_mutex_lock(&s->lock);
    const uint64_t newest = s->numbers;
    pthread_mutex_unlock(&s->lock);
    return newest;
}

/* Nothing can run and no pages come back, since others hold the engine's pages: waiting would not
 * help. A request that is newer than `newest` came after this step admitted requests: the next step
 * looks at it. */
static void end_hopeless(mnem_scheduler *s, uint64_t newest) {
    static const char text[] =
        "serve: other requests use all KV cache pages, so this request was ended; try again later";
    pthread_mutex_lock(&s->lock);
    mnem__request *r = mnem__queue_next(s, NULL);
    pthread_mutex_unlock(&s->lock);
    if (s->ordered > 0)
        mnem__lane_end(s, s->order[0], MNEM_END_ERROR, MNEM_OVER_BUDGET, text);
    else if (r && r->number <= newest)
        mnem__request_end(s, r, MNEM_END_ERROR, MNEM_OVER_BUDGET, text);
}

mnem_status mnem_scheduler_step(mnem_scheduler *s, bool *more) {
    const int32_t before = s->flights;
    make_calls(s);
    end_cancelled(s);
    mnem__set_aside_poll(s, false);
    const uint64_t newest = newest_request(s);
    mnem__admit(s);
    mnem__lanes_order(s);
    const crowd c = look_around(s);
    deal_tokens(s, &c);
    const int32_t count = find_pages(s);
    if (count > 0)
        take_off(s, &c);
    else if (s->flights == 0 && !mnem__set_aside_poll(s, true))
        end_hopeless(s, newest);
    if (s->flights > 0 && (s->flights == s->flights_most || s->flights == before)) land(s);
    mnem__stats_publish(s);
    pthread_mutex_lock(&s->lock);
    *more = s->waiting + s->begun + s->calls > 0;
    pthread_mutex_unlock(&s->lock);
    /* One rank that failed has ended all of them. */
    const mnem_comm *comm = s->engine->relay.comm;
    const char *text = comm ? mnem_comm_failure(comm) : NULL;
    return text ? mnem__fail(MNEM_IO, "%s", text) : MNEM_OK;
}
