/* test_token_models.c: unigram models and WordPiece, on small vocabularies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "text/fold.h"
#include "text/tokenizer/tokenizer_case.h"

/* ---- unigram ---- */

static void the_cut_with_the_highest_sum_is_taken(void **state) {
    (void)state;
    vocab_file f = unigram_vocab(false);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "a", 0, UNI_SPACE_A, 1);
    /* " ab c" is -9, " a bc" -8: greedy joining would take "ab" */
    ASSERT_IDS(o.t, "abc", 0, UNI_SPACE_A, UNI_BC, 1);
    ASSERT_IDS(o.t, "ab", MNEM_ENCODE_NO_SPECIAL, UNI_SPACE, UNI_AB);
    close_opened(&o);
}

static void spaces_are_merged_and_one_is_put_before(void **state) {
    (void)state;
    vocab_file f = unigram_vocab(false);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "  a   c ", MNEM_ENCODE_NO_SPECIAL, UNI_SPACE_A, UNI_SPACE, UNI_C);
    ASSERT_IDS(o.t, "   ", 0, 1);
    ASSERT_IDS(o.t, "a<u>c", MNEM_ENCODE_PLAIN | MNEM_ENCODE_NO_SPECIAL, UNI_SPACE_A, UNI_USER,
               UNI_SPACE, UNI_C);
    close_opened(&o);
}

static void a_run_of_unknown_characters_is_one_token(void **state) {
    (void)state;
    vocab_file f = unigram_vocab(false);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t,
               "xy\xC3\xA9"
               "c\xFFz",
               MNEM_ENCODE_NO_SPECIAL, UNI_SPACE, 2, UNI_C, 2);
    close_opened(&o);
}

static void with_byte_tokens_any_bytes_come_back(void **state) {
    (void)state;
    vocab_file f = unigram_vocab(true);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "a\xC3\xA9\xFF", MNEM_ENCODE_NO_SPECIAL, UNI_SPACE_A, UNI_BYTES + 0xC3,
               UNI_BYTES + 0xA9, UNI_BYTES + 0xFF);
    close_opened(&o);
}

/* All cuts of a short text, tried one after another. */
static double best_by_trying(const char *text, const char *const *pieces, const float *scores,
                             int count) {
    double best = -1e9;
    if (*text == 0) return 0;
    for (int i = 0; i < count; i++) {
        const size_t n = strlen(pieces[i]);
        if (strncmp(text, pieces[i], n) != 0) continue;
        const double rest = (double)scores[i] + best_by_trying(text + n, pieces, scores, count);
        if (rest > best) best = rest;
    }
    return best;
}

static void the_sum_is_the_best_of_all_cuts(void **state) {
    (void)state;
    enum { WORDS = 14 };
    static const char *const pieces[WORDS] = {"a",  "b",  "c",   "ab",  "bc",  "ca",   "abc",
                                              "bb", "cc", "aab", "bca", "cab", "abca", " "};
    const char *texts[3 + WORDS] = {"<pad>", "</s>", "<unk>"};
    int32_t types[3 + WORDS] = {3, 3, 2};
    float scores[3 + WORDS] = {0};
    for (int round = 0; round < 20; round++) {
        vocab_file f = {0};
        for (int i = 0; i < WORDS; i++) {
            texts[3 + i] = strcmp(pieces[i], " ") == 0 ? MARK : pieces[i];
            types[3 + i] = 1;
            scores[3 + i] = -1 - (float)random_below(1000) / 100;
        }
        vocab_key_text(&f, "tokenizer.ggml.model", "t5");
        vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, 3 + WORDS);
        vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, 3 + WORDS);
        vocab_key_numbers(&f, "tokenizer.ggml.scores", MNEM_VALUE_F32, scores, 3 + WORDS);
        opened o = open_vocab(&f);
        for (int i = 0; i < 20; i++) {
            char text[16];
            const int32_t *ids;
            size_t count;
            double sum = 0;
            const size_t n = 1 + random_below(12);
            for (size_t c = 0; c < n; c++) text[c] = "abc "[random_below(4)];
            text[n] = 0;
            assert_int_equal(
                mnem_tokenizer_encode(o.t, text, n, MNEM_ENCODE_NO_SPECIAL, &ids, &count), MNEM_OK);
            for (size_t j = 0; j < count; j++) sum += (double)scores[ids[j]];
            const double best = best_by_trying(text, pieces, scores + 3, WORDS);
            assert_true(sum > best - 1e-6 && sum < best + 1e-6);
        }
        close_opened(&o);
    }
}

