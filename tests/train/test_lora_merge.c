/* test_lora_merge.c: adapters as files: merged they give the trainer's logits; what is copied is
 * the same to the byte; wrong adapters are named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <math.h>

#include "base/heap.h"
#include "engine/plain/plain_transformer.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "model/gguf/gguf_writer.h"
#include "train/lora_case.h"

/* ---- files ---- */

enum { MODEL, ADAPTER, OUT, OTHER, FILES };
static const char *path[FILES];

static int name_files(void **state) {
    (void)state;
    path[MODEL] = kit_path("model.gguf"), path[ADAPTER] = kit_path("adapter.gguf");
    path[OUT] = kit_path("out.gguf"), path[OTHER] = kit_path("other.gguf");
    return 0;
}

static const char llama[] = "--arch llama --heads 4 --kv-heads 2 --type F32";
static const char quantized[] = "--arch llama --heads 4 --kv-heads 2 --type Q8_0";

/* An adapter for the model in path[MODEL], of numbers that it wouldn't learn; and the logits that
 * the trainer has with it. logits may be NULL. */
static void make_adapter(const mnem_lora *lora, mnem_type type, float *logits) {
    const mnem_train_options o = {.lora = *lora,
                                  .sequence = SEQUENCE,
                                  .batch = 1,
                                  .threads = 1,
                                  .schedule = {.rate_peak = 1e-2, .total_steps = 100}};
    made m = make(path[MODEL], &o, 0);
    mnem_gguf_writer *writer;
    int32_t ids[SEQUENCE];
    fill_adapters(m.trainer);
    fill_ids(ids, SEQUENCE);
    if (logits) assert_int_equal(mnem_trainer_logits(m.trainer, ids, SEQUENCE, logits), MNEM_OK);
    assert_int_equal(mnem_gguf_create(path[ADAPTER], &writer), MNEM_OK);
    if (mnem_trainer_write(m.trainer, type, writer) != MNEM_OK) fail_msg("%s", mnem_last_error());
    assert_int_equal(mnem_gguf_finish(writer), MNEM_OK);
    unmake(&m);
}

static void merge(const char *adapter, const mnem_merge_options *options) {
    if (mnem_merge_file(path[MODEL], adapter, path[OUT], options) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
}

/* The largest difference of the merged model's logits from these, over their spread. */
static double distance_of_merged(const float *right) {
    static double is[VOCAB];
    mnem_model *model = open_model(path[OUT]);
    int32_t ids[SEQUENCE];
    double worst = 0, square = 0;
    fill_ids(ids, SEQUENCE);
    assert_true(plain_transformer_logits(model, ids, SEQUENCE, is));
    mnem_model_close(model);
    for (int i = 0; i < VOCAB; i++) {
        worst = fmax(worst, fabs(is[i] - (double)right[i]));
        square += is[i] * is[i];
    }
    return worst / sqrt(square / VOCAB);
}

/* ---- merging ---- */

static void a_merged_model_gives_the_logits_of_the_trainer(void **state) {
    (void)state;
    static const char *const models[] = {
        llama, "--arch gpt2 --heads 4 --type F32 --tied",
        "--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type F32",
        "--arch qwen2 --heads 4 --kv-heads 2 --type F32 --tied"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        float right[VOCAB];
        make_model(path[MODEL], models[i]);
        make_adapter(&(mnem_lora){.rank = RANK + (int32_t)i, .alpha = 3}, MNEM_TYPE_F32, right);
        merge(path[ADAPTER], NULL);
        print_message("%-64s %.2g\n", models[i], distance_of_merged(right));
        assert_true(distance_of_merged(right) < 1e-4);
    }
}

static void quantized_tensors_become_f16_or_what_is_said(void **state) {
    (void)state;
    static const struct {
        const char *type;
        mnem_type is;
        double tolerance;
    } types[] = {{NULL, MNEM_TYPE_F16, 5e-3},     {"f32", MNEM_TYPE_F32, 1e-4},
                 {"bf16", MNEM_TYPE_BF16, 5e-2},  {"same", MNEM_TYPE_Q8_0, 8e-2},
                 {"q4_k_m", MNEM_TYPE_Q8_0, 0.9}, /* rows of 64 aren't whole blocks of Q6_K */
                 {"Q5_1", MNEM_TYPE_Q5_1, 0.4}};
    float right[VOCAB];
    make_model(path[MODEL], quantized);
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_F32, right);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        mnem_tensor_info info;
        merge(path[ADAPTER], &(mnem_merge_options){.type = types[i].type});
        print_message("%s: %.2g\n", types[i].type ? types[i].type : "default",
                      distance_of_merged(right));
        assert_true(distance_of_merged(right) < types[i].tolerance);
        mnem_model *model = open_model(path[OUT]);
        mnem_model_tensor_get(model, (uint32_t)mnem_model_tensor_find(model, "blk.1.attn_v.weight"),
                              &info);
        assert_int_equal(info.type, types[i].is);
        mnem_model_close(model);
    }
}

