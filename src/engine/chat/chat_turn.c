/* chat_turn.c: a conversation in one call: what it stands on, and the loop of a turn.
 *
 * Invariants: ids begins with the session's sequence, so that what a rendering has in common with
 * it needn't be evaluated; what is charged before the plan is all that talking takes. */
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "engine/chat/chat_private.h"
#include "mnem/supports.h"

enum {
    USUAL_CONTEXT = 4096,
    USUAL_TEXT = 256,   /* tokens of a text that no template ends */
    TOKEN_BYTES = 8,    /* more than tokens of text have on average */
    USUAL_BYTES = 2048, /* a message that any context's history has room for */
    PIECE_MOST = 256,   /* bytes of a token that are joined at a time */
};

/* ---- life ---- */

static mnem_status open_sampler(mnem_chat *c, const mnem_sampler_options *options) {
    const mnem_sampler_options usual = mnem_sampler_usual();
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(c->opened.tokenizer, &info);
    return mnem_sampler_create(options ? options : &usual, info.vocab, &c->sampler);
}

/* All that a conversation takes besides the engine. */
static mnem_status open_talk(mnem_chat *c, const mnem_chat_options *o, int32_t most) {
    const size_t room = (size_t)most * TOKEN_BYTES + USUAL_BYTES;
    c->room = most;
    if (o->arguments && !(c->arguments = mnem__strndup("chat", o->arguments, strlen(o->arguments))))
        return mnem__heap_status();
    if (!(c->ids = mnem__calloc("chat", (size_t)most, sizeof *c->ids))) return mnem__heap_status();
    MNEM__TRY(mnem__chat_open_template(c, o->template_source));
    MNEM__TRY(mnem__chat_text_open(&c->said, room, !c->template));
    MNEM__TRY(open_sampler(c, o->sampler));
    MNEM__TRY(mnem__chat_try(c, o->system));
    c->tokens = o->tokens ? o->tokens : c->template ? 0 : USUAL_TEXT;
    return mnem__chat_reserve(c, o->system);
}

static mnem_status open_all(mnem_chat *c, const char *path, const mnem_chat_options *o) {
    mnem_opened *at = &c->opened;
    mnem_engine_options engine = o->engine ? *o->engine : (mnem_engine_options){0};
    mnem_transformer t;
    const mnem_ledger_options budget = {.budget_bytes = o->budget_bytes, .preparing = true};
    MNEM__TRY(mnem_ledger_create_process(&budget, &at->ledger));
    engine.ledger = at->ledger;
    MNEM__TRY(mnem_model_open(path, &at->model));
    MNEM__TRY(mnem_model_transformer(at->model, &t));
    MNEM__TRY(mnem_transformer_supports(&t, MNEM_FEATURE_GENERATE));
    MNEM__TRY(mnem_tokenizer_create(at->model, &at->tokenizer));
    const int32_t usual = t.context < USUAL_CONTEXT ? t.context : USUAL_CONTEXT;
    MNEM__TRY(open_talk(c, o, engine.context > 0 ? engine.context : usual));
    if (!engine.snapshots) engine.snapshots = MNEM_SNAPSHOTS_FILL;
    MNEM__TRY(mnem_engine_plan_make(at->model, &engine, &at->plan));
    MNEM__TRY(mnem_session_create(at->model, &engine, &at->plan, &at->session));
    if (c->fixed_tokens < at->plan.context) return MNEM_OK;
    return mnem__fail(MNEM_OVER_BUDGET,
                      "chat: the system text and the template have %d tokens, but the context has "
                      "%d; use a larger context or a shorter text",
                      c->fixed_tokens, at->plan.context);
}

mnem_status mnem_chat_open(const char *path, const mnem_chat_options *options, mnem_chat **chat,
                           uint64_t *needed_bytes) {
    *chat = NULL;
    if (needed_bytes) *needed_bytes = 0;
    if (options->tokens < 0)
        return mnem__fail(
            MNEM_INVALID,
            "chat: the token limit of an answer is %d, expected 1 or more, or 0 for no limit",
            options->tokens);
    mnem_chat *c = mnem__calloc("chat", 1, sizeof *c);
    if (!c) return mnem__heap_status();
    const mnem_status status = open_all(c, path, options);
    if (status == MNEM_OVER_BUDGET && needed_bytes) *needed_bytes = c->opened.plan.needed_bytes;
    if (status != MNEM_OK) {
        mnem_chat_close(c);
        return status;
    }
    c->info.has_template = c->template != NULL;
    c->info.context = c->opened.plan.context;
    *chat = c;
    return MNEM_OK;
}

