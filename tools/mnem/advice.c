/* advice.c: what would make a run faster or smaller, what gains most first.
 *
 * Memory's gain is the plan's own (larger, smaller); another KV type is planned here with the same
 * options. A file of a smaller type isn't there to be planned: its gain is computed from the bytes
 * that would still be read from disk. Gains are ratios of the tokens/s that the plan and --explain
 * show; of ways that generate equally fast they are 1, and the text says what changes. */
#include <string.h>

#include "stage.h"

enum { ADVICE_MOST = 5 };

/* A smaller gain is hardly seen. */
#define LEAST_GAIN 1.05

/* Bits a weight of the type that is proposed, its scales included. Rows that aren't whole blocks of
 * 256 get types of blocks of 32: Q5_0, and Q8_0 for the matrices of a vocabulary. */
#define SMALL_TYPE          "Q4_K_M"
#define SMALL_BITS          4.85
#define SMALL_BITS_OF_32    5.5
#define SMALL_BITS_OF_TABLE 8.5

typedef struct advice {
    double gain; /* times as fast */
    char how[80], why[128];
} advice;

typedef struct advices {
    advice list[ADVICE_MOST];
    int count;
} advices;

static advice *add(advices *all, double gain) {
    advice *a = &all->list[all->count++];
    *a = (advice){.gain = gain};
    return a;
}

/* The tokens/s of two ways with this plan's context; 0: there is no such way. */
typedef struct rates {
    uint64_t bytes; /* what the other one may take */
    double here, there;
} rates;

static bool on_way(void *context, const mnem_engine_way *way) {
    rates *r = context;
    if (way->chosen) r->here = way->tokens_per_s;
    if (way->peak_bytes <= r->bytes) r->there = way->tokens_per_s;
    return true;
}

/* How many times as fast tokens are generated with `bytes`, as --explain shows it; job: the same of
 * the reference job, on ranks, where no ways are listed. */
static double gain_of(const tool_stage *stage, uint64_t bytes, double job) {
    rates r = {.bytes = bytes};
    if (stage->options.comm ||
        mnem_engine_frontier(stage->model, &stage->options, &stage->plan, on_way, &r) != MNEM_OK)
        return job;
    return r.here > 0 && r.there > 0 ? r.there / r.here : job;
}

static void add_memory(const tool_stage *stage, advices *all) {
    const mnem_engine_plan *p = &stage->plan;
    char least[TOOL_TEXT];
    if (!p->larger_bytes) return;
    advice *a = add(all, gain_of(stage, p->larger_bytes, p->larger_speed));
    snprintf(a->how, sizeof a->how, "--memory %s", tool_budget_of_other(p->larger_bytes, least));
    snprintf(a->why, sizeof a->why, "%.127s", p->larger);
}

/* The gain is of this plan's context: where none is asked for, another way may get another one. */
static void name_context(const mnem_engine_plan *p, advice *a) {
    const size_t n = strlen(a->how);
    if (!p->context_fixed) snprintf(a->how + n, sizeof a->how - n, " --ctx %d", p->context);
}

/* The plan with this KV type chooses the same context by itself. */
static bool keeps_context(const tool_stage *stage, mnem_kv_choice kv) {
    mnem_engine_options o = stage->options;
    mnem_engine_plan with;
    o.kv = kv;
    return mnem_engine_plan_make(stage->model, &o, &with) == MNEM_OK &&
           with.context == stage->plan.context;
}

static void add_kv(const tool_stage *stage, advices *all) {
    const mnem_engine_plan *p = &stage->plan;
    mnem_engine_options o = stage->options;
    mnem_engine_plan with;
    if ((p->kv != MNEM_KV_F16 && p->kv != MNEM_KV_F32) || stage->options.comm) return;
    o.kv = MNEM_KV_Q8_0;
    o.context = p->context;
    if (mnem_engine_plan_make(stage->model, &o, &with) != MNEM_OK) return;
    const double gain = p->predicted_generate > 0 && with.predicted_generate > 0
                            ? with.predicted_generate / p->predicted_generate
                            : p->predicted_seconds / with.predicted_seconds;
    if (gain < LEAST_GAIN) return;
    advice *a = add(all, gain);
    snprintf(a->how, sizeof a->how, "--kv q8_0");
    if (!keeps_context(stage, o.kv)) name_context(p, a);
    snprintf(a->why, sizeof a->why, "halves the KV cache; the text hardly changes");
}

static double small_bits(const mnem_tensor_info *t) {
    if (t->dims > 0 && t->shape[t->dims - 1] % 256 == 0) return SMALL_BITS;
    const bool table = !strcmp(t->name, "token_embd.weight") || !strcmp(t->name, "output.weight");
    return table ? SMALL_BITS_OF_TABLE : SMALL_BITS_OF_32;
}

