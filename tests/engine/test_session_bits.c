/* test_session_bits.c: the same bits for any memory, chunk and number of threads, and for weights
 * that are 2:4.
 *
 * What streams or is 2:4 is mostly models of two layers, for at the least budget every few tokens
 * read all weights. A prompt needs a second page and several chunks. Under sanitizers fewer types,
 * variants and budgets. The types' kernels have tests of their own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/team/team.h"
#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"

enum { VOCAB = 2048, SMALL_VOCAB = 512, PROMPT = 70 };
enum { TYPE_STEP = MNEM_SANITIZED ? 3 : 1, VARIANT = MNEM_SANITIZED ? 1 : 0 };
enum { MATRICES = 14 }; /* of a made model, but for the embedding */
enum { BUDGET_STEP = MNEM_SANITIZED ? 3 : 1 };

/* A tied model of two layers, as the first test that asks for the type makes it. */
static const char *small_model(const char *type) {
    char name[32], arguments[160];
    snprintf(name, sizeof name, "%s.gguf", type);
    const char *path = kit_path(name);
    if (access(path, F_OK) == 0) return path;
    snprintf(arguments, sizeof arguments,
             "--embd 288 --layers 2 --heads 6 --kv-heads 2 --ff 768 --vocab %d --context 256 "
             "--tied --type %s",
             SMALL_VOCAB, type);
    make_model(path, arguments);
    return path;
}

/* Logits behind a prompt and behind one more token. */
static void logits_of(const char *path, uint64_t budget, const mnem_engine_options *options,
                      float *out, mnem_engine_plan *plan) {
    session_case c;
    int32_t ids[PROMPT + 1];
    for (int32_t i = 0; i <= PROMPT; i++) ids[i] = (i * 53 + 7) % (SMALL_VOCAB - 1);
    const mnem_status status = session_case_open(&c, path, budget, options);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    assert_int_equal(session_case_logits(&c, ids, PROMPT, out), MNEM_OK);
    assert_int_equal(session_case_logits(&c, ids + PROMPT, 1, out + VOCAB), MNEM_OK);
    if (plan) *plan = c.plan;
    session_case_close(&c);
}

static void chunks_and_threads_do_not_change_a_bit(void **state) {
    (void)state;
    static float first[2 * VOCAB], other[2 * VOCAB];
    static const char *const paths[] = {MODEL_F16, MODEL_Q8_0, MODEL_Q4_0, MODEL_Q4_K_M};
    const mnem_engine_options variants[] = {{.context = 256, .chunk = 1, .threads = 1},
                                            {.context = 256, .chunk = 7, .threads = 3},
                                            {.context = 200, .chunk = 64, .threads = 2},
                                            {.context = PROMPT + 1, .logits_rows = 5}};
    for (size_t p = 0; p < 4; p += TYPE_STEP) {
        logits_of(paths[p], 0, &(mnem_engine_options){.threads = 1, .chunk = PROMPT}, first, NULL);
        for (size_t v = VARIANT; v < sizeof variants / sizeof variants[0]; v += 1 + VARIANT) {
            logits_of(paths[p], 0, &variants[v], other, NULL);
            assert_memory_equal(first, other, sizeof first);
        }
    }
}

/* At the least budget, and with first eighths of the weights more. */
static void while_streaming(const char *path, int begin, int end) {
    static float first[2 * VOCAB], other[2 * VOCAB];
    mnem_engine_plan plan;
    mnem_engine_options o = {.context = 256, .threads = 2};
    logits_of(path, 0, &o, first, &plan);
    assert_false(plan.streamed);
    const uint64_t small = session_case_least(path, &o), weights = plan.weight_bytes;
    for (int i = begin; i < end; i += BUDGET_STEP) {
        o.page_cache = i & 1;
        o.threads = 2 - (i & 1);
        logits_of(path, small + (uint64_t)i * weights / 8, &o, other, &plan);
        assert_true(plan.streamed);
        assert_memory_equal(first, other, sizeof first);
    }
}