/* A map by hand that makes "c" of "A": the root's children are at 256 ^ byte, and the leaf of 'A'
 * is that ^ 512. */
enum { MAP_CHILD = 256 ^ 'A', MAP_LEAF = MAP_CHILD ^ 512, MAP_UNITS = MAP_LEAF + 1 };

static size_t write_map(unsigned char *out, uint32_t place) {
    uint32_t units[MAP_UNITS] = {0};
    const uint32_t bytes = sizeof units;
    units[0] = 256u << 10;
    units[MAP_CHILD] = 512u << 10 | 1u << 8 | 'A';
    units[MAP_LEAF] = 1u << 31 | place;
    memcpy(out, &bytes, 4);
    memcpy(out + 4, units, sizeof units);
    memcpy(out + 4 + sizeof units, "c", 2);
    return 4 + sizeof units + 2;
}

static void characters_become_what_the_file_says(void **state) {
    (void)state;
    static unsigned char map[4 + 4 * MAP_UNITS + 2];
    for (int wrong = 0; wrong < 2; wrong++) {
        vocab_file f = unigram_vocab(false);
        const size_t n = write_map(map, wrong ? 77 : 0);
        vocab_key_bytes(&f, "tokenizer.ggml.precompiled_charsmap", map, n);
        opened o = open_vocab(&f);
        if (wrong) /* a place beyond the texts: nothing is replaced */
            ASSERT_IDS(o.t, "aA", MNEM_ENCODE_NO_SPECIAL, UNI_SPACE_A, 2);
        else
            ASSERT_IDS(o.t, "aA", MNEM_ENCODE_NO_SPECIAL, UNI_SPACE_A, UNI_C);
        close_opened(&o);
    }
}

static void a_map_that_is_not_whole_is_refused(void **state) {
    (void)state;
    static unsigned char map[4 + 4 * MAP_UNITS + 2];
    const size_t whole = write_map(map, 0);
    const size_t lengths[] = {1, 3, 4, 100, whole - 2, whole - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        vocab_file f = unigram_vocab(false);
        mnem_model *model;
        mnem_tokenizer *t = NULL;
        vocab_key_bytes(&f, "tokenizer.ggml.precompiled_charsmap", map, lengths[i]);
        assert_int_equal(vocab_open(&f, &model), MNEM_OK);
        assert_int_equal(mnem_tokenizer_create(model, &t), MNEM_BAD_FILE);
        assert_non_null(strstr(mnem_last_error(), "precompiled_charsmap"));
        mnem_model_close(model);
    }
}

/* ---- WordPiece ---- */

static void the_longest_beginning_of_a_word_is_taken(void **state) {
    (void)state;
    vocab_file f = wordpiece_vocab();
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "hello", 0, WP_CLS, WP_HELLO, WP_SEP);
    ASSERT_IDS(o.t, "hello.hello", MNEM_ENCODE_NO_SPECIAL, WP_HELLO, WP_DOT, WP_HELLO);
    ASSERT_IDS(o.t, "hellollo", MNEM_ENCODE_NO_SPECIAL, WP_HELLO, WP_LLO);
    ASSERT_IDS(o.t, "hex he", MNEM_ENCODE_NO_SPECIAL, WP_UNK, WP_HE); /* the word as a whole */
    ASSERT_IDS(o.t, "", 0, WP_CLS, WP_SEP);
    ASSERT_IDS(o.t, "he[SEP]he", MNEM_ENCODE_NO_SPECIAL, WP_HE, WP_SEP, WP_HE);
    assert_memory_equal(mnem_tokenizer_piece(o.t, WP_HE, false).bytes, " he", 3);
    close_opened(&o);
}

