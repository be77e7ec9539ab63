/* test_prune.c: files with less in them: sizes, keys, zeros, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"
#include "model/gguf_forge.h"
#include "model/gguf_recipe.h"

#define OK(call)    assert_int_equal(call, MNEM_OK)
#define MODEL(type) MNEM_TEST_DATA "/model/kjv-5m-" type ".gguf"

static mnem_status prune(const char *from, const char *to, mnem_prune_options options) {
    return mnem_prune_file(from, to, &options);
}
#define PRUNE(from, to, ...) prune(from, to, (mnem_prune_options){__VA_ARGS__})

/* All rows of a tensor as floats; to free. */
static float *read_tensor(const mnem_model *model, const char *name, mnem_tensor_info *info) {
    const int32_t index = mnem_model_tensor_find(model, name);
    assert_true(index >= 0);
    mnem_model_tensor_get(model, (uint32_t)index, info);
    const int64_t k = info->shape[info->dims - 1];
    const uint64_t row = mnem_type_row_bytes(info->type, k), rows = info->bytes / row;
    uint8_t *raw = malloc(info->bytes);
    float *x = malloc(rows * (uint64_t)k * sizeof *x);
    assert_true(raw && x);
    OK(mnem_model_tensor_read(model, (uint32_t)index, 0, info->bytes, raw));
    for (uint64_t i = 0; i < rows; i++)
        OK(mnem_dequantize_row(info->type, k, raw + i * row, x + i * (uint64_t)k));
    free(raw);
    return x;
}

/* ---- what is left ---- */

static void sizes_follow_what_goes(void **state) {
    (void)state;
    static const struct {
        mnem_prune_options options;
        int32_t heads, kv_heads, ff, layers;
    } cases[] = {
        {{.heads = 0.25}, 6, 3, 768, 6},
        {{.heads = 0.5}, 4, 2, 768, 6},
        {{.ffn = 0.25}, 8, 4, 576, 6},
        {{.ffn = 0.03}, 8, 4, 736, 6}, /* 745 would be left */
        {{.layers = 0.17}, 8, 4, 768, 5},
        {{.heads = 0.99, .ffn = 0.99, .layers = 0.99}, 2, 1, 32, 1},
        {{.heads = 0.25, .ffn = 0.5, .layers = 0.5}, 6, 3, 384, 3},
    };
    const char *out = kit_path("out.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mnem_prune_plan plan;
        mnem_model *model;
        mnem_transformer t;
        mnem_model_info info;
        OK(mnem_prune_measure(MODEL("f16"), &cases[i].options, &plan));
        OK(mnem_prune_file(MODEL("f16"), out, &cases[i].options));
        OK(mnem_model_open(out, &model));
        OK(mnem_model_transformer(model, &t));
        mnem_model_info_get(model, &info);
        assert_int_equal(t.heads, cases[i].heads);
        assert_int_equal(t.kv_heads, cases[i].kv_heads);
        assert_int_equal(t.ff, cases[i].ff);
        assert_int_equal(t.layers, cases[i].layers);
        assert_int_equal(t.head_dim, 32);
        assert_int_equal(t.rope.dims, 32);
        assert_int_equal(plan.bytes_to, info.tensor_bytes);
        mnem_model_close(model);
    }
}

/* Readers that divide the embedding by the heads would be wrong now. */
static void lengths_of_heads_are_said(void **state) {
    (void)state;
    const char *out = kit_path("out.gguf");
    mnem_model *model;
    mnem_value v;
    OK(PRUNE(MODEL("f16"), out, .heads = 0.25));
    OK(mnem_model_open(out, &model));
    static const char *const keys[] = {"llama.attention.key_length", "llama.attention.value_length",
                                       "llama.rope.dimension_count"};
    for (int i = 0; i < 3; i++) {
        assert_true(mnem_model_key_find(model, keys[i], &v));
        assert_int_equal(v.u, 32);
    }
    mnem_model_close(model);
}

