/* test_trainer_apart.c: training on a device whose memory faults when the host touches it
 * (kit_apart.h): steps, evaluation, logits, checkpoints and model files have the host's bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/checksum.h"
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

/* Into a file, and from it again. */
static uint64_t through_a_file(mnem_trainer *trainer, mnem_type type) {
    const char *path = kit_path("apart.gguf");
    mnem_gguf_writer *writer;
    mnem_model *model;
    must(mnem_gguf_create(path, &writer));
    must(mnem_trainer_write(trainer, type, writer));
    must(mnem_gguf_finish(writer));
    const uint64_t sum = sum_of_file(path);
    must(mnem_model_open(path, &model));
    must(mnem_trainer_load(trainer, model));
    mnem_model_close(model);
    remove(path);
    return sum;
}

static double step(mnem_trainer *trainer, batch *b, double *norm) {
    mnem_train_report r;
    must(mnem_trainer_step(trainer, &(mnem_train_source){next, b}, &r));
    *norm = r.norm;
    return r.loss;
}

static told train(const mnem_train_options *options, mnem_device *device) {
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
    must(mnem_trainer_create(&o, &plan, &t));
    mnem_trainer_init(t, 7);
    fill_batch(&b, plan.micro_batch);
    for (int i = 0; i < STEPS; i++) {
        if (i == STEPS - 1) must(mnem_trainer_save(t, path, "note"));
        is.loss[i] = step(t, &b, &is.norm[i]);
        mnem_ledger_info_get(o.ledger, &info);
        assert_true(info.bytes_peak <= plan.peak_bytes);
    }
    is.checkpoint = sum_of_file(path);
    is.model = through_a_file(t, MNEM_TYPE_BF16);
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

static void the_bits_are_the_hosts(void **state) {
    static const struct {
        const char *architecture;
        mnem_type compute;
        mnem_moments moments;
    } cases[] = {{"llama", MNEM_TYPE_F32, MNEM_MOMENTS_F32},
                 {"gpt2", MNEM_TYPE_BF16, MNEM_MOMENTS_8BIT},
                 {"llama", MNEM_TYPE_F16, MNEM_MOMENTS_8BIT}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mnem_train_options o = options_of(cases[i].architecture, NULL);
        o.compute = cases[i].compute;
        o.optimizer.moments = cases[i].moments;
        o.dropout = 0.1f;
        o.threads = 2;
        const told host = train(&o, NULL);
        mnem_device *device = device_open("apart", 0);
        const uint64_t entries = apart_entries();
        const told apart = train(&o, device);
        assert_true(apart_entries() > entries);
        must(mnem_device_close(device)); /* no block is left */
        assert_memory_equal(&apart, &host, sizeof host);
        assert_true(host.again == host.loss[STEPS - 1]);
    }
}

/* Its parameters aren't for the host, and what isn't there yet is refused by name. */
static void what_the_device_lacks_is_refused(void **state) {
    static const char *const devices[] = {"apart", "null"};
    static const char *const said[] = {"masked training isn't supported on this device",
                                       "for planning only"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        mnem_device *device = device_open(devices[i], 0);
        mnem_train_options o = options_of("llama", ledger_new(0));
        mnem_train_plan plan;
        mnem_trainer *t;
        mnem_parameter p;
        o.device = device;
        o.masked = true;
        must(mnem_train_plan_make(&o, &plan));
        assert_int_equal(mnem_trainer_create(&o, &plan, &t), MNEM_UNSUPPORTED);
        assert_non_null(strstr(mnem_last_error(), said[i]));
        o.masked = false;
        if (i == 0) {
            must(mnem_train_plan_make(&o, &plan));
            must(mnem_trainer_create(&o, &plan, &t));
            assert_true(mnem_trainer_parameter_get(t, 0, &p));
            assert_true(!p.weights && !p.gradients);
            mnem_trainer_destroy(t);
        }
        must(mnem_device_close(device));
        must(mnem_ledger_destroy(o.ledger));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_hosts),
        cmocka_unit_test(what_the_device_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
