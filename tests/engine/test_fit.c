/* test_fit.c: what a plan predicts is what the session takes, over a grid of models, options and
 * budgets; more memory is never slower, less never takes more, and the knob of a refusal works. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "plan/plan_parts.h"

/* Under sanitizers fewer budgets of every model and variant. */
enum { STEPS = MNEM_SANITIZED ? 2 : 4, CLOSE = MNEM_SANITIZED ? 6 : 20 };
enum { PLANS_LEAST = MNEM_SANITIZED ? 300 : 500, SESSIONS_LEAST = MNEM_SANITIZED ? 150 : 300 };

static unsigned plans, sessions, refusals;
static mnem_device *null_device;

static const char *const models[] = {
    "--arch llama --embd 64 --layers 2 --heads 4 --kv-heads 2 --ff 96 --vocab 384 --type F32",
    "--arch llama --embd 256 --layers 5 --heads 8 --kv-heads 2 --ff 512 --vocab 512 --type Q4_K "
    "--tied",
    "--arch qwen2 --embd 128 --layers 3 --heads 4 --kv-heads 4 --ff 384 --vocab 1000 --type Q5_0",
    "--arch qwen3 --embd 128 --layers 7 --heads 4 --kv-heads 1 --head-dim 64 --ff 256 --vocab 600 "
    "--type Q8_0 --output-type F16",
    "--arch llama --embd 64 --layers 1 --heads 2 --kv-heads 2 --ff 128 --vocab 9001 --type BF16",
};
enum { MODELS = sizeof models / sizeof models[0] };

static const mnem_machine_profile profiles[] = {
    {20e9, 1e9, 50e9, 0}, {5e9, 100e6, 4e9, 0}, {200e9, 7e9, 3e12, 0}};

/* One of each that stands out; the grid is these by models by budgets. */
static const mnem_engine_options variants[] = {
    {.profile = &profiles[0]},
    {.profile = &profiles[1], .kv = MNEM_KV_AUTO, .threads = 2},
    {.context = 1, .threads = 1},
    {.context = 100, .threads = 3, .kv = MNEM_KV_AUTO},
    {.context = 256, .chunk = 1, .threads = 1},
    {.context = 512, .chunk = 48, .page_cache = true, .threads = 2, .profile = &profiles[2]},
    {.context = 700, .kv = MNEM_KV_Q8_0, .threads = 4, .logits_rows = 7},
    {.context = 2048, .chunk = 300, .kv = MNEM_KV_F16, .threads = 1},
    {.context = 900, .kv = MNEM_KV_Q4_0, .threads = 2},
    {.chunk = 5, .page_cache = true, .threads = 2},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

static const char *model_path(int model) {
    char name[16];
    snprintf(name, sizeof name, "%d.gguf", model);
    return kit_path(name);
}

static int make_models(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "--context 2048 %s", models[i]);
        make_model(model_path(i), arguments);
    }
    return mnem_device_open("null", NULL, &null_device) == MNEM_OK ? 0 : -1;
}

static int remove_models(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) unlink(model_path(i));
    return kit_folder_remove() == 0 && mnem_device_close(null_device) == MNEM_OK ? 0 : -1;
}

/* ---- predicted is taken ---- */

static uint64_t planned(const mnem_engine_plan *plan, const mnem_account_info *account) {
    for (unsigned i = 0; i < plan->lines; i++)
        if (plan->line[i].kind == account->kind && !strcmp(plan->line[i].tag, account->tag))
            return plan->line[i].bytes;
    return 0;
}

static void assert_ledger_is_plan(const session_case *c) {
    mnem_ledger_info info;
    mnem_account_info account;
    mnem_ledger_info_get(c->ledger, &info);
    for (unsigned i = 0; mnem_ledger_account_get(c->ledger, i, &account); i++) {
        if (planned(&c->plan, &account) != account.bytes_live)
            print_message("%s %s: planned %llu, live %llu\n", mnem_kind_text(account.kind),
                          account.tag, (unsigned long long)planned(&c->plan, &account),
                          (unsigned long long)account.bytes_live);
        assert_int_equal(planned(&c->plan, &account), account.bytes_live);
    }
    assert_int_equal(info.bytes_live, c->plan.peak_bytes);
}

/* Plans and creates. On MNEM_OK the ledger was compared, and stayed within the budget. */
static mnem_status try_budget(int model, uint64_t budget, const mnem_engine_options *o,
                              mnem_engine_plan *plan) {
    session_case c;
    const mnem_status status = session_case_open(&c, model_path(model), budget, o);
    plans++;
    if (status == MNEM_OK) {
        assert_ledger_is_plan(&c);
        if (budget) assert_true(c.plan.peak_bytes <= budget);
        sessions++;
        session_case_close(&c);
    } else {
        if (status != MNEM_OVER_BUDGET) print_message("%s\n", mnem_last_error());
        assert_int_equal(status, MNEM_OVER_BUDGET);
        refusals++;
    }
    *plan = c.plan;
    return status;
}

/* ---- the knob of a refusal ---- */

/* Does what a refusal says. */
static void turn_knob(const mnem_engine_plan *plan, uint64_t *budget, mnem_engine_options *o) {
    switch (plan->knob.kind) {
    case MNEM_KNOB_KV: o->kv = (mnem_kv_choice)plan->knob.value; break;
    case MNEM_KNOB_CONTEXT: o->context = (int32_t)plan->knob.value; break;
    case MNEM_KNOB_CHUNK: o->chunk = (int32_t)plan->knob.value; break;
    case MNEM_KNOB_NONE: *budget = plan->needed_bytes; break;
    default: fail_msg("not a knob of a session: %d", plan->knob.kind);
    }
}

