/* test_vocabulary.c: learned merges against a reference and against a plain learner; the tokenizer
 * and the keys made of them; bad files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "mnem/tokenizer.h"
#include "text/token/token_text.h"
#include "text/vocabulary/bpe_learn.h"

#define MIXED MNEM_TEST_DATA "/vocabulary/mixed.txt"

static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "default"};
static const char *path;

static int group_setup(void **state) {
    (void)state;
    random_seed_chosen();
    path = kit_path("text");
    return 0;
}

static int group_teardown(void **state) {
    (void)state;
    unlink(path);
    return kit_folder_remove();
}

static mnem_vocabulary *learn_file(const char *name, int32_t tokens, const char *pre) {
    mnem_vocabulary *v;
    const mnem_vocabulary_options options = {.tokens = tokens, .pre = pre};
    const mnem_status status = mnem_vocabulary_learn(&options, &name, 1, &v);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    return v;
}

static mnem_value value_of(const mnem_vocabulary *v, const char *key) {
    const char *name;
    mnem_value value;
    for (uint32_t i = 0; mnem_vocabulary_key_get(v, i, &name, &value); i++)
        if (strcmp(name, key) == 0) return value;
    fail_msg("no key %s", key);
    return value;
}

static mnem_tokenizer *tokenizer_of(const mnem_vocabulary *v) {
    mnem_tokenizer *t;
    assert_int_equal(mnem_tokenizer_create_from(v, &t), MNEM_OK);
    return t;
}

/* Every piece of text's ids, joined, is text. */
static size_t check_round_trip(mnem_tokenizer *t, const char *text, size_t n) {
    const int32_t *ids;
    size_t count, at = 0;
    assert_int_equal(
        mnem_tokenizer_encode(t, text, n, MNEM_ENCODE_PLAIN | MNEM_ENCODE_NO_SPECIAL, &ids, &count),
        MNEM_OK);
    for (size_t i = 0; i < count; i++) {
        const mnem_text piece = mnem_tokenizer_piece(t, ids[i], false);
        assert_true(piece.length <= n - at);
        assert_memory_equal(piece.bytes, text + at, piece.length);
        at += piece.length;
    }
    assert_int_equal(at, n);
    return count;
}

/* ---- what is learned ---- */

static void merges_equal_the_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        char name[256];
        size_t n;
        snprintf(name, sizeof name, MNEM_TEST_DATA "/vocabulary/%s.merges.txt", pres[i]);
        char *expected = read_file(name, &n), *at = expected;
        mnem_vocabulary *v = learn_file(MIXED, 700, pres[i]);
        const mnem_value merges = value_of(v, "tokenizer.ggml.merges");
        assert_int_equal(merges.count, 443);
        for (uint64_t m = 0; m < merges.count; m++) {
            const mnem_text merge = mnem_value_text(&merges, m);
            assert_true(merge.length < (size_t)(expected + n - at));
            assert_memory_equal(merge.bytes, at, merge.length);
            assert_int_equal(at[merge.length], '\n');
            at += merge.length + 1;
        }
        mnem_vocabulary_destroy(v);
        free(expected);
    }
}

/* One word of at most 64 bytes, learned from by counting everything again for each merge. */
typedef struct plain_word {
    int32_t token[64];
    int n;
} plain_word;

enum { PLAIN_WORDS = 12, PLAIN_TOKENS = 256 + 40 };

static int32_t plain_rank(int32_t token) {
    return token < 256 ? (int32_t)mnem__bpe_character((unsigned char)token) : 1000 + token;
}

static bool plain_before(const int32_t *a, const int32_t *b) {
    if (a[0] != b[0]) return plain_rank(a[0]) < plain_rank(b[0]);
    return plain_rank(a[1]) < plain_rank(b[1]);
}

static int plain_best(const plain_word *words, int32_t *best) {
    static int counts[PLAIN_TOKENS][PLAIN_TOKENS];
    int most = 0;
    memset(counts, 0, sizeof counts);
    for (int w = 0; w < PLAIN_WORDS; w++)
        for (int i = 0; i + 1 < words[w].n; i++) counts[words[w].token[i]][words[w].token[i + 1]]++;
    for (int w = 0; w < PLAIN_WORDS; w++)
        for (int i = 0; i + 1 < words[w].n; i++) {
            const int32_t *pair = words[w].token + i;
            const int count = counts[pair[0]][pair[1]];
            if (count < most || (count == most && !plain_before(pair, best))) continue;
            most = count;
            memcpy(best, pair, 2 * sizeof *best);
        }
    return most;
}

static void plain_merge(plain_word *word, const int32_t *pair, int32_t token) {
    int n = 0;
    for (int i = 0; i < word->n; i++) {
        const bool match =
            i + 1 < word->n && word->token[i] == pair[0] && word->token[i + 1] == pair[1];
        word->token[n++] = match ? token : word->token[i];
        i += match;
    }
    word->n = n;
}

