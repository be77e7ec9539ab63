/* test_hparams.c: the transformer that keys and tensors describe, and what is refused by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "model/gguf_forge.h"
#include "model/gguf_recipe.h"

/* Writes, opens and describes; the status of the description. */
static mnem_status describe(const recipe *r, mnem_transformer *t) {
    const char *path = kit_path("tiny.gguf");
    mnem_model *model;
    recipe_write(r, path);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    mnem_status status = mnem_model_transformer(model, t);
    mnem_model_close(model);
    return status;
}

static mnem_transformer described(const recipe *r) {
    mnem_transformer t;
    mnem_status status = describe(r, &t);
    if (status != MNEM_OK) fail_msg("%s", mnem_last_error());
    return t;
}

static void llama_is_described(void **state) {
    (void)state;
    mnem_transformer t = described(&(recipe){0});
    assert_string_equal(t.architecture, "llama");
    assert_int_equal(t.layers, 2);
    assert_int_equal(t.embd, 64);
    assert_int_equal(t.heads, 4);
    assert_int_equal(t.kv_heads, 2);
    assert_int_equal(t.head_dim, 16);
    assert_int_equal(t.ff, 96);
    assert_int_equal(t.vocab, 40);
    assert_int_equal(t.context, 128);
    assert_true(t.epsilon == 1e-5f);
    assert_int_equal(t.rope.dims, 16);
    assert_true(t.rope.base == 10000 && t.rope.scale == 1 && t.rope.yarn_ext == 0);
    assert_false(t.rope.neox || t.tied || t.qkv_bias || t.out_bias || t.qk_norm);
    assert_int_equal(t.rope_factors, -1);
}

static void architectures_differ_as_they_should(void **state) {
    (void)state;
    mnem_transformer t = described(&(recipe){.architecture = "mistral", .tied = true});
    assert_string_equal(t.architecture, "llama");
    assert_true(t.tied && !t.rope.neox);
    t = described(&(recipe){.architecture = "qwen2", .biases = true});
    assert_true(t.rope.neox && t.qkv_bias && !t.qk_norm);
    t = described(&(recipe){.architecture = "qwen3", .qk_norm = true});
    assert_true(t.rope.neox && !t.qkv_bias && t.qk_norm);
    t = described(&(recipe){.biases = true, .out_bias = true});
    assert_true(t.qkv_bias && t.out_bias);
}

static void gpt2_has_positions_and_biases_and_no_rope(void **state) {
    (void)state;
    mnem_transformer t = described(&(recipe){.architecture = "gpt2", .tied = true});
    assert_string_equal(t.architecture, "gpt2");
    assert_int_equal(t.rope.dims, 0);
    assert_true(t.tied && t.qkv_bias && t.out_bias && !t.qk_norm);
    assert_true(t.epsilon == 1e-5f && t.rope_factors == -1);
    assert_false(described(&(recipe){.architecture = "gpt2"}).tied);
    static const char *const names[] = {
        ".attention.layer_norm_epsilon", "position_embd.weight",     "output_norm.bias",
        "blk.0.attn_norm.bias",          "blk.1.attn_qkv.weight",    "blk.0.attn_qkv.bias",
        "blk.1.attn_output.bias",        "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
        "blk.1.ffn_norm.bias",           "blk.0.ffn_up.weight",      "blk.0.ffn_up.bias",
        "blk.1.ffn_down.weight",         "blk.1.ffn_down.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(describe(&(recipe){.architecture = "gpt2", .omit = names[i]}, &t),
                         MNEM_BAD_FILE);
        if (!strstr(mnem_last_error(), names[i]) || !strstr(mnem_last_error(), "missing"))
            fail_msg("%s: %s", names[i], mnem_last_error());
    }
}

