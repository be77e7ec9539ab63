/* ask_ollama.c: POST /api/chat and /api/generate, Ollama's: a chat as /v1/chat/completions has it,
 * with settings below `options`; or one turn, whose prompt the template makes a chat of unless it
 * is raw. A chat without messages, or a turn without a prompt, asks for the model to be loaded, or
 * unloaded. */
#include <stdio.h>
#include <string.h>

#include "server/api/ask/ask_private.h"

/* ---- options ---- */

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

/* How Ollama runs a model: nothing of these changes an answer. */
static const char *const of_runner[] = {"num_keep",
                                        "num_batch",
                                        "draft_num_predict",
                                        "num_gpu",
                                        "main_gpu",
                                        "num_thread",
                                        "use_mmap",
                                        "use_mlock",
                                        "low_vram",
                                        "vocab_only",
                                        "f16_kv",
                                        "logits_all",
                                        "mirostat_tau",
                                        "mirostat_eta",
                                        "numa",
                                        "num_gqa",
                                        "rope_frequency_base",
                                        "rope_frequency_scale",
                                        "embedding_only",
                                        NULL};

/* Those that are fields of all requests, under the same name. */
static const char *const of_sampler[] = {"temperature",
                                         "top_p",
                                         "min_p",
                                         "top_k",
                                         "seed",
                                         "repeat_penalty",
                                         "repeat_last_n",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "stop",
                                         "num_predict",
                                         "typical_p",
                                         "tfs_z",
                                         "mirostat",
                                         NULL};

/* More than this server has is said; less is more than enough. */
static bool read_context(ask_reader *r, const json_t *options) {
    int64_t context = 0;
    if (!api_get_whole(options, "num_ctx", 0, INT32_MAX, &context, r->error)) return false;
    if (context > r->defaults->context) ask_ignore(r, "num_ctx");
    return true;
}

/* -1 is all of the context, in both; of num_predict so is everything below, and 0. */
static json_t *value_of(const ask_reader *r, const char *name, json_t *value) {
    const bool whole = json_is_integer(value);
    if (whole && strcmp(name, "num_predict") == 0 && json_integer_value(value) <= 0)
        return json_integer(-1);
    if (whole && strcmp(name, "repeat_last_n") == 0 && json_integer_value(value) == -1)
        return json_integer(r->defaults->context);
    return json_incref(value);
}

bool ask_read_options(ask_reader *r) {
    json_t *options = api_get(r->root, "options"), *value;
    const char *name;
    if (!options) return true;
    if (!json_is_object(options))
        return api_refuse(r->error, 400, "options", "'options' must be an object");
    json_object_foreach(options, name, value) {
        if (is_one_of(name, of_sampler))
            json_object_set_new(r->root, name, value_of(r, name, value));
        else if (strcmp(name, "num_ctx") != 0 && !is_one_of(name, of_runner))
            ask_ignore(r, name);
    }
    return read_context(r, options);
}

/* ---- what both have ---- */

/* true, false, or how much of it. */
static bool read_think(ask_reader *r) {
    static const char *const efforts[] = {"low", "medium", "high", "max", NULL};
    const json_t *think = api_get(r->root, "think");
    const char *effort = json_string_value(think);
    if (!think) return true;
    if (!json_is_boolean(think) && !(effort && is_one_of(effort, efforts)))
        return api_refuse(r->error, 400, "think",
                          "'think' must be true, false, low, medium or high");
    const bool thinks = effort || json_is_true(think);
    if (thinks && !r->defaults->thinks)
        return api_refuse(r->error, 400, "think",
                          "the chat template of this model does not support thinking: leave out "
                          "'think', or set it to false");
    ask_set_argument(r, "enable_thinking", json_boolean(thinks));
    if (effort) ask_set_argument(r, "reasoning_effort", json_string(effort));
    return true;
}

static bool read_logprobs(ask_reader *r) {
    int64_t top = 0;
    if (!api_get_bool(r->root, "logprobs", &r->ask->logprobs, r->error) ||
        !api_get_whole(r->root, "top_logprobs", 0, MNEM_TOP_LOGPROBS, &top, r->error))
        return false;
    r->ask->top = r->ask->logprobs ? (int32_t)top : 0;
    return true;
}

static bool read_both(ask_reader *r) {
    r->ask->n = 1;
    if (!ask_read_keep(r->root, &r->ask->keep, r->error) ||
        !api_get_bool(r->root, "truncate", &r->ask->truncate, r->error))
        return false;
    if (!r->defaults->keeps && !r->ask->load && r->ask->keep.said && r->ask->keep.seconds == 0)
        ask_ignore(r, "keep_alive");
    return r->ask->load ||
           (ask_read_tokens(r, "num_predict") && ask_read_stop(r, "stop") && ask_read_limit(r) &&
            read_logprobs(r) && ask_read_arguments(r) && read_think(r));
}

/* ---- /api/chat ---- */

/* What Ollama has beside the members of other protocols' messages; content may be absent. */
static bool read_message(ask_reader *r, json_t *message, size_t index) {
    json_t *tool = api_get(message, "tool_name");
    char param[96];
    snprintf(param, sizeof param, "messages[%zu].images", index);
    if (ask_is_asked_for(api_get(message, "images")))
        return api_refuse(r->error, 400, param,
                          "'%s' has images, which this server does not support: send text only",
                          param);
    if (json_is_string(tool) && !api_get(message, "name")) json_object_set(message, "name", tool);
    if (json_is_object(message) && !api_get(message, "content"))
        json_object_set_new(message, "content", json_string(""));
    return true;
}

bool ask_read_ollama_chat(ask_reader *r) {
    json_t *messages = api_get(r->root, "messages"), *message;
    size_t i;
    r->ask->load = !messages || (json_is_array(messages) && json_array_size(messages) == 0);
    if (r->ask->load) return read_both(r);
    json_array_foreach(messages, i, message) {
        if (!read_message(r, message, i)) return false;
    }
    r->ask->messages = ask_make_messages(r, messages);
    return r->ask->messages && read_both(r) && ask_read_tools(r, false) && ask_read_choice(r);
}

/* ---- /api/generate ---- */

static void add_turn(ask_reader *r, const char *role, const char *text) {
    json_array_append_new(r->ask->messages, json_pack("{s:s, s:s}", "role", role, "content", text));
}

bool ask_read_ollama_text(ask_reader *r) {
    const char *prompt = "", *system = "", *suffix = "";
    bool raw = false;
    if (!api_get_text(r->root, "prompt", &prompt, r->error) ||
        !api_get_text(r->root, "system", &system, r->error) ||
        !api_get_bool(r->root, "raw", &raw, r->error))
        return false;
    r->ask->load = !*prompt;
    if (r->ask->load) return read_both(r);
    if (!ask_read_suffix(r, &suffix)) return false;
    if (*suffix) return read_both(r);
    if (raw)
        r->ask->prompt = api_get(r->root, "prompt");
    else {
        r->ask->messages = json_array();
        if (*system) add_turn(r, "system", system);
        add_turn(r, "user", prompt);
    }
    return read_both(r);
}
