/* dry.c: see dry.h.
 *
 * The idea: the lengths of the end's earlier occurrences are the Z-function (Gusfield, 1997) of the
 * text read backwards: for each k, how many of the last tokens equal those k before them.
 * The breakers: a text S breaks at a token that contains S, and at one that ends with the first i
 * bytes of S where the tokens of the rest of S follow it. The rest's tokens are stored for each i,
 * so that whether a token begins a breaker is read off its own text:
 *
 *     words of a text   [ all words | bytes of S | S, 4 bytes a word | n, ids of S[1..] | ... ]
 *
 * Both are as in llama.cpp (src/llama-sampler.cpp), whose names and numbers are kept.
 * Cost: O(tokens looked back at), and a search for each breaker in the texts of the tokens behind
 * the last one. Nothing is allocated. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "sampling/dry.h"

enum {
    TAIL_TOKENS = 20, /* of a breaker's rest, at most: those behind aren't asked for */
    HEAD_WORDS = 2,
};

bool mnem__dry_is_on(const mnem_sampler_options *o) {
    return o->dry_multiplier != 0 && o->dry_penalty_last > 0;
}

/* ---- breakers ---- */

static int32_t text_words(int32_t bytes) {
    return (bytes + 3) / 4;
}

/* One text of the words. */
typedef struct breaker {
    const char *text;
    int32_t bytes;
    const int32_t *tails; /* for each i from 1 on: a count, and so many ids */
} breaker;

static breaker breaker_at(const int32_t *words) {
    return (breaker){(const char *)(words + HEAD_WORDS), words[1],
                     words + HEAD_WORDS + text_words(words[1])};
}

/* The tokens of the text but its first i bytes: a count, and behind it the ids. */
static const int32_t *tail_of(const breaker *b, int32_t i) {
    const int32_t *tail = b->tails;
    while (--i > 0) tail += 1 + tail[0];
    return tail;
}

/* Whether the tails of a text, in so many words, are whole. */
static bool is_whole(const int32_t *words, int32_t n) {
    if (n < HEAD_WORDS || words[0] < HEAD_WORDS || words[0] > n) return false;
    if (words[1] < 1 || words[1] > MNEM_DRY_BREAKER_BYTES) return false;
    int32_t at = HEAD_WORDS + text_words(words[1]);
    for (int32_t i = 1; i < words[1]; i++) {
        if (at >= words[0] || words[at] < 0 || words[at] > TAIL_TOKENS) return false;
        at += 1 + words[at];
    }
    return at == words[0];
}

mnem_status mnem__dry_check(const mnem_dry_breakers *breakers) {
    const int32_t n = breakers->word_count;
    bool fine = n >= 0 && (n == 0 || (breakers->words && breakers->tokenizer));
    for (int32_t at = 0; fine && at < n; at += breakers->words[at])
        fine = is_whole(breakers->words + at, n - at);
    return fine ? MNEM_OK
                : mnem__fail(MNEM_INVALID,
                             "sampler: the DRY breakers (%d words) were not written by "
                             "mnem_dry_breakers_init",
                             n);
}

static mnem_status put_tail(mnem_tokenizer *tokenizer, const char *rest, int32_t *words,
                            int32_t capacity, int32_t *at) {
    const int32_t *ids;
    size_t n;
    MNEM__TRY(mnem_tokenizer_encode(tokenizer, rest, strlen(rest),
                                    MNEM_ENCODE_NO_SPECIAL | MNEM_ENCODE_PLAIN, &ids, &n));
    if (n > TAIL_TOKENS) n = TAIL_TOKENS;
    if (capacity - *at < 1 + (int32_t)n)
        return mnem__fail(MNEM_INVALID,
                          "sampler: the DRY breakers don't fit in %d words; mnem_dry_breakers_size "
                          "gives the number of words",
                          capacity);
    words[(*at)++] = (int32_t)n;
    if (n) memcpy(words + *at, ids, n * sizeof *ids);
    *at += (int32_t)n;
    return MNEM_OK;
}

