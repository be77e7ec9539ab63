/* tokenizer_vocab.c: the tables between bytes and ids.
 *
 * The idea: what a token prints is decoded once, into one run of bytes with 4-byte offsets; the
 * table from bytes to ids holds 4-byte ids only and explains them by those bytes. Special tokens
 * are an array sorted by text: walking it byte by byte narrows a range, so the longest match needs
 * no more memory.
 * Text becomes only tokens of the table: normal, user-defined and unused ones. Control, unknown and
 * byte tokens are never spelled by plain text.
 * Invariant: of tokens that print the same, normal ones go before user-defined ones, then the
 * lowest id.
 * Cost: a look-up is one hash of the bytes and about one comparison; a special token is matched in
 * O(bytes + narrowings * log(special tokens)), at most MNEM__SPECIAL_BYTES_MAX bytes. */
#include "model/tokenizer/tokenizer_parts.h"

#include <string.h>

#include "base/heap.h"
#include "base/sort.h"

enum { PROBES_MAX = 4096 };

/* ---- the table of ids ---- */

mnem_status mnem__id_table_init(mnem__id_table *table, uint64_t numbers) {
    const uint64_t slots = numbers + numbers / 4 + 16;
    if (slots > INT32_MAX)
        return mnem__fail(MNEM_UNSUPPORTED, "tokenizer: %llu entries are too many",
                          (unsigned long long)numbers);
    table->slots = mnem__calloc(MNEM__TOKENIZER_TAG, slots, sizeof *table->slots);
    if (!table->slots) return mnem__heap_status();
    table->count = (uint32_t)slots;
    table->number_mask = UINT32_MAX >> __builtin_clz((uint32_t)numbers + 1);
    table->probes = 0;
    return MNEM_OK;
}

mnem_status mnem__id_table_put(mnem__id_table *table, uint64_t hash, uint32_t number) {
    mnem__id_probe at = mnem__id_table_find(table, hash);
    for (uint32_t probe = 1; probe <= PROBES_MAX; probe++) {
        if (table->slots[at.slot] == 0) {
            table->slots[at.slot] = (number + 1) | at.tag;
            if (probe > table->probes) table->probes = probe;
            return MNEM_OK;
        }
        at.slot = at.slot + 1 == table->count ? 0 : at.slot + 1;
    }
    return mnem__fail(MNEM_BAD_FILE, "tokenizer: more than %d hashes collide", PROBES_MAX);
}

uint64_t mnem__hash_bytes(const char *bytes, size_t n) {
    uint64_t hash = n, word;
    for (; n >= sizeof word; n -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = mnem__hash_mix(hash ^ word);
    }
    word = 0;
    memcpy(&word, bytes, n);
    hash = mnem__hash_mix(hash ^ word);
    return mnem__hash_mix(hash ^ hash >> 32);
}

/* ---- pieces ---- */

static mnem_text piece_of(const mnem_tokenizer *t, int32_t id) {
    const uint32_t at = t->piece_at[id];
    return (mnem_text){t->piece_bytes + at, t->piece_at[id + 1] - at};
}

static bool is_forced(const mnem_tokenizer *t, int32_t id) {
    for (int i = 0; i < t->forceds; i++)
        if (t->forced[i] == id) return true;
    return false;
}

mnem__token_type mnem__token_type_get(const mnem_tokenizer *t, int32_t id) {
    if (is_forced(t, id)) return MNEM__TOKEN_CONTROL;
    if (t->types.count == 0) return MNEM__TOKEN_NORMAL;
    return (mnem__token_type)mnem_value_i64(&t->types, (uint64_t)id);
}

