/* checks_memory.c: checks of recorded allocations, whose gains the replay computes. */
#include <math.h>

#include "sight/advice/checks.h"

static const double waste_fair = 0.10, waste_bad = 0.30;

static const char *trace(const mnem__checking *c) {
    return *c->facts->model ? c->facts->model : "TRACE";
}

static bool external(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE];
    const double part = (V(CAPACITY) - V(LIVE_PEAK)) / V(CAPACITY);
    if (V(POLICY_SET) || part <= waste_fair || V(TRY_POLICY_CAPACITY) >= 0.99 * V(CAPACITY))
        return false;
    c->out->severe = part > waste_bad;
    mnem__say_evidence(c, "%s needs %s for %s that are live at the peak", c->facts->policy_now,
                       mnem__size(V(CAPACITY), a), mnem__size(V(LIVE_PEAK), b));
    mnem__say_command(c, "use the policy %s: mnem replay %.120s --policy %s", c->facts->policy,
                      trace(c), c->facts->policy);
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(CAPACITY), V(TRY_POLICY_CAPACITY), "bytes",
                          "replay");
}

static bool internal(const mnem__checking *c) {
    char a[MNEM__SIZE];
    const double part = (V(GRANTED_PEAK) - V(LIVE_PEAK)) / V(GRANTED_PEAK);
    if (part <= waste_fair || V(TRY_ALIGNMENT) >= V(ALIGNMENT)) return false;
    if (V(TRY_ALIGNMENT_CAPACITY) >= V(CAPACITY)) return false;
    c->out->severe = part > waste_bad;
    mnem__say_evidence(c, "%.0f %% of the allocated bytes (%s) come from rounding to %.0f bytes",
                       100 * part, mnem__size(V(GRANTED_PEAK), a), V(ALIGNMENT));
    mnem__say_command(c, "align blocks to %.0f: mnem replay %.120s --align %.0f", V(TRY_ALIGNMENT),
                      trace(c), V(TRY_ALIGNMENT));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(CAPACITY), V(TRY_ALIGNMENT_CAPACITY), "bytes",
                          "replay");
}

static bool holes(const mnem__checking *c) {
    char a[MNEM__SIZE];
    const double best =
        KNOWN(TRY_POLICY_CAPACITY) ? fmin(V(CAPACITY), V(TRY_POLICY_CAPACITY)) : V(CAPACITY);
    if (best <= 1.02 * V(LIVE_PEAK) || V(TRY_GRANULES) >= 0.98 * best) return false;
    mnem__say_evidence(c, "%s of holes at the peak, none of them large enough",
                       mnem__size(best - V(LIVE_PEAK), a));
    mnem__say_command(c, "remap granules (MNEM_POOL_RANGE): mnem replay %.120s --policy granules",
                      trace(c));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, best, V(TRY_GRANULES), "bytes", "replay");
}

static bool reuse(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(HIT_RATE) >= 0.9 || V(TRY_SEGMENT) == V(SEGMENT)) return false;
    if (V(TRY_SEGMENT_CALLS) >= V(UPSTREAM_CALLS)) return false;
    c->out->severe = V(HIT_RATE) < 0.7;
    mnem__say_evidence(
        c, "%.0f %% of requests were served from the pool; it asked the device %.0f times",
        100 * V(HIT_RATE), V(UPSTREAM_CALLS));
    mnem__say_command(c, "grow by %s: mnem replay %.120s --segment %.0f",
                      mnem__size(V(TRY_SEGMENT), a), trace(c), V(TRY_SEGMENT));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(UPSTREAM_CALLS), V(TRY_SEGMENT_CALLS), "calls",
                          "replay");
}

static bool zero_copy(const mnem__checking *c) {
    char a[MNEM__SIZE];
    const double copied = V(HANDED_OVER) * (1 - V(ZERO_COPY));
    if (V(ZERO_COPY) >= 0.8 || V(HANDED_OVER) <= 0) return false;
    c->out->severe = V(ZERO_COPY) < 0.5;
    mnem__say_evidence(c, "%.0f %% of %s were passed on without a copy", 100 * V(ZERO_COPY),
                       mnem__size(V(HANDED_OVER), a));
    mnem__say_command(c, "allocate these bytes as host buffers (mnem_buffer_alloc in device.h)");
    return mnem__say_gain(c, MNEM_SURE_LIKELY, copied, 0, "bytes", "trace");
}

static bool growing(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(GROWING_BLOCKS) <= 0) return false;
    c->out->severe = true;
    mnem__say_evidence(c, "live blocks grew by %.0f (%s) in each quarter of the trace%s%.100s",
                       V(GROWING_BLOCKS), mnem__size(V(GROWING_BYTES), a),
                       *c->facts->site ? ", most of them from " : "", c->facts->site);
    mnem__say_command(c, "mnem replay %.120s (who held what)", trace(c));
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(GROWING_BYTES), 0, "bytes", "replay");
}

static bool left_over(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(END_BLOCKS) <= 1000) return false;
    mnem__say_evidence(c, "%.0f blocks of %s are live at the end%s%.100s", V(END_BLOCKS),
                       mnem__size(V(END_BYTES), a), *c->facts->site ? ", most from " : "",
                       c->facts->site);
    mnem__say_command(c, "mnem replay %.120s (who held what)", trace(c));
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(END_BYTES), 0, "bytes", "replay");
}