/* Behind the words that there are, *at. */
static mnem_status put_breaker(mnem_tokenizer *tokenizer, const char *text, int32_t *words,
                               int32_t capacity, int32_t *at) {
    const size_t bytes = strlen(text);
    const int32_t from = *at;
    if (bytes > MNEM_DRY_BREAKER_BYTES)
        return mnem__fail(MNEM_INVALID, "sampler: a DRY breaker has %zu bytes, expected at most %d",
                          bytes, MNEM_DRY_BREAKER_BYTES);
    const int32_t head = HEAD_WORDS + text_words((int32_t)bytes);
    if (capacity - from < head)
        return mnem__fail(MNEM_INVALID,
                          "sampler: the DRY breakers don't fit in %d words; mnem_dry_breakers_size "
                          "gives the number of words",
                          capacity);
    memset(words + from, 0, (size_t)head * sizeof *words);
    words[from + 1] = (int32_t)bytes;
    memcpy(words + from + HEAD_WORDS, text, bytes);
    *at += head;
    for (size_t i = 1; i < bytes; i++)
        MNEM__TRY(put_tail(tokenizer, text + i, words, capacity, at));
    words[from] = *at - from;
    return MNEM_OK;
}

static const char *const usual[] = {"\n", ":", "\"", "*"};
enum { USUAL = sizeof usual / sizeof *usual };

int32_t mnem_dry_breakers_size(const char *const *texts, int32_t count) {
    int32_t words = 0;
    if (!texts) return mnem_dry_breakers_size(usual, USUAL);
    for (int32_t i = 0; i < count; i++) {
        const size_t bytes = strnlen(texts[i], MNEM_DRY_BREAKER_BYTES);
        if (bytes == 0) continue;
        words += HEAD_WORDS + text_words((int32_t)bytes) + ((int32_t)bytes - 1) * (1 + TAIL_TOKENS);
    }
    return words;
}

mnem_status mnem_dry_breakers_init(mnem_tokenizer *tokenizer, const char *const *texts,
                                   int32_t count, int32_t *words, int32_t capacity,
                                   mnem_dry_breakers *breakers) {
    int32_t at = 0;
    *breakers = (mnem_dry_breakers){0};
    if (!texts) return mnem_dry_breakers_init(tokenizer, usual, USUAL, words, capacity, breakers);
    if (count < 0 || count > MNEM_DRY_BREAKERS)
        return mnem__fail(MNEM_INVALID,
                          "sampler: the number of DRY breakers is %d, expected 0 to %d", count,
                          MNEM_DRY_BREAKERS);
    for (int32_t i = 0; i < count; i++)
        if (*texts[i]) MNEM__TRY(put_breaker(tokenizer, texts[i], words, capacity, &at));
    *breakers = (mnem_dry_breakers){tokenizer, words, at};
    return MNEM_OK;
}

/* ---- where a text breaks ---- */

/* What a token prints when it is alone: without the space that the tokenizer puts in front. */
static mnem_text alone(const mnem_tokenizer *tokenizer, int32_t id) {
    mnem_tokenizer_info info;
    mnem_text piece = mnem_tokenizer_piece(tokenizer, id, true);
    mnem_tokenizer_info_get(tokenizer, &info);
    if (info.add_space_prefix && piece.length && *piece.bytes == ' ') {
        piece.bytes++;
        piece.length--;
    }
    return piece;
}

/* Whether the tail's ids follow the token that lies `back` tokens before the end. */
static bool follows(const mnem__dry_text *text, const int32_t *tail, int32_t back) {
    if (!text || tail[0] > back) return tail[0] == 0;
    for (int32_t i = 0; i < tail[0]; i++)
        if (tail[1 + i] != mnem__dry_at(text, back - i - 1)) return false;
    return true;
}

/* How many tokens a breaker has behind a token that begins it; -1: it doesn't. text NULL: nothing
 * follows. */
static int32_t reach(const breaker *b, mnem_text piece, const mnem__dry_text *text, int32_t back) {
    const size_t bytes = (size_t)b->bytes;
    int32_t longest = -1;
    if (!piece.length) return -1;
    if (memmem(piece.bytes, piece.length, b->text, bytes)) return 0;
    for (size_t at = piece.length < bytes ? 0 : piece.length - bytes + 1; at < piece.length; at++) {
        const size_t i = piece.length - at;
        if (memcmp(piece.bytes + at, b->text, i) != 0) continue;
        const int32_t *tail = tail_of(b, (int32_t)i);
        if (tail[0] > longest && follows(text, tail, back)) longest = tail[0];
    }
    return longest;
}