static void text_is_normalized_first(void **state) {
    (void)state;
    vocab_file f = wordpiece_vocab();
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "HE\tHE\xCC\x81 \xC3\x89", MNEM_ENCODE_NO_SPECIAL, WP_HE, WP_HE, WP_E);
    ASSERT_IDS(o.t,
               "h\xC2\xAD\xFF"
               "e",
               MNEM_ENCODE_NO_SPECIAL, WP_HE);
    ASSERT_IDS(o.t, "he\xE4\xBD\xA0he", MNEM_ENCODE_NO_SPECIAL, WP_HE, WP_IDEOGRAPH, WP_HE);
    close_opened(&o);
    f = wordpiece_vocab();
    vocab_key_bool(&f, "tokenizer.ggml.normalizer.lowercase", false);
    o = open_vocab(&f);
    ASSERT_IDS(o.t, "HE he \xC3\xA9", MNEM_ENCODE_NO_SPECIAL, WP_UNK, WP_HE, WP_UNK);
    close_opened(&o);
}

static void characters_fold_as_unicode_says(void **state) {
    (void)state;
    assert_int_equal(mnem__fold_lower('A'), 'a');
    assert_int_equal(mnem__fold_lower('['), '[');
    assert_int_equal(mnem__fold_lower(0x100), 0x101);
    assert_int_equal(mnem__fold_lower(0x101), 0x101);
    assert_int_equal(mnem__fold_lower(0x10400), 0x10428);
    assert_int_equal(mnem__fold_lower(0x10FFFF), 0x10FFFF);
    assert_int_equal(mnem__fold_base(0xC9), 'E');
    assert_int_equal(mnem__fold_base(0x1E9B), 0x17F);
    assert_int_equal(mnem__fold_base(0xAC01), 0x1100);
    assert_int_equal(mnem__fold_base(0xD7A3), 0x1112);
    assert_int_equal(mnem__fold_base('A'), 'A');
    assert_int_equal(mnem__fold_base(0x2F800), 0x4E3D);
    assert_int_equal(mnem__fold_class_of(' '), MNEM__FOLD_SPACE);
    assert_int_equal(mnem__fold_class_of(0), MNEM__FOLD_DROPPED);
    assert_int_equal(mnem__fold_class_of('+'), MNEM__FOLD_ALONE);
    assert_int_equal(mnem__fold_class_of(0x20AC), MNEM__FOLD_OTHER); /* a sign, but not of ASCII */
    assert_int_equal(mnem__fold_class_of(0x301), MNEM__FOLD_MARK);
    assert_int_equal(mnem__fold_class_of(0x4E00), MNEM__FOLD_ALONE);
    assert_int_equal(mnem__fold_class_of(0x10FFFF), MNEM__FOLD_OTHER);
}

static int group_setup(void **state) {
    (void)state;
    random_seed_chosen();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cut_with_the_highest_sum_is_taken),
        cmocka_unit_test(spaces_are_merged_and_one_is_put_before),
        cmocka_unit_test(a_run_of_unknown_characters_is_one_token),
        cmocka_unit_test(with_byte_tokens_any_bytes_come_back),
        cmocka_unit_test(the_sum_is_the_best_of_all_cuts),
        cmocka_unit_test(characters_become_what_the_file_says),
        cmocka_unit_test(a_map_that_is_not_whole_is_refused),
        cmocka_unit_test(the_longest_beginning_of_a_word_is_taken),
        cmocka_unit_test(text_is_normalized_first),
        cmocka_unit_test(characters_fold_as_unicode_says),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
