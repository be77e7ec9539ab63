/* unigram.c: tokens of a unigram model ("t5"): the cut of a text whose tokens' scores add up to
 * most.
 *
 * The idea (Kudo, 2018): text is normalized; then, from left to right, the best cut up to each
 * place is that up to the begin of some token that ends there, and this token (Viterbi, 1967). A
 * character that is no token costs more than any token; runs of such characters become one unknown
 * token, or byte tokens where the vocabulary has them.
 * Files write a space as U+2581; here both are a space. Where no token has a space after something
 * else, as usual, words are taken one by one; the sum goes on, so that nothing else changes.
 *
 * Which tokens begin somewhere is found by looking up all lengths, as long as what tokens begin
 * with is met: a bit for the hash of each beginning says so, and hardly ever wrongly.
 * Cost: for each character as many steps as the longest token that may begin there; 16 bytes for
 * each byte of the longest word, 8 bytes for each token. */
#include "text/tokenizer/unigram.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/text/utf8.h"
#include "text/tokenizer/spm.h"

enum { CELLS_KEPT = 64 * 1024, UNKNOWN_PENALTY = 10, BITS_OF_TOKEN = 64 };

struct mnem__unigram_cell {
    double score;  /* of the best cut of all text up to here */
    int32_t id;    /* its last token */
    uint32_t from; /* where that begins; when a word is read back, where the next one ends */
};

/* ---- what tokens begin with ---- */

static uint32_t hash_step(uint32_t hash, char byte) {
    return (hash ^ (unsigned char)byte) * 0x01000193u; /* FNV-1a */
}

static uint32_t bit_of(const mnem__unigram *u, uint32_t hash) {
    return (hash ^ hash >> 15) & u->begins_mask;
}

static bool may_begin(const mnem__unigram *u, uint32_t hash) {
    const uint32_t bit = bit_of(u, hash);
    return u->begins[bit / 32] >> bit % 32 & 1;
}

static mnem_status find_begins(mnem__unigram *u, const mnem__token_vocab *v) {
    const uint64_t wanted = v->tokens.count * BITS_OF_TOKEN;
    u->begins_mask = 1023;
    while (u->begins_mask < wanted && u->begins_mask < UINT32_MAX / 2)
        u->begins_mask = u->begins_mask * 2 + 1;
    u->begins = mnem__calloc(MNEM__TOKENIZER_TAG, u->begins_mask / 32 + 1, sizeof *u->begins);
    if (!u->begins) return mnem__heap_status();
    for (int32_t id = 0; id < (int32_t)v->tokens.count; id++) {
        const mnem_text piece = mnem__token_vocab_piece(v, id);
        uint32_t hash = 0;
        if (mnem__token_vocab_find(v, piece.bytes, piece.length) != id) continue;
        for (size_t i = 0; i < piece.length; i++) {
            hash = hash_step(hash, piece.bytes[i]);
            const uint32_t bit = bit_of(u, hash);
            u->begins[bit / 32] |= 1u << bit % 32;
        }
    }
    return MNEM_OK;
}

static float score_of(const mnem__unigram *u, const mnem__token_vocab *v, int32_t id) {
    return mnem__token_vocab_type(v, id) == MNEM__TOKEN_USER
               ? 0
               : (float)mnem_value_f64(&u->scores, (uint64_t)id);
}

mnem_status mnem__unigram_init(mnem__unigram *u, const mnem__token_source *source,
                               const mnem__token_work *work) {
    const mnem__token_vocab *v = work->vocab;
    mnem__spm spm;
    mnem_status status = mnem__spm_init(&spm, source, work);
    if (status == MNEM_OK) status = mnem__charsmap_init(&u->charsmap, source);
    if (status != MNEM_OK) return status;
    u->scores = spm.scores;
    float least = FLT_MAX;
    for (int32_t id = 0; id < (int32_t)v->tokens.count; id++)
        if (mnem__token_vocab_type(v, id) == MNEM__TOKEN_NORMAL)
            least = fminf(least, score_of(u, v, id));
    u->unknown_score = least - UNKNOWN_PENALTY;
    return find_begins(u, v);
}

void mnem__unigram_fini(mnem__unigram *u) {
    mnem__free(u->begins);
    mnem__free(u->cells);
}

/* ---- normalization ---- */

/* The normalized text, written or only measured. */
typedef struct writer {
    const mnem__unigram *unigram;
    char *out; /* NULL: measured */
    size_t bytes;
    bool prefixed, in_word;
} writer;

static void put_char(writer *w, char c) {
    if (w->out) w->out[w->bytes] = c;
    w->bytes++;
}

static void put_text(writer *w, mnem_text text) {
    const mnem__unigram *u = w->unigram;
    for (size_t i = 0; i < text.length; i++) {
        const bool space = text.bytes[i] == ' ';
        if (!space && !w->in_word && ((u->space_prefix && !w->prefixed) || u->merges_spaces)) {
            put_char(w, ' ');
            w->prefixed = true;
        }
        w->in_word = !space;
        if (!space || !u->merges_spaces) put_char(w, text.bytes[i]);
    }
}

