/* chat.c: a conversation on the terminal that keeps its context.
 *
 * What was said is kept as messages (conversation.h). For each answer all of them are rendered
 * anew, since only the template knows how (rendering.h), and of the sequence stays what the new one
 * begins with: usually all but the last turn, so that no more is evaluated than was said. When the
 * context is full the oldest turns are dropped, of the last answer its beginning; the system text
 * stays. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/chat/chat_parts.h"
#include "verbs/run/prompt_cache.h"

enum {
    USUAL_BYTES = 2048, /* a message that any context's conversation has room for */
    TOKEN_BYTES = 8,    /* more than tokens of text have on average */
};

/* ---- answers on the terminal ---- */

static void put_out(void *context, const char *text, size_t length) {
    (void)context;
    tool_out(text, length);
}

/* What standard output gets is drawn where it is a terminal, and else the text as it is. */
static void open_drawing(chat *c, const run_options *asked) {
    c->draws = isatty(STDOUT_FILENO);
    c->g->mute = c->draws;
    c->drawn = (markdown){.wrap.out = put_out};
    c->drawn.markup = c->g->answers && !asked->plain && tool_has_colours(stdout);
}

static void on_text(void *context, const char *text, size_t length) {
    chat *c = context;
    tool_conversation_answer(&c->said, text, length);
    if (!c->draws) return;
    c->drawn.wrap.columns = c->g->asked->plain ? 0 : tool_columns(stdout);
    markdown_write(&c->drawn, text, length);
    tool_out_flush();
}

static void end_drawing(chat *c) {
    if (!c->draws) return;
    markdown_end(&c->drawn);
    tool_out_flush();
    c->g->newline = c->drawn.wrap.column == 0;
    c->drawn.wrap.column = 0;
}

/* A message comes between, and the answer goes on behind it. */
static void end_line(chat *c) {
    markdown_pause(&c->drawn);
    if (c->drawn.wrap.column) tool_out("\n", 1);
    c->drawn.wrap.column = 0;
    tool_out_flush();
}

/* ---- the sequence ---- */

/* Said once what would help, where something does. */
static void say_dropped(chat *c, int turns, bool cut, size_t read_again) {
    static const char answer[] = "the beginning of the last answer";
    char help[TOOL_WIDER_TEXT], what[96];
    int n = 0;
    if (c->draws) end_line(c);
    if (turns > 1)
        n = snprintf(what, sizeof what, "the oldest %d turns%s", turns, cut ? " and " : "");
    if (turns == 1) n = snprintf(what, sizeof what, "the oldest turn%s", cut ? " and " : "");
    if (cut) snprintf(what + n, sizeof what - (size_t)n, "%s", answer);
    tool_message(
        "the context of %d tokens is full, so %s %s dropped; %zu token%s processed again%s",
        c->stage->plan.context, what, turns > 1 || (turns && cut) ? "are" : "is", read_again,
        read_again == 1 ? " is" : "s are",
        c->told_full ? "" : tool_wider_text(c->stage, &c->wider, "; ", help));
    c->told_full = true;
}

/* Tokens that must be left to answer in, or else the oldest turns are dropped: any at all; a text
 * that is continued, which ends where the context does, gets more. Where some go anyway, as many as
 * free a quarter, so that it isn't done again soon. */
static int64_t least_room(const chat *c, bool dropped) {
    const int64_t context = c->stage->plan.context;
    return dropped ? context / 4 : c->g->answers ? 1 : context / 16 + 1;
}

/* Makes what was said shorter: the oldest turn goes. Where only one is left before the message, its
 * answer is cut to half of it, again and again. *cut: it was. */
static int shorten(chat *c, bool *cut) {
    enum { LEAST = 24 }; /* bytes of an answer that are worth reading */
    if (c->said.turns == 2 && c->g->answers) {
        const size_t begin = c->said.answer[0], end = c->said.turn[1];
        if ((end - begin) / 2 > LEAST && tool_conversation_cut(&c->said, (end - begin) / 2)) {
            *cut = true;
            return 0;
        }
        *cut = false;
    }
    tool_conversation_drop(&c->said, 1);
    return 1;
}