/* What its tensors would take in that type. */
static double small_bytes(const mnem_model *model) {
    mnem_tensor_info t;
    double bytes = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        double numbers = 1;
        for (int d = 0; d < t.dims; d++) numbers *= (double)t.shape[d];
        bytes += numbers * small_bits(&t) / 8;
    }
    return bytes;
}

/* What is read from disk shrinks by all that the weights do. */
static void add_type(const tool_stage *stage, advices *all) {
    const mnem_engine_plan *p = &stage->plan;
    char size[TOOL_TEXT];
    mnem_model_info m;
    mnem_model_info_get(stage->model, &m);
    const double part = small_bytes(stage->model) / (double)m.tensor_bytes;
    const double out = (double)(p->weight_bytes - p->weight_bytes_resident);
    const double left = out - (1 - part) * (double)p->weight_bytes;
    if (part > 0.85 || p->expert_slots) return;
    const double most = all->count ? all->list[0].gain : p->larger_speed; /* all in memory */
    const bool whole = left <= 0.01 * out || out / left > most;
    advice *a = add(all, whole ? most : out / left);
    snprintf(a->how, sizeof a->how, "%s weights", SMALL_TYPE);
    snprintf(a->why, sizeof a->why, "mnem quantize writes a file of %s%s",
             tool_size((uint64_t)(part * (double)m.tensor_bytes), size),
             whole ? ", which fits in memory" : "");
}

/* The best first; of equals, what was added first. */
static void sort(advices *all) {
    for (int i = 1; i < all->count; i++)
        for (int k = i; k > 0 && all->list[k].gain > all->list[k - 1].gain * 1.001; k--) {
            const advice held = all->list[k];
            all->list[k] = all->list[k - 1];
            all->list[k - 1] = held;
        }
}

static void make(const tool_stage *stage, advices *all) {
    *all = (advices){.count = 0};
    add_memory(stage, all);
    if (!stage->plan.streamed) return;
    add_kv(stage, all);
    add_type(stage, all);
    sort(all);
}

/* "18 times as fast", "20 % faster", "8 % of the speed"; "" where hardly anything changes. */
static void times(double gain, char text[TOOL_TEXT]) {
    *text = 0;
    if (gain >= 1.95)
        snprintf(text, TOOL_TEXT, "%.*f times as fast", gain < 9.95, gain);
    else if (gain >= LEAST_GAIN)
        snprintf(text, TOOL_TEXT, "%.0f %% faster", 100 * (gain - 1));
    else if (gain < 0.95)
        snprintf(text, TOOL_TEXT, "%.*f %% of the speed", gain < 0.0995, 100 * gain);
}

/* "--memory 651M: 50 times as fast (all weights in memory)" */
static void print(FILE *file, const char *lead, const advice *a) {
    char text[320], speed[TOOL_TEXT];
    times(a->gain, speed);
    if (*speed)
        snprintf(text, sizeof text, "%s: %s (%s)", a->how, speed, a->why);
    else
        snprintf(text, sizeof text, "%s: %s", a->how, a->why);
    tool_wrap(file, lead, text);
}

void tool_advice(FILE *file, const tool_stage *stage) {
    const mnem_engine_plan *p = &stage->plan;
    const char *lead = p->streamed ? "  faster   " : "  more     ";
    char least[TOOL_TEXT];
    advices all;
    make(stage, &all);
    for (int i = 0; i < all.count; i++) print(file, i ? "           " : lead, &all.list[i]);
    if (!p->smaller_bytes) return;
    advice less = {.gain = gain_of(stage, p->smaller_bytes, p->smaller_speed)};
    snprintf(less.how, sizeof less.how, "--memory %s",
             tool_budget_of_other(p->smaller_bytes, least));
    name_context(p, &less);
    snprintf(less.why, sizeof less.why, "%.127s", p->smaller);
    print(file, "  less     ", &less);
}

void tool_advice_line(FILE *file, const tool_stage *stage) {
    enum { NAMED = 2 };
    char text[256] = "faster: ", speed[TOOL_TEXT];
    advices all;
    if (!stage->plan.streamed) return;
    make(stage, &all);
    if (!all.count || all.list[0].gain < LEAST_GAIN) return;
    size_t n = strlen(text);
    for (int i = 0; i < all.count && i < NAMED && n < sizeof text; i++) {
        if (all.list[i].gain < LEAST_GAIN) break; /* nor do those after it gain */
        times(all.list[i].gain, speed);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s (%s)", i ? " or " : "",
                              all.list[i].how, speed);
    }
    if (n < sizeof text && all.count > NAMED)
        snprintf(text + n, sizeof text - n, "; more: mnem plan");
    tool_wrap_dim(file, "", text);
}