enum { BYTES_MOST = 1 << 20 };

static void assert_same_tensor(const mnem_model *a, const mnem_model *b, const char *name) {
    static uint8_t x[BYTES_MOST], y[BYTES_MOST];
    mnem_tensor_info i, j;
    mnem_model_tensor_get(a, (uint32_t)mnem_model_tensor_find(a, name), &i);
    mnem_model_tensor_get(b, (uint32_t)mnem_model_tensor_find(b, name), &j);
    assert_int_equal(i.type, j.type);
    assert_int_equal(i.bytes, j.bytes);
    const int32_t at_a = mnem_model_tensor_find(a, name), at_b = mnem_model_tensor_find(b, name);
    assert_int_equal(mnem_model_tensor_read(a, (uint32_t)at_a, 0, i.bytes, x), MNEM_OK);
    assert_int_equal(mnem_model_tensor_read(b, (uint32_t)at_b, 0, j.bytes, y), MNEM_OK);
    assert_memory_equal(x, y, i.bytes);
}

static void what_has_no_adapter_is_copied(void **state) {
    (void)state;
    mnem_tensor_info info;
    mnem_text key;
    mnem_value value, other;
    make_model(path[MODEL], quantized);
    make_adapter(&(mnem_lora){.rank = RANK, .targets = MNEM_LORA_Q | MNEM_LORA_DOWN}, MNEM_TYPE_F32,
                 NULL);
    merge(path[ADAPTER], NULL);
    mnem_model *model = open_model(path[MODEL]), *merged = open_model(path[OUT]);
    int changed = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++) {
        const bool target = strstr(info.name, "attn_q.") || strstr(info.name, "ffn_down.");
        changed += target;
        if (!target) assert_same_tensor(model, merged, info.name);
    }
    assert_int_equal(changed, 4);
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &value); i++) {
        assert_true(mnem_model_key_find(merged, key.bytes, &other));
        assert_int_equal(value.type, other.type);
        assert_int_equal(value.count, other.count);
    }
    mnem_model_close(model);
    mnem_model_close(merged);
}

static void threads_change_no_byte(void **state) {
    (void)state;
    make_model(path[MODEL], quantized);
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_BF16, NULL);
    merge(path[ADAPTER], &(mnem_merge_options){.threads = 1});
    assert_int_equal(rename(path[OUT], path[OTHER]), 0);
    merge(path[ADAPTER], &(mnem_merge_options){.threads = 3});
    assert_same_files(path[OUT], path[OTHER]);
}

/* W + d - d, but for rounding. */
static void a_scale_of_minus_one_takes_it_out_again(void **state) {
    (void)state;
    static float before[VOCAB * 64], after[VOCAB * 64];
    make_model(path[MODEL], llama);
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_F32, NULL);
    merge(path[ADAPTER], NULL);
    const mnem_merge_options undo = {.scale = -1};
    assert_int_equal(mnem_merge_file(path[OUT], path[ADAPTER], path[OTHER], &undo), MNEM_OK);
    mnem_model *a = open_model(path[MODEL]), *b = open_model(path[OTHER]),
               *m = open_model(path[OUT]);
    const uint32_t i = (uint32_t)mnem_model_tensor_find(a, "blk.0.attn_q.weight");
    mnem_tensor_info info;
    mnem_model_tensor_get(a, i, &info);
    assert_int_equal(mnem_model_tensor_read(a, i, 0, info.bytes, before), MNEM_OK);
    assert_int_equal(mnem_model_tensor_read(b, i, 0, info.bytes, after), MNEM_OK);
    for (size_t j = 0; j < info.bytes / sizeof(float); j++)
        assert_true(fabsf(before[j] - after[j]) < 1e-6f);
    assert_int_equal(mnem_model_tensor_read(m, i, 0, info.bytes, after), MNEM_OK);
    float most = 0;
    for (size_t j = 0; j < info.bytes / sizeof(float); j++)
        most = fmaxf(most, fabsf(before[j] - after[j]));
    assert_true(most > 1e-3f);
    mnem_model_close(a);
    mnem_model_close(b);
    mnem_model_close(m);
}

