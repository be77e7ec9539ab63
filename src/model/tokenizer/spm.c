/* spm.c: SentencePiece-style tokens ("llama"): characters joined by the scores of what they become.
 *
 * The idea (Kudo and Richardson, 2018, its BPE mode): a space is put before text that follows a
 * special token, and of all neighbouring pairs that are together a token, the one with the highest
 * score is joined, the leftmost of equals. A character that is no token is written as byte tokens.
 * Files write a space as U+2581; here both are a space, in tokens and in text.
 * Where no token has a space after something else, as usual, nothing is ever joined across the
 * start of a word, so that words are taken one by one and scratch is small.
 * Cost: as bpe_merger.c; a key hashes the pair's text, which is never longer than the longest
 * token. */
#include "model/tokenizer/tokenizer_parts.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"

static const char space_mark[3] = "\xE2\x96\x81";

size_t mnem__spm_decode(const char *text, size_t n, char *out) {
    size_t bytes = 0;
    for (size_t i = 0; i < n;) {
        const bool mark = n - i >= 3 && memcmp(text + i, space_mark, 3) == 0;
        out[bytes++] = mark ? ' ' : text[i];
        i += mark ? 3 : 1;
    }
    return bytes;
}

mnem_status mnem__spm_create(mnem_tokenizer *t) {
    if (!mnem__tokenizer_key(t, "tokenizer.ggml.scores", &t->scores))
        return mnem__fail(MNEM_BAD_FILE, "tokenizer.ggml.scores is missing");
    if (t->scores.type != MNEM_VALUE_ARRAY || t->scores.element != MNEM_VALUE_F32)
        return mnem__fail(MNEM_BAD_FILE, "tokenizer.ggml.scores is not an array of f32");
    if (t->scores.count != t->tokens.count)
        return mnem__fail(MNEM_BAD_FILE, "tokenizer.ggml.scores has %llu entries for %llu tokens",
                          (unsigned long long)t->scores.count, (unsigned long long)t->tokens.count);
    for (uint64_t i = 0; i < t->scores.count; i++)
        if (isnan(mnem_value_f64(&t->scores, i)))
            return mnem__fail(MNEM_BAD_FILE, "tokenizer.ggml.scores[%llu] is not a number",
                              (unsigned long long)i);
    return MNEM_OK;
}

/* Higher scores give smaller keys: the float's bits in the order of the numbers, turned around. */
static uint32_t score_key(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : bits ^ 0x7FFFFFFFu;
}

static uint32_t spm_key(const mnem_tokenizer *t, const mnem__merger *m, uint32_t left,
                        uint32_t right) {
    const uint32_t span = m->span[left] + m->span[right];
    const int32_t id = span <= t->longest ? mnem__vocab_find(t, m->text + left, span) : -1;
    return id < 0 ? MNEM__NO_PAIR : score_key((float)mnem_value_f64(&t->scores, (uint64_t)id));
}

/* One symbol for each character; a byte that is part of none is its own. */
static void first_symbols(const mnem_tokenizer *t, mnem__merger *m) {
    for (uint32_t i = 0; i < m->n;) {
        size_t length = mnem__utf8_length(m->text + i, m->n - i);
        if (length == 0) length = 1;
        m->span[i] = m->span[i + length - 1] = (uint32_t)length;
        m->id[i] = mnem__vocab_find(t, m->text + i, length);
        i += (uint32_t)length;
    }
}

static mnem_status encode_part(mnem_tokenizer *t, const char *text, size_t n) {
    mnem__merger *m = &t->merger;
    const mnem_status status = mnem__merger_room(m, n);
    if (status != MNEM_OK) return status;
    m->text = text;
    m->n = (uint32_t)n;
    first_symbols(t, m);
    mnem__merger_run(t, m, spm_key);
    return mnem__merger_emit(t, m);
}

/* The end of the word that starts at begin: before the next space that follows something else. */
static size_t word_end(const char *text, size_t n, size_t begin) {
    size_t end = begin + 1;
    while (end < n && (text[end] != ' ' || text[end - 1] == ' ')) end++;
    return end;
}

mnem_status mnem__spm_encode(mnem_tokenizer *t, const char *text, size_t n, bool after_special) {
    const size_t prefix = after_special && t->info.add_space_prefix;
    mnem_status status = mnem__tokenizer_text_room(t, prefix + n);
    if (status != MNEM_OK) return status;
    t->text[0] = ' ';
    const size_t bytes = prefix + mnem__spm_decode(text, n, t->text + prefix);
    for (size_t begin = 0, end; begin < bytes && status == MNEM_OK; begin = end) {
        end = t->words ? word_end(t->text, bytes, begin) : bytes;
        status = encode_part(t, t->text + begin, end - begin);
    }
    return status;
}