/* Renders what was said in place of the sequence's first `until` tokens, without the `drop` oldest
 * turns, and shorter where there is no room to answer. */
static mnem_status lay(chat *c, int32_t until, int drop, bool *fits) {
    const int32_t *ids;
    size_t n = 0;
    const int64_t tail = c->g->count - until, context = c->stage->plan.context;
    bool cut = false;
    if (drop) tool_conversation_drop(&c->said, drop);
    for (;; drop += shorten(c, &cut)) {
        const mnem_status status = tool_rendering_encode(&c->rendering, &c->said, &ids, &n);
        const bool last = c->said.turns == 1, too_large = status == MNEM_OVER_BUDGET;
        if (status != MNEM_OK && (!too_large || last)) return status;
        const int64_t room = too_large ? -1 : context - tail - (int64_t)n;
        if (room >= least_room(c, drop || cut) || last) {
            *fits = n > 0 && room >= 1 && tool_generator_replace(c->g, until, ids, n);
            break;
        }
    }
    if ((drop || cut) && *fits)
        say_dropped(c, drop, cut, (size_t)(c->g->count - mnem_session_length(c->stage->session)));
    c->answer_at = (int32_t)n;
    return MNEM_OK;
}

/* The context is full in the middle of an answer. A text that is continued has no end to wait
 * for. */
static bool on_full(void *context) {
    chat *c = context;
    bool fits = false;
    return c->g->answers && c->said.turns > 1 && lay(c, c->answer_at, 1, &fits) == MNEM_OK && fits;
}

int chat_begin(chat *c) {
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
    return tool_failed("the --system text has %zu token%s, but the context has space for %d: "
                       "shorten the text, or use a larger --ctx",
                       n, tool_s(n), c->stage->plan.context - 1);
}

int chat_begin_with(chat *c, const char *system) {
    char before[TOOL_CHAT_BYTES];
    const bool had_system = c->has_system;
    memcpy(before, c->system, sizeof before);
    snprintf(c->system, sizeof c->system, "%s", system);
    c->has_system = *system != 0;
    if (chat_begin(c) == TOOL_OK) return TOOL_OK;
    memcpy(c->system, before, sizeof before);
    c->has_system = had_system;
    return chat_begin(c);
}

int chat_instruct(chat *c, const char *system) {
    const int code = chat_begin_with(c, system);
    if (code != TOOL_OK) return code;
    if (!c->has_system)
        fputs("The conversation begins again, without a system text.\n", stderr);
    else if (strcmp(c->system, system) == 0)
        fputs("The conversation begins again, with this system text; /show system shows it.\n",
              stderr);
    return TOOL_OK;
}

/* ---- turns ---- */

static void end_answer(chat *c, tool_end end, uint64_t before) {
    char help[TOOL_WIDER_TEXT];
    const bool shown = end == TOOL_END_INTERRUPTED && isatty(STDOUT_FILENO);
    if (shown) fputs("^C", stderr); /* the terminal doesn't echo it during an answer */
    fflush(stderr);
    if (!c->g->newline || shown) {
        tool_out("\n", 1);
        c->g->newline = true;
    }
    tool_out_flush();
    tool_generator_say_empty(c->g, end, before);
    if (end == TOOL_END_CONTEXT)
        tool_message("the answer stopped, because the context of %d tokens is full%s; /clear "
                     "starts an empty conversation",
                     c->stage->plan.context, tool_wider_text(c->stage, &c->wider, "; ", help));
    if (end == TOOL_END_LIMIT && c->g->answers)
        tool_message("the answer stopped after %d token%s, the limit that -n sets", c->tokens,
                     tool_s((uint64_t)c->tokens));
}

/* What was done until then. */
typedef struct work {
    uint64_t tokens, decoded, prompt_tokens;
    double seconds_prompt, seconds_decode;
} work;