static void scalings_of_rope_are_read(void **state) {
    (void)state;
    const char *path = kit_path("tiny.gguf");
    mnem_transformer t =
        described(&(recipe){.key = ".rope.scaling.factor", .value = recipe_f32(4)});
    assert_true(t.rope.scale == 0.25f && t.rope.yarn_ext == 0); /* no type: linear */
    t = described(&(recipe){.key = ".rope.scale_linear", .value = recipe_f32(2)});
    assert_true(t.rope.scale == 0.5f);
    t = described(&(recipe){.key = ".rope.scaling.type", .value = recipe_text("yarn")});
    assert_true(t.rope.yarn_ext == 1 && t.rope.yarn_attn == 1);
    assert_true(t.rope.yarn_beta_fast == 32 && t.rope.yarn_beta_slow == 1);
    assert_int_equal(t.rope.original_context, 128);
    t = described(
        &(recipe){.tensor = "rope_freqs.weight", .type = MNEM_TYPE_F32, .dims = 1, .shape = {8}});
    mnem_model *model;
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    assert_int_equal(t.rope_factors, mnem_model_tensor_find(model, "rope_freqs.weight"));
    assert_true(t.rope_factors >= 0);
    mnem_model_close(model);
}

static void a_window_does_not_limit_the_context(void **state) {
    (void)state;
    const char *key = ".attention.sliding_window";
    const mnem_transformer t = described(&(recipe){.key = key, .value = recipe_u32(32)});
    assert_int_equal(t.context, 128);
    assert_int_equal(t.window, 32);
    assert_int_equal(t.windowed.kind, MNEM_LAYERS_ALL);
    assert_int_equal(described(&(recipe){.key = key, .value = recipe_u32(0)}).window, 0);
}

/* A window of 32, and which layers have it. */
static mnem_status describe_pattern(int32_t first, int32_t second, mnem_transformer *t) {
    const int32_t flags[] = {first, second};
    const mnem_value v = {
        .type = MNEM_VALUE_ARRAY, .element = MNEM_VALUE_I32, .count = 2, .elements = flags};
    const char *key = ".attention.sliding_window_pattern";
    return describe(&(recipe){.key = key, .value = v, .window = 32}, t);
}

static void windows_of_layers_follow_a_period_or_a_list(void **state) {
    (void)state;
    mnem_transformer t;
    assert_int_equal(describe_pattern(1, 0, &t), MNEM_OK);
    assert_true(t.window == 32 && t.windowed.kind == MNEM_LAYERS_BUT_EVERY && t.windowed.n == 2);
    assert_int_equal(describe_pattern(1, 1, &t), MNEM_OK);
    assert_true(t.window == 32 && t.windowed.kind == MNEM_LAYERS_ALL);
    assert_int_equal(describe_pattern(0, 0, &t), MNEM_OK);
    assert_int_equal(t.window, 0);
    assert_int_equal(describe_pattern(0, 1, &t), MNEM_OK);
    assert_true(t.window == 32 && t.windowed.kind == MNEM_LAYERS_LIST);
    assert_true(!mnem_layer_is(&t.windowed, 0) && mnem_layer_is(&t.windowed, 1));
    const int32_t three[] = {1, 1, 0};
    const mnem_value v = {
        .type = MNEM_VALUE_ARRAY, .element = MNEM_VALUE_I32, .count = 3, .elements = three};
    const char *key = ".attention.sliding_window_pattern";
    assert_int_equal(describe(&(recipe){.key = key, .value = v, .window = 32}, &t), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "expected a list of 2 booleans"));
    key = ".rope.freq_base_swa";
    const recipe r = {.key = key, .value = recipe_f32(1e-9f), .window = 32};
    assert_int_equal(describe(&r, &t), MNEM_BAD_FILE);
}

static void equal_layers_may_come_as_an_array(void **state) {
    (void)state;
    int32_t same[] = {4, 4}, differ[] = {4, 2};
    mnem_value v = {
        .type = MNEM_VALUE_ARRAY, .element = MNEM_VALUE_I32, .count = 2, .elements = same};
    mnem_transformer t = described(&(recipe){.key = ".attention.head_count", .value = v});
    assert_int_equal(t.heads, 4);
    v.elements = differ;
    assert_int_equal(describe(&(recipe){.key = ".attention.head_count", .value = v}, &t),
                     MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "differs between layers (4 and 2)"));
}