/* The byte that "<0xE2>" names, or -1. */
static int byte_named(mnem_text text) {
    static const char digits[] = "0123456789ABCDEF";
    if (text.length != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>') return -1;
    const char *high = memchr(digits, text.bytes[3], 16), *low = memchr(digits, text.bytes[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

static bool is_byte_token(const mnem_tokenizer *t, int32_t id) {
    return !t->bpe && (t->types.count == 0 || mnem__token_type_get(t, id) == MNEM__TOKEN_BYTE);
}

static size_t decode(const mnem_tokenizer *t, int32_t id, mnem_text text, char *out) {
    const mnem__token_type type = mnem__token_type_get(t, id);
    const int byte = is_byte_token(t, id) ? byte_named(text) : -1;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    if (!t->bpe) return mnem__spm_decode(text.bytes, text.length, out);
    if (type == MNEM__TOKEN_NORMAL || type == MNEM__TOKEN_UNUSED)
        return mnem__bpe_decode(text.bytes, text.length, out);
    memcpy(out, text.bytes, text.length);
    return text.length;
}

static mnem_status decode_pieces(mnem_tokenizer *t) {
    const uint64_t count = t->tokens.count;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) bytes += mnem_value_text(&t->tokens, i).length;
    if (bytes > UINT32_MAX)
        return mnem__fail(MNEM_UNSUPPORTED, "tokenizer.ggml.tokens: %llu bytes of text",
                          (unsigned long long)bytes);
    t->piece_at = mnem__alloc(MNEM__TOKENIZER_TAG, (count + 1) * sizeof *t->piece_at);
    t->piece_bytes = t->piece_at ? mnem__alloc(MNEM__TOKENIZER_TAG, bytes) : NULL;
    if (!t->piece_bytes) return mnem__heap_status();
    uint32_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        t->piece_at[i] = at;
        const mnem_text text = mnem_value_text(&t->tokens, i);
        if (text.length) at += (uint32_t)decode(t, (int32_t)i, text, t->piece_bytes + at);
    }
    t->piece_at[count] = at;
    char *fitting = mnem__realloc(MNEM__TOKENIZER_TAG, t->piece_bytes, at);
    if (!fitting) return mnem__heap_status();
    t->piece_bytes = fitting;
    return MNEM_OK;
}

mnem_text mnem_tokenizer_piece(const mnem_tokenizer *t, int32_t id, bool special) {
    if (id < 0 || id >= t->info.vocab) return (mnem_text){"", 0};
    const mnem__token_type type = mnem__token_type_get(t, id);
    const bool hidden =
        type == MNEM__TOKEN_CONTROL || type == MNEM__TOKEN_UNKNOWN || type == MNEM__TOKEN_UNUSED;
    return hidden && !special ? (mnem_text){"", 0} : piece_of(t, id);
}

/* ---- bytes to ids ---- */

int32_t mnem__vocab_find(const mnem_tokenizer *t, const char *bytes, size_t n) {
    mnem__id_probe probe = mnem__id_table_find(&t->vocab, mnem__hash_bytes(bytes, n));
    for (uint32_t id; mnem__id_table_next(&t->vocab, &probe, &id);) {
        const mnem_text piece = piece_of(t, (int32_t)id);
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

static mnem_status vocab_put(mnem_tokenizer *t, int32_t id) {
    const mnem_text piece = piece_of(t, id);
    if (piece.length == 0 || mnem__vocab_find(t, piece.bytes, piece.length) >= 0) return MNEM_OK;
    if (has_inner_space(piece)) t->words = false;
    if (piece.length > t->longest) t->longest = (uint32_t)piece.length;
    return mnem__id_table_put(&t->vocab, mnem__hash_bytes(piece.bytes, piece.length), (uint32_t)id);
}

static mnem_status vocab_put_types(mnem_tokenizer *t, mnem__token_type first,
                                   mnem__token_type second) {
    mnem_status status = MNEM_OK;
    for (int32_t id = 0; id < t->info.vocab && status == MNEM_OK; id++) {
        const mnem__token_type type = mnem__token_type_get(t, id);
        const bool byte = type == MNEM__TOKEN_NORMAL && is_byte_token(t, id) &&
                          byte_named(mnem_value_text(&t->tokens, (uint64_t)id)) >= 0;
        if ((type == first || type == second) && !byte) status = vocab_put(t, id);
    }
    return status;
}

static void find_byte_ids(mnem_tokenizer *t) {
    for (int byte = 0; byte < 256; byte++) {
        const char c = (char)byte;
        t->byte_id[byte] = t->bpe ? mnem__vocab_find(t, &c, 1) : -1;
    }
    for (int32_t id = t->bpe ? 0 : t->info.vocab; id-- > 0;) {
        const int byte =
            is_byte_token(t, id) ? byte_named(mnem_value_text(&t->tokens, (uint64_t)id)) : -1;
        if (byte >= 0) t->byte_id[byte] = id;
    }
}

/* ---- special tokens ---- */

/* Texts that end a turn or a text in the formats of known models. Files often call them normal. */
static const char *const end_texts[] = {
    "</s>",       "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>",         "<|eom_id|>",
    "<|im_end|>", "<|end|>",       "<end_of_turn>",   "<end_of_utterance>",
};

static bool is_end_text(mnem_text text) {
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++)
        if (strlen(end_texts[i]) == text.length &&
            memcmp(end_texts[i], text.bytes, text.length) == 0)
            return true;
    return false;
}

static void force_controls(mnem_tokenizer *t) {
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++) {
        const int32_t id = mnem__vocab_find(t, end_texts[i], strlen(end_texts[i]));
        if (id >= 0) t->forced[t->forceds++] = id;
    }
}

static bool is_special(const mnem_tokenizer *t, int32_t id) {
    const mnem__token_type type = mnem__token_type_get(t, id);
    const size_t length = mnem_value_text(&t->tokens, (uint64_t)id).length;
    return (type == MNEM__TOKEN_CONTROL || type == MNEM__TOKEN_USER ||
            type == MNEM__TOKEN_UNKNOWN) &&
           length > 0 && length <= MNEM__SPECIAL_BYTES_MAX;
}

/* By text, a prefix first, then by id. */
static bool special_before(const void *context, uint32_t a, uint32_t b) {
    const mnem_tokenizer *t = context;
    const mnem_text x = mnem_value_text(&t->tokens, a);
    const mnem_text y = mnem_value_text(&t->tokens, b);
    const int order = memcmp(x.bytes, y.bytes, x.length < y.length ? x.length : y.length);
    if (order != 0) return order < 0;
    return x.length != y.length ? x.length < y.length : a < b;
}

static unsigned char special_byte(const mnem_tokenizer *t, uint32_t index, size_t depth) {
    return (unsigned char)mnem_value_text(&t->tokens, (uint64_t)t->special[index]).bytes[depth];
}

static bool same_text(const mnem_tokenizer *t, int32_t a, int32_t b) {
    const mnem_text x = mnem_value_text(&t->tokens, (uint64_t)a);
    const mnem_text y = mnem_value_text(&t->tokens, (uint64_t)b);
    return x.length == y.length && memcmp(x.bytes, y.bytes, x.length) == 0;
}

/* Of equal texts the lowest id stays. */
static void drop_duplicates(mnem_tokenizer *t) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->specials; i++)
        if (n == 0 || !same_text(t, t->special[n - 1], t->special[i]))
            t->special[n++] = t->special[i];
    t->specials = n;
}

