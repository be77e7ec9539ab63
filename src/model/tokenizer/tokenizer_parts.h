/* tokenizer_parts.h: what the files of the tokenizer share.
 *
 * Texts of tokens stay in the model; the tokenizer adds
 *
 *     piece_at [vocab + 1], piece_bytes   what each token prints (decoded once)
 *     vocab    4-byte slots               bytes → id, over the pieces that text may become
 *     ranks    4-byte slots               (left id, right id) → rank, over the model's merges
 *     special  [specials] ids             sorted by their text, for the longest match
 *
 * and scratch that grows with the longest word: 16 bytes for each of its bytes. */
#ifndef MNEM_SRC_MODEL_TOKENIZER_TOKENIZER_PARTS_H
#define MNEM_SRC_MODEL_TOKENIZER_TOKENIZER_PARTS_H

#include "mnem/vocabulary.h"

#define MNEM__TOKENIZER_TAG "tokenizer"

/* tokenizer.ggml.token_type's numbers. */
typedef enum mnem__token_type {
    MNEM__TOKEN_NORMAL = 1,
    MNEM__TOKEN_UNKNOWN,
    MNEM__TOKEN_CONTROL,
    MNEM__TOKEN_USER,
    MNEM__TOKEN_UNUSED,
    MNEM__TOKEN_BYTE
} mnem__token_type;

/* Open addressing with linear probing over numbers that the model's tables explain. A slot holds
 * number + 1 in its low bits (0: empty) and in the others a part of the hash, so that hardly any
 * other number's text is looked at. No probe goes further than an insertion had to, so that a file
 * can't make searching slow. */
typedef struct mnem__id_table {
    uint32_t *slots;
    uint32_t count, number_mask;
    uint32_t probes; /* the longest way that any number went from its home slot */
} mnem__id_table;
mnem_status mnem__id_table_init(mnem__id_table *table, uint64_t numbers);
/* MNEM_BAD_FILE when the hashes of too many numbers collide. */
mnem_status mnem__id_table_put(mnem__id_table *table, uint64_t hash, uint32_t number);

/* A search: the numbers that may have this hash, one after another. */
typedef struct mnem__id_probe {
    uint32_t slot, left, tag;
} mnem__id_probe;
static inline mnem__id_probe mnem__id_table_find(const mnem__id_table *table, uint64_t hash) {
    return (mnem__id_probe){(uint32_t)((hash >> 32) * table->count >> 32), table->probes,
                            (uint32_t)hash & ~table->number_mask};
}
static inline bool mnem__id_table_next(const mnem__id_table *table, mnem__id_probe *probe,
                                       uint32_t *number) {
    for (; probe->left > 0; probe->left--) {
        const uint32_t value = table->slots[probe->slot];
        if (value == 0) return false;
        probe->slot = probe->slot + 1 == table->count ? 0 : probe->slot + 1;
        *number = (value & table->number_mask) - 1;
        if ((value & ~table->number_mask) != probe->tag) continue;
        probe->left--;
        return true;
    }
    return false;
}
uint64_t mnem__hash_bytes(const char *bytes, size_t n);
static inline uint64_t mnem__hash_mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

typedef struct mnem__pretokenizer mnem__pretokenizer;

enum { MNEM__END_TOKENS_MAX = 24, MNEM__SPECIAL_BYTES_MAX = 256 };

typedef struct mnem__merger {
    uint32_t n, room; /* units (bytes) of the word; what the arrays hold */
    const char *text;
    int32_t *id;    /* of the symbol that starts here; -1: not a token */
    uint32_t *span; /* bytes of a symbol, at its first and its last byte */
    uint32_t *tree; /* [2 n] tournament over the keys of neighbouring pairs; the smallest wins */
} mnem__merger;

struct mnem_tokenizer {
    const mnem_model *model; /* where the keys are: one of these two */
    const mnem_vocabulary *vocabulary;
    mnem_tokenizer_info info;
    mnem_value tokens, types, scores, merges; /* types.count 0: all normal */
    char pre[32];
    bool bpe, ignore_merges;
    bool words; /* no token has a space after something else: spm.c */
    int32_t eom;
    mnem_chat_format chat;

    char *piece_bytes;
    uint32_t *piece_at;
    mnem__id_table vocab, ranks;
    int32_t byte_id[256]; /* -1: no token for this byte */
    uint32_t longest;     /* bytes of the longest piece in vocab */

    int32_t *special;
    uint32_t specials;
    uint32_t special_at[257]; /* where the special tokens with this first byte start */
    int32_t end[MNEM__END_TOKENS_MAX];
    int ends;
    int32_t forced[MNEM__END_TOKENS_MAX]; /* control by their text, though the file says normal */
    int forceds;

