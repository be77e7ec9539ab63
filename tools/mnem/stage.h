/* stage.h: the way from arguments to a running session, shared by run, plan, bench and perplexity.
 *
 * The order is fixed, because each step's bytes are part of the next one's plan: settle the process
 * and make the ledger, open the model, make the tokenizer, read the prompt, plan, create. */
#ifndef MNEM_TOOLS_MNEM_STAGE_H
#define MNEM_TOOLS_MNEM_STAGE_H

#include "options.h"
#include "sight/profile_age.h"
#include "sight/recording.h"

typedef struct tool_stage {
    const tool_args *args;
    const tool_session_asked *asked;
    tool_recording recording;
    mnem_ledger *ledger;
    mnem_device *device; /* NULL: the session's own host device */
    mnem_model *model;
    mnem_model *adapter_file[TOOL_ADAPTERS_MAX]; /* of options.adapters */
    mnem_adapter adapter[TOOL_ADAPTERS_MAX];
    mnem_tokenizer *tokenizer;
    mnem_transformer transformer;
    mnem_machine_profile profile;
    double profile_load;     /* part of the processors' time that others took; < 0: not known */
    int32_t profile_threads; /* it is of so many; 0: of as many as are used here */
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_session *session;
    uint64_t kept_bytes; /* of the plan's peak: charged, and no memory until a request needs it */
    bool budget_chosen;  /* by the ledger: 85 % of what was available */
    double seconds_load;
    struct {
        char *text;
        size_t bytes, room; /* room is charged to host "prompt" */
    } prompt;
    struct {
        int32_t *words;
        uint64_t bytes; /* charged to host "sampler" */
        mnem_dry_breakers of;
    } breakers;
} tool_stage;

/* Each returns an exit code, and has printed the message when it isn't TOOL_OK. close is needed in
 * any case. */

/* Settles, makes the ledger, opens the model and its adapters. */
int tool_stage_open(const tool_args *args, const tool_session_asked *asked, tool_stage *stage);
int tool_stage_tokenizer(tool_stage *stage);
/* The same without a model, where the path is of a list of several. */
int tool_stage_open_none(const tool_args *args, const tool_session_asked *asked, const char *path,
                         tool_stage *stage);
/* One of several (stage_model.c): model, adapters and tokenizer, in the ledger and with the profile
 * of the stage `of`. Prints nothing; close is needed in any case, and leaves the plan. */
mnem_status tool_stage_open_beside(const tool_stage *of, const tool_session_asked *asked,
                                   const char *path, tool_stage *stage);
void tool_stage_close_beside(tool_stage *stage);
/* Of --lora: whether the files are there (exit code, message printed); opens them for the model. */
int tool_adapters_check(const char *verb, const tool_texts *lora);
mnem_status tool_adapters_open(tool_stage *stage);
/* Of --pretokenizer, for a verb that opens no tokenizer: an unknown name prints the list. */
int tool_pre_check(const char *pre);
/* Makes DRY's breakers of the texts of --dry-sequence-breaker, or the usual ones where there are
 * none; with a tokenizer, before the plan. */
int tool_stage_breakers(tool_stage *stage, const tool_texts *texts);
void tool_breakers_close(tool_stage *stage);
/* Refuses a model that makes embeddings only. */
int tool_stage_needs_text(const tool_stage *stage);
/* Plans with stage->options, which may be changed before. */
int tool_stage_plan(tool_stage *stage);
/* The same in two steps, for who names another least: the plan, and what is said of it. */
mnem_status tool_stage_choose(tool_stage *stage);
int tool_stage_chosen(tool_stage *stage, mnem_status status);
/* The same for looking only: another plan follows, on all ranks where there are. */
mnem_status tool_stage_try(tool_stage *stage);
/* The --memory to name for another plan that takes this many bytes: in its own budget it may take
 * some pages more. Returns text. */
char *tool_budget_of_other(uint64_t bytes, char text[TOOL_TEXT]);
/* As tool_fail_plan, where the verb added up what it needs (refusal.c). */
int tool_fail_needs(uint64_t needed_bytes, uint64_t budget_bytes, mnem_knob knob);
/* From here on refusals wait, unsaid, for those of other work: at the end the one that needs most
 * is said, so that its least is enough for all. */
void tool_refusal_hold(void);
bool tool_refusal_held(void); /* one waits */
/* Says it and returns its code; where none waits, or something else failed, returns code. */
int tool_refusal_end(int code);
/* On a rank that isn't 0: plans and creates with it, does what it says until the end, and closes
 * the stage. */