static void assert_refused_with_a_knob_that_works(int model, uint64_t budget,
                                                  mnem_engine_options o) {
    mnem_engine_plan plan;
    char text[256];
    assert_int_equal(try_budget(model, budget, &o, &plan), MNEM_OVER_BUDGET);
    snprintf(text, sizeof text, "%s", mnem_last_error());
    assert_true(plan.needed_bytes > budget);
    turn_knob(&plan, &budget, &o);
    if (try_budget(model, budget, &o, &plan) != MNEM_OK) {
        print_message("said: %s\n", text);
        fail_msg("the knob doesn't help: %s", mnem_last_error());
    }
}

/* ---- the grid ---- */

typedef struct climb {
    uint64_t peak;
    double seconds;
} climb;

static void assert_climbs(climb *before, const mnem_engine_plan *plan, uint64_t budget) {
    if (plan->predicted_seconds > before->seconds || plan->peak_bytes + MIB < before->peak)
        print_message("budget %llu: %.17g s after %.17g s, peak %llu after %llu\n",
                      (unsigned long long)budget, plan->predicted_seconds, before->seconds,
                      (unsigned long long)plan->peak_bytes, (unsigned long long)before->peak);
    assert_true(plan->predicted_seconds > 0);
    assert_true(plan->predicted_seconds <= before->seconds);
    assert_true(plan->peak_bytes + MIB >= before->peak);
    *before = (climb){plan->peak_bytes, plan->predicted_seconds};
}

/* From the least that does to all that helps, in steps that grow. */
static void climb_budgets(int model, const mnem_engine_options *o, uint64_t least, uint64_t most) {
    climb last = {0, 1e300};
    mnem_engine_plan plan;
    for (int i = 0; i <= STEPS; i++) {
        const uint64_t budget =
            least + (uint64_t)((double)(most - least) * i * i / (STEPS * STEPS));
        assert_int_equal(try_budget(model, budget, o, &plan), MNEM_OK);
        assert_climbs(&last, &plan, budget);
        if (plan.smaller_bytes) assert_true(plan.smaller_bytes < plan.peak_bytes);
        if (plan.larger_bytes) assert_true(plan.larger_bytes > budget);
    }
}

static void check(int model, const mnem_engine_options *o) {
    mnem_engine_plan plan;
    assert_int_equal(try_budget(model, 0, o, &plan), MNEM_OK);
    const uint64_t most = plan.peak_bytes;
    assert_int_equal(try_budget(model, MNEM__RESERVE, o, &plan), MNEM_OVER_BUDGET);
    const uint64_t least = plan.needed_bytes;
    if (least > most)
        fail_msg("%d: least %llu, without a limit %llu", model, (unsigned long long)least,
                 (unsigned long long)most);
    climb_budgets(model, o, least, most);
    assert_int_equal(try_budget(model, least, o, &plan), MNEM_OK);
    assert_int_equal(plan.peak_bytes, least);
    assert_refused_with_a_knob_that_works(model, least - 1, *o);
    assert_refused_with_a_knob_that_works(model, least - (least - MNEM__RESERVE) / 2 - 1, *o);
}

static void every_plan_of_the_grid_is_what_its_session_takes(void **state) {
    (void)state;
    for (int model = 0; model < MODELS; model++)
        for (int variant = 0; variant < VARIANTS; variant++) {
            mnem_engine_options o = variants[variant];
            if (model == 0 && (o.kv == MNEM_KV_Q8_0 || o.kv == MNEM_KV_Q4_0))
                continue; /* heads too small for it */
            if ((model + variant) % 3 == 0) o.device = null_device;
            check(model, &o);
        }
    print_message("%u plans: %u sessions taken, %u refused\n", plans, sessions, refusals);
    assert_true(plans >= PLANS_LEAST && sessions >= SESSIONS_LEAST);
}

/* Planning alone, at budgets close together. */
static mnem_status plan_only(int model, uint64_t budget, mnem_engine_options o,
                             mnem_engine_plan *plan) {
    mnem_ledger *ledger;
    mnem_model *opened;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger),
                     MNEM_OK);
    assert_int_equal(mnem_model_open(model_path(model), &opened), MNEM_OK);
    o.ledger = ledger;
    const mnem_status status = mnem_engine_plan_make(opened, &o, plan);
    mnem_model_close(opened);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    return status;
}

static void budgets_close_together_only_climb(void **state) {
    (void)state;
    static const int variant[] = {0, 1, 8};
    for (size_t v = 0; v < sizeof variant / sizeof *variant; v++) {
        const mnem_engine_options *o = &variants[variant[v]];
        mnem_engine_plan plan;
        climb last = {0, 1e300};
        assert_int_equal(plan_only(3, 1, *o, &plan), MNEM_OVER_BUDGET);
        const uint64_t least = plan.needed_bytes;
        assert_int_equal(plan_only(3, 0, *o, &plan), MNEM_OK);
        const uint64_t step = (plan.peak_bytes - least) / CLOSE;
        for (uint64_t budget = least; budget <= plan.peak_bytes; budget += step) {
            mnem_engine_plan next;
            assert_int_equal(plan_only(3, budget, *o, &next), MNEM_OK);
            assert_climbs(&last, &next, budget);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_of_the_grid_is_what_its_session_takes),
        cmocka_unit_test(budgets_close_together_only_climb),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