/* Sections of RoPE, or a status that is not MNEM_OK, whose error has the text. */
static void check_sections(const char *architecture, int32_t first, int32_t last,
                           mnem_status status, const char *text) {
    const int32_t sections[] = {first, 2, 2, last};
    mnem_transformer t;
    const mnem_value v = {
        .type = MNEM_VALUE_ARRAY, .element = MNEM_VALUE_I32, .count = 4, .elements = sections};
    const recipe r = {.architecture = architecture,
                      .key = ".rope.dimension_sections",
                      .value = v,
                      .qk_norm = strcmp(architecture, "qwen3vl") == 0};
    assert_int_equal(describe(&r, &t), status);
    if (text && !strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
}

static void sections_are_read_where_texts_do_not_need_them(void **state) {
    (void)state;
    check_sections("qwen3vl", 4, 0, MNEM_OK, NULL);
    check_sections("qwen3vl", 4, 2, MNEM_UNSUPPORTED, "dimension_sections: RoPE in four sections");
    check_sections("llama", 4, 0, MNEM_UNSUPPORTED, "isn't supported in this architecture");
    mnem_transformer t;
    assert_int_equal(
        describe(&(recipe){.key = ".rope.dimension_sections", .value = recipe_u32(4)}, &t),
        MNEM_BAD_FILE);
}

/* ---- refused ---- */

typedef struct refusal {
    recipe r;
    mnem_status status;
    const char *text[2];
} refusal;

static void refuses(const refusal *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        mnem_transformer t;
        mnem_status status = describe(&cases[i].r, &t);
        if (status != cases[i].status)
            fail_msg("case %zu: %s: %s", i, mnem_status_text(status), mnem_last_error());
        for (int k = 0; k < 2 && cases[i].text[k]; k++)
            if (!strstr(mnem_last_error(), cases[i].text[k]))
                fail_msg("case %zu: \"%s\" isn't in: %s", i, cases[i].text[k], mnem_last_error());
    }
}

