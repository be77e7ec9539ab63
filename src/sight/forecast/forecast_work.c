/* forecast_work.c: what tokens and steps are made of: classes of work, from shapes and a plan.
 *
 * Matrices of a type are one class, and so are keys and values of theirs; rows (norms, turning,
 * activations) go by their bytes, and the operators' own beginnings by their number. Cost: a look
 * at each tensor's header. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mnem/forecast.h"

enum { OPERATORS_LAYER = 16 };

typedef struct list {
    mnem_work *work;
    int32_t count;
} list;

/* Into the class that there is, else a new one; into the last where there is no room. */
static void add(list *l, const char *op, const char *type, const char *level, double macs,
                double bytes) {
    mnem_work *w = NULL;
    if (macs <= 0 && bytes <= 0) return;
    for (int32_t i = 0; i < l->count && !w; i++)
        if (!strcmp(l->work[i].op, op) && !strcmp(l->work[i].type, type) &&
            !strcmp(l->work[i].level, level))
            w = &l->work[i];
    if (!w && l->count < MNEM_HISTORY_WORKS) {
        w = &l->work[l->count++];
        *w = (mnem_work){.macs = 0};
        snprintf(w->op, sizeof w->op, "%s", op);
        snprintf(w->type, sizeof w->type, "%s", type);
        snprintf(w->level, sizeof w->level, "%s", level);
    }
    if (!w) w = &l->work[l->count - 1];
    w->macs += macs;
    w->bytes += bytes;
}

/* The level that so many bytes stay in, read again and again. */
static const char *level_of(double bytes) {
    const long second = sysconf(_SC_LEVEL2_CACHE_SIZE), third = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (second > 0 && bytes < (double)second) return "L2";
    return third > 0 && bytes < (double)third ? "L3" : "memory";
}

/* ---- tokens ---- */

typedef struct passing {
    const mnem_transformer *shape;
    const mnem_engine_plan *plan;
    double tokens, passes; /* times that every weight is read */
    bool one;              /* a token a pass */
} passing;

/* A file may have layers behind those that run, which predict further tokens. */
static bool tensor_runs(const mnem_transformer *shape, const char *tensor) {
    return strncmp(tensor, "blk.", 4) != 0 || strtol(tensor + 4, NULL, 10) < shape->layers;
}

static void add_matrices(list *l, const mnem_model *model, const passing *p) {
    const double streamed = (double)p->plan->bytes_streamed_per_pass * p->passes;
    const char *level = level_of((double)p->plan->weight_bytes_resident);
    const char *op = p->one ? "matvec" : "matmul";
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        if (t.dims < 2 || !tensor_runs(p->shape, t.name)) continue;
        const bool rows = !p->shape->tied && strcmp(t.name, "token_embd.weight") == 0;
        const bool of_layers = strcmp(t.name, "per_layer_token_embd.weight") == 0;
        if (of_layers)
            add(l, "read", "", "disk", 0, p->tokens * (double)t.bytes / (double)t.shape[0]);
        if (rows || of_layers) continue;
        const bool experts = strstr(t.name, "_exps.") != NULL;
        const bool head = strcmp(t.name, "output.weight") == 0 || strstr(t.name, "token_embd");
        const double used = experts ? (double)p->shape->route.used / p->shape->experts : 1;
        double numbers = used;
        for (int d = 0; d < t.dims; d++) numbers *= (double)t.shape[d];
        /* Of a prompt only the last row meets the head. */
        const double tokens = head && !p->one ? 1 : p->tokens;
        const double times = head && !p->one ? 1 : p->passes;
        add(l, experts ? "experts" : op, mnem_type_get(t.type)->name, level, numbers * tokens,
            used * (double)t.bytes * times);
    }
    add(l, "read", "", "disk", 0, streamed);
}

/* Of all layers that attend. */
typedef struct widths {
    double queries, keys;
} widths;