/* ---- zeros ---- */

/* path[MODEL] with two zeros in every four neighbours of the layers' matrices but attn_k's. */
static void prune_model(void) {
    const mnem_train_options o = {
        .sequence = SEQUENCE, .batch = 1, .threads = 1, .schedule = {.total_steps = 100}};
    mnem_parameter p;
    mnem_gguf_writer *writer;
    make_model(path[MODEL], "--arch llama --heads 4 --kv-heads 2 --type F32 --tied");
    made m = make(path[MODEL], &o, 0);
    for (int32_t i = 0; mnem_trainer_parameter_get(m.trainer, i, &p); i++)
        for (int64_t j = 0; p.dims == 2 && j < p.shape[0] * p.shape[1]; j++)
            if (strncmp(p.name, "blk.", 4) == 0 && !strstr(p.name, "attn_k") && j % 4 > 1)
                p.weights[j] = 0;
    assert_int_equal(mnem_gguf_create(path[OTHER], &writer), MNEM_OK);
    assert_int_equal(mnem_trainer_write(m.trainer, MNEM_TYPE_F32, writer), MNEM_OK);
    assert_int_equal(mnem_gguf_finish(writer), MNEM_OK);
    unmake(&m);
    assert_int_equal(rename(path[OTHER], path[MODEL]), 0);
}

/* Of the numbers of a merged F32 matrix that were zero, how many are. */
static int zeros_of(const char *name) {
    static float w[BYTES_MOST / sizeof(float)];
    mnem_model *model = open_model(path[OUT]);
    mnem_tensor_info info;
    const uint32_t index = (uint32_t)mnem_model_tensor_find(model, name);
    int zeros = 0;
    mnem_model_tensor_get(model, index, &info);
    assert_int_equal(mnem_model_tensor_read(model, index, 0, info.bytes, w), MNEM_OK);
    for (size_t j = 0; j < info.bytes / sizeof(float); j++) {
        zeros += w[j] == 0;
        assert_true(j % 4 > 1 || w[j] != 0);
    }
    mnem_model_close(model);
    return zeros;
}

static void count_kept(void *context, const mnem_merge_report *r) {
    assert_int_equal(r->zeros_kept, !strstr(r->tensor, "attn_k"));
    ++*(int *)context;
}

static void a_2_of_4_matrix_keeps_its_zeros(void **state) {
    (void)state;
    int merged = 0;
    prune_model();
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_F32, NULL);
    merge(path[ADAPTER], &(mnem_merge_options){.on_report = count_kept, .context = &merged});
    assert_int_equal(merged, 2 * 7);
    assert_int_equal(zeros_of("blk.1.attn_q.weight"), 64 * 64 / 2);
    assert_int_equal(zeros_of("blk.0.attn_k.weight"), 0);
    merge(path[ADAPTER], &(mnem_merge_options){.dense = true});
    assert_int_equal(zeros_of("blk.1.attn_q.weight"), 0);
}

static bool says_2_4(const char *file) {
    mnem_value value;
    mnem_model *model = open_model(file);
    const bool said = mnem_model_key_find(model, "mnem.sparsity.pattern", &value);
    mnem_model_close(model);
    return said;
}

/* Merged into a file that says 2:4, zeros stay, and so does what the file says. */
static void a_file_says_2_4_as_long_as_it_is(void **state) {
    (void)state;
    make_model(path[OTHER], "--arch llama --heads 4 --kv-heads 2 --type F32 --tied");
    assert_int_equal(
        mnem_prune_file(path[OTHER], path[MODEL], &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4}),
        MNEM_OK);
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_F32, NULL);
    merge(path[ADAPTER], &(mnem_merge_options){0});
    assert_true(says_2_4(path[OUT]));
    merge(path[ADAPTER], &(mnem_merge_options){.type = "Q4_1"});
    assert_false(says_2_4(path[OUT]));
    merge(path[ADAPTER], &(mnem_merge_options){.dense = true});
    assert_false(says_2_4(path[OUT]));
}

