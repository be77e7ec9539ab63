/* match.c: a text that follows a grammar, token after token.
 *
 * The idea: a match is only the words of its state; to ask anything it is loaded into the grammar's
 * work, walked along bytes, and saved if the answer is to stay. mask_walk.h makes masks. They are
 * kept by the words of their state: the same place in the same brackets comes again, as within a
 * string.
 * Cost: a token about 0.1 us a byte. */
#include <string.h>

#include "base/heap.h"
#include "sampling/grammar/grammar_private.h"
#include "sampling/sampler_desk.h"

struct mnem_match {
    mnem_grammar *grammar;
    uint32_t words, room; /* of state */
    uint32_t state[];
};

/* ---- life ---- */

/* Keeps frame; a failure leaves the match as it was. */
static mnem_status keep(mnem_match *m, uint32_t frame, uint32_t *spare) {
    mnem__grammar_work *w = &m->grammar->work;
    const uint32_t words = mnem__grammar_work_save(w, frame, spare, m->room);
    if (!words) return w->status;
    memcpy(m->state, spare, words * sizeof *spare);
    m->words = words;
    return MNEM_OK;
}

/* Behind a match's own words is room for those of the next. */
static uint32_t *spare_of(mnem_match *m) {
    return m->state + m->room;
}

mnem_status mnem_match_create(mnem_grammar *g, mnem_match **match) {
    *match = NULL;
    const uint32_t room = (uint32_t)(g->options.state_bytes / (2 * sizeof(uint32_t)));
    mnem_match *m =
        mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *m + 2 * (size_t)room * sizeof *m->state);
    if (!m) return mnem__heap_status();
    m->grammar = g;
    m->room = room;
    mnem_status status = mnem__grammar_work_begin(&g->work);
    if (status == MNEM_OK) status = keep(m, 0, spare_of(m));
    if (status != MNEM_OK) {
        mnem__free(m);
        return status;
    }
    *match = m;
    return MNEM_OK;
}

void mnem_match_destroy(mnem_match *m) {
    mnem__free(m);
}

/* It was created there, so there is room and there are steps. */
void mnem_match_reset(mnem_match *m) {
    mnem__grammar_work_begin(&m->grammar->work);
    keep(m, 0, spare_of(m));
}

void mnem_match_copy(mnem_match *to, const mnem_match *from) {
    memcpy(to->state, from->state, from->words * sizeof *to->state);
    to->words = from->words;
}

/* ---- one token ---- */

/* Walks along a token's bytes; false: it isn't allowed, or a bound was passed. */
static bool walk(mnem_match *m, mnem_text bytes) {
    mnem__grammar_work *w = &m->grammar->work;
    mnem__grammar_work_load(w, m->state);
    for (uint32_t i = 0; i < bytes.length; i++)
        if (!mnem__grammar_work_step(w, i, (uint8_t)bytes.bytes[i])) return false;
    return true;
}

static bool is_mark(const mnem_grammar *g, int32_t id) {
    for (uint32_t i = 0; i < g->options.mark_count; i++)
        if (g->options.marks[i] == id) return true;
    return false;
}

/* What a token stands for in a text of the grammar. */
static mnem_text bytes_of(const mnem_match *m, int32_t id) {
    const mnem_token_set *tokens = m->grammar->tokens;
    if (is_mark(m->grammar, id)) return mnem_tokenizer_piece(tokens->tokenizer, id, true);
    return mnem__token_bytes(tokens, (uint32_t)id);
}

static mnem_status walk_token(mnem_match *m, int32_t id, bool *fits) {
    const mnem_token_set *tokens = m->grammar->tokens;
    *fits = false;
    if (!tokens || id < 0 || id >= tokens->vocab)
        return mnem__fail(MNEM_INVALID,
                          "grammar: token %d is outside of the grammar's vocabulary of %d tokens",
                          id, tokens ? tokens->vocab : 0);
    const mnem_text bytes = bytes_of(m, id);
    if (bytes.length == 0 || bytes.length > MNEM__GRAMMAR_TOKEN_BYTES) return MNEM_OK;
    *fits = walk(m, bytes);
    return m->grammar->work.status;
}

mnem_status mnem_match_allows(mnem_match *m, int32_t id, bool *allowed) {
    if (m->grammar->tokens && mnem__token_ends(m->grammar->tokens, id)) {
        *allowed = mnem_match_may_end(m);
        return MNEM_OK;
    }
    return walk_token(m, id, allowed);
}

mnem_status mnem_match_accept(mnem_match *m, int32_t id) {
    const mnem_token_set *tokens = m->grammar->tokens;
    bool fits;
    if (tokens && mnem__token_ends(tokens, id)) {
        if (mnem_match_may_end(m)) return MNEM_OK;
        return mnem__fail(
            MNEM_INVALID,
            "grammar: the end token is not allowed here: the text does not fit the grammar yet");
    }
    MNEM__TRY(walk_token(m, id, &fits));
    if (!fits)
        return mnem__fail(MNEM_INVALID, "grammar: the text with token %d would not fit the grammar",
                          id);
    return keep(m, (uint32_t)bytes_of(m, id).length, spare_of(m));
}

