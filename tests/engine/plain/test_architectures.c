/* test_architectures.c: tiny random models of every architecture against plain double precision. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <math.h>

#include "engine/plain/plain_transformer.h"
#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { TOKENS = 20, VOCAB_MOST = 1024 };

/* Relative to the spread of the logits. */
static double worst_error(const char *path, const mnem_engine_options *options) {
    static float ours[VOCAB_MOST];
    static double plain[VOCAB_MOST];
    session_case c;
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % 256;
    const mnem_status status = session_case_open(&c, path, 0, options);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    const int32_t vocab = session_case_vocab(&c);
    assert_true(vocab <= VOCAB_MOST);
    assert_int_equal(session_case_logits(&c, ids, TOKENS, ours), MNEM_OK);
    assert_true(plain_transformer_logits(c.model, ids, TOKENS, plain));
    double worst = 0, square = 0;
    for (int i = 0; i < vocab; i++) {
        worst = fmax(worst, fabs((double)ours[i] - plain[i]));
        square += plain[i] * plain[i];
    }
    session_case_close(&c);
    return worst / sqrt(square / vocab);
}

static void every_architecture_is_what_its_formulas_say(void **state) {
    (void)state;
    const struct {
        const char *arguments;
        double tolerance;
    } models[] = {
        {"--arch llama --heads 4 --kv-heads 2 --type F32", 2e-3},
        {"--arch llama --heads 4 --kv-heads 1 --type F32 --tied", 2e-3},
        {"--arch llama --heads 4 --kv-heads 4 --type F32 --rope-scaling llama3", 2e-3},
        {"--arch llama --heads 4 --kv-heads 2 --type F32 --rope-scaling linear", 2e-3},
        {"--arch llama --heads 4 --kv-heads 2 --type F16 --head-dim 32", 2e-3},
        {"--arch llama --heads 4 --kv-heads 2 --type BF16", 2e-2},
        {"--arch llama --heads 4 --kv-heads 2 --type F32 --vocab 391 --ff 104", 2e-3},
        {"--arch llama --heads 4 --kv-heads 2 --type Q8_0 --vocab 401 --tied", 8e-2},
        {"--arch llama --heads 4 --kv-heads 2 --type Q8_0", 8e-2},
        {"--arch llama --heads 4 --kv-heads 2 --type Q4_0 --output-type F16", 8e-2},
        {"--arch qwen2 --heads 4 --kv-heads 2 --type F32", 2e-3},
        {"--arch qwen2 --heads 4 --kv-heads 2 --type F32 --tied", 2e-3},
        {"--arch qwen2 --heads 4 --kv-heads 2 --type Q5_0", 8e-2},
        {"--arch qwen3 --heads 4 --kv-heads 2 --type F32", 2e-3},
        {"--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type F32 --tied", 2e-3},
        {"--arch qwen3 --heads 2 --kv-heads 1 --type Q8_0 --tied", 8e-2},
        {"--arch gpt2 --heads 4 --type F32 --tied", 2e-3},
        {"--arch gpt2 --heads 4 --type F32", 2e-3},
        {"--arch gpt2 --heads 4 --kv-heads 2 --head-dim 32 --type F32 --vocab 391", 2e-3},
        {"--arch gpt2 --heads 4 --type F16 --tied", 2e-3},
        {"--arch gpt2 --heads 4 --type BF16 --ff 104", 2e-2},
        {"--arch gpt2 --heads 4 --type Q8_0 --tied", 8e-2},
        {"--arch gpt2 --heads 2 --type Q4_0 --output-type F16", 8e-2},
    };
    const char *path = kit_path("made.gguf");
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        make_model(path, models[i].arguments);
        const mnem_engine_options f16 = {.context = 64, .threads = 2, .chunk = 7};
        const double error = worst_error(path, &f16);
        print_message("%-72s %.2g\n", models[i].arguments, error);
        assert_true(error < models[i].tolerance);
    }
}

/* Chunks, threads and streaming: the same bits for every weight type. */
static void every_type_gives_the_same_bits_in_any_memory(void **state) {
    const char *architecture = *state;
    static const char *const types[] = {"F32",   "F16",     "BF16",   "Q8_0",  "Q4_0",    "Q4_1",
                                        "Q5_0",  "Q5_1",    "Q4_K",   "Q5_K",  "Q6_K",    "Q2_K",
                                        "Q3_K",  "IQ4_NL",  "IQ4_XS", "MXFP4", "IQ2_XXS", "IQ2_XS",
                                        "IQ2_S", "IQ3_XXS", "IQ3_S"};
    static float first[VOCAB_MOST], other[VOCAB_MOST];
    const char *path = kit_path("made.gguf");
    char arguments[128];
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++) ids[i] = (i * 29 + 3) % 256;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        snprintf(arguments, sizeof arguments, "--arch %s --embd 256 --ff 512 --heads 4 --type %s",
                 architecture, types[i]);
        make_model(path, arguments);
        for (int variant = 0; variant < 3; variant++) {
            session_case c;
            const mnem_engine_options o = {
                .context = 64, .threads = 1 + variant, .chunk = variant == 0 ? 1 : 11 * variant};
            uint64_t budget = 0;
            if (variant == 2) { /* the least: everything streamed */
                assert_int_equal(session_case_open(&c, path, 1 << 18, &o), MNEM_OVER_BUDGET);
                budget = c.plan.needed_bytes;
            }
            assert_int_equal(session_case_open(&c, path, budget, &o), MNEM_OK);
            assert_int_equal(c.plan.streamed, variant == 2);
            assert_int_equal(session_case_logits(&c, ids, TOKENS, variant ? other : first),
                             MNEM_OK);
            const size_t bytes = (size_t)session_case_vocab(&c) * sizeof(float);
            session_case_close(&c);
            if (variant) assert_memory_equal(first, other, bytes);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_is_what_its_formulas_say),
        cmocka_unit_test_prestate(every_type_gives_the_same_bits_in_any_memory,
                                  (void *)(uintptr_t) "llama --kv-heads 2"),
        cmocka_unit_test_prestate(every_type_gives_the_same_bits_in_any_memory,
                                  (void *)(uintptr_t) "gpt2"),
        cmocka_unit_test_prestate(every_type_gives_the_same_bits_in_any_memory,
                                  (void *)(uintptr_t) "gemma2 --kv-heads 2"),
        cmocka_unit_test_prestate(every_type_gives_the_same_bits_in_any_memory,
                                  (void *)(uintptr_t) "phi3 --kv-heads 2"),
        cmocka_unit_test_prestate(every_type_gives_the_same_bits_in_any_memory,
                                  (void *)(uintptr_t) "olmo2 --kv-heads 2"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
