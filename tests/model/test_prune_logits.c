/* test_prune_logits.c: what gives nothing goes, and then nothing changes: in random models of each
 * family some heads, channels or a layer are made to add zero, by zeros in the matrices that lead
 * out of them. Pruned of as much, a model must lose just these, so its logits stay. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { TOKENS = 12, VOCAB = 384 };

/* Which columns of a matrix [rows, k] of F32. */
typedef bool is_zero(const mnem_transformer *t, int64_t column);

static bool in_second_group(const mnem_transformer *t, int64_t column) {
    return column / t->head_dim / (t->heads / t->kv_heads) == 1;
}

static bool in_odd_channel(const mnem_transformer *t, int64_t column) {
    (void)t;
    return column % 2 == 1;
}

static bool all(const mnem_transformer *t, int64_t column) {
    (void)t, (void)column;
    return true;
}

/* Zeros in the file, in every tensor whose name has the text. */
static void put_zeros(const char *path, const char *text, is_zero *which) {
    size_t bytes;
    char *file = read_file(path, &bytes);
    mnem_model *model;
    mnem_transformer t;
    mnem_tensor_info info;
    must(mnem_model_open(path, &model));
    must(mnem_model_transformer(model, &t));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++) {
        if (!strstr(info.name, text)) continue;
        assert_int_equal(info.type, MNEM_TYPE_F32);
        float *x = (float *)(void *)(file + info.offset);
        const int64_t k = info.shape[info.dims - 1], n = (int64_t)(info.bytes / sizeof *x);
        for (int64_t at = 0; at < n; at++)
            if (which(&t, at % k)) x[at] = 0;
    }
    mnem_model_close(model);
    write_file(path, file, bytes);
    free(file);
}

static void get_logits(const char *path, float *logits, double *size) {
    session_case c;
    int32_t ids[TOKENS];
    const mnem_engine_options options = {.context = 32, .threads = 1};
    for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % 256;
    must(session_case_open(&c, path, 0, &options));
    must(session_case_logits(&c, ids, TOKENS, logits));
    session_case_close(&c);
    *size = 0;
    for (int i = 0; i < VOCAB; i++) *size = fmax(*size, fabs((double)logits[i]));
}

static void same_logits(const char *a, const char *b, const char *what) {
    float x[VOCAB], y[VOCAB];
    double size, other, worst = 0;
    get_logits(a, x, &size);
    get_logits(b, y, &other);
    for (int i = 0; i < VOCAB; i++) worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    print_message("%-60s %.2g\n", what, worst / size);
    if (worst > 1e-5 * size) fail_msg("%s: logits differ by %g of %g", what, worst, size);
}

static void check(const char *arguments, const char *zeros, is_zero *which,
                  const mnem_prune_options *options) {
    const char *path = kit_path("made.gguf"), *out = kit_path("less.gguf");
    char text[200];
    snprintf(text, sizeof text, "--type F32 %s", arguments);
    make_model(path, text);
    put_zeros(path, zeros, which);
    must(mnem_prune_file(path, out, options));
    same_logits(path, out, arguments);
}

static void heads_that_give_nothing_go(void **state) {
    (void)state;
    static const char *const models[] = {
        "--arch llama --embd 96 --heads 6 --kv-heads 3",
        "--arch llama --heads 4 --kv-heads 4 --rope-scaling llama3",
        "--arch llama --heads 8 --kv-heads 2 --head-dim 16",
        "--arch granite --heads 4 --kv-heads 2",
        "--arch smollm3 --heads 4 --kv-heads 2 --tied",
        "--arch qwen3 --heads 4 --kv-heads 2",
        "--arch gemma2 --heads 4 --kv-heads 2",
        "--arch gemma3 --heads 4 --kv-heads 2",
        /* of so many layers, scores are scaled by the root of embd / heads */
        "--arch gemma2 --embd 32 --ff 32 --heads 4 --kv-heads 2 --head-dim 16 --layers 46",
        "--arch gemma3 --embd 32 --ff 32 --heads 4 --kv-heads 2 --head-dim 16 --layers 62",
        "--arch glm4 --heads 4 --kv-heads 2",
        "--arch qwen3moe --heads 4 --kv-heads 2",
        "--arch gpt-oss --heads 4 --kv-heads 2",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check(models[i], "attn_output.weight", in_second_group,
              &(mnem_prune_options){.heads = i < 1   ? 1.0 / 3
                                             : i < 2 ? 0.25
                                                     : 0.5});
}

static void channels_that_give_nothing_go(void **state) {
    (void)state;
    static const char *const models[] = {
        "--arch llama --heads 4",  "--arch qwen2 --heads 4",   "--arch qwen3 --heads 4",
        "--arch gemma2 --heads 4", "--arch phi3 --heads 4",    "--arch glm4 --heads 4",
        "--arch olmo2 --heads 4",  "--arch lfm2 --heads 4",    "--arch starcoder2 --heads 4",
        "--arch gpt2 --heads 4",   "--arch smollm3 --heads 4", "--arch mistral3 --heads 4 ",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s --ff 192", models[i]);
        check(text, "ffn_down.weight", in_odd_channel, &(mnem_prune_options){.ffn = 0.5});
    }
}

/* Both ways out of the layer before the last. */
static void a_layer_that_gives_nothing_goes(void **state) {
    (void)state;
    static const char *const models[] = {"llama", "qwen2", "qwen3", "granite",
                                         "gpt2",  "phi3",  "lfm2",  "starcoder2"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *path = kit_path("made.gguf"), *out = kit_path("less.gguf");
        char text[200];
        snprintf(text, sizeof text, "--type F32 --arch %s --heads 4 --layers 4", models[i]);
        make_model(path, text);
        put_zeros(path, "blk.2.attn_output.weight", all);
        put_zeros(path, "blk.2.attn_output.bias", all);
        put_zeros(path, "blk.2.shortconv.out_proj.weight", all);
        put_zeros(path, "blk.2.ffn_down.weight", all);
        put_zeros(path, "blk.2.ffn_down.bias", all);
        must(mnem_prune_file(path, out, &(mnem_prune_options){.layers = 0.25}));
        same_logits(path, out, models[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_that_give_nothing_go),
        cmocka_unit_test(channels_that_give_nothing_go),
        cmocka_unit_test(a_layer_that_gives_nothing_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
