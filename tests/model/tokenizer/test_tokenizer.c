/* test_tokenizer.c: ids, pieces and special tokens: the references, small vocabularies made here,
 * and files that lie. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "model/tokenizer/tokenizer_private.h"
#include "model/tokenizer/vocab_file.h"

#define FIXTURE MNEM_TEST_DATA "/model/kjv-5m-f16.gguf"

/* ---- opening ---- */

typedef struct opened {
    mnem_model *model;
    mnem_tokenizer *t;
} opened;

static opened open_file(const char *path) {
    opened o = {0};
    assert_int_equal(mnem_model_open(path, &o.model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(o.model, &o.t), MNEM_OK);
    return o;
}

static opened open_vocab(vocab_file *f) {
    opened o = {0};
    assert_int_equal(vocab_open(f, &o.model), MNEM_OK);
    const mnem_status status = mnem_tokenizer_create(o.model, &o.t);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    return o;
}

static void close_opened(opened *o) {
    mnem_tokenizer_destroy(o->t);
    mnem_model_close(o->model);
}

static void assert_ids(mnem_tokenizer *t, const char *text, size_t length, unsigned flags,
                       const int32_t *expected, size_t n) {
    const int32_t *ids;
    size_t count;
    assert_int_equal(mnem_tokenizer_encode(t, text, length, flags, &ids, &count), MNEM_OK);
    if (count != n || memcmp(ids, expected, n * sizeof *ids) != 0) {
        print_message("text: %s\nids: ", text);
        for (size_t i = 0; i < count; i++) print_message(" %d", ids[i]);
        print_message("\n");
    }
    assert_int_equal(count, n);
    assert_memory_equal(ids, expected, n * sizeof *ids);
}

#define ASSERT_IDS(t, text, flags, ...)                                                            \
    assert_ids(t, text, strlen(text), flags, (const int32_t[]){__VA_ARGS__},                       \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* The bytes of all pieces of text's ids. */
static size_t join_pieces(mnem_tokenizer *t, const char *text, size_t n, char *out) {
    const int32_t *ids;
    size_t count, bytes = 0;
    assert_int_equal(mnem_tokenizer_encode(t, text, n, MNEM_ENCODE_NO_SPECIAL, &ids, &count),
                     MNEM_OK);
    for (size_t i = 0; i < count; i++) {
        const mnem_text piece = mnem_tokenizer_piece(t, ids[i], true);
        memcpy(out + bytes, piece.bytes, piece.length);
        bytes += piece.length;
    }
    return bytes;
}

/* ---- references ---- */

static void check_reference(const char *model, const char *references) {
    if (access(model, R_OK) != 0) {
        print_message("skipped: %s is not here\n", model);
        skip();
    }
    opened o = open_file(model);
    FILE *file = fopen(references, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t room = 0, lines = 0;
    while (getline(&line, &room, file) > 0) {
        json_t *entry = json_loads(line, 0, NULL);
        json_t *ids = json_object_get(entry, "ids"), *text = json_object_get(entry, "text");
        assert_true(json_array_size(ids) <= 1024);
        int32_t expected[1024];
        for (size_t i = 0; i < json_array_size(ids); i++)
            expected[i] = (int32_t)json_integer_value(json_array_get(ids, i));
        assert_ids(o.t, json_string_value(text), json_string_length(text), 0, expected,
                   json_array_size(ids));
        json_decref(entry);
        lines++;
    }
    assert_int_equal(lines, 40);
    free(line);
    fclose(file);
    close_opened(&o);
}

static void fixture_ids_equal_the_reference(void **state) {
    (void)state;
    check_reference(FIXTURE, MNEM_TEST_DATA "/model/ids.jsonl");
}

#define VOCAB(name) MNEM_SHARED_DATA "/tokenizers/ggml-vocab-" name ".gguf"
#define IDS(name)   MNEM_TEST_DATA "/tokenizers/" name ".ids.jsonl"

static void gpt_2_ids_equal_the_reference(void **state) {
    (void)state;
    check_reference(VOCAB("gpt-2"), IDS("gpt-2"));
}

static void llama_bpe_ids_equal_the_reference(void **state) {
    (void)state;
    check_reference(VOCAB("llama-bpe"), IDS("llama-bpe"));
}

static void llama_spm_ids_equal_the_reference(void **state) {
    (void)state;
    check_reference(VOCAB("llama-spm"), IDS("llama-spm"));
}

static void qwen2_ids_equal_the_reference(void **state) {
    (void)state;
    check_reference(VOCAB("qwen2"), IDS("qwen2"));
}

/* ---- byte-level BPE on small vocabularies ---- */

enum { BOS = 256, AB, ABC, BC, CHAT, CHATTER, USER, UNK, EXTRA };
static const char *const bpe_extra[] = {"<bos>",     "ab",       "abc",   "bc", "<|a|>",
                                        "<|a|>more", "\xC3\xA9", "<unk>", NULL};
static const char *const bpe_merges[] = {"b c", "a b", "ab c"};
static const int32_t extra_types[] = {3, 1, 1, 1, 3, 3, 4, 2};

static vocab_file bpe_vocab_of(const char *pre, const char *const *extra, const char *const *merges,
                               size_t merge_count) {
    vocab_file f = {0};
    const char *texts[VOCAB_MAX];
    int32_t types[VOCAB_MAX];
    const size_t n = vocab_byte_texts(extra, texts);
    for (size_t i = 0; i < n; i++) types[i] = i < VOCAB_BYTES ? 1 : extra_types[i - VOCAB_BYTES];
    vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
    if (pre) vocab_key_text(&f, "tokenizer.ggml.pre", pre);
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, n);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, n);
    vocab_key_texts(&f, "tokenizer.ggml.merges", merges, merge_count);
    return f;
}

static vocab_file bpe_vocab(const char *pre) {
    return bpe_vocab_of(pre, bpe_extra, bpe_merges, 3);
}

static void merges_go_by_rank(void **state) {
    (void)state;
    vocab_file f = bpe_vocab("gpt-2");
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "abc", 0, 'a', BC);
    ASSERT_IDS(o.t, "ab", 0, AB);
    ASSERT_IDS(o.t, "abab bc", 0, AB, AB, ' ', BC);
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(o.t, &info);
    assert_int_equal(info.merges, 3);
    assert_false(info.add_bos);
    assert_string_equal(info.pre, "gpt-2");
    close_opened(&o);
}

