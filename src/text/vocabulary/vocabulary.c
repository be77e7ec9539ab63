/* vocabulary.c: counts the words of texts, learns merges, and holds the result as a file's keys.
 *
 * The idea: what is kept are the values of GGUF keys as an opened model has them, so that a
 * tokenizer is made of them and a file is written from them by the code that serves models. Two
 * passes of one function make an array of texts: the first measures, the second writes.
 * Cost: reading and cutting into words takes nearly all the time of large texts. */
#include "mnem/tokenizer.h"

#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/progress.h"
#include "base/text/utf8.h"
#include "text/pretokenize.h"
#include "text/text_reader.h"
#include "text/tokenizer/tokenizer_private.h"
#include "text/vocabulary/bpe_learn.h"

enum {
    BYTES = 256,
    BYTES_MAX_DEFAULT = 256 << 20,
    BYTES_MAX_LEAST = 16 << 20,
    KEYS = 8,
    KEYS_WITHOUT_END = 6
};

struct mnem_vocabulary {
    mnem_vocabulary_info info;
    char pre[32], end[MNEM__SPECIAL_BYTES_MAX + 1];
    mnem__token_key keys[KEYS];
    uint32_t key_count;
    uint32_t *tokens, *merges; /* arrays of texts: count + 1 offsets, then bytes */
    int32_t *types;
};

/* ---- learning ---- */

typedef struct learning {
    const mnem_vocabulary_options *options;
    uint32_t wanted; /* merges */
    mnem__learn_memory memory;
    mnem__words words;
    mnem__pretokenizer *pretokenizer;
    char *buffer, *masked;
    const char *text; /* of the piece, as it came */
    uint64_t text_done, text_total;
    mnem__merge *merges;
    uint32_t merge_count;
} learning;

static bool progress(const learning *l, const char *what, uint64_t done, uint64_t total) {
    return mnem__progress_tell(&l->options->progress, what, done, total);
}

static mnem_status on_word(void *context, size_t begin, size_t end) {
    learning *l = context;
    return mnem__words_add(&l->words, l->text + begin, end - begin);
}

static mnem_status count_piece(learning *l, mnem_text piece) {
    l->text = piece.bytes;
    if (mnem__utf8_invalid(piece.bytes, piece.length) == piece.length)
        return mnem__pretokenize(l->pretokenizer, piece.bytes, piece.length, on_word, l);
    if (!l->masked) {
        void *block = NULL;
        MNEM__TRY(mnem__learn_resize(&l->memory, &block, 0, MNEM__TEXT_PIECE_BYTES, 1));
        l->masked = block;
    }
    mnem__utf8_mask(piece.bytes, piece.length, l->masked);
    return mnem__pretokenize(l->pretokenizer, l->masked, piece.length, on_word, l);
}

static mnem_status count_file(learning *l, const char *path) {
    mnem__text_reader reader;
    mnem_text piece = {NULL, 0};
    mnem_status status = mnem__text_open(&reader, path, MNEM__TEXT_PIECE_BYTES);
    if (status != MNEM_OK) return status;
    do {
        status = mnem__text_next(&reader, l->buffer, &piece);
        if (status == MNEM_OK) status = count_piece(l, piece);
        l->text_done += piece.length;
        if (status == MNEM_OK && !progress(l, "counting words", l->text_done, l->text_total))
            status = mnem__fail(MNEM_CANCELLED, "vocabulary: stopped by the caller");
    } while (status == MNEM_OK && piece.length > 0);
    mnem__text_close(&reader);
    return status;
}

/* What is missing is found before anything is read. */
static mnem_status look_at(learning *l, const char *const *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        mnem__text_stamp stamp;
        MNEM__TRY(mnem__text_stamp_get(files[i], &stamp));
        l->text_total += stamp.bytes;
    }
    if (l->text_total > 0) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "vocabulary: %zu file%s given, with 0 bytes of text; give files with text",
                      count, count == 1 ? "" : "s");
}

static mnem_status count_words(learning *l, const char *const *files, size_t count) {
    void *buffer = NULL;
    mnem_status status = look_at(l, files, count);
    if (status == MNEM_OK)
        status = mnem__learn_resize(&l->memory, &buffer, 0, MNEM__TEXT_PIECE_BYTES, 1);
    l->buffer = buffer;
    if (status == MNEM_OK) status = mnem__words_init(&l->words, &l->memory);
    for (size_t i = 0; i < count && status == MNEM_OK; i++) status = count_file(l, files[i]);
    return status;
}

/* What only reading needs. */
static void reading_end(learning *l) {
    void *blocks[] = {l->buffer, l->masked};
    for (int i = 0; i < 2; i++)
        mnem__learn_resize(&l->memory, &blocks[i], blocks[i] ? MNEM__TEXT_PIECE_BYTES : 0, 0, 1);
    l->buffer = l->masked = NULL;
    mnem__words_seal(&l->words);
}

