/* divergence.c: predictions as numbers: their quality, and their distance from a reference's.
 *
 * The Kullback-Leibler divergence of the model's distribution q from the reference's p is the sum
 * of p (log p - log q), in nats: what predicting by q costs more where p is right. With a and b the
 * logits below their largest, it is
 *
 *     sum(e^a (a - b)) / sum(e^a) + log(sum(e^b) / sum(e^a))
 *
 * so that equal logits give exactly 0, and no probability is rounded to 0 before its logarithm.
 * Cost: two exp in double for each token of the vocabulary, beside those of the perplexities. */
#include "verbs/measure/divergence.h"

#include <math.h>

/* ---- means ---- */

void tool_mean_add(tool_mean *mean, double x) {
    mean->sum += x;
    mean->sum_squares += x * x;
    mean->count++;
}

double tool_mean_value(const tool_mean *mean) {
    return mean->sum / (double)mean->count;
}

double tool_mean_error(const tool_mean *mean) {
    const double n = (double)mean->count, value = tool_mean_value(mean);
    const double variance = mean->sum_squares / n - value * value;
    return n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0;
}

double tool_mean_exp(const tool_mean *mean) {
    return exp(tool_mean_value(mean));
}

double tool_mean_exp_error(const tool_mean *mean) {
    const double error = tool_mean_error(mean);
    return error > 0 ? tool_mean_exp(mean) * error : 0; /* an infinite value has none */
}

/* ---- one prediction ---- */

/* Of equal ones the lowest id, as the sampler takes it. */
static int32_t likeliest(const float *logits, int32_t vocab) {
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

double tool_negative_log_probability(const float *logits, int32_t vocab, int32_t id) {
    const float most = logits[likeliest(logits, vocab)];
    double sum = 0;
    for (int32_t i = 0; i < vocab; i++) sum += (double)expf(logits[i] - most);
    return log(sum) + (double)most - (double)logits[id];
}

static double kullback_leibler(const float *reference, const float *model, int32_t vocab,
                               double reference_most, double model_most) {
    double sum_p = 0, sum_q = 0, weighted = 0;
    for (int32_t i = 0; i < vocab; i++) {
        const double a = (double)reference[i] - reference_most;
        const double b = (double)model[i] - model_most;
        const double p = exp(a);
        sum_p += p;
        sum_q += exp(b);
        weighted += p * (a - b);
    }
    const double kl = weighted / sum_p + log(sum_q / sum_p);
    return kl > 0 ? kl : 0; /* it is never below, but for rounding */
}

void tool_divergence_add(tool_divergence *d, const float *reference, const float *model,
                         int32_t vocab, int32_t id) {
    const double of_reference = tool_negative_log_probability(reference, vocab, id);
    const double of_model = tool_negative_log_probability(model, vocab, id);
    const int32_t wanted = likeliest(reference, vocab), got = likeliest(model, vocab);
    const double kl =
        kullback_leibler(reference, model, vocab, (double)reference[wanted], (double)model[got]);
    d->each[d->kl.count] = (float)kl;
    tool_mean_add(&d->reference, of_reference);
    tool_mean_add(&d->model, of_model);
    tool_mean_add(&d->difference, of_model - of_reference);
    tool_mean_add(&d->kl, kl);
    d->agreed += wanted == got;
}

/* ---- all of them ---- */

double tool_divergence_agreed(const tool_divergence *d) {
    return (double)d->agreed / (double)d->kl.count;
}

double tool_divergence_agreed_error(const tool_divergence *d) {
    const double part = tool_divergence_agreed(d);
    return d->kl.count > 1 ? sqrt(part * (1 - part) / (double)(d->kl.count - 1)) : 0;
}

/* Puts the number that is k-th in order at k, smaller ones before it and larger ones behind (Hoare,
 * 1961). */
static float select_at(float *x, int64_t n, int64_t k) {
    for (int64_t low = 0, high = n - 1; low < high;) {
        const float pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i > j) break;
            const float kept = x[i];
            x[i++] = x[j];
            x[j--] = kept;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return x[k];
}

double tool_divergence_percentile(tool_divergence *d, double part) {
    const int64_t n = (int64_t)d->kl.count;
    const double at = part * (double)(n - 1);
    const int64_t k = (int64_t)at;
    const double below = (double)select_at(d->each, n, k);
    if (k + 1 >= n) return below;
    const double above = (double)select_at(d->each, n, k + 1);
    return below + (at - (double)k) * (above - below);
}
