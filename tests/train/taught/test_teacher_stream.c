/* test_teacher_stream.c: a teacher whose layers come from its file: the same bits as a resident
 * one, inside less memory; what a cancel and a file that is gone do. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_file.h"
#include "train/taught/taught_case.h"

enum { LAYERS = 12, STEPS = 3 };
static char teacher[80];

/* Layers that are more than the ring and its thread. */
static int make_teacher(void **state) {
    (void)state;
    mnem_train_options o = options_of("llama", NULL);
    o.shape.layers = LAYERS;
    o.shape.embd = 64, o.shape.head_dim = 16, o.shape.rope.dims = 16, o.shape.ff = 96;
    made m = make(&o, 0);
    snprintf(teacher, sizeof teacher, "%s", write_model(m.trainer, MNEM_TYPE_F16, "deep"));
    unmake(&m);
    return 0;
}

static int drop_teacher(void **state) {
    (void)state;
    return unlink(teacher);
}

static mnem_train_options options(int32_t threads) {
    mnem_train_options o = options_of("llama", NULL);
    o.distill = (mnem_distill){.weight = 0.5f, .temperature = 2};
    o.micro_batch = BATCH;
    o.threads = threads;
    return o;
}

static mnem_train_plan plan_in(uint64_t budget, int32_t threads, mnem_status *status) {
    mnem_model *model = open_model(teacher);
    mnem_train_options o = options(threads);
    mnem_train_plan plan;
    o.distill.teacher = model;
    o.ledger = ledger_new(budget);
    *status = mnem_train_plan_make(&o, &plan);
    mnem_model_close(model);
    assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
    return plan;
}

/* The largest budget, about, in which the teacher is streamed. */
static uint64_t less_memory(int32_t threads) {
    mnem_status status;
    mnem_train_plan plan = plan_in(0, threads, &status);
    assert_int_equal(status, MNEM_OK);
    assert_false(plan.teacher_streamed);
    assert_true(plan.teacher_bytes_read == 0);
    while (!plan.teacher_streamed) {
        plan = plan_in(plan.peak_bytes - 1, threads, &status);
        if (status != MNEM_OK) fail_msg("%s", mnem_last_error());
    }
    return plan.peak_bytes;
}

/* ---- the same bits ---- */

static void a_streamed_teacher_says_the_same(void **state) {
    (void)state;
    taught t = learn_from(teacher, options(1), 0);
    const uint64_t resident = t.made.plan.peak_bytes, expected = bits_of_steps(&t, STEPS);
    leave(&t);
    for (int32_t threads = 1; threads <= 3; threads++) {
        mnem_ledger_info info;
        const uint64_t less = less_memory(threads);
        assert_true(threads > 1 || less < resident);
        t = learn_from(teacher, options(threads), less);
        assert_true(t.made.plan.teacher_streamed);
        assert_true(bits_of_steps(&t, STEPS) == expected);
        mnem_ledger_info_get(t.made.ledger, &info);
        assert_true(info.bytes_peak <= t.made.plan.peak_bytes);
        leave(&t);
    }
}

static void what_is_read_is_all_layers(void **state) {
    (void)state;
    mnem_status status;
    const mnem_train_plan plan = plan_in(less_memory(1), 1, &status);
    uint64_t sum = 0, ring = 0;
    for (unsigned i = 0; i < plan.lines; i++) {
        sum += plan.line[i].bytes;
        if (plan.line[i].kind == MNEM_KIND_IO && !strcmp(plan.line[i].tag, "teacher"))
            ring = plan.line[i].bytes;
    }
    assert_true(sum == plan.peak_bytes);
    /* two of twelve layers, whole pages */
    assert_true(ring >= plan.teacher_bytes_read / LAYERS * 2);
    assert_true(ring <= plan.teacher_bytes_read / LAYERS * 2 + 8192);
}

static void a_run_goes_on_in_another_budget(void **state) {
    (void)state;
    const char *path = case_path("checkpoint");
    char note[8];
    taught t = learn_from(teacher, options(1), 0);
    run_steps(&t.made, 2);
    assert_int_equal(mnem_trainer_save(t.made.trainer, path, ""), MNEM_OK);
    const uint64_t expected = bits_of_steps(&t, 2);
    leave(&t);
    t = learn_from(teacher, options(1), less_memory(1));
    assert_true(t.made.plan.teacher_streamed);
    assert_int_equal(mnem_trainer_resume(t.made.trainer, path, note, sizeof note), MNEM_OK);
    assert_true(bits_of_steps(&t, 2) == expected);
    leave(&t);
    unlink(path);
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    mnem_ledger_info before, after;
    taught t = learn_from(teacher, options(1), less_memory(1));
    run_steps(&t.made, 1);
    mnem_ledger_info_get(t.made.ledger, &before);
    run_steps(&t.made, 2);
    mnem_ledger_info_get(t.made.ledger, &after);
    assert_int_equal(after.bytes_peak, before.bytes_peak);
    assert_int_equal(after.bytes_live, before.bytes_live);
    leave(&t);
}

/* ---- what goes wrong ---- */

typedef struct stopper {
    mnem_trainer *trainer;
    int nodes;
} stopper;

/* Somewhere in the teacher's sixth layer. */
static void stop_after_some(void *context, int32_t node, const mnem_op *op, double seconds) {
    stopper *s = context;
    (void)node, (void)op, (void)seconds;
    if (++s->nodes == 75) mnem_trainer_cancel(s->trainer);
}

static void after_a_cancel_it_begins_with_the_first_layer(void **state) {
    (void)state;
    batch b;
    mnem_train_report report;
    const uint64_t less = less_memory(1);
    taught t = learn_from(teacher, options(1), less);
    const uint64_t expected = bits_of_steps(&t, STEPS);
    leave(&t);
    t = learn_from(teacher, options(1), less);
    fill_batch(&b, t.made.plan.micro_batch);
    stopper s = {.trainer = t.made.trainer};
    mnem_trainer_observe(t.made.trainer, &(mnem_graph_observer){stop_after_some, &s});
    assert_int_equal(mnem_trainer_step(t.made.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_CANCELLED);
    mnem_trainer_observe(t.made.trainer, NULL);
    assert_in_range(s.nodes, 75, 95);
    assert_true(bits_of_steps(&t, STEPS) == expected);
    leave(&t);
}

static void a_file_that_is_cut_off_stops_the_step(void **state) {
    (void)state;
    batch b;
    mnem_train_report report;
    mnem_status status = MNEM_OK;
    const uint64_t less = less_memory(1);
    size_t n;
    char *bytes = read_file(teacher, &n);
    const char *copy = kit_path("copy.gguf");
    write_file(copy, bytes, n);
    free(bytes);
    taught t = learn_from(copy, options(1), less);
    assert_true(t.made.plan.teacher_streamed);
    fill_batch(&b, t.made.plan.micro_batch);
    assert_int_equal(truncate(copy, 4096), 0);
    for (int i = 0; i < 3 && status == MNEM_OK; i++)
        status = mnem_trainer_step(t.made.trainer, &(mnem_train_source){next, &b}, &report);
    assert_true(status == MNEM_BAD_FILE || status == MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), copy));
    leave(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_streamed_teacher_says_the_same),
        cmocka_unit_test(what_is_read_is_all_layers),
        cmocka_unit_test(a_run_goes_on_in_another_budget),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(after_a_cancel_it_begins_with_the_first_layer),
        cmocka_unit_test(a_file_that_is_cut_off_stops_the_step),
    };
    return cmocka_run_group_tests(tests, make_teacher, drop_teacher);
}
