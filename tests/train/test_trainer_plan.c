/* test_trainer_plan.c: what a trainer's plan says before a step: bytes that are those of the
 * ledger, the least budget, time, and more budget that is never worse. */
#include <math.h>
#include <string.h>

#include "kit/kit.h"
#include "plan/knob_case.h"
#include "train/trainer_case.h"
#include "train/ways/train_ways.h"

static uint64_t account(const mnem_ledger *ledger, mnem_kind kind, const char *tag) {
    mnem_account_info a;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &a); i++)
        if (a.kind == kind && !strcmp(a.tag, tag)) return a.bytes_live;
    return 0;
}

static void predicted_is_what_the_ledger_shows(void **unused) {
    (void)unused;
    for (int i = 0; i < 8; i++) {
        mnem_train_options o = options_of(i & 1 ? "gpt2" : "llama", NULL);
        o.compute = i & 2 ? MNEM_TYPE_BF16 : MNEM_TYPE_F32;
        o.optimizer.moments = i & 4 ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
        made m = make(&o, 0);
        uint64_t sum = 0;
        for (unsigned j = 0; j < m.plan.lines; j++) {
            const mnem_plan_line *line = &m.plan.line[j];
            const uint64_t live = account(m.ledger, line->kind, line->tag);
            if (live != line->bytes)
                fail_msg("%s %s: %llu predicted, %llu live", mnem_kind_text(line->kind), line->tag,
                         (unsigned long long)line->bytes, (unsigned long long)live);
            sum += line->bytes;
        }
        mnem_ledger_info info;
        mnem_ledger_info_get(m.ledger, &info);
        assert_int_equal(sum, m.plan.peak_bytes);
        assert_int_equal(info.bytes_live, m.plan.peak_bytes);
        unmake(&m);
    }
}

static void a_budget_too_small_is_refused_with_the_least(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    mnem_train_plan plan;
    mnem_ledger *ledger = ledger_new(1 << 20);
    o.ledger = ledger;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(plan.knob.kind, MNEM_KNOB_MOMENTS);
    assert_null(strstr(mnem_last_error(), "--"));
    const uint64_t needed = plan.needed_bytes;
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    o.ledger = NULL;
    made m = make(&o, needed);
    assert_int_equal(m.plan.peak_bytes, needed);
    unmake(&m);
    ledger = ledger_new(needed - 1);
    o.ledger = ledger;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
}

/* The test of the machine takes less than the trainer would, and gives it back. */
static void a_predicted_time_leaves_nothing_behind(void **unused) {
    (void)unused;
    mnem_ledger *ledger = ledger_new(UINT64_MAX);
    mnem_train_options o = options_of("llama", ledger);
    mnem_ledger_info before, after;
    mnem_train_plan plan;
    double seconds, twice;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OK);
    mnem_ledger_info_get(ledger, &before);
    assert_int_equal(mnem_train_seconds(&o, &plan, &seconds), MNEM_OK);
    mnem_ledger_info_get(ledger, &after);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_true(after.bytes_peak <= plan.peak_bytes);
    assert_true(seconds > 0 && isfinite(seconds));
    plan.macs_per_step *= 1000; /* a thousand times the work */
    assert_int_equal(mnem_train_seconds(&o, &plan, &twice), MNEM_OK);
    assert_true(twice > seconds);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
}

/* By them planning passes over ways without measuring them. */
static void estimates_are_near_the_real_bytes(void **unused) {
    (void)unused;
    for (int i = 0; i < 4; i++) {
        mnem_train_options o = options_of(i & 1 ? "gpt2" : "llama", ledger_new(0));
        mnem__train_setup setup;
        mnem__train_ways ways;
        o.batch = 6;
        o.shape.layers = i & 2 ? 7 : 1;
        assert_int_equal(mnem__train_setup_init(&setup, &o), MNEM_OK);
        assert_int_equal(mnem__train_ways_create(&setup, &ways), MNEM_OK);
        assert_true(ways.count > 20);
        for (int32_t rank = 0; rank < ways.count; rank++) {
            mnem__train_way *way = mnem__train_way_get(&ways, rank);
            assert_int_equal(mnem__train_way_measure(&ways, way), MNEM_OK);
            const uint64_t real = way->sizes.all.bytes[MNEM__PART_ACTIVATIONS];
            const double ratio = (double)real / (double)way->estimate;
            if (ratio < 0.6 || ratio > 1.5) fail_msg("rank %d: %g of its estimate", rank, ratio);
            assert_true(way->least <= way->sizes.all.total);
            assert_true(way->least > way->sizes.all.total / 2);
        }
        mnem__train_ways_destroy(&ways);
        mnem__train_setup_fini(&setup);
        assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
    }
}

