/* test_quantize_importance.c: files by an importance matrix, by rules and for a target. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"
#include "mnem/model.h"

enum { TENSORS = 128 };

typedef struct seen {
    mnem_quantize_report report[TENSORS];
    char name[TENSORS][64];
    int reports;
} seen;

static void on_report(void *context, const mnem_quantize_report *r) {
    seen *s = context;
    assert_true(s->reports < TENSORS);
    strncpy(s->name[s->reports], r->tensor, 63);
    s->report[s->reports++] = *r;
}

static const mnem_quantize_report *report_of(const seen *s, const char *name) {
    for (int i = 0; i < s->reports; i++)
        if (strcmp(s->name[i], name) == 0) return &s->report[i];
    fail_msg("no report of %s", name);
    return NULL;
}

static mnem_status quantize(const char *from, const char *to, mnem_quantize_options o, seen *s) {
    if (s) *s = (seen){0};
    o.on_report = s ? on_report : NULL;
    o.context = s;
    return mnem_quantize_file(from, to, &o);
}

static void refused(mnem_status status, mnem_status expected, const char *words) {
    if (status != expected || !strstr(mnem_last_error(), words))
        fail_msg("status %d, no \"%s\": %s", status, words, mnem_last_error());
}

static const char *wide_model(void) {
    make_model(kit_path("wide.gguf"), "--type F16 --embd 256 --heads 4 --kv-heads 2 --ff 256");
    return kit_path("wide.gguf");
}

/* Of one layer with small matrices, most in rows of 256, for what tries every type. */
static const char *short_model(void) {
    make_model(kit_path("short.gguf"), "--type F16 --embd 256 --heads 2 --kv-heads 1 --head-dim 32 "
                                       "--ff 128 --layers 1 --tied");
    return kit_path("short.gguf");
}

/* Of all matrices of layers; columns' squares over two decades. */
static mnem_imatrix *importance(const char *path) {
    mnem_model *model;
    mnem_imatrix *m;
    mnem_tensor_info t;
    random_seed(5);
    must(mnem_model_open(path, &model));
    must(mnem_imatrix_create(&m));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        const int64_t k = t.shape[t.dims - 1];
        if (t.dims != 2 || strncmp(t.name, "blk.", 4) != 0) continue;
        float *sums = calloc((size_t)k, sizeof *sums);
        for (int64_t j = 0; j < k; j++) sums[j] = powf(100, (float)random_below(1000) / 1000);
        must(mnem_imatrix_add(m, t.name, 1, k, sums, (float[]){100}));
        free(sums);
    }
    mnem_model_close(model);
    return m;
}

static float *read_row(const char *path, const char *tensor, int64_t row) {
    mnem_model *model;
    mnem_tensor_info t;
    must(mnem_model_open(path, &model));
    const uint32_t index = (uint32_t)mnem_model_tensor_find(model, tensor);
    assert_true(mnem_model_tensor_get(model, index, &t));
    const int64_t k = t.shape[1];
    const uint64_t bytes = mnem_type_row_bytes(t.type, k);
    void *raw = malloc(bytes);
    float *x = malloc((size_t)k * sizeof *x);
    must(mnem_model_tensor_read(model, index, (uint64_t)row * bytes, bytes, raw));
    must(mnem_dequantize_row(t.type, k, raw, x));
    free(raw);
    mnem_model_close(model);
    return x;
}

/* ---- importance ---- */

static double weighted_error(const char *old, const char *new, const mnem_imatrix *m,
                             const char *tensor) {
    mnem_imatrix_entry e;
    double error = 0, squares = 0;
    assert_true(mnem_imatrix_find(m, tensor, &e));
    for (int64_t row = 0; row < 16; row++) {
        float *x = read_row(old, tensor, row), *y = read_row(new, tensor, row);
        for (int64_t j = 0; j < e.columns; j++) {
            error +=
                (double)e.sums[j] * ((double)y[j] - (double)x[j]) * ((double)y[j] - (double)x[j]);
            squares += (double)e.sums[j] * (double)x[j] * (double)x[j];
        }
        free(x);
        free(y);
    }
    return sqrt(error / squares);
}