static void llama_bpe_takes_whole_words_and_begins_with_bos(void **state) {
    (void)state;
    const char *const names[] = {"llama-bpe", "llama3", "llama-v3"};
    for (int i = 0; i < 3; i++) {
        vocab_file f = bpe_vocab(names[i]);
        vocab_key_u32(&f, "tokenizer.ggml.bos_token_id", BOS);
        opened o = open_vocab(&f);
        ASSERT_IDS(o.t, "abc", 0, BOS, ABC);
        ASSERT_IDS(o.t, "abc", MNEM_ENCODE_NO_SPECIAL, ABC);
        ASSERT_IDS(o.t, "abca", 0, BOS, 'a', BC, 'a');
        close_opened(&o);
    }
}

static void the_longest_special_token_counts(void **state) {
    (void)state;
    vocab_file f = bpe_vocab("gpt-2");
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "<|a|>more", 0, CHATTER);
    ASSERT_IDS(o.t, "<|a|>mor", 0, CHAT, 'm', 'o', 'r');
    ASSERT_IDS(o.t, "<<|a|><bos><|a|", 0, '<', CHAT, BOS, '<', '|', 'a', '|');
    ASSERT_IDS(o.t, "<|a|>", MNEM_ENCODE_PLAIN, '<', '|', 'a', '|', '>');
    ASSERT_IDS(o.t, "\xC3\xA9", 0, USER);
    ASSERT_IDS(o.t, "<unk>", 0, UNK);
    ASSERT_IDS(o.t, "<unk>", MNEM_ENCODE_PLAIN, '<', 'u', 'n', 'k', '>');
    close_opened(&o);
}

