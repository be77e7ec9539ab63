/* logprobs.c: how likely tokens are in the model's own distribution.
 *
 * One pass finds the largest logit and keeps the likeliest tokens in order, a second one sums the
 * exponentials below the largest, so that none overflows. Cost: O(vocab), and for each token that
 * belongs among the likeliest its place there. */
#include <math.h>

#include "mnem/sampler.h"

static double log_sum(const float *logits, int32_t n, float most) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] - most);
    return log(sum) + most;
}

/* Puts a token where it belongs among the n likeliest so far of at most `most`; returns their new
 * number. */
static int32_t insert(mnem_token_logprob *top, int32_t n, int32_t most, int32_t id, float logit) {
    int32_t at = n;
    while (at > 0 && logit > top[at - 1].logprob) at--;
    if (at == most) return n;
    if (n < most) n++;
    for (int32_t i = n - 1; i > at; i--) top[i] = top[i - 1];
    top[at] = (mnem_token_logprob){id, logit};
    return n;
}

float mnem_logprobs_get(const float *logits, int32_t vocab, int32_t id, mnem_token_logprob *top,
                        int32_t count) {
    float most = logits[0];
    int32_t n = 0;
    for (int32_t i = 0; i < vocab; i++) {
        if (logits[i] > most) most = logits[i];
        if (count > 0) n = insert(top, n, count, i, logits[i]);
    }
    const double sum = log_sum(logits, vocab, most);
    for (int32_t i = 0; i < n; i++) top[i].logprob = (float)(top[i].logprob - sum);
    return (float)(logits[id] - sum);
}