static void errors_that_weigh_more_become_smaller(void **state) {
    (void)state;
    static const char *const kinds[] = {"Q4_0", "Q4_K", "Q3_K"};
    static const char tensor[] = "blk.0.ffn_gate.weight";
    const char *in = short_model(), *plain = kit_path("plain.gguf"), *out = kit_path("out.gguf");
    mnem_imatrix *m = importance(in);
    seen s;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        must(quantize(in, plain, (mnem_quantize_options){.type = kinds[i]}, &s));
        assert_false(report_of(&s, tensor)->weighted);
        must(quantize(in, out, (mnem_quantize_options){.type = kinds[i], .imatrix = m}, &s));
        const mnem_quantize_report *r = report_of(&s, tensor);
        const double before = weighted_error(in, plain, m, tensor),
                     after = weighted_error(in, out, m, tensor);
        assert_true(after < 0.93 * before);
        assert_true(r->weighted && fabs(r->weighted_error - after) < 0.1 * after);
        assert_false(report_of(&s, "token_embd.weight")->weighted);
    }
    mnem_imatrix_destroy(m);
}

static void threads_do_not_change_a_byte(void **state) {
    (void)state;
    const char *in = kit_path("in.gguf"), *one = kit_path("one.gguf");
    const char *three = kit_path("three.gguf");
    const mnem_tensor_rule rule = {"token_embd", "Q4_0"}; /* most of the weights */
    make_model(in, "--type F16 --embd 256 --heads 1 --kv-heads 1 --head-dim 32 --ff 32 --layers 1 "
                   "--tied");
    mnem_imatrix *m = importance(in);
    mnem_quantize_options o = {
        .target_bits = 4.5, .rules = &rule, .rules_count = 1, .imatrix = m, .threads = 1};
    must(quantize(in, one, o, NULL));
    o.threads = 3;
    must(quantize(in, three, o, NULL));
    assert_same_files(one, three);
    mnem_imatrix_destroy(m);
}

static void every_expert_has_its_own_weights(void **state) {
    (void)state;
    mnem_imatrix *m;
    seen s;
    must(mnem_imatrix_open(MNEM_TEST_DATA "/imatrix/qwen3moe.gguf", &m));
    must(quantize(MNEM_TEST_DATA "/architectures/qwen3moe.gguf", kit_path("moe.gguf"),
                  (mnem_quantize_options){.type = "Q4_0", .imatrix = m}, &s));
    assert_true(report_of(&s, "blk.0.ffn_gate_exps.weight")->weighted);
    assert_true(report_of(&s, "blk.0.ffn_up_exps.weight")->weighted_error > 0);
    mnem_imatrix_destroy(m);
}

static void the_importance_of_another_model_is_refused(void **state) {
    (void)state;
    const char *in = wide_model(), *out = kit_path("never.gguf");
    const float sums[] = {1, 2, 3}, counts[] = {1};
    mnem_imatrix *m;
    must(mnem_imatrix_create(&m));
    must(mnem_imatrix_add(m, "blk.99.attn_q.weight", 1, 3, sums, counts));
    const mnem_quantize_options o = {.type = "Q4_0", .imatrix = m};
    refused(quantize(in, out, o, NULL), MNEM_INVALID, "none of the model's tensors");
    must(mnem_imatrix_add(m, "blk.0.attn_q.weight", 1, 3, sums, counts));
    refused(quantize(in, out, o, NULL), MNEM_INVALID,
            "tensor blk.0.attn_q.weight has 1 x 3 columns in the importance matrix, but 256 in the "
            "model");
    mnem_imatrix_destroy(m);
}

/* ---- rules ---- */

static void the_first_rule_that_fits_names_the_type(void **state) {
    (void)state;
    const char *in = wide_model(), *out = kit_path("rules.gguf");
    const mnem_tensor_rule rules[] = {
        {"attn_(q|k)", "q6_k"}, {"blk\\.\\d+\\.attn", "Q8_0"}, {"norm|ffn_down", "Q5_K"}};
    seen s;
    must(quantize(in, out,
                  (mnem_quantize_options){.type = "Q4_0", .rules = rules, .rules_count = 3}, &s));
    assert_int_equal(report_of(&s, "blk.0.attn_q.weight")->to, MNEM_TYPE_Q6_K);
    assert_int_equal(report_of(&s, "blk.1.attn_v.weight")->to, MNEM_TYPE_Q8_0);
    assert_int_equal(report_of(&s, "blk.1.ffn_down.weight")->to, MNEM_TYPE_Q5_K);
    assert_int_equal(report_of(&s, "blk.1.ffn_up.weight")->to, MNEM_TYPE_Q4_0);
    assert_int_equal(report_of(&s, "blk.0.attn_norm.weight")->to, MNEM_TYPE_F32);
    make_model(kit_path("narrow.gguf"), "--type F16"); /* rows of 64 */
    must(quantize(kit_path("narrow.gguf"), out,
                  (mnem_quantize_options){.type = "Q8_0", .rules = rules, .rules_count = 1}, &s));
    assert_int_equal(report_of(&s, "blk.0.attn_q.weight")->to, MNEM_TYPE_Q8_0);
}

