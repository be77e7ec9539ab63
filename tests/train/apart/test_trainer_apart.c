/* test_trainer_apart.c: training on a device whose memory faults when the host touches it
 * (kit_apart.h): steps, evaluation, logits, checkpoints and model files have the host's bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/checksum.h"
#include "device/backend/backend.h"
#include "kit/kit.h"
#include "kit/kit_apart.h"
#include "kit/kit_device.h"
#include "kit/kit_file.h"
#include "train/trainer_case.h"

enum { STEPS = 3 };

/* All that a trainer says. */
typedef struct told {
    double loss[STEPS], norm[STEPS], again, evaluated;
    float logits[2][VOCAB]; /* by the short graph, and by a whole sequence's */
    uint64_t checkpoint, model;
} told;

static uint64_t sum_of_file(const char *path) {
    size_t n;
    char *bytes = read_file(path, &n);
    const uint64_t sum = mnem__checksum_of(bytes, n);
    free(bytes);
    return sum;
}

static void write_model(mnem_trainer *trainer, const char *path) {
    mnem_gguf_writer *writer;
    must(mnem_gguf_create(path, &writer));
    must(mnem_trainer_write(trainer, MNEM_TYPE_BF16, writer));
    must(mnem_gguf_finish(writer));
}

/* Into a file, and from it again where it is a model. */
static uint64_t through_a_file(mnem_trainer *trainer, bool is_model) {
    const char *path = kit_path("apart.gguf");
    mnem_model *model;
    write_model(trainer, path);
    const uint64_t sum = sum_of_file(path);
    if (is_model) {
        must(mnem_model_open(path, &model));
        must(mnem_trainer_load(trainer, model));
        mnem_model_close(model);
    }
    remove(path);
    return sum;
}

/* A model of random weights, to adapt or to learn from. */
static mnem_model *other_model(bool zeros) {
    mnem_train_options o = options_of("llama", NULL);
    mnem_model *model;
    made m = make(&o, 0);
    mnem_parameter p;
    for (int32_t i = 0; zeros && mnem_trainer_parameter_get(m.trainer, i, &p); i++)
        for (int64_t j = 0; p.dims == 2 && j < p.shape[0] * p.shape[1]; j += 3) p.weights[j] = 0;
    write_model(m.trainer, kit_path("other.gguf"));
    unmake(&m);
    must(mnem_model_open(kit_path("other.gguf"), &model));
    return model;
}

static double step(mnem_trainer *trainer, batch *b, double *norm) {
    mnem_train_report r;
    must(mnem_trainer_step(trainer, &(mnem_train_source){next, b}, &r));
    *norm = r.norm;
    return r.loss;
}

/* loaded: what the weights are, where they aren't random. */
static told train(const mnem_train_options *options, const mnem_model *loaded,
                  mnem_device *device) {
    const char *path = kit_path("apart.ckpt");
    mnem_train_options o = *options;
    mnem_train_plan plan;
    mnem_ledger_info info;
    mnem_trainer *t;
    told is = {0};
    double norm;
    int64_t tokens;
    char note[8];
    batch b;
    o.ledger = ledger_new(0);
    o.device = device;
    must(mnem_train_plan_make(&o, &plan));
    if (o.micro_batch) { /* all is recomputed, and the teacher's layers are read */
        memset(plan.keep, 0, sizeof plan.keep);
        plan.teacher_streamed = o.distill.teacher != NULL;
    }
    must(mnem_trainer_create(&o, &plan, &t));
    mnem_trainer_init(t, 7);
    if (loaded) must(mnem_trainer_load(t, loaded));
    if (o.distill.teacher) must(mnem_trainer_load_teacher(t, o.distill.teacher));
    fill_batch(&b, plan.micro_batch);
    for (int i = 0; i < STEPS; i++) {
        if (i == STEPS - 1) must(mnem_trainer_save(t, path, "note"));
        is.loss[i] = step(t, &b, &is.norm[i]);
        mnem_ledger_info_get(o.ledger, &info);
        assert_true(o.micro_batch || info.bytes_peak <= plan.peak_bytes);
    }
    is.checkpoint = sum_of_file(path);
    is.model = through_a_file(t, !o.lora.rank);
    must(mnem_trainer_resume(t, path, note, sizeof note));
    is.again = step(t, &b, &norm);
    b.left = BATCH;
    must(mnem_trainer_evaluate(t, &(mnem_train_source){next, &b}, &is.evaluated, &tokens));
    must(mnem_trainer_logits(t, b.ids, 3, is.logits[0]));
    must(mnem_trainer_logits(t, b.ids, SEQUENCE, is.logits[1]));
    mnem_trainer_destroy(t);
    must(mnem_ledger_destroy(o.ledger));
    remove(path);
    return is;
}

static void compare(const mnem_train_options *o, const mnem_model *loaded) {
    const told host = train(o, loaded, NULL);
    mnem_device *device = device_open("apart", 0);
    const uint64_t entries = apart_entries();
    const told apart = train(o, loaded, device);
    assert_true(apart_entries() > entries);
    must(mnem_device_close(device)); /* no block is left */
    assert_memory_equal(&apart, &host, sizeof host);
    assert_true(host.again == host.loss[STEPS - 1]);
}

