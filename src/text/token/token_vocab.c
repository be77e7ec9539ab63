/* token_vocab.c: the tables between bytes and ids.
 *
 * The idea: what a token prints is decoded once, into one run of bytes with 4-byte offsets; the
 * table from bytes to ids holds 4-byte ids only and explains them by those bytes.
 * Text becomes only tokens of the table: normal, user-defined and unused ones. Control, unknown and
 * byte tokens are never spelled by plain text.
 * Invariant: of tokens that print the same, normal ones go before user-defined ones, then the
 * lowest id.
 * Cost: a look-up is one hash of the bytes and about one comparison. */
#include "text/token/token_vocab.h"

#include <string.h>

#include "base/heap.h"

/* ---- pieces ---- */

mnem_text mnem__token_vocab_piece(const mnem__token_vocab *v, int32_t id) {
    const uint32_t at = v->piece_at[id];
    return (mnem_text){v->piece_bytes + at, v->piece_at[id + 1] - at};
}

mnem_text mnem__token_vocab_text(const mnem__token_vocab *v, int32_t id) {
    return mnem_value_text(&v->tokens, (uint64_t)id);
}

void mnem__token_vocab_force(mnem__token_vocab *v, int32_t id) {
    if (v->forceds < MNEM__END_TOKENS_MAX) v->forced[v->forceds++] = id;
}

static bool is_forced(const mnem__token_vocab *v, int32_t id) {
    for (int i = 0; i < v->forceds; i++)
        if (v->forced[i] == id) return true;
    return false;
}

mnem__token_type mnem__token_vocab_type(const mnem__token_vocab *v, int32_t id) {
    if (is_forced(v, id)) return MNEM__TOKEN_CONTROL;
    if (v->types.count == 0) return MNEM__TOKEN_NORMAL;
    return (mnem__token_type)mnem_value_i64(&v->types, (uint64_t)id);
}

static bool is_byte_token(const mnem__token_vocab *v, int32_t id) {
    return !v->spelled &&
           (v->types.count == 0 || mnem__token_vocab_type(v, id) == MNEM__TOKEN_BYTE);
}

static size_t decode(const mnem__token_vocab *v, int32_t id, mnem_text text, char *out) {
    const mnem__token_type type = mnem__token_vocab_type(v, id);
    const int byte = is_byte_token(v, id) ? mnem__byte_named(text) : -1;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    if (!v->spelled) return mnem__spm_decode(text.bytes, text.length, out);
    if (type == MNEM__TOKEN_NORMAL || type == MNEM__TOKEN_UNUSED)
        return mnem__bpe_decode(text.bytes, text.length, out);
    memcpy(out, text.bytes, text.length);
    return text.length;
}

static mnem_status decode_pieces(mnem__token_vocab *v) {
    const uint64_t count = v->tokens.count;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) bytes += mnem_value_text(&v->tokens, i).length;
    if (bytes > UINT32_MAX)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "key tokenizer.ggml.tokens has %llu bytes of text, expected fewer than 2^32",
            (unsigned long long)bytes);
    v->piece_at = mnem__alloc(MNEM__TOKENIZER_TAG, (count + 1) * sizeof *v->piece_at);
    v->piece_bytes = v->piece_at ? mnem__alloc(MNEM__TOKENIZER_TAG, bytes) : NULL;
    if (!v->piece_bytes) return mnem__heap_status();
    uint32_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        v->piece_at[i] = at;
        const mnem_text text = mnem_value_text(&v->tokens, i);
        if (text.length) at += (uint32_t)decode(v, (int32_t)i, text, v->piece_bytes + at);
    }
    v->piece_at[count] = at;
    char *fitting = mnem__realloc(MNEM__TOKENIZER_TAG, v->piece_bytes, at);
    if (!fitting) return mnem__heap_status();
    v->piece_bytes = fitting;
    return MNEM_OK;
}

/* ---- bytes to ids ---- */

int32_t mnem__token_vocab_find(const mnem__token_vocab *v, const char *bytes, size_t n) {
    mnem__id_probe probe = mnem__id_table_find(&v->table, mnem__hash_bytes(bytes, n));
    for (uint32_t id; mnem__id_table_next(&v->table, &probe, &id);) {
        const mnem_text piece = mnem__token_vocab_piece(v, (int32_t)id);
        if (piece.length == n && memcmp(piece.bytes, bytes, n) == 0) return (int32_t)id;
    }
    return -1;
}

/* Whether a space follows something else in it: then words can't be joined one by one. */
static bool has_inner_space(mnem_text piece) {
    for (size_t i = 1; i < piece.length; i++)
        if (piece.bytes[i] == ' ' && piece.bytes[i - 1] != ' ') return true;
    return false;
}

static mnem_status vocab_put(mnem__token_vocab *v, int32_t id) {
    const mnem_text piece = mnem__token_vocab_piece(v, id);
    if (piece.length == 0 || mnem__token_vocab_find(v, piece.bytes, piece.length) >= 0)
        return MNEM_OK;
    if (has_inner_space(piece)) v->words = false;
    if (piece.length > v->longest) v->longest = (uint32_t)piece.length;
    return mnem__id_table_put(&v->table, mnem__hash_bytes(piece.bytes, piece.length), (uint32_t)id);
}

/* Whether text may become this token at all: not one that stands for a byte, nor one whose text
 * isn't written as this vocabulary's are (some files have emoji twice). */
static bool is_text(const mnem__token_vocab *v, int32_t id) {
    const mnem_text text = mnem__token_vocab_text(v, id);
    if (v->spelled) return mnem__bpe_is_spelled(text);
    return !is_byte_token(v, id) || mnem__byte_named(text) < 0;
}

static mnem_status vocab_put_types(mnem__token_vocab *v, mnem__token_type first,
                                   mnem__token_type second) {
    mnem_status status = MNEM_OK;
    for (int32_t id = 0; id < (int32_t)v->tokens.count && status == MNEM_OK; id++) {
        const mnem__token_type type = mnem__token_vocab_type(v, id);
        if ((type == first || type == second) && is_text(v, id)) status = vocab_put(v, id);
    }
    return status;
}

static void find_byte_ids(mnem__token_vocab *v) {
    for (int byte = 0; byte < 256; byte++) {
        const char c = (char)byte;
        v->byte_id[byte] = v->spelled ? mnem__token_vocab_find(v, &c, 1) : -1;
    }
    for (int32_t id = v->spelled ? 0 : (int32_t)v->tokens.count; id-- > 0;) {
        const int byte =
            is_byte_token(v, id) ? mnem__byte_named(mnem__token_vocab_text(v, id)) : -1;
        if (byte >= 0) v->byte_id[byte] = id;
    }
}

mnem_status mnem__token_vocab_init(mnem__token_vocab *v) {
    v->words = true;
    mnem_status status = decode_pieces(v);
    if (status == MNEM_OK) status = mnem__id_table_init(&v->table, v->tokens.count);
    if (status == MNEM_OK) status = vocab_put_types(v, MNEM__TOKEN_NORMAL, MNEM__TOKEN_UNUSED);
    if (status == MNEM_OK) status = vocab_put_types(v, MNEM__TOKEN_USER, MNEM__TOKEN_USER);
    if (status == MNEM_OK) find_byte_ids(v);
    return status;
}

void mnem__token_vocab_fini(mnem__token_vocab *v) {
    mnem__free(v->piece_bytes);
    mnem__free(v->piece_at);
    mnem__free(v->table.slots);
}