    mnem__pretokenizer *pretokenizer;

    /* scratch */
    mnem__merger merger;
    char *text;
    size_t text_room;
    int32_t *ids;
    size_t count, room;
};

/* ---- tokenizer_vocab.c ---- */
mnem_status mnem__vocab_create(mnem_tokenizer *t);
void mnem__vocab_destroy(mnem_tokenizer *t);
mnem__token_type mnem__token_type_get(const mnem_tokenizer *t, int32_t id);
/* The token that text may become with exactly these bytes, or -1. */
int32_t mnem__vocab_find(const mnem_tokenizer *t, const char *bytes, size_t n);
/* The longest special token that text starts with, or -1. */
int32_t mnem__special_match(const mnem_tokenizer *t, const char *text, size_t n, size_t *length);

/* ---- tokenizer.c ---- */
/* A key of the model or the vocabulary; false if there is none. */
bool mnem__tokenizer_key(const mnem_tokenizer *t, const char *key, mnem_value *value);
/* Another tokenizer of the same model or vocabulary, for another thread. */
mnem_status mnem__tokenizer_clone(const mnem_tokenizer *t, mnem_tokenizer **clone);
mnem_status mnem__tokenizer_emit(mnem_tokenizer *t, int32_t id);
/* t->text holds at least n bytes afterwards; its content is lost. */
mnem_status mnem__tokenizer_text_room(mnem_tokenizer *t, size_t n);

/* ---- bpe_merger.c ---- */
#define MNEM__NO_PAIR UINT32_MAX
/* The key of joining the symbols at left and right (its neighbour): the smallest is joined first,
 * the leftmost of equals; MNEM__NO_PAIR: never. */
typedef uint32_t mnem__pair_key(const mnem_tokenizer *t, const mnem__merger *m, uint32_t left,
                                uint32_t right);
mnem_status mnem__merger_room(mnem__merger *m, size_t n);
void mnem__merger_fini(mnem__merger *m);
/* Joins until no pair has a key. The caller has set text, n and the first symbols' id and span. */
void mnem__merger_run(const mnem_tokenizer *t, mnem__merger *m, mnem__pair_key *key);
/* Emits every symbol's id, and for those without one the ids of their bytes. */
mnem_status mnem__merger_emit(mnem_tokenizer *t, const mnem__merger *m);

/* ---- bpe.c, spm.c: a piece of text without special tokens ---- */
mnem_status mnem__bpe_create(mnem_tokenizer *t);
mnem_status mnem__bpe_encode(mnem_tokenizer *t, const char *text, size_t n);
/* What a byte-level token's text stands for; out has room for n bytes. Returns the bytes. */
size_t mnem__bpe_decode(const char *text, size_t n, char *out);
/* The other way round, for any bytes: out has room for 2 n bytes. Returns the bytes. */
size_t mnem__bpe_spell(const char *bytes, size_t n, char *out);
/* The character that stands for a byte: at most 0x143. */
unsigned mnem__bpe_character(unsigned char byte);
mnem_status mnem__spm_create(mnem_tokenizer *t);
mnem_status mnem__spm_encode(mnem_tokenizer *t, const char *text, size_t n, bool after_special);
size_t mnem__spm_decode(const char *text, size_t n, char *out);

/* ---- pretokenize.c ---- */
/* MNEM_UNSUPPORTED names a pre-tokenizer that isn't known. */
mnem_status mnem__pretokenizer_create(const char *name, mnem__pretokenizer **pretokenizer);
void mnem__pretokenizer_destroy(mnem__pretokenizer *pretokenizer);
/* Whole words that are tokens aren't joined from bytes, and text begins with BOS. */
bool mnem__pretokenizer_is_llama3(const char *name);
typedef mnem_status mnem__on_word(void *context, size_t begin, size_t end);
/* Cuts valid UTF-8 into words, which follow each other without gaps. */
mnem_status mnem__pretokenize(mnem__pretokenizer *pretokenizer, const char *text, size_t n,
                              mnem__on_word *on_word, void *context);

/* ---- utf8.c ---- */
/* Bytes of the character that text (n > 0) starts with, 0 if it isn't one. */
size_t mnem__utf8_length(const char *text, size_t n);
/* The first byte of text that is not part of a valid character; n if there is none. */
size_t mnem__utf8_invalid(const char *text, size_t n);
/* A copy of n bytes in which every byte that is no character is U+0001: in every pattern's classes
 * that is what U+FFFD would be (neither letter, digit, space nor punctuation), and it keeps the
 * offsets. */
void mnem__utf8_mask(const char *text, size_t n, char *out);

/* ---- chat_format.c ---- */
mnem_chat_format mnem__chat_recognise(mnem_text chat_template);

#endif
