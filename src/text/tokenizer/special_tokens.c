/* special_tokens.c: special tokens and how they are found in text.
 *
 * The idea: they are an array sorted by text: walking it byte by byte narrows a range, so the
 * longest match needs no more memory.
 * Cost: a match is O(bytes + narrowings * log(special tokens)), at most MNEM__SPECIAL_BYTES_MAX
 * bytes. */
#include "text/tokenizer/special_tokens.h"

#include <string.h>

#include "base/heap.h"
#include "base/sort.h"

/* Texts that end a turn or a text in the formats of known models. Files often call them normal. */
static const char *const end_texts[] = {
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOS]",
    "[EOT]",
    "[e~[",
    "<turn|>",
    "<|call|>",
    "<|calls|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|flush|>",
    "<|im_end|>",
    "<|return|>",
    "<|tool_response>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};

/* Texts of which the first doesn't end a turn where the others are tokens too. */
static const char *const end_exceptions[][3] = {
    {"<|end|>", "<|return|>", "<|call|>"},
    {"<|end|>", "<|flush|>", "<|calls|>"},
    {"</s>", "<|tool_response>", "<|tool_response>"},
};

static bool text_is(mnem_text text, const char *expected) {
    return text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

static bool has_text(const mnem__token_vocab *v, const char *text) {
    for (int32_t id = 0; id < (int32_t)v->tokens.count; id++)
        if (text_is(mnem__token_vocab_text(v, id), text)) return true;
    return false;
}

static bool ends_in(const mnem__token_vocab *v, const char *end_text) {
    for (size_t i = 0; i < sizeof end_exceptions / sizeof *end_exceptions; i++) {
        const char *const *row = end_exceptions[i];
        if (strcmp(row[0], end_text) == 0 && has_text(v, row[1]) && has_text(v, row[2]))
            return false;
    }
    return true;
}

/* Whether a token with this text ends a turn. */
static bool is_end_text(const mnem__token_vocab *v, mnem_text text) {
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++)
        if (text_is(text, end_texts[i])) return ends_in(v, end_texts[i]);
    return false;
}

static void force_controls(mnem__token_vocab *v) {
    for (int32_t id = 0; id < (int32_t)v->tokens.count; id++) {
        const mnem_text text = mnem__token_vocab_text(v, id);
        const bool may_end = text.length > 0 && memchr("<[_", text.bytes[0], 3);
        const mnem__token_type type = may_end ? mnem__token_vocab_type(v, id) : MNEM__TOKEN_BYTE;
        if (type != MNEM__TOKEN_CONTROL && type != MNEM__TOKEN_BYTE && is_end_text(v, text))
            mnem__token_vocab_force(v, id);
    }
}

static bool is_special(const mnem__token_vocab *v, int32_t id) {
    const mnem__token_type type = mnem__token_vocab_type(v, id);
    const size_t length = mnem__token_vocab_text(v, id).length;
    return (type == MNEM__TOKEN_CONTROL || type == MNEM__TOKEN_USER ||
            type == MNEM__TOKEN_UNKNOWN) &&
           length > 0 && length <= MNEM__SPECIAL_BYTES_MAX;
}

/* By text, a prefix first, then by id. */
static bool special_before(const void *context, uint32_t a, uint32_t b) {
    const mnem__token_vocab *v = context;
    const mnem_text x = mnem__token_vocab_text(v, (int32_t)a);
    const mnem_text y = mnem__token_vocab_text(v, (int32_t)b);
    const int order = memcmp(x.bytes, y.bytes, x.length < y.length ? x.length : y.length);
    if (order != 0) return order < 0;
    return x.length != y.length ? x.length < y.length : a < b;
}

typedef struct texts { /* of special tokens */
    const mnem__special_tokens *special;
    const mnem__token_vocab *vocab;
} texts;

static mnem_text text_at(const texts *t, uint32_t index) {
    return mnem__token_vocab_text(t->vocab, t->special->id[index]);
}

static unsigned char byte_at(const texts *t, uint32_t index, size_t depth) {
    return (unsigned char)text_at(t, index).bytes[depth];
}

static bool same_text(const mnem__token_vocab *v, int32_t a, int32_t b) {
    const mnem_text x = mnem__token_vocab_text(v, a), y = mnem__token_vocab_text(v, b);
    return x.length == y.length && memcmp(x.bytes, y.bytes, x.length) == 0;
}

/* Of equal texts the lowest id stays. */
static void drop_duplicates(mnem__special_tokens *s, const mnem__token_vocab *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (n == 0 || !same_text(v, s->id[n - 1], s->id[i])) s->id[n++] = s->id[i];
    s->count = n;
}