static void streaming_does_not_change_a_bit(void **state) {
    (void)state;
    while_streaming(small_model("F16"), 0, 4);
    while_streaming(small_model("Q8_0"), 0, MNEM_SANITIZED ? 1 : 4);
    while_streaming(MODEL_Q4_K_M, 3, 4);
}

/* ThreadSanitizer sees every access of the plain kernels, and no wide one of the others. */
static void the_plain_kernels_give_the_same_bits_while_streaming(void **state) {
    (void)state;
    static float resident[2 * VOCAB], streamed[2 * VOCAB];
    const char *path = small_model("Q8_0");
    const mnem_engine_options o = {.context = 256, .threads = 2};
    mnem_engine_plan plan;
    logits_of(path, 0, &o, resident, NULL);
    mnem__cpu_level_set(MNEM__CPU_PLAIN);
    logits_of(path, session_case_least(path, &o), &o, streamed, &plan);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    assert_true(plan.streamed);
    assert_memory_equal(resident, streamed, sizeof resident);
}

/* Its heads are whole blocks of 32 numbers, three of them: no power of two. */
static const char *blocks_model(void) {
    const char *path = kit_path("blocks.gguf");
    if (access(path, F_OK) == 0) return path;
    char arguments[160];
    snprintf(arguments, sizeof arguments,
             "--embd 288 --layers 2 --heads 3 --kv-heads 1 --head-dim 96 --ff 768 --vocab %d "
             "--context 256 --tied --type Q8_0",
             SMALL_VOCAB);
    make_model(path, arguments);
    return path;
}

static void check_kv_bits(const char *path, mnem_kv_choice kv) {
    static float first[2 * VOCAB], other[2 * VOCAB];
    mnem_engine_options o = {.context = 256, .kv = kv, .threads = 1};
    mnem_engine_plan plan;
    logits_of(path, 0, &o, first, NULL);
    o.chunk = 13;
    o.threads = 3;
    logits_of(path, 0, &o, other, NULL);
    assert_memory_equal(first, other, sizeof first);
    o.chunk = 0;
    logits_of(path, session_case_least(path, &o), &o, other, &plan);
    assert_true(plan.streamed && plan.kv == kv);
    assert_memory_equal(first, other, sizeof first);
    mnem__cpu_level_set(MNEM__CPU_PLAIN);
    logits_of(path, 0, &o, other, NULL);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    assert_memory_equal(first, other, sizeof first);
}

static void quantized_pages_give_the_same_bits_for_any_memory_chunk_and_level(void **state) {
    (void)state;
    static const mnem_kv_choice types[] = {MNEM_KV_Q8_0, MNEM_KV_Q4_0, MNEM_KV_Q4_0_UNROTATED,
                                           MNEM_KV_F16};
    enum { TYPES = sizeof types / sizeof *types };
    for (int i = 0; i < TYPES * TYPES; i += TYPE_STEP)
        check_kv_bits(blocks_model(), mnem_kv_pair(types[i % TYPES], types[i / TYPES]));
}

/* ---- teams that change all the time ---- */

static int sizes; /* asked for */

static int any_size(int limit) {
    static int last;
    if (sizes++ % 3 == 0 || last > limit) last = 1 + (int)random_below((uint64_t)limit);
    return last;
}

static void while_teams_change(const char *path, bool least) {
    static const int threads[] = {2, 3, 4, 9};
    static float first[2 * VOCAB], other[2 * VOCAB];
    logits_of(path, 0, &(mnem_engine_options){.context = 256, .threads = 1}, first, NULL);
    for (int i = 0; i < (MNEM_SANITIZED ? 2 : 4); i++) {
        const mnem_engine_options o = {.context = 256, .threads = threads[i], .chunk = 64};
        const uint64_t budget = least ? session_case_least(path, &o) : 0;
        mnem_engine_plan plan;
        sizes = 0;
        mnem__team_force(any_size);
        logits_of(path, budget, &o, other, &plan);
        mnem__team_force(NULL);
        assert_int_equal(plan.streamed, least);
        assert_true(sizes > 20); /* where members meet too: there are less than 10 runs */
        assert_memory_equal(first, other, sizeof first);
    }
}

