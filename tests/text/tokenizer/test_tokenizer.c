/* test_tokenizer.c: ids, pieces and special tokens: the references, and small vocabularies made
 * here. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "mnem/tokenizer.h"
#include "text/tokenizer/tokenizer_case.h"
#include "text/tokenizer/tokenizer_private.h"

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

static void user_defined_tokens_are_found_in_plain_text_too(void **state) {
    (void)state;
    vocab_file f = bpe_vocab("gpt-2");
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "a\xC3\xA9<|a|>", MNEM_ENCODE_PLAIN, 'a', USER, '<', '|', 'a', '|', '>');
    close_opened(&o);
}

/* Some files have an emoji twice: as its bytes' characters, and as it is, which no text becomes. */
static void only_spelled_tokens_are_joined(void **state) {
    (void)state;
    const char *const extra[] = {"\xC3\xA9", "\xC3\x83\xC2\xA9", NULL}; /* U+00E9 both times */
    const char *const merges[] = {"\xC3\x83 \xC2\xA9"};
    const char *texts[VOCAB_MAX];
    const size_t n = vocab_byte_texts(extra, texts);
    vocab_file f = {0};
    vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, n);
    vocab_key_texts(&f, "tokenizer.ggml.merges", merges, 1);
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "\xC3\xA9", 0, VOCAB_BYTES + 1);
    close_opened(&o);
}

static void a_pre_tokenizer_can_be_chosen(void **state) {
    (void)state;
    vocab_file f = bpe_vocab("sausage");
    opened o = {0};
    mnem_tokenizer *clone;
    char name[] = "llama-bpe";
    assert_int_equal(vocab_open(&f, &o.model), MNEM_OK);
    assert_int_equal(
        mnem_tokenizer_create_with(o.model, &(mnem_tokenizer_options){.pre = name}, &o.t), MNEM_OK);
    memset(name, 'x', strlen(name)); /* it isn't kept */
    ASSERT_IDS(o.t, "abc", 0, ABC);
    assert_int_equal(mnem__tokenizer_clone(o.t, &clone), MNEM_OK);
    assert_true(mnem_tokenizer_checksum(clone) == mnem_tokenizer_checksum(o.t));
    close_opened(&o);
    mnem_tokenizer_destroy(clone);
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

/* ---- SentencePiece-style ---- */

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

/* ---- BPE of marked text ---- */

static void marked_text_is_joined_across_spaces(void **state) {
    (void)state;
    vocab_file f = marked_vocab();
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "b a a", 0, 2, MARKED_B_SPACE_A, MARKED_SPACE_A);
    ASSERT_IDS(o.t, "b\n\n a\n", 0, 2, MARKED_B, MARKED_FEEDS, MARKED_SPACE_A, MARKED_BYTES + '\n');
    ASSERT_IDS(o.t, "\xFF\xC3\xA9", MNEM_ENCODE_NO_SPECIAL, MARKED_BYTES + 0xFF,
               MARKED_BYTES + 0xC3, MARKED_BYTES + 0xA9);
    assert_memory_equal(mnem_tokenizer_piece(o.t, MARKED_B_SPACE_A, false).bytes, "b a", 3);
    close_opened(&o);
}

/* ---- special tokens ---- */

static void phi_3_leaves_out_spaces_after_its_tokens(void **state) {
    (void)state;
    vocab_file f = spm_vocab(true);
    vocab_key_text(&f, "general.name", "Phi-3-mini");
    opened o = open_vocab(&f);
    ASSERT_IDS(o.t, "</s> \n\ta", MNEM_ENCODE_NO_SPECIAL, 2, SPM_SPACE_A);
    ASSERT_IDS(o.t, "<s> a", MNEM_ENCODE_NO_SPECIAL, 1, SPM_SPACE,
               SPM_SPACE_A); /* not after this one */
    close_opened(&o);
}

/* GPT-OSS ends messages with <|end|>, and a turn with another token. */
static void an_end_of_a_message_is_no_end_of_a_turn(void **state) {
    (void)state;
    const char *const extra[] = {"<|end|>", "<|return|>", "<|call|>", NULL};
    for (int harmony = 0; harmony < 2; harmony++) {
        const char *texts[VOCAB_MAX];
        const size_t n = vocab_byte_texts(extra, texts) - (harmony ? 0 : 1);
        vocab_file f = {0};
        vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
        vocab_key_text(&f, "tokenizer.ggml.pre", "gpt-4o");
        vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, n);
        vocab_key_texts(&f, "tokenizer.ggml.merges", NULL, 0);
        opened o = open_vocab(&f);
        assert_int_equal(mnem_tokenizer_is_end(o.t, VOCAB_BYTES), !harmony);
        assert_true(mnem_tokenizer_is_end(o.t, VOCAB_BYTES + 1));
        close_opened(&o);
    }
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
        cmocka_unit_test(user_defined_tokens_are_found_in_plain_text_too),
        cmocka_unit_test(only_spelled_tokens_are_joined),
        cmocka_unit_test(a_pre_tokenizer_can_be_chosen),
        cmocka_unit_test(pieces_are_bytes_and_hide_control_tokens),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(joining_equals_the_definition),
        cmocka_unit_test(scores_decide_what_is_joined),
        cmocka_unit_test(what_the_file_says_of_bos_and_prefix_holds),
        cmocka_unit_test(without_byte_tokens_bytes_are_unknown),
        cmocka_unit_test(marked_text_is_joined_across_spaces),
        cmocka_unit_test(phi_3_leaves_out_spaces_after_its_tokens),
        cmocka_unit_test(an_end_of_a_message_is_no_end_of_a_turn),
        cmocka_unit_test(ends_are_known_by_key_and_by_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
