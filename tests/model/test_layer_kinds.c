/* test_layer_kinds.c: models whose layers differ (lfm2) and encoders (bert): what their keys say,
 * what lies is named, quantizing and training know them. The stored files are patched in place. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/mnem.h"
#include "mnem/supports.h"
#include "model/architecture/architecture.h"

#define LFM2     MNEM_TEST_DATA "/architectures/lfm2.gguf" /* conv, attention, conv */
#define DEEPSEEK MNEM_TEST_DATA "/architectures/deepseek2.gguf"
#define GLM      MNEM_TEST_DATA "/architectures/glm4moe_norms.gguf" /* 3 layers */
#define GEMMA    MNEM_TEST_DATA "/architectures/gemma4.gguf" /* of three layers two with windows */
#define STEP     MNEM_TEST_DATA "/architectures/step35_ahead.gguf"
#define ROWS     MNEM_TEST_DATA "/architectures/gemma4_rows.gguf" /* so too; the last three share */
#define WIDE     MNEM_TEST_DATA "/architectures/gemma4_wide.gguf" /* full, window, ...; two share */
#define MOE      MNEM_TEST_DATA "/architectures/gemma4_moe.gguf"
#define INDEXED  MNEM_TEST_DATA "/architectures/glm_dsa_shared.gguf" /* but for layer 1 */
#define NEMOTRON MNEM_TEST_DATA "/architectures/nemotron_h_moe.gguf"
#define BERT     MNEM_TEST_DATA "/architectures/bert.gguf"

/* Behind the key's text, its type and, of an array, the type and number of its elements. */
static char *value_of(char *bytes, size_t n, const char *key, size_t skip) {
    char *at = memmem(bytes, n, key, strlen(key));
    assert_non_null(at);
    return at + strlen(key) + skip;
}

/* Describes a copy in which the key's value begins with these bytes. */
static mnem_status describe(const char *from, const char *key, size_t skip, const void *value,
                            size_t value_bytes) {
    size_t n;
    char *bytes = read_file(from, &n);
    mnem_model *model;
    mnem_transformer t;
    memcpy(value_of(bytes, n, key, skip), value, value_bytes);
    write_file(kit_path("patched.gguf"), bytes, n);
    free(bytes);
    must(mnem_model_open(kit_path("patched.gguf"), &model));
    const mnem_status status = mnem_model_transformer(model, &t);
    mnem_model_close(model);
    return status;
}

enum { NUMBER = 4, ARRAY = 16 }; /* what lies before a value */

static void refused(mnem_status status, mnem_status wanted, const char *text) {
    assert_int_equal(status, wanted);
    if (!strstr(mnem_last_error(), text)) fail_msg("\"%s\": %s", text, mnem_last_error());
}

static void heads_of(const int32_t heads[3], mnem_status wanted, const char *text) {
    refused(describe(LFM2, "attention.head_count_kv", ARRAY, heads, 3 * sizeof *heads), wanted,
            text);
}

static mnem_transformer described(const char *from) {
    mnem_model *model;
    mnem_transformer t;
    must(mnem_model_open(from, &model));
    must(mnem_model_transformer(model, &t));
    mnem_model_close(model);
    return t;
}

static void layers_without_kv_heads_convolve(void **state) {
    (void)state;
    const mnem_transformer t = described(LFM2);
    assert_int_equal(t.layers, 3);
    assert_int_equal(t.conv_length, 3);
    assert_int_equal(t.convolving.list[0], 1 | 4);
    assert_int_equal(t.kv_heads, 2);
    assert_false(t.encoder);
    assert_true(mnem__layer_is(&t, 0, MNEM__LAYERS_CONV));
    assert_true(mnem__layer_is(&t, 1, MNEM__LAYERS_ATTENTION));
    assert_false(mnem__layer_is(&t, 1, MNEM__LAYERS_CONV));
}

