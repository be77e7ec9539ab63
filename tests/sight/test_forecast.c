/* test_forecast.c: factors are learned from runs, forecasts come near, bands hold what they say. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"
#include "mnem/forecast.h"

#define MACHINE "0123456789abcdef"
static const mnem_machine_profile profile = {20e9, 1e9, 100e9, 0};

/* A machine whose classes take so many times what their roofs say. */
static const double truth[] = {1.7, 2.6, 1.2, 5.0};

static double uniform(uint64_t *state) {
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

static double normal(uint64_t *state) {
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += uniform(state);
    return sum - 6;
}

/* A job of some size: its work, and what it takes here without noise. */
static double job(double scale, double mix, mnem_work *work) {
    const double macs[] = {4e9 * scale, 1e9 * scale * mix, 0, 1e5};
    const double bytes[] = {3e9 * scale, 2e9 * scale * mix, 1e9 * scale / mix, 0};
    static const char *const names[] = {"matvec", "attend", "rows", "pass"};
    double y = 0;
    for (int i = 0; i < 4; i++) {
        work[i] = (mnem_work){.level = "memory", .macs = macs[i], .bytes = bytes[i]};
        snprintf(work[i].op, sizeof work[i].op, "%s", names[i]);
        y += truth[i] * (i == 3 ? macs[i] * 1e-6 : fmax(macs[i] / 100e9, bytes[i] / 20e9));
    }
    return y;
}

static mnem_history_run run_of(double scale, double mix, double noise, uint64_t *state) {
    mnem_history_run run = {.verb = "run", .machine = MACHINE, .threads = 2};
    mnem_history_phase *p = &run.phase[MNEM_PHASE_TOKENS];
    const double quiet = job(scale, mix, p->work) * exp(noise * normal(state));
    p->works = 4;
    p->tokens = 100;
    p->seconds = quiet * 1.5; /* others ran, too */
    p->cpu_seconds = 2 * quiet;
    return run;
}

static mnem_forecaster *learn(int runs, double noise, uint64_t *state) {
    mnem_forecaster *f;
    must(mnem_forecaster_create(&profile, MACHINE, &f));
    for (int i = 0; i < runs; i++) {
        const mnem_history_run run =
            run_of(0.2 + 2 * uniform(state), 0.3 + uniform(state), noise, state);
        assert_true(mnem_forecaster_add(f, &run));
    }
    mnem_forecaster_learn(f);
    return f;
}

static mnem_forecast make(const mnem_forecaster *f, double scale, double mix, double plan,
                          double *truly) {
    mnem_work work[MNEM_HISTORY_WORKS];
    *truly = job(scale, mix, work);
    return mnem_forecast_make(f, MNEM_PHASE_TOKENS, work, 4, 2, plan);
}

static void few_runs_leave_the_plan_and_a_fifth(void **state) {
    (void)state;
    uint64_t seed = 1;
    double truly;
    for (int n = 0; n < 8; n++) {
        mnem_forecaster *f = learn(n, 0.05, &seed);
        const mnem_forecast t = make(f, 1, 1, 0.5, &truly);
        assert_int_equal(t.band, MNEM_BAND_PLAN);
        assert_int_equal(t.runs, n);
        assert_float_equal(t.seconds, 0.5, 1e-12);
        assert_float_equal(t.high, 0.6, 1e-12);
        const mnem_forecast none = make(f, 1, 1, 0, &truly);
        assert_int_equal(none.band, n ? MNEM_BAND_PLAN : MNEM_BAND_NONE);
        mnem_forecaster_destroy(f);
    }
}

/* Of shapes between those that were seen, and of ones beyond them, over many histories. */
static void eight_runs_come_within_a_tenth(void **state) {
    (void)state;
    enum { HISTORIES = 41 };
    double seen[HISTORIES], fresh[HISTORIES], truly;
    uint64_t seed = 5;
    for (int h = 0; h < HISTORIES; h++) {
        mnem_forecaster *f = learn(8, 0.05, &seed);
        seen[h] = fabs(make(f, 1.1, 0.8, 0, &truly).seconds / truly - 1);
        fresh[h] = fabs(make(f, 6, 3, 0, &truly).seconds / truly - 1);
        mnem_forecaster_destroy(f);
    }
    for (double *of = seen, limit = 0.1; of; of = of == seen ? fresh : NULL, limit = 0.2) {
        for (int i = 1; i < HISTORIES; i++)
            for (int k = i; k > 0 && of[k] < of[k - 1]; k--) {
                const double held = of[k];
                of[k] = of[k - 1];
                of[k - 1] = held;
            }
        print_message("median %.3f, worst %.3f\n", of[HISTORIES / 2], of[HISTORIES - 1]);
        assert_true(of[HISTORIES / 2] < limit);
    }
}

/* How often the band holds a further run. */
static double cover(int runs, int tries, uint64_t seed) {
    int inside = 0;
    double truly;
    for (int i = 0; i < tries; i++) {
        mnem_forecaster *f = learn(runs, 0.08, &seed);
        const double scale = 0.2 + 2 * uniform(&seed), mix = 0.3 + uniform(&seed);
        const mnem_forecast t = make(f, scale, mix, 0, &truly);
        const double y = truly * exp(0.08 * normal(&seed));
        inside += y >= t.low && y <= t.high;
        mnem_forecaster_destroy(f);
    }
    print_message("%d runs: %.1f %% inside\n", runs, 100.0 * inside / tries);
    return (double)inside / tries;
}

static void the_band_holds_what_it_says(void **state) {
    (void)state;
    const int tries = MNEM_SANITIZED ? 40 : 300;
    const double least = MNEM_SANITIZED ? 0.8 : 0.9, most = MNEM_SANITIZED ? 1 : 0.995;
    static const int runs[] = {8, 12, 19, 40};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const double part = cover(runs[i], tries, 11 + i);
        assert_true(part >= least && part <= most);
    }
}

