/* dry.h: the penalties of DRY ("don't repeat yourself").
 *
 * If the last n tokens of the text occur earlier in it, the token that followed there would
 * continue the repetition to n + 1 tokens. Each such token has the longest n:
 *
 *     text      a b c x   a b c y   b c x   a b c        n of x: 3 (a b c), of y: 3
 *
 * A breaker (such as a line feed) ends the counting: n never extends over the last one, and a
 * token with a breaker in its text has no penalty. */
#ifndef MNEM_SRC_SAMPLING_DRY_H
#define MNEM_SRC_SAMPLING_DRY_H

#include "mnem/sampler.h"

/* Tokens in a ring of `room`: the last one is at newest, the previous one at newest - 1. */
typedef struct mnem__dry_text {
    const int32_t *ids;
    int32_t room, newest, count;
} mnem__dry_text;

/* A token and the length of the repetition that it would continue. */
typedef struct mnem__dry_run {
    int32_t id, length;
} mnem__dry_run;

static inline int32_t mnem__dry_at(const mnem__dry_text *text, int32_t back) {
    const int32_t at = text->newest - back;
    return text->ids[at < 0 ? at + text->room : at];
}

bool mnem__dry_is_on(const mnem_sampler_options *options);
/* MNEM_INVALID: words that mnem_dry_breakers_init can't produce. */
mnem_status mnem__dry_check(const mnem_dry_breakers *breakers);
/* Writes the tokens with a penalty to run[text->count], ids ascending; returns their number. */
int32_t mnem__dry_find(const mnem_sampler_options *options, const mnem__dry_text *text,
                       mnem__dry_run *run);
/* The penalty on the logit of a token with a run of this length. */
float mnem__dry_penalty(const mnem_sampler_options *options, int32_t length);

#endif