/* Every run has a random number of members, and may go on with another where they meet. */
static void teams_that_change_do_not_change_a_bit(void **state) {
    (void)state;
    random_seed_chosen();
    while_teams_change(MODEL_Q8_0, false);
    while_teams_change(small_model("F16"), false);
    while_teams_change(small_model("Q8_0"), true);
}

/* ---- 2:4 ---- */

static bool is_matrix(const mnem_tensor_info *t) {
    return t->dims == 2 && strncmp(t->name, "token_embd.", 11) != 0;
}

/* Zeros the second and the fourth of each 4 elements, or the first and the third. */
static void thin(const mnem_tensor_info *t, uint8_t *data) {
    for (uint64_t at = 0; at < t->bytes;) {
        const int odd = (int)(at / 34 % 2);
        if (t->type == MNEM_TYPE_F16) {
            memset(data + at + (at / 64 % 2 ? 2 : 0), 0, 2);
            at += 4;
        } else if (t->type == MNEM_TYPE_Q8_0) {
            for (int j = odd; j < 32; j += 2) data[at + 2 + (uint64_t)j] = 0;
            at += 34;
        } else {
            for (int j = odd; j < 16; j += 2) data[at + 2 + (uint64_t)j] = 0x88;
            at += 18;
        }
    }
}

static const char *thinned(const char *path) {
    const char *to = kit_path("thin.gguf");
    mnem_model *model;
    mnem_tensor_info t;
    size_t n;
    char *file = read_file(path, &n);
    must(mnem_model_open(path, &model));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++)
        if (is_matrix(&t)) thin(&t, (uint8_t *)file + t.offset);
    mnem_model_close(model);
    write_file(to, file, n);
    free(file);
    return to;
}

/* On a level that doesn't use the form the same file runs dense. */
static void sparse_weights_give_the_bits_of_dense_ones(void **state) {
    (void)state;
    static const char *const types[] = {"Q4_0", "Q8_0", "F16"};
    static const double ratios[] = {14.0 / 18, 22.0 / 34, 9.0 / 16};
    static float dense[2 * VOCAB], sparse[2 * VOCAB];
    const mnem_engine_options o = {.context = 256, .threads = 2};
    for (int i = 0; i < 3; i++) {
        const char *path = thinned(small_model(types[i]));
        mnem_engine_plan before, plan;
        mnem__cpu_level_set(MNEM__CPU_PLAIN);
        logits_of(path, 0, &o, dense, &before);
        mnem__cpu_level_set(MNEM__CPU_BEST);
        assert_int_equal(before.matrices_sparse, 0);
        assert_int_equal(before.sparse_saved_bytes, 0);
        if (mnem__cpu_level_get() == MNEM__CPU_PLAIN) return;
        assert_int_equal(before.matrices_dense, MATRICES);
        assert_non_null(strstr(before.why, "14 more are 2:4, but kept dense"));
        logits_of(path, 0, &o, sparse, &plan);
        assert_memory_equal(dense, sparse, sizeof dense);
        assert_int_equal(plan.matrices_sparse, MATRICES);
        assert_int_equal(plan.matrices_dense, 0);
        assert_int_equal(plan.weight_bytes + plan.sparse_saved_bytes, before.weight_bytes);
        assert_true(plan.peak_bytes < before.peak_bytes);
        assert_non_null(strstr(plan.why, "14 matrices are 2:4, which saves"));
        /* Blocks of 288 columns have half a unit at their end. */
        const double saved = (double)plan.sparse_saved_bytes, all = saved / (1 - ratios[i]);
        assert_true(all > 0.8 * (double)before.weight_bytes && all < (double)before.weight_bytes);
    }
}

static void streamed_weights_are_packed_as_resident_ones(void **state) {
    (void)state;
    static float all[2 * VOCAB], some[2 * VOCAB];
    const char *path = thinned(small_model("F16"));
    const mnem_engine_options o = {.context = 256, .threads = 2};
    const uint64_t least = session_case_least(path, &o);
    mnem_engine_plan plan;
    logits_of(path, 0, &o, all, &plan);
    for (int i = 0; i < 3; i++) {
        logits_of(path, least + (uint64_t)i * plan.weight_bytes / 8, &o, some, &plan);
        assert_true(plan.streamed);
        assert_memory_equal(all, some, sizeof all);
    }
}