static mnem_status collect_specials(mnem_tokenizer *t) {
    for (int32_t id = 0; id < t->info.vocab; id++) t->specials += is_special(t, id);
    t->special = mnem__alloc(MNEM__TOKENIZER_TAG, t->specials * sizeof *t->special);
    if (!t->special) return mnem__heap_status();
    uint32_t n = 0;
    for (int32_t id = 0; id < t->info.vocab; id++)
        if (is_special(t, id)) t->special[n++] = id;
    mnem__sort((uint32_t *)t->special, t->specials, special_before, t);
    drop_duplicates(t);
    for (uint32_t i = 0; i < t->specials; i++) t->special_at[special_byte(t, i, 0) + 1] = i + 1;
    for (int byte = 0; byte < 256; byte++)
        if (t->special_at[byte + 1] < t->special_at[byte])
            t->special_at[byte + 1] = t->special_at[byte];
    return MNEM_OK;
}

/* The first of [low, high) whose byte at depth is at least byte; all are longer than depth. */
static uint32_t special_bound(const mnem_tokenizer *t, uint32_t low, uint32_t high, size_t depth,
                              int byte) {
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (special_byte(t, middle, depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t mnem__special_match(const mnem_tokenizer *t, const char *text, size_t n, size_t *length) {
    const unsigned char *s = (const unsigned char *)text;
    uint32_t low = t->special_at[s[0]], high = t->special_at[s[0] + 1];
    int32_t best = -1;
    for (size_t depth = 1; low < high; depth++) { /* [low, high) start with text's depth bytes */
        if (mnem_value_text(&t->tokens, (uint64_t)t->special[low]).length == depth) {
            best = t->special[low++];
            *length = depth;
        }
        if (depth == n || low == high) break;
        if (special_byte(t, low, depth) == s[depth] && special_byte(t, high - 1, depth) == s[depth])
            continue;
        low = special_bound(t, low, high, depth, s[depth]);
        high = special_bound(t, low, high, depth, s[depth] + 1);
    }
    return best;
}

/* ---- ends ---- */

static void add_end(mnem_tokenizer *t, int32_t id) {
    if (id >= 0 && !mnem_tokenizer_is_end(t, id) && t->ends < MNEM__END_TOKENS_MAX)
        t->end[t->ends++] = id;
}

static void find_ends(mnem_tokenizer *t) {
    static const char *const turns[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>"};
    for (uint32_t i = 0; i < t->specials; i++) {
        const int32_t id = t->special[i];
        const mnem_text text = mnem_value_text(&t->tokens, (uint64_t)id);
        if (mnem__token_type_get(t, id) == MNEM__TOKEN_CONTROL && is_end_text(text)) add_end(t, id);
    }
    for (size_t i = 0; i < sizeof turns / sizeof *turns && t->info.eot < 0; i++) {
        size_t length;
        const int32_t id = mnem__special_match(t, turns[i], strlen(turns[i]), &length);
        if (id >= 0 && length == strlen(turns[i])) t->info.eot = id;
    }
    add_end(t, t->info.eot);
    add_end(t, t->eom);
}

bool mnem_tokenizer_is_end(const mnem_tokenizer *t, int32_t id) {
    for (int i = 0; i < t->ends; i++)
        if (t->end[i] == id) return true;
    return false;
}

mnem_status mnem__vocab_create(mnem_tokenizer *t) {
    t->words = true;
    mnem_status status = decode_pieces(t);
    if (status == MNEM_OK) status = mnem__id_table_init(&t->vocab, t->tokens.count);
    if (status == MNEM_OK) status = vocab_put_types(t, MNEM__TOKEN_NORMAL, MNEM__TOKEN_UNUSED);
    if (status == MNEM_OK) status = vocab_put_types(t, MNEM__TOKEN_USER, MNEM__TOKEN_USER);
    if (status != MNEM_OK) return status;
    find_byte_ids(t);
    force_controls(t);
    status = collect_specials(t);
    if (status != MNEM_OK) return status;
    add_end(t, t->info.eos);
    find_ends(t);
    return MNEM_OK;
}

void mnem__vocab_destroy(mnem_tokenizer *t) {
    mnem__free(t->piece_bytes);
    mnem__free(t->piece_at);
    mnem__free(t->vocab.slots);
    mnem__free(t->ranks.slots);
    mnem__free(t->special);
}
