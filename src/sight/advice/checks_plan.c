/* checks_plan.c: checks of a plan: what another budget, context or type would do, as planned. */
#include "sight/advice/checks.h"

static const double tight = 0.85, kv_large = 0.30, hits_fair = 0.9, hits_bad = 0.7;
enum { CHUNK_SMALL = 64, BITS_LARGE = 8 };

/* Bits of a weight in Q4_K_M, its scales included. */
static const double small_bits = 4.85;

static bool budget_too_small(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE], d[MNEM__SIZE];
    const double lacks = V(NEEDED) - V(BUDGET);
    if (lacks <= 0) return false;
    c->out->severe = true;
    mnem__say_evidence(c, "the smallest budget that fits is %s, but it is %s: %s short",
                       mnem__size(V(NEEDED), a), mnem__size(V(BUDGET), b), mnem__size(lacks, d));
    mnem__say_options(c, "--memory %s", mnem__budget(V(NEEDED), a));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, lacks, 0, "bytes", "plan");
}

/* What a knob of the plan is called on the command line. */
static bool budget_needs_knob(const mnem__checking *c) {
    const int value = (int)V(TRY_KNOB_VALUE);
    const char *name = NULL;
    const double lacks = V(NEEDED) - V(BUDGET);
    switch ((mnem_knob_kind)V(TRY_KNOB)) {
    case MNEM_KNOB_CHUNK: name = "--chunk"; break;
    case MNEM_KNOB_CONTEXT: name = "--ctx"; break;
    case MNEM_KNOB_KV: name = "--kv"; break;
    case MNEM_KNOB_DRAFT: name = value ? "--draft-max" : "--draft off"; break;
    default: break;
    }
    if (!name || lacks <= 0) return false;
    c->out->severe = true;
    mnem__say_evidence(c, "changing this one option makes it fit the budget");
    if ((mnem_knob_kind)V(TRY_KNOB) == MNEM_KNOB_KV)
        mnem__say_options(c, "%s %s", name, mnem_kv_text((mnem_kv_choice)value));
    else if (value == 0)
        mnem__say_options(c, "%s", name);
    else
        mnem__say_options(c, "%s %d", name, value);
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, lacks, 0, "bytes", "plan");
}

static bool budget_tight(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE], text[MNEM__SIZE];
    const double wanted = 1.2 * V(PEAK);
    if (V(TRAINING) || V(STREAMED) || !V(BUDGET_GIVEN) || V(PEAK) <= tight * V(BUDGET))
        return false;
    if (wanted > V(AVAILABLE) || V(PEAK) > V(BUDGET)) return false;
    mnem__say_evidence(c, "%.0f %% of %s are planned, so %s are left for anything unplanned",
                       100 * V(PEAK) / V(BUDGET), mnem__size(V(BUDGET), a),
                       mnem__size(V(BUDGET) - V(PEAK), b));
    mnem__say_options(c, "--memory %s --ctx %.0f --chunk %.0f", mnem__budget(wanted, text),
                      V(CONTEXT), V(CHUNK));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(BUDGET) - V(PEAK), wanted - V(PEAK), "room",
                          "plan");
}

static bool budget_beyond_machine(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE];
    if (!V(BUDGET_GIVEN) || V(BUDGET) <= V(AVAILABLE) || V(PEAK) <= V(AVAILABLE)) return false;
    c->out->severe = true;
    mnem__say_evidence(c,
                       "%s are planned, but the machine has %s available: the system would swap, "
                       "or kill the process",
                       mnem__size(V(PEAK), a), mnem__size(V(AVAILABLE), b));
    mnem__say_options(c, "--memory 85%%");
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK) - V(AVAILABLE), 0, "bytes", "plan");
}

static bool weights_streamed(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE];
    if (!V(STREAMED) || V(TRY_LARGER) > V(AVAILABLE) || V(TRY_LARGER) <= V(BUDGET)) return false;
    if (V(TRY_LARGER_SECONDS) >= 0.95 * V(PLAN_SECONDS)) return false;
    c->out->severe = V(TRY_LARGER_SECONDS) < 0.5 * V(PLAN_SECONDS);
    mnem__say_evidence(c,
                       "%s are read from disk for every token; the machine has more memory than %s",
                       mnem__size(V(STREAMED_PASS), a), mnem__size(V(BUDGET), b));
    mnem__say_options(c, "--memory %s", mnem__budget(V(TRY_LARGER), a));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PLAN_SECONDS), V(TRY_LARGER_SECONDS), "seconds",
                          "plan");
}