void mnem_chat_close(mnem_chat *c) {
    if (!c) return;
    mnem__chat_close_template(c);
    mnem_sampler_destroy(c->sampler);
    mnem__chat_text_close(&c->said);
    mnem__free(c->ids);
    mnem__free(c->arguments);
    mnem_close(&c->opened);
    mnem__free(c);
}

/* ---- the history as a sequence ---- */

static mnem_status refuse_length(const char *unit, size_t n, int64_t room) {
    return mnem__fail(MNEM_OVER_BUDGET,
                      "chat: the message has %zu %s, but the context has space for %lld; use a "
                      "larger context or a shorter message",
                      n, unit, (long long)(room > 0 ? room : 0));
}

/* A message that can't fit is refused before any turn is dropped for it. */
static mnem_status check_length(mnem_chat *c, const char *text, size_t n) {
    const int32_t *ids;
    size_t count;
    const int64_t room = c->info.context - c->fixed_tokens - 1;
    const size_t bytes = mnem__chat_text_bytes(&c->said, text, n);
    const size_t most = mnem__chat_text_most(&c->said);
    if (bytes > most) return refuse_length("bytes", bytes, (int64_t)most);
    MNEM__TRY(
        mnem_tokenizer_encode(c->opened.tokenizer, text, n, MNEM_ENCODE_NO_SPECIAL, &ids, &count));
    return (int64_t)count <= room ? MNEM_OK : refuse_length("tokens", count, room);
}

static void drop_oldest(mnem_chat *c) {
    mnem__chat_text_drop_oldest(&c->said);
    c->info.turns_dropped++;
}

static mnem_status add_message(mnem_chat *c, const char *message) {
    const size_t n = strlen(message);
    MNEM__TRY(check_length(c, message, n));
    while (!mnem__chat_text_user(&c->said, message, n)) {
        if (c->said.turns == 0) return refuse_length("bytes", n, 0);
        drop_oldest(c);
    }
    return MNEM_OK;
}

/* Tokens that must be left to answer in, or else the oldest turns are dropped. Where some go, as
 * many as free a quarter, so that it isn't done again soon. */
static int64_t least_room(const mnem_chat *c) {
    return c->info.turns_dropped ? c->info.context / 4 : c->info.context / 16 + 1;
}

/* The history's tokens that are in front of the answer, without the turns that leave no room. */
static mnem_status lay(mnem_chat *c, const int32_t **ids, size_t *count) {
    for (;; drop_oldest(c)) {
        const mnem_status status = mnem__chat_encode(c, ids, count);
        const bool last = c->said.turns == 1;
        if (status != MNEM_OK && (status != MNEM_OVER_BUDGET || last)) return status;
        if (status != MNEM_OK) continue;
        const int64_t room = c->info.context - (int64_t)*count;
        if (room >= least_room(c) || (last && room >= 1 && *count > 0)) return MNEM_OK;
        if (last) return refuse_length("tokens", *count, c->info.context - 1);
    }
}

static bool choose(void *context, int32_t index, const float *logits) {
    mnem_chat *c = context;
    (void)index;
    c->answer.next = mnem_sampler_choose(c->sampler, logits);
    mnem_sampler_accept_chosen(c->sampler, c->answer.next);
    return true;
}

