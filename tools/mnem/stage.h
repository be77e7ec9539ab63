/* stage.h: the way from arguments to a running session, shared by run, plan, bench and perplexity.
 *
 * The order is fixed, because each step's bytes are part of the next one's plan: settle the process
 * and make the ledger, open the model, make the tokenizer, read the prompt, plan, create. */
#ifndef MNEM_TOOL_STAGE_H
#define MNEM_TOOL_STAGE_H

#include "tool.h"

typedef struct tool_stage {
    const tool_args *args;
    mnem_ledger *ledger;
    mnem_device *device; /* NULL: the session's own host device */
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_transformer transformer;
    mnem_machine_profile profile;
    mnem_session_options options;
    mnem_session_plan plan;
    mnem_session *session;
    uint64_t budget_bytes;
    bool budget_chosen; /* by us: 85 % of what was available */
    double seconds_load;
    struct {
        char *text;
        size_t bytes, room; /* room is charged to host "prompt" */
    } prompt;
} tool_stage;

/* Settles, makes the ledger, opens the model and its tokenizer (unless tokenizer is false). */
mnem_status tool_stage_open(const tool_args *args, bool tokenizer, tool_stage *stage);
/* The plan for the options given. stage->options may be changed between open and plan. */
mnem_status tool_stage_plan(tool_stage *stage);
/* Loads, with progress; Ctrl-C cancels. */
mnem_status tool_stage_create(tool_stage *stage);
/* Takes everything down in reverse. */
void tool_stage_close(tool_stage *stage);

/* Reads a file ("-": stdin) whole into stage->prompt. MNEM_IO has a message in *why. */
mnem_status tool_stage_read(tool_stage *stage, const char *path);

/* ---- the tables (report.c) ---- */
void tool_report_model(FILE *file, const tool_stage *stage);
void tool_report_plan(FILE *file, const mnem_session_plan *plan, const tool_stage *stage);
void tool_report_ledger(FILE *file, const tool_stage *stage);
json_t *tool_report_plan_json(const mnem_session_plan *plan, const tool_stage *stage);
json_t *tool_report_ledger_json(const tool_stage *stage);

/* ---- the machine profile (profile.c) ---- */
/* false when there is none. */
bool tool_profile_load(mnem_machine_profile *profile);
/* Written whole or not at all. false with a message in *why. */
bool tool_profile_save(const mnem_machine_profile *profile, char *path, size_t n);
#endif
