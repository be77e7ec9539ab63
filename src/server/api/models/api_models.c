/* api_models.c: see api_models.h. The listed models, and their states. */
#include <stdio.h>
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
    s->adapters = o->adapters;
    s->adapter_count = o->adapter_count;
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

void api_served_known(const api_served *s, api_known *k) {
    const mnem_transformer *t = &s->transformer;
    const api_file *f = &s->file;
    mnem_model_info info;
    mnem_model_info_get(s->model.model, &info);
    *k = (api_known){.read = true,
                     .parameters = info.parameters,
                     .context = t->context,
                     .vocab = s->model.info.vocab,
                     .embd = t->embd,
                     .layers = t->layers,
                     .encoder = t->encoder,
                     .embeds = s->pooling || t->pooling,
                     .tools = !t->encoder && s->model.writes_tools,
                     .thinks = !t->encoder && s->model.thinks,
                     .fills = !t->encoder && api_fim_is(&s->model.fim)};
    snprintf(k->digest, sizeof k->digest, "%s", f->digest);
    snprintf(k->format, sizeof k->format, "%s", f->format);
    snprintf(k->family, sizeof k->family, "%s", f->architecture);
    snprintf(k->size, sizeof k->size, "%s", f->parameters);
    snprintf(k->level, sizeof k->level, "%s", f->level);
}

static void count_users(api *a, api_served *s, int32_t more) {
    if (!s->slot) return;
    pthread_mutex_lock(&a->lock);
    s->slot->use.requests += more;
    s->slot->use.last_ms = api_clock_ms();
    pthread_mutex_unlock(&a->lock);
}

void api_served_use(api *a, api_served *s) {
    count_users(a, s, 0);
}

void api_served_join(api *a, api_served *s) {
    count_users(a, s, 1);
}

void api_served_leave(api *a, api_served *s) {
    count_users(a, s, -1);
}

void api_served_planned(const api_served *served, api_planned *planned) {
    const api_file *file = &served->file;
    planned->file_bytes = file->bytes;
    planned->modified = file->modified;
    planned->modified_part = file->modified_part;
    api_served_known(served, &planned->known);
}

static void set_file(api_slot *slot, const api_planned *planned) {
    slot->listing.file_bytes = planned->file_bytes;
    slot->listing.modified = planned->modified;
    slot->listing.modified_part = planned->modified_part;
    slot->listing.known = planned->known;
}

/* Copies what the loaded model's file says into its listing. */
static void note_file(api_slot *slot, const api_served *served) {
    api_planned planned;
    api_served_planned(served, &planned);
    set_file(slot, &planned);
}

/* ---- the list ---- */

static mnem_status open_one(api *a) {
    const api_options *o = &a->options;
    api_served *s;
    const api_served_options options = {.model = o->model,
                                        .tokenizer = o->tokenizer,
                                        .template = o->template,
                                        .template_args = o->template_args,
                                        .sampler = o->sampler,
                                        .pooling = o->pooling,
                                        .template_bytes = o->template_bytes};
    const mnem_status status = api_served_open(&options, &s);
    if (status != MNEM_OK) return status;
    s->slot = a->slot;
    s->model.name = o->name;
    a->slot->listing.name = o->name;
    a->slot->use.state = API_MODEL_LOADED;
    a->slot->served = s;
    note_file(a->slot, s);
    return status;
}

static char *copy_text(char **at, const char *text) {
    char *copy = *at;
    *at = stpcpy(copy, text ? text : "") + 1;
    return copy;
}

/* Copies the listings; their names and paths go into one block. */
static mnem_status open_list(api *a) {
    const api_listing *models = a->options.models;
    size_t bytes = 0;
    for (int32_t i = 0; i < a->slots; i++)
        bytes += strlen(models[i].name) + strlen(models[i].path ? models[i].path : "") + 2;
    char *at = a->names = malloc(bytes);
    if (!at) return MNEM_NO_MEMORY;
    for (int32_t i = 0; i < a->slots; i++) {
        api_slot *slot = a->slot + i;
        slot->index = i;
        slot->listing = models[i];
        slot->listing.name = copy_text(&at, models[i].name);
        slot->listing.path = copy_text(&at, models[i].path);
    }
    return MNEM_OK;
}

uint64_t api_slots_bytes(const api_options *o) {
    return (uint64_t)o->model_count * (sizeof(api_slot) + sizeof(api_served) + API_MODEL_NAME);
}

mnem_status api_slots_open(api *a) {
    a->slots = a->options.model_count ? a->options.model_count : 1;
    a->slot = calloc((size_t)a->slots, sizeof *a->slot);
    if (!a->slot) return MNEM_NO_MEMORY;
    return a->options.model_count ? open_list(a) : open_one(a);
}

void api_slots_close(api *a) {
    if (a->slot && !a->options.model_count) api_served_close(a->slot->served);
    for (int32_t i = 0; a->slot && i < a->slots; i++)
        api_free(&a->memory, a->slot[i].adapter_scales);
    free(a->slot);
    free(a->names);
}

/* ---- loading and unloading ---- */

static void set_state(api *a, api_slot *slot, api_model_state state) {
    pthread_mutex_lock(&a->lock);
    slot->use.state = state;
    pthread_mutex_unlock(&a->lock);
}

const char *api_state_text(api_model_state state) {
    static const char *const texts[] = {"unloaded", "loading", "loaded", "leaving"};
    return texts[state];
}