static widths widths_of(const mnem_transformer *s) {
    widths all = {0};
    for (int32_t layer = 0; layer < s->layers; layer++) {
        const bool window = s->window > 0 && mnem_layer_is(&s->windowed, layer);
        const int32_t dim = window && s->window_head_dim ? s->window_head_dim : s->head_dim,
                      heads = window && s->window_heads ? s->window_heads : s->heads,
                      keys = window && s->window_kv_heads ? s->window_kv_heads : s->kv_heads;
        const bool recurs = mnem_layer_is(&s->recurrent, layer) && !s->state_beside;
        if (recurs || mnem_layer_is(&s->convolving, layer) || mnem_layer_is(&s->feeding, layer))
            continue;
        all.queries += (double)heads * dim;
        all.keys += (double)keys * dim;
    }
    return all;
}

/* Of a number of a key. */
static double bytes_each(mnem_kv_choice kv) {
    const mnem_type_info *type = mnem_type_get(mnem_kv_type(kv));
    return (double)type->block_bytes / type->block_elements;
}

int32_t mnem_work_of_tokens(const mnem_model *model, const mnem_engine_plan *plan, mnem_phase phase,
                            double tokens, double positions, mnem_work *work) {
    mnem_transformer s;
    list l = {work, 0};
    if (!(tokens > 0) || mnem_model_transformer(model, &s) != MNEM_OK) return 0;
    const bool one = phase == MNEM_PHASE_TOKENS;
    const double chunk = plan->chunk > 0 ? plan->chunk : 1;
    const passing p = {&s, plan, tokens, one ? tokens : ceil(tokens / chunk), one};
    const widths attend = widths_of(&s);
    const double each = (bytes_each(plan->kv) + bytes_each(mnem_kv_values(plan->kv))) / 2;
    const int32_t states = mnem_layers_count(&s.recurrent, s.layers);
    add_matrices(&l, model, &p);
    add(&l, one ? "attend" : "attention", mnem_type_get(mnem_kv_type(plan->kv))->name, "memory",
        2 * attend.queries * positions * tokens,
        2 * attend.keys * each * positions * (one ? tokens : p.passes));
    /* Each number of a state decays, takes the token's part and gives to what it says. */
    add(&l, "state", "F32", "memory",
        3.0 * states * s.state_heads * s.state_rows * s.state_columns * tokens,
        2 * (double)mnem_transformer_state_bytes(&s) * (one ? tokens : p.passes));
    add(&l, "rows", "F32", "L2", 0, 4.0 * s.layers * (8.0 * s.embd + 3.0 * s.ff) * tokens);
    add(&l, "pass", "", "", s.layers * OPERATORS_LAYER * p.passes, 0);
    return l.count;
}

/* ---- steps ---- */

int32_t mnem_work_of_steps(const mnem_train_options *options, const mnem_train_plan *plan,
                           double steps, mnem_work *work) {
    list l = {work, 0};
    const mnem_transformer *s = &options->shape;
    const char *type = options->compute == MNEM_TYPE_BF16  ? "BF16"
                       : options->compute == MNEM_TYPE_F16 ? "F16"
                                                           : "F32";
    if (!(steps > 0)) return 0;
    const double micro = steps * plan->accumulation;
    const int32_t sequence = options->sequence ? options->sequence : s->context;
    const double tokens = micro * plan->micro_batch * sequence;
    add(&l, "gemm", type, "memory", plan->macs_per_step * steps,
        3.0 * 4 * (double)plan->parameters * micro);
    add(&l, "rows", type, "memory", 0,
        3.0 * 4 * s->layers * (8.0 * s->embd + 3.0 * s->ff) * tokens);
    add(&l, "loss", "F32", "memory", 0, 3.0 * 4 * s->vocab * tokens);
    add(&l, "optimizer", options->optimizer.moments == MNEM_MOMENTS_8BIT ? "8bit" : "F32", "memory",
        0, 7.0 * 4 * (double)plan->parameters * steps);
    add(&l, "pass", "", "", 3.0 * s->layers * OPERATORS_LAYER * micro, 0);
    return l.count;
}
