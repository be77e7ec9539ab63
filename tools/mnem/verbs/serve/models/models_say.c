/* models_say.c: prints the bytes of several models, and which of them fit together, and shows
 * `mnem top` their states. */
#include <string.h>

#include "server/api/api_error.h"
#include "sight/monitor_file.h"
#include "verbs/serve/models/models_serve.h"

enum { SETS_MOST = 8, SETS_OF = 16 };

/* ---- which fit together ---- */

static uint64_t bytes_of(const models_all *v, uint32_t set) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < v->list.count; i++)
        if (set >> i & 1) bytes += v->model[i].bytes;
    return bytes;
}

/* Whether the set of models (names that lead) fits, contains all pinned ones, and has no room for
 * another. */
static bool is_whole_set(const models_all *v, uint32_t set) {
    const uint64_t bytes = bytes_of(v, set);
    if (!set || bytes > v->room_bytes) return false;
    for (int32_t i = 0; i < v->list.count; i++) {
        const models_one *m = &v->model[i];
        if (set >> i & 1) {
            if (m->failed != MNEM_OK || m->lead != m) return false;
        } else if (m->failed == MNEM_OK && m->lead == m &&
                   (models_is_pinned(m) || bytes + m->bytes <= v->room_bytes)) {
            return false;
        }
    }
    return true;
}

/* Finds such sets among up to SETS_OF models, since it tries all sets. Returns their number. */
static int find_sets(const models_all *v, uint32_t set[SETS_MOST]) {
    int n = 0;
    if (v->list.count > SETS_OF) return 0;
    for (uint32_t s = 1; s < (uint32_t)1 << v->list.count && n < SETS_MOST; s++)
        if (is_whole_set(v, s)) set[n++] = s;
    return n;
}

/* A set with all names of its models. */
static bool is_in(const models_all *v, uint32_t set, int32_t i) {
    const models_one *lead = v->model[i].lead;
    return set >> lead->index & 1;
}

static json_t *set_json(const models_all *v, uint32_t set) {
    json_t *names = json_array();
    for (int32_t i = 0; i < v->list.count; i++)
        if (is_in(v, set, i)) json_array_append_new(names, json_string(v->list.entry[i].name));
    return names;
}

static void print_set(FILE *file, const models_all *v, uint32_t set) {
    char text[1024] = "";
    size_t n = 0;
    for (int32_t i = 0; i < v->list.count && n < sizeof text - 1; i++)
        if (is_in(v, set, i))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "",
                                  v->list.entry[i].name);
    tool_wrap(file, "  together   ", text);
}

/* ---- text ---- */

/* Writes what the model can do in its bytes. */
static void say_space(const models_one *m, char *text, size_t n) {
    const mnem_engine_plan *p = &m->served.stage.plan;
    const int32_t parallel = m->served.parallel;
    if (m->served.stage.transformer.encoder)
        snprintf(text, n, "embeddings of texts of up to %d tokens", p->context);
    else
        snprintf(text, n, "%d conversation%s of up to %d tokens, KV cache for %lld tokens",
                 parallel, tool_s((uint64_t)parallel), p->context,
                 (long long)p->pages * p->page_tokens);
}

/* Writes what a name that doesn't lead has. */
static void say_shared(const models_one *n, char *text, size_t size) {
    const models_one *m = n->lead;
    if (m->failed != MNEM_OK)
        snprintf(text, size, "%s: the file of %s, which can't be served", n->entry->name,
                 m->entry->name);
    else
        snprintf(
            text, size,
            "%s: the file of %s, loaded once for all its names, conversations of up to %d tokens",
            n->entry->name, m->entry->name, models_context(n));
}

static void print_model(FILE *file, const models_one *m) {
    char text[512], space[128], takes[TOOL_TEXT], least[TOOL_TEXT];
    say_space(m, space, sizeof space);
    if (m->lead != m)
        say_shared(m, text, sizeof text);
    else if (m->failed != MNEM_OK)
        snprintf(text, sizeof text, "%s: can't be served: %s", m->entry->name, m->failure);
    else
        snprintf(text, sizeof text, "%s: takes %s while it is loaded (at least %s), %s%s%s",
                 m->entry->name, tool_size(m->bytes, takes), tool_size(m->least_bytes, least),
                 space,
                 m->served.stage.plan.streamed ? ", some weights are streamed from disk" : "",
                 models_is_pinned(m) ? ", pinned" : "");
    tool_wrap(file, "  model      ", text);
}