static void wrong_rules_are_named(void **state) {
    (void)state;
    static const struct {
        mnem_tensor_rule rule;
        const char *words;
    } cases[] = {{{"nothing", "Q8_0"}, "pattern \"nothing\" matches no matrix"},
                 {{"attn_q", "Q9"}, "type \"Q9\" is unknown"},
                 {{"attn_q", "Q4_K_M"}, "Q4_K_M is a mix"},
                 {{"attn_(q", "Q8_0"}, "pattern \"attn_(q\", character 8"}};
    const char *in = wide_model();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(quantize(in, kit_path("never.gguf"),
                         (mnem_quantize_options){
                             .type = "Q4_0", .rules = &cases[i].rule, .rules_count = 1},
                         NULL),
                MNEM_INVALID, cases[i].words);
}

/* ---- targets ---- */

static uint64_t file_bytes(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static double bits_of(const char *path) {
    mnem_model *model;
    mnem_model_info info;
    must(mnem_model_open(path, &model));
    mnem_model_info_get(model, &info);
    mnem_model_close(model);
    return 8 * (double)info.tensor_bytes / (double)info.parameters;
}

static void a_target_is_met_and_nearly_used(void **state) {
    (void)state;
    const char *in = short_model(), *out = kit_path("target.gguf");
    const mnem_tensor_rule rule = {"attn_v", "Q8_0"};
    mnem_model *model;
    mnem_value type;
    seen s;
    for (double bits = 3.1; bits < (MNEM_SANITIZED ? 4 : 9); bits += 4) {
        must(quantize(in, out, (mnem_quantize_options){.target_bits = bits}, NULL));
        assert_true(bits_of(out) <= bits && bits_of(out) > bits - 0.2);
    }
    const uint64_t bytes = file_bytes(in) / 3;
    must(quantize(in, out,
                  (mnem_quantize_options){.target_bytes = bytes, .rules = &rule, .rules_count = 1},
                  &s));
    assert_true(file_bytes(out) <= bytes && file_bytes(out) > bytes - bytes / 20);
    assert_int_equal(report_of(&s, "blk.0.attn_v.weight")->to, MNEM_TYPE_Q8_0);
    must(mnem_model_open(out, &model));
    assert_true(mnem_model_key_find(model, "general.file_type", &type));
    assert_true(type.u >= 10 && type.u <= 30);
    mnem_model_close(model);
}

static void a_target_that_cannot_be_met_says_what_can(void **state) {
    (void)state;
    const char *in = short_model(), *out = kit_path("never.gguf");
    refused(quantize(in, out, (mnem_quantize_options){.target_bits = 2}, NULL), MNEM_OVER_BUDGET,
            "target: even the smallest types need");
    refused(quantize(in, out, (mnem_quantize_options){.target_bits = 4, .type = "Q4_0"}, NULL),
            MNEM_INVALID, "expected exactly one of");
    refused(quantize(in, out, (mnem_quantize_options){.target_bits = 4, .target_bytes = 9}, NULL),
            MNEM_INVALID, "expected exactly one of");
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    make_model(kit_path("tiny.gguf"),
               "--type F16 --layers 1 --embd 32 --heads 2 --kv-heads 1 --ff 32");
    const mnem_tensor_rule rule = {"attn_v", "Q8_0"};
    mnem_imatrix *m = importance(kit_path("tiny.gguf"));
    heap_sweep sweep = {.most = 999};
    mnem_status status;
    do {
        heap_sweep_begin(&sweep, true);
        status = quantize(
            kit_path("tiny.gguf"), kit_path("out.gguf"),
            (mnem_quantize_options){
                .target_bits = 6, .rules = &rule, .rules_count = 1, .imatrix = m, .threads = 2},
            NULL);
        if (status == MNEM_INVALID) fail_msg("%s", mnem_last_error());
    } while (heap_sweep_next(&sweep, status));
    mnem_imatrix_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_that_weigh_more_become_smaller),
        cmocka_unit_test(threads_do_not_change_a_byte),
        cmocka_unit_test(every_expert_has_its_own_weights),
        cmocka_unit_test(the_importance_of_another_model_is_refused),
        cmocka_unit_test(the_first_rule_that_fits_names_the_type),
        cmocka_unit_test(wrong_rules_are_named),
        cmocka_unit_test(a_target_is_met_and_nearly_used),
        cmocka_unit_test(a_target_that_cannot_be_met_says_what_can),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
