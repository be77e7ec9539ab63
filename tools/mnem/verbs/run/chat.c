/* chat.c: a conversation on the terminal that keeps its context.
 *
 * What was said is kept as messages (conversation.h). For each answer all of them are rendered
 * anew, since only the template knows how (rendering.h), and of the sequence stays what the new one
 * begins with: usually all but the last turn, so that no more is evaluated than was said. When the
 * context is full the oldest turns are dropped; the system text stays. */
#include "verbs/run/chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/run/line_editor.h"
#include "verbs/run/rendering.h"

enum {
    USUAL_BYTES = 2048, /* a message that any context's conversation has room for */
    TOKEN_BYTES = 8,    /* more than tokens of text have on average */
    PLAIN_TOKENS = 128, /* of a continuation, when no template says where it ends */
};

typedef struct chat {
    tool_stage *stage;
    tool_generator *g;
    tool_rendering rendering;
    tool_conversation said;
    int32_t fixed_tokens; /* of a rendering before anything is said */
    int32_t answer_at;    /* where the answer begins in the sequence */
    bool has_system, told_full;
    char line[TOOL_CHAT_BYTES]; /* the message, or the system text */
    char system[TOOL_CHAT_BYTES];
    int interrupts; /* Ctrl-C at the prompt, one after another */
} chat;

/* ---- the sequence ---- */

/* Said once what would help, where something does. */
static void say_dropped(chat *c, int turns, size_t read_again) {
    const int32_t context = c->stage->plan.context;
    if (!c->g->newline && isatty(STDOUT_FILENO)) fputc('\n', stderr);
    tool_message("the context of %d tokens is full: dropped the oldest %d turn%s, reading %zu "
                 "token%s again",
                 context, turns, tool_s((uint64_t)turns), read_again, tool_s(read_again));
    if (!c->told_full && context < c->stage->transformer.context)
        tool_message("a longer conversation fits with a larger --ctx (the model has %d)",
                     c->stage->transformer.context);
    c->told_full = true;
}

/* Renders what was said in place of the sequence's first `until` tokens, without the `drop` oldest
 * turns, and without more of them where there is no room: for a quarter of the context to answer
 * in, or at the least a token. */
static mnem_status lay(chat *c, int32_t until, int drop, bool *fits) {
    const int32_t *ids;
    size_t n = 0;
    const int64_t tail = c->g->count - until, context = c->stage->plan.context;
    if (drop) tool_conversation_drop(&c->said, drop);
    for (;; drop++) {
        const mnem_status status = tool_rendering_encode(&c->rendering, &c->said, &ids, &n);
        const bool last = c->said.turns == 1, too_large = status == MNEM_OVER_BUDGET;
        if (status != MNEM_OK && (!too_large || last)) return status;
        const int64_t room = too_large ? -1 : context - tail - (int64_t)n;
        if (room >= context / 4 || last) {
            *fits = n > 0 && room >= 1 && tool_generator_replace(c->g, until, ids, n);
            break;
        }
        tool_conversation_drop(&c->said, 1);
    }
    if (drop && *fits) say_dropped(c, drop, n);
    c->answer_at = (int32_t)n;
    return MNEM_OK;
}

/* The context is full in the middle of an answer. */
static bool on_full(void *context) {
    chat *c = context;
    bool fits = false;
    return c->said.turns > 1 && lay(c, c->answer_at, 1, &fits) == MNEM_OK && fits;
}

static void on_text(void *context, const char *text, size_t length) {
    chat *c = context;
    tool_conversation_answer(&c->said, text, length);
}

/* Forgets what was said, but for the system text, and finds out what that takes. */
static int begin(chat *c) {
    tool_conversation *said = &c->said;
    const int32_t *ids;
    size_t n = 0;
    const char *first = said->bare ? "" : "Hi";
    c->g->count = 0;
    mnem_session_truncate(c->stage->session, 0);
    tool_conversation_clear(said);
    bool room = !c->has_system || tool_conversation_system(said, c->system);
    room = room && tool_conversation_user(said, first, strlen(first));
    if (room) {
        const mnem_status status = tool_rendering_encode(&c->rendering, said, &ids, &n);
        if (status != MNEM_OK) return tool_rendering_fail(&c->rendering, status);
        tool_conversation_take_back(said);
    }
    c->fixed_tokens = (int32_t)n;
    if (room && c->fixed_tokens < c->stage->plan.context) return TOOL_OK;
    return tool_failed("the system text is %zu token%s; the context has room for %d", n, tool_s(n),
                       c->stage->plan.context - 1);
}

/* ---- turns ---- */

static int32_t answer_limit(const chat *c) {
    int32_t context = c->stage->plan.context;
    if (c->g->asked->tokens) return c->g->asked->tokens;
    if (c->g->answers) return INT32_MAX;
    return context / 4 < PLAIN_TOKENS ? context / 4 + 1 : PLAIN_TOKENS;
}