static mnem_status learn_merges(learning *l) {
    void *merges = NULL;
    const mnem_status status =
        mnem__learn_resize(&l->memory, &merges, 0, l->wanted, sizeof *l->merges);
    l->merges = merges;
    if (status != MNEM_OK) return status;
    return mnem__bpe_learn(&l->words, l->wanted, l->merges, &l->merge_count, &l->options->progress);
}

static void learning_fini(learning *l) {
    mnem__pretokenizer_destroy(l->pretokenizer);
    mnem__words_fini(&l->words);
    mnem__free(l->buffer);
    mnem__free(l->masked);
    mnem__free(l->merges);
}

/* ---- the result ---- */

/* Bytes of token id before they are spelled. */
static mnem_text token_bytes(const learning *l, uint32_t id, char *byte) {
    *byte = (char)id;
    if (id < BYTES) return (mnem_text){byte, 1};
    const mnem__merge *m = &l->merges[id - BYTES];
    return (mnem_text){l->words.text + m->at, m->length};
}

/* Bytes of a text when it is spelled; out NULL only measures. */
static uint64_t spell(mnem_text bytes, char *out) {
    char one[2];
    if (out) return mnem__bpe_spell(bytes.bytes, bytes.length, out);
    uint64_t n = 0;
    for (size_t i = 0; i < bytes.length; i++) n += mnem__bpe_spell(bytes.bytes + i, 1, one);
    return n;
}

/* Writes text number i to out, or measures it. */
typedef uint64_t text_writer(const mnem_vocabulary *v, const learning *l, uint32_t i, char *out);

static uint64_t write_token(const mnem_vocabulary *v, const learning *l, uint32_t i, char *out) {
    char byte;
    if ((int32_t)i != v->info.end) return spell(token_bytes(l, i, &byte), out);
    const size_t n = strlen(v->end);
    if (out) memcpy(out, v->end, n);
    return n;
}

static uint64_t write_merge(const mnem_vocabulary *v, const learning *l, uint32_t i, char *out) {
    (void)v;
    char byte;
    uint64_t n = spell(token_bytes(l, (uint32_t)l->merges[i].left, &byte), out);
    if (out) out[n] = ' ';
    n++;
    return n + spell(token_bytes(l, (uint32_t)l->merges[i].right, &byte), out ? out + n : NULL);
}

static mnem_status make_texts(const mnem_vocabulary *v, const learning *l, uint32_t count,
                              text_writer *write, uint32_t **array) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += write(v, l, i, NULL);
    if (bytes > UINT32_MAX)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "vocabulary: the tokens or merges have %llu bytes together, expected at most %u",
            (unsigned long long)bytes, UINT32_MAX);
    uint32_t *offset = mnem__alloc(MNEM__LEARN_TAG, (count + UINT64_C(1)) * 4 + bytes);
    if (!offset) return mnem__heap_status();
    char *text = (char *)(offset + count + 1);
    offset[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        offset[i + 1] = offset[i] + (uint32_t)write(v, l, i, text + offset[i]);
    *array = offset;
    return MNEM_OK;
}

static mnem_status make_types(mnem_vocabulary *v) {
    v->types = mnem__alloc(MNEM__LEARN_TAG, (size_t)v->info.tokens * sizeof *v->types);
    if (!v->types) return mnem__heap_status();
    for (int32_t i = 0; i < v->info.tokens; i++)
        v->types[i] = i == v->info.end ? MNEM__TOKEN_CONTROL : MNEM__TOKEN_NORMAL;
    return MNEM_OK;
}

static mnem_value array_value(mnem_value_type element, int32_t count, const void *elements) {
    return (mnem_value){.type = MNEM_VALUE_ARRAY,
                        .element = element,
                        .count = (uint64_t)count,
                        .elements = elements};
}

static mnem_value text_value(const char *text) {
    return (mnem_value){.type = MNEM_VALUE_STRING, .count = 1, .text = {text, strlen(text)}};
}

static mnem_value number_value(mnem_value_type type, int64_t number) {
    return (mnem_value){.type = type, .count = 1, .i = number};
}

static void make_keys(mnem_vocabulary *v) {
    const mnem_vocabulary_info *info = &v->info;
    const mnem__token_key keys[KEYS] = {
        {"tokenizer.ggml.model", text_value("gpt2")},
        {"tokenizer.ggml.pre", text_value(v->pre)},
        {"tokenizer.ggml.tokens", array_value(MNEM_VALUE_STRING, info->tokens, v->tokens)},
        {"tokenizer.ggml.token_type", array_value(MNEM_VALUE_I32, info->tokens, v->types)},
        {"tokenizer.ggml.merges", array_value(MNEM_VALUE_STRING, info->merges, v->merges)},
        {"tokenizer.ggml.add_bos_token", number_value(MNEM_VALUE_BOOL, false)},
        {"tokenizer.ggml.bos_token_id", number_value(MNEM_VALUE_U32, info->end)},
        {"tokenizer.ggml.eos_token_id", number_value(MNEM_VALUE_U32, info->end)},
    };
    memcpy(v->keys, keys, sizeof keys);
    v->key_count = info->end >= 0 ? KEYS : KEYS_WITHOUT_END;
}

