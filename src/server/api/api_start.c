/* api_start.c: from a request's body to answers that are submitted. Nothing of the body is kept but
 * its stop strings: the document is closed when this is done. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/api/adapters/api_adapters.h"

/* ---- who shares beginnings with whom ---- */

/* A number for each key and salt that was seen lately; one that was forgotten gets another, and so
 * never somebody else's pages. */
uint64_t api_tree_of(api *a, int32_t key, const char *salt) {
    int oldest = 0;
    for (int i = 0; i < API_TREES; i++) {
        if (a->tree[i].number && a->tree[i].key == key && strcmp(a->tree[i].salt, salt) == 0) {
            a->tree[i].used = a->numbers;
            return a->tree[i].number;
        }
        if (a->tree[i].used < a->tree[oldest].used) oldest = i;
    }
    a->tree[oldest].key = key;
    a->tree[oldest].used = a->numbers;
    a->tree[oldest].number = ++a->trees;
    snprintf(a->tree[oldest].salt, API_SALT, "%s", salt);
    return a->trees;
}

/* ---- what answers share ---- */

static const char *id_prefix(ask_form form) {
    static const char *const prefixes[ASK_FORMS] = {"chatcmpl-", "cmpl-", "cmpl-", "resp_",
                                                    "msg_",      "chat-", "text-", "cmpl-"};
    return prefixes[form];
}

static bool keep_stops(api *a, api_job *job, const ask_request *ask) {
    size_t bytes = 1;
    for (int i = 0; i < ask->stops; i++) bytes += strlen(ask->stop[i]) + 1;
    char *at = job->stops = api_alloc(&a->memory, bytes);
    for (int i = 0; at && i < ask->stops; i++) {
        const size_t n = strlen(ask->stop[i]) + 1;
        job->tell.stop[i] = memcpy(at, ask->stop[i], n);
        at += n;
    }
    job->tell.stops = ask->stops;
    return job->stops != NULL;
}

/* /completion tells its prompts and settings again, and others where that is asked for. */
static void set_prompts(tell *t, const ask_request *ask, const api_prompts *prompts) {
    const bool flat = ask->form == ASK_COMPLETION || ask->form == ASK_INFILL;
    for (int32_t i = 0; i < t->choices; i++) {
        const int32_t begin = prompts->begin[i / ask->n];
        t->choice[i].prompt_tokens = prompts->begin[i / ask->n + 1] - begin;
        if (flat || (ask->verbose && i == 0))
            tell_set_prompt(&t->choice[i], prompts->ids + begin, t->choice[i].prompt_tokens);
    }
    if (flat || ask->verbose) tell_set_settings(t, ask);
}

static bool set_tell(api *a, api_job *job, const ask_request *ask, const api_prompts *prompts) {
    const api_model *m = &job->served->model;
    tell *t = &job->tell;
    const bool calls = ask->tools && ask->tool_choice != ASK_TOOL_NONE;
    *t = (tell){.form = tell_form_of(ask->form),
                .protocol = ask->form,
                .tokenizer = m->tokenizer,
                .model = m->name,
                .created = (int64_t)time(NULL),
                .stream = ask->stream,
                .usage = ask->usage,
                .logprobs = ask->logprobs,
                .thinks = m->thinks && ask->messages,
                .in_thought = prompts->in_thought,
                .call_format = calls ? m->calls : NULL,
                .call_texts = {{.memory = &a->memory}, {.memory = &a->memory}},
                .unsupported.memory = &a->memory,
                .mark = m->mark,
                .marks = calls || (m->thinks && ask->messages) ? m->marks : 0,
                .n = ask->n,
                .no_answer = ask->no_answer,
                .must_call = calls && ask->tool_choice == ASK_TOOL_REQUIRED,
                .timings_each = ask->timings,
                .progress = ask->progress && ask->stream,
                .lists_ids = ask->lists_ids,
                .limit = ask->tokens,
                .context = m->context,
                .slot = ask->slot,
                .prompt_tokens = prompts->total};
    if (ask->prefix) t->ends = api_fim_ends(&m->fim, t->end);
    snprintf(t->id, sizeof t->id, "%s%08" PRIx64 "%08" PRIx64, id_prefix(ask->form),
             (uint64_t)a->started & 0xffffffff, ++a->numbers);
    if (calls && m->calls->shape == CALL_KEYED) call_texts_make(ask->tools, &t->call_texts);
    if (t->call_texts.json.failed || t->call_texts.literals.failed || !keep_stops(a, job, ask) ||
        !tell_init(t, &a->memory, prompts->count * ask->n))
        return false;
    set_prompts(t, ask, prompts);
    return !tell_failed(t);
}

