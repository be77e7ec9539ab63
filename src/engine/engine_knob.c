/* engine_knob.c: an engine's options as knobs: which values are tried, and what they set. */
#include "engine/engine_knob.h"

typedef struct trial {
    const mnem_engine_options *asked;
    mnem__options_fit *fit;
    void *owner;
} trial;

static bool fits(void *owner, mnem_knob knob) {
    const trial *t = owner;
    mnem_engine_options o = *t->asked;
    if (knob.kind == MNEM_KNOB_CHUNK) o.chunk = (int32_t)knob.value;
    if (knob.kind == MNEM_KNOB_KV) o.kv = (mnem_kv_choice)knob.value;
    if (knob.kind == MNEM_KNOB_CONTEXT) o.context = (int32_t)knob.value;
    if (knob.kind == MNEM_KNOB_DRAFT) o.draft = (int32_t)knob.value;
    return t->fit(t->owner, &o);
}

/* Shorter drafts, then none: what costs least of all. */
static mnem_knob draft_knob(trial *t) {
    for (int32_t value = t->asked->draft; value > 0;) {
        const mnem_knob knob = {MNEM_KNOB_DRAFT, value /= 2};
        if (fits(t, knob)) return knob;
    }
    return (mnem_knob){MNEM_KNOB_NONE, 0};
}

mnem_knob mnem__engine_knob(const mnem_engine_options *asked, mnem__options_fit *fit, void *owner) {
    trial t = {asked, fit, owner};
    const int64_t q8 = asked->kv == MNEM_KV_F16 || asked->kv == MNEM_KV_F32 ? MNEM_KV_Q8_0 : 0;
    const mnem_knob draft = draft_knob(&t);
    if (draft.kind != MNEM_KNOB_NONE) return draft;
    const mnem__knob_range ranges[] = {
        {MNEM_KNOB_CHUNK, asked->chunk / 2, 1 + asked->draft},
        {MNEM_KNOB_KV, q8, MNEM_KV_Q8_0},
        {MNEM_KNOB_CONTEXT, asked->context / 2, MNEM__CONTEXT_LEAST},
    };
    return mnem__knob_find(ranges, sizeof ranges / sizeof *ranges, fits, &t);
}
