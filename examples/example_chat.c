/* example_chat.c: a conversation inside a budget, through the public interface alone.
 *
 *     example_chat model.gguf 64M "Who was Moses?" "And his brother?"
 */
#include <stdio.h>

#include "mnem/mnem.h"

static bool print(void *context, const char *text, size_t bytes) {
    (void)context;
    return fwrite(text, 1, bytes, stdout) == bytes;
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "example_chat MODEL BUDGET MESSAGE...\n"), 2;
    mnem_chat_options options = {.tokens = 64, .sampler = &(mnem_sampler_options){0}};
    mnem_chat *chat = NULL;
    mnem_chat_info info;

    // What doesn't fit is refused before a weight is read, with the least that would do.
    mnem_status status = mnem_size_parse(argv[2], &options.budget_bytes);
    if (status == MNEM_OK) status = mnem_chat_open(argv[1], &options, &chat, NULL);
    for (int i = 3; i < argc && status == MNEM_OK; i++) {
        printf("> %s\n", argv[i]);
        if ((status = mnem_chat_say(chat, argv[i], print, NULL)) != MNEM_OK) break;
        mnem_chat_info_get(chat, &info);
        printf("\n(%d tokens, %d of the prompt's %d kept)\n", info.tokens, info.kept_tokens,
               info.prompt_tokens);
    }
    if (status != MNEM_OK) fprintf(stderr, "example_chat: %s\n", mnem_last_error());
    mnem_chat_close(chat);
    return status == MNEM_OK ? 0 : status == MNEM_OVER_BUDGET ? 3 : 1;
}
