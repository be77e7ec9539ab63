/* test_mixtures.c: files with experts: what is refused by name, what a mix of types gives them, and
 * that nobody trains them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "mnem/supports.h"
#include "model/architecture/architecture.h"

static const char *path_of(const char *what) {
    static char paths[2][64];
    static int at;
    char *path = paths[at++ & 1];
    snprintf(path, sizeof paths[0], "/tmp/mnem_test_mixtures_%d_%s.gguf", (int)getpid(), what);
    return path;
}

static const char *make(const char *arguments) {
    const char *path = path_of("made");
    make_model(path, arguments);
    return path;
}

static mnem_status describe(const char *path, mnem_transformer *t) {
    mnem_model *model;
    must(mnem_model_open(path, &model));
    const mnem_status status = mnem_model_transformer(model, t);
    mnem_model_close(model);
    return status;
}

static void numbers_of_a_mixture_are_read(void **state) {
    (void)state;
    mnem_transformer t;
    must(describe(make("--arch qwen2moe --experts 12 --experts-used 5 --ff-expert 32 --type F32"),
                  &t));
    assert_true(t.experts == 12 && t.route.used == 5 && t.ff_expert == 32 && t.ff_shared == 32);
    assert_false(t.route.normalized);
    must(describe(make("--arch deepseek2 --heads 4 --ff-expert 32 --type F32"), &t));
    assert_true(t.latent == 16 && t.key_dim == 24 && t.value_dim == 16 && t.head_dim == 24);
    assert_true(t.leading.n == 1 && t.latent_q == 0 && t.kv_heads == 1);
    must(describe(make("--arch mixtral --type F32"), &t));
    assert_true(t.experts == 8 && t.route.normalized);
    remove(path_of("made"));
}

static void what_experts_cannot_be_is_named(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        mnem_status status;
        const char *text;
    } cases[] = {
        {"--arch olmoe --ff-expert 24", MNEM_UNSUPPORTED, "a multiple of 16"},
        {"--arch olmoe --experts 4 --experts-used 5", MNEM_BAD_FILE, "expert_used_count"},
        {"--arch olmoe --experts 4 --experts-used 0", MNEM_BAD_FILE, "expert_used_count"},
        {"--arch olmoe --experts 600", MNEM_UNSUPPORTED, "expert_count"},
        {"--arch deepseek2 --head-dim 8 --ff-expert 32", MNEM_UNSUPPORTED, "kv_lora_rank"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mnem_transformer t;
        assert_int_equal(describe(make(cases[i].arguments), &t), cases[i].status);
        if (!strstr(mnem_last_error(), cases[i].text)) fail_msg("%s", mnem_last_error());
    }
    remove(path_of("made"));
}

static void mixtures_are_not_trained(void **state) {
    (void)state;
    for (int i = 0; mnem__architecture_get(i); i++) {
        const mnem__architecture *a = mnem__architecture_get(i);
        mnem_transformer t = {.layers = 2};
        snprintf(t.architecture, sizeof t.architecture, "%s", a->names[0]);
        const char *why = mnem_support_get(&t, MNEM_FEATURE_TRAIN_ADAPTERS).reason;
        if (a->takes & MNEM__TAKES_LATENT)
            assert_non_null(why);
        else if (a->takes & MNEM__TAKES_EXPERTS)
            assert_string_equal(why, "a mixture of experts");
    }
}

/* ---- quantize ---- */

static mnem_tensor_info tensor_of(const mnem_model *model, const char *name) {
    mnem_tensor_info info = {0};
    mnem_model_tensor_get(model, (uint32_t)mnem_model_tensor_find(model, name), &info);
    assert_non_null(info.name);
    return info;
}

static uint8_t *bytes_of(const mnem_model *model, const char *name) {
    const mnem_tensor_info info = tensor_of(model, name);
    uint8_t *bytes = malloc(info.bytes);
    assert_non_null(bytes);
    must(mnem_model_tensor_read(model, (uint32_t)mnem_model_tensor_find(model, name), 0, info.bytes,
                                bytes));
    return bytes;
}

static void each_expert_is_quantized_by_rows_and_routers_stay(void **state) {
    (void)state;
    static const char name[] = "blk.1.ffn_up_exps.weight";
    const char *from = make("--arch gpt-oss --ff-expert 32 --type F32"), *to = path_of("small");
    mnem_model *whole, *small;
    must(mnem_quantize_file(from, to, &(mnem_quantize_options){.type = "MXFP4", .threads = 2}));
    must(mnem_model_open(from, &whole));
    must(mnem_model_open(to, &small));
    const mnem_tensor_info info = tensor_of(small, name);
    assert_true(info.type == MNEM_TYPE_MXFP4 && info.dims == 3);
    assert_true(info.shape[0] == 8 && info.shape[1] == 32 && info.shape[2] == 64);
    uint8_t *rows = bytes_of(whole, name), *quantized = bytes_of(small, name);
    const uint64_t row = mnem_type_row_bytes(MNEM_TYPE_MXFP4, 64);
    for (uint64_t r = 0; r < 8 * 32; r++) {
        uint8_t expected[64];
        must(
            mnem_quantize_row(MNEM_TYPE_MXFP4, 64, (const float *)(void *)rows + r * 64, expected));
        assert_memory_equal(quantized + r * row, expected, row);
    }
    assert_int_equal(tensor_of(small, "blk.1.ffn_gate_inp.weight").type, MNEM_TYPE_F32);
    assert_int_equal(tensor_of(small, "blk.1.ffn_up_exps.bias").type, MNEM_TYPE_F32);
    assert_int_equal(tensor_of(small, "blk.1.attn_sinks.weight").type, MNEM_TYPE_F32);
    free(rows), free(quantized);
    mnem_model_close(whole);
    mnem_model_close(small);
    remove(from), remove(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_a_mixture_are_read),
        cmocka_unit_test(what_experts_cannot_be_is_named),
        cmocka_unit_test(mixtures_are_not_trained),
        cmocka_unit_test(each_expert_is_quantized_by_rows_and_routers_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
