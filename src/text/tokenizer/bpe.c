/* bpe.c: BPE ("gpt2", "gemma4"): words of bytes, joined in the order of the file's merges.
 *
 * The idea (Sennrich et al., 2016; Radford et al., 2019): every byte is a token; the pair of
 * neighbouring tokens with the lowest rank is joined. Files write bytes as printable characters:
 * 188 as themselves, the other 68 as U+0100 onwards; that is undone when the tables are made, so
 * that text is looked up as it is. A merge is found by the ids of its two tokens; the table holds
 * its rank only, and the model's own texts confirm it.
 * Where the scheme is marked (Gemma 4), texts are as SentencePiece writes them, characters are the
 * first symbols, and one that is no token is written as byte tokens.
 * A merge of which a part, or the result, is no token can never apply and is left out.
 * Cost: as token_merger.c; a key is one look-up and one comparison of the pair's texts. */
#include "text/tokenizer/bpe.h"

#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/text/utf8.h"

/* ---- merges ---- */

static uint64_t pair_hash(int32_t left, int32_t right) {
    return mnem__hash_mix(mnem__hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right));
}

/* What a look-up reads. */
typedef struct joiner {
    const mnem__bpe *bpe;
    const mnem__token_vocab *vocab;
} joiner;

/* Whether the file's merge joins these two tokens. */
static bool merge_is(const joiner *j, uint32_t rank, int32_t left, int32_t right) {
    const mnem_text merge = mnem_value_text(&j->bpe->merges, rank);
    const mnem_text a = mnem__token_vocab_text(j->vocab, left);
    const mnem_text b = mnem__token_vocab_text(j->vocab, right);
    return merge.length == a.length + 1 + b.length && memcmp(merge.bytes, a.bytes, a.length) == 0 &&
           merge.bytes[a.length] == ' ' &&
           memcmp(merge.bytes + a.length + 1, b.bytes, b.length) == 0;
}

static uint32_t rank_find(const joiner *j, int32_t left, int32_t right) {
    mnem__id_probe probe = mnem__id_table_find(&j->bpe->ranks, pair_hash(left, right));
    for (uint32_t rank; mnem__id_table_next(&j->bpe->ranks, &probe, &rank);)
        if (merge_is(j, rank, left, right)) return rank;
    return MNEM__NO_PAIR;
}

static size_t decode(const mnem__token_vocab *v, const char *text, size_t n, char *out) {
    return v->spelled ? mnem__bpe_decode(text, n, out) : mnem__spm_decode(text, n, out);
}

static mnem_status merge_put(mnem__bpe *bpe, mnem__token_work *w, uint32_t rank) {
    const joiner j = {bpe, w->vocab};
    const mnem_text merge = mnem_value_text(&bpe->merges, rank);
    const char *space = merge.length > 1 ? memchr(merge.bytes + 1, ' ', merge.length - 1) : NULL;
    if (!space)
        return mnem__fail(MNEM_BAD_FILE,
                          "key tokenizer.ggml.merges[%u] is not two texts with a space between "
                          "them; download or convert the file again",
                          rank);
    const size_t split = (size_t)(space - merge.bytes), rest = merge.length - split - 1;
    MNEM__TRY(mnem__token_work_text(w, merge.length));
    const size_t left = decode(w->vocab, merge.bytes, split, w->text);
    const size_t right = decode(w->vocab, space + 1, rest, w->text + left);
    if (right == 0 || mnem__token_vocab_find(w->vocab, w->text, left + right) < 0) return MNEM_OK;
    const int32_t a = mnem__token_vocab_find(w->vocab, w->text, left);
    const int32_t b = mnem__token_vocab_find(w->vocab, w->text + left, right);
    if (a < 0 || b < 0 || !merge_is(&j, rank, a, b) || rank_find(&j, a, b) != MNEM__NO_PAIR)
        return MNEM_OK;
    bpe->merge_count++;
    return mnem__id_table_put(&bpe->ranks, pair_hash(a, b), rank);
}