/* The longest reach of all breakers. */
static int32_t reach_all(const mnem_dry_breakers *b, int32_t id, const mnem__dry_text *text,
                         int32_t back) {
    if (b->word_count == 0) return -1;
    const mnem_text piece = alone(b->tokenizer, id);
    int32_t longest = -1;
    for (int32_t at = 0; at < b->word_count; at += b->words[at]) {
        const breaker one = breaker_at(b->words + at);
        const int32_t tokens = reach(&one, piece, text, back);
        if (tokens > longest) longest = tokens;
    }
    return longest;
}

/* How many tokens there are behind the last breaker. */
static int32_t unbroken(const mnem_dry_breakers *b, const mnem__dry_text *text) {
    if (b->word_count == 0) return text->count;
    for (int32_t back = 0; back < text->count; back++) {
        const int32_t tokens = reach_all(b, mnem__dry_at(text, back), text, back);
        if (tokens >= 0) return back - tokens;
    }
    return text->count;
}

/* ---- repetitions ---- */

/* For each k from 1 on: run[k] is how many of the last tokens equal those k before them, and the
 * token behind these. */
static void find_lengths(const mnem__dry_text *text, mnem__dry_run *run) {
    int32_t from = 0, end = 0; /* the match that reaches back the furthest: of from, up to end */
    for (int32_t k = 1; k < text->count; k++) {
        int32_t same = 0;
        if (k < end) same = run[k - from].length < end - k ? run[k - from].length : end - k;
        if (k + same >= end) {
            while (k + same < text->count &&
                   mnem__dry_at(text, same) == mnem__dry_at(text, k + same))
                same++;
            from = k;
            end = k + same;
        }
        run[k] = (mnem__dry_run){mnem__dry_at(text, k - 1), same};
    }
}

static bool is_before(mnem__dry_run a, mnem__dry_run b) {
    return a.id != b.id ? a.id < b.id : a.length > b.length;
}

static void sift_down(mnem__dry_run *heap, int32_t root, int32_t n) {
    const mnem__dry_run moved = heap[root];
    for (int64_t child; (child = 2 * (int64_t)root + 1) < n; root = (int32_t)child) {
        if (child + 1 < n && is_before(heap[child], heap[child + 1])) child++;
        if (!is_before(moved, heap[child])) break;
        heap[root] = heap[child];
    }
    heap[root] = moved;
}

/* By id, the longest run of an id first. */
static void sort_runs(mnem__dry_run *run, int32_t n) {
    for (int32_t i = n / 2; i-- > 0;) sift_down(run, i, n);
    while (n > 1) {
        const mnem__dry_run last = run[0];
        run[0] = run[--n];
        run[n] = last;
        sift_down(run, 0, n);
    }
}

int32_t mnem__dry_find(const mnem_sampler_options *o, const mnem__dry_text *text,
                       mnem__dry_run *run) {
    const int32_t allowed = o->dry_allowed_length;
    int32_t found = 0, kept = 0, id = -1;
    if (text->count <= allowed) return 0;
    const int32_t most = unbroken(&o->dry_breakers, text);
    if (most < allowed) return 0;
    find_lengths(text, run);
    for (int32_t k = 1; k < text->count; k++) {
        const int32_t length = run[k].length < most ? run[k].length : most;
        if (length >= allowed) run[found++] = (mnem__dry_run){run[k].id, length};
    }
    sort_runs(run, found);
    for (int32_t i = 0; i < found; i++) {
        if (run[i].id == id) continue;
        id = run[i].id;
        if (reach_all(&o->dry_breakers, id, NULL, 0) < 0) run[kept++] = run[i];
    }
    return kept;
}

float mnem__dry_penalty(const mnem_sampler_options *o, int32_t length) {
    const float log_most = 88.7228391f; /* of a float */
    const float base = o->dry_base;
    int32_t exponent = length - o->dry_allowed_length;
    if (base > 1.000001f) {
        const float most = log_most / logf(base);
        if (most >= 1 && most < (float)exponent) exponent = (int32_t)most;
    }
    return (float)(o->dry_multiplier * pow(base, exponent));
}