static work work_of(const tool_generator *g) {
    return (work){g->tokens, g->decoded, g->prompt_tokens, g->seconds_prompt, g->seconds_decode};
}

/* "20 tokens at 41.4/s · prompt 2 at 69.8/s", of one answer. */
static void tell_speed(const tool_generator *g, const work *before) {
    char text[160];
    const uint64_t tokens = g->tokens - before->tokens;
    const uint64_t read = g->prompt_tokens - before->prompt_tokens;
    const double decode = g->seconds_decode - before->seconds_decode;
    const double prompt = g->seconds_prompt - before->seconds_prompt;
    size_t n = (size_t)snprintf(text, sizeof text, "%llu token%s", (unsigned long long)tokens,
                                tool_s(tokens));
    if (decode > 0)
        n += (size_t)snprintf(text + n, sizeof text - n, " at %.1f/s",
                              (double)(g->decoded - before->decoded) / decode);
    if (prompt > 0)
        snprintf(text + n, sizeof text - n, " · prompt %llu at %.1f/s", (unsigned long long)read,
                 (double)read / prompt);
    tool_wrap_dim(stderr, "", text);
}

/* What the user stopped before it had an answer is as if it hadn't been said. */
static int generate(chat *c) {
    const uint64_t before = c->g->text_bytes;
    const work done = work_of(c->g);
    tool_interrupt_watch(c->stage->session);
    tool_end end = tool_generate(c->g, c->tokens > 0 ? c->tokens : INT32_MAX);
    tool_interrupt_watch(NULL);
    end_drawing(c);
    if (tool_interrupt_ends()) return TOOL_INTERRUPTED;
    tool_interrupt_clear();
    if (end == TOOL_END_FAILED) return tool_fail(c->g->status);
    if (end == TOOL_END_CLOSED) return tool_out_end();
    tool_conversation_end(&c->said);
    if (end == TOOL_END_INTERRUPTED && c->g->tokens == done.tokens)
        tool_conversation_take_back(&c->said);
    end_answer(c, end, before);
    if (c->verbose) tell_speed(c->g, &done);
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
        tool_message("the message has %zu token%s, but the context has space for %d: shorten the "
                     "message, or start mnem run with a larger --ctx",
                     n, tool_s(n), room);
    else
        return true;
    return false;
}

static bool say(chat *c, const char *text, size_t length) {
    tool_conversation *said = &c->said;
    if (said->turns == TOOL_TURNS_MAX) tool_conversation_drop(said, said->turns / 2);
    while (!tool_conversation_user(said, text, length)) {
        if (said->turns == 0) {
            tool_message("the message has %zu bytes, too many for a context of %d tokens: shorten "
                         "the message, or start mnem run with a larger --ctx",
                         length, c->stage->plan.context);
            return false;
        }
        tool_conversation_drop(said, 1);
    }
    return true;
}

int chat_answer(chat *c) {
    bool fits = false;
    const mnem_status status = lay(c, c->g->count, 0, &fits);
    if (status == MNEM_OK && fits) return generate(c);
    tool_conversation_take_back(&c->said);
    if (status != MNEM_OK)
        tool_rendering_fail(&c->rendering, status);
    else
        tool_message("the message is too long for the context of %d tokens: shorten the message, "
                     "or start mnem run with a larger --ctx",
                     c->stage->plan.context);
    return TOOL_OK;
}

static int talk(chat *c) {
    const size_t length = strlen(c->line);
    if (!fits_alone(c, c->line, length) || !say(c, c->line, length)) return TOOL_OK;
    return chat_answer(c);
}

/* ---- what is typed ---- */

/* Ctrl-C at the prompt: the second one in a row leaves. Other signals leave at once. */
static bool interrupted(chat *c) {
    if (tool_interrupt_ends()) return true;
    tool_interrupt_clear();
    fputs("^C\n", stderr);
    if (++c->interrupts == 1)
        fputs("(press Ctrl-C again or type /quit to leave the chat)\n", stderr);
    return c->interrupts > 1;
}

