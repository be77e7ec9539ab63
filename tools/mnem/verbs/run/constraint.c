/* constraint.c: see constraint.h. Without a grammar every call is the sampler's alone. */
#include "verbs/run/constraint.h"

#include <stdlib.h>
#include <string.h>

const tool_option tool_constraint_options[] = {
    {"grammar", 0, "FILE", TOOL_VALUE_TEXT, offsetof(tool_constraint_asked, grammar),
     .path = TOOL_PATH_READ, .also = "grammar-file",
     .help = "constrain the answer to this grammar (GBNF: a file, or the text itself)"},
    {"json-schema", 0, "FILE", TOOL_VALUE_TEXT, offsetof(tool_constraint_asked, schema),
     .path = TOOL_PATH_READ, .also = "json-schema-file",
     .help = "constrain the answer to JSON that is valid under this schema (a file, or the text "
             "itself)"},
    {0},
};

int tool_constraint_check(const tool_constraint_asked *asked, const char *prompt_source) {
    const char *path = asked->grammar ? asked->grammar : asked->schema;
    if (asked->grammar && asked->schema)
        return tool_usage("run", "--grammar and --json-schema can't be combined; give one of them");
    if (path && strcmp(path, "-") == 0 && prompt_source && strcmp(prompt_source, "-") == 0)
        return tool_usage("run", "both the prompt and the grammar are read from standard input "
                                 "(-): give a file for one of them");
    return TOOL_OK;
}

static uint64_t refusals_of(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return info.refusals;
}

/* On the command line itself, as llama.cpp's options of these names have it. */
static bool is_written_out(const tool_constraint_asked *asked) {
    const char *schema = asked->schema ? asked->schema + strspn(asked->schema, " \t\n") : "";
    return asked->grammar ? strstr(asked->grammar, "::=") != NULL : *schema == '{';
}

static mnem_status make(tool_stage *stage, mnem_text text, bool schema, int32_t end,
                        tool_constraint *c) {
    mnem_status status = mnem_token_set_create(stage->tokenizer, end, &c->tokens);
    if (status == MNEM_OK)
        status =
            schema
                ? mnem_grammar_create_schema(c->tokens, text.bytes, text.length, NULL, &c->grammar)
                : mnem_grammar_create(c->tokens, text.bytes, text.length, NULL, &c->grammar);
    return status == MNEM_OK ? mnem_match_create(c->grammar, &c->match) : status;
}

/* The text that was read last, and its bytes. */
static void drop_text(tool_stage *stage) {
    if (stage->prompt.room)
        mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "prompt", stage->prompt.room);
    free(stage->prompt.text);
}

static int open_text(tool_stage *stage, const tool_constraint_asked *asked, int32_t end,
                     tool_constraint *c) {
    const char *path = asked->grammar ? asked->grammar : asked->schema;
    const char *option = asked->grammar ? "--grammar" : "--json-schema";
    const bool written = is_written_out(asked);
    const int code = written ? TOOL_OK : tool_stage_read(stage, path);
    if (code != TOOL_OK) return code;
    const mnem_text file = {stage->prompt.text, stage->prompt.bytes};
    const mnem_text text = written ? (mnem_text){path, strlen(path)} : file;
    const uint64_t refusals = refusals_of(stage->ledger);
    const mnem_status status = make(stage, text, asked->schema != NULL, end, c);
    if (status == MNEM_OK) return TOOL_OK;
    /* A grammar that passes limits of its own is over no budget: more memory wouldn't help it. */
    if (refusals_of(stage->ledger) > refusals || status == MNEM_NO_MEMORY) return tool_fail(status);
    return tool_failed("%s: %s", written ? option : path, mnem_last_error());
}

int tool_constraint_open(tool_stage *stage, const tool_constraint_asked *asked, int32_t end,
                         tool_constraint *c) {
    const char *path = asked->grammar ? asked->grammar : asked->schema;
    *c = (tool_constraint){0};
    if (!path) return TOOL_OK;
    const tool_stage with_prompt = *stage; /* whose texts may still be looked at */
    memset(&stage->prompt, 0, sizeof stage->prompt);
    const int code = open_text(stage, asked, end, c);
    drop_text(stage);
    stage->prompt = with_prompt.prompt;
    return code;
}

void tool_constraint_close(tool_constraint *c) {
    mnem_match_destroy(c->match);
    mnem_grammar_destroy(c->grammar);
    mnem_token_set_destroy(c->tokens);
    *c = (tool_constraint){0};
}

/* The same of a text that does: matching takes no memory. */
static mnem_status of_match(mnem_status status) {
    return status == MNEM_OVER_BUDGET ? MNEM_UNSUPPORTED : status;
}

void tool_constraint_begin(tool_constraint *c) {
    if (c->match) mnem_match_reset(c->match);
}

int32_t tool_constraint_choose(tool_constraint *c, mnem_sampler *sampler, const float *logits) {
    int32_t id = -1;
    if (!c->match) return mnem_sampler_choose(sampler, logits);
    c->status = of_match(mnem_match_choose(c->match, sampler, logits, &id));
    return id;
}

bool tool_constraint_ends(tool_constraint *c, int32_t id) {
    if (!c->match) return false;
    c->status = of_match(mnem_match_accept(c->match, id));
    return c->status == MNEM_OK && mnem_match_is_done(c->match);
}

void tool_constraint_say_cut(const tool_constraint *c, const char *by) {
    if (c->match && !mnem_match_may_end(c->match))
        tool_message(
            "warning: the answer is incomplete: %s ended it before the text matched the grammar",
            by);
}
