/* tokenizer_case.c: see tokenizer_case.h. */
#include "text/tokenizer/tokenizer_case.h"

#include <stdio.h>

#include "kit/kit.h"

opened open_file(const char *path) {
    opened o = {0};
    assert_int_equal(mnem_model_open(path, &o.model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(o.model, &o.t), MNEM_OK);
    return o;
}

opened open_vocab(vocab_file *f) {
    opened o = {0};
    assert_int_equal(vocab_open(f, &o.model), MNEM_OK);
    const mnem_status status = mnem_tokenizer_create(o.model, &o.t);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    return o;
}

void close_opened(opened *o) {
    mnem_tokenizer_destroy(o->t);
    mnem_model_close(o->model);
}

void assert_ids(mnem_tokenizer *t, const char *text, size_t length, unsigned flags,
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

vocab_file bpe_vocab(const char *pre) {
    return bpe_vocab_of(pre, bpe_extra, bpe_merges, 3);
}

static const char *const spm_extra[] = {"a", "ab", "b", MARK, MARK "a", MARK MARK};
static const float spm_scores[] = {-5, -2, -6, -4, -1, -3};

vocab_file spm_vocab(bool bytes) {
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

vocab_file marked_vocab(void) {
    static char byte_texts[256][7];
    const char *texts[MARKED_FEEDS + 1] = {"<pad>", "<eos>", "<bos>"};
    int32_t types[MARKED_FEEDS + 1] = {3, 3, 3};
    const char *const words[] = {"a", "b", MARK, MARK "a", "b" MARK "a", "\n\n"};
    const char *const merges[] = {"b " MARK "a", MARK " a"};
    vocab_file f = {0};
    for (int i = 0; i < 256; i++) {
        snprintf(byte_texts[i], 7, "<0x%02X>", (unsigned)i);
        texts[MARKED_BYTES + i] = byte_texts[i];
        types[MARKED_BYTES + i] = 6;
    }
    for (int i = 0; i < 6; i++) {
        texts[MARKED_A + i] = words[i];
        types[MARKED_A + i] = 1;
    }
    vocab_key_text(&f, "tokenizer.ggml.model", "gemma4");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, MARKED_FEEDS + 1);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, MARKED_FEEDS + 1);
    vocab_key_texts(&f, "tokenizer.ggml.merges", merges, 2);
    vocab_key_u32(&f, "tokenizer.ggml.bos_token_id", 2);
    vocab_key_bool(&f, "tokenizer.ggml.add_bos_token", false); /* wrong in files */
    return f;
}

vocab_file unigram_vocab(bool bytes) {
    static char byte_texts[256][7];
    const char *texts[UNI_BYTES + 256] = {"<pad>", "</s>", "<unk>", MARK,      "a",
                                          "ab",    "bc",   "c",     "\u2581a", "<u>"};
    int32_t types[UNI_BYTES + 256] = {3, 3, 2, 1, 1, 1, 1, 1, 1, 4};
    float scores[UNI_BYTES + 256] = {0, 0, 0, -2, -3, -4, -4.5f, -3, -3.5f, -9};
    const uint64_t n = UNI_BYTES + (bytes ? 256 : 0);
    vocab_file f = {0};
    for (int i = 0; i < 256; i++) {
        snprintf(byte_texts[i], 7, "<0x%02X>", (unsigned)i);
        texts[UNI_BYTES + i] = byte_texts[i];
        types[UNI_BYTES + i] = 6;
    }
    vocab_key_text(&f, "tokenizer.ggml.model", "t5");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, n);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, n);
    vocab_key_numbers(&f, "tokenizer.ggml.scores", MNEM_VALUE_F32, scores, n);
    vocab_key_bool(&f, "tokenizer.ggml.add_space_prefix", true);
    vocab_key_bool(&f, "tokenizer.ggml.remove_extra_whitespaces", true);
    return f;
}

vocab_file wordpiece_vocab(void) {
    static char unused[100][12];
    const char *texts[WP_IDEOGRAPH + 1];
    int32_t types[WP_IDEOGRAPH + 1];
    const char *const words[] = {"[UNK]", "[CLS]",  "[SEP]",  MARK "he",          MARK "hello",
                                 "llo",   MARK ".", MARK "e", MARK "\xE4\xBD\xA0"};
    vocab_file f = {0};
    for (int i = 0; i <= WP_IDEOGRAPH; i++) {
        if (i < WP_UNK) snprintf(unused[i], 12, "[unused%d]", i);
        texts[i] = i < WP_UNK ? unused[i] : words[i - WP_UNK];
        types[i] = i >= WP_UNK && i <= WP_SEP ? 3 : 1;
    }
    vocab_key_text(&f, "tokenizer.ggml.model", "bert");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, WP_IDEOGRAPH + 1);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, WP_IDEOGRAPH + 1);
    return f;
}
