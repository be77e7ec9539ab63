/* fake_models.h: fake_serve.h with several models: the stepping thread's part, by hand.
 *
 * All of them are the model that ships, under other names: what is tested is who gets which. */
#ifndef MNEM_TESTS_TOOLS_SERVE_API_FAKE_MODELS_H
#define MNEM_TESTS_TOOLS_SERVE_API_FAKE_MODELS_H

#include "tools/serve/api/fake_serve.h"

typedef struct fake_model {
    mnem_tokenizer *tokenizer;
    api_served *served; /* NULL: not loaded */
    struct mnem_scheduler scheduler;
    const char *shares_with;  /* the name whose engine it uses, from its next load on */
    int32_t wanted, unwanted; /* times */
    bool want, leaving;       /* it was asked for, and nothing came of it yet */
    int64_t since_ms, keep;
} fake_model;

typedef struct fake_models {
    fake_serve serve;
    fake_model model[FAKE_MODELS];
} fake_models;

/* "first", "second" and "third"; the third is pinned, of the others the first is gone after a
 * minute. */
void fake_models_open(const api_options *options, fake_models *fake);
void fake_models_close(fake_models *fake);
void fake_load(fake_models *fake, int32_t index);
/* false: requests use it, and it is leaving. */
bool fake_unload(fake_models *fake, int32_t index);
/* Loads what is wanted, until nothing is left to do. */
void fake_run(fake_models *fake);

#endif