static bool scores_prompt(const ask_request *ask) {
    return ask->echo && ask->logprobs;
}

/* What is left of the context bounds a ring, too. A step tells many tokens of a prompt at once. */
static bool take_ring(api *a, api_answer *answer, const ask_request *ask, int32_t prompt) {
    const int32_t left = answer->job->served->model.context - prompt;
    int32_t room = ask->tokens && ask->tokens < left ? ask->tokens : left;
    if (room > API_RING) room = API_RING;
    if (room < 1) room = 1;
    if (scores_prompt(ask)) room += prompt;
    answer->stride = sizeof(api_ring_token) + (size_t)ask->top * sizeof(mnem_token_logprob);
    answer->room = (uint32_t)room;
    answer->ring = api_alloc(&a->memory, (size_t)room * answer->stride);
    return answer->ring != NULL;
}

static bool refuse_memory(api *a, api_error *error) {
    error->retry_seconds = 1;
    return api_refuse(error, a->jobs && a->jobs->next ? 429 : 413, NULL,
                      "the answers need more memory than is free (all requests share %" PRIu64
                      " bytes): ask for fewer answers or tokens, or try again later",
                      a->memory.bytes);
}

/* Answers whose logprobs don't fit even alone are refused before anything is computed: those of an
 * answer that isn't a stream are kept until it has ended. As many tokens as are asked for count,
 * also where an answer may end earlier. */
static bool check_logs(const api *a, const ask_request *ask, const api_prompts *prompts,
                       const api_job *job, api_error *error) {
    uint64_t bytes = 0;
    if (ask->stream || !ask->logprobs) return true;
    for (int32_t i = 0; i < job->answers; i++) {
        const int32_t prompt = i / ask->n, n = prompts->begin[prompt + 1] - prompts->begin[prompt];
        const int32_t left = job->served->model.context - n,
                      asked = ask->no_answer ? 0 : ask->tokens;
        const int32_t tokens = (asked < left ? asked : left) + (ask->echo ? n : 0);
        bytes += (uint64_t)tokens * sizeof(tell_log) + job->answer[i].room * job->answer[i].stride;
    }
    if (bytes <= a->memory.bytes) return true;
    return api_refuse(error, 413, "logprobs",
                      "the logprobs of this response need at least %" PRIu64
                      " bytes, but all responses share %" PRIu64
                      ": ask for fewer tokens, or stream the response",
                      bytes, a->memory.bytes);
}

static void list_ignored(const ask_request *ask, api_text *unsupported) {
    for (int32_t i = 0; i < ask->ignored_count; i++) {
        if (unsupported->length) api_say(unsupported, ",");
        api_quote(unsupported, ask->ignored[i], strlen(ask->ignored[i]));
    }
}

static void note_unsupported(const api *a, tell *t) {
    if (!t->unsupported.length || !a->options.on_note) return;
    api_text text = {.memory = t->memory};
    api_format(&text,
               "%s: these fields, or parts of the tools' schemas, are not supported: ", t->id);
    api_put(&text, t->unsupported.bytes, t->unsupported.length);
    api_put(&text, "", 1);
    if (!text.failed) a->options.on_note(a->options.context, text.bytes);
    api_text_fini(&text);
}