static void pieces_are_bytes_and_hide_control_tokens(void **state) {
    (void)state;
    vocab_file f = bpe_vocab("gpt-2");
    opened o = open_vocab(&f);
    for (int32_t id = 0; id < VOCAB_BYTES; id++) {
        const mnem_text piece = mnem_tokenizer_piece(o.t, id, false);
        assert_int_equal(piece.length, 1);
        assert_int_equal((unsigned char)piece.bytes[0], id);
    }
    assert_int_equal(mnem_tokenizer_piece(o.t, CHAT, false).length, 0);
    assert_int_equal(mnem_tokenizer_piece(o.t, CHAT, true).length, 5);
    assert_int_equal(mnem_tokenizer_piece(o.t, UNK, false).length, 0);
    assert_memory_equal(mnem_tokenizer_piece(o.t, USER, false).bytes, "\xC3\xA9", 2);
    assert_int_equal(mnem_tokenizer_piece(o.t, -1, true).length, 0);
    assert_int_equal(mnem_tokenizer_piece(o.t, EXTRA, true).length, 0);
    assert_int_equal(mnem_tokenizer_piece(o.t, INT32_MIN, true).length, 0);
    close_opened(&o);
}

static void any_bytes_come_back(void **state) {
    (void)state;
    opened o = open_file(FIXTURE);
    uint32_t seed = 7;
    char text[512], back[1024];
    for (int round = 0; round < 500; round++) {
        size_t n = 0;
        const size_t length = (size_t)(round % 64) * 4;
        while (n < length) {
            seed = seed * 1664525 + 1013904223;
            const unsigned r = seed >> 24;
            text[n++] = round % 2 ? (char)r : "aA 1\xC3\xA9\n'"[r % 8];
        }
        assert_int_equal(join_pieces(o.t, text, n, back), n);
        assert_memory_equal(text, back, n);
    }
    close_opened(&o);
}

