/* mnem/sampler.h: the choice of a token from a model's logits.
 *
 * A sampler keeps the random state and the tokens that penalties cover. It needs no engine and no
 * model. Not here: grammars, which decide which tokens are allowed (grammar.h).
 * Threads: a sampler is used by one thread at a time. */
#ifndef MNEM_SAMPLER_H
#define MNEM_SAMPLER_H

#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bias that is added to a token's logit before all other steps of sampling. */
typedef struct mnem_logit_bias {
    int32_t id;
    float bias;
} mnem_logit_bias;

/* Texts that a repetition doesn't continue over, as DRY counts it: lines, quotes, names. words are
 * the texts with the tokens of their ends, made by mnem_dry_breakers_init. All zero: none. */
typedef struct mnem_dry_breakers {
    const mnem_tokenizer *tokenizer; /* outlives whoever uses the breakers */
    const int32_t *words;            /* [word_count] */
    int32_t word_count;
} mnem_dry_breakers;
enum {
    MNEM_DRY_BREAKERS = 16,      /* texts, at most */
    MNEM_DRY_BREAKER_BYTES = 40, /* of each, at most */
    MNEM_DRY_WORDS = 831,        /* of each, at most */
};
/* How many words the texts take at most; texts NULL: the four below. */
int32_t mnem_dry_breakers_size(const char *const *texts, int32_t count);
/* Writes the words of the texts into the caller's storage, which the breakers borrow. texts NULL:
 * llama.cpp's four, which are a line feed, a colon, a double quote and an asterisk (count is
 * ignored). Empty texts are left out. MNEM_INVALID: too many texts, one that is too long, or the
 * capacity is too small; the statuses of mnem_tokenizer_encode. */
mnem_status mnem_dry_breakers_init(mnem_tokenizer *tokenizer, const char *const *texts,
                                   int32_t count, int32_t *words, int32_t capacity,
                                   mnem_dry_breakers *breakers);

/* All zero: greedy, nothing filtered. The steps, in this order: biases, repeat penalty, presence
 * and frequency penalty, DRY, top-k, top-p, min-p, XTC, temperature. */
typedef struct mnem_sampler_options {
    float temperature;    /* 0: greedy */
    int32_t top_k;        /* 0: off */
    float top_p;          /* 1: off; 0: only the likeliest token */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 0, 1: off */
    int32_t repeat_last;  /* number of last tokens that the penalty covers */
    /* Subtracted from the logit of a token that was chosen before (mnem_sampler_accept_chosen):
     * presence once, frequency once for each time; as OpenAI defines them. Negative values add. 0:
     * off. */
    float presence_penalty, frequency_penalty;
    /* DRY ("don't repeat yourself"), as llama.cpp defines it. A token that would continue a
     * repetition of n tokens, n >= allowed_length, loses multiplier * base ^ (n - allowed_length)
     * of its logit. Repetitions are those of the text's end among its last penalty_last tokens, and
     * reach back to the last breaker. */
    float dry_multiplier;           /* 0: off */
    float dry_base;                 /* from 1; 0: 1.75 */
    int32_t dry_allowed_length;     /* from 0 */
    int32_t dry_penalty_last;       /* 0: off */
    mnem_dry_breakers dry_breakers; /* words: copied */
    /* XTC ("exclude top choices"), as llama.cpp defines it: with this probability, all tokens of at
     * least the threshold's probability but the least likely of them are dropped. It also acts
     * where the temperature is 0. */
    float xtc_probability;       /* 0: off */
    float xtc_threshold;         /* above 0.5: off */
    const mnem_logit_bias *bias; /* [bias_count], each id once; copied */
    int32_t bias_count;
    uint64_t seed;
} mnem_sampler_options;
/* The usual values for chats, which are llama.cpp's: temperature 0.8, top-k 40, top-p 0.95, min-p
 * 0.05, repeat penalty 1 over 64 tokens, DRY 0 (1.75, 2, 64; no breakers), XTC 0 (0.1), seed 0. */
mnem_sampler_options mnem_sampler_usual(void);

typedef struct mnem_sampler mnem_sampler;
/* MNEM_INVALID: an option is out of range; the text names it. */
mnem_status mnem_sampler_create(const mnem_sampler_options *options, int32_t vocab,
                                mnem_sampler **sampler);
void mnem_sampler_destroy(mnem_sampler *sampler);
/* Records a token of the context (prompt or generated) for the repeat penalty and DRY. */
void mnem_sampler_accept(mnem_sampler *sampler, int32_t id);
/* Records a token that was chosen: it also counts for the presence and frequency penalties. */
void mnem_sampler_accept_chosen(mnem_sampler *sampler, int32_t id);
/* Begins another answer: no token counts as chosen. */
void mnem_sampler_reset_chosen(mnem_sampler *sampler);
/* Chooses a token. Allocates nothing; deterministic for a given seed. Ties go to the lowest id. */
int32_t mnem_sampler_choose(mnem_sampler *sampler, const float *logits);

typedef struct mnem_token_logprob {
    int32_t id;
    float logprob;
} mnem_token_logprob;
/* The logarithm of a token's probability in the model's own distribution, the softmax of logits
 * [vocab] as they come: before biases, penalties, cuts and temperature. top [count] receives the
 * likeliest tokens, best first; of equals the lowest id. count: from 0 to vocab. */
float mnem_logprobs_get(const float *logits, int32_t vocab, int32_t id, mnem_token_logprob *top,
                        int32_t count);

#ifdef __cplusplus
}
#endif
#endif
