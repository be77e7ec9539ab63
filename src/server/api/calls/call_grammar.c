/* call_grammar.c: see call_grammar.h.
 *
 * A text without a mark, where the mark's first byte comes in it once only: whatever stands behind
 * such a byte, up to the next one, doesn't begin with the rest of the mark.
 *
 *     text ::= [^<]* ("<" not)*       not ::= "" | [^<t] [^<]* | "t" ("" | [^<o] [^<]* | "o" (...))
 *
 * It has no recursion, so the state of a match doesn't grow with the text. */
#include "server/api/calls/call_grammar.h"

#include <stdio.h>
#include <string.h>

/* ---- texts without a mark ---- */

static void put_class_byte(api_text *out, char c) {
    if (strchr("[]\\-^", c)) api_say(out, "\\");
    if (c == '^') /* which has no escape by its name */
        api_say(out, "x5e");
    else
        api_put(out, &c, 1);
}

static void put_rest(api_text *out, char first, const char *rest) {
    char groups[64];
    size_t depth = 0;
    for (; *rest && depth < sizeof groups; rest++, depth++) {
        api_say(out, depth ? " (\"\" | [^" : "(\"\" | [^");
        put_class_byte(out, first);
        put_class_byte(out, *rest);
        api_say(out, "] [^");
        put_class_byte(out, first);
        api_say(out, "]* ");
        if (!rest[1]) break; /* the mark would be whole */
        api_format(out, "| \"%c\"", *rest);
    }
    for (size_t i = 0; i <= depth; i++) api_say(out, ")");
}

void call_grammar_text(api_text *out, const char *name, const char *mark) {
    api_format(out, "%s ::= [^", name);
    put_class_byte(out, *mark);
    api_format(out, "]* (\"%c\" ", *mark);
    put_rest(out, *mark, mark + 1);
    api_say(out, ")*\n");
}

/* ---- calls ---- */

void call_grammar_literal(api_text *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == '"' || text[i] == '\\')
            api_format(out, "\\x%02x", (unsigned char)text[i]);
        else
            api_put(out, text + i, 1);
    }
}

/* The part that says the same as the json behind `begin`, which then goes; otherwise a new one. */
static uint32_t part_of(call_grammar *g, size_t begin, const char *place, const char *raw_end) {
    const size_t n = g->json.length - begin;
    for (uint32_t i = 0; i < g->parts; i++) {
        if (g->part[i].length != n || g->part[i].raw_end != raw_end) continue;
        if (memcmp(g->json.bytes + g->begin[i], g->json.bytes + begin, n) != 0) continue;
        g->json.length = begin;
        return i;
    }
    if (g->parts == MNEM_GRAMMAR_PARTS_MAX) {
        g->json.length = begin;
        return g->parts;
    }
    const uint32_t i = g->parts++;
    snprintf(g->name[i], sizeof g->name[0], "schema%u", i);
    g->begin[i] = begin;
    g->label[i] = g->labels.length;
    if (g->tool) api_format(&g->labels, "tool \"%s\": %.300s", g->tool, place);
    api_put(&g->labels, "", 1);
    g->part[i] = (mnem_grammar_part){.name = g->name[i], .length = n, .raw_end = raw_end};
    return i;
}

bool call_grammar_schema(call_grammar *g, const json_t *schema, const char *place,
                         const char *raw_end, char name[CALL_PART_NAME]) {
    const size_t begin = g->json.length;
    json_t *kept = NULL;
    if (schema && g->keep) {
        g->keep->raw_end = raw_end;
        schema = kept = call_keep(g->keep, schema, place);
        if (!kept) return false;
    }
    if (schema)
        api_json_put(&g->json, schema);
    else
        api_say(&g->json, "{\"type\":\"object\"}");
    json_decref(kept);
    if (g->json.failed) return false;
    const uint32_t part = part_of(g, begin, place, raw_end);
    g->full = g->full || part == MNEM_GRAMMAR_PARTS_MAX;
    if (part == MNEM_GRAMMAR_PARTS_MAX) {
        if (g->keep) call_keep_drop(g->keep, place, "");
        return false;
    }
    snprintf(name, CALL_PART_NAME, "%s", g->name[part]);
    return true;
}

static const char *name_of(const json_t *function) {
    return json_string_value(json_object_get(function, "name")); /* plain letters */
}

static void put_arguments(call_grammar *g, const json_t *function, call_strictness strictness) {
    char part[CALL_PART_NAME];
    const json_t *schema = json_object_get(function, "parameters");
    const bool fits = strictness != CALL_ANY && call_grammar_schema(g, schema, "#", NULL, part);
    api_say(&g->text, fits ? part : "object");
}

/* The object of one tool; in lists models give it an id, which isn't asked for. */
static void put_tool_object(call_grammar *g, const call_format *format, const json_t *function,
                            call_strictness strictness) {
    api_text *out = &g->text;
    api_format(out, "\"{\" ws \"\\\"name\\\"\" ws \":\" ws \"\\\"%s\\\"\" ws \",\" ws ",
               name_of(function));
    api_format(out, "\"\\\"%s\\\"\" ws \":\" ws ", format->arguments);
    put_arguments(g, function, strictness);
    if (format->shape == CALL_LIST)
        api_say(out, " (ws \",\" ws \"\\\"id\\\"\" ws \":\" ws \"\\\"\" [a-zA-Z0-9]{1,32} "
                     "\"\\\"\")?");
    api_say(out, " ws \"}\"");
}

