/* fuzz_tokenizer.c: arbitrary text on good vocabularies, and arbitrary vocabularies.
 *
 * The first byte chooses. Text must come back from its ids' pieces (SentencePiece: with the space
 * in front, and U+2581 as a space), whatever its bytes; every id must be of the vocabulary, and the
 * joiner must write valid UTF-8. A vocabulary is read from the input as lists of short texts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/utf8.h"
#include "text/tokenizer/vocab_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

/* ---- good vocabularies ---- */

enum { SPM, GEMMA, UNIGRAM, FILES, BPE = FILES + 4, BPE_MAX = 56, VOCABULARIES = BPE + BPE_MAX };
static mnem_model *models[VOCABULARIES];
static mnem_tokenizer *tokenizers[VOCABULARIES]; /* NULL: its file isn't here */

/* Tokens of marked text, with which model's keys: "llama", "gemma4", "t5". */
static void add_marked(vocab_file *f, const char *model) {
    static const char *const merges[] = {
        "t h", "\xE2\x96\x81 th", "h e", "\xE2\x96\x81th e", "i n", "\xE2\x96\x81 \xE2\x96\x81"};
    static const char *const extra[] = {"e",
                                        "a",
                                        "t",
                                        "h",
                                        "i",
                                        "n",
                                        "th",
                                        "he",
                                        "\xE2\x96\x81",
                                        "\xE2\x96\x81th",
                                        "\xE2\x96\x81the",
                                        "in",
                                        "\xE2\x96\x81\xE2\x96\x81",
                                        "\n",
                                        "\xC3\xA9",
                                        "ing"};
    enum { EXTRA = sizeof extra / sizeof *extra, ALL = 259 + EXTRA };
    static char bytes[256][7];
    const char *texts[ALL] = {"<unk>", "<s>", "</s>"};
    int32_t types[ALL] = {2, 3, 3};
    float scores[ALL] = {0};
    for (unsigned i = 0; i < 256; i++) {
        static const char digits[] = "0123456789ABCDEF";
        memcpy(bytes[i], "<0x00>", 7);
        bytes[i][3] = digits[i / 16];
        bytes[i][4] = digits[i % 16];
        texts[3 + i] = bytes[i];
        types[3 + i] = 6;
    }
    for (int i = 0; i < EXTRA; i++) {
        texts[259 + i] = extra[i];
        types[259 + i] = 1;
        scores[259 + i] = (float)(-i % 5);
    }
    vocab_key_text(f, "tokenizer.ggml.model", model);
    vocab_key_texts(f, "tokenizer.ggml.tokens", texts, ALL);
    vocab_key_numbers(f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, ALL);
    vocab_key_numbers(f, "tokenizer.ggml.scores", MNEM_VALUE_F32, scores, ALL);
    vocab_key_texts(f, "tokenizer.ggml.merges", merges, sizeof merges / sizeof *merges);
}

static void add_bpe(vocab_file *f, const char *pre) {
    static const char *const extra[] = {"th",   "the",       "in",         "aa",
                                        "aaaa", "\xC4\xA0t", "<|im_end|>", NULL};
    static const char *const merges[] = {"t h", "th e", "a a", "i n", "aa aa", "\xC4\xA0 t"};
    const char *texts[VOCAB_MAX];
    int32_t types[VOCAB_MAX];
    const size_t n = vocab_byte_texts(extra, texts);
    for (size_t i = 0; i < n; i++) types[i] = i == n - 1 ? 3 : 1;
    vocab_key_text(f, "tokenizer.ggml.model", "gpt2");
    vocab_key_text(f, "tokenizer.ggml.pre", pre);
    vocab_key_texts(f, "tokenizer.ggml.tokens", texts, n);
    vocab_key_numbers(f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, n);
    vocab_key_texts(f, "tokenizer.ggml.merges", merges, sizeof merges / sizeof *merges);
}

/* Makes *name the first name of row i of the pre-tokenizers; false past the last. */
static bool first_name(size_t i, char name[64]) {
    const char *names = mnem_tokenizer_pre_names(i);
    if (!names) return false;
    const size_t n = strcspn(names, " ");
    CHECK(n < 64);
    memcpy(name, names, n);
    name[n] = 0;
    return true;
}

