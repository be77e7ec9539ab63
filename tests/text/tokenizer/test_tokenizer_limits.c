/* test_tokenizer_limits.c: files that lie or name what isn't known, memory that runs out, long
 * texts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_growth.h"
#include "mnem/tokenizer.h"
#include "text/tokenizer/tokenizer_case.h"

/* ---- names ---- */

static void an_unknown_pre_tokenizer_is_refused_by_name(void **state) {
    (void)state;
    vocab_file f = bpe_vocab("sausage");
    mnem_model *model;
    mnem_tokenizer *t = NULL;
    assert_int_equal(vocab_open(&f, &model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(model, &t), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "sausage"));
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
    vocab_key_text(f, "tokenizer.ggml.model", "rwkv");
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
        {"rwkv", MNEM_UNSUPPORTED, other_model},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, no_tokens},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, zero_tokens},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, number_tokens},
        {"tokenizer.ggml.tokens", MNEM_BAD_FILE, text_tokens},
        {"token_type has 2 entries, expected 3", MNEM_BAD_FILE, short_types},
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
        {"scores has 2 entries, expected 3", MNEM_BAD_FILE, short_scores},
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

enum { VOCABS = 8 };

/* One for each way to make ids. */
static vocab_file vocab_of(int kind) {
    switch (kind) {
    case 0: return bpe_vocab("default");
    case 1: return bpe_vocab("llama-bpe");
    case 2: return bpe_vocab("gpt-4o");
    case 3: return bpe_vocab("deepseek-llm");
    case 4: return spm_vocab(true);
    case 5: return marked_vocab();
    case 6: return unigram_vocab(true);
    default: return wordpiece_vocab();
    }
}

static void create_and_encode_survive_every_failed_allocation(void **state) {
    (void)state;
    static char text[70000];
    memset(text, 'a', sizeof text);
    text[100] = '\xFF';
    for (int kind = 0; kind < VOCABS; kind++) {
        vocab_file f = vocab_of(kind);
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
        assert_in_range(n, 8, 999);
        mnem_model_close(model);
    }
}

typedef struct repeated {
    mnem_tokenizer *tokenizer;
    const char *unit;
    char *text;
} repeated;

static void encode_repeated(void *context, size_t n) {
    const repeated *r = context;
    const size_t length = strlen(r->unit);
    const int32_t *ids;
    size_t count;
    for (size_t i = 0; i < n; i++) r->text[i] = r->unit[i % length];
    r->text[n - 1] = 'b';
    assert_int_equal(mnem_tokenizer_encode(r->tokenizer, r->text, n, 0, &ids, &count), MNEM_OK);
}

static void the_work_for_a_text_of_one_thing_grows_as_its_length(void **state) {
    (void)state;
    enum { SMALL = 4000, LARGE = 16 * SMALL };
    const char *const units[] = {"a", " ", "\n", "\xFF", "\xE2", "7", "<|a|", "\xE4\xBD\xA0", "'s"};
    repeated r = {.text = malloc(LARGE)};
    assert_non_null(r.text);
    for (int kind = 0; kind < VOCABS; kind++) {
        vocab_file f = vocab_of(kind);
        opened o = open_vocab(&f);
        r.tokenizer = o.t;
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            r.unit = units[u];
            const double times = assert_grows_in_proportion(encode_repeated, &r, SMALL, LARGE);
            if (times > 24) print_message("vocabulary %d, unit %zu: %.1f\n", kind, u, times);
        }
        close_opened(&o);
    }
    free(r.text);
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
        cmocka_unit_test(an_unknown_pre_tokenizer_is_refused_by_name),
        cmocka_unit_test(without_a_name_the_pre_tokenizer_is_default),
        cmocka_unit_test(a_file_that_lies_is_refused_by_the_field),
        cmocka_unit_test(odd_vocabularies_are_accepted),
        cmocka_unit_test(create_and_encode_survive_every_failed_allocation),
        cmocka_unit_test(the_work_for_a_text_of_one_thing_grows_as_its_length),
        cmocka_unit_test(scratch_is_given_back),
        cmocka_unit_test(too_long_a_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