int tool_stage_follow(tool_stage *stage);
/* Without closing, and with a function that follows in place of mnem_engine_follow. */
typedef mnem_status tool_follow(void *context, mnem_engine *engine);
int tool_stage_follow_with(tool_stage *stage, tool_follow *follow, void *context);
/* Loads, with progress; Ctrl-C cancels it. */
int tool_stage_create(tool_stage *stage);
/* A step of the run for the trace, if there is one; begin and end come in pairs. */
void tool_stage_begin(tool_stage *stage, const char *step);
void tool_stage_end(tool_stage *stage, const char *step);
/* Where a trace was asked for: takes down all but the ledger, and writes it. code stays when it
 * isn't TOOL_OK. */
int tool_stage_end_trace(tool_stage *stage, int code);
/* Takes everything down in reverse; a zeroed stage is fine. */
void tool_stage_close(tool_stage *stage);

/* Reads a file ("-": standard input) whole into stage->prompt. */
int tool_stage_read(tool_stage *stage, const char *path);
/* Evaluates n tokens in chunks, with progress when asked for (what != NULL); the logits of those at
 * or after first_logits go to on_logits. MNEM_CANCELLED on Ctrl-C. */
mnem_status tool_stage_eval(tool_stage *stage, const int32_t *ids, int32_t n, int32_t first_logits,
                            mnem_on_logits *on_logits, void *context, const char *what);

/* ---- the tables (report.c) ---- */
const char *tool_kv_text(mnem_type type); /* as --kv writes it */
/* The name of the type that most bytes of the model have. */
const char *tool_main_type(const mnem_model *model);
void tool_report_model(FILE *file, const tool_stage *stage);
/* Model and plan in a line on standard error (--verbose: as tables), but with --quiet or --json. */
void tool_report_start(const tool_stage *stage);
void tool_report_plan(FILE *file, const mnem_engine_plan *plan, const tool_stage *stage);
/* The same in a few lines: the bytes of each kind, not of each part. */
void tool_report_plan_short(FILE *file, const mnem_engine_plan *plan, const tool_stage *stage);
void tool_report_ledger(FILE *file, const tool_stage *stage);
/* The same at the end of a run; on a terminal just the peak. */
void tool_report_end(FILE *file, const tool_stage *stage);
json_t *tool_report_plan_json(const mnem_engine_plan *plan, const tool_stage *stage);

/* ---- what would be faster (advice.c) ---- */
/* Of the plan: budgets and options that would gain or save, what gains most first. */
void tool_advice(FILE *file, const tool_stage *stage);
/* What gains most, in a line; nothing where all is in memory. */
void tool_advice_line(FILE *file, const tool_stage *stage);

/* ---- the machine profile (profile.c) ---- */
/* false, and zeros, when there is none. */
bool tool_profile_load(mnem_machine_profile *profile);
/* How fast a swap file is, as its owner has put it there (swap_bytes_per_s); 0: it is measured. */
double tool_profile_swap(void);
/* Written whole or not at all; prints why it can't. */
bool tool_profile_save(const mnem_machine_profile *profile);
/* What a generated token reads of a model, and multiplies; head_macs of them by the output matrix,
 * which of a prompt only the last token does. */
typedef struct tool_token_work {
    double bytes, macs, head_macs;
    bool sparse; /* some are 2:4, whose products take less time */
} tool_token_work;
tool_token_work tool_token_work_of(const mnem_model *model, const mnem_transformer *shape);

/* What a model reached here with so many threads. Those of several
 * numbers of threads and sizes of models are kept, each as it was measured last
 * under the least load. */
typedef struct tool_reached {
    int32_t threads; /* 0: the processors this process may use */
    double token_bytes;
    tool_rates rates;
} tool_reached;
/* *kept_old: what is kept was measured under less load, and stays (profile_age.h). */
bool tool_reached_save(const tool_reached *reached, bool *kept_old);
/* Puts what the model that is nearest in size reached with so many threads into a profile, and its
 * load, where it is known. false: there is none. */
bool tool_reached_use(int32_t threads, double token_bytes, mnem_machine_profile *profile,
                      double *load);
/* Completes the profile of a stage whose model is open with what such a model reached. */
void tool_profile_use(tool_stage *stage);
/* Why no speed is predicted, and what to do about it. */
const char *tool_speed_unknown(const tool_stage *stage);
/* What makes a predicted speed doubtful, and what to do about it; "": nothing. Returns text. */
enum { TOOL_NOTE = 128 };
const char *tool_profile_note(const tool_stage *stage, char text[TOOL_NOTE]);

/* Where it is; false when neither XDG_CACHE_HOME nor HOME is set. */
bool tool_profile_path(char *path, size_t n);

/* Is it the model that comes with the command, by its name? */
bool tool_model_is_shipped(const char *path);

#endif