static bool experts_missing(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(EXPERT_HIT) >= hits_fair || V(TRY_LARGER) > V(AVAILABLE)) return false;
    if (V(TRY_LARGER_HIT) <= V(EXPERT_HIT)) return false;
    c->out->severe = V(EXPERT_HIT) < hits_bad;
    mnem__say_evidence(c, "%.0f %% of the uses of experts find them in memory",
                       100 * V(EXPERT_HIT));
    mnem__say_options(c, "--memory %s", mnem__budget(V(TRY_LARGER), a));
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(EXPERT_HIT), V(TRY_LARGER_HIT), "hits", "plan");
}

/* The one thread that reads copies out of a page cache at about 2.5 GB/s. */
static bool page_cache_wins(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE];
    const double cached = V(READ_RATE) < 2.5e9 ? V(READ_RATE) : 2.5e9;
    const double room = V(AVAILABLE) - V(BUDGET), pass = V(STREAMED_PASS);
    if (!V(STREAMED) || V(PAGE_CACHE) || room < 1.1 * V(WEIGHTS)) return false;
    if (V(DISK_RATE) <= 0 || cached <= 1.1 * V(DISK_RATE)) return false;
    mnem__say_evidence(c,
                       "%s are read from disk for every token; the page cache could hold them in "
                       "the %s beyond the budget",
                       mnem__size(pass, a), mnem__size(room, b));
    mnem__say_options(c, "--page-cache");
    return mnem__say_gain(c, MNEM_SURE_LIKELY, pass / V(DISK_RATE), pass / cached, "seconds",
                          "probe");
}

static bool kv_type(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(KV_SMALL) || V(KV) <= kv_large * V(PEAK) || V(TRY_KV_PEAK) >= V(PEAK)) return false;
    mnem__say_evidence(c, "keys and values are %s, %.0f %% of the peak", mnem__size(V(KV), a),
                       100 * V(KV) / V(PEAK));
    mnem__say_options(c, "--kv q8_0 --ctx %.0f", V(CONTEXT));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK), V(TRY_KV_PEAK), "bytes", "plan");
}

static bool context_unused(const mnem__checking *c) {
    if (V(CONTEXT_USED) >= 0.5 * V(CONTEXT) || V(TRY_CONTEXT) >= V(CONTEXT)) return false;
    if (V(TRY_CONTEXT_PEAK) >= 0.98 * V(PEAK)) return false;
    mnem__say_evidence(c, "%.0f of %.0f tokens of context were used", V(CONTEXT_USED), V(CONTEXT));
    mnem__say_options(c, "--ctx %.0f", V(TRY_CONTEXT));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK), V(TRY_CONTEXT_PEAK), "bytes", "plan");
}

static bool context_beyond_model(const mnem__checking *c) {
    if (V(CONTEXT) <= V(CONTEXT_TRAINED)) return false;
    mnem__say_evidence(c, "a context of %.0f, but the model was trained for %.0f", V(CONTEXT),
                       V(CONTEXT_TRAINED));
    mnem__say_options(c, "--ctx %.0f", V(CONTEXT_TRAINED));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PEAK), V(TRY_TRAINED_PEAK), "bytes", "plan");
}

static bool context_short(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(CONTEXT) >= V(CONTEXT_WANTED) || V(TRY_WANTED) <= 0 || V(TRY_WANTED) > V(AVAILABLE))
        return false;
    mnem__say_evidence(c, "the text needs %.0f tokens of context, but the budget allows %.0f",
                       V(CONTEXT_WANTED), V(CONTEXT));
    mnem__say_options(c, "--memory %s", mnem__budget(V(TRY_WANTED), a));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(CONTEXT), V(CONTEXT_WANTED), "tokens", "plan");
}

static bool chunk_small(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(CHUNK) >= CHUNK_SMALL || V(TRY_CHUNK) <= V(CHUNK) || V(TRY_CHUNK_PEAK) > V(AVAILABLE))
        return false;
    if (V(TRY_CHUNK_SECONDS) >= 0.95 * V(PLAN_SECONDS)) return false;
    mnem__say_evidence(c, "prompts run %.0f tokens at a time, and each chunk reads all weights",
                       V(CHUNK));
    mnem__say_options(c, "--memory %s --ctx %.0f --chunk %.0f", mnem__budget(V(TRY_CHUNK_PEAK), a),
                      V(CONTEXT), V(TRY_CHUNK));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(PLAN_SECONDS), V(TRY_CHUNK_SECONDS), "seconds",
                          "plan");
}