static void layers_that_lie_are_named(void **state) {
    (void)state;
    heads_of((const int32_t[]){1, 2, 0}, MNEM_UNSUPPORTED, "layer 1 is 2, expected 0 or 1");
    heads_of((const int32_t[]){0, -2, 0}, MNEM_BAD_FILE, "layer 1 is -2, expected 0 or 4");
    heads_of((const int32_t[]){0, 8, 0}, MNEM_BAD_FILE, "layer 1 is 8, expected 0 or 4");
    heads_of((const int32_t[]){0, 0, 0}, MNEM_BAD_FILE,
             "blk.1.shortconv.in_proj.weight: is missing");
    heads_of((const int32_t[]){2, 2, 0}, MNEM_UNSUPPORTED,
             "blk.0.shortconv.in_proj.weight: isn't supported in this layer");
    heads_of((const int32_t[]){0, 1, 0}, MNEM_BAD_FILE, "blk.1.attn_k.weight: shape [16, 32]");
}

static void layers_with_a_window_have_heads_of_their_own(void **state) {
    (void)state;
    const mnem_transformer t = described(GEMMA), wide = described(WIDE);
    assert_int_equal(t.head_dim, 16);
    assert_int_equal(t.window_head_dim, 8);
    assert_int_equal(t.window_rope_dims, 8);
    assert_int_equal(t.kv_heads, 1);
    assert_int_equal(t.window_kv_heads, 2);
    assert_true(t.values_are_keys);
    assert_true(mnem__layer_is(&t, 0, MNEM__LAYERS_VALUED));
    assert_false(mnem__layer_is(&t, 2, MNEM__LAYERS_VALUED));
    assert_int_equal(wide.kv_shared_layers, 2);
    assert_int_equal(wide.ff, 40);
    assert_int_equal(wide.ff_wide, 80);
    assert_int_equal(wide.wide.list[0], 16 | 32);
    assert_int_equal(wide.layer_embd, 8);
    assert_int_equal(mnem__layer_keys(&wide, 3), 3);
    assert_int_equal(mnem__layer_keys(&wide, 4), 2); /* the last without a window */
    assert_int_equal(mnem__transformer_as_layer(&wide, 4).ff, 80);
    assert_int_equal(mnem__transformer_as_layer(&t, 1).head_dim, 8);
}

static void kinds_of_layers_that_lie_are_named(void **state) {
    (void)state;
    const int32_t four = 4, eight = 8, nine = 9, twelve = 12, third[4] = {40, 40, 40, 41};
    const int32_t mixed[2] = {2, 1}, three[1] = {3};
    refused(describe(GEMMA, "attention.head_count_kv", ARRAY, mixed, sizeof mixed),
            MNEM_UNSUPPORTED, "layer 1 is 1, expected the number for earlier layers of its kind");
    refused(describe(GEMMA, "attention.head_count_kv", ARRAY, three, sizeof three), MNEM_BAD_FILE,
            "layer 0 is 3, expected a divisor of 4, its number of query heads");
    refused(describe(WIDE, "gemma4.feed_forward_length", ARRAY, third, sizeof third),
            MNEM_UNSUPPORTED, "and at most two different numbers in the list");
    refused(describe(ROWS, "attention.shared_kv_layers", NUMBER, &four, 4), MNEM_BAD_FILE,
            "window), but there is none for layer 2");
    refused(describe(ROWS, "embedding_length_per_layer_input", NUMBER, &eight, 4), MNEM_BAD_FILE,
            "per_layer_token_embd.weight: shape [96, 96], expected [96, 48]");
    refused(describe(STEP, "attention.head_count", ARRAY, &twelve, 4), MNEM_UNSUPPORTED,
            "head_count: the number for layer 2 is 8, expected the number for earlier layers of "
            "its kind");
    refused(describe(STEP, "attention.head_count", ARRAY, &nine, 4), MNEM_BAD_FILE,
            "layer 0 is 4, expected a divisor of 9, its number of query heads");
    refused(describe(GEMMA, "attention.key_length_swa", NUMBER, &nine, 4), MNEM_UNSUPPORTED,
            "an even number");
    refused(describe(MOE, "blk.0.ffn_", 0, "Xate_up_exps", 1), MNEM_UNSUPPORTED,
            "expected in one tensor, ffn_gate_up_exps");
    refused(describe(NEMOTRON, "blk.1.ffn_", 0, "X", 1), MNEM_UNSUPPORTED,
            "isn't supported: experts of this architecture have no such tensor");
}

