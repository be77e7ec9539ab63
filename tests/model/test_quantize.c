/* test_quantize.c: files in smaller types: mixes, errors, metadata, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_model.h"
#include "model/gguf_forge.h"
#include "model/gguf_recipe.h"

#define OK(call)    assert_int_equal(call, MNEM_OK)
#define MODEL(type) MNEM_TEST_DATA "/model/kjv-5m-" type ".gguf"

typedef struct seen {
    uint32_t reports, ticks, stop_at;
    double worst;
    uint64_t done, total;
} seen;

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
    seen *s = context;
    assert_string_equal(what, "quantizing");
    assert_true(done >= s->done && done <= total);
    s->done = done;
    s->total = total;
    s->ticks++;
    return !s->stop_at || s->reports < s->stop_at;
}

static void on_report(void *context, const mnem_quantize_report *r) {
    seen *s = context;
    s->reports++;
    if (r->relative_error > s->worst) s->worst = r->relative_error;
    assert_true(isfinite(r->rms_error) && r->max_error >= r->rms_error);
    if (r->from == r->to) assert_true(r->rms_error == 0);
}

static mnem_status quantize(const char *from, const char *to, const char *type, int threads,
                            seen *s) {
    mnem_quantize_options options = {.type = type, .threads = threads};
    if (s) {
        options.progress = (mnem_progress){on_progress, s};
        options.on_report = on_report;
        options.context = s;
    }
    return mnem_quantize_file(from, to, &options);
}

static mnem_type type_in(const char *path, const char *tensor) {
    mnem_model *model;
    mnem_tensor_info info;
    OK(mnem_model_open(path, &model));
    int32_t index = mnem_model_tensor_find(model, tensor);
    assert_true(mnem_model_tensor_get(model, (uint32_t)index, &info));
    mnem_type type = info.type;
    mnem_model_close(model);
    return type;
}

static void same_types(const char *path, const char *other) {
    mnem_model *model;
    mnem_tensor_info info;
    OK(mnem_model_open(path, &model));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
        if (info.type != type_in(other, info.name)) fail_msg("%s: another type", info.name);
    mnem_model_close(model);
}

/* ---- the fixture ---- */

/* Beside the other program's files the whole model, else two layers of it. */
static void each_type_has_its_mix_and_a_small_error(void **state) {
    const char *taught = kit_path("taught.gguf");
    (void)state;
    make_taught_model(taught, 2);
    const struct {
        const char *type, *like;
        uint32_t file_type;
        double worst; /* relative error of the worst tensor */
    } types[] = {
        {"F16", MODEL("f16"), 1, 0},      {"Q8_0", NULL, 7, 0.008},
        {"Q4_0", MODEL("q4_0"), 2, 0.11}, {"Q4_K_M", MODEL("q4_k_m"), 15, 0.09},
        {"Q2_K", NULL, 10, 0.35},         {"Q3_K", NULL, 11, 0.18},
        {"Q3_K_S", NULL, 11, 0.18},       {"Q3_K_M", NULL, 12, 0.18},
        {"Q3_K_L", NULL, 13, 0.18},       {"IQ4_NL", NULL, 25, 0.1},
        {"IQ4_XS", NULL, 30, 0.1},        {"MXFP4", NULL, 38, 0.14},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *out = kit_path("out.gguf");
        const uint32_t tensors = types[i].like ? 56 : 20;
        seen s = {0};
        mnem_model *model;
        mnem_transformer t;
        mnem_value v;
        if (quantize(types[i].like ? MODEL("f16") : taught, out, types[i].type, 2, &s) != MNEM_OK)
            fail_msg("%s", mnem_last_error());
        assert_int_equal(s.reports, tensors);
        assert_true(s.ticks >= tensors);
        assert_int_equal(s.done, s.total);
        if (s.worst > types[i].worst) fail_msg("%s: error %g", types[i].type, s.worst);
        if (types[i].like) same_types(out, types[i].like);
        OK(mnem_model_open(out, &model));
        OK(mnem_model_transformer(model, &t));
        assert_true(mnem_model_key_find(model, "general.file_type", &v));
        assert_int_equal(v.u, types[i].file_type);
        assert_true(mnem_model_key_find(model, "general.quantization_version", &v));
        assert_int_equal(v.u, 2);
        mnem_model_close(model);
    }
}