/* One token at a time reads every weight for a multiply-add of each: memory decides. */
static bool weights_wide(const mnem__checking *c) {
    const double after = V(WEIGHTS) * small_bits / V(WEIGHT_BITS);
    if (V(TRAINING) || V(WEIGHT_BITS) < BITS_LARGE || V(WEIGHTS) < 1 << 20) return false;
    mnem__say_evidence(
        c,
        "%.1f bits a weight; the speed of generation is that of reading them once for each token",
        V(WEIGHT_BITS));
    mnem__say_command(c, "mnem quantize %.100s Q4_K_M -o small.gguf",
                      *c->facts->model ? c->facts->model : "MODEL");
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(WEIGHTS), after, "bytes", "types");
}

#define F(name) MNEM_FACT_##name
const mnem__check mnem__checks_plan[] = {
    MNEM__CHECK(budget_too_small, "budget-too-small",
                "the smallest budget that fits is above the given one", F(NEEDED), F(BUDGET)),
    MNEM__CHECK(budget_needs_knob, "budget-option", "changing one option would make it fit",
                F(NEEDED), F(BUDGET), F(TRY_KNOB), F(TRY_KNOB_VALUE)),
    MNEM__CHECK(budget_tight, "budget-tight", "peak / budget above 0.85", F(PEAK), F(BUDGET),
                F(BUDGET_GIVEN), F(STREAMED), F(AVAILABLE), F(CONTEXT), F(CHUNK), F(TRAINING)),
    MNEM__CHECK(budget_beyond_machine, "budget-beyond-machine",
                "the peak is above what the machine has", F(PEAK), F(BUDGET), F(BUDGET_GIVEN),
                F(AVAILABLE)),
    MNEM__CHECK(weights_streamed, "weights-streamed",
                "weights come from disk, and the machine has memory for more of them", F(STREAMED),
                F(STREAMED_PASS), F(BUDGET), F(AVAILABLE), F(TRY_LARGER), F(TRY_LARGER_SECONDS),
                F(PLAN_SECONDS)),
    MNEM__CHECK(experts_missing, "experts-missing",
                "fewer than 90 % of the uses of experts find them in memory", F(EXPERT_HIT),
                F(AVAILABLE), F(TRY_LARGER), F(TRY_LARGER_HIT)),
    MNEM__CHECK(page_cache_wins, "page-cache", "the page cache would hold what is streamed",
                F(STREAMED), F(PAGE_CACHE), F(AVAILABLE), F(BUDGET), F(WEIGHTS), F(STREAMED_PASS),
                F(DISK_RATE), F(READ_RATE)),
    MNEM__CHECK(kv_type, "kv-type",
                "keys and values are more than 30 % of the peak, and in 16 bits or more", F(KV),
                F(KV_SMALL), F(PEAK), F(TRY_KV_PEAK), F(CONTEXT)),
    MNEM__CHECK(context_unused, "context-unused", "less than half of the context was used",
                F(CONTEXT), F(CONTEXT_USED), F(TRY_CONTEXT), F(TRY_CONTEXT_PEAK), F(PEAK)),
    MNEM__CHECK(context_beyond_model, "context-beyond-model",
                "the context is longer than the one that the model was trained for", F(CONTEXT),
                F(CONTEXT_TRAINED), F(PEAK), F(TRY_TRAINED_PEAK)),
    MNEM__CHECK(context_short, "context-short", "the context is shorter than the text needs",
                F(CONTEXT), F(CONTEXT_WANTED), F(TRY_WANTED), F(AVAILABLE)),
    MNEM__CHECK(chunk_small, "chunk-small", "fewer than 64 tokens of a prompt run together",
                F(CHUNK), F(CONTEXT), F(TRY_CHUNK), F(TRY_CHUNK_PEAK), F(TRY_CHUNK_SECONDS),
                F(PLAN_SECONDS), F(AVAILABLE)),
    MNEM__CHECK(weights_wide, "weights-wide",
                "memory bandwidth is the limit, and weights have 8 bits or more", F(WEIGHTS),
                F(WEIGHT_BITS), F(TRAINING)),
    {{.name = NULL}, NULL},
};