/* The same by the definition: again and again the pair of lowest rank, the leftmost of equals. */
static size_t encode_plainly(const mnem_tokenizer *t, const char *text, size_t n, int32_t *ids) {
    size_t begin[64], count = n;
    for (size_t i = 0; i <= n; i++) begin[i] = i;
    for (;;) {
        uint64_t best = UINT64_MAX;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (uint64_t rank = 0; rank < t->bpe.merges.count && rank < best; rank++) {
                const mnem_text m = mnem_value_text(&t->bpe.merges, rank);
                const size_t left = begin[i + 1] - begin[i], right = begin[i + 2] - begin[i + 1];
                if (m.length != left + right + 1 || m.bytes[left] != ' ' ||
                    memcmp(m.bytes, text + begin[i], left) != 0 ||
                    memcmp(m.bytes + left + 1, text + begin[i + 1], right) != 0)
                    continue;
                best = rank;
                at = i;
            }
        if (best == UINT64_MAX) break;
        memmove(begin + at + 1, begin + at + 2, (count - at - 1) * sizeof *begin);
        count--;
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = mnem__token_vocab_find(&t->vocab, text + begin[i], begin[i + 1] - begin[i]);
    return count;
}

static void joining_equals_the_definition(void **state) {
    (void)state;
    uint32_t seed = 11;
    for (int round = 0; round < 40; round++) {
        char texts[40][24], merges[40][32];
        const char *extra[41] = {NULL}, *merge_list[40];
        int n = 0;
        for (int i = 0; i < 40; i++) { /* joins two earlier tokens of the letters a, b, c */
            char part[2][24];
            for (int p = 0; p < 2; p++) {
                seed = seed * 1664525 + 1013904223;
                const uint32_t r = (seed >> 16) % (uint32_t)(n + 3);
                if (r < 3)
                    snprintf(part[p], 24, "%c", (char)('a' + r));
                else
                    memcpy(part[p], texts[r - 3], 24);
            }
            if (strlen(part[0]) + strlen(part[1]) >= 24) continue;
            snprintf(texts[n], 24, "%.11s%.12s", part[0], part[1]);
            if (strlen(texts[n]) != strlen(part[0]) + strlen(part[1])) continue;
            snprintf(merges[n], 32, "%.14s %.14s", part[0], part[1]);
            extra[n] = texts[n];
            merge_list[n] = merges[n];
            n++;
        }
        vocab_file f = {0};
        const char *all[VOCAB_MAX];
        const size_t count = vocab_byte_texts(extra, all);
        vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
        vocab_key_text(&f, "tokenizer.ggml.pre", "gpt-2");
        vocab_key_texts(&f, "tokenizer.ggml.tokens", all, count);
        vocab_key_texts(&f, "tokenizer.ggml.merges", merge_list, (uint64_t)n);
        opened o = open_vocab(&f);
        for (int i = 0; i < 50; i++) {
            char text[61];
            const size_t length = 1 + (size_t)i;
            for (size_t c = 0; c < length; c++) {
                seed = seed * 1664525 + 1013904223;
                text[c] = (char)('a' + (seed >> 16) % 3);
            }
            text[length] = 0;
            int32_t expected[64];
            const size_t ids = encode_plainly(o.t, text, length, expected);
            assert_ids(o.t, text, length, 0, expected, ids);
        }
        close_opened(&o);
    }
}

/* ---- pre-tokenizers ---- */

typedef struct words {
    const char *text;
    char *out;
} words;

static mnem_status on_word(void *context, size_t begin, size_t end) {
    words *w = context;
    w->out += sprintf(w->out, "[%.*s]", (int)(end - begin), w->text + begin);
    return MNEM_OK;
}

static void assert_words(const char *name, const char *text, const char *expected) {
    mnem__pretokenizer *p;
    char out[1024] = "";
    words w = {text, out};
    assert_int_equal(mnem__pretokenizer_create(name, &p), MNEM_OK);
    assert_int_equal(mnem__pretokenize(p, text, strlen(text), on_word, &w), MNEM_OK);
    assert_string_equal(out, expected);
    mnem__pretokenizer_destroy(p);
}

static void patterns_cut_as_published(void **state) {
    (void)state;
    assert_words("gpt-2", "I'll  go 1234\n\nnow!?", "[I]['ll][ ][ go][ 1234][\n][\n][now][!?]");
    assert_words("llama-bpe", "I'LL  go 1234\n\nnow!?\n",
                 "[I]['LL][ ][ go][ ][123][4][\n\n][now][!?\n]");
    assert_words("qwen2", "it's 12 $x", "[it]['s][ ][1][2][ $][x]");
    assert_words("default", "a+b, 12345 = (x)", "[a][+][b][,][ ][123][45][ ][=][ ][(][x][)]");
    assert_words("gpt-2", "\xC2\x85\xC2\xA0\xE2\x80\x8Bx", "[\xC2\x85][\xC2\xA0][\xE2\x80\x8B][x]");
}

static void an_unknown_pre_tokenizer_is_refused_by_name(void **state) {
    (void)state;
    vocab_file f = bpe_vocab("tekken");
    mnem_model *model;
    mnem_tokenizer *t = NULL;
    assert_int_equal(vocab_open(&f, &model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(model, &t), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "tekken"));
    assert_null(t);
    mnem_model_close(model);
}

static void without_a_name_the_pre_tokenizer_is_default(void **state) {
    (void)state;
    vocab_file f = bpe_vocab(NULL);
    opened o = open_vocab(&f);
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(o.t, &info);
    assert_string_equal(info.pre, "default");
    close_opened(&o);
}

/* ---- SentencePiece-style ---- */

enum { SPM_BYTES = 3, SPM_A = SPM_BYTES + 256, SPM_AB, SPM_B, SPM_SPACE, SPM_SPACE_A, SPM_PAIR };
#define MARK "\xE2\x96\x81"
static const char *const spm_extra[] = {"a", "ab", "b", MARK, MARK "a", MARK MARK};
static const float spm_scores[] = {-5, -2, -6, -4, -1, -3};

static vocab_file spm_vocab(bool bytes) {
    static char byte_texts[256][7];
    const char *texts[SPM_BYTES + 256 + 6] = {"<unk>", "<s>", "</s>"};
    int32_t types[SPM_BYTES + 256 + 6] = {2, 3, 3};
    float scores[SPM_BYTES + 256 + 6] = {0};
    vocab_file f = {0};
    for (int i = 0; i < 256; i++) {
        snprintf(byte_texts[i], 7, bytes ? "<0x%02X>" : "<0y%02X>", (unsigned)i);
        texts[SPM_BYTES + i] = byte_texts[i];
        types[SPM_BYTES + i] = bytes ? 6 : 5;
        scores[SPM_BYTES + i] = -100;
    }
    for (int i = 0; i < 6; i++) {
        texts[SPM_A + i] = spm_extra[i];
        types[SPM_A + i] = 1;
        scores[SPM_A + i] = spm_scores[i];
    }
    vocab_key_text(&f, "tokenizer.ggml.model", "llama");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, SPM_BYTES + 256 + 6);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, SPM_BYTES + 256 + 6);
    vocab_key_numbers(&f, "tokenizer.ggml.scores", MNEM_VALUE_F32, scores, SPM_BYTES + 256 + 6);
    return f;
}