static mnem_status make_vocabulary(mnem_vocabulary *v, const learning *l) {
    const bool end = l->options->tokens > BYTES;
    v->info = (mnem_vocabulary_info){.merges = (int32_t)l->merge_count,
                                     .end = end ? BYTES + (int32_t)l->merge_count : -1,
                                     .tokens = BYTES + (int32_t)l->merge_count + end,
                                     .text_bytes = l->text_done,
                                     .words = l->words.total,
                                     .words_dropped = l->words.dropped,
                                     .distinct = l->words.count,
                                     .bytes_peak = l->memory.peak};
    mnem_status status = make_texts(v, l, (uint32_t)v->info.tokens, write_token, &v->tokens);
    if (status == MNEM_OK)
        status = make_texts(v, l, (uint32_t)v->info.merges, write_merge, &v->merges);
    if (status == MNEM_OK) status = make_types(v);
    if (status == MNEM_OK) make_keys(v);
    return status;
}

/* ---- options ---- */

static mnem_status check_options(const mnem_vocabulary_options *o, mnem_vocabulary *v) {
    const char *end = o->end ? o->end : "<|endoftext|>", *pre = o->pre ? o->pre : "gpt-2";
    if (o->tokens < BYTES || o->tokens > MNEM_VOCABULARY_TOKENS_MAX)
        return mnem__fail(MNEM_INVALID, "vocabulary: the number of tokens is %d, expected %d to %d",
                          o->tokens, BYTES, MNEM_VOCABULARY_TOKENS_MAX);
    if (strlen(end) == 0 || strlen(end) > MNEM__SPECIAL_BYTES_MAX)
        return mnem__fail(MNEM_INVALID, "vocabulary: the end token has %zu bytes, expected 1 to %d",
                          strlen(end), MNEM__SPECIAL_BYTES_MAX);
    if (strlen(pre) >= sizeof v->pre)
        return mnem__fail(MNEM_UNSUPPORTED, "pre-tokenizer '%.64s' is not supported", pre);
    if (o->bytes_max && o->bytes_max < BYTES_MAX_LEAST)
        return mnem__fail(MNEM_INVALID, "vocabulary: bytes_max is %llu, expected at least %d",
                          (unsigned long long)o->bytes_max, BYTES_MAX_LEAST);
    strcpy(v->pre, pre);
    strcpy(v->end, end);
    return MNEM_OK;
}

static mnem_status learn(learning *l, const char *const *files, size_t count, mnem_vocabulary *v) {
    const mnem_vocabulary_options *o = l->options;
    mnem_status status = check_options(o, v);
    const mnem__pre_scheme *scheme = mnem__pre_scheme_find(v->pre);
    if (status == MNEM_OK && (!scheme || scheme->marked))
        status = mnem__fail(MNEM_UNSUPPORTED, "pre-tokenizer '%s' is not supported", v->pre);
    if (status == MNEM_OK) status = mnem__pretokenizer_create(scheme, &l->pretokenizer);
    if (status != MNEM_OK) return status;
    l->memory.max = o->bytes_max ? o->bytes_max : BYTES_MAX_DEFAULT;
    l->wanted = o->tokens > BYTES + 1 ? (uint32_t)o->tokens - BYTES - 1 : 0;
    if (l->wanted > 0) {
        status = count_words(l, files, count);
        reading_end(l);
        if (status == MNEM_OK) status = learn_merges(l);
    }
    return status == MNEM_OK ? make_vocabulary(v, l) : status;
}

mnem_status mnem_vocabulary_learn(const mnem_vocabulary_options *options, const char *const *files,
                                  size_t count, mnem_vocabulary **vocabulary) {
    learning l = {.options = options};
    *vocabulary = NULL;
    mnem_vocabulary *v = mnem__calloc(MNEM__LEARN_TAG, 1, sizeof *v);
    if (!v) return mnem__heap_status();
    const mnem_status status = learn(&l, files, count, v);
    learning_fini(&l);
    if (status != MNEM_OK) {
        mnem_vocabulary_destroy(v);
        return status;
    }
    *vocabulary = v;
    return MNEM_OK;
}

void mnem_vocabulary_destroy(mnem_vocabulary *v) {
    if (!v) return;
    mnem__free(v->tokens);
    mnem__free(v->merges);
    mnem__free(v->types);
    mnem__free(v);
}

void mnem_vocabulary_info_get(const mnem_vocabulary *vocabulary, mnem_vocabulary_info *info) {
    *info = vocabulary->info;
}

bool mnem_vocabulary_key_get(const mnem_vocabulary *v, uint32_t index, const char **name,
                             mnem_value *value) {
    if (index >= v->key_count) return false;
    *name = v->keys[index].name;
    *value = v->keys[index].value;
    return true;
}

mnem_status mnem_tokenizer_create_from(const mnem_vocabulary *v, mnem_tokenizer **tokenizer) {
    const mnem__token_source source = {.keys = v->keys, .key_count = v->key_count};
    return mnem__tokenizer_create_of(&source, tokenizer);
}