/* LFM2 says of each layer how many heads it has: 0 where it convolves. */
static void numbers_of_each_layer_go_with_it(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    const double influence[] = {0, 5, 4, 3, 2, 1};
    mnem_model *model;
    mnem_value v;
    make_model(in, "--arch lfm2 --heads 4 --kv-heads 2 --layers 6 --type F16");
    OK(PRUNE(in, out, .layers = 0.2, .influence = influence));
    OK(mnem_model_open(out, &model));
    assert_true(mnem_model_key_find(model, "lfm2.attention.head_count_kv", &v));
    assert_int_equal(v.count, 5);
    static const int left[] = {2, 0, 0, 2, 0}; /* of 0, 2, 0, 0, 2, 0 */
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(mnem_value_i64(&v, i), left[i]);
    mnem_model_close(model);
}

static void layers_of_least_influence_go(void **state) {
    (void)state;
    const double influence[] = {9, 1, 8, 7, 0, 6};
    mnem_prune_plan plan;
    OK(mnem_prune_measure(MODEL("f16"),
                          &(mnem_prune_options){.layers = 0.34, .influence = influence}, &plan));
    assert_int_equal(plan.layers_removed[0], 1 << 1 | 1 << 4);
}

/* Row i of what is left is a row of the source, the rows rise, and all matrices agree. */
static void rows_and_columns_that_stay_are_what_they_were(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    mnem_model *a, *b;
    mnem_tensor_info x, y;
    make_model(in, "--type F32 --heads 4 --ff 128");
    OK(PRUNE(in, out, .ffn = 0.5));
    OK(mnem_model_open(in, &a));
    OK(mnem_model_open(out, &b));
    float *up = read_tensor(a, "blk.1.ffn_up.weight", &x);
    float *up_left = read_tensor(b, "blk.1.ffn_up.weight", &y);
    float *down = read_tensor(a, "blk.1.ffn_down.weight", &x);
    float *down_left = read_tensor(b, "blk.1.ffn_down.weight", &y);
    int next = 0;
    for (int i = 0; i < 128 && next < 64; i++) {
        if (memcmp(up + (size_t)i * 64, up_left + (size_t)next * 64, 64 * sizeof *up) != 0)
            continue;
        for (int row = 0; row < 64; row++)
            assert_true(down[row * 128 + i] == down_left[row * 64 + next]);
        next++;
    }
    assert_int_equal(next, 64);
    free(up);
    free(up_left);
    free(down);
    free(down_left);
    mnem_model_close(a);
    mnem_model_close(b);
}

/* Heads are whole blocks of 32: what stays isn't rounded again. */
static void heads_of_quantized_models_stay_to_the_bit(void **state) {
    (void)state;
    const char *out = kit_path("out.gguf"), *floats = kit_path("floats.gguf");
    const char *other = kit_path("other.gguf");
    mnem_prune_plan plan;
    const mnem_prune_options heads = {.heads = 0.25}, channels = {.ffn = 0.25};
    OK(mnem_prune_measure(MODEL("q4_0"), &heads, &plan));
    assert_int_equal(plan.requantized, 0);
    OK(mnem_prune_measure(MODEL("q4_0"), &channels, &plan));
    assert_int_equal(plan.requantized, 6); /* ffn_down */
    OK(mnem_prune_file(MODEL("q4_0"), out, &heads));
    OK(mnem_quantize_file(out, floats, &(mnem_quantize_options){.type = "F32"}));
    OK(PRUNE(MODEL("q4_0"), other, .heads = 0.25, .type = "F32"));
    assert_same_files(floats, other);
}

/* ---- 2:4 ---- */

/* Of four numbers those of the two largest sizes, exactly; the type's rounding apart. */
static void check_zeros(const char *path, const char *name, const float *dense) {
    mnem_model *model;
    mnem_tensor_info info;
    OK(mnem_model_open(path, &model));
    float *x = read_tensor(model, name, &info);
    for (int64_t i = 0; i < info.shape[0] * info.shape[1]; i += 4) {
        int zeros = 0;
        float least = INFINITY, most = 0;
        for (int a = 0; a < 4; a++) {
            if (x[i + a] == 0) {
                zeros++;
                most = fmaxf(most, fabsf(dense[i + a]));
            } else {
                least = fminf(least, fabsf(dense[i + a]));
            }
        }
        if (zeros < 2) fail_msg("%s: %s: %d zeros at %lld", path, name, zeros, (long long)i);
        if (zeros == 2) assert_true(least >= most);
    }
    free(x);
    mnem_model_close(model);
}

