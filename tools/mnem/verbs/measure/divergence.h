/* divergence.h: the negative log probability of tokens, and the divergence of logits from a
 * reference's. Numbers only. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_DIVERGENCE_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_DIVERGENCE_H

#include <stdint.h>

/* ---- a mean and its standard error ---- */

typedef struct tool_mean {
    uint64_t count;
    double sum, sum_squares;
} tool_mean;
void tool_mean_add(tool_mean *mean, double x);
double tool_mean_value(const tool_mean *mean);
double tool_mean_error(const tool_mean *mean);
/* exp of a mean of logarithms, and its standard error, propagated through exp. */
double tool_mean_exp(const tool_mean *mean);
double tool_mean_exp_error(const tool_mean *mean);

/* The negative log probability of token id, from logits [vocab]. */
double tool_negative_log_probability(const float *logits, int32_t vocab, int32_t id);

/* ---- two models over the same tokens ---- */

typedef struct tool_divergence {
    tool_mean model, reference; /* negative log probabilities of the text's tokens */
    tool_mean difference; /* the model's less the reference's: exp is the perplexities' ratio */
    tool_mean kl;         /* of the model from the reference, in nats */
    uint64_t agreed;      /* number of predictions with the reference's likeliest token */
    float *each;          /* [predictions] the divergences, for percentiles; owned by the caller */
} tool_divergence;

/* Adds a prediction of token id; logits are [vocab]. */
void tool_divergence_add(tool_divergence *divergence, const float *reference, const float *model,
                         int32_t vocab, int32_t id);
/* The part of the predictions that agreed, and its standard error. */
double tool_divergence_agreed(const tool_divergence *divergence);
double tool_divergence_agreed_error(const tool_divergence *divergence);
/* The quantile (part: 0 to 1) of the divergences, with linear interpolation, as in NumPy and
 * llama.cpp. Reorders `each`. */
double tool_divergence_percentile(tool_divergence *divergence, double part);

#endif