static void lengths_of_a_convolution_are_checked(void **state) {
    (void)state;
    static const struct {
        int32_t length;
        mnem_status status;
        const char *text;
    } cases[] = {
        {17, MNEM_UNSUPPORTED, "is 17, expected 2 to 16; mnem does not support this model: use"},
        {1, MNEM_BAD_FILE,
         "is 1, expected 2 to 16; the file is damaged or was converted badly: download"},
        {10000, MNEM_BAD_FILE, "is 10000, expected 2 to 16; the file is damaged"},
        {4, MNEM_BAD_FILE, "blk.0.shortconv.conv.weight: shape [32, 3], expected [32, 4]"}};
    for (int i = 0; i < 4; i++)
        refused(describe(LFM2, "shortconv.l_cache", NUMBER, &cases[i].length, 4), cases[i].status,
                cases[i].text);
}

/* The key's last letter is another one, as if it weren't there. */
static void heads_that_are_not_split_are_refused_with_a_way_out(void **state) {
    (void)state;
    refused(describe(DEEPSEEK, "attention.key_length_ml", 0, "x", 1), MNEM_UNSUPPORTED,
            "convert its folder again");
}

static void encoders_say_how_they_pool(void **state) {
    (void)state;
    const mnem_transformer t = described(BERT);
    const int32_t rank = 4, five = 5;
    const bool yes = true;
    assert_true(t.encoder);
    assert_int_equal(t.pooling, MNEM_POOLING_MEAN);
    assert_int_equal(t.token_types, 2);
    assert_int_equal(described(MNEM_TEST_DATA "/architectures/bert_cls.gguf").pooling,
                     MNEM_POOLING_CLS);
    refused(describe(BERT, "bert.pooling_type", NUMBER, &rank, 4), MNEM_UNSUPPORTED,
            "key bert.pooling_type: is 4 (a reranker, which scores two texts)");
    refused(describe(BERT, "bert.pooling_type", NUMBER, &five, 4), MNEM_UNSUPPORTED,
            "is 5, expected 0 to 4");
    refused(describe(BERT, "bert.attention.causal", NUMBER, &yes, 1), MNEM_UNSUPPORTED,
            "key bert.attention.causal: is 1, expected 0");
}

static void training_names_what_it_lacks(void **state) {
    (void)state;
    const mnem_transformer lfm2 = described(LFM2), bert = described(BERT);
    assert_string_equal(mnem_support_get(&lfm2, MNEM_FEATURE_TRAIN).reason,
                        "layers of several kinds");
    assert_string_equal(mnem_support_get(&bert, MNEM_FEATURE_TRAIN).reason, "an encoder");
}

static void quantizing_follows_the_layers(void **state) {
    (void)state;
    mnem_model *model;
    mnem_tensor_info info;
    mnem_transformer t;
    int quantized = 0, whole = 0;
    const char *path = kit_path("quantized.gguf");
    must(mnem_quantize_file(LFM2, path, &(mnem_quantize_options){.type = "Q8_0"}));
    must(mnem_model_open(path, &model));
    must(mnem_model_transformer(model, &t));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++) {
        if (!strstr(info.name, "shortconv")) continue;
        const bool kernel = strstr(info.name, ".conv.weight") != NULL;
        assert_int_equal(info.type, kernel ? MNEM_TYPE_F32 : MNEM_TYPE_Q8_0);
        kernel ? whole++ : quantized++;
    }
    assert_int_equal(whole, 2);
    assert_int_equal(quantized, 4);
    mnem_model_close(model);
}

/* ---- layers that predict further tokens ---- */

/* A copy of GLM with as many layers, of which the last `ahead` are such, and tensors of its third
 * layer in layer `third`; the status of its description. */
static mnem_status describe_ahead(uint32_t layers, uint32_t ahead, char third,
                                  mnem_transformer *t) {
    size_t n;
    char *bytes = read_file(GLM, &n);
    mnem_model *model;
    memcpy(value_of(bytes, n, "glm4moe.block_count", NUMBER), &layers, sizeof layers);
    memcpy(value_of(bytes, n, "glm4moe.nextn_predict_layers", NUMBER), &ahead, sizeof ahead);
    for (char *at = bytes; (at = memmem(at, n - (size_t)(at - bytes), "blk.2.", 6)); at++)
        at[4] = third;
    write_file(kit_path("ahead.gguf"), bytes, n);
    free(bytes);
    must(mnem_model_open(kit_path("ahead.gguf"), &model));
    const mnem_status status = mnem_model_transformer(model, t);
    mnem_model_close(model);
    return status;
}