static void scores_decide_what_is_joined(void **state) {
    (void)state;
    vocab_file f = spm_vocab(true);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "ab", 0, 1, SPM_SPACE_A, SPM_B);
    ASSERT_IDS(o.t, "bab", 0, 1, SPM_SPACE, SPM_B, SPM_AB);
    ASSERT_IDS(o.t, "a   a", 0, 1, SPM_SPACE_A, SPM_PAIR, SPM_SPACE_A);
    ASSERT_IDS(o.t, "b</s>a", 0, 1, SPM_SPACE, SPM_B, 2, SPM_SPACE_A);
    ASSERT_IDS(o.t, "c\xFF", MNEM_ENCODE_NO_SPECIAL, SPM_SPACE, SPM_BYTES + 'c', SPM_BYTES + 0xFF);
    ASSERT_IDS(o.t, "<0x41>", MNEM_ENCODE_NO_SPECIAL, SPM_SPACE, SPM_BYTES + '<', SPM_BYTES + '0',
               SPM_BYTES + 'x', SPM_BYTES + '4', SPM_BYTES + '1', SPM_BYTES + '>');
    ASSERT_IDS(o.t, "", 0, 1);
    assert_memory_equal(mnem_tokenizer_piece(o.t, SPM_SPACE_A, false).bytes, " a", 2);
    assert_memory_equal(mnem_tokenizer_piece(o.t, SPM_BYTES + 0xFE, false).bytes, "\xFE", 1);
    assert_true(mnem_tokenizer_is_end(o.t, 2));
    close_opened(&o);
}

static void what_the_file_says_of_bos_and_prefix_holds(void **state) {
    (void)state;
    vocab_file f = spm_vocab(true);
    vocab_key_bool(&f, "tokenizer.ggml.add_bos_token", false);
    vocab_key_bool(&f, "tokenizer.ggml.add_eos_token", true);
    vocab_key_bool(&f, "tokenizer.ggml.add_space_prefix", false);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "ab", 0, SPM_AB, 2);
    ASSERT_IDS(o.t, "ab", MNEM_ENCODE_NO_SPECIAL, SPM_AB);
    close_opened(&o);
}

static void without_byte_tokens_bytes_are_unknown(void **state) {
    (void)state;
    vocab_file f = spm_vocab(false);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "axyb", MNEM_ENCODE_NO_SPECIAL, SPM_SPACE_A, 0, 0, SPM_B);
    close_opened(&o);
}

/* ---- ends ---- */

static void ends_are_known_by_key_and_by_text(void **state) {
    (void)state;
    const char *const extra[] = {"<|im_end|>", "</s>", "<|x|>", "<|y|>", "<|eot_id|>", NULL};
    const char *texts[VOCAB_MAX];
    const size_t n = vocab_byte_texts(extra, texts);
    int32_t types[VOCAB_MAX];
    for (size_t i = 0; i < n; i++) types[i] = i < VOCAB_BYTES || i == VOCAB_BYTES + 1 ? 1 : 3;
    vocab_file f = {0};
    vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
    vocab_key_text(&f, "tokenizer.ggml.pre", "qwen2");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, n);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, n);
    vocab_key_texts(&f, "tokenizer.ggml.merges", NULL, 0);
    vocab_key_u32(&f, "tokenizer.ggml.eos_token_id", VOCAB_BYTES + 2);
    opened o = open_vocab(&f);
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(o.t, &info);
    assert_int_equal(info.eos, VOCAB_BYTES + 2);
    assert_int_equal(info.eot, VOCAB_BYTES + 4);
    const bool expected[] = {true, true, true, false, true};
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(mnem_tokenizer_is_end(o.t, VOCAB_BYTES + i), expected[i]);
    assert_false(mnem_tokenizer_is_end(o.t, -1));
    /* A normal token with an end's text is parsed as one. */
    ASSERT_IDS(o.t, "]</s>", 0, ']', VOCAB_BYTES + 1);
    close_opened(&o);
}

/* ---- files that lie ---- */

typedef struct lie {
    const char *said; /* in the error's text */
    mnem_status status;
    void (*write)(vocab_file *f);
} lie;

static const char *const tiny[] = {"a", "b", "ab"};
static const char *const tiny_merges[] = {"a b"};