static void end_answer(chat *c, tool_end end, uint64_t before) {
    if (!c->g->newline) {
        tool_out("\n", 1);
        c->g->newline = true;
    }
    tool_out_flush();
    tool_generator_say_empty(c->g, end, before);
    if (end == TOOL_END_CONTEXT)
        tool_message("stopped: this answer fills the context of %d tokens", c->stage->plan.context);
    if (end == TOOL_END_LIMIT && c->g->answers)
        tool_message("stopped after %d token%s (-n)", answer_limit(c),
                     tool_s((uint64_t)answer_limit(c)));
}

/* What the user stopped before it had an answer is as if it hadn't been said. */
static int answer(chat *c) {
    const uint64_t before = c->g->text_bytes, tokens = c->g->tokens;
    tool_interrupt_watch(c->stage->session);
    tool_end end = tool_generate(c->g, answer_limit(c));
    tool_interrupt_watch(NULL);
    if (tool_interrupt_ends()) return TOOL_INTERRUPTED;
    tool_interrupt_clear();
    if (end == TOOL_END_FAILED) return tool_fail(c->g->status);
    tool_conversation_end(&c->said);
    if (end == TOOL_END_INTERRUPTED && c->g->tokens == tokens)
        tool_conversation_take_back(&c->said);
    end_answer(c, end, before);
    return TOOL_OK;
}

/* A message that can't fit is refused before any turn is dropped for it. */
static bool fits_alone(chat *c, const char *text, size_t length) {
    const int32_t *ids, room = c->stage->plan.context - c->fixed_tokens - 1;
    size_t n;
    const mnem_status status =
        mnem_tokenizer_encode(c->stage->tokenizer, text, length, MNEM_ENCODE_NO_SPECIAL, &ids, &n);
    if (status != MNEM_OK)
        tool_fail(status);
    else if (n > (size_t)(room > 0 ? room : 0))
        tool_message("that is %zu token%s; the context has room for %d", n, tool_s(n), room);
    else
        return true;
    return false;
}

static bool say(chat *c, const char *text, size_t length) {
    tool_conversation *said = &c->said;
    if (said->turns == TOOL_TURNS_MAX) tool_conversation_drop(said, said->turns / 2);
    while (!tool_conversation_user(said, text, length)) {
        if (said->turns == 0) {
            tool_message("that is %zu bytes: too many for a context of %d tokens", length,
                         c->stage->plan.context);
            return false;
        }
        tool_conversation_drop(said, 1);
    }
    return true;
}

/* Exit code when the chat can't go on, otherwise TOOL_OK. */
static int talk(chat *c) {
    const size_t length = strlen(c->line);
    bool fits = false;
    if (!fits_alone(c, c->line, length) || !say(c, c->line, length)) return TOOL_OK;
    const mnem_status status = lay(c, c->g->count, 0, &fits);
    if (status == MNEM_OK && fits) return answer(c);
    tool_conversation_take_back(&c->said);
    if (status != MNEM_OK)
        tool_rendering_fail(&c->rendering, status);
    else
        tool_message("that is too long for a context of %d tokens", c->stage->plan.context);
    return TOOL_OK;
}

/* ---- commands ---- */

static void command_help(void) {
    fputs("  /help           this\n"
          "  /system TEXT    new instructions, without TEXT none; begins again\n"
          "  /reset          begin the conversation again\n"
          "  /stats          context, speed and the ledger\n"
          "  /quit           leave (or Ctrl-D)\n"
          "  A line that ends with \\ goes on in the next. Ctrl-C stops an answer.\n",
          stderr);
}

static void command_stats(chat *c) {
    tool_report_ledger(stderr, c->stage);
    tool_generator_report(stderr, c->g);
    fprintf(stderr, "context: %d of %d tokens, %d turn%s\n", c->g->count, c->stage->plan.context,
            c->said.turns, tool_s((uint64_t)c->said.turns));
}

static int command_system(chat *c, const char *text) {
    char before[TOOL_CHAT_BYTES];
    const bool had_system = c->has_system;
    text += strspn(text, " ");
    memcpy(before, c->system, sizeof before);
    snprintf(c->system, sizeof c->system, "%s", text);
    c->has_system = *text != 0;
    if (begin(c) == TOOL_OK) return TOOL_OK;
    memcpy(c->system, before, sizeof before);
    c->has_system = had_system;
    return begin(c);
}

