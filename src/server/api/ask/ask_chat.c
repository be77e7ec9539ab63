/* ask_chat.c: POST /v1/chat/completions. */
#include "server/api/ask/ask_private.h"

static bool read_logprobs(ask_reader *r) {
    int64_t top = 0;
    if (!api_get_bool(r->root, "logprobs", &r->ask->logprobs, r->error) ||
        !api_get_whole(r->root, "top_logprobs", 0, MNEM_TOP_LOGPROBS, &top, r->error))
        return false;
    if (top && !r->ask->logprobs)
        return api_refuse(r->error, 400, "top_logprobs",
                          "'top_logprobs' is set, but 'logprobs' is not true: set it to true, or "
                          "leave out 'top_logprobs'");
    r->ask->top = (int32_t)top;
    return true;
}

bool ask_read_chat(ask_reader *r) {
    static const char *const refused[] = {"functions", "function_call", "audio",
                                          "web_search_options", NULL};
    r->ask->messages = ask_make_messages(r, json_object_get(r->root, "messages"));
    return r->ask->messages && ask_refuse_known(r, refused) && ask_read_tokens(r, "max_tokens") &&
           ask_read_tokens(r, "max_completion_tokens") && ask_read_stop(r, "stop") &&
           ask_read_limit(r) && ask_read_tools(r, false) && ask_read_choice(r) &&
           read_logprobs(r) && ask_read_arguments(r) &&
           api_get_bool(r->root, "verbose", &r->ask->verbose, r->error);
}