static mnem_status collect(mnem__special_tokens *s, const mnem__token_vocab *v) {
    const int32_t tokens = (int32_t)v->tokens.count;
    for (int32_t id = 0; id < tokens; id++) s->count += is_special(v, id);
    s->id = mnem__alloc(MNEM__TOKENIZER_TAG, s->count * sizeof *s->id);
    if (!s->id) return mnem__heap_status();
    uint32_t n = 0;
    for (int32_t id = 0; id < tokens; id++)
        if (is_special(v, id)) s->id[n++] = id;
    mnem__sort((uint32_t *)s->id, s->count, special_before, v);
    drop_duplicates(s, v);
    const texts t = {s, v};
    for (uint32_t i = 0; i < s->count; i++) s->at[byte_at(&t, i, 0) + 1] = i + 1;
    for (int byte = 0; byte < 256; byte++)
        if (s->at[byte + 1] < s->at[byte]) s->at[byte + 1] = s->at[byte];
    return MNEM_OK;
}

/* The first of [low, high) whose byte at depth is at least byte; all are longer than depth. */
static uint32_t bound(const texts *t, uint32_t low, uint32_t high, size_t depth, int byte) {
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (byte_at(t, middle, depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const mnem__token_vocab *v, int32_t id, mnem__special_kind kind) {
    if (kind == MNEM__SPECIAL_ANY) return true;
    return (mnem__token_vocab_type(v, id) == MNEM__TOKEN_USER) == (kind == MNEM__SPECIAL_USER);
}

int32_t mnem__special_tokens_match(const mnem__special_tokens *special,
                                   const mnem__token_vocab *vocab, mnem__special_kind kind,
                                   const char *text, size_t n, size_t *length) {
    const texts t = {special, vocab};
    const unsigned char *s = (const unsigned char *)text;
    uint32_t low = special->at[s[0]], high = special->at[s[0] + 1];
    int32_t best = -1;
    for (size_t depth = 1; low < high; depth++) { /* [low, high) start with text's depth bytes */
        if (text_at(&t, low).length == depth) {
            const int32_t id = special->id[low++];
            if (is_of(vocab, id, kind)) {
                best = id;
                *length = depth;
            }
        }
        if (depth == n || low == high) break;
        if (byte_at(&t, low, depth) == s[depth] && byte_at(&t, high - 1, depth) == s[depth])
            continue;
        low = bound(&t, low, high, depth, s[depth]);
        high = bound(&t, low, high, depth, s[depth] + 1);
    }
    return best;
}

/* White space as C's isspace has it. Phi 3's tokenizer does so, but its files don't say it. */
size_t mnem__special_tokens_skip(const mnem__special_tokens *s, const mnem__token_vocab *v,
                                 int32_t id, const char *text, size_t n) {
    static const char *const keeping[] = {"<unk>", "<s>", "<|endoftext|>"};
    size_t spaces = 0;
    if (!s->strips_after) return 0;
    for (size_t i = 0; i < sizeof keeping / sizeof *keeping; i++)
        if (text_is(mnem__token_vocab_text(v, id), keeping[i])) return 0;
    while (spaces < n && (text[spaces] == ' ' || (text[spaces] >= '\t' && text[spaces] <= '\r')))
        spaces++;
    return spaces;
}

/* ---- ends ---- */

bool mnem__special_tokens_is_end(const mnem__special_tokens *s, int32_t id) {
    for (int i = 0; i < s->ends; i++)
        if (s->end[i] == id) return true;
    return false;
}

static void add_end(mnem__special_tokens *s, int32_t id) {
    if (id >= 0 && !mnem__special_tokens_is_end(s, id) && s->ends < MNEM__END_TOKENS_MAX)
        s->end[s->ends++] = id;
}

static void find_ends(mnem__special_tokens *s, const mnem__token_vocab *v, mnem__end_ids *ids) {
    static const char *const turns[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",
                                        "<turn|>"};
    add_end(s, ids->eos);
    for (uint32_t i = 0; i < s->count; i++) {
        const int32_t id = s->id[i];
        const bool control = mnem__token_vocab_type(v, id) == MNEM__TOKEN_CONTROL;
        if (control && is_end_text(v, mnem__token_vocab_text(v, id))) add_end(s, id);
    }
    for (size_t i = 0; i < sizeof turns / sizeof *turns && ids->eot < 0; i++) {
        size_t length;
        const int32_t id = mnem__special_tokens_match(s, v, MNEM__SPECIAL_ANY, turns[i],
                                                      strlen(turns[i]), &length);
        if (id >= 0 && length == strlen(turns[i])) ids->eot = id;
    }
    add_end(s, ids->eot);
    add_end(s, ids->eom);
}

mnem_status mnem__special_tokens_init(mnem__special_tokens *s, mnem__token_vocab *v,
                                      mnem__end_ids *ids) {
    force_controls(v);
    const mnem_status status = collect(s, v);
    if (status == MNEM_OK) find_ends(s, v, ids);
    return status;
}

void mnem__special_tokens_fini(mnem__special_tokens *s) {
    mnem__free(s->id);
}