static void open_vocabularies(void) {
    static const char *const marked[] = {"llama", "gemma4", "t5"};
    static const char *const files[] = {MNEM_SHARED_DATA "/tokenizers/ggml-vocab-gpt-2.gguf",
                                        MNEM_SHARED_DATA "/tokenizers/ggml-vocab-llama-bpe.gguf",
                                        MNEM_SHARED_DATA "/tokenizers/ggml-vocab-llama-spm.gguf",
                                        MNEM_SHARED_DATA "/tokenizers/ggml-vocab-qwen2.gguf"};
    vocab_file f = {0};
    char name[64];
    for (int i = 0; i < 3; i++) {
        add_marked(&f, marked[i]);
        CHECK(vocab_open(&f, &models[SPM + i]) == MNEM_OK);
    }
    for (int i = 0; i < 4; i++)
        if (access(files[i], R_OK) == 0)
            CHECK(mnem_model_open(files[i], &models[FILES + i]) == MNEM_OK);
    for (size_t i = 0; first_name(i, name); i++) {
        CHECK(i < BPE_MAX);
        if (strcmp(name, "gemma4") == 0) continue;
        add_bpe(&f, name);
        CHECK(vocab_open(&f, &models[BPE + i]) == MNEM_OK);
    }
    for (int i = 0; i < VOCABULARIES; i++)
        if (models[i]) CHECK(mnem_tokenizer_create(models[i], &tokenizers[i]) == MNEM_OK);
}

static void check_joiner(const char *bytes, size_t n, size_t step) {
    mnem_utf8_joiner joiner = {0};
    char *out = malloc(3 * (n + 8) + 64), *end = out;
    CHECK(out);
    for (size_t at = 0; at < n; at += step)
        end += mnem_utf8_join(&joiner, bytes + at, n - at < step ? n - at : step, end);
    end += mnem_utf8_join(&joiner, NULL, 0, end);
    const size_t length = (size_t)(end - out);
    CHECK(mnem__utf8_invalid(out, length) == length);
    if (mnem__utf8_invalid(bytes, n) == n) CHECK(length == n && memcmp(out, bytes, n) == 0);
    free(out);
}

static void check_text(mnem_tokenizer *t, const char *text, size_t n, unsigned flags) {
    const int32_t *ids;
    size_t count, bytes = 0;
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(t, &info);
    CHECK(mnem_tokenizer_encode(t, text, n, flags | MNEM_ENCODE_NO_SPECIAL, &ids, &count) ==
          MNEM_OK);
    const bool spm = strcmp(info.model, "gpt2") != 0, prefix = strcmp(info.model, "llama") == 0;
    char *expected = malloc(n + 1), *joined = malloc(n + count + 1);
    CHECK(expected && joined);
    size_t wanted = 0;
    if (prefix && n) expected[wanted++] = ' ';
    for (size_t i = 0; i < n; wanted++) {
        const bool mark = spm && n - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0;
        expected[wanted] = mark ? ' ' : text[i];
        i += mark ? 3 : 1;
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(ids[i] >= 0 && ids[i] < info.vocab);
        const mnem_text piece = mnem_tokenizer_piece(t, ids[i], true);
        if (spm && !(flags & MNEM_ENCODE_PLAIN)) continue; /* special tokens add spaces */
        CHECK(piece.length <= wanted - bytes);
        memcpy(joined + bytes, piece.bytes, piece.length);
        bytes += piece.length;
    }
    if (!spm || flags & MNEM_ENCODE_PLAIN)
        CHECK(bytes == wanted && memcmp(joined, expected, bytes) == 0);
    free(expected);
    free(joined);
}

/* ---- bad vocabularies ---- */

enum { TEXTS_MAX = 64 };

typedef struct reader {
    const uint8_t *at, *end;
} reader;

static uint8_t take(reader *r) {
    return r->at < r->end ? *r->at++ : 0;
}

/* A text of at most 15 bytes, now and then written many times. */
static mnem_text take_text(reader *r, char *storage) {
    const uint8_t head = take(r);
    const size_t left = (size_t)(r->end - r->at);
    const size_t n = (head & 15u) < left ? (head & 15u) : left;
    const size_t times = head & 16 ? 1u << (head >> 5) : 1;
    for (size_t i = 0; i < times; i++) memcpy(storage + i * n, r->at, n);
    r->at += n;
    return (mnem_text){storage, n * times};
}

static void key_texts(vocab_file *f, reader *r, const char *key, size_t count) {
    static char storage[TEXTS_MAX][15 * 128];
    mnem_text texts[TEXTS_MAX];
    for (size_t i = 0; i < count; i++) texts[i] = take_text(r, storage[i]);
    vocab_key_pieces(f, key, texts, count);
}

static void key_numbers(vocab_file *f, reader *r, const char *key, mnem_value_type type,
                        size_t count) {
    int32_t numbers[TEXTS_MAX];
    for (size_t i = 0; i < count; i++) {
        const uint8_t byte = take(r);
        const float score = byte == 255 ? 0.0f / (float)(byte == 0) : (float)(int8_t)byte;
        numbers[i] = (int8_t)byte;
        if (type == MNEM_VALUE_F32) memcpy(&numbers[i], &score, sizeof score);
    }
    vocab_key_numbers(f, key, type, numbers, count);
}

