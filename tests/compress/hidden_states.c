#include "compress/hidden_states.h"

#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"

static mnem_status keep(void *context, int64_t sequence, const float *rows) {
    const hidden_states *s = context;
    memcpy(s->rows + sequence * s->n, rows, (size_t)s->n * sizeof(float));
    return MNEM_OK;
}

void hidden_states_walk(hidden_states *s, const char *path) {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_transformer t;
    must(mnem_model_open(path, &model));
    must(mnem_model_transformer(model, &t));
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &ledger));
    s->n = (int64_t)s->chunk * t.embd;
    s->rows = calloc((size_t)(s->sequences * s->n), sizeof(float));
    const mnem_walk_options o = {.ledger = ledger, .threads = 1, .chunk = s->chunk};
    const mnem_walk_watcher watcher = {.states = keep, .context = s};
    must(mnem_walk(model, &o, s->ids, s->sequences, &watcher, NULL));
    must(mnem_ledger_destroy(ledger));
    mnem_model_close(model);
}

void hidden_states_free(hidden_states *s) {
    free(s->rows);
}

double hidden_states_distance(const hidden_states *exact, const char *path) {
    hidden_states s = *exact;
    double sum = 0, all = 0;
    hidden_states_walk(&s, path);
    for (int64_t i = 0; i < s.sequences * s.n; i++) {
        const double d = (double)s.rows[i] - (double)exact->rows[i];
        sum += d * d;
        all += (double)exact->rows[i] * (double)exact->rows[i];
    }
    hidden_states_free(&s);
    return sum / all;
}
