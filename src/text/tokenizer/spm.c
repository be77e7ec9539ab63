/* spm.c: SentencePiece-style tokens ("llama"): characters joined by the scores of what they become.
 *
 * The idea (Kudo and Richardson, 2018, its BPE mode): a space is put before text that follows a
 * special token, and of all neighbouring pairs that are together a token, the one with the highest
 * score is joined, the leftmost of equals. A character that is no token is written as byte tokens.
 * Files write a space as U+2581; here both are a space, in tokens and in text.
 * Where no token has a space after something else, as usual, nothing is ever joined across the
 * start of a word, so that words are taken one by one and scratch is small.
 * Cost: as token_merger.c; a key hashes the pair's text, which is never longer than the longest
 * token. */
#include "text/tokenizer/spm.h"
#include "base/error.h"

#include <math.h>
#include <string.h>

mnem_status mnem__spm_init(mnem__spm *spm, const mnem__token_source *source,
                           const mnem__token_work *work) {
    const mnem_value *scores = &spm->scores;
    const uint64_t tokens = work->vocab->tokens.count;
    if (!mnem__token_source_find(source, "tokenizer.ggml.scores", &spm->scores))
        return mnem__fail(
            MNEM_BAD_FILE,
            "key tokenizer.ggml.scores is missing; download or convert the file again");
    if (scores->type != MNEM_VALUE_ARRAY || scores->element != MNEM_VALUE_F32)
        return mnem__fail(
            MNEM_BAD_FILE,
            "key tokenizer.ggml.scores is not an array of f32; download or convert the file again");
    if (scores->count != tokens)
        return mnem__fail(MNEM_BAD_FILE,
                          "key tokenizer.ggml.scores has %llu entries, expected %llu, one for each "
                          "token; download or convert the file again",
                          (unsigned long long)scores->count, (unsigned long long)tokens);
    for (uint64_t i = 0; i < scores->count; i++)
        if (isnan(mnem_value_f64(scores, i)))
            return mnem__fail(MNEM_BAD_FILE,
                              "key tokenizer.ggml.scores[%llu] is NaN, expected a number; download "
                              "or convert the file again",
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

/* What a key reads. */
typedef struct joiner {
    const mnem__spm *spm;
    const mnem__token_vocab *vocab;
} joiner;

static uint32_t spm_key(const void *context, const mnem__merger *m, uint32_t left, uint32_t right) {
    const joiner *j = context;
    const uint32_t span = m->span[left] + m->span[right];
    const int32_t id =
        span <= j->vocab->longest ? mnem__token_vocab_find(j->vocab, m->text + left, span) : -1;
    return id < 0 ? MNEM__NO_PAIR : score_key((float)mnem_value_f64(&j->spm->scores, (uint64_t)id));
}

static mnem_status encode_part(const mnem__spm *spm, mnem__token_work *w, const char *text,
                               size_t n) {
    const joiner j = {spm, w->vocab};
    mnem__merger *m = &w->merger;
    MNEM__TRY(mnem__merger_room(m, n));
    m->text = text;
    m->n = (uint32_t)n;
    mnem__merger_characters(m, w->vocab);
    mnem__merger_run(m, &(mnem__merge_rule){spm_key, &j, w->vocab});
    return mnem__token_work_add_merged(w);
}

size_t mnem__spm_word_end(const char *text, size_t n, size_t begin) {
    size_t end = begin + 1;
    while (end < n && (text[end] != ' ' || text[end - 1] == ' ')) end++;
    return end;
}

mnem_status mnem__spm_encode(const mnem__spm *spm, mnem__token_work *w, const char *text, size_t n,
                             bool space) {
    const size_t prefix = space;
    mnem_status status = mnem__token_work_text(w, prefix + n);
    if (status != MNEM_OK) return status;
    w->text[0] = ' ';
    const size_t bytes = prefix + mnem__spm_decode(text, n, w->text + prefix);
    for (size_t begin = 0, end; begin < bytes && status == MNEM_OK; begin = end) {
        end = w->vocab->words ? mnem__spm_word_end(w->text, bytes, begin) : bytes;
        status = encode_part(spm, w, w->text + begin, end - begin);
    }
    return status;
}