#define KEY(name, what) .r = {.key = name, .value = what}
#define TENSOR(name, kind, count, ...)                                                             \
    .r = {.tensor = name, .type = MNEM_TYPE_##kind, .dims = count, .shape = {__VA_ARGS__}}

static void numbers_out_of_range_are_named(void **state) {
    (void)state;
    const float nan = NAN, inf = INFINITY;
    const refusal cases[] = {
        {KEY(".block_count", recipe_u32(0)), MNEM_BAD_FILE, {"llama.block_count: is 0"}},
        {KEY(".block_count", recipe_u32(1u << 31)), MNEM_BAD_FILE, {"llama.block_count"}},
        {KEY(".block_count", recipe_u32(3)), MNEM_BAD_FILE, {"blk.2.attn_norm", "missing"}},
        {KEY(".block_count", recipe_u32(1)), MNEM_BAD_FILE, {"blk.1.", "says 1 layers"}},
        {KEY(".block_count", recipe_f32(2)), MNEM_BAD_FILE, {"of type f32, expected an integer"}},
        {KEY(".embedding_length", recipe_u32(0)), MNEM_BAD_FILE, {"embedding_length: is 0"}},
        {KEY(".embedding_length", recipe_u32(1u << 30)), MNEM_BAD_FILE, {"embedding_length"}},
        {KEY(".embedding_length", recipe_u32(128)), MNEM_BAD_FILE, {"token_embd.weight: shape"}},
        {KEY(".feed_forward_length", recipe_u32(UINT32_MAX)), MNEM_BAD_FILE, {"feed_forward"}},
        {KEY(".context_length", recipe_u32(0)), MNEM_BAD_FILE, {"context_length: is 0"}},
        {KEY(".attention.head_count", recipe_u32(0)), MNEM_BAD_FILE, {"head_count: is 0"}},
        {KEY(".attention.head_count_kv", recipe_u32(3)),
         MNEM_BAD_FILE,
         {"divisor of 4, the number of query heads"}},
        {KEY(".attention.head_count_kv", recipe_u32(8)), MNEM_BAD_FILE, {"is 8, expected 1 to 4"}},
        {KEY(".attention.key_length", recipe_u32(17)), MNEM_BAD_FILE, {"even number"}},
        {KEY(".attention.key_length", recipe_u32(8)), MNEM_UNSUPPORTED, {"value_length", "16"}},
        {KEY(".attention.layer_norm_rms_epsilon", recipe_f32(nan)),
         MNEM_BAD_FILE,
         {"layer_norm_rms_epsilon: is nan"}},
        {KEY(".attention.layer_norm_rms_epsilon", recipe_f32(0)), MNEM_BAD_FILE, {"epsilon"}},
        {KEY(".attention.layer_norm_rms_epsilon", recipe_f32(-1)), MNEM_BAD_FILE, {"is -1"}},
        {KEY(".rope.freq_base", recipe_f32(inf)), MNEM_BAD_FILE, {"rope.freq_base: is inf"}},
        {KEY(".rope.freq_base", recipe_f32(0)), MNEM_BAD_FILE, {"rope.freq_base: is 0"}},
        {KEY(".rope.dimension_count", recipe_u32(5)), MNEM_BAD_FILE, {"is 5", "even"}},
        {KEY(".rope.dimension_count", recipe_u32(18)), MNEM_BAD_FILE, {"is 18"}},
        {KEY(".rope.scaling.factor", recipe_f32(-2)), MNEM_BAD_FILE, {"scaling.factor: is -2"}},
        {KEY(".rope.scaling.factor", recipe_f32(nan)), MNEM_BAD_FILE, {"scaling.factor: is nan"}},
        {KEY(".vocab_size", recipe_u32(41)),
         MNEM_BAD_FILE,
         {"llama.vocab_size: says 41", "40 rows"}},
        {KEY("general.architecture", recipe_u32(1)), MNEM_BAD_FILE, {"of type u32"}},
    };
    refuses(cases, sizeof cases / sizeof *cases);
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    static const char *const names[] = {"general.architecture",
                                        ".block_count",
                                        ".embedding_length",
                                        ".feed_forward_length",
                                        ".context_length",
                                        ".attention.head_count",
                                        ".attention.layer_norm_rms_epsilon",
                                        "token_embd.weight",
                                        "output_norm.weight",
                                        "blk.0.attn_norm.weight",
                                        "blk.1.attn_q.weight",
                                        "blk.0.attn_k.weight",
                                        "blk.1.attn_v.weight",
                                        "blk.0.attn_output.weight",
                                        "blk.1.ffn_norm.weight",
                                        "blk.0.ffn_gate.weight",
                                        "blk.1.ffn_up.weight",
                                        "blk.1.ffn_down.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mnem_transformer t;
        assert_int_equal(describe(&(recipe){.omit = names[i]}, &t), MNEM_BAD_FILE);
        if (!strstr(mnem_last_error(), names[i]) || !strstr(mnem_last_error(), "missing"))
            fail_msg("%s: %s", names[i], mnem_last_error());
    }
    const refusal cases[] = {
        {KEY(".rope.scaling.type", recipe_text("longrope")),
         MNEM_BAD_FILE,
         {"longrope", "rope_factors_long"}},
        {.r = {.architecture = "gemma2"}, MNEM_BAD_FILE, {"post_attention_norm.weight"}},
        {.r = {.architecture = "qwen2"}, MNEM_BAD_FILE, {"blk.0.attn_q.bias: is missing"}},
        {.r = {.architecture = "qwen3"}, MNEM_BAD_FILE, {"blk.0.attn_q_norm.weight: is missing"}},
        {.r = {.biases = true, .omit = "blk.1.attn_v.bias"}, MNEM_BAD_FILE, {"blk.1.attn_v.bias"}},
    };
    refuses(cases, sizeof cases / sizeof *cases);
}

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    const refusal cases[] = {
        {.r = {.architecture = "rwkv7"}, MNEM_UNSUPPORTED, {"\"rwkv7\" isn't supported"}},
        {.r = {.architecture = "qwen3", .key = ".expert_count", .value = recipe_u32(8)},
         MNEM_UNSUPPORTED,
         {"only 0 is supported"}},
        {TENSOR("blk.0.ffn_gate_exps.weight", F32, 3, 2, 4, 4),
         MNEM_UNSUPPORTED,
         {"ffn_gate_exps", "has no experts"}},
        {KEY(".rope.scaling.type", recipe_text("dynamic")), MNEM_UNSUPPORTED, {"\"dynamic\""}},
        {KEY(".rope.scaling.attn_factor", recipe_f32(2)),
         MNEM_UNSUPPORTED,
         {"only with RoPE scaling yarn"}},
        {KEY(".attention.causal", ((mnem_value){.type = MNEM_VALUE_BOOL, .count = 1})),
         MNEM_UNSUPPORTED,
         {"attention.causal"}},
        {KEY(".final_logit_softcapping", recipe_f32(30)), MNEM_UNSUPPORTED, {"softcapping: is 30"}},
        {KEY(".logit_scale", recipe_f32(0.5f)), MNEM_UNSUPPORTED, {"logit_scale"}},
        {TENSOR("blk.0.ffn_up.bias", F32, 1, 96), MNEM_UNSUPPORTED, {"blk.0.ffn_up.bias"}},
        {TENSOR("strange.weight", F32, 1, 96), MNEM_UNSUPPORTED, {"strange.weight"}},
        {TENSOR("blk.0.attn_q_norm.weight", F32, 1, 16), MNEM_UNSUPPORTED, {"attn_q_norm"}},
        {TENSOR("blk.1.attn_norm.weight", F16, 1, 64), MNEM_UNSUPPORTED, {"F16", "F32"}},
    };
    refuses(cases, sizeof cases / sizeof *cases);
}