static void merges_equal_those_of_a_plain_learner(void **state) {
    (void)state;
    for (int round = 0; round < 60; round++) {
        mnem__learn_memory memory = {.max = 64 << 20};
        mnem__words words;
        mnem__merge merges[40];
        plain_word plain[PLAIN_WORDS];
        uint32_t count;
        assert_int_equal(mnem__words_init(&words, &memory), MNEM_OK);
        for (int w = 0; w < PLAIN_WORDS; w++) {
            char bytes[64];
            plain[w].n = 1 + (int)random_below(64);
            for (int i = 0; i < plain[w].n; i++) {
                bytes[i] = "ab\xC3 \xAD"[random_below(round % 5 + 1)];
                plain[w].token[i] = (unsigned char)bytes[i];
            }
            assert_int_equal(mnem__words_add(&words, bytes, (size_t)plain[w].n), MNEM_OK);
        }
        assert_int_equal(mnem__bpe_learn(&words, 40, merges, &count, &(mnem_progress){0}), MNEM_OK);
        for (uint32_t m = 0; m < 40; m++) {
            int32_t best[2] = {0, 0};
            if (plain_best(plain, best) == 0) {
                assert_int_equal(count, m);
                break;
            }
            assert_true(m < count);
            assert_int_equal(merges[m].left, best[0]);
            assert_int_equal(merges[m].right, best[1]);
            for (int w = 0; w < PLAIN_WORDS; w++) plain_merge(&plain[w], best, 256 + (int32_t)m);
        }
        mnem__words_fini(&words);
        assert_int_equal(memory.live, 0);
    }
}

static void long_run_of_one_byte_is_learned_in_linear_time(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    char *run = malloc(N);
    assert_non_null(run);
    memset(run, 'a', N);
    write_file(path, run, N);
    mnem_vocabulary *v = learn_file(path, 512, "gpt-2");
    mnem_vocabulary_info info;
    mnem_vocabulary_info_get(v, &info);
    assert_int_equal(info.merges, 20); /* 2^20 bytes become one token */
    mnem_vocabulary_destroy(v);
    free(run);
}

static void text_that_is_too_small_gives_fewer_tokens(void **state) {
    (void)state;
    mnem_vocabulary_info info;
    write_file(path, "abab", 4);
    mnem_vocabulary *v = learn_file(path, 2048, NULL);
    mnem_vocabulary_info_get(v, &info);
    assert_int_equal(info.tokens, 256 + 2 + 1); /* "ab", "abab", the end */
    assert_int_equal(info.end, 258);
    assert_int_equal(info.words, 1);
    assert_int_equal(info.text_bytes, 4);
    mnem_vocabulary_destroy(v);
    write_file(path, "a", 1);
    v = learn_file(path, 2048, NULL);
    mnem_vocabulary_info_get(v, &info);
    assert_int_equal(info.tokens, 257);
    mnem_vocabulary_destroy(v);
}

static void bytes_alone_need_no_text(void **state) {
    (void)state;
    for (int32_t tokens = 256; tokens <= 257; tokens++) {
        mnem_vocabulary *v;
        mnem_tokenizer_info info;
        const mnem_vocabulary_options options = {.tokens = tokens};
        assert_int_equal(mnem_vocabulary_learn(&options, NULL, 0, &v), MNEM_OK);
        mnem_tokenizer *t = tokenizer_of(v);
        mnem_tokenizer_info_get(t, &info);
        assert_int_equal(info.vocab, tokens);
        assert_int_equal(info.eos, tokens == 257 ? 256 : -1);
        char text[256];
        const int32_t *ids;
        size_t count;
        for (int i = 0; i < 256; i++) text[i] = (char)i;
        assert_int_equal(check_round_trip(t, text, sizeof text), 256);
        assert_int_equal(mnem_tokenizer_encode(t, text, 256, 0, &ids, &count), MNEM_OK);
        for (int i = 0; i < 256; i++) assert_int_equal(ids[i], i); /* a byte's id is its value */
        mnem_tokenizer_destroy(t);
        mnem_vocabulary_destroy(v);
    }
}

static void any_bytes_are_learned_from_and_come_back(void **state) {
    (void)state;
    unsigned char bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i % 3 ? 0xF0 + random_below(16) : random_below(256));
    write_file(path, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        mnem_vocabulary *v = learn_file(path, 400, pres[i]);
        mnem_tokenizer *t = tokenizer_of(v);
        assert_true(check_round_trip(t, (const char *)bytes, sizeof bytes) < sizeof bytes);
        mnem_tokenizer_destroy(t);
        mnem_vocabulary_destroy(v);
    }
}