/* *quit is set by /quit. */
static int command(chat *c, bool *quit) {
    size_t n = strcspn(c->line, " ");
    const char *rest = c->line + n;
    if (strncmp(c->line, "/help", n) == 0)
        command_help();
    else if (strncmp(c->line, "/quit", n) == 0 || strcmp(c->line, "/exit") == 0)
        *quit = true;
    else if (strncmp(c->line, "/stats", n) == 0)
        command_stats(c);
    else if (strncmp(c->line, "/reset", n) == 0)
        return begin(c);
    else if (strncmp(c->line, "/system", n) == 0)
        return command_system(c, rest);
    else
        fprintf(stderr, "No command %.*s; /help lists them.\n", (int)n, c->line);
    return TOOL_OK;
}

/* Ctrl-C at the prompt: the second one in a row leaves. Other signals leave at once. */
static bool interrupted(chat *c) {
    if (tool_interrupt_ends()) return true;
    tool_interrupt_clear();
    fputs("^C\n", stderr);
    if (++c->interrupts == 1) fputs("(again, or /quit, to leave)\n", stderr);
    return c->interrupts > 1;
}

static int conversation(chat *c) {
    int code = begin(c);
    for (bool quit = false; code == TOOL_OK && !quit;) {
        const tool_input in = tool_editor_read(c->line, sizeof c->line);
        if (in == TOOL_INPUT_INTERRUPTED) {
            if (interrupted(c)) return TOOL_INTERRUPTED;
            continue;
        }
        c->interrupts = 0;
        if (in == TOOL_INPUT_END) {
            fputc('\n', stderr);
            quit = true;
        } else if (in == TOOL_INPUT_LONG) {
            tool_message("a message may have %d bytes; a longer one fits in a file (--file)",
                         TOOL_CHAT_BYTES - 2);
        } else if (c->line[0] == '/')
            code = command(c, &quit);
        else if (c->line[strspn(c->line, " \n")])
            code = talk(c);
    }
    return code;
}

/* ---- the way in ---- */

static void banner(const chat *c) {
    const char *source = c->rendering.source;
    fputc('\n', stderr);
    if (!c->g->answers)
        fprintf(stderr, "%s: it continues what you type.\n",
                c->g->asked->raw ? "A chat without a template (--raw)"
                                 : "The model has no chat template");
    else
        fprintf(stderr, "Chat by %s.\n", source);
    fputs("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves. When the\n"
          "context is full the oldest turns are dropped; --system text stays.\n\n",
          stderr);
}

/* What the talk will take, before the plan: the ids of the sequence, the messages, a rendering of
 * as many as there may be, and the editor's bytes. */
static int reserve(chat *c, const run_options *asked) {
    tool_stage *stage = c->stage;
    int32_t most = stage->asked->context;
    if (!most) {
        most = stage->transformer.context;
        if (most > TOOL_USUAL_CONTEXT) most = TOOL_USUAL_CONTEXT;
    }
    const size_t room = (size_t)most * TOKEN_BYTES + USUAL_BYTES;
    int code = tool_generator_open(stage, asked, most, c->g);
    if (code == TOOL_OK)
        code = tool_conversation_open(stage->ledger, room, !c->rendering.template, &c->said);
    if (code == TOOL_OK)
        code = tool_rendering_try(&c->rendering, &c->said, c->has_system ? c->system : NULL,
                                  &c->g->end);
    if (code == TOOL_OK) code = tool_rendering_reserve(&c->rendering, &c->said);
    if (code != TOOL_OK) return code;
    c->g->on_full = on_full;
    c->g->on_text = on_text;
    c->g->context = c;
    c->g->answers = c->rendering.template != NULL;
    const mnem_status status =
        mnem_ledger_charge(stage->ledger, MNEM_KIND_HOST, "editor", TOOL_EDITOR_BYTES);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int plan_and_talk(chat *c) {
    tool_stage *stage = c->stage;
    int code = tool_stage_plan(stage);
    if (code != TOOL_OK) return code;
    tool_report_start(stage);
    if ((code = tool_stage_create(stage)) != TOOL_OK) return code;
    tool_interrupt_watch(NULL); /* cancels nothing at the prompt */
    banner(c);
    code = conversation(c);
    if (stage->args->quiet) return code;
    tool_report_ledger(stderr, stage);
    tool_generator_report(stderr, c->g);
    return code;
}

int tool_chat(tool_stage *stage, const run_options *asked, tool_generator *g) {
    static chat c;
    c.stage = stage;
    c.g = g;
    if (!tool_editor_works())
        return tool_failed("the terminal can't be used for a chat; give a prompt (-p)");
    if ((c.has_system = asked->system != NULL))
        snprintf(c.system, sizeof c.system, "%s", asked->system);
    int code = tool_rendering_open(stage, asked, true, &c.rendering);
    if (code == TOOL_OK && (code = reserve(&c, asked)) == TOOL_OK) {
        code = plan_and_talk(&c);
        mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "editor", TOOL_EDITOR_BYTES);
    }
    tool_conversation_close(&c.said);
    tool_rendering_close(&c.rendering);
    return code;
}