static mnem__parts measure(const mnem_train_options *o) {
    uint8_t keep[MNEM_TRAIN_LAYERS];
    mnem__train_setup setup;
    mnem__train_graphs graphs;
    mnem__train_sizes sizes;
    memset(keep, MNEM_KEEP_ALL, sizeof keep);
    assert_int_equal(mnem__train_setup_init(&setup, o), MNEM_OK);
    assert_int_equal(mnem__train_graphs_create(&setup, o->micro_batch, keep, &graphs), MNEM_OK);
    assert_int_equal(mnem__train_measure(&setup, o->micro_batch, &graphs, &sizes), MNEM_OK);
    mnem__train_graphs_destroy(&graphs);
    mnem__train_setup_fini(&setup);
    return sizes.all;
}

static void compare(knob_case *k, const mnem_train_options *a, const mnem_train_options *b) {
    const mnem__parts before = measure(a), after = measure(b);
    knob_case_compare(k, &before, &after, a->shape.architecture);
}

static void knobs_change_the_parts_that_the_list_says(void **unused) {
    (void)unused;
    knob_case moments = {.knob = MNEM_KNOB_MOMENTS}, compute = {.knob = MNEM_KNOB_COMPUTE},
              micro_batch = {.knob = MNEM_KNOB_MICRO_BATCH};
    for (int i = 0; i < 2; i++) {
        mnem_train_options o = options_of(i ? "gpt2" : "llama", ledger_new(0));
        o.batch = o.micro_batch = 16;
        o.shape.context = o.sequence = 64;
        o.shape.vocab = 2000; /* moments of small matrices stay f32 */
        o.optimizer.moments = MNEM_MOMENTS_F32;
        o.io_bytes_sequence = 100;
        mnem_train_options changed = o;
        changed.optimizer.moments = MNEM_MOMENTS_8BIT;
        compare(&moments, &o, &changed);
        changed = o;
        changed.compute = MNEM_TYPE_BF16;
        compare(&compute, &o, &changed);
        changed = o;
        for (changed.micro_batch = 1; changed.micro_batch < o.micro_batch; changed.micro_batch *= 2)
            compare(&micro_batch, &o, &changed);
        assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
    }
    knob_case_end(&moments);
    knob_case_end(&compute);
    knob_case_end(&micro_batch);
}

/* A larger budget is never predicted slower, and a smaller one never has a higher peak. */
static void plans_are_monotone_in_the_budget(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    uint64_t peak = 0;
    double macs = INFINITY;
    int plans = 0;
    o.batch = 6;
    o.shape.layers = 5;
    const uint64_t step = MNEM_SANITIZED ? 300007 : 100003;
    for (uint64_t budget = 1 << 20; budget < 8 << 20; budget += step) {
        mnem_train_plan plan;
        o.ledger = ledger_new(budget);
        const mnem_status status = mnem_train_plan_make(&o, &plan);
        assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
        if (status == MNEM_OVER_BUDGET) {
            assert_int_equal(plans, 0);
            continue;
        }
        assert_int_equal(status, MNEM_OK);
        assert_true(plan.peak_bytes <= budget && plan.peak_bytes >= peak);
        if (plan.peak_bytes == peak) assert_true(plan.macs_per_step == macs);
        peak = plan.peak_bytes;
        macs = plan.macs_per_step;
        plans++;
    }
    assert_true(plans > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicted_is_what_the_ledger_shows),
        cmocka_unit_test(a_budget_too_small_is_refused_with_the_least),
        cmocka_unit_test(a_predicted_time_leaves_nothing_behind),
        cmocka_unit_test(estimates_are_near_the_real_bytes),
        cmocka_unit_test(plans_are_monotone_in_the_budget),
        cmocka_unit_test(knobs_change_the_parts_that_the_list_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