static bool brief(const mnem__checking *c) {
    if (V(BRIEF_PART) <= 0.3 || V(BRIEF_BLOCKS) < 100) return false;
    mnem__say_evidence(c, "%.0f %% of blocks (%.0f) are freed by the next operation",
                       100 * V(BRIEF_PART), V(BRIEF_BLOCKS));
    mnem__say_command(c, "allocate them from an arena that is reset as a whole: --policy bump");
    return mnem__say_gain(c, MNEM_SURE_LIKELY, V(BRIEF_BLOCKS), 0, "calls", "replay");
}

static bool idle(const mnem__checking *c) {
    char a[MNEM__SIZE];
    if (V(IDLE_BYTES) <= 0.2 * V(LIVE_PEAK) || V(TRY_IDLE_PEAK) >= 0.95 * V(LIVE_PEAK))
        return false;
    mnem__say_evidence(c, "%s of the peak are live during most of the trace",
                       mnem__size(V(IDLE_BYTES), a));
    mnem__say_command(c,
                      "stream or recompute them, so that they are not live at the peak: mnem "
                      "replay %.120s (who held what)",
                      trace(c));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(LIVE_PEAK), V(TRY_IDLE_PEAK), "bytes", "replay");
}

static bool unaligned(const mnem__checking *c) {
    if (V(UNALIGNED_BLOCKS) <= 0 || V(ALIGNMENT) >= 64) return false;
    mnem__say_evidence(c, "%.0f blocks begin inside a cache line of 64 bytes", V(UNALIGNED_BLOCKS));
    mnem__say_command(c, "align blocks to 64: mnem replay %.120s --align 64", trace(c));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(UNALIGNED_BLOCKS), 0, "blocks", "replay");
}

static bool workspace_large(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE];
    if (V(WORKSPACE) <= 2 * V(WORKSPACE_USED) || V(WORKSPACE) < 1 << 20) return false;
    mnem__say_evidence(c, "a workspace of %s, of which %s were used", mnem__size(V(WORKSPACE), a),
                       mnem__size(V(WORKSPACE_USED), b));
    mnem__say_command(c, "allocate %s (the largest need of any operator)", b);
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(WORKSPACE), V(WORKSPACE_USED), "bytes", "trace");
}

static bool workspace_over(const mnem__checking *c) {
    char a[MNEM__SIZE], b[MNEM__SIZE];
    if (V(WORKSPACE_USED) <= V(WORKSPACE)) return false;
    c->out->severe = true;
    mnem__say_evidence(c, "%s were used of a workspace of %s: it was overrun",
                       mnem__size(V(WORKSPACE_USED), a), mnem__size(V(WORKSPACE), b));
    mnem__say_command(c,
                      "allocate at least %.0f (workspace_bytes of each mnem_op), and find what was "
                      "overwritten with debug = true in mnem_pool_options",
                      V(WORKSPACE_USED));
    return mnem__say_gain(c, MNEM_SURE_COMPUTED, V(WORKSPACE_USED) - V(WORKSPACE), 0, "bytes",
                          "trace");
}

#define F(name) MNEM_FACT_##name
const mnem__check mnem__checks_memory[] = {
    MNEM__CHECK(external, "fragmentation", "more than 10 % of the capacity is holes", F(CAPACITY),
                F(LIVE_PEAK), F(POLICY_SET), F(TRY_POLICY_CAPACITY)),
    MNEM__CHECK(internal, "rounding", "more than 10 % of the allocated bytes come from rounding",
                F(GRANTED_PEAK), F(LIVE_PEAK), F(ALIGNMENT), F(CAPACITY), F(TRY_ALIGNMENT),
                F(TRY_ALIGNMENT_CAPACITY)),
    MNEM__CHECK(holes, "holes-too-small",
                "a request is smaller than the sum of the free bytes, but larger than every hole",
                F(CAPACITY), F(LIVE_PEAK), F(TRY_GRANULES)),
    MNEM__CHECK(reuse, "hit-rate",
                "fewer than 90 % of allocations are served without a call to the device",
                F(HIT_RATE), F(SEGMENT), F(UPSTREAM_CALLS), F(TRY_SEGMENT), F(TRY_SEGMENT_CALLS)),
    MNEM__CHECK(zero_copy, "zero-copy",
                "less than 80 % of the bytes between host and device are passed without a copy",
                F(ZERO_COPY), F(HANDED_OVER)),
    MNEM__CHECK(growing, "live-blocks-grow", "live blocks grow in every quarter of the trace",
                F(GROWING_BLOCKS), F(GROWING_BYTES)),
    MNEM__CHECK(left_over, "live-at-the-end", "more than 1000 blocks are live at the end",
                F(END_BLOCKS), F(END_BYTES)),
    MNEM__CHECK(brief, "freed-at-once", "more than 30 % of blocks are freed by the next operation",
                F(BRIEF_PART), F(BRIEF_BLOCKS)),
    MNEM__CHECK(idle, "idle-at-the-peak",
                "more than 20 % of the peak is live during most of the trace", F(IDLE_BYTES),
                F(LIVE_PEAK), F(TRY_IDLE_PEAK)),
    MNEM__CHECK(unaligned, "unaligned", "blocks begin inside a cache line", F(UNALIGNED_BLOCKS),
                F(ALIGNMENT)),
    MNEM__CHECK(workspace_large, "workspace-large",
                "a workspace is more than twice as large as what is used of it", F(WORKSPACE),
                F(WORKSPACE_USED)),
    MNEM__CHECK(workspace_over, "workspace-overrun", "more than the workspace was used",
                F(WORKSPACE), F(WORKSPACE_USED)),
    {{.name = NULL}, NULL},
};