static void end_token_is_the_last_and_never_plain_text(void **state) {
    (void)state;
    static const char text[] = "light<|stop|>light";
    mnem_vocabulary *v;
    const char *name = MIXED;
    const mnem_vocabulary_options options = {.tokens = 300, .end = "<|stop|>"};
    assert_int_equal(mnem_vocabulary_learn(&options, &name, 1, &v), MNEM_OK);
    mnem_tokenizer *t = tokenizer_of(v);
    const int32_t *ids;
    size_t count;
    assert_true(mnem_tokenizer_is_end(t, 299));
    check_round_trip(t, text, strlen(text));
    assert_int_equal(mnem_tokenizer_encode(t, text, strlen(text), MNEM_ENCODE_PLAIN, &ids, &count),
                     MNEM_OK);
    for (size_t i = 0; i < count; i++) assert_int_not_equal(ids[i], 299);
    assert_int_equal(mnem_tokenizer_encode(t, text, strlen(text), 0, &ids, &count), MNEM_OK);
    size_t ends = 0;
    for (size_t i = 0; i < count; i++) ends += ids[i] == 299;
    assert_int_equal(ends, 1);
    mnem_tokenizer_destroy(t);
    mnem_vocabulary_destroy(v);
}

/* ---- files of it ---- */

static void check_same(mnem_tokenizer *a, mnem_tokenizer *b) {
    const int32_t *x, *y;
    size_t n, m, bytes;
    char *text = read_file(MIXED, &bytes);
    assert_true(mnem_tokenizer_checksum(a) == mnem_tokenizer_checksum(b));
    assert_int_equal(mnem_tokenizer_encode(a, text, bytes, 0, &x, &n), MNEM_OK);
    assert_int_equal(mnem_tokenizer_encode(b, text, bytes, 0, &y, &m), MNEM_OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n * sizeof *x);
    free(text);
}

static void write_model(const mnem_tokenizer *t) {
    mnem_gguf_writer *writer;
    assert_int_equal(mnem_gguf_create(path, &writer), MNEM_OK);
    assert_int_equal(mnem_gguf_key_text(writer, "general.architecture", "llama"), MNEM_OK);
    assert_int_equal(mnem_tokenizer_write(t, writer), MNEM_OK);
    assert_int_equal(mnem_gguf_finish(writer), MNEM_OK);
}

static void written_keys_give_the_same_tokenizer(void **state) {
    (void)state;
    static const int32_t tokens[] = {256, 257, 600};
    for (int i = 0; i < 3; i++) {
        mnem_vocabulary *v = learn_file(MIXED, tokens[i], "qwen2");
        mnem_tokenizer *t = tokenizer_of(v), *opened, *again;
        mnem_model *model, *copy;
        write_model(t);
        assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
        assert_int_equal(mnem_tokenizer_create(model, &opened), MNEM_OK);
        check_same(t, opened);
        write_model(opened); /* and from a model's keys */
        assert_int_equal(mnem_model_open(path, &copy), MNEM_OK);
        assert_int_equal(mnem_tokenizer_create(copy, &again), MNEM_OK);
        check_same(t, again);
        mnem_tokenizer_destroy(again);
        mnem_model_close(copy);
        mnem_tokenizer_destroy(opened);
        mnem_model_close(model);
        mnem_tokenizer_destroy(t);
        mnem_vocabulary_destroy(v);
    }
}

static void checksum_tells_vocabularies_apart(void **state) {
    (void)state;
    uint64_t sums[4];
    for (int i = 0; i < 4; i++) {
        mnem_vocabulary *v = learn_file(MIXED, 300 + i / 2, pres[i % 2]);
        mnem_tokenizer *t = tokenizer_of(v);
        sums[i] = mnem_tokenizer_checksum(t);
        for (int j = 0; j < i; j++) assert_true(sums[i] != sums[j]);
        mnem_tokenizer_destroy(t);
        mnem_vocabulary_destroy(v);
    }
}

/* ---- limits ---- */

static void rarest_words_are_forgotten_when_memory_is_full(void **state) {
    (void)state;
    mnem__learn_memory memory = {.max = 2 << 20};
    mnem__words words;
    char word[16];
    assert_int_equal(mnem__words_init(&words, &memory), MNEM_OK);
    for (uint32_t i = 0; i < 200000; i++) {
        assert_int_equal(mnem__words_add(&words, "often", 5), MNEM_OK);
        const int n = snprintf(word, sizeof word, "%x", i * 2654435761u);
        assert_int_equal(mnem__words_add(&words, word, (size_t)n), MNEM_OK);
        assert_true(memory.live <= memory.max / 2);
    }
    assert_int_equal(words.total, 400000);
    assert_true(words.dropped > 100000);
    assert_int_equal(words.word[0].count, 200000);
    assert_memory_equal(words.text + words.word[0].at, "often", 5);
    uint64_t sum = words.dropped;
    for (uint32_t i = 0; i < words.count; i++) sum += words.word[i].count;
    assert_int_equal(sum, words.total);
    mnem__words_fini(&words);
    assert_int_equal(memory.live, 0);
}