static bool take_answers(api *a, api_job *job, const ask_request *ask, const api_prompts *prompts,
                         api_error *error) {
    const int32_t count = job->tell.choices;
    job->answer = api_alloc(&a->memory, (size_t)count * sizeof *job->answer);
    if (!job->answer) return refuse_memory(a, error);
    job->answers = count;
    for (int32_t i = 0; i < count; i++) {
        const int32_t prompt = i / ask->n;
        job->answer[i].job = job;
        job->answer[i].index = i;
        if (!take_ring(a, &job->answer[i], ask,
                       prompts->begin[prompt + 1] - prompts->begin[prompt]))
            return refuse_memory(a, error);
        if (!api_limit_make(a, &job->served->model, ask, prompts->in_thought,
                            i ? NULL : &job->tell.unsupported, &job->answer[i].limit, error))
            return false;
    }
    list_ignored(ask, &job->tell.unsupported);
    note_unsupported(a, &job->tell);
    return true;
}

/* ---- echoes ---- */

/* The prompt's tokens as the answer's first ones: all of them, or where others come with their
 * logprobs the first, which has none. */
static void echo_prompt(api_job *job, const ask_request *ask, const api_prompts *prompts,
                        int32_t answer) {
    const int32_t prompt = answer / ask->n, begin = prompts->begin[prompt];
    const int32_t n = prompts->begin[prompt + 1] - begin;
    job->tell.choice[answer].whole_text = prompts->whole_text[prompt];
    for (int32_t i = 0; i < (scores_prompt(ask) ? 1 : n); i++)
        tell_prompt(&job->tell.choice[answer],
                    &(mnem_request_token){.id = prompts->ids[begin + i], .index = i - n}, i == 0);
}

/* ---- submitting ---- */

static bool refuse_submit(mnem_status status, const mnem_request_refusal *why, api_error *error) {
    switch (status) {
    case MNEM_BUSY:
        error->retry_seconds = why->retry_after_seconds > 0 ? why->retry_after_seconds : 1;
        return api_refuse(error, 429, NULL, "the request queue is full: try again in %d s",
                          error->retry_seconds);
    case MNEM_CANCELLED:
        error->retry_seconds = 5;
        return api_refuse(error, 503, NULL,
                          "the server is shutting down and accepts no new requests");
    case MNEM_NO_MEMORY:
        error->retry_seconds = 1;
        return api_refuse(error, 503, NULL,
                          "the server has no memory left for this request: try again later");
    case MNEM_OVER_BUDGET:
        error->needed_bytes = why->needed_bytes;
        error->budget_bytes = why->budget_bytes;
        error->least_bytes = why->least_bytes;
        error->code = why->needed_bytes ? "over_budget" : "context_length_exceeded";
        return api_refuse(error, 400, NULL, "%s", mnem_last_error());
    default: return api_refuse(error, 400, NULL, "%s", mnem_last_error());
    }
}

/* The limit of an answer. The name's context counts where the engine's is larger. */
static int32_t limit_of(const api_served *served, const ask_request *ask, int32_t prompt) {
    const int32_t left = served->model.context - prompt;
    if (!served->limited || (ask->tokens && ask->tokens < left)) return ask->tokens;
    return left > 0 ? left : 1;
}