static void layers_that_predict_further_tokens_are_left_out(void **state) {
    (void)state;
    mnem_transformer t;
    assert_int_equal(describe_ahead(4, 1, '2', &t), MNEM_OK);
    assert_int_equal(t.layers, 3);
    assert_int_equal(describe_ahead(3, 1, '2', &t), MNEM_OK);
    assert_int_equal(t.layers, 2);
    assert_int_equal(describe_ahead(7, 5, '6', &t), MNEM_OK);
    assert_int_equal(t.layers, 2);
    refused(describe_ahead(4, 2, '7', &t), MNEM_BAD_FILE, "a layer that does not exist");
    refused(describe_ahead(4, 0, '2', &t), MNEM_BAD_FILE, "blk.3.attn_norm.weight: is missing");
    refused(describe_ahead(4, 4, '2', &t), MNEM_BAD_FILE, "nextn_predict_layers: is 4");
}

static void a_file_of_such_layers_alone_is_refused(void **state) {
    (void)state;
    size_t n;
    char *bytes = read_file(GLM, &n);
    mnem_model *model;
    mnem_transformer t;
    const uint32_t layers = 6, ahead = 3;
    memcpy(value_of(bytes, n, "glm4moe.block_count", NUMBER), &layers, sizeof layers);
    memcpy(value_of(bytes, n, "glm4moe.nextn_predict_layers", NUMBER), &ahead, sizeof ahead);
    for (char *at = bytes; (at = memmem(at, n - (size_t)(at - bytes), "blk.", 4)); at++) at[4] += 3;
    write_file(kit_path("only.gguf"), bytes, n);
    free(bytes);
    must(mnem_model_open(kit_path("only.gguf"), &model));
    refused(mnem_model_transformer(model, &t), MNEM_UNSUPPORTED,
            "has only the layers for multi-token prediction (key glm4moe.nextn_predict_layers)");
    mnem_model_close(model);
}

/* ---- recurrent layers ---- */

#define DELTA MNEM_TEST_DATA "/architectures/qwen35.gguf" /* 3 layers, the second attends */

static void recurrent_layers_are_read(void **state) {
    (void)state;
    mnem_model *model;
    mnem_transformer t;
    must(mnem_model_open(DELTA, &model));
    must(mnem_model_transformer(model, &t));
    for (int32_t layer = 0; layer < 3; layer++) {
        assert_int_equal(mnem__layer_is(&t, layer, MNEM__LAYERS_RECURRENT), layer != 1);
        assert_int_equal(mnem__layer_is(&t, layer, MNEM__LAYERS_ATTENTION), layer == 1);
    }
    assert_int_equal(t.state_groups, 2);
    assert_int_equal(t.state_heads, 4);
    assert_int_equal(t.state_rows, 16);
    assert_int_equal(t.state_columns, 16);
    const uint64_t one = mnem_conv_page_bytes(128, 4) + mnem_state_bytes(4, 16, 16);
    assert_int_equal(mnem_transformer_state_bytes(&t), 2 * one);
    mnem_model_close(model);
}

static void sizes_of_states_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *key, *text;
        uint32_t value;
    } wrong[] = {{"qwen35.ssm.time_step_rank", "expected a multiple of 2, the number of groups", 3},
                 {"qwen35.ssm.inner_size", "expected a multiple of 4, the number of heads", 62},
                 {"qwen35.ssm.conv_kernel", "expected 2 to 16", 1},
                 {"qwen35.ssm.state_size", "expected 1 to", 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t n;
        char *bytes = read_file(DELTA, &n);
        mnem_model *model;
        mnem_transformer t;
        memcpy(value_of(bytes, n, wrong[i].key, NUMBER), &wrong[i].value, sizeof wrong[i].value);
        write_file(kit_path("delta.gguf"), bytes, n);
        free(bytes);
        must(mnem_model_open(kit_path("delta.gguf"), &model));
        assert_int_equal(mnem_model_transformer(model, &t), MNEM_BAD_FILE);
        assert_non_null(strstr(mnem_last_error(), wrong[i].text));
        mnem_model_close(model);
    }
}

