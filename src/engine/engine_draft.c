/* engine_draft.c: a plan, with a draft that costs nothing else.
 *
 * Idea: the plan without a draft is made first; a draft that is wanted is the longest, by halves,
 * whose plan is as good. So it never takes a budget that was enough, a context, the type of keys
 * and values (whose tokens would be others), or speed that a text without repetition would miss.
 * Cost: up to six plans where a draft is wanted, one where none is. */
#include "base/minmax.h"
#include "engine/engine_search.h"
#include "mnem/draft.h"

/* The part of the predicted speed that the bytes of a draft may cost. */
static const double draft_cost = 1.01;

static bool is_as_good(const mnem_engine_plan *with, const mnem_engine_plan *without) {
    return with->draft > 0 && with->context >= without->context && with->kv == without->kv &&
           with->pages >= without->pages &&
           with->predicted_seconds <= draft_cost * without->predicted_seconds;
}

mnem_status mnem_engine_plan_make(const mnem_model *model, const mnem_engine_options *options,
                                  mnem_engine_plan *plan) {
    mnem_engine_options o = *options;
    mnem_engine_plan with;
    const mnem_status status = mnem__engine_plan_fixed(model, options, plan);
    if (status != MNEM_OK || options->draft > 0) return status;
    o.draft = mnem__min_i32(options->draft_wanted, MNEM_DRAFT_MOST);
    if (options->chunk > 0) o.draft = mnem__min_i32(o.draft, options->chunk - 1);
    for (; o.draft > 0; o.draft /= 2) {
        if (mnem__engine_plan_fixed(model, &o, &with) != MNEM_OK || !is_as_good(&with, plan))
            continue;
        *plan = with;
        break;
    }
    return MNEM_OK;
}
