/* bpe.c: byte-level BPE ("gpt2"): words of bytes, joined in the order of the file's merges.
 *
 * The idea (Sennrich et al., 2016; Radford et al., 2019): every byte is a token; the pair of
 * neighbouring tokens with the lowest rank is joined. Files write bytes as printable characters:
 * 188 as themselves, the other 68 as U+0100 onwards; that is undone when the tables are made, so
 * that text is looked up as it is. A merge is found by the ids of its two tokens; the table holds
 * its rank only, and the model's own texts confirm it.
 * A merge of which a part, or the result, is no token can never apply and is left out.
 * Cost: as bpe_merger.c; a key is one look-up and one comparison of the pair's texts. */
#include "model/tokenizer/tokenizer_parts.h"

#include <string.h>

#include "base/heap.h"

/* ---- bytes as characters ---- */

/* Printable: '!' to '~', U+00A1 to U+00AC, U+00AE to U+00FF. */
static bool is_printable(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

/* The byte that a character stands for, or -1. 0x100 + i is the i-th byte that isn't printable. */
static int byte_of(unsigned code) {
    if (code < 0x100) return is_printable(code) ? (int)code : -1;
    if (code <= 0x120) return (int)(code - 0x100);        /* 00 to 20 */
    if (code <= 0x142) return (int)(code - 0x121 + 0x7F); /* 7F to A0 */
    return code == 0x143 ? 0xAD : -1;
}

unsigned mnem__bpe_character(unsigned char byte) {
    if (is_printable(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + byte - 0x7Fu;
}

size_t mnem__bpe_spell(const char *bytes, size_t n, char *out) {
    char *end = out;
    for (size_t i = 0; i < n; i++) {
        const unsigned code = mnem__bpe_character((unsigned char)bytes[i]);
        if (code >= 0x80) *end++ = (char)(0xC0u | code >> 6);
        *end++ = (char)(code < 0x80 ? code : 0x80u | (code & 0x3Fu));
    }
    return (size_t)(end - out);
}

size_t mnem__bpe_decode(const char *text, size_t n, char *out) {
    size_t bytes = 0;
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t length = mnem__utf8_length(text + i, n - i);
        const unsigned code =
            length == 2 ? (c & 0x1Fu) << 6 | ((unsigned char)text[i + 1] & 0x3Fu) : c;
        const int byte = length == 1 || length == 2 ? byte_of(code) : -1;
        const size_t taken = length == 0 ? 1 : length;
        if (byte >= 0)
            out[bytes] = (char)byte;
        else
            memcpy(out + bytes, text + i, taken);
        bytes += byte >= 0 ? 1 : taken;
        i += taken;
    }
    return bytes;
}

/* ---- merges ---- */

static uint64_t pair_hash(int32_t left, int32_t right) {
    return mnem__hash_mix(mnem__hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right));
}

/* Whether the file's merge joins these two tokens. */
static bool merge_is(const mnem_tokenizer *t, uint32_t rank, int32_t left, int32_t right) {
    const mnem_text merge = mnem_value_text(&t->merges, rank);
    const mnem_text a = mnem_value_text(&t->tokens, (uint64_t)left);
    const mnem_text b = mnem_value_text(&t->tokens, (uint64_t)right);
    return merge.length == a.length + 1 + b.length && memcmp(merge.bytes, a.bytes, a.length) == 0 &&
           merge.bytes[a.length] == ' ' &&
           memcmp(merge.bytes + a.length + 1, b.bytes, b.length) == 0;
}

static uint32_t rank_find(const mnem_tokenizer *t, int32_t left, int32_t right) {
    mnem__id_probe probe = mnem__id_table_find(&t->ranks, pair_hash(left, right));
    for (uint32_t rank; mnem__id_table_next(&t->ranks, &probe, &rank);)
        if (merge_is(t, rank, left, right)) return rank;
    return MNEM__NO_PAIR;
}

static mnem_status merge_put(mnem_tokenizer *t, uint32_t rank) {
    const mnem_text merge = mnem_value_text(&t->merges, rank);
    const char *space = merge.length > 1 ? memchr(merge.bytes + 1, ' ', merge.length - 1) : NULL;
    if (!space)
        return mnem__fail(MNEM_BAD_FILE, "tokenizer.ggml.merges[%u] is not two texts", rank);
    const size_t split = (size_t)(space - merge.bytes), rest = merge.length - split - 1;
    mnem_status status = mnem__tokenizer_text_room(t, merge.length);
    if (status != MNEM_OK) return status;
    const size_t left = mnem__bpe_decode(merge.bytes, split, t->text);
    const size_t right = mnem__bpe_decode(space + 1, rest, t->text + left);
    if (right == 0 || mnem__vocab_find(t, t->text, left + right) < 0) return MNEM_OK;
    const int32_t a = mnem__vocab_find(t, t->text, left);
    const int32_t b = mnem__vocab_find(t, t->text + left, right);
    if (a < 0 || b < 0 || !merge_is(t, rank, a, b) || rank_find(t, a, b) != MNEM__NO_PAIR)
        return MNEM_OK;
    t->info.merges++;
    return mnem__id_table_put(&t->ranks, pair_hash(a, b), rank);
}

static mnem_status read_merges(mnem_tokenizer *t) {
    if (!mnem__tokenizer_key(t, "tokenizer.ggml.merges", &t->merges))
        return mnem__fail(MNEM_BAD_FILE, "tokenizer.ggml.merges is missing");
    if (t->merges.type != MNEM_VALUE_ARRAY || t->merges.element != MNEM_VALUE_STRING)
        return mnem__fail(MNEM_BAD_FILE, "tokenizer.ggml.merges is not an array of strings");
    if (t->merges.count >= INT32_MAX)
        return mnem__fail(MNEM_UNSUPPORTED, "tokenizer.ggml.merges has %llu entries",
                          (unsigned long long)t->merges.count);
    mnem_status status = mnem__id_table_init(&t->ranks, t->merges.count);
    for (uint64_t rank = 0; rank < t->merges.count && status == MNEM_OK; rank++)
        status = merge_put(t, (uint32_t)rank);
    return status;
}

mnem_status mnem__bpe_create(mnem_tokenizer *t) {
    const mnem_status status = read_merges(t);
    return status == MNEM_OK ? mnem__pretokenizer_create(t->info.pre, &t->pretokenizer) : status;
}

/* ---- text ---- */

static uint32_t bpe_key(const mnem_tokenizer *t, const mnem__merger *m, uint32_t left,
                        uint32_t right) {
    const int32_t a = m->id[left], b = m->id[right];
    return a < 0 || b < 0 ? MNEM__NO_PAIR : rank_find(t, a, b);
}

typedef struct piece {
    mnem_tokenizer *tokenizer;
    const char *text; /* the bytes as they came; the words were cut from a copy without bad UTF-8 */
} piece;

static mnem_status on_word(void *context, size_t begin, size_t end) {
    const piece *p = context;
    mnem_tokenizer *t = p->tokenizer;
    mnem__merger *m = &t->merger;
    const size_t n = end - begin;
    const int32_t whole = t->ignore_merges ? mnem__vocab_find(t, p->text + begin, n) : -1;
    if (whole >= 0) return mnem__tokenizer_emit(t, whole);
    const mnem_status status = mnem__merger_room(m, n);
    if (status != MNEM_OK) return status;
    m->text = p->text + begin;
    m->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        m->span[i] = 1;
        m->id[i] = t->byte_id[(unsigned char)m->text[i]];
    }
    mnem__merger_run(t, m, bpe_key);
    return mnem__merger_emit(t, m);
}

mnem_status mnem__bpe_encode(mnem_tokenizer *t, const char *text, size_t n) {
    piece p = {t, text};
    if (mnem__utf8_invalid(text, n) == n)
        return mnem__pretokenize(t->pretokenizer, text, n, on_word, &p);
    const mnem_status status = mnem__tokenizer_text_room(t, n);
    if (status != MNEM_OK) return status;
    mnem__utf8_mask(text, n, t->text);
    return mnem__pretokenize(t->pretokenizer, t->text, n, on_word, &p);
}
