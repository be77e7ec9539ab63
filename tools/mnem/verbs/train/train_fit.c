/* train_fit.c: chooses windows that fit the text, and reports what doesn't fit.
 *
 * Where no context is given, a short text gets a shorter one, halved until training and held-out
 * text have a window each; conversations get the length of the longest, up to the usual one. One
 * conversation is one sequence: none sees another, and the rest of a sequence is padding. */
#include <math.h>

#include "verbs/train/train_tool.h"

enum { CONTEXT_LEAST = 32, CONTEXT_STEP = 16 };

/* A text of so many tokens does: one sequence to train on, and a held-out part that has one. */
static uint64_t needed_tokens(const train_config *c) {
    if (c->heldout <= 0) return (uint64_t)c->context + 1;
    const double held = ceil((c->context + 1) / c->heldout);
    return (uint64_t)fmax(held, ceil(2.0 * c->context / (1 - c->heldout)));
}

static int fail_text(const train_run *run, mnem_status status) {
    const train_config *c = &run->config;
    const mnem_corpus_info *i = &run->corpus_info;
    char size[TOOL_TEXT];
    if (status != MNEM_INVALID) return tool_fail(status);
    return tool_failed(
        "the text is too short: it has %llu token%s (%s), but --ctx %d with --heldout "
        "%g needs %llu; give more text, or a smaller --ctx%s",
        (unsigned long long)i->tokens, tool_s(i->tokens), tool_size(i->text_bytes, size),
        c->context, c->heldout, (unsigned long long)needed_tokens(c),
        c->heldout > 0 ? ", or --heldout 0, which needs one token more than --ctx" : "");
}

static int fit_text(train_run *run) {
    train_config *c = &run->config;
    const int32_t usual = c->context;
    mnem_status status;
    for (;;) {
        status = mnem_windows_split(run->corpus_info.tokens, (uint32_t)c->context, c->heldout,
                                    c->seed, &run->training, &run->validation);
        const bool shorter = run->context_open && c->context / 2 >= CONTEXT_LEAST;
        if (status == MNEM_OK || !shorter) break;
        c->context /= 2;
    }
    if (status != MNEM_OK) return fail_text(run, status);
    if (c->context != usual && !run->args->quiet)
        tool_message("the sequences have %d tokens instead of the usual %d, because the text has "
                     "only %llu (--ctx sets the length, --heldout the share kept for the test)",
                     c->context, usual, (unsigned long long)run->corpus_info.tokens);
    return TOOL_OK;
}

/* Training reads one token less than a conversation has: the last is only predicted. */
static void fit_context(train_run *run) {
    train_config *c = &run->config;
    const uint64_t most = run->corpus_info.row_most - 1;
    const uint64_t wanted = (most + CONTEXT_STEP - 1) / CONTEXT_STEP * CONTEXT_STEP;
    if (run->context_open && wanted < (uint64_t)c->context) c->context = (int32_t)wanted;
}

static void say_cut(const train_run *run, const mnem_corpus_fit *fit) {
    const mnem_corpus_info *i = &run->corpus_info;
    if (!fit->cut || run->args->quiet) return;
    tool_message("%llu of %llu conversations have more than %d tokens and are cut at that length, "
                 "%llu of them before any answer; with --ctx %llu all of them fit",
                 (unsigned long long)fit->cut, (unsigned long long)i->rows, run->config.context,
                 (unsigned long long)fit->silent, (unsigned long long)i->row_most - 1);
}

static int fit_chats(train_run *run) {
    train_config *c = &run->config;
    mnem_corpus_fit fit;
    fit_context(run);
    mnem_status status =
        mnem_windows_split_rows(run->corpus_info.rows, (uint32_t)c->context, c->heldout, c->seed,
                                &run->training, &run->validation);
    if (status != MNEM_OK)
        return tool_fail_with(status,
                              "; --heldout 0 keeps no text for the test and trains on all of it");
    status = mnem_corpus_rows_fit(run->corpus, (uint32_t)c->context, &fit);
    if (status != MNEM_OK) return tool_fail(status);
    if (fit.counted == 0)
        return tool_failed("no answer begins within the first %d tokens of its conversation: use a "
                           "larger --ctx (the longest conversation has %llu tokens)",
                           c->context, (unsigned long long)run->corpus_info.row_most);
    if (run->chat.unanswered && !run->args->quiet)
        tool_message("%llu of %llu conversations have no answer (role \"assistant\") and are left "
                     "out; the first one: %s",
                     (unsigned long long)run->chat.unanswered,
                     (unsigned long long)run->chat.conversations, run->chat.first_unanswered);
    say_cut(run, &fit);
    run->chat_counted = fit.counted;
    run->chat_tokens = fit.tokens;
    return TOOL_OK;
}

int train_fit(train_run *run) {
    const int code = train_is_chat(run) ? fit_chats(run) : fit_text(run);
    if (code != TOOL_OK || run->asked->resume) return code;
    run->config.windows = (int64_t)run->training.count;
    run->config.warmup = run->warmup;
    return train_config_length(run->asked, &run->config);
}