/* ---- layers of one part ---- */

#define ONE_PART MNEM_TEST_DATA "/architectures/nemotron_h.gguf" /* a scan, feeds, attends, feeds */

static void widths_of(const int32_t widths[4], mnem_status wanted, const char *text) {
    refused(describe(ONE_PART, "nemotron_h.feed_forward_length", ARRAY, widths, 4 * sizeof *widths),
            wanted, text);
}

static void layers_of_one_part_are_read(void **state) {
    (void)state;
    const mnem_transformer t = described(ONE_PART);
    static const mnem__layers kinds[] = {MNEM__LAYERS_RECURRENT, MNEM__LAYERS_FEEDING,
                                         MNEM__LAYERS_ATTENTION, MNEM__LAYERS_FEEDING};
    assert_int_equal(t.ff, 40);
    assert_int_equal(t.kv_heads, 2);
    for (int32_t layer = 0; layer < 4; layer++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(mnem__layer_is(&t, layer, kinds[k]), kinds[layer] == kinds[k]);
    assert_true(mnem_transformer_state_bytes(&t) == mnem__layer_state_bytes(&t, 0));
}

static void widths_that_lie_are_named(void **state) {
    (void)state;
    widths_of((const int32_t[]){0, 40, 0, 48}, MNEM_UNSUPPORTED,
              "differs between layers (40 and 48)");
    widths_of((const int32_t[]){0, -1, 0, 40}, MNEM_BAD_FILE, "layer 1 is -1, expected 0 to");
    widths_of((const int32_t[]){0, 40, 40, 40}, MNEM_UNSUPPORTED,
              "layer 2 has both attention and a feed-forward");
    widths_of((const int32_t[]){0, 40, 0, 0}, MNEM_BAD_FILE, "blk.3.ssm_in.weight: is missing");
    widths_of((const int32_t[]){0, 48, 0, 48}, MNEM_BAD_FILE, "blk.1.ffn_up.weight: shape");
}

static void layers_have_an_indexer_or_take_the_choice_of_one(void **state) {
    (void)state;
    const mnem_transformer t = described(INDEXED);
    const char *types = "attention.indexer.types", *heads = "attention.indexer.head_count";
    const uint8_t none[3] = {0, 1, 1}, all[3] = {1, 1, 1};
    const uint32_t many = 15;
    assert_true(t.index_heads == 14 && t.index_dim == 16 && t.index_top_k == 14);
    assert_true(mnem__layer_is(&t, 0, MNEM__LAYERS_INDEXED));
    assert_false(mnem__layer_is(&t, 1, MNEM__LAYERS_INDEXED));
    assert_true(mnem__layer_is(&t, 2, MNEM__LAYERS_INDEXED));
    refused(describe(INDEXED, types, ARRAY, none, 3), MNEM_BAD_FILE, "layer 0 has no indexer");
    refused(describe(INDEXED, types, ARRAY, all, 3), MNEM_BAD_FILE,
            "blk.1.indexer.attn_k.weight: is missing");
    refused(describe(INDEXED, heads, NUMBER, &many, 4), MNEM_BAD_FILE,
            "indexer.proj.weight: shape [14, 32], expected [15, 32]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_have_an_indexer_or_take_the_choice_of_one),
        cmocka_unit_test(layers_that_predict_further_tokens_are_left_out),
        cmocka_unit_test(a_file_of_such_layers_alone_is_refused),
        cmocka_unit_test(recurrent_layers_are_read),
        cmocka_unit_test(sizes_of_states_are_checked),
        cmocka_unit_test(layers_of_one_part_are_read),
        cmocka_unit_test(widths_that_lie_are_named),
        cmocka_unit_test(layers_without_kv_heads_convolve),
        cmocka_unit_test(layers_that_lie_are_named),
        cmocka_unit_test(lengths_of_a_convolution_are_checked),
        cmocka_unit_test(layers_with_a_window_have_heads_of_their_own),
        cmocka_unit_test(kinds_of_layers_that_lie_are_named),
        cmocka_unit_test(heads_that_are_not_split_are_refused_with_a_way_out),
        cmocka_unit_test(encoders_say_how_they_pool),
        cmocka_unit_test(training_names_what_it_lacks),
        cmocka_unit_test(quantizing_follows_the_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
