/* step_cost.h: what a step will take, learned from those before it.
 *
 * A step's seconds are taken to be those of a step without prompts, and so many for each token of a
 * prompt: more for one that stands behind many, since attention looks at all of them. So there is a
 * number for tokens by where they stand, in powers of two. Each is a mean that forgets. */
#ifndef MNEM_SRC_SERVE_STEP_COST_H
#define MNEM_SRC_SERVE_STEP_COST_H

#include <stdbool.h>
#include <stdint.h>

enum { MNEM__COST_PLACES = 24 };

typedef struct mnem__step_cost {
    double step;                     /* seconds of a step without prompts; 0: not known */
    double token[MNEM__COST_PLACES]; /* of a prompt's token behind up to 2^(i+6); 0: not known */
    int32_t last;                    /* tokens of prompts in the last step that had some */
} mnem__step_cost;

/* A step of `rows` generated tokens and `prompt` tokens of prompts, the last of them behind
 * `position` others. */
void mnem__step_cost_learn(mnem__step_cost *cost, int32_t rows, int32_t prompt, int32_t position,
                           double seconds);
/* Seconds that a step with prompts is planned to take while others generate, of at most `most`:
 * twice those of a step without, so that nobody who generates comes to a halt, but no less than
 * what nobody notices. Where weights are streamed twice a step is never too much: so much computing
 * hides behind the reading. */
double mnem__step_cost_bound(const mnem__step_cost *cost, double most, bool streamed);
/* Tokens of prompts, standing behind position, that a step of so many seconds has room for; at
 * least `least`. More than twice what there was last time is never believed. */
int32_t mnem__step_cost_tokens(const mnem__step_cost *cost, int32_t position, double seconds,
                               int32_t least);
/* Seconds for n tokens of a prompt, standing behind position; 0: not known. */
double mnem__step_cost_prompt(const mnem__step_cost *cost, int32_t position, int32_t n);

#endif