static void put_tool(call_grammar *g, const call_format *format, const json_t *tool,
                     call_strictness strictness) {
    const json_t *function = json_object_get(tool, "function");
    switch (format->shape) {
    case CALL_KEYED: call_grammar_keyed(g, format, function, strictness); break;
    case CALL_NAMED:
        api_format(&g->text, "\"%s\" (\"[CALL_ID]\" [a-zA-Z0-9]{1,32})? \"%s\" ", name_of(function),
                   format->mark);
        put_arguments(g, function, strictness);
        break;
    default: put_tool_object(g, format, function, strictness);
    }
}

static void put_tools(const ask_request *ask, const call_format *format, call_strictness strictness,
                      call_grammar *g) {
    size_t i;
    json_t *tool;
    bool any = false;
    api_say(&g->text, "tool ::= ");
    json_array_foreach(ask->tools, i, tool) {
        const char *name = name_of(json_object_get(tool, "function"));
        if (!ask_may_call(ask, name)) continue;
        api_say(&g->text, any ? " | " : "");
        g->tool = name;
        if (g->keep) g->keep->tool = name;
        if (g->keep && strictness == CALL_ANY) call_keep_drop(g->keep, "#", "");
        put_tool(g, format, tool, strictness);
        any = true;
    }
    api_say(&g->text, "\nws ::= (\" \" | \"\\n\")?\n");
}

static void put_calls(const ask_request *ask, const call_format *format, call_strictness strictness,
                      call_grammar *g) {
    api_text *out = &g->text;
    const bool several = *format->begin && ask->tools_parallel && !ask->tool_name;
    const bool list = format->shape == CALL_LIST;
    put_tools(ask, format, strictness, g);
    if (list)
        api_format(out, "call ::= \"%s\" ws \"[\" ws tool %sws \"]\"\n", format->begin,
                   several ? "(ws \",\" ws tool)* " : "");
    else
        api_format(out, "call ::= \"%s\" ws tool ws \"%s\"\n", format->begin, format->end);
    api_say(out, several && !list ? "calls ::= call (\"\\n\"? call)*\n" : "calls ::= call\n");
    if (format->shape == CALL_KEYED) call_grammar_text(out, "argument", format->keys.value_end);
}

static void put_object(api_text *out) {
    api_say(out, "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\"\n"
                 "member ::= string ws \":\" ws value ws\n"
                 "array ::= \"[\" ws (value ws (\",\" ws value ws)*)? \"]\"\n"
                 "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
                 "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f\\x7f] | "
                 "\"\\\\\" ([\"\\\\/bfnrt] | \"u00\" [0-7] [0-9a-f]))* \"\\\"\"\n"
                 "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,15})?\n");
}

/* ---- all of it ---- */

static void put_root(const ask_request *ask, const call_format *format, bool thinks,
                     bool in_thought, api_text *out) {
    api_say(out, "root ::= ");
    if (in_thought)
        api_say(out, "thought \"</think>\" space ");
    else if (thinks)
        api_say(out, "(space \"<think>\" thought \"</think>\" space)? ");
    if (ask->tool_choice == ASK_TOOL_REQUIRED)
        api_say(out, "calls\n");
    else if (ask->limit != ASK_FREE)
        api_say(out, "(calls | answer)\n");
    else if (*format->begin)
        api_say(out, "text calls?\n");
    else
        api_say(out, "(calls | [^{] any | \"\")\nany ::= [\\U00000000-\\U0010ffff]*\n");
    if (thinks) call_grammar_text(out, "thought", "</think>");
    if (thinks) api_say(out, "space ::= [ \\n]{0,8}\n");
    if (ask->tool_choice != ASK_TOOL_REQUIRED && ask->limit == ASK_FREE && *format->begin)
        call_grammar_text(out, "text", format->begin);
}

static bool put_answer(const ask_request *ask, call_grammar *g) {
    char answer[CALL_PART_NAME] = "";
    call_keeper *keep = g->keep;
    if (ask->limit == ASK_FREE) return true;
    g->keep = NULL; /* what an answer must be is held to whole */
    const bool fine = call_grammar_schema(g, ask->schema, "#", NULL, answer);
    g->keep = keep;
    api_format(&g->text, "answer ::= %s\n", answer);
    return fine;
}

bool call_grammar_make(const ask_request *ask, const call_format *format, bool thinks,
                       bool in_thought, call_strictness strictness, call_keeper *keeper,
                       call_grammar *g) {
    g->text.memory = g->json.memory = g->labels.memory = g->memory;
    g->parts = 0;
    g->tool = NULL;
    g->full = false;
    g->keep = strictness == CALL_WHOLE ? NULL : keeper;
    const bool fine = put_answer(ask, g);
    put_root(ask, format, thinks, in_thought, &g->text);
    put_calls(ask, format, strictness, g);
    put_object(&g->text);
    for (uint32_t i = 0; i < g->parts && g->json.bytes; i++)
        g->part[i].json = g->json.bytes + g->begin[i]; /* now that nothing moves any more */
    return fine && !g->text.failed && !g->json.failed && !g->labels.failed;
}

void call_grammar_fini(call_grammar *g) {
    api_text_fini(&g->text);
    api_text_fini(&g->json);
    api_text_fini(&g->labels);
}

const char *call_grammar_label(const call_grammar *g, const char *message, const char **rest) {
    for (uint32_t i = 0; i < g->parts; i++) {
        const size_t n = strlen(g->name[i]);
        if (strncmp(message, g->name[i], n) != 0 || strncmp(message + n, ": ", 2) != 0) continue;
        *rest = message + n + 2;
        return g->labels.bytes + g->label[i];
    }
    return NULL;
}