static bool submit(api *a, api_job *job, const ask_request *ask, const api_prompts *prompts,
                   const http_request *http, api_error *error) {
    mnem_request request = {.sampler = ask->sampler,
                            .ignore_end = ask->ignore_end,
                            .logprobs = ask->logprobs,
                            .prompt_logprobs = scores_prompt(ask),
                            .top = ask->top,
                            .tree = api_tree_of(a, http->key, ask->salt),
                            .adapter_scales = ask->adapter_scales,
                            .no_sharing = ask->no_sharing,
                            .priority = ask->priority,
                            .on_token = api_on_token,
                            .on_end = api_on_end,
                            .on_event = api_on_event};
    if (ask->progress || ask->timings) request.on_prompt = api_on_prompt;
    if (!ask->seeded) request.sampler.seed = api_random(a);
    for (int32_t i = 0; i < job->answers; i++) {
        api_answer *answer = &job->answer[i];
        mnem_request_refusal why = {0};
        const int32_t prompt = i / ask->n, begin = prompts->begin[prompt];
        request.prompt = prompts->ids + begin;
        request.prompt_tokens = prompts->begin[prompt + 1] - begin;
        request.tokens = limit_of(job->served, ask, request.prompt_tokens);
        request.match = answer->limit.match;
        request.context = answer;
        if (ask->echo) echo_prompt(job, ask, prompts, i);
        job->tell.slot = api_seat_take(a, job, ask->slot, request.tree, http->key, request.prompt,
                                       request.prompt_tokens);
        const mnem_status status =
            mnem_scheduler_submit(job->served->scheduler, &request, &answer->request, &why);
        if (status != MNEM_OK) return refuse_submit(status, &why, error);
        job->answers_open++;
        request.sampler.seed++;
    }
    return true;
}

/* ---- one request ---- */

static void link_job(api *a, api_job *job) {
    job->next = a->jobs;
    if (a->jobs) a->jobs->before = job;
    a->jobs = job;
}

/* The job is linked from here on, and its exchange's. */
static void start_job(api *a, api_served *served, http_exchange *exchange, const http_request *http,
                      const ask_request *ask, const api_prompts *prompts, api_error *error) {
    api_job *job = api_alloc(&a->memory, sizeof *job);
    if (!job) {
        refuse_memory(a, error);
        return;
    }
    *job = (api_job){.owner.kind = API_JOB,
                     .api = a,
                     .served = served,
                     .exchange = exchange,
                     .streaming = a->resumed_stream,
                     .keep = ask->keep};
    api_served_join(a, served);
    link_job(a, job);
    http_set(exchange, job);
    if (!set_tell(a, job, ask, prompts))
        refuse_memory(a, error);
    else if (take_answers(a, job, ask, prompts, error) && check_logs(a, ask, prompts, job, error))
        submit(a, job, ask, prompts, http, error);
    if (!error->status) return;
    api_job_fail(job, error);
    error->status = 0; /* it is told */
}

static bool make_prompts(api *a, api_served *served, api_json *json, const ask_request *ask,
                         api_prompts *prompts, api_error *error) {
    const int64_t before = api_prompt_begin(a);
    const bool fine = api_prompts_make(&served->model, json, ask, prompts, error);
    api_prompt_end(a, served, before);
    return fine;
}

/* The breakers of a request that has its own, in *words, which is to be freed. */
static bool make_breakers(api *a, api_served *served, ask_request *ask, int32_t **words,
                          api_error *error) {
    mnem_dry_breakers *breakers = &ask->sampler.dry_breakers;
    if (ask->breakers < 0 || ask->sampler.dry_multiplier == 0) return true;
    const int32_t capacity = mnem_dry_breakers_size(ask->breaker, ask->breakers);
    *words = api_alloc(&a->memory, (size_t)(capacity + 1) * sizeof **words);
    if (!*words) {
        refuse_memory(a, error);
        return false;
    }
    const int64_t before = api_prompt_begin(a);
    const mnem_status status = mnem_dry_breakers_init(served->model.tokenizer, ask->breaker,
                                                      ask->breakers, *words, capacity, breakers);
    api_prompt_end(a, served, before);
    return status == MNEM_OK ||
           api_refuse(error, 400, "dry_sequence_breakers", "%s", mnem_last_error());
}

