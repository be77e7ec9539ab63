/* fake_models.c: see fake_models.h. */
#include "tools/serve/api/fake_models.h"

#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static void on_want(void *context, int32_t index, int64_t since_ms) {
    fake_model *m = &((fake_models *)context)->model[index];
    CHECK(!m->want && (!m->served || m->leaving) && since_ms > 0);
    m->want = true;
    m->wanted++;
    m->since_ms = since_ms;
}

static void on_unwant(void *context, int32_t index) {
    fake_model *m = &((fake_models *)context)->model[index];
    CHECK(m->served || m->want);
    m->unwanted++;
}

static void on_keep(void *context, int32_t index, int64_t seconds) {
    ((fake_models *)context)->model[index].keep = seconds;
}

void fake_models_open(const api_options *options, fake_models *fake) {
    static const char path[] = FAKE_MODEL;
    static const api_listing listings[FAKE_MODELS] = {
        {.name = "first", .path = path, .file_bytes = 1000, .idle_seconds = 60},
        {.name = "second", .path = path, .file_bytes = 2000, .context = 128},
        {.name = "third",
         .path = path,
         .file_bytes = 3000,
         .pinned_by = "third",
         .least_bytes = 4096}};
    fake_serve *f = &fake->serve;
    api_options o = *options;
    *fake = (fake_models){0};
    fake_make(256, f);
    o.ledger = f->ledger;
    o.models = listings;
    o.model_count = FAKE_MODELS;
    o.model_calls = (api_model_calls){on_want, on_unwant, on_keep, fake};
    CHECK(api_create(&o, &f->api) == MNEM_OK);
    f->handler = api_handler(f->api);
    api_begin(f->api, fake_server(f), NULL, 0);
}

void fake_load(fake_models *fake, int32_t index) {
    fake_model *m = &fake->model[index];
    fake_serve *f = &fake->serve;
    CHECK(!m->served);
    CHECK(mnem_tokenizer_create(f->model, &m->tokenizer) == MNEM_OK);
    const api_served_options options = {
        .model = f->model, .tokenizer = m->tokenizer, .pooling = MNEM_POOLING_MEAN};
    CHECK(api_served_open(&options, &m->served) == MNEM_OK);
    m->scheduler = (struct mnem_scheduler){f, index};
    m->want = false;
    m->leaving = false;
    fake_server(f);
    api_model_begin(f->api, index,
                    &(api_loaded){.served = m->served,
                                  .scheduler = &m->scheduler,
                                  .context = f->context,
                                  .bytes = m->shares_with ? 0 : 1 << 20,
                                  .shares_with = m->shares_with});
}

bool fake_unload(fake_models *fake, int32_t index) {
    fake_model *m = &fake->model[index];
    m->leaving = true;
    if (!api_model_end(fake->serve.api, index)) return false;
    for (int i = 0; i < FAKE_REQUESTS; i++)
        CHECK(!fake->serve.request[i].live || fake->serve.request[i].scheduler != &m->scheduler);
    api_served_close(m->served);
    mnem_tokenizer_destroy(m->tokenizer);
    m->served = NULL;
    m->tokenizer = NULL;
    m->leaving = false;
    return true;
}

void fake_run(fake_models *fake) {
    bool any = true;
    while (any) {
        any = fake_step(&fake->serve);
        for (int32_t i = 0; i < FAKE_MODELS; i++) {
            fake_model *m = &fake->model[i];
            const bool load = m->want;
            if (load) fake_load(fake, i);
            if (load || (m->leaving && fake_unload(fake, i))) any = true;
        }
    }
}

void fake_models_close(fake_models *fake) {
    fake_end(&fake->serve);
    for (int32_t i = 0; i < FAKE_MODELS; i++) {
        api_served_close(fake->model[i].served);
        mnem_tokenizer_destroy(fake->model[i].tokenizer);
    }
    fake_drop(&fake->serve);
}