/* keep: bytes that are part of no character are left. Returns the bytes. */
static size_t normalize(const mnem__unigram *u, bool keep, const char *text, size_t n, char *out) {
    writer w = {.unigram = u, .out = out};
    for (size_t at = 0, taken; at < n; at += taken) {
        mnem_text part;
        taken = mnem__charsmap_find(&u->charsmap, text + at, n - at, &part);
        if (taken == 0) {
            taken = mnem__utf8_length(text + at, n - at);
            part = (mnem_text){text + at, taken ? taken : 1};
            if (taken == 0 && !keep) part = (mnem_text){"\xEF\xBF\xBD", 3};
            if (taken == 0) taken = 1;
        }
        put_text(&w, part);
    }
    return w.bytes;
}

/* ---- the best cut ---- */

static void offer(const mnem__unigram *u, uint32_t from, uint32_t end, int32_t id, double score) {
    if (score > u->cells[end].score) u->cells[end] = (mnem__unigram_cell){score, id, from};
}

/* Cuts that go on from a place. */
static void go_on(const mnem__unigram *u, const mnem__token_vocab *v, const char *word, uint32_t n,
                  uint32_t from, uint32_t character) {
    const double sum = u->cells[from].score;
    bool known = false;
    uint32_t hash = 0;
    for (uint32_t end = from; end < n && end - from < v->longest;) {
        hash = hash_step(hash, word[end++]);
        if (!may_begin(u, hash)) break;
        const int32_t id = mnem__token_vocab_find(v, word + from, end - from);
        if (id < 0) continue;
        known |= end - from == character;
        offer(u, from, end, id, sum + (double)score_of(u, v, id));
    }
    if (!known) offer(u, from, from + character, -1, sum + (double)u->unknown_score);
}

/* Adds the tokens of the best cut, read back from its end. */
static mnem_status add_best(const mnem__unigram *u, mnem__token_work *w, const char *word,
                            uint32_t n, bool *unknown) {
    uint32_t next = 0;
    for (uint32_t at = n; at > 0;) {
        const uint32_t from = u->cells[at].from;
        u->cells[at].from = next;
        next = at;
        at = from;
    }
    mnem_status status = MNEM_OK;
    for (uint32_t begin = 0, end = next; end > 0 && status == MNEM_OK; end = u->cells[end].from) {
        const int32_t id = u->cells[end].id;
        if (id >= 0)
            status = mnem__token_work_add(w, id);
        else if (w->vocab->byte_id[0] >= 0)
            status = mnem__token_work_add_bytes(w, word + begin, end - begin);
        else if (!*unknown && w->unknown >= 0)
            status = mnem__token_work_add(w, w->unknown);
        *unknown = id < 0;
        begin = end;
    }
    return status;
}

static mnem_status cells_room(mnem__unigram *u, size_t n) {
    if (n <= u->room) return MNEM_OK;
    mnem__free(u->cells);
    u->cells = mnem__alloc(MNEM__TOKENIZER_TAG, n * sizeof *u->cells);
    u->room = u->cells ? n : 0;
    return u->cells ? MNEM_OK : mnem__heap_status();
}

/* sum: the score of all words before it. */
static mnem_status encode_word(mnem__unigram *u, mnem__token_work *w, const char *word, uint32_t n,
                               double *sum, bool *unknown) {
    MNEM__TRY(cells_room(u, n + (size_t)1));
    for (uint32_t i = 0; i <= n; i++) u->cells[i].score = i ? -DBL_MAX : *sum;
    for (uint32_t at = 0, length; at < n; at += length) {
        length = (uint32_t)mnem__utf8_length(word + at, n - at);
        if (length == 0) length = 1;
        go_on(u, w->vocab, word, n, at, length);
    }
    *sum = u->cells[n].score;
    return add_best(u, w, word, n, unknown);
}

mnem_status mnem__unigram_encode(mnem__unigram *u, mnem__token_work *w, const char *text,
                                 size_t n) {
    const bool keep = w->vocab->byte_id[0] >= 0;
    const size_t needed = normalize(u, keep, text, n, NULL);
    if (needed > INT32_MAX)
        return mnem__fail(MNEM_INVALID,
                          "tokenizer: the text of %zu bytes has %zu after normalization, expected "
                          "fewer than 2^31",
                          n, needed);
    mnem_status status = mnem__token_work_text(w, needed);
    if (status != MNEM_OK) return status;
    const size_t written = normalize(u, keep, text, n, w->text);
    const size_t bytes = mnem__spm_decode(w->text, written, w->text);
    double sum = 0;
    bool unknown = false;
    for (size_t begin = 0, end; begin < bytes && status == MNEM_OK; begin = end) {
        end = w->vocab->words ? mnem__spm_word_end(w->text, bytes, begin) : bytes;
        status = encode_word(u, w, w->text + begin, (uint32_t)(end - begin), &sum, &unknown);
    }
    if (u->room * sizeof *u->cells > CELLS_KEPT) {
        mnem__free(u->cells);
        u->cells = NULL;
        u->room = 0;
    }
    return status;
}