/* Evaluates what the sequence doesn't begin with yet. */
static mnem_status read_prompt(mnem_chat *c, const int32_t *ids, size_t count) {
    const int32_t length = mnem_session_length(c->opened.session), n = (int32_t)count;
    int32_t same = 0;
    while (same < n - 1 && same < length && c->ids[same] == ids[same]) same++;
    MNEM__TRY(mnem_session_truncate(c->opened.session, same));
    same = mnem_session_length(c->opened.session);
    memcpy(c->ids + same, ids + same, (size_t)(n - same) * sizeof *ids);
    mnem_sequence_snapshots_at_turns(mnem_session_sequence(c->opened.session), c->opened.tokenizer,
                                     &c->end, c->end >= 0, ids, n);
    c->info.prompt_tokens = n;
    c->info.kept_tokens = same;
    mnem_sampler_reset_chosen(c->sampler);
    for (int32_t i = same; i < n; i++) mnem_sampler_accept(c->sampler, ids[i]);
    return mnem_session_eval(c->opened.session, c->ids + same, n - same, n - same - 1, choose, c);
}

/* ---- the answer ---- */

/* Tells the bytes that make whole characters with those before; n 0: what is left. */
static mnem_status tell(mnem_chat *c, const char *bytes, size_t n) {
    char text[3 * (PIECE_MOST + 4)];
    mnem__answer *a = &c->answer;
    do {
        const size_t part = n < PIECE_MOST ? n : PIECE_MOST;
        const size_t length = mnem_utf8_join(&a->joiner, bytes, part, text);
        a->kept = a->kept && mnem__chat_text_put(&c->said, text, length);
        a->bytes += length;
        if (length && a->on_text && !a->on_text(a->context, text, length))
            return mnem__fail(MNEM_CANCELLED,
                              "chat: stopped by the caller: on_text returned false");
        bytes += part;
        n -= part;
    } while (n);
    return MNEM_OK;
}

static bool ends(const mnem_chat *c) {
    return mnem_tokenizer_is_end(c->opened.tokenizer, c->answer.next) || c->answer.next == c->end;
}

static mnem_status answer(mnem_chat *c) {
    mnem_chat_info *info = &c->info;
    while (!ends(c)) {
        const mnem_text piece = mnem_tokenizer_piece(c->opened.tokenizer, c->answer.next, false);
        info->tokens++;
        if (piece.length) MNEM__TRY(tell(c, piece.bytes, piece.length));
        const int32_t length = mnem_session_length(c->opened.session);
        info->end = info->tokens == c->tokens ? MNEM_CHAT_LIMIT : MNEM_CHAT_CONTEXT;
        if (info->end == MNEM_CHAT_LIMIT || length == info->context) return tell(c, "", 0);
        c->ids[length] = c->answer.next;
        info->end = MNEM_CHAT_NO_ANSWER;
        MNEM__TRY(mnem_session_eval(c->opened.session, c->ids + length, 1, 0, choose, c));
    }
    info->end = MNEM_CHAT_ENDED;
    return tell(c, "", 0);
}

static mnem_status turn(mnem_chat *c) {
    const int32_t *ids;
    size_t count;
    MNEM__TRY(lay(c, &ids, &count));
    MNEM__TRY(read_prompt(c, ids, count));
    c->answer.kept = mnem__chat_text_begin(&c->said);
    return answer(c);
}

mnem_status mnem_chat_say(mnem_chat *c, const char *message, mnem_on_text *on_text, void *context) {
    c->info = (mnem_chat_info){.has_template = c->info.has_template, .context = c->info.context};
    c->answer = (mnem__answer){.on_text = on_text, .context = context, .next = -1};
    MNEM__TRY(add_message(c, message));
    const mnem_status status = turn(c);
    if (status == MNEM_CANCELLED) c->info.end = MNEM_CHAT_CANCELLED;
    if (status == MNEM_OK || c->answer.bytes > 0)
        mnem__chat_text_end(&c->said);
    else
        mnem__chat_text_take_back(&c->said);
    return status;
}

void mnem_chat_reset(mnem_chat *c) {
    mnem__chat_text_reset(&c->said);
}

void mnem_chat_cancel(mnem_chat *c) {
    mnem_session_cancel(c->opened.session);
}

/* ---- what there is to know ---- */

void mnem_chat_info_get(const mnem_chat *c, mnem_chat_info *info) {
    *info = c->info;
    info->turns = c->said.turns;
}

mnem_text mnem_chat_history(mnem_chat *c) {
    return mnem__chat_text_all(&c->said);
}

const mnem_opened *mnem_chat_opened(const mnem_chat *c) {
    return &c->opened;
}
