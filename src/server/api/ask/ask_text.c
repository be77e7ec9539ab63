/* ask_text.c: POST /v1/completions, and /completion, llama.cpp's own. */
#include "server/api/ask/ask_private.h"

/* A list with an id is one prompt; any other one has as many as elements. */
bool ask_is_one_prompt(const json_t *prompt) {
    const json_t *part;
    size_t i;
    if (!json_is_array(prompt)) return true;
    json_array_foreach(prompt, i, part) {
        if (json_is_integer(part)) return true;
    }
    return false;
}

const json_t *ask_get_text(const json_t *part) {
    const json_t *media = api_get(part, "multimodal_data");
    if (!json_is_object(part) || ask_is_asked_for(media)) return part;
    return api_get(part, "prompt_string");
}

static bool read_prompt(ask_reader *r) {
    json_t *prompt = api_get(r->root, "prompt");
    const bool list = json_is_array(prompt);
    if (!prompt || !(json_is_string(prompt) || list || json_is_string(ask_get_text(prompt))))
        return api_refuse(r->error, 400, "prompt",
                          "'prompt' must be a string, a list of token ids, a list of strings, or a "
                          "list of lists of token ids");
    if (list && json_array_size(prompt) == 0)
        return api_refuse(r->error, 400, "prompt",
                          "'prompt' is an empty list: send at least one prompt");
    const size_t prompts = ask_is_one_prompt(prompt) ? 1 : json_array_size(prompt);
    if (prompts > ASK_CHOICES / (size_t)r->ask->n)
        return api_refuse(r->error, 400, "prompt",
                          "the request asks for too many answers (prompts times 'n'), expected at "
                          "most %d: send fewer prompts, or a smaller 'n'",
                          ASK_CHOICES);
    r->ask->prompt = prompt;
    return true;
}

bool ask_read_text(ask_reader *r) {
    const char *suffix;
    int64_t top = -1, best = r->ask->n;
    if (!api_get_whole(r->root, "logprobs", 0, MNEM_TOP_LOGPROBS, &top, r->error) ||
        !api_get_bool(r->root, "echo", &r->ask->echo, r->error) ||
        !api_get_whole(r->root, "best_of", 1, ASK_CHOICES, &best, r->error))
        return false;
    if (best != r->ask->n)
        return api_refuse(r->error, 400, "best_of",
                          "'best_of' is %d, but 'n' is %d, which is not supported: set both to the "
                          "same number, or leave out 'best_of'",
                          (int)best, (int)r->ask->n);
    r->ask->logprobs = top >= 0;
    r->ask->top = top > 0 ? (int32_t)top : 0;
    return read_prompt(r) && ask_read_suffix(r, &suffix) && ask_read_tokens(r, "max_tokens") &&
           ask_read_stop(r, "stop") && ask_read_limit(r);
}

bool ask_read_flat(ask_reader *r) {
    int64_t top = 0;
    if (!ask_read_tokens(r, "n_predict") ||
        !api_get_whole(r->root, "n_probs", 0, MNEM_TOP_LOGPROBS, &top, r->error))
        return false;
    r->ask->logprobs = top > 0;
    r->ask->top = (int32_t)top;
    if (!api_get_bool(r->root, "return_tokens", &r->ask->lists_ids, r->error)) return false;
    r->ask->lists_ids = r->ask->lists_ids || r->ask->stream;
    return ask_read_tokens(r, "max_tokens") && ask_read_stop(r, "stop") && ask_read_limit(r);
}

bool ask_read_completion(ask_reader *r) {
    static const char *const refused[] = {"input_prefix", "input_suffix", NULL};
    return read_prompt(r) && ask_refuse_known(r, refused) && ask_read_flat(r);
}