/* Adds the biases of texts: each token of a text gets its bias. */
static bool make_biases(api *a, api_served *served, ask_request *ask, api_error *error) {
    const int32_t *ids;
    size_t count;
    bool fine = true;
    for (int32_t i = 0; i < ask->bias_texts && fine; i++) {
        const char *text = ask->bias_text[i].text;
        const int64_t before = api_prompt_begin(a);
        fine = api_model_encode(&served->model, text, strlen(text), MNEM_ENCODE_NO_SPECIAL, &ids,
                                &count, error);
        for (size_t k = 0; fine && k < count; k++)
            fine = ask_add_bias(ask, ids[k], ask->bias_text[i].bias, true, error);
        api_prompt_end(a, served, before);
    }
    return fine;
}

static bool check_text(const api_served *served, api_error *error) {
    if (!served->transformer.encoder) return true;
    return api_refuse(error, 400, "model",
                      "'%.100s' is an embedding model and generates no text: use /v1/embeddings",
                      served->model.name);
}

/* A body's request to a model. */
typedef struct asked {
    ask_request *ask;
    api_prompts prompts;
    int32_t *words; /* its breakers */
} asked;

static bool read_asked(api *a, const api_slot *slot, api_json *json, ask_form form, asked *to,
                       api_error *error) {
    api_served *served = slot->served;
    const api_model *m = &served->model;
    const ask_defaults defaults = {.sampler = served->sampler,
                                   .vocab = m->info.vocab,
                                   .context = m->context,
                                   .truncate = a->options.truncate,
                                   .thinks = m->thinks,
                                   .fills = api_fim_is(&m->fim),
                                   .keeps = api_has_several(a)};
    return ask_read(form, json, &defaults, to->ask, error) &&
           api_adapters_read(a, slot, json->root, &to->ask->adapter_scales, error) &&
           make_breakers(a, served, to->ask, &to->words, error) &&
           make_biases(a, served, to->ask, error) &&
           (to->ask->load || make_prompts(a, served, json, to->ask, &to->prompts, error));
}

/* A client that gets a stream of events may get comments while the model is loaded. */
static bool pick(api *a, const json_t *root, ask_form form, api_call *call, api_slot **slot,
                 api_error *error) {
    call->events = !tell_form_of(form)->lines && json_is_true(json_object_get(root, "stream"));
    return api_pick(a, root, call, slot, error);
}

/* Finds the model of a request that only unloads it: it needn't be loaded. */
static bool find_unloaded(api *a, const json_t *root, ask_request *ask, api_slot **slot,
                          api_error *error) {
    const char *name = NULL;
    return ask_read_keep(root, &ask->keep, error) && api_get_text(root, "model", &name, error) &&
           api_find_named(a, name, slot, error);
}

void api_job_start(api *a, http_exchange *exchange, const http_request *http, ask_form form) {
    api_error error = {0};
    api_json json = {0};
    api_slot *slot = NULL;
    asked it = {.ask = api_alloc(&a->memory, sizeof *it.ask), .prompts.memory = &a->memory};
    api_call call = {exchange, http, false};
    if (!it.ask) refuse_memory(a, &error);
    bool fine = it.ask && api_check_ready(a, &error) &&
                api_json_open(&json, http->body, http->body_bytes, a->options.json_bytes, &error);
    if (fine && api_has_several(a) && ask_is_unload(form, json.root)) {
        it.ask->load = true;
        fine = find_unloaded(a, json.root, it.ask, &slot, &error);
    } else
        fine = fine && pick(a, json.root, form, &call, &slot, &error) &&
               check_text(slot->served, &error) && read_asked(a, slot, &json, form, &it, &error);
    if (fine && it.ask->load)
        api_ollama_loaded(a, exchange, form, &it.ask->keep, slot, &error);
    else if (fine)
        start_job(a, slot->served, exchange, http, it.ask, &it.prompts, &error);
    if (error.status) api_fail(a, exchange, &error, form);
    api_prompts_fini(&it.prompts);
    api_json_close(&json);
    if (it.ask) api_free(&a->memory, it.ask->adapter_scales);
    api_free(&a->memory, it.words);
    api_free(&a->memory, it.ask);
}
