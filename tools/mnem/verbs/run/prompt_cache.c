/* prompt_cache.c: a text's first tokens from a file, and into it.
 *
 * Idea: the file is a saved sequence (mnem/saved.h), which knows its model and its tokens. What of
 * them the text begins with is loaded, a page at a time; the rest is evaluated as ever.
 * Invariant: the text is the one without a file, whatever that holds; the file is what it was, or
 * whole. Cost: no memory; the pages once through the disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mnem/saved.h"
#include "output_file.h"
#include "verbs/run/prompt_cache.h"

static bool talks(const tool_generator *g) {
    return !g->stage->args->quiet && !g->stage->args->json;
}

/* Why the file can't be used; it is replaced then. */
static void refused(const tool_generator *g, const char *why) {
    const run_options *asked = g->asked;
    tool_message(asked->prompt_cache_ro ? "prompt cache %s is not used: %s (a run without "
                                          "--prompt-cache-ro makes it again)"
                                        : "prompt cache %s is not used and will be overwritten: %s",
                 asked->prompt_cache, why);
}

/* Tokens that the session gets from the file. */
static int32_t load(tool_generator *g, const mnem_saved *saved) {
    const run_options *asked = g->asked;
    mnem_sequence *sequence = mnem_session_sequence(g->stage->session);
    int32_t common;
    mnem_status status = mnem_saved_common(saved, g->ids, g->count, &common);
    const int32_t n = common < g->count ? common : g->count - 1;
    if (status == MNEM_OK && n > 0) status = mnem_sequence_load(sequence, saved, n);
    if (status != MNEM_OK) {
        refused(g, mnem_last_error());
        return 0;
    }
    if (common == g->count && saved->length == g->count) g->cache.saved = true;
    if (talks(g) && n == 0)
        tool_message("prompt cache %s is not used, because its saved text differs from this prompt",
                     asked->prompt_cache);
    else if (talks(g))
        tool_message(
            "prompt cache %s: %d of %d prompt tokens were found in it and need no processing",
            asked->prompt_cache, n, g->count);
    return n;
}

void tool_prompt_cache_load(tool_generator *g) {
    const char *path = g->asked->prompt_cache;
    mnem_saved saved;
    if (!path || g->cache.looked) return;
    g->cache.looked = true;
    g->cache.saved = g->asked->prompt_cache_ro;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno != ENOENT || g->asked->prompt_cache_ro) refused(g, strerror(errno));
        return;
    }
    if (mnem_saved_open(mnem_session_engine(g->stage->session), fd, 0, &saved) != MNEM_OK)
        refused(g, mnem_last_error());
    else if (saved.from == 0)
        g->cache.tokens = load(g, &saved);
    else
        refused(g, "the saved text differs from this prompt");
    close(fd);
    for (int32_t i = 0; i < g->cache.tokens; i++) {
        mnem_sampler_accept(g->sampler, g->ids[i]);
        if (g->draft) mnem_draft_accept(g->draft, g->ids[i]);
    }
}

void tool_prompt_cache_save(tool_generator *g) {
    const char *path = g->asked->prompt_cache;
    char size[TOOL_TEXT];
    tool_new file;
    if (!path || g->cache.saved || mnem_session_length(g->stage->session) == 0) return;
    const mnem_sequence *sequence = mnem_session_sequence(g->stage->session);
    const uint64_t bytes = mnem_sequence_save_bytes(sequence, 0);
    g->cache.saved = true;
    if (tool_new_open(&file, path) != TOOL_OK) return;
    const mnem_status status = mnem_sequence_save(sequence, g->ids, 0, fileno(file.file), 0);
    if (status != MNEM_OK) {
        tool_message("can't write the prompt cache %s: %s", path, mnem_last_error());
        tool_new_drop(&file);
    } else if (tool_new_end(&file) == TOOL_OK && talks(g)) {
        tool_message("prompt cache: %d tokens saved (%s) in %s for the next run",
                     mnem_sequence_length(sequence), tool_size(bytes, size), path);
    }
}