static mnem_status read_merges(mnem__bpe *bpe, const mnem__token_source *source,
                               mnem__token_work *w) {
    mnem_value *merges = &bpe->merges;
    if (!mnem__token_source_find(source, "tokenizer.ggml.merges", merges))
        return mnem__fail(
            MNEM_BAD_FILE,
            "key tokenizer.ggml.merges is missing; download or convert the file again");
    if (merges->type != MNEM_VALUE_ARRAY || merges->element != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE, "key tokenizer.ggml.merges is not an array of strings; "
                                         "download or convert the file again");
    if (merges->count >= INT32_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "key tokenizer.ggml.merges has %llu entries, expected fewer than 2^31",
                          (unsigned long long)merges->count);
    mnem_status status = mnem__id_table_init(&bpe->ranks, merges->count);
    for (uint64_t rank = 0; rank < merges->count && status == MNEM_OK; rank++)
        status = merge_put(bpe, w, (uint32_t)rank);
    return status;
}

mnem_status mnem__bpe_init(mnem__bpe *bpe, const mnem__token_source *source,
                           const mnem__pre_scheme *scheme, mnem__token_work *work) {
    bpe->scheme = scheme;
    const mnem_status status = read_merges(bpe, source, work);
    if (status != MNEM_OK || scheme->marked) return status;
    return mnem__pretokenizer_create(scheme, &bpe->pretokenizer);
}

void mnem__bpe_fini(mnem__bpe *bpe) {
    mnem__pretokenizer_destroy(bpe->pretokenizer);
    mnem__free(bpe->ranks.slots);
}

/* ---- text ---- */

static uint32_t bpe_key(const void *context, const mnem__merger *m, uint32_t left, uint32_t right) {
    const int32_t a = m->id[left], b = m->id[right];
    return a < 0 || b < 0 ? MNEM__NO_PAIR : rank_find(context, a, b);
}

typedef struct piece {
    const mnem__bpe *bpe;
    mnem__token_work *work;
    const char *text; /* the bytes as they came; the words were cut from a copy without bad UTF-8 */
} piece;

static void first_symbols(mnem__merger *m, const mnem__token_vocab *v) {
    if (!v->spelled) {
        mnem__merger_characters(m, v);
        return;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        m->span[i] = 1;
        m->id[i] = v->byte_id[(unsigned char)m->text[i]];
    }
}

/* whole: a word that is a token isn't joined. */
static mnem_status add_word(const piece *p, const char *word, size_t n, bool whole) {
    const mnem__token_vocab *v = p->work->vocab;
    const joiner j = {p->bpe, v};
    mnem__merger *m = &p->work->merger;
    const int32_t id = whole ? mnem__token_vocab_find(v, word, n) : -1;
    if (id >= 0) return mnem__token_work_add(p->work, id);
    MNEM__TRY(mnem__merger_room(m, n));
    m->text = word;
    m->n = (uint32_t)n;
    first_symbols(m, v);
    mnem__merger_run(m, &(mnem__merge_rule){bpe_key, &j, v});
    return mnem__token_work_add_merged(p->work);
}

static mnem_status on_word(void *context, size_t begin, size_t end) {
    const piece *p = context;
    return add_word(p, p->text + begin, end - begin, p->bpe->scheme->whole_words);
}

/* Marked text has no words: it is cut at line feeds only. */
static mnem_status encode_marked(const piece *p, const char *text, size_t n) {
    mnem__token_work *w = p->work;
    mnem_status status = mnem__token_work_text(w, n);
    if (status != MNEM_OK) return status;
    const size_t bytes = mnem__spm_decode(text, n, w->text);
    for (size_t begin = 0, end = 0; begin < bytes && status == MNEM_OK; begin = end) {
        const bool feeds = w->text[begin] == '\n';
        while (end < bytes && (w->text[end] == '\n') == feeds) end++;
        status = add_word(p, w->text + begin, end - begin, feeds && p->bpe->scheme->whole_words);
    }
    return status;
}

mnem_status mnem__bpe_encode(const mnem__bpe *bpe, mnem__token_work *work, const char *text,
                             size_t n) {
    piece p = {bpe, work, text};
    if (bpe->scheme->marked) return encode_marked(&p, text, n);
    if (mnem__utf8_invalid(text, n) == n)
        return mnem__pretokenize(bpe->pretokenizer, text, n, on_word, &p);
    MNEM__TRY(mnem__token_work_text(work, n));
    mnem__utf8_mask(text, n, work->text);
    return mnem__pretokenize(bpe->pretokenizer, work->text, n, on_word, &p);
}