static void too_many_pairs_are_an_error_with_the_bytes(void **state) {
    (void)state;
    mnem__learn_memory memory = {.max = 64 << 20};
    mnem__words words;
    mnem__merge merges[1];
    uint32_t count;
    assert_int_equal(mnem__words_init(&words, &memory), MNEM_OK);
    for (int i = 0; i < 1 << 14; i++) {
        const char word[2] = {(char)i, (char)(i >> 8)};
        assert_int_equal(mnem__words_add(&words, word, 2), MNEM_OK);
    }
    memory.max = memory.live + (1 << 18);
    assert_int_equal(mnem__bpe_learn(&words, 1, merges, &count, &(mnem_progress){0}),
                     MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "but bytes_max is"));
    mnem__words_fini(&words);
    assert_int_equal(memory.live, 0);
}

static mnem_status try_learn(const char *name, const mnem_vocabulary_options *options) {
    mnem_vocabulary *v;
    const mnem_status status = mnem_vocabulary_learn(options, &name, 1, &v);
    mnem_vocabulary_destroy(v);
    return status;
}

static void bad_files_are_named(void **state) {
    (void)state;
    const mnem_vocabulary_options options = {.tokens = 300};
    assert_int_equal(try_learn(kit_folder(), &options), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "is a folder"));
    assert_int_equal(try_learn("/nowhere/text", &options), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/text"));
    write_file(path, "", 0);
    assert_int_equal(try_learn(path, &options), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "0 bytes of text"));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    assert_int_equal(try_learn(path, &options), MNEM_INVALID);
    unlink(path);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    assert_int_equal(try_learn(MIXED, &(mnem_vocabulary_options){.tokens = 255}), MNEM_INVALID);
    assert_int_equal(try_learn(MIXED, &(mnem_vocabulary_options){.tokens = 1 << 21}), MNEM_INVALID);
    assert_int_equal(try_learn(MIXED, &(mnem_vocabulary_options){.tokens = 300, .end = ""}),
                     MNEM_INVALID);
    assert_int_equal(try_learn(MIXED, &(mnem_vocabulary_options){.tokens = 300, .bytes_max = 1}),
                     MNEM_INVALID);
    assert_int_equal(try_learn(MIXED, &(mnem_vocabulary_options){.tokens = 300, .pre = "other"}),
                     MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "other"));
}

static bool stop_after(void *context, const char *what, uint64_t done, uint64_t total) {
    int *left = context;
    assert_true(done <= total);
    assert_non_null(what);
    return (*left)-- > 0;
}

static void learning_can_be_cancelled_at_any_report(void **state) {
    (void)state;
    int reports = 0;
    for (mnem_status status = MNEM_CANCELLED; status != MNEM_OK; reports++) {
        int left = reports;
        const mnem_vocabulary_options options = {.tokens = 500, .progress = {stop_after, &left}};
        status = try_learn(MIXED, &options);
        assert_true(status == MNEM_OK || status == MNEM_CANCELLED);
    }
    assert_true(reports > 3);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    uint64_t n = 0;
    for (mnem_status status = MNEM_NO_MEMORY; status != MNEM_OK;) {
        mnem_vocabulary *v = NULL;
        mnem_tokenizer *t = NULL;
        const char *name = MIXED;
        mnem__heap_fail_at(++n, false);
        status = mnem_vocabulary_learn(&(mnem_vocabulary_options){.tokens = 400}, &name, 1, &v);
        if (status == MNEM_OK) status = mnem_tokenizer_create_from(v, &t);
        mnem__heap_fail_at(0, false);
        assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY);
        mnem_tokenizer_destroy(t);
        mnem_vocabulary_destroy(v);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    print_message("%llu allocations\n", (unsigned long long)n - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_equal_the_reference),
        cmocka_unit_test(merges_equal_those_of_a_plain_learner),
        cmocka_unit_test(long_run_of_one_byte_is_learned_in_linear_time),
        cmocka_unit_test(text_that_is_too_small_gives_fewer_tokens),
        cmocka_unit_test(bytes_alone_need_no_text),
        cmocka_unit_test(any_bytes_are_learned_from_and_come_back),
        cmocka_unit_test(end_token_is_the_last_and_never_plain_text),
        cmocka_unit_test(written_keys_give_the_same_tokenizer),
        cmocka_unit_test(checksum_tells_vocabularies_apart),
        cmocka_unit_test(rarest_words_are_forgotten_when_memory_is_full),
        cmocka_unit_test(too_many_pairs_are_an_error_with_the_bytes),
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(learning_can_be_cancelled_at_any_report),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