static void print_all(FILE *file, const models_all *v) {
    char room[TOOL_TEXT], budget[TOOL_TEXT], next[TOOL_TEXT], text[256];
    uint32_t set[SETS_MOST];
    snprintf(text, sizeof text,
             "loaded models share %s of the budget of %s; %s are reserved for opening the next one",
             tool_size(v->room_bytes, room), tool_size(v->s->budget_bytes, budget),
             tool_size(v->next_bytes, next));
    tool_wrap(file, "  memory     ", text);
    for (int32_t i = 0; i < v->list.count; i++) print_model(file, &v->model[i]);
    const int sets = find_sets(v, set);
    for (int i = 0; i < sets; i++) print_set(file, v, set[i]);
}

void models_say_models(const models_all *v) {
    const tool_args *args = v->s->model.stage.args;
    if (!args->quiet && !args->json) print_all(stderr, v);
}

/* ---- JSON ---- */

static json_t *model_json(const models_one *m) {
    const mnem_engine_plan *p = &m->served.stage.plan;
    json_t *o = json_pack("{s:s, s:s, s:b, s:i}", "name", m->entry->name, "path", m->entry->path,
                          "pin", models_is_pinned(m), "idle", m->entry->idle);
    if (m->lead != m) json_object_set_new(o, "shares_with", json_string(models_shares_with(m)));
    if (m->lead->failed != MNEM_OK) {
        const char *why = m->lead->failure;
        json_object_set_new(o, "error", json_stringn(why, api_whole_characters(why)));
        return o;
    }
    json_object_set_new(o, "context", json_integer(models_context(m)));
    if (m->lead != m) return o;
    json_t *more = json_pack("{s:I, s:I, s:I, s:I, s:i, s:I, s:b}", "bytes", (json_int_t)m->bytes,
                             "least_bytes", (json_int_t)m->least_bytes, "whole_bytes",
                             (json_int_t)m->whole_bytes, "table_bytes", (json_int_t)m->tables_bytes,
                             "parallel", m->served.parallel, "kv_tokens",
                             (json_int_t)p->pages * p->page_tokens, "streamed", p->streamed);
    json_object_update(o, more);
    json_decref(more);
    return o;
}

void models_say_plan(const models_all *v) {
    uint32_t set[SETS_MOST];
    if (!v->s->model.stage.args->json) {
        print_all(stdout, v);
        return;
    }
    json_t *models = json_array(), *together = json_array();
    for (int32_t i = 0; i < v->list.count; i++)
        json_array_append_new(models, model_json(&v->model[i]));
    const int sets = find_sets(v, set);
    for (int i = 0; i < sets; i++) json_array_append_new(together, set_json(v, set[i]));
    tool_out_json("plan",
                  json_pack("{s:I, s:I, s:I, s:o, s:o}", "budget_bytes",
                            (json_int_t)v->s->budget_bytes, "room_bytes", (json_int_t)v->room_bytes,
                            "next_model_bytes", (json_int_t)v->next_bytes, "models", models,
                            "together", together));
}

/* ---- mnem top ---- */

/* Shows `mnem top` the models with the states that clients see. */
static void tell_models(const models_all *v) {
    mnem_monitor_model list[API_MODELS] = {0};
    for (int32_t i = 0; i < v->list.count; i++) {
        const models_one *m = &v->model[i];
        api_model_use use;
        api_model_use_get(v->s->api, i, &use);
        snprintf(list[i].name, sizeof list[i].name, "%.31s", m->entry->name);
        snprintf(list[i].state, sizeof list[i].state, "%s", api_state_text(use.state));
        list[i].requests = (uint32_t)(use.requests + use.waiting);
        list[i].bytes = m->bytes;
    }
    tool_monitor_models(list, (uint32_t)v->list.count);
}

void models_tell_monitor(const models_all *v) {
    mnem_scheduler_stats sum = {0}, one;
    for (int32_t i = 0; i < v->list.count; i++) {
        if (!v->model[i].loaded) continue;
        mnem_scheduler_stats_get(v->model[i].served.scheduler, &one);
        sum.running += one.running;
        sum.waiting += one.waiting;
        sum.preempted += one.preempted;
        sum.running_most += one.running_most;
        sum.pages += one.pages;
        sum.pages_free += one.pages_free;
        sum.pages_cached += one.pages_cached;
        sum.tokens += one.tokens;
        sum.prompt_tokens += one.prompt_tokens;
        sum.steps += one.steps;
        sum.tokens_per_s += one.tokens_per_s;
        if (sum.step_seconds_last < one.step_seconds_last)
            sum.step_seconds_last = one.step_seconds_last;
        if (sum.page_bytes < one.page_bytes) sum.page_bytes = one.page_bytes;
    }
    tool_monitor_scheduler(&sum);
    tell_models(v);
}
