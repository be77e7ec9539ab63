/* tell_answer.c: tokens to text: whole characters, and nothing of a stop string. */
#include <string.h>
#include <time.h>

#include "server/api/tell/tell_private.h"

const tell_form *tell_form_of(ask_form protocol) {
    static const tell_form *const forms[ASK_FORMS] = {
        [ASK_CHAT] = &tell_form_chat,
        [ASK_TEXT] = &tell_form_text,
        [ASK_COMPLETION] = &tell_form_completion,
        [ASK_RESPONSES] = &tell_form_responses,
        [ASK_MESSAGES] = &tell_form_messages,
        [ASK_OLLAMA_CHAT] = &tell_form_ollama,
        [ASK_OLLAMA_TEXT] = &tell_form_ollama,
        [ASK_INFILL] = &tell_form_completion,
    };
    return forms[protocol];
}

/* ---- stop strings ---- */

/* Where the first one begins in what is held, the longest of those that begin there; held.length:
 * none. */
static size_t find_stop(const tell_choice *c, const char **which) {
    const tell *t = c->tell;
    size_t first = c->held.length;
    *which = NULL;
    for (int i = 0; i < t->stops; i++) {
        const size_t n = strlen(t->stop[i]);
        const char *found = memmem(c->held.bytes, c->held.length, t->stop[i], n);
        const size_t at = found ? (size_t)(found - c->held.bytes) : c->held.length;
        if (!found || at > first || (at == first && n <= strlen(*which))) continue;
        first = at;
        *which = t->stop[i];
    }
    return first;
}

/* How many bytes at the end may be the beginning of a stop string. */
static size_t held_back(const tell_choice *c) {
    const tell *t = c->tell;
    size_t most = 0;
    for (int i = 0; i < t->stops; i++) {
        size_t n = strlen(t->stop[i]) - 1;
        if (n > c->held.length) n = c->held.length;
        while (n > most && memcmp(c->held.bytes + c->held.length - n, t->stop[i], n) != 0) n--;
        if (n > most) most = n;
    }
    return most;
}

/* ---- tokens ---- */

double tell_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* The bytes of a token as whole characters, with what the last one left. */
static void join(tell_choice *c, const char *bytes, size_t n) {
    enum { PIECE = 64 };
    char out[3 * (PIECE + 4)];
    size_t at = 0;
    do {
        const size_t part = n - at < PIECE ? n - at : PIECE;
        const size_t made = mnem_utf8_join(&c->joiner, bytes + at, part, out);
        api_put(&c->held, out, made);
        at += part;
    } while (at < n);
}

static void release(tell_choice *c, size_t n, bool final) {
    const size_t told = n ? tell_parts(c, n, final) : 0;
    api_drop(&c->held, told);
    c->told += told;
}

static mnem_text text_of(const tell *t, int32_t id) {
    bool mark = false;
    for (uint32_t i = 0; i < t->marks; i++) mark = mark || t->mark[i] == id;
    return mnem_tokenizer_piece(t->tokenizer, id, mark);
}

/* A prompt's text is what was written: with its control tokens, but without the one that the
 * tokenizer begins with, and the space that it puts in front. */
static mnem_text prompt_text_of(tell_choice *c, int32_t id, bool first) {
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(c->tell->tokenizer, &info);
    if (first && info.add_bos && id == info.bos) return (mnem_text){0};
    mnem_text piece = mnem_tokenizer_piece(c->tell->tokenizer, id, true);
    const bool spaced = c->whole_text && info.add_space_prefix;
    if (spaced && piece.length && *piece.bytes == ' ')
        piece = (mnem_text){piece.bytes + 1, piece.length - 1};
    c->whole_text = false;
    return piece;
}

void tell_prompt(tell_choice *c, const mnem_request_token *token, bool first) {
    const mnem_text piece = prompt_text_of(c, token->id, first);
    if (c->tell->logprobs) tell_log_add(c, token, first);
    if (piece.length) join(c, piece.bytes, piece.length);
    release(c, c->held.length, false);
}