static void one_wild_run_changes_little(void **state) {
    (void)state;
    uint64_t seed = 9;
    double truly;
    mnem_forecaster *f;
    must(mnem_forecaster_create(&profile, MACHINE, &f));
    for (int i = 0; i < 12; i++) {
        mnem_history_run run = run_of(0.5 + 0.1 * i, 1, 0.02, &seed);
        if (i == 6) run.phase[MNEM_PHASE_TOKENS].seconds *= 20;
        if (i == 6) run.phase[MNEM_PHASE_TOKENS].cpu_seconds *= 20;
        mnem_forecaster_add(f, &run);
    }
    mnem_forecaster_learn(f);
    const mnem_forecast t = make(f, 1, 1, 0, &truly);
    assert_true(fabs(t.seconds / truly - 1) < 0.2);
    mnem_forecaster_destroy(f);
}

static void runs_of_other_machines_dont_count(void **state) {
    (void)state;
    uint64_t seed = 3;
    double truly;
    mnem_forecaster *f;
    must(mnem_forecaster_create(NULL, "another", &f));
    for (int i = 0; i < 20; i++) {
        const mnem_history_run run = run_of(1, 1, 0.02, &seed);
        mnem_forecaster_add(f, &run);
    }
    mnem_forecaster_learn(f);
    assert_int_equal(make(f, 1, 1, 0, &truly).band, MNEM_BAND_NONE);
    mnem_forecaster_destroy(f);
}

/* More runs than it holds, and numbers that no run has. */
static void it_stays_whole_whatever_is_in_the_history(void **state) {
    (void)state;
    uint64_t seed = 13;
    double truly;
    mnem_forecaster *f;
    must(mnem_forecaster_create(&profile, MACHINE, &f));
    for (int i = 0; i < 3 * MNEM_FORECAST_RUNS; i++) {
        mnem_history_run run = run_of(1, 1, 0.02, &seed);
        mnem_history_phase *p = &run.phase[MNEM_PHASE_TOKENS];
        if (i % 3 == 1) snprintf(p->work[0].type, sizeof p->work[0].type, "T%d", i);
        if (i % 7 == 0) p->work[1].bytes = 1e300;
        if (i % 11 == 0) p->cpu_seconds = 1e-300;
        if (i % 13 == 0) p->works = 0;
        mnem_forecaster_add(f, &run);
    }
    mnem_forecaster_learn(f);
    const mnem_forecast t = make(f, 1, 1, 0, &truly);
    assert_true(isfinite(t.seconds) && t.seconds > 0 && t.low <= t.seconds && t.high >= t.seconds);
    mnem_forecaster_destroy(f);
}

