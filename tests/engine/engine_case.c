/* engine_case.c: a ledger, a model and an engine in one, for tests. */
#include "engine/engine_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static mnem_status plan(engine_case *c, const char *path, uint64_t budget,
                        const mnem_engine_options *options) {
    mnem_transformer t;
    *c = (engine_case){.options = *options};
    const mnem_ledger_options ledger = {.budget_bytes = budget, .preparing = true};
    assert_int_equal(mnem_ledger_create(&ledger, &c->ledger), MNEM_OK);
    assert_int_equal(mnem_ledger_watch_heap(c->ledger), MNEM_OK);
    assert_int_equal(mnem_model_open(path, &c->model), MNEM_OK);
    assert_int_equal(mnem_model_transformer(c->model, &t), MNEM_OK);
    c->vocab = t.vocab;
    c->options.ledger = c->ledger;
    return mnem_engine_plan_make(c->model, &c->options, &c->plan);
}

void engine_case_open(engine_case *c, const char *path, uint64_t budget,
                      const mnem_engine_options *options) {
    mnem_status status = plan(c, path, budget, options);
    if (status == MNEM_OK) status = mnem_engine_create(c->model, &c->options, &c->plan, &c->engine);
    if (status != MNEM_OK) fail_msg("%s", mnem_last_error());
}

void engine_case_close(engine_case *c) {
    const mnem_engine_plan kept = c->plan;
    mnem_engine_destroy(c->engine);
    mnem_model_close(c->model);
    if (mnem_ledger_destroy(c->ledger) != MNEM_OK) fail_msg("%s", mnem_last_error());
    *c = (engine_case){.plan = kept};
}

uint64_t engine_case_least(const char *path, const mnem_engine_options *options) {
    engine_case c;
    assert_int_equal(plan(&c, path, 1, options), MNEM_OVER_BUDGET);
    engine_case_close(&c);
    return c.plan.needed_bytes;
}