bool tell_token(tell_choice *c, const mnem_request_token *token) {
    const tell *t = c->tell;
    const char *stop;
    if (token->index < 0) {
        tell_prompt(c, token, false);
        return true;
    }
    for (int i = 0; i < t->ends; i++) c->ended = c->ended || token->id == t->end[i];
    if (c->ended) return false;
    const mnem_text piece = token->end ? (mnem_text){0} : text_of(t, token->id);
    if (t->no_answer) return true;
    c->last_ms = c->now_ms;
    if (c->tokens++ == 0) c->first_ms = c->last_ms;
    if (t->logprobs) tell_log_add(c, token, false);
    if (t->lists_ids) api_format(&c->ids, c->ids.length ? ",%d" : "%d", token->id);
    if (piece.length) join(c, piece.bytes, piece.length);
    if (c->held.length == 0) return true;
    /* Calls are whole, and one that is required comes. */
    const bool stops = t->stops && c->part != TELL_CALL && !(t->must_call && !c->calls);
    const size_t at = stops ? find_stop(c, &stop) : c->held.length;
    if (at < c->held.length) {
        c->held.length = at;
        c->stopped_by = stop;
        tell_logs_cut(c, c->told + at);
        return false;
    }
    release(c, c->held.length - (stops ? held_back(c) : 0), false);
    return true;
}

bool tell_is_cut(tell_choice *c) {
    const tell *t = c->tell;
    if (!t->call_format) return false;
    join(c, "", 0);
    if (c->held.length) release(c, c->held.length, true);
    const call_state state = c->parser.state;
    const bool between = state == CALL_COMMA || state == CALL_DONE || state == CALL_BAD;
    return c->in_call || (c->part == TELL_CALL && !between) || (t->must_call && !c->calls);
}

void tell_end(tell_choice *c, tell_finish finish) {
    tell *t = c->tell;
    if (c->finish != TELL_OPEN) return;
    /* A length may cut a character: what there is of it isn't told. */
    if (finish != TELL_STOPPED && finish != TELL_LENGTH) join(c, "", 0);
    if (c->held.length) release(c, c->held.length, true);
    if (c->in_call) t->form->end_call(c);
    c->in_call = false;
    /* A call that is required and whole is all that was asked for, also without its last mark. */
    const bool called =
        c->calls && (finish == TELL_STOP || (finish == TELL_LENGTH && t->must_call));
    c->finish = called ? TELL_CALLS : finish;
    if (t->no_answer) c->finish = TELL_LENGTH;
    t->form->put_finish(c);
    if (--t->choices_open > 0) return;
    if (t->stream) {
        t->form->put_end(t);
        return;
    }
    t->form->put_whole(t);
    api_say(&t->out, "\n");
}

/* ---- a tell's life ---- */

enum { OWN = 7, TEXTS = OWN + 4 };
static void texts_of(tell_choice *c, api_text *texts[TEXTS]) {
    api_text *const own[OWN] = {&c->held,      &c->logs, &c->text,  &c->thought,
                                &c->call_list, &c->ids,  &c->prompt};
    for (int i = 0; i < OWN; i++) texts[i] = own[i];
    for (int i = 0; i < 4; i++) texts[OWN + i] = &c->log_lists[i];
}

bool tell_init(tell *t, api_memory *memory, int32_t choices) {
    t->begin_ms = tell_now_ms();
    api_text *texts[TEXTS];
    t->memory = t->out.memory = t->settings.memory = memory;
    t->choice = api_alloc(memory, (size_t)choices * sizeof *t->choice);
    if (!t->choice) return false;
    t->choices = t->choices_open = choices;
    for (int32_t i = 0; i < choices; i++) {
        tell_choice *c = &t->choice[i];
        c->tell = t;
        c->index = i;
        texts_of(c, texts);
        for (int k = 0; k < TEXTS; k++) texts[k]->memory = memory;
        c->part = t->thinks ? (t->in_thought ? TELL_THOUGHT : TELL_BEGIN) : TELL_TEXT;
        c->parser.format = t->call_format;
        c->parser.texts = &t->call_texts;
    }
    return true;
}

void tell_fini(tell *t) {
    api_text *texts[TEXTS];
    for (int32_t i = 0; i < t->choices; i++) {
        texts_of(&t->choice[i], texts);
        for (int k = 0; k < TEXTS; k++) api_text_fini(texts[k]);
    }
    if (t->memory) api_free(t->memory, t->choice);
    if (t->memory) api_text_fini(&t->out);
    if (t->memory) api_text_fini(&t->settings);
    call_texts_fini(&t->call_texts);
    if (t->unsupported.memory) api_text_fini(&t->unsupported);
    *t = (tell){0};
}

bool tell_failed(const tell *t) {
    api_text *texts[TEXTS];
    bool failed = t->out.failed || t->unsupported.failed || t->settings.failed;
    for (int32_t i = 0; i < t->choices; i++) {
        texts_of(&t->choice[i], texts);
        for (int k = 0; k < TEXTS; k++) failed = failed || texts[k]->failed;
    }
    return failed;
}