static int take_input(chat *c, tool_input in, bool *quit) {
    switch (in) {
    case TOOL_INPUT_INTERRUPTED: return interrupted(c) ? TOOL_INTERRUPTED : TOOL_OK;
    case TOOL_INPUT_DROPPED:
        tool_interrupt_clear();
        fputs("^C\n", stderr);
        return TOOL_OK;
    case TOOL_INPUT_END:
        fputc('\n', stderr);
        *quit = true;
        return TOOL_OK;
    case TOOL_INPUT_LONG:
        tool_message("the line is longer than %d bytes, the limit for a message; put a longer text "
                     "in a file and start mnem run --file FILE",
                     TOOL_CHAT_BYTES - 2);
        return TOOL_OK;
    case TOOL_INPUT_LINE:
        if (chat_is_command(c->line)) return chat_command(c, quit);
        break;
    case TOOL_INPUT_TEXT: break;
    }
    return c->line[strspn(c->line, " \t\n")] ? talk(c) : TOOL_OK;
}

static int conversation(chat *c) {
    int code = chat_begin(c);
    for (bool quit = false; code == TOOL_OK && !quit && !tool_out_closed();) {
        const tool_input in = tool_editor_read(c->line);
        if (in != TOOL_INPUT_INTERRUPTED) c->interrupts = 0;
        code = take_input(c, in, &quit);
    }
    return code;
}

/* ---- the way in ---- */

static void banner(const chat *c) {
    const char *source = c->rendering.source;
    fputc('\n', stderr);
    if (c->g->answers)
        fprintf(stderr, "This chat uses %s%s.\n", c->g->asked->template.file ? "the template " : "",
                source);
    else if (c->g->asked->raw)
        fputs("This chat uses no template (--raw): the model continues the text that you type.\n",
              stderr);
    else
        fputs("The model has no chat template: it continues the text that you type.\n", stderr);
    const char *path = tool_model_path(&c->g->asked->args);
    if (!c->g->answers && !c->g->asked->raw && path && tool_model_is_shipped(path))
        fputs("To get a model that chats: models/get_model smollm2-135m FOLDER\n", stderr);
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
    if (code == TOOL_OK)
        code = tool_constraint_open(stage, &asked->constraint, c->g->end, &c->g->constraint);
    if (code != TOOL_OK) return code;
    c->g->on_full = on_full;
    c->g->on_text = on_text;
    c->g->context = c;
    c->g->answers = c->rendering.template != NULL;
    c->tokens = asked->tokens;
    open_drawing(c, asked);
    const mnem_status status =
        mnem_ledger_charge(stage->ledger, MNEM_KIND_HOST, "editor", TOOL_EDITOR_BYTES);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int plan_and_talk(chat *c) {
    tool_stage *stage = c->stage;
    stage->options.snapshots = MNEM_SNAPSHOTS_FILL;
    int code = tool_stage_plan(stage);
    if (code != TOOL_OK) return code;
    tool_report_start(stage);
    c->wider = tool_wider_find(stage,
                               c->said.room + c->rendering.reserved_bytes +
                                   (uint64_t)c->g->room * sizeof *c->g->ids,
                               c->g->room);
    if ((code = tool_stage_create(stage)) != TOOL_OK) return code;
    tool_interrupt_watch(NULL); /* cancels nothing at the prompt */
    banner(c);
    c->g->cache.at_end = true;
    code = conversation(c);
    tool_prompt_cache_save(c->g);
    tool_generator_end(stderr, c->g);
    tool_generator_keep(c->g);
    return code;
}

tool_editor_options tool_chat_editor(const run_options *asked) {
    return (tool_editor_options){
        .no_history = asked->no_history, .quiet = asked->args.quiet, .complete = chat_complete};
}

int tool_chat(tool_stage *stage, const run_options *asked, tool_generator *g) {
    static chat c;
    c.stage = stage;
    c.g = g;
    if (!tool_editor_works())
        return tool_failed("the chat can't read from this terminal; give a prompt with -p instead");
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