static void the_bits_are_the_hosts(void **state) {
    static const struct {
        const char *architecture;
        mnem_type compute;
        mnem_moments moments;
        int32_t micro_batch; /* 0: chosen */
    } cases[] = {{"llama", MNEM_TYPE_F32, MNEM_MOMENTS_F32, 0},
                 {"gpt2", MNEM_TYPE_BF16, MNEM_MOMENTS_8BIT, 1},
                 {"llama", MNEM_TYPE_F16, MNEM_MOMENTS_8BIT, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mnem_train_options o = options_of(cases[i].architecture, NULL);
        o.compute = cases[i].compute;
        o.optimizer.moments = cases[i].moments;
        o.micro_batch = cases[i].micro_batch;
        o.dropout = 0.1f;
        o.threads = 2;
        compare(&o, NULL);
    }
}

static void adapters_and_a_teacher_have_them_too(void **state) {
    mnem_model *other = other_model(false);
    mnem_train_options o = options_of("llama", NULL);
    (void)state;
    o.threads = 2;
    o.distill = (mnem_distill){.teacher = other, .weight = 0.5f, .temperature = 2};
    compare(&o, NULL);
    o.distill.on = MNEM_DISTILL_STATES;
    o.micro_batch = 1;
    compare(&o, NULL);
    o.micro_batch = 0;
    o.distill.teacher = NULL;
    o.lora = (mnem_lora){.rank = 4, .alpha = 8, .base = other};
    compare(&o, other);
    mnem_model_close(other);
    remove(kit_path("other.gguf"));
}

static void weights_that_stay_zero_do_so_there(void **state) {
    mnem_model *other = other_model(true);
    mnem_train_options o = options_of("llama", NULL);
    (void)state;
    o.masked = true;
    compare(&o, other);
    mnem_model_close(other);
    remove(kit_path("other.gguf"));
}

/* A resume whose n-th copy fails is followed by no step, a save leaves the file, and a step can be
 * taken again. How many of them failed. */
static int fail_at(mnem_trainer *t, const char *path, uint64_t n, batch *b, double expected[2]) {
    const mnem_train_source source = {next, b};
    const uint64_t saved = sum_of_file(path);
    mnem_train_report r;
    char note[8];
    mnem__device_fail_at(n, false);
    const bool resumed = mnem_trainer_resume(t, path, note, sizeof note) == MNEM_OK;
    mnem__device_fail_at(0, false);
    if (!resumed) assert_int_equal(mnem_trainer_step(t, &source, &r), MNEM_INVALID);
    must(mnem_trainer_resume(t, path, note, sizeof note));
    mnem__device_fail_at(n, false);
    const bool written = mnem_trainer_save(t, path, "note") == MNEM_OK;
    mnem__device_fail_at(n, false);
    assert_true(sum_of_file(path) == saved);
    const bool stepped = mnem_trainer_step(t, &source, &r) == MNEM_OK;
    mnem__device_fail_at(0, false);
    b->at = 0;
    if (!stepped) must(mnem_trainer_step(t, &source, &r));
    if (n == 1) expected[0] = r.loss, expected[1] = r.norm;
    assert_true(r.loss == expected[0] && r.norm == expected[1]);
    return !resumed + !written + !stepped;
}

static void what_fails_there_can_be_tried_again(void **state) {
    const char *path = kit_path("apart.ckpt");
    mnem_train_options o = options_of("llama", ledger_new(0));
    mnem_train_plan plan;
    mnem_train_report report;
    mnem_trainer *t;
    double expected[2];
    uint64_t n = 1;
    batch b;
    (void)state;
    o.device = device_open("apart", 0);
    o.micro_batch = 1;
    must(mnem_train_plan_make(&o, &plan));
    must(mnem_trainer_create(&o, &plan, &t));
    mnem_trainer_init(t, 7);
    must(mnem_trainer_save(t, path, "note"));
    fill_batch(&b, plan.micro_batch);
    while (fail_at(t, path, n, &b, expected)) n++;
    assert_true(n > BATCH);
    mnem__device_fail_at(2, false);
    mnem_trainer_init(t, 7);
    mnem__device_fail_at(0, false);
    assert_int_equal(mnem_trainer_step(t, &(mnem_train_source){next, &b}, &report), MNEM_INVALID);
    through_a_file(t, true); /* whatever it has: it is all of a model */
    must(mnem_trainer_step(t, &(mnem_train_source){next, &b}, &report));
    mnem_trainer_destroy(t);
    remove(path);
    must(mnem_device_close(o.device));
    must(mnem_ledger_destroy(o.ledger));
}

static void what_can_not_run_there_is_refused(void **state) {
    mnem_train_options o = options_of("llama", ledger_new(0));
    mnem_train_plan plan;
    mnem_trainer *t;
    mnem_parameter p;
    (void)state;
    o.device = device_open("null", 0); /* for plans */
    must(mnem_train_plan_make(&o, &plan));
    assert_int_equal(mnem_trainer_create(&o, &plan, &t), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "for planning only"));
    must(mnem_device_close(o.device));
    o.device = device_open("apart", 0);
    must(mnem_train_plan_make(&o, &plan));
    must(mnem_trainer_create(&o, &plan, &t));
    assert_true(mnem_trainer_parameter_get(t, 0, &p));
    assert_true(!p.weights && !p.gradients); /* not for the host */
    mnem_trainer_destroy(t);
    must(mnem_device_close(o.device));
    must(mnem_ledger_destroy(o.ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_hosts),
        cmocka_unit_test(adapters_and_a_teacher_have_them_too),
        cmocka_unit_test(weights_that_stay_zero_do_so_there),
        cmocka_unit_test(what_fails_there_can_be_tried_again),
        cmocka_unit_test(what_can_not_run_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