static void gpt2_with(vocab_file *f, const char *const *merges, uint64_t n) {
    vocab_key_text(f, "tokenizer.ggml.model", "gpt2");
    vocab_key_text(f, "tokenizer.ggml.pre", "gpt-2");
    vocab_key_texts(f, "tokenizer.ggml.tokens", tiny, 3);
    if (merges) vocab_key_texts(f, "tokenizer.ggml.merges", merges, n);
}

static void tiny_gpt2(vocab_file *f) {
    gpt2_with(f, tiny_merges, 1);
}

static void llama_with(vocab_file *f, const float *scores, uint64_t n) {
    vocab_key_text(f, "tokenizer.ggml.model", "llama");
    vocab_key_texts(f, "tokenizer.ggml.tokens", tiny, 3);
    if (scores) vocab_key_numbers(f, "tokenizer.ggml.scores", MNEM_VALUE_F32, scores, n);
}

static void no_model(vocab_file *f) {
    vocab_key_texts(f, "tokenizer.ggml.tokens", tiny, 3);
}
static void other_model(vocab_file *f) {
    vocab_key_text(f, "tokenizer.ggml.model", "bert");
}
static void no_tokens(vocab_file *f) {
    vocab_key_text(f, "tokenizer.ggml.model", "gpt2");
}
static void zero_tokens(vocab_file *f) {
    no_tokens(f);
    vocab_key_texts(f, "tokenizer.ggml.tokens", tiny, 0);
}
static void number_tokens(vocab_file *f) {
    no_tokens(f);
    vocab_key_numbers(f, "tokenizer.ggml.tokens", MNEM_VALUE_I32, (int32_t[]){1, 2}, 2);
}
static void text_tokens(vocab_file *f) {
    no_tokens(f);
    vocab_key_text(f, "tokenizer.ggml.tokens", "abc");
}
static void short_types(vocab_file *f) {
    tiny_gpt2(f);
    vocab_key_numbers(f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, (int32_t[]){1, 2}, 2);
}
static void float_types(vocab_file *f) {
    tiny_gpt2(f);
    vocab_key_numbers(f, "tokenizer.ggml.token_type", MNEM_VALUE_F32, (float[]){1, 2, 3}, 3);
}
static void no_merges(vocab_file *f) {
    gpt2_with(f, NULL, 0);
}
static void one_text_merge(vocab_file *f) {
    gpt2_with(f, (const char *const[]){"a b", "ab"}, 2);
}
static void half_merge(vocab_file *f) {
    gpt2_with(f, (const char *const[]){" b"}, 1);
}
static void bos_out_of_range(vocab_file *f) {
    tiny_gpt2(f);
    vocab_key_u32(f, "tokenizer.ggml.bos_token_id", 3);
}
static void eos_is_text(vocab_file *f) {
    tiny_gpt2(f);
    vocab_key_text(f, "tokenizer.ggml.eos_token_id", "2");
}
static void add_bos_is_number(vocab_file *f) {
    tiny_gpt2(f);
    vocab_key_u32(f, "tokenizer.ggml.add_bos_token", 1);
}
static void pre_is_number(vocab_file *f) {
    vocab_key_text(f, "tokenizer.ggml.model", "gpt2");
    vocab_key_u32(f, "tokenizer.ggml.pre", 1);
}
static void long_pre(vocab_file *f) {
    vocab_key_text(f, "tokenizer.ggml.model", "gpt2");
    vocab_key_text(f, "tokenizer.ggml.pre", "a name that is longer than any that is known here");
}
static void no_scores(vocab_file *f) {
    llama_with(f, NULL, 0);
}
static void short_scores(vocab_file *f) {
    llama_with(f, (float[]){1, 2}, 2);
}
static void nan_scores(vocab_file *f) {
    llama_with(f, (float[]){1, NAN, 2}, 3);
}
static void template_is_number(vocab_file *f) {
    tiny_gpt2(f);
    vocab_key_u32(f, "tokenizer.chat_template", 1);
}