mnem_status mnem_match_accept_text(mnem_match *m, const char *bytes, size_t n, size_t *fits) {
    enum { PART = 16 };
    mnem__grammar_work *w = &m->grammar->work;
    for (*fits = 0; *fits < n;) {
        uint32_t part = 0;
        mnem__grammar_work_load(w, m->state);
        while (part < PART && *fits + part < n &&
               mnem__grammar_work_step(w, part, (uint8_t)bytes[*fits + part]))
            part++;
        MNEM__TRY(w->status);
        MNEM__TRY(keep(m, part, spare_of(m)));
        *fits += part;
        if (part < PART) break;
    }
    return MNEM_OK;
}

bool mnem_match_may_end(const mnem_match *m) {
    return m->state[MNEM__STATE_END];
}

bool mnem_match_is_done(const mnem_match *m) {
    return mnem_match_may_end(m) && m->state[MNEM__STATE_PLACES] == 0;
}

/* ---- all tokens ---- */

static void allow(uint64_t *mask, uint32_t id) {
    mask[id / 64] |= UINT64_C(1) << id % 64;
}

static mnem_status make_mask(mnem_match *m, uint64_t *mask) {
    const mnem_token_set *tokens = m->grammar->tokens;
    memset(mask, 0, m->grammar->mask_words * sizeof *mask);
    MNEM__TRY(mnem__mask_walk_all(m->grammar->walk, &m->grammar->work, m->state, tokens, mask));
    for (uint32_t i = 0; i < m->grammar->options.mark_count; i++) {
        const int32_t id = m->grammar->options.marks[i];
        bool fits;
        MNEM__TRY(walk_token(m, id, &fits));
        if (fits) allow(mask, (uint32_t)id);
    }
    for (uint32_t i = 0; mnem_match_may_end(m) && i < tokens->ends; i++)
        allow(mask, tokens->ending[i]);
    return MNEM_OK;
}

static uint64_t hash_words(const uint32_t *word, uint32_t n) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, by words */
    for (uint32_t i = 0; i < n; i++) hash = (hash ^ word[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

/* Where the mask of this state is or goes; NULL: it isn't cached. */
static mnem__cached_mask *slot_of(const mnem_match *m) {
    const mnem_grammar *g = m->grammar;
    if (!g->slots || m->words > MNEM__CACHED_WORDS) return NULL;
    const uint64_t slot = hash_words(m->state, m->words) % g->slots;
    return (mnem__cached_mask *)(void *)(g->cache + slot * g->slot_bytes);
}

mnem_status mnem_match_mask(mnem_match *m, const uint64_t **bits) {
    mnem_grammar *g = m->grammar;
    if (!g->tokens)
        return mnem__fail(
            MNEM_INVALID,
            "grammar: this function needs a vocabulary, but the grammar was created without one");
    mnem__cached_mask *slot = slot_of(m);
    uint64_t *mask =
        slot ? (uint64_t *)(void *)((uint8_t *)slot + g->slot_bytes) - g->mask_words : g->mask;
    g->masks++;
    *bits = mask;
    if (slot && slot->words == m->words &&
        memcmp(slot->state, m->state, m->words * sizeof *m->state) == 0) {
        g->masks_cached++;
        return MNEM_OK;
    }
    if (slot) slot->words = 0;
    MNEM__TRY(make_mask(m, mask));
    if (slot) {
        memcpy(slot->state, m->state, m->words * sizeof *m->state);
        slot->words = m->words;
    }
    return MNEM_OK;
}

/* ---- the choice ---- */

/* The lowest token of a mask; -1: there is none. */
static int32_t first_of(const uint64_t *mask, uint32_t words) {
    for (uint32_t i = 0; i < words; i++)
        if (mask[i]) return (int32_t)(64 * i + (uint32_t)__builtin_ctzll(mask[i]));
    return -1;
}

static mnem_status choose_among(mnem_match *m, mnem_sampler *sampler, const float *logits,
                                int32_t *id) {
    const uint64_t *mask;
    MNEM__TRY(mnem_match_mask(m, &mask));
    const int32_t lowest = first_of(mask, m->grammar->mask_words);
    if (lowest < 0 && !mnem_match_may_end(m))
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "grammar: the vocabulary has no token with which the text would still fit the grammar");
    if (lowest < 0) return MNEM_OK;
    *id = mnem__sampler_choose_among(sampler, logits, mask);
    /* Where all that are allowed have -inf, one of them. */
    if (!(mask[*id / 64] >> *id % 64 & 1)) *id = lowest;
    return MNEM_OK;
}

mnem_status mnem_match_choose(mnem_match *m, mnem_sampler *sampler, const float *logits,
                              int32_t *id) {
    const mnem_token_set *tokens = m->grammar->tokens;
    bool allowed;
    *id = -1;
    if (!tokens || mnem__sampler_vocab(sampler) != tokens->vocab)
        return mnem__fail(
            MNEM_INVALID,
            "grammar: the sampler's vocabulary has %d tokens, but the grammar's has %d",
            mnem__sampler_vocab(sampler), tokens ? tokens->vocab : 0);
    if (mnem_match_is_done(m)) return MNEM_OK;
    const int32_t first = mnem_sampler_choose(sampler, logits);
    MNEM__TRY(mnem_match_allows(m, first, &allowed));
    if (!allowed) return choose_among(m, sampler, logits, id);
    *id = first;
    return MNEM_OK;
}
