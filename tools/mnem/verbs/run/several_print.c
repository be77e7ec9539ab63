/* several_print.c: whose turn it is, and what its text is from the start. */
#include "verbs/run/several_private.h"
#include "verbs/run/terminal_text.h"

/* "==> 2: What is the capital of ... <==", as head heads several files. */
static void print_header(const tool_several *s, const slot *a) {
    enum { SHOWN = 60 };
    const mnem_text text = s->list.prompt[a->prompt].text;
    char shown[SHOWN + 1];
    size_t n = 0;
    if (s->stage->args->quiet) return;
    for (; n < text.length && n < SHOWN; n++)
        shown[n] = (unsigned char)text.bytes[n] < ' ' ? ' ' : text.bytes[n];
    while (n < text.length && n > 0 && (text.bytes[n] & 0xc0) == 0x80) n--; /* whole characters */
    tool_outf("%s==> %d: %.*s%s <==\n", a->prompt ? "\n" : "", a->prompt + 1, (int)n, shown,
              n < text.length ? "..." : "");
}

/* From the tokens, as though none had been looked at. */
static void say_again(const tool_several *s, slot *a) {
    tool_generator_say(&a->g, s->list.prompt[a->prompt].count, a->last);
}

/* One object on one line, whose text is written as it is made. */
static void print_json(const tool_several *s, slot *a) {
    const tool_prompt *p = &s->list.prompt[a->prompt];
    tool_outf("{\"type\":\"answer\",\"index\":%d,\"prompt\":\"", a->prompt);
    tool_out_escaped(NULL, p->text.bytes, p->text.length);
    tool_outf("\",\"text\":\"");
    a->g.on_text = tool_out_escaped;
    say_again(s, a);
    tool_generator_flush(&a->g, a->end);
    tool_outf("\",\"end\":\"%s\",\"prompt_tokens\":%d,\"tokens\":%llu,\"seed\":%llu}\n",
              tool_end_text(a->end), p->count, (unsigned long long)a->g.tokens,
              (unsigned long long)a->g.sampling.seed);
    tool_out_flush();
}

/* Its turn has come: what it has said so far, and then as it goes. */
static void begin_turn(const tool_several *s, slot *a) {
    if (s->stage->args->json || !a->g.mute) return;
    print_header(s, a);
    a->g.mute = false;
    tool_out_shown_begin(a->g.asked->plain, 0);
    say_again(s, a);
}

static void end_turn(const tool_several *s, slot *a) {
    char what[64] = "";
    if (s->stage->args->json) {
        print_json(s, a);
        return;
    }
    begin_turn(s, a);
    tool_generator_flush(&a->g, a->end);
    if (!a->g.newline) tool_out("\n", 1);
    tool_out_flush();
    if (a->end == TOOL_END_CONTEXT)
        snprintf(what, sizeof what, "the context of %d tokens is full", s->stage->plan.context);
    else if (!a->g.text_bytes && a->end != TOOL_END_INTERRUPTED)
        snprintf(what, sizeof what, "the %s is empty", a->g.answers ? "answer" : "text");
    else if (a->cut)
        snprintf(what, sizeof what, "the answer ended before the grammar was complete");
    if (*what) tool_message("prompt %d: %s", a->prompt + 1, what);
}

slot *tool_slot_of(const tool_several *s, int32_t prompt) {
    return &s->slot[prompt % s->slots];
}

/* Those that have ended, in order, and of the next one what there is. */
void tool_print_turns(tool_several *s) {
    while (s->printed < s->begun && tool_slot_of(s, s->printed)->lane < 0) {
        end_turn(s, tool_slot_of(s, s->printed));
        s->printed++;
    }
    if (s->printed < s->begun) begin_turn(s, tool_slot_of(s, s->printed));
}