static void work_is_that_of_the_shapes(void **state) {
    (void)state;
    const mnem_ledger_options options = {.budget_bytes = UINT64_C(1) << 30, .preparing = true};
    mnem_work one[MNEM_HISTORY_WORKS], all[MNEM_HISTORY_WORKS];
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_model_info m;
    mnem_engine_plan plan;
    must(mnem_ledger_create(&options, &ledger));
    make_model(kit_path("m.gguf"), "--arch llama --tied");
    must(mnem_model_open(kit_path("m.gguf"), &model));
    must(mnem_engine_plan_make(model, &(mnem_engine_options){.ledger = ledger, .context = 64},
                               &plan));
    mnem_model_info_get(model, &m);
    const int32_t n = mnem_work_of_tokens(model, &plan, MNEM_PHASE_TOKENS, 10, 32, one);
    assert_int_equal(mnem_work_of_tokens(model, &plan, MNEM_PHASE_TOKENS, 20, 32, all), n);
    double macs = 0;
    for (int32_t i = 0; i < n; i++) {
        assert_float_equal(all[i].macs, 2 * one[i].macs, 1e-6 * one[i].macs);
        if (strcmp(one[i].op, "matvec") == 0) macs += one[i].macs;
    }
    assert_true(macs > 9 * (double)m.parameters && macs <= 10 * (double)m.parameters);
    mnem_model_close(model);
    must(mnem_ledger_destroy(ledger));
}

#define FILE_OF(name) MNEM_TEST_DATA "/architectures/" name ".gguf"

/* The class op of 10 tokens that attend to 32 positions; false: there is none. */
static bool work_of_class(const char *path, const char *op, mnem_work *found) {
    const mnem_ledger_options options = {.budget_bytes = UINT64_C(1) << 30, .preparing = true};
    mnem_work work[MNEM_HISTORY_WORKS];
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_engine_plan plan;
    bool any = false;
    must(mnem_ledger_create(&options, &ledger));
    must(mnem_model_open(path, &model));
    must(mnem_engine_plan_make(model, &(mnem_engine_options){.ledger = ledger, .context = 64},
                               &plan));
    const int32_t n = mnem_work_of_tokens(model, &plan, MNEM_PHASE_TOKENS, 10, 32, work);
    for (int32_t i = 0; i < n && !any; i++)
        if ((any = strcmp(work[i].op, op) == 0)) *found = work[i];
    mnem_model_close(model);
    must(mnem_ledger_destroy(ledger));
    return any;
}

static void layers_with_a_state_do_not_attend(void **state) {
    (void)state;
    const double states = 2 * 4 * 16 * 16; /* layers, heads, rows, columns */
    mnem_work w;
    assert_true(
        work_of_class(FILE_OF("qwen35"), "attend", &w)); /* one layer of three, 4 heads of 16 */
    assert_float_equal(w.macs, 2. * 4 * 16 * 32 * 10, 1e-6);
    assert_float_equal(w.bytes, 2. * 2 * 16 * 2 * 32 * 10, 1e-6);
    assert_true(work_of_class(FILE_OF("qwen35"), "state", &w));
    assert_float_equal(w.macs, 3 * states * 10, 1e-6);
    assert_true(w.bytes >= 2 * 4 * states * 10 && w.bytes < 4 * 4 * states * 10);
    assert_false(work_of_class(FILE_OF("mamba2"), "attend", &w));
    assert_true(work_of_class(FILE_OF("mamba2"), "state", &w));
    assert_false(work_of_class(FILE_OF("qwen3"), "state", &w));
}

static void set_key(char *bytes, size_t n, const char *key, uint32_t value) {
    char *at = memmem(bytes, n, key, strlen(key));
    assert_non_null(at);
    memcpy(at + strlen(key) + 4, &value, sizeof value); /* behind its type */
}

static void layers_behind_those_that_run_are_no_work(void **state) {
    (void)state;
    static const char *const classes[] = {"matvec", "experts"};
    size_t n;
    char *bytes = read_file(FILE_OF("glm4moe"), &n);
    set_key(bytes, n, "glm4moe.nextn_predict_layers", 1);
    write_file(kit_path("ahead.gguf"), bytes, n);
    free(bytes);
    for (int i = 0; i < 2; i++) {
        mnem_work all, trunk;
        assert_true(work_of_class(FILE_OF("glm4moe"), classes[i], &all));
        assert_true(work_of_class(kit_path("ahead.gguf"), classes[i], &trunk));
        assert_true(trunk.macs < all.macs && trunk.bytes < all.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_runs_leave_the_plan_and_a_fifth),
        cmocka_unit_test(eight_runs_come_within_a_tenth),
        cmocka_unit_test(the_band_holds_what_it_says),
        cmocka_unit_test(one_wild_run_changes_little),
        cmocka_unit_test(runs_of_other_machines_dont_count),
        cmocka_unit_test(it_stays_whole_whatever_is_in_the_history),
        cmocka_unit_test(work_is_that_of_the_shapes),
        cmocka_unit_test(layers_with_a_state_do_not_attend),
        cmocka_unit_test(layers_behind_those_that_run_are_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