static void two_of_four_are_exact_zeros_in_every_type(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    static const char *const types[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0",
                                        "Q5_0", "Q6_K", "Q3_K", "MXFP4"};
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.1.attn_output.weight",
                                        "blk.1.ffn_down.weight"};
    mnem_model *model;
    mnem_tensor_info info;
    make_model(in, "--type F16 --embd 256 --heads 4 --kv-heads 2 --ff 256");
    OK(mnem_model_open(in, &model));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        OK(PRUNE(in, out, .pattern = MNEM_PRUNE_2_4, .type = types[i]));
        for (int n = 0; n < 3; n++) {
            float *dense = read_tensor(model, names[n], &info);
            check_zeros(out, names[n], dense);
            free(dense);
        }
    }
    mnem_model_close(model);
}

/* What leads in and out, and what isn't a layer's matrix. */
static void ends_and_norms_stay_as_they_are(void **state) {
    (void)state;
    const char *out = kit_path("out.gguf");
    static const char *const names[] = {"token_embd.weight", "output_norm.weight",
                                        "blk.3.attn_norm.weight"};
    mnem_model *a, *b;
    mnem_tensor_info x, y;
    OK(PRUNE(MODEL("f16"), out, .pattern = MNEM_PRUNE_2_4));
    OK(mnem_model_open(MODEL("f16"), &a));
    OK(mnem_model_open(out, &b));
    for (int i = 0; i < 3; i++) {
        float *old = read_tensor(a, names[i], &x), *new = read_tensor(b, names[i], &y);
        assert_int_equal(x.type, y.type);
        const size_t rows = x.dims == 1 ? 1 : (size_t)x.shape[0];
        assert_memory_equal(old, new, rows * (size_t)x.shape[x.dims - 1] * sizeof *old);
        free(old);
        free(new);
    }
    mnem_model_close(a);
    mnem_model_close(b);
}

/* The largest of a block stays, and with it the block's scale: Q4_0 and Q8_0 lose no more. */
static void what_stays_of_a_quantized_model_is_what_it_was(void **state) {
    (void)state;
    const char *out = kit_path("out.gguf");
    static const char *const models[] = {MODEL("q4_0"),
                                         MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf"};
    mnem_model *a, *b;
    mnem_tensor_info info;
    for (int i = 0; i < 2; i++) {
        OK(PRUNE(models[i], out, .pattern = MNEM_PRUNE_2_4));
        OK(mnem_model_open(models[i], &a));
        OK(mnem_model_open(out, &b));
        float *old = read_tensor(a, "blk.2.ffn_up.weight", &info);
        float *new = read_tensor(b, "blk.2.ffn_up.weight", &info);
        for (int64_t n = 0; n < info.shape[0] * info.shape[1]; n++)
            if (new[n] != 0) assert_true(new[n] == old[n]);
        free(old);
        free(new);
        mnem_model_close(a);
        mnem_model_close(b);
    }
}

/* The inputs of two columns of each four are large; but for one matrix nothing is known. */
static mnem_imatrix *uses(const mnem_model *model, const char *unknown) {
    float sums[768];
    const float count = 1;
    mnem_tensor_info info;
    mnem_imatrix *imatrix;
    OK(mnem_imatrix_create(&imatrix));
    for (int i = 0; i < 768; i++) sums[i] = i % 4 < 2 ? 1e6f : 1e-6f;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
        if (info.dims == 2 && strcmp(info.name, unknown) != 0)
            OK(mnem_imatrix_add(imatrix, info.name, 1, info.shape[1], sums, &count));
    return imatrix;
}

static void what_inputs_use_stays(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    mnem_model *a, *b;
    mnem_tensor_info info;
    make_model(in, "--type F16 --embd 64 --heads 4 --ff 128");
    OK(mnem_model_open(in, &a));
    mnem_imatrix *imatrix = uses(a, "none");
    OK(PRUNE(in, out, .pattern = MNEM_PRUNE_2_4, .imatrix = imatrix));
    mnem_imatrix_destroy(imatrix);
    OK(mnem_model_open(out, &b));
    float *x = read_tensor(b, "blk.1.ffn_down.weight", &info);
    float *dense = read_tensor(a, "blk.1.ffn_down.weight", &info);
    for (int64_t i = 0; i < info.shape[0] * info.shape[1]; i++) {
        const float *four = dense + i / 4 * 4; /* a weight of 0 gives nothing */
        if (four[0] != 0 && four[1] != 0) assert_true((x[i] != 0) == (i % 4 < 2));
    }
    free(x);
    free(dense);
    mnem_model_close(b);
    imatrix = uses(a, "blk.1.ffn_down.weight");
    assert_int_equal(PRUNE(in, out, .ffn = 0.5, .imatrix = imatrix), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "has no tensor blk.1.ffn_down.weight"));
    mnem_imatrix_destroy(imatrix);
    mnem_model_close(a);
    OK(mnem_model_open(MODEL("f16"), &b)); /* another shape */
    imatrix = uses(b, "none");
    assert_int_equal(PRUNE(in, out, .ffn = 0.5, .imatrix = imatrix), MNEM_INVALID);
    mnem_imatrix_destroy(imatrix);
    mnem_model_close(b);
}