/* What llama.cpp's mix of the name is made of: values, down projections, what attention gives. */
static void q3_k_l_has_five_bits_where_errors_weigh_most(void **state) {
    (void)state;
    const char *out = kit_path("out.gguf");
    mnem_model *model;
    mnem_tensor_info info;
    int five = 0;
    make_model(kit_path("wide.gguf"), "--type F16 --embd 256 --heads 4 --kv-heads 2 --ff 256");
    OK(quantize(kit_path("wide.gguf"), out, "Q3_K_L", 1, NULL));
    OK(mnem_model_open(out, &model));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++) {
        const bool better = strstr(info.name, "attn_v.") || strstr(info.name, "ffn_down.") ||
                            strstr(info.name, "attn_output.");
        const mnem_type layer = better ? MNEM_TYPE_Q5_K : MNEM_TYPE_Q3_K;
        if (info.dims == 2 && strncmp(info.name, "blk.", 4) == 0)
            assert_int_equal(info.type, layer);
        five += info.type == MNEM_TYPE_Q5_K;
    }
    assert_int_equal(five, 6);
    mnem_model_close(model);
}

static void every_key_is_kept(void **state) {
    (void)state;
    const char *out = kit_path("out.gguf");
    mnem_model *a, *b;
    mnem_text key;
    mnem_value v, w;
    OK(quantize(MODEL("f16"), out, "Q8_0", 1, NULL));
    OK(mnem_model_open(MODEL("f16"), &a));
    OK(mnem_model_open(out, &b));
    for (uint32_t i = 0; mnem_model_key_get(a, i, &key, &v); i++) {
        assert_true(mnem_model_key_find(b, key.bytes, &w));
        assert_int_equal(v.type, w.type);
        assert_int_equal(v.count, w.count);
        for (uint64_t k = 0; v.element == MNEM_VALUE_STRING && k < v.count; k++) {
            mnem_text x = mnem_value_text(&v, k), y = mnem_value_text(&w, k);
            assert_int_equal(x.length, y.length);
            assert_memory_equal(x.bytes, y.bytes, x.length);
        }
    }
    mnem_model_close(a);
    mnem_model_close(b);
}

static void threads_do_not_change_a_byte(void **state) {
    (void)state;
    const char *one = kit_path("one.gguf"), *three = kit_path("three.gguf");
    const char *in = kit_path("in.gguf");
    seen s = {0}, r = {0};
    make_taught_model(in, 1);
    OK(quantize(in, one, "Q4_0", 1, &s));
    OK(quantize(in, three, "q4_0", 3, &r));
    assert_same_files(one, three);
    assert_true(s.worst == r.worst);
}

static void a_quantized_source_is_read_too(void **state) {
    (void)state;
    const char *out = kit_path("out.gguf");
    seen s = {0};
    OK(quantize(MODEL("q4_k_m"), out, "Q8_0", 2, &s));
    assert_true(s.worst > 0 && s.worst < 0.01);
    OK(quantize(MODEL("q4_0"), out, "Q4_0", 2, NULL));
    same_types(out, MODEL("q4_0")); /* nothing to change: copied */
}

/* ---- shapes ---- */

static void rows_that_are_not_whole_blocks_fall_back(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    recipe_write(&(recipe){.embd = 256, .ff = 100}, in);
    OK(quantize(in, out, "Q4_K_M", 1, NULL));
    assert_int_equal(type_in(out, "blk.0.attn_q.weight"), MNEM_TYPE_Q4_K);
    assert_int_equal(type_in(out, "output.weight"), MNEM_TYPE_Q6_K);
    assert_int_equal(type_in(out, "blk.0.ffn_down.weight"), MNEM_TYPE_F16); /* rows of 100 */
    assert_int_equal(type_in(out, "blk.0.attn_norm.weight"), MNEM_TYPE_F32);
    recipe_write(&(recipe){.embd = 64, .ff = 96}, in);
    OK(quantize(in, out, "Q4_K_M", 1, NULL));
    assert_int_equal(type_in(out, "blk.0.attn_q.weight"), MNEM_TYPE_Q5_0);
    assert_int_equal(type_in(out, "output.weight"), MNEM_TYPE_Q8_0);
    assert_int_equal(type_in(out, "token_embd.weight"), MNEM_TYPE_Q5_0);
    OK(quantize(in, out, "Q2_K", 1, NULL));
    assert_int_equal(type_in(out, "blk.0.attn_q.weight"), MNEM_TYPE_IQ4_NL);
    recipe_write(&(recipe){.embd = 64, .ff = 96, .tied = true}, in);
    OK(quantize(in, out, "Q4_K_M", 1, NULL));
    assert_int_equal(type_in(out, "token_embd.weight"), MNEM_TYPE_Q8_0);
}