/* ---- refusals ---- */

static void refuse(const char *adapter, const char *to, const char *type, mnem_status wanted,
                   const char *text) {
    struct stat about;
    remove(path[OUT]);
    const mnem_merge_options o = {.type = type};
    const mnem_status status = mnem_merge_file(path[MODEL], adapter, to, &o);
    if (status != wanted || !strstr(mnem_last_error(), text))
        fail_msg("%s: %s, expected %s", mnem_status_text(status), mnem_last_error(), text);
    assert_int_not_equal(stat(path[OUT], &about), 0);
}

static void what_is_no_adapter_for_the_model_is_named(void **state) {
    (void)state;
    make_model(path[MODEL], "--arch llama --heads 8 --kv-heads 4 --head-dim 16 --type F32");
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_F32, NULL);
    make_model(path[MODEL], llama);
    refuse(
        path[ADAPTER], path[OUT], NULL, MNEM_INVALID,
        "tensor blk.0.attn_q.weight is [64, 64] in the model, but the adapter's A is [4, 64] and B "
        "[128, 4]; use the adapter with its own model");
    make_model(path[MODEL], "--arch gpt2 --heads 4 --type F32");
    refuse(path[ADAPTER], path[OUT], NULL, MNEM_INVALID,
           "this adapter is for architecture \"llama\", but the model's is \"gpt2\"");
    make_model(path[MODEL],
               "--arch llama --heads 8 --kv-heads 4 --head-dim 16 --layers 1 --type F32");
    refuse(path[ADAPTER], path[OUT], NULL, MNEM_INVALID, "has no tensor blk.1.attn_q.weight");
    refuse(path[MODEL], path[OUT], NULL, MNEM_BAD_FILE, "not a low-rank adapter");
    refuse("/nowhere.gguf", path[OUT], NULL, MNEM_IO, "/nowhere.gguf");
    make_model(path[MODEL], llama);
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_F32, NULL);
    refuse(path[ADAPTER], path[MODEL], NULL, MNEM_INVALID,
           "would overwrite the model, which is an input");
    refuse(path[ADAPTER], path[ADAPTER], NULL, MNEM_INVALID,
           "would overwrite the adapter, which is an input");
    refuse(path[ADAPTER], path[OUT], "Q3", MNEM_INVALID, "type \"Q3\"");
    refuse(path[ADAPTER], path[OUT], "Q4_K", MNEM_INVALID, "aren't whole blocks of Q4_K");
    assert_int_equal(truncate(path[ADAPTER], 3000), 0);
    refuse(path[ADAPTER], path[OUT], NULL, MNEM_BAD_FILE, path[ADAPTER]);
}

/* An adapter of two tensors; zeros but for the number at the end of A. */
static void forge(const char *a, const char *b, float alpha, float number) {
    mnem_gguf_writer *w;
    static const float zeros[4 * 64];
    const int64_t shape_a[] = {4, 64}, shape_b[] = {64, 4};
    assert_int_equal(mnem_gguf_create(path[OTHER], &w), MNEM_OK);
    mnem_gguf_key_text(w, "general.architecture", "llama");
    mnem_gguf_key_text(w, "general.type", "adapter");
    mnem_gguf_key_text(w, "adapter.type", "lora");
    mnem__gguf_write_key_f32(w, "adapter.lora.alpha", alpha);
    mnem__gguf_write_tensor(w, a, MNEM_TYPE_F32, 2, shape_a);
    if (b) mnem__gguf_write_tensor(w, b, MNEM_TYPE_F32, 2, shape_b);
    mnem__gguf_write_data(w, zeros, sizeof zeros - sizeof number);
    mnem__gguf_write_data(w, &number, sizeof number);
    if (b) mnem__gguf_write_data(w, zeros, sizeof zeros);
    assert_int_equal(mnem_gguf_finish(w), MNEM_OK);
}

