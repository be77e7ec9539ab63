/* snapshots_case.c: see snapshots_case.h. */
#include "engine/snapshots/snapshots_case.h"

#include <string.h>

#include "model/architecture/architecture.h"

static bool on;
static float expected[LENGTH][VOCAB];

uint64_t __wrap_mnem__layer_state_bytes(const mnem_transformer *t, int32_t layer);
uint64_t __wrap_mnem__layer_state_bytes(const mnem_transformer *t, int32_t layer) {
    const bool has = on && mnem_layer_is(&t->convolving, layer);
    return has ? mnem_conv_page_bytes(t->embd, t->conv_length) : 0;
}

static bool keep_all(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part;
    memcpy(((float(*)[VOCAB])context)[index], logits, sizeof expected[0]);
    return true;
}

/* Columns in pages. */
int prepare(void **state) {
    engine_case c;
    mnem_sequence *s;
    fill_text(state);
    open_case(&c, STATES, MNEM_KV_F16, 64);
    must(mnem_sequence_create(c.engine, &s));
    must(mnem_engine_step(c.engine, &(mnem_step_part){s, text, LENGTH, 0}, 1, keep_all, expected));
    engine_case_close(&c);
    on = true;
    return 0;
}

const mnem_engine_options snapshots_plain = {.context = CONTEXT,
                                             .threads = 1,
                                             .chunk = 16,
                                             .sequences = 3,
                                             .snapshots = 12,
                                             .snapshot_tokens = EVERY};

void open_with(engine_case *c, int32_t chunk, int32_t snapshots) {
    mnem_engine_options o = snapshots_plain;
    o.chunk = chunk;
    o.snapshots = snapshots;
    engine_case_open(c, STATES, 0, &o);
}

int32_t check(engine_case *c, mnem_sequence *s, int32_t end) {
    float logits[VOCAB];
    mnem_engine_stats before, after;
    const int32_t from = mnem_sequence_length(s);
    mnem_engine_stats_get(c->engine, &before);
    go_on(c, s, end, logits);
    mnem_engine_stats_get(c->engine, &after);
    if (memcmp(logits, expected[end - 1], sizeof logits)) fail_msg("token %d, from %d", end, from);
    return (int32_t)(after.tokens - before.tokens) - (end - from); /* that ran again */
}

mnem_engine_pages pages_of(const engine_case *c) {
    mnem_engine_pages pages;
    mnem_engine_pages_get(c->engine, &pages);
    return pages;
}