static void zeros_and_equal_weights_are_fine(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    const char *types[] = {"F16", "Q8_0", "Q4_0", "Q4_K_M"};
    for (int i = 0; i < 4; i++) {
        seen s = {0};
        recipe_write(&(recipe){.embd = 256, .ff = 256, .fill = 0.5f}, in);
        OK(quantize(in, out, types[i], 1, &s));
        assert_true(s.worst < 0.01);
        recipe_write(&(recipe){.embd = 256, .ff = 256, .fill = 1e-30f}, in);
        OK(quantize(in, out, types[i], 1, NULL));
    }
}

/* ---- refused ---- */

static void the_source_is_never_overwritten(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *link_to = kit_path("link.gguf");
    const char *hard = kit_path("hard.gguf"), *temporary = kit_path("out2.gguf.mnem-tmp");
    recipe_write(&(recipe){0}, in);
    assert_int_equal(symlink(in, link_to), 0);
    assert_int_equal(link(in, hard), 0);
    assert_int_equal(link(in, temporary), 0);
    const char *targets[] = {in, link_to, hard};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(quantize(in, targets[i], "Q8_0", 1, NULL), MNEM_INVALID);
        assert_non_null(strstr(mnem_last_error(), "would overwrite the model, which is an input"));
    }
    assert_int_equal(quantize(in, kit_path("out2.gguf"), "Q8_0", 1, NULL), MNEM_INVALID);
    assert_int_equal(access(temporary, F_OK), 0);
    assert_same_files(in, hard);
}

static void wrong_types_and_numbers_are_named(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out3.gguf");
    recipe_write(&(recipe){0}, in);
    assert_int_equal(quantize(in, out, "Q9_K_S", 1, NULL), MNEM_INVALID);
    assert_non_null(
        strstr(mnem_last_error(), "type \"Q9_K_S\" is unknown; there are: F32, F16, BF16"));
    assert_int_equal(quantize(in, out, NULL, 1, NULL), MNEM_INVALID);
    recipe_write(&(recipe){.fill = NAN}, in);
    assert_int_equal(quantize(in, out, "Q8_0", 1, NULL), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "aren't finite"));
    recipe_write(&(recipe){.fill = 1e30f}, in); /* F16 ends at 65504 */
    assert_int_equal(quantize(in, out, "F16", 1, NULL), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "tensor token_embd.weight: row 0"));
    recipe_write(&(recipe){.architecture = "other"}, in);
    assert_int_equal(quantize(in, out, "Q8_0", 1, NULL), MNEM_UNSUPPORTED);
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_not_equal(access(kit_path("out3.gguf.mnem-tmp"), F_OK), 0);
}

static void stopping_leaves_nothing(void **state) {
    (void)state;
    const char *out = kit_path("out4.gguf");
    seen s = {.stop_at = 5};
    assert_int_equal(quantize(MODEL("f16"), out, "Q8_0", 2, &s), MNEM_CANCELLED);
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_not_equal(access(kit_path("out4.gguf.mnem-tmp"), F_OK), 0);
}

static void without_memory_quantizing_fails_and_leaves_nothing(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *out = kit_path("out.gguf");
    heap_sweep sweep = {.most = 99};
    mnem_status status;
    recipe_write(&(recipe){0}, in);
    do {
        heap_sweep_begin(&sweep, true);
        status = quantize(in, out, "Q8_0", 2, NULL);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_its_mix_and_a_small_error),
        cmocka_unit_test(q3_k_l_has_five_bits_where_errors_weigh_most),
        cmocka_unit_test(every_key_is_kept),
        cmocka_unit_test(threads_do_not_change_a_byte),
        cmocka_unit_test(a_quantized_source_is_read_too),
        cmocka_unit_test(rows_that_are_not_whole_blocks_fall_back),
        cmocka_unit_test(zeros_and_equal_weights_are_fine),
        cmocka_unit_test(the_source_is_never_overwritten),
        cmocka_unit_test(wrong_types_and_numbers_are_named),
        cmocka_unit_test(stopping_leaves_nothing),
        cmocka_unit_test(without_memory_quantizing_fails_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
