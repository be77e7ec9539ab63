/* continue_text.c: text after text: the loop that encodes, runs, samples and prints.
 *
 * Invariant: what is told is whole UTF-8 characters; the session holds the prompt and every token
 * that was chosen but the last, which nothing was asked after. */
#include <string.h>

#include "base/error.h"
#include "mnem/session.h"

enum { PIECE_MOST = 256 }; /* bytes of a token that are joined at a time */

typedef struct continuation {
    const mnem_opened *o;
    mnem_sampler *sampler;
    mnem_utf8_joiner joiner;
    mnem_on_text *on_text;
    void *context;
    int32_t next;
} continuation;

static bool choose(void *context, int32_t index, const float *logits) {
    continuation *c = context;
    (void)index;
    c->next = mnem_sampler_choose(c->sampler, logits);
    mnem_sampler_accept_chosen(c->sampler, c->next);
    return true;
}

/* Tells the bytes that make whole characters with those before; n 0: what is left. */
static mnem_status tell(continuation *c, const char *bytes, size_t n) {
    char text[3 * (PIECE_MOST + 4)];
    do {
        const size_t part = n < PIECE_MOST ? n : PIECE_MOST;
        const size_t length = mnem_utf8_join(&c->joiner, bytes, part, text);
        if (length && !c->on_text(c->context, text, length))
            return mnem__fail(MNEM_CANCELLED, "engine: stopped by the caller");
        bytes += part;
        n -= part;
    } while (n);
    return MNEM_OK;
}

static mnem_status run_prompt(continuation *c, const char *prompt) {
    const int32_t *ids;
    size_t n;
    MNEM__TRY(mnem_tokenizer_encode(c->o->tokenizer, prompt, strlen(prompt), 0, &ids, &n));
    if (n == 0)
        return mnem__fail(MNEM_INVALID,
                          "engine: the prompt is empty, and the model has no BOS token to start "
                          "from: give a prompt of at least one character");
    for (size_t i = 0; i < n; i++) mnem_sampler_accept(c->sampler, ids[i]);
    return mnem_session_eval(c->o->session, ids, (int32_t)n, (int32_t)n - 1, choose, c);
}

static mnem_status continue_prompt(continuation *c, const char *prompt, int32_t tokens) {
    const int32_t room = c->o->plan.context;
    MNEM__TRY(run_prompt(c, prompt));
    for (int32_t i = 1; !mnem_tokenizer_is_end(c->o->tokenizer, c->next); i++) {
        const mnem_text piece = mnem_tokenizer_piece(c->o->tokenizer, c->next, false);
        if (piece.length) MNEM__TRY(tell(c, piece.bytes, piece.length));
        if (i == tokens || mnem_session_length(c->o->session) == room) break;
        MNEM__TRY(mnem_session_eval(c->o->session, &c->next, 1, 0, choose, c));
    }
    return tell(c, "", 0);
}

mnem_status mnem_continue(const mnem_opened *opened, const char *prompt, int32_t tokens,
                          const mnem_sampler_options *sampler, mnem_on_text *on_text,
                          void *context) {
    static const mnem_sampler_options greedy;
    continuation c = {.o = opened, .on_text = on_text, .context = context};
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(opened->tokenizer, &info);
    MNEM__TRY(mnem_sampler_create(sampler ? sampler : &greedy, info.vocab, &c.sampler));
    const mnem_status status = continue_prompt(&c, prompt, tokens);
    mnem_sampler_destroy(c.sampler);
    return status;
}