static void what_gpt2_cannot_be_is_named(void **state) {
    (void)state;
#define GPT2(name, kind, count, ...)                                                               \
    .r = {                                                                                         \
        .architecture = "gpt2",                                                                    \
        .tensor = name,                                                                            \
        .type = MNEM_TYPE_##kind,                                                                  \
        .dims = count,                                                                             \
        .shape = {__VA_ARGS__}                                                                     \
    }
    const refusal cases[] = {
        {GPT2("position_embd.weight", F32, 2, 127, 64),
         MNEM_BAD_FILE,
         {"position_embd.weight: shape [127, 64], expected [128, 64]"}},
        {GPT2("blk.1.attn_qkv.weight", F32, 2, 192, 64),
         MNEM_BAD_FILE,
         {"shape [192, 64], expected [128, 64]"}},
        {GPT2("blk.0.ffn_up.bias", F16, 1, 96), MNEM_UNSUPPORTED, {"blk.0.ffn_up.bias: type F16"}},
        {GPT2("blk.0.ffn_gate.weight", F32, 2, 96, 64), MNEM_UNSUPPORTED, {"ffn_gate.weight"}},
        {GPT2("rope_freqs.weight", F32, 1, 8), MNEM_UNSUPPORTED, {"rope_freqs.weight"}},
        {TENSOR("position_embd.weight", F32, 2, 128, 64), MNEM_UNSUPPORTED, {"position_embd"}},
        {TENSOR("blk.0.attn_qkv.weight", F32, 2, 128, 64), MNEM_UNSUPPORTED, {"attn_qkv"}},
    };
#undef GPT2
    refuses(cases, sizeof cases / sizeof *cases);
}

static void wrong_shapes_and_types_are_named(void **state) {
    (void)state;
    const refusal cases[] = {
        {TENSOR("blk.0.attn_q.weight", F32, 2, 64, 32),
         MNEM_BAD_FILE,
         {"shape [64, 32], expected [64, 64]"}},
        {TENSOR("blk.1.ffn_down.weight", F32, 2, 96, 64), MNEM_BAD_FILE, {"expected [64, 96]"}},
        {TENSOR("blk.1.ffn_norm.weight", F32, 2, 1, 64), MNEM_BAD_FILE, {"expected [64]"}},
        {TENSOR("output.weight", F32, 2, 39, 64), MNEM_BAD_FILE, {"expected [40, 64]"}},
        {TENSOR("output.weight", F32, 1, 64), MNEM_BAD_FILE, {"expected [40, 64]"}},
        {TENSOR("token_embd.weight", F32, 3, 1, 40, 64), MNEM_BAD_FILE, {"token_embd.weight"}},
        {TENSOR("blk.0.attn_k.weight", I32, 2, 32, 64), MNEM_UNSUPPORTED, {"type I32"}},
        {TENSOR("rope_freqs.weight", F32, 1, 7), MNEM_BAD_FILE, {"rope_freqs", "expected [8]"}},
    };
    refuses(cases, sizeof cases / sizeof *cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_is_described),
        cmocka_unit_test(architectures_differ_as_they_should),
        cmocka_unit_test(gpt2_has_positions_and_biases_and_no_rope),
        cmocka_unit_test(scalings_of_rope_are_read),
        cmocka_unit_test(a_window_does_not_limit_the_context),
        cmocka_unit_test(windows_of_layers_follow_a_period_or_a_list),
        cmocka_unit_test(equal_layers_may_come_as_an_array),
        cmocka_unit_test(sections_are_read_where_texts_do_not_need_them),
        cmocka_unit_test(numbers_out_of_range_are_named),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(what_gpt2_cannot_be_is_named),
        cmocka_unit_test(wrong_shapes_and_types_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