#define Q "blk.0.attn_q.weight"
static void adapters_that_lie_are_named(void **state) {
    (void)state;
    make_model(path[MODEL], llama);
    forge(Q ".lora_a", Q ".lora_b", 8, 1);
    merge(path[OTHER], NULL);
    forge(Q ".lora_a", NULL, 8, 1);
    refuse(path[OTHER], path[OUT], NULL, MNEM_BAD_FILE, "has a .lora_a, but no .lora_b");
    forge(Q ".lora_b", NULL, 8, 1);
    refuse(path[OTHER], path[OUT], NULL, MNEM_BAD_FILE, "has a .lora_b, but no .lora_a");
    forge(Q ".lora_a", Q ".lora_c", 8, 1);
    refuse(path[OTHER], path[OUT], NULL, MNEM_UNSUPPORTED,
           "the name must end in .lora_a or .lora_b");
    forge(".lora_a", NULL, 8, 1);
    refuse(path[OTHER], path[OUT], NULL, MNEM_UNSUPPORTED,
           "the name must end in .lora_a or .lora_b");
    forge("token_embd.weight.lora_a", NULL, 8, 1);
    refuse(path[OTHER], path[OUT], NULL, MNEM_UNSUPPORTED, "adapters of embeddings");
    forge("blk.0.attn_norm.weight.lora_a", "blk.0.attn_norm.weight.lora_b", 8, 1);
    refuse(path[OTHER], path[OUT], NULL, MNEM_INVALID, "blk.0.attn_norm.weight is [64, 1]");
    forge(Q ".lora_a", Q ".lora_b", NAN, 1);
    refuse(path[OTHER], path[OUT], NULL, MNEM_BAD_FILE, "adapter.lora.alpha");
    forge(Q ".lora_a", Q ".lora_b", 8, INFINITY);
    refuse(path[OTHER], path[OUT], NULL, MNEM_BAD_FILE,
           "tensor " Q ".lora_a: row 3 has numbers that aren't finite");
    refuse(path[OTHER], path[OUT], NULL, MNEM_BAD_FILE, path[OTHER]);
}

static bool stop_soon(void *context, const char *what, uint64_t done, uint64_t total) {
    int *left = context;
    assert_string_equal(what, "merging");
    assert_true(done <= total);
    return --*left > 0;
}

static void a_merge_that_is_stopped_leaves_nothing(void **state) {
    (void)state;
    int left = 3;
    struct stat about;
    make_model(path[MODEL], llama);
    make_adapter(&(mnem_lora){.rank = RANK}, MNEM_TYPE_F32, NULL);
    remove(path[OUT]);
    const mnem_merge_options o = {.progress = {stop_soon, &left}};
    assert_int_equal(mnem_merge_file(path[MODEL], path[ADAPTER], path[OUT], &o), MNEM_CANCELLED);
    assert_int_not_equal(stat(path[OUT], &about), 0);
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    struct stat about;
    make_model(path[MODEL], llama);
    make_adapter(&(mnem_lora){.rank = RANK, .targets = MNEM_LORA_Q}, MNEM_TYPE_F32, NULL);
    remove(path[OUT]);
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status != MNEM_OK; n++) {
        assert_in_range(n, 1, 500);
        mnem__heap_fail_at(n, false);
        status = mnem_merge_file(path[MODEL], path[ADAPTER], path[OUT],
                                 &(mnem_merge_options){.threads = 2});
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) break;
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_int_not_equal(stat(path[OUT], &about), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merged_model_gives_the_logits_of_the_trainer),
        cmocka_unit_test(quantized_tensors_become_f16_or_what_is_said),
        cmocka_unit_test(what_has_no_adapter_is_copied),
        cmocka_unit_test(threads_change_no_byte),
        cmocka_unit_test(a_scale_of_minus_one_takes_it_out_again),
        cmocka_unit_test(a_2_of_4_matrix_keeps_its_zeros),
        cmocka_unit_test(a_file_says_2_4_as_long_as_it_is),
        cmocka_unit_test(what_is_no_adapter_for_the_model_is_named),
        cmocka_unit_test(adapters_that_lie_are_named),
        cmocka_unit_test(a_merge_that_is_stopped_leaves_nothing),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, name_files, NULL);
}
