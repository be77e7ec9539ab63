/* sampler_desk.h: a choice among some of the tokens, and one sampler's memory for many texts.
 *
 * A desk has the memory of a sampler, shared by many texts. Everything on which a text's choices
 * depend stays with the text: its options, its tokens and the generator's state. A text sits
 * down at the desk, a token is chosen, and the text rises; the choices equal those of a separate
 * sampler. */
#ifndef MNEM_SRC_SAMPLING_SAMPLER_DESK_H
#define MNEM_SRC_SAMPLING_SAMPLER_DESK_H

#include "mnem/sampler.h"

/* Like mnem_sampler_choose, for tokens with a bit in allowed only: the others count as logits of
 * -inf. At least one must be allowed. */
int32_t mnem__sampler_choose_among(mnem_sampler *sampler, const float *logits,
                                   const uint64_t *allowed);
int32_t mnem__sampler_vocab(const mnem_sampler *sampler);
/* MNEM_INVALID names the option out of range. */
mnem_status mnem__sampler_check(const mnem_sampler_options *options, int32_t vocab);

typedef struct mnem__sampler_text {
    const mnem_sampler_options *options; /* checked; with its biases and breakers */
    uint64_t state;                      /* of the generator; at first the seed */
    const int32_t *ids;                  /* [count]; those from chosen_from on were chosen */
    int32_t count, chosen_from;
} mnem__sampler_text;

/* Creates a desk for texts of up to `context` tokens, with no text at it. mnem_sampler_destroy
 * destroys it. */
mnem_status mnem__sampler_desk_create(int32_t vocab, int32_t context, mnem_sampler **desk);
uint64_t mnem__sampler_desk_bytes(int32_t vocab, int32_t context);
/* The text and its ids must not change until it rises. */
void mnem__sampler_sit(mnem_sampler *desk, const mnem__sampler_text *text);
void mnem__sampler_rise(mnem_sampler *desk, mnem__sampler_text *text);

#endif
