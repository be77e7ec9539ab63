/* api_models.c: see api_models.h: the listed models, and which of them a request means. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/api/api_private.h"

int64_t api_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- a loaded model ---- */

mnem_status api_served_open(const api_served_options *o, api_served **made) {
    static const mnem_sampler_options none;
    *made = NULL;
    api_served *s = calloc(1, sizeof *s);
    if (!s) return MNEM_NO_MEMORY;
    s->sampler = o->sampler;
    s->pooling = o->pooling;
    if (memcmp(&s->sampler, &none, sizeof none) == 0) s->sampler = mnem_sampler_usual();
    const api_model_options model = {.model = o->model,
                                     .tokenizer = o->tokenizer,
                                     .template = o->template,
                                     .template_args = o->template_args,
                                     .template_bytes =
                                         o->template_bytes ? o->template_bytes : 8 << 20};
    mnem_status status = api_model_open(&model, &s->model);
    if (status == MNEM_OK) status = mnem_model_transformer(o->model, &s->transformer);
    if (status == MNEM_OK)
        status = mnem_token_set_create(o->tokenizer, s->model.end, &s->model.tokens);
    if (status == MNEM_OK) api_file_read(o->model, o->tokenizer, &s->file);
    if (status == MNEM_OK)
        *made = s;
    else
        api_served_close(s);
    return status;
}

void api_served_close(api_served *s) {
    if (!s) return;
    api_model_close(&s->model);
    free(s);
}

int32_t api_served_end_token(const api_served *s) {
    return s->model.end;
}

void api_served_join(api *a, api_served *s) {
    (void)a;
    s->users++;
}

void api_served_leave(api *a, api_served *s) {
    (void)a;
    s->users--;
}

/* ---- the list ---- */

static mnem_status open_one(api *a) {
    const api_options *o = &a->options;
    const api_served_options options = {.model = o->model,
                                        .tokenizer = o->tokenizer,
                                        .template = o->template,
                                        .template_args = o->template_args,
                                        .sampler = o->sampler,
                                        .pooling = o->pooling,
                                        .template_bytes = o->template_bytes};
    a->slot->listing.name = o->name;
    a->slot->state = API_MODEL_LOADED;
    const mnem_status status = api_served_open(&options, &a->slot->served);
    if (status == MNEM_OK) a->slot->served->model.name = o->name;
    return status;
}

mnem_status api_slots_open(api *a) {
    a->slots = 1;
    a->slot = calloc((size_t)a->slots, sizeof *a->slot);
    if (!a->slot) return MNEM_NO_MEMORY;
    return open_one(a);
}

void api_slots_close(api *a) {
    if (!a->slot) return;
    api_served_close(a->slot->served);
    free(a->slot);
}

/* ---- which one is meant ---- */

static bool is_name(const char *listed, const char *name) {
    static const char tag[] = ":latest";
    const size_t n = strlen(listed);
    if (strncmp(name, listed, n) != 0) return false;
    return !name[n] || strcmp(name + n, tag) == 0;
}

api_slot *api_listed(const api *a, const char *name) {
    return is_name(a->slot->listing.name, name) ? a->slot : NULL;
}

api_slot *api_find_model(const api *a, const char *name) {
    return a->options.strict_model && name ? api_listed(a, name) : a->slot;
}

bool api_pick_name(api *a, const char *name, api_slot **slot, api_error *error) {
    *slot = api_find_model(a, name);
    if (*slot) return true;
    error->code = "model_not_found";
    return api_refuse(error, 404, "model",
                      "the model '%.100s' does not exist on this server: set 'model' to '%.100s', "
                      "or leave it out",
                      name, a->slot->listing.name);
}

bool api_pick(api *a, const json_t *root, api_slot **slot, api_error *error) {
    const char *name = NULL;
    return api_get_text(root, "model", &name, error) && api_pick_name(a, name, slot, error);
}

bool api_check_loaded(const api *a, api_error *error) {
    if (a->slot->served->scheduler) return true;
    error->retry_seconds = 1;
    return api_refuse(error, 503, NULL, "the server is still loading the model: try again later");
}

bool api_check_ready(const api *a, api_error *error) {
    if (!a->draining) return api_check_loaded(a, error);
    error->retry_seconds = 5;
    return api_refuse(error, 503, NULL, "the server is shutting down and accepts no new requests");
}