static void a_file_that_lies_is_refused_by_the_field(void **state) {
    (void)state;
    static const lie lies[] = {
        {"tokenizer.ggml.model", MNEM_BAD_FILE, no_model},
        {"bert", MNEM_UNSUPPORTED, other_model},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, no_tokens},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, zero_tokens},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, number_tokens},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, text_tokens},
        {"token_type has 2 entries for 3", MNEM_BAD_FILE, short_types},
        {"tokenizer.ggml.token_type", MNEM_BAD_FILE, float_types},
        {"tokenizer.ggml.merges", MNEM_BAD_FILE, no_merges},
        {"tokenizer.ggml.merges[1]", MNEM_BAD_FILE, one_text_merge},
        {"tokenizer.ggml.merges[0]", MNEM_BAD_FILE, half_merge},
        {"tokenizer.ggml.bos_token_id is 3", MNEM_BAD_FILE, bos_out_of_range},
        {"tokenizer.ggml.eos_token_id", MNEM_BAD_FILE, eos_is_text},
        {"tokenizer.ggml.add_bos_token", MNEM_BAD_FILE, add_bos_is_number},
        {"tokenizer.ggml.pre", MNEM_BAD_FILE, pre_is_number},
        {"tokenizer.ggml.pre", MNEM_UNSUPPORTED, long_pre},
        {"tokenizer.ggml.scores", MNEM_BAD_FILE, no_scores},
        {"scores has 2 entries for 3", MNEM_BAD_FILE, short_scores},
        {"tokenizer.ggml.scores[1]", MNEM_BAD_FILE, nan_scores},
        {"tokenizer.chat_template", MNEM_BAD_FILE, template_is_number},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        vocab_file f = {0};
        mnem_model *model;
        mnem_tokenizer *t = NULL;
        lies[i].write(&f);
        assert_int_equal(vocab_open(&f, &model), MNEM_OK);
        assert_int_equal(mnem_tokenizer_create(model, &t), lies[i].status);
        if (!strstr(mnem_last_error(), lies[i].said)) print_message("%s\n", mnem_last_error());
        assert_non_null(strstr(mnem_last_error(), lies[i].said));
        assert_null(t);
        mnem_model_close(model);
    }
}

/* Duplicates, empty and unprintable tokens, parts that are no tokens, types out of range, an unused
 * padding token out of range: accepted, and no token is lost. */
static void odd_vocabularies_are_accepted(void **state) {
    (void)state;
    const char *const tokens[] = {"a", "", "a", "b", "ab", "ab", "\xFF", "b", "</s>", "</s>"};
    const int32_t types[] = {1, 1, 1, 1, 3, 1, 1, 77, 3, -4};
    const char *const merges[] = {"a b", "a b", "x y", "a x", "a ", "a b b"};
    vocab_file f = {0};
    vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", tokens, 10);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, 10);
    vocab_key_texts(&f, "tokenizer.ggml.merges", merges, 6);
    vocab_key_u32(&f, "tokenizer.ggml.padding_token_id", 99);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "abxba", MNEM_ENCODE_PLAIN, 5, 3, 0); /* no token for x, nor an unknown one */
    ASSERT_IDS(o.t, "ab", 0, 4);                          /* as a special token */
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(o.t, &info);
    assert_int_equal(info.merges, 1);
    assert_int_equal(info.pad, -1);
    close_opened(&o);
}

/* ---- bytes and time ---- */

static void create_and_encode_survive_every_failed_allocation(void **state) {
    (void)state;
    static char text[70000];
    memset(text, 'a', sizeof text);
    text[100] = '\xFF';
    for (int spm = 0; spm < 2; spm++) {
        vocab_file f = spm ? spm_vocab(true) : bpe_vocab("default");
        mnem_model *model;
        assert_int_equal(vocab_open(&f, &model), MNEM_OK);
        mnem_heap_usage before, after;
        mnem_heap_usage_get(&before);
        mnem_status status = MNEM_NO_MEMORY;
        uint64_t n = 0;
        while (status != MNEM_OK && n < 1000) {
            mnem_tokenizer *t = NULL;
            const int32_t *ids;
            size_t count;
            mnem__heap_fail_at(++n, false);
            status = mnem_tokenizer_create(model, &t);
            if (status == MNEM_OK)
                status = mnem_tokenizer_encode(t, text, sizeof text, 0, &ids, &count);
            mnem__heap_fail_at(0, false);
            if (status != MNEM_OK) assert_int_equal(status, MNEM_NO_MEMORY);
            if (t) { /* still usable */
                assert_int_equal(mnem_tokenizer_encode(t, "ab", 2, 0, &ids, &count), MNEM_OK);
                assert_true(count > 0);
            }
            mnem_tokenizer_destroy(t);
            mnem_heap_usage_get(&after);
            assert_int_equal(after.bytes_live, before.bytes_live);
        }
        assert_in_range(n, 10, 999);
        mnem_model_close(model);
    }
}

