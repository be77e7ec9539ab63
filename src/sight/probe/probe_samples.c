/* probe_samples.c: figures of passes, and what they say.
 *
 * Noise only ever makes a pass slower, so the best pass is the figure. How sure it is: the better
 * half of the passes, which a busy moment isn't in, lies close together (cv). */
#include <math.h>

#include "base/minmax.h"
#include "sight/probe/probe_private.h"

void mnem__probe_sample(mnem__probe_samples *samples, double value, bool large) {
    if (!(value > 0)) return;
    samples->value[samples->count % MNEM__PROBE_SAMPLES] = (float)value;
    if (!samples->count || (large ? value > samples->best : value < samples->best))
        samples->best = value;
    samples->count++;
}

/* The best first. */
static void sort(float *v, int n, bool large) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && (large ? v[k] > v[k - 1] : v[k] < v[k - 1]); k--) {
            const float held = v[k];
            v[k] = v[k - 1];
            v[k - 1] = held;
        }
}

static double variation(const float *v, int n) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    const double mean = sum / n;
    for (int i = 0; i < n; i++) squares += (v[i] - mean) * (v[i] - mean);
    return n > 1 ? sqrt(squares / (n - 1)) / mean : 0;
}

mnem_probe_value mnem__probe_value(const mnem__probe_samples *samples, bool large) {
    float v[MNEM__PROBE_SAMPLES] = {0};
    const int n = samples->count < MNEM__PROBE_SAMPLES ? samples->count : MNEM__PROBE_SAMPLES;
    if (!n) return (mnem_probe_value){0};
    for (int i = 0; i < n; i++) v[i] = samples->value[i];
    sort(v, n, large);
    return (mnem_probe_value){.best = samples->best,
                              .median = v[n / 2],
                              .cv = variation(v, (n + 1) / 2),
                              .passes = samples->count};
}

bool mnem_probe_noisy(const mnem_probe_value *value) {
    return value->passes > 1 && value->cv > 0.03;
}

bool mnem_probe_level_lies(const mnem_probe_level *level) {
    const double said = (double)level->said_bytes, seen = (double)level->measured_bytes;
    return said > 0 && seen > 0 && (seen < 0.67 * said || seen > 1.5 * said);
}

const char *mnem_probe_stream_text(mnem_probe_stream stream) {
    static const char *const text[] = {
#define MNEM_PROBE_STREAM_TEXT(name, said) said,
        MNEM_PROBE_STREAM_LIST(MNEM_PROBE_STREAM_TEXT)
#undef MNEM_PROBE_STREAM_TEXT
    };
    return (unsigned)stream < MNEM_PROBE_STREAMS ? text[stream] : "?";
}

const mnem_probe_level *mnem_probe_level_of(const mnem_probe *probe, uint64_t bytes) {
    for (int i = 0; i < probe->levels - 1; i++) {
        const mnem_probe_level *l = &probe->level[i];
        const uint64_t own = l->measured_bytes ? l->measured_bytes : l->said_bytes;
        const int32_t sharers = mnem__max_i32(l->shared, 1);
        if (bytes <= own * (uint64_t)mnem__max_i32(probe->threads / sharers, 1)) return l;
    }
    return probe->levels ? &probe->level[probe->levels - 1] : NULL;
}

static bool same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

double mnem_probe_peak_of(const mnem_probe *probe, const char *type) {
    double best = 0;
    for (int i = 0; i < probe->peaks; i++)
        if (same(probe->peak[i].type, type))
            best = mnem__max_f64(best, probe->peak[i].rate[1].best);
    return best;
}