static mnem_engine_plan plan_of(const char *path, const mnem_machine_profile *profile,
                                mnem__cpu_level level) {
    session_case c;
    mnem__cpu_level_set(level);
    must(
        session_case_open(&c, path, 0, &(mnem_engine_options){.context = 256, .profile = profile}));
    const mnem_engine_plan plan = c.plan;
    session_case_close(&c);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    return plan;
}

/* Prompts by multiply-adds, text by bytes; where the form isn't used nothing is gained. */
static void the_plan_knows_what_2_4_gains(void **state) {
    (void)state;
    static const mnem_machine_profile slow_macs = {1e15, 1e9, 1e9, 0},
                                      slow_memory = {1e9, 1e9, 1e15, 0};
    const char *path = thinned(MODEL_Q8_0);
    if (mnem__cpu_level_get() == MNEM__CPU_PLAIN) return;
    mnem_engine_plan dense = plan_of(MODEL_Q8_0, &slow_macs, MNEM__CPU_AVX2);
    mnem_engine_plan sparse = plan_of(path, &slow_macs, MNEM__CPU_AVX2);
    assert_true(sparse.predicted_prompt > 1.1 * dense.predicted_prompt);
    sparse = plan_of(path, &slow_macs, MNEM__CPU_PLAIN);
    assert_true(fabs(sparse.predicted_prompt / dense.predicted_prompt - 1) < 1e-9);
    dense = plan_of(MODEL_Q8_0, &slow_memory, MNEM__CPU_BEST);
    sparse = plan_of(path, &slow_memory, MNEM__CPU_BEST);
    assert_true(sparse.predicted_generate > 1.2 * dense.predicted_generate);
}

/* A file without the zeros gives the bits of the one with them, and reads fewer bytes. */
static void compact_matrices_give_the_bits_of_ordinary_ones(void **state) {
    (void)state;
    static const char *const types[] = {"Q4_0", "Q8_0", "F16"};
    static float ordinary[2 * VOCAB], compact[2 * VOCAB];
    const char *zeros = kit_path("zeros.gguf"), *small = kit_path("small.gguf");
    const mnem_engine_options o = {.context = 256, .threads = 2};
    for (int i = 0; i < 3; i += TYPE_STEP) {
        mnem_engine_plan plan, streamed, other;
        const char *whole = small_model(types[i]);
        must(mnem_prune_file(whole, zeros, &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4}));
        must(mnem_prune_file(whole, small,
                             &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4, .compact = true}));
        logits_of(zeros, 0, &o, ordinary, NULL);
        mnem__cpu_level_set(MNEM__CPU_PLAIN);
        logits_of(small, 0, &o, compact, &plan);
        mnem__cpu_level_set(MNEM__CPU_BEST);
        assert_memory_equal(ordinary, compact, sizeof compact);
        assert_int_equal(plan.matrices_compact, MATRICES);
        const uint64_t least = session_case_least(zeros, &o) + MIB / 64; /* a key more */
        logits_of(small, least, &o, compact, &streamed);
        assert_memory_equal(ordinary, compact, sizeof compact);
        assert_true(streamed.streamed);
        assert_non_null(strstr(streamed.why, "in memory and on disk"));
        logits_of(zeros, least, &o, compact, &other);
        assert_true(streamed.bytes_streamed_per_pass < other.bytes_streamed_per_pass);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_and_threads_do_not_change_a_bit),
        cmocka_unit_test(streaming_does_not_change_a_bit),
        cmocka_unit_test(the_plain_kernels_give_the_same_bits_while_streaming),
        cmocka_unit_test(teams_that_change_do_not_change_a_bit),
        cmocka_unit_test(quantized_pages_give_the_same_bits_for_any_memory_chunk_and_level),
        cmocka_unit_test(sparse_weights_give_the_bits_of_dense_ones),
        cmocka_unit_test(streamed_weights_are_packed_as_resident_ones),
        cmocka_unit_test(the_plan_knows_what_2_4_gains),
        cmocka_unit_test(compact_matrices_give_the_bits_of_ordinary_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
