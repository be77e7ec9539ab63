/* ask_text.c: POST /v1/completions, and /completion, llama.cpp's own. */
#include "server/api/ask/ask_private.h"

/* A list of texts, or of lists of ids, is that many prompts; a list of ids is one. */
static bool is_list_of_prompts(const json_t *prompt) {
    const json_t *first = json_array_get(prompt, 0);
    return json_is_string(first) || json_is_array(first);
}

static bool read_prompt(ask_reader *r) {
    json_t *prompt = api_get(r->root, "prompt");
    const bool list = json_is_array(prompt);
    if (!prompt || !(json_is_string(prompt) || list))
        return api_refuse(r->error, 400, "prompt",
                          "'prompt' must be a string, a list of token ids, a list of strings, or a "
                          "list of lists of token ids");
    if (list && json_array_size(prompt) == 0)
        return api_refuse(r->error, 400, "prompt",
                          "'prompt' is an empty list: send at least one prompt");
    const size_t prompts = list && is_list_of_prompts(prompt) ? json_array_size(prompt) : 1;
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
    return ask_read_tokens(r, "max_tokens") && ask_read_stop(r, "stop") && ask_read_limit(r);
}

bool ask_read_completion(ask_reader *r) {
    static const char *const refused[] = {"input_prefix", "input_suffix", NULL};
    return read_prompt(r) && ask_refuse_known(r, refused) && ask_read_flat(r);
}