static void key_ids(vocab_file *f, reader *r) {
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.unknown_token_id"};
    const uint8_t which = take(r);
    for (int i = 0; i < 4; i++)
        if (which >> i & 1) vocab_key_u32(f, keys[i], take(r));
    if (which & 16) vocab_key_bool(f, "tokenizer.ggml.add_bos_token", which & 32);
    if (which & 64) vocab_key_bool(f, "tokenizer.ggml.add_space_prefix", which & 128);
}

static void key_charsmap(vocab_file *f, reader *r) {
    unsigned char map[4 + 4 * TEXTS_MAX + 8] = {0};
    const uint32_t bytes = 4u * (take(r) % TEXTS_MAX);
    memcpy(map, &bytes, 4);
    for (uint32_t i = 0; i < bytes; i++) map[4 + i] = take(r);
    memcpy(map + 4 + bytes, "ab\0 c\0", 7);
    vocab_key_bytes(f, "tokenizer.ggml.precompiled_charsmap", map, 4 + bytes + take(r) % 8);
}

static void write_vocabulary(vocab_file *f, reader *r) {
    static const char *const others[] = {"gemma4", "t5", "bert", "other"};
    const uint8_t shape = take(r);
    const size_t count = take(r) % TEXTS_MAX;
    char pre[64] = "other";
    const char *model = shape & 1 ? "gpt2" : "llama";
    vocab_key_text(f, "tokenizer.ggml.model", shape & 128 ? others[take(r) % 4] : model);
    if (shape & 2) {
        first_name(take(r) % 32, pre);
        vocab_key_text(f, "tokenizer.ggml.pre", pre);
    }
    key_texts(f, r, "tokenizer.ggml.tokens", count);
    if (shape & 4) key_numbers(f, r, "tokenizer.ggml.token_type", MNEM_VALUE_I32, count);
    if (shape & 8) key_numbers(f, r, "tokenizer.ggml.scores", MNEM_VALUE_F32, count);
    if (shape & 16) key_texts(f, r, "tokenizer.ggml.merges", take(r) % TEXTS_MAX);
    if (shape & 32) key_ids(f, r);
    if (shape & 64) vocab_key_text(f, "tokenizer.chat_template", "<|user|>{{ '<|assistant|>'");
    if (shape & 64) vocab_key_text(f, "general.name", "phi-3");
    if (shape & 128) {
        const uint8_t flags = take(r);
        if (flags & 1) key_charsmap(f, r);
        if (flags & 2) vocab_key_bool(f, "tokenizer.ggml.remove_extra_whitespaces", flags & 4);
        if (flags & 8) vocab_key_bool(f, "tokenizer.ggml.normalizer.lowercase", flags & 16);
    }
}

static void check_vocabulary(const uint8_t *data, size_t n) {
    vocab_file f = {0};
    reader r = {data, data + n};
    mnem_model *model;
    mnem_tokenizer *t;
    write_vocabulary(&f, &r);
    CHECK(vocab_open(&f, &model) == MNEM_OK);
    if (mnem_tokenizer_create(model, &t) == MNEM_OK) {
        const int32_t *ids;
        size_t count;
        mnem_tokenizer_info info;
        mnem_tokenizer_info_get(t, &info);
        for (unsigned flags = 0; flags < 4; flags++) {
            CHECK(mnem_tokenizer_encode(t, (const char *)r.at, (size_t)(r.end - r.at), flags, &ids,
                                        &count) == MNEM_OK);
            for (size_t i = 0; i < count; i++) CHECK(ids[i] >= 0 && ids[i] < info.vocab);
        }
        for (int32_t id = -1; id <= info.vocab; id++) {
            mnem_tokenizer_piece(t, id, true);
            mnem_tokenizer_is_end(t, id);
        }
        mnem_tokenizer_destroy(t);
    }
    mnem_model_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static bool opened;
    if (!opened) open_vocabularies();
    opened = true;
    if (n == 0) return 0;
    const uint8_t choice = data[0];
    if (choice >= 128) {
        check_vocabulary(data + 1, n - 1);
        return 0;
    }
    mnem_tokenizer *t = tokenizers[choice / 2 % VOCABULARIES];
    if (t) check_text(t, (const char *)data + 1, n - 1, choice % 2 ? MNEM_ENCODE_PLAIN : 0);
    check_joiner((const char *)data + 1, n - 1, 1 + choice % 5u);
    return 0;
}
