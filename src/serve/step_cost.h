/* step_cost.h: predicts the time of a step from earlier steps.
 *
 * The model: the seconds of a step without prompts, plus seconds per prompt token. The latter grow
 * with the token's position, since attention reads all earlier positions; so there is one value per
 * power of two of the position. Each value is an exponential moving average. */
#ifndef MNEM_SRC_SERVE_STEP_COST_H
#define MNEM_SRC_SERVE_STEP_COST_H

#include <stdbool.h>
#include <stdint.h>

enum { MNEM__COST_PLACES = 24 };

typedef struct mnem__step_cost {
    double step;                     /* seconds of a step without prompts; 0: unknown */
    double token[MNEM__COST_PLACES]; /* of a prompt token at a position up to 2^(i+6); 0: unknown */
    int32_t last;                    /* prompt tokens of the last step that had any */
} mnem__step_cost;

/* Learns from a step of `rows` generated tokens and `prompt` prompt tokens, the last of them at
 * `position`. */
void mnem__step_cost_learn(mnem__step_cost *cost, int32_t rows, int32_t prompt, int32_t position,
                           double seconds);
/* The seconds that a step with prompts may take while other requests generate, at most `most`:
 * twice the seconds of a step without prompts, so that generation doesn't stall, but at least a
 * time that users don't notice. With streamed weights twice is always allowed, because that much
 * computation overlaps with reading. */
double mnem__step_cost_bound(const mnem__step_cost *cost, double most, bool streamed);
/* The prompt tokens, from `position` on, for which a step of `seconds` has time: at least `least`,
 * and at most twice those of the last step with prompts. */
int32_t mnem__step_cost_tokens(const mnem__step_cost *cost, int32_t position, double seconds,
                               int32_t least);
/* Seconds for n prompt tokens from `position` on; 0: unknown. */
double mnem__step_cost_prompt(const mnem__step_cost *cost, int32_t position, int32_t n);

#endif
