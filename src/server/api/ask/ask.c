/* ask.c: see ask.h. */
#include "server/api/ask/ask_private.h"

typedef bool reader_function(ask_reader *reader);
static reader_function *const readers[ASK_FORMS] = {
    [ASK_CHAT] = ask_read_chat,
    [ASK_TEXT] = ask_read_text,
    [ASK_COMPLETION] = ask_read_completion,
    [ASK_RESPONSES] = ask_read_responses,
    [ASK_MESSAGES] = ask_read_messages,
    [ASK_OLLAMA_CHAT] = ask_read_ollama_chat,
    [ASK_OLLAMA_TEXT] = ask_read_ollama_text,
    [ASK_INFILL] = ask_read_infill,
};

bool ask_read(ask_form form, api_json *json, const ask_defaults *defaults, ask_request *a,
              api_error *error) {
    ask_reader reader = {json->root, defaults, a, error};
    const bool ollama = form == ASK_OLLAMA_CHAT || form == ASK_OLLAMA_TEXT;
    *a = (ask_request){.form = form,
                       .n = 1,
                       .tokens = defaults->tokens,
                       .sampler = defaults->sampler,
                       .breakers = -1,
                       .truncate = defaults->truncate || ollama,
                       .stream = ollama,
                       .counted = defaults->counts,
                       .tools_parallel = true,
                       .slot = -1,
                       .salt = ""};
    const bool chat = form == ASK_CHAT || form == ASK_MESSAGES || form == ASK_OLLAMA_CHAT;
    const bool fine = (!ollama || ask_read_options(&reader)) && ask_read_fields(&reader) &&
                      readers[form](&reader) && (!chat || !a->messages || ask_take_begun(&reader));
    /* What was left out for lack of room looks like something else that is wrong. */
    if (json->full) error->status = 0;
    return api_json_check(json, error) && fine;
}