static void types_without_a_zero_are_refused(void **state) {
    (void)state;
    const char *out = kit_path("none.gguf");
    assert_int_equal(PRUNE(MODEL("q4_k_m"), out, .pattern = MNEM_PRUNE_2_4), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "which has no exact zero: choose Q4_0, Q8_0 or F16"));
    assert_int_equal(PRUNE(MODEL("f16"), out, .pattern = MNEM_PRUNE_2_4, .type = "Q4_1"),
                     MNEM_INVALID);
    OK(PRUNE(MODEL("q4_k_m"), out, .pattern = MNEM_PRUNE_2_4, .type = "Q8_0"));
}

/* ---- refused ---- */

static void refused(const char *from, mnem_prune_options options, mnem_status status,
                    const char *words) {
    const char *out = kit_path("refused.gguf");
    assert_int_equal(mnem_prune_file(from, out, &options), status);
    if (!strstr(mnem_last_error(), words)) fail_msg("no \"%s\": %s", words, mnem_last_error());
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_not_equal(access(kit_path("refused.gguf.mnem-tmp"), F_OK), 0);
}
#define REFUSED(from, status, words, ...)                                                          \
    refused(from, (mnem_prune_options){__VA_ARGS__}, status, words)

static void what_an_architecture_can_not_lose_is_named(void **state) {
    (void)state;
    static const struct {
        const char *arch, *words;
        mnem_prune_options options;
    } cases[] = {
        {"qwen2",
         "qwen2: pruning of heads is not supported (llama.cpp opens this architecture only with "
         "all heads)",
         {.heads = 0.5}},
        {"phi3", "phi3: pruning of heads is not supported", {.heads = 0.5}},
        {"gpt2", "gpt2: pruning of heads is not supported", {.heads = 0.5}},
        {"olmo2", "(a norm over all heads together): prune channels", {.heads = 0.5}},
        {"deepseek2", "(latent attention (MLA)): prune it to 2:4", {.heads = 0.5}},
        {"qwen3moe",
         "qwen3moe: pruning of channels is not supported (a mixture of experts)",
         {.ffn = 0.5}},
        {"gemma2",
         "gemma2: pruning of layers is not supported (a layer's index decides",
         {.layers = 0.5}},
        {"smollm3", "(a layer's index decides whether it has RoPE)", {.layers = 0.5}},
        {"deepseek2", "(a layer's index decides whether it has experts)", {.layers = 0.5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        const char *in = kit_path("in.gguf");
        snprintf(text, sizeof text, "--type F16 --arch %s --heads 4 --layers 4", cases[i].arch);
        make_model(in, text);
        refused(in, cases[i].options, MNEM_UNSUPPORTED, cases[i].words);
    }
}

static void nothing_and_too_much_are_refused_with_the_numbers(void **state) {
    (void)state;
    REFUSED(MODEL("f16"), MNEM_INVALID, "the options remove nothing", .threads = 1);
    REFUSED(MODEL("f16"), MNEM_INVALID,
            "5 % of 8 heads is less than one group: they are removed in groups of 2",
            .heads = 0.05);
    REFUSED(MODEL("f16"), MNEM_INVALID, "4 % of 6 layers is less than one group", .layers = 0.04);
    REFUSED(MODEL("f16"), MNEM_INVALID, "ffn 1 and layers 0, expected fractions", .ffn = 1);
    REFUSED(MODEL("f16"), MNEM_INVALID, "prune in two runs", .ffn = 0.5, .pattern = MNEM_PRUNE_2_4);
    REFUSED(MODEL("f16"), MNEM_INVALID, "type \"Q9\" is unknown", .ffn = 0.5, .type = "Q9");
}

static void numbers_that_are_not_finite_are_refused(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf");
    recipe_write(&(recipe){.fill = NAN}, in);
    REFUSED(in, MNEM_BAD_FILE, "aren't finite", .pattern = MNEM_PRUNE_2_4);
    recipe_write(&(recipe){.fill = NAN, .ff = 64}, in);
    REFUSED(in, MNEM_BAD_FILE, "layer 0 has numbers that aren't finite", .ffn = 0.5);
}

static void the_source_is_never_overwritten(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *link_to = kit_path("link.gguf");
    recipe_write(&(recipe){.ff = 64}, in);
    unlink(link_to);
    assert_int_equal(symlink(in, link_to), 0);
    assert_int_equal(PRUNE(in, link_to, .ffn = 0.5), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "would overwrite the model, which is an input"));
}

/* ---- running ---- */

static void threads_do_not_change_a_byte(void **state) {
    (void)state;
    const char *one = kit_path("one.gguf"), *three = kit_path("three.gguf");
    OK(PRUNE(MODEL("q4_0"), one, .ffn = 0.25, .threads = 1));
    OK(PRUNE(MODEL("q4_0"), three, .ffn = 0.25, .threads = 3));
    assert_same_files(one, three);
}

static bool stop(void *context, const char *what, uint64_t done, uint64_t total) {
    int *left = context;
    assert_true(done <= total && *what);
    return (*left)-- > 0;
}

static void stopping_leaves_nothing(void **state) {
    (void)state;
    for (int at = 0; at < 12; at += 4) {
        int left = at;
        REFUSED(MODEL("f16"), MNEM_CANCELLED, "prune: stopped", .ffn = 0.25, .layers = 0.2,
                .progress = {stop, &left});
    }
}

static void without_memory_pruning_fails_and_leaves_nothing(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    heap_sweep sweep = {.most = 99};
    mnem_status status;
    make_model(in, "--type F16 --heads 4 --kv-heads 2 --layers 4");
    do {
        heap_sweep_begin(&sweep, true);
        status = PRUNE(in, out, .heads = 0.5, .ffn = 0.5, .layers = 0.25, .threads = 2);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_what_goes),
        cmocka_unit_test(lengths_of_heads_are_said),
        cmocka_unit_test(numbers_of_each_layer_go_with_it),
        cmocka_unit_test(layers_of_least_influence_go),
        cmocka_unit_test(rows_and_columns_that_stay_are_what_they_were),
        cmocka_unit_test(heads_of_quantized_models_stay_to_the_bit),
        cmocka_unit_test(two_of_four_are_exact_zeros_in_every_type),
        cmocka_unit_test(ends_and_norms_stay_as_they_are),
        cmocka_unit_test(what_stays_of_a_quantized_model_is_what_it_was),
        cmocka_unit_test(what_inputs_use_stays),
        cmocka_unit_test(types_without_a_zero_are_refused),
        cmocka_unit_test(what_an_architecture_can_not_lose_is_named),
        cmocka_unit_test(nothing_and_too_much_are_refused_with_the_numbers),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(the_source_is_never_overwritten),
        cmocka_unit_test(threads_do_not_change_a_byte),
        cmocka_unit_test(stopping_leaves_nothing),
        cmocka_unit_test(without_memory_pruning_fails_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