static void a_megabyte_of_one_thing_is_quick(void **state) {
    (void)state;
    const char *const units[] = {"a", " ", "\n", "\xFF", "\xE2", "7", "<|a|", "\xE4\xBD\xA0", "'s"};
    const size_t n = 1000000;
    char *text = malloc(n);
    assert_non_null(text);
    for (int v = 0; v < 3; v++) {
        vocab_file f = v == 0   ? bpe_vocab("default")
                       : v == 1 ? bpe_vocab("llama-bpe")
                                : spm_vocab(true);
        opened o = open_vocab(&f);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            for (size_t i = 0; i < n; i++) text[i] = units[u][i % strlen(units[u])];
            text[n - 1] = 'b';
            const int32_t *ids;
            size_t count;
            const clock_t start = clock();
            assert_int_equal(mnem_tokenizer_encode(o.t, text, n, 0, &ids, &count), MNEM_OK);
            const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > 2) print_message("unit %zu: %.2f s\n", u, seconds);
            assert_true(seconds < 20); /* quadratic would be minutes */
        }
        close_opened(&o);
    }
    free(text);
}

static void scratch_is_given_back(void **state) {
    (void)state;
    opened o = open_file(FIXTURE);
    const size_t n = 1000000;
    char *text = calloc(n, 1);
    assert_non_null(text);
    memset(text, 'a', n);
    mnem_heap_usage before, after;
    const int32_t *ids;
    size_t count;
    assert_int_equal(mnem_tokenizer_encode(o.t, "ab", 2, 0, &ids, &count), MNEM_OK);
    mnem_heap_usage_get(&before);
    assert_int_equal(mnem_tokenizer_encode(o.t, text, n, 0, &ids, &count), MNEM_OK);
    assert_int_equal(mnem_tokenizer_encode(o.t, "ab", 2, 0, &ids, &count), MNEM_OK);
    mnem_heap_usage_get(&after);
    assert_true(after.bytes_live <= before.bytes_live);
    free(text);
    close_opened(&o);
}

static void too_long_a_text_is_refused(void **state) {
    (void)state;
    opened o = open_file(FIXTURE);
    const int32_t *ids;
    size_t count;
    assert_int_equal(mnem_tokenizer_encode(o.t, "", ((size_t)1 << 30) + 1, 0, &ids, &count),
                     MNEM_INVALID);
    close_opened(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixture_ids_equal_the_reference),
        cmocka_unit_test(gpt_2_ids_equal_the_reference),
        cmocka_unit_test(llama_bpe_ids_equal_the_reference),
        cmocka_unit_test(llama_spm_ids_equal_the_reference),
        cmocka_unit_test(qwen2_ids_equal_the_reference),
        cmocka_unit_test(merges_go_by_rank),
        cmocka_unit_test(llama_bpe_takes_whole_words_and_begins_with_bos),
        cmocka_unit_test(the_longest_special_token_counts),
        cmocka_unit_test(pieces_are_bytes_and_hide_control_tokens),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(joining_equals_the_definition),
        cmocka_unit_test(patterns_cut_as_published),
        cmocka_unit_test(an_unknown_pre_tokenizer_is_refused_by_name),
        cmocka_unit_test(without_a_name_the_pre_tokenizer_is_default),
        cmocka_unit_test(scores_decide_what_is_joined),
        cmocka_unit_test(what_the_file_says_of_bos_and_prefix_holds),
        cmocka_unit_test(without_byte_tokens_bytes_are_unknown),
        cmocka_unit_test(ends_are_known_by_key_and_by_text),
        cmocka_unit_test(a_file_that_lies_is_refused_by_the_field),
        cmocka_unit_test(odd_vocabularies_are_accepted),
        cmocka_unit_test(create_and_encode_survive_every_failed_allocation),
        cmocka_unit_test(a_megabyte_of_one_thing_is_quick),
        cmocka_unit_test(scratch_is_given_back),
        cmocka_unit_test(too_long_a_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