void api_want(api *a, api_slot *slot) {
    const api_model_calls *calls = &a->options.model_calls;
    const int64_t since = slot->use.waiting_since_ms;
    if (slot->use.state == API_MODEL_LEAVING) slot->again = true;
    if (slot->use.state != API_MODEL_UNLOADED) return;
    slot->again = false;
    set_state(a, slot, API_MODEL_LOADING);
    if (calls->on_want) calls->on_want(calls->context, slot->index, since ? since : api_clock_ms());
}

void api_unwant(api *a, api_slot *slot) {
    const api_model_calls *calls = &a->options.model_calls;
    const bool there = slot->use.state == API_MODEL_LOADED || slot->use.state == API_MODEL_LOADING;
    if (there && calls->on_unwant) calls->on_unwant(calls->context, slot->index);
}

void api_keep(api *a, api_slot *slot, int64_t seconds) {
    const api_model_calls *calls = &a->options.model_calls;
    if (!a->options.model_count) return;
    if (seconds == 0) {
        if (!slot->listing.pinned_by) api_unwant(a, slot);
        return;
    }
    slot->keep_seconds = seconds;
    if (calls->on_keep) calls->on_keep(calls->context, slot->index, seconds);
}

void api_model_know(api *a, int32_t index, const api_planned *planned) {
    api_slot *slot = a->slot + index;
    if (planned->context) slot->listing.context = planned->context;
    slot->listing.least_bytes = planned->least_bytes;
    slot->listing.bytes = planned->bytes;
    slot->listing.shares_with = planned->shares_with;
    slot->listing.pinned_by = planned->pinned_by;
    snprintf(slot->failure, sizeof slot->failure, "%s", planned->failure);
    if (planned->known.read) set_file(slot, planned);
}

void api_model_begin(api *a, int32_t index, const api_loaded *loaded) {
    api_slot *slot = a->slot + index;
    api_served *s = loaded->served;
    s->slot = slot;
    s->scheduler = loaded->scheduler;
    s->shares = loaded->shares_with != NULL;
    s->limited = loaded->limited;
    s->model.context = loaded->context;
    s->model.name = slot->listing.name;
    slot->served = s;
    slot->loads++;
    *slot->failure = 0;
    note_file(slot, s);
    slot->listing.bytes = loaded->bytes;
    slot->listing.shares_with = loaded->shares_with;
    set_state(a, slot, API_MODEL_LOADED);
    api_unpark(a, slot);
}

bool api_model_leave(api *a, int32_t index) {
    api_slot *slot = a->slot + index;
    if (!slot->served) return true;
    set_state(a, slot, API_MODEL_LEAVING);
    return slot->use.requests == 0;
}

/* Adds the counters of the scheduler that ends to those of the name that shows them. */
static void keep_stats(api_slot *slot) {
    mnem_scheduler_stats stats;
    if (slot->served->shares) return;
    mnem_scheduler_stats_get(slot->served->scheduler, &stats);
    api_stats_add(&slot->past, &stats);
}

bool api_model_end(api *a, int32_t index) {
    api_slot *slot = a->slot + index;
    if (!slot->served) return true;
    if (!api_model_leave(a, index)) return false;
    keep_stats(slot);
    api_prompt_forget(a, slot->served);
    api_seats_forget(a, slot->served);
    slot->served->slot = NULL;
    slot->served = NULL;
    slot->keep_seconds = 0;
    set_state(a, slot, API_MODEL_UNLOADED);
    if (slot->use.waiting || slot->again) api_want(a, slot);
    return true;
}

void api_model_stay(api *a, int32_t index) {
    api_slot *slot = a->slot + index;
    if (slot->use.state != API_MODEL_LEAVING) return;
    slot->again = false;
    set_state(a, slot, API_MODEL_LOADED);
    api_unpark(a, slot);
}

void api_model_refuse(api *a, int32_t index, int status, const char *code, const char *text) {
    api_slot *slot = a->slot + index;
    api_error error = {.code = code, .retry_seconds = status == 503 || status == 429 ? 5 : 0};
    api_refuse(&error, status, status == 503 ? NULL : "model", "%s", text);
    snprintf(slot->failure, sizeof slot->failure, "%s", text);
    if (slot->use.state == API_MODEL_LOADING) set_state(a, slot, API_MODEL_UNLOADED);
    api_parked_fail(a, slot, &error);
}

bool api_model_view_get(const api *a, int32_t index, api_model_view *view) {
    if (index >= a->slots) return false;
    const api_slot *slot = a->slot + index;
    const api_served *s = slot->served;
    *view = (api_model_view){.name = slot->listing.name,
                             .state = slot->use.state,
                             .pin = slot->listing.pinned_by != NULL,
                             .bytes = slot->listing.bytes,
                             .context = s ? s->model.context : slot->listing.context,
                             .requests = slot->use.requests,
                             .waiting = slot->use.waiting,
                             .scheduler = s ? s->scheduler : NULL};
    return true;
}

void api_model_use_get(api *a, int32_t index, api_model_use *use) {
    pthread_mutex_lock(&a->lock);
    *use = a->slot[index].use;
    pthread_mutex_unlock(&a->lock);
}

void api_plan_begin(api *a) {
    pthread_mutex_lock(&a->lending);
    api_prompt_refill(a);
}

void api_plan_end(api *a) {
    pthread_mutex_unlock(&a->lending);
}
