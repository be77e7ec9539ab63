/* stage.h: the steps from arguments to a running session, shared by run, plan, bench and
 * perplexity.
 *
 * The order is fixed, because the bytes of each step are part of the later plan: settle the
 * process and create the ledger, open the model, create the tokenizer, read the prompt, plan,
 * create. */
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
    double profile_load; /* part of the processors' time that other programs used; < 0: unknown */
    int32_t profile_threads; /* number of threads of the profile; 0: as many as this run has */
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_session *session;
    uint64_t kept_bytes; /* of the plan's peak: charged, allocated when a request needs it */
    bool budget_chosen;  /* the ledger chose the budget: 85 % of the available memory */
    double seconds_load;
    struct {
        char *text;
        size_t bytes, room; /* room: capacity, charged to host "prompt" */
    } prompt;
    struct {
        int32_t *words;
        uint64_t bytes; /* charged to host "sampler" */
        mnem_dry_breakers of;
    } breakers;
} tool_stage;

/* Each returns an exit code, and has printed the error if it isn't TOOL_OK. Call close in any
 * case. */

/* Settles the process, creates the ledger, opens the model and its adapters. */
int tool_stage_open(const tool_args *args, const tool_session_asked *asked, tool_stage *stage);
int tool_stage_tokenizer(tool_stage *stage);
/* The same without a model, for a verb that lists several; path: of the list. */
int tool_stage_open_none(const tool_args *args, const tool_session_asked *asked, const char *path,
                         tool_stage *stage);
/* Opens one of several models (stage_model.c) with its adapters and tokenizer, in the ledger and
 * with the profile of the stage `of`. Prints nothing. Call close_beside in any case; it keeps the
 * plan. */
mnem_status tool_stage_open_beside(const tool_stage *of, const tool_session_asked *asked,
                                   const char *path, tool_stage *stage);
void tool_stage_close_beside(tool_stage *stage);
/* The file and the scale of an argument of --lora: "FILE:SCALE", or a file alone (scale 1). */
float tool_adapter_split(const char *asked, char name[PATH_MAX]);
/* Checks that the files of --lora exist (exit code, message printed). */
int tool_adapters_check(const char *verb, const tool_texts *lora);
/* Opens the adapters of --lora for the stage's model. */
mnem_status tool_adapters_open(tool_stage *stage);
/* Checks --pretokenizer for a verb that opens no tokenizer: an unknown name prints the list. */
int tool_pre_check(const char *pre);
/* Creates DRY's breakers from the texts of --dry-sequence-breaker, or the default ones; needs the
 * tokenizer, and comes before the plan. */
int tool_stage_breakers(tool_stage *stage, const tool_texts *texts);
/* The same in two steps, for one of several models: the check, once (exit code, message printed);
 * and the breakers of a model, which prints nothing. */
int tool_breakers_check(const char *verb, const tool_texts *texts);
mnem_status tool_breakers_open(tool_stage *stage, const tool_texts *texts);
void tool_breakers_close(tool_stage *stage);
/* Refuses a model that only makes embeddings. */
int tool_stage_needs_text(const tool_stage *stage);
/* Plans with stage->options, which the caller may change before. */
int tool_stage_plan(tool_stage *stage);
/* The same in two steps, for callers that name another least: the plan, and its messages. */
mnem_status tool_stage_choose(tool_stage *stage);
int tool_stage_chosen(tool_stage *stage, mnem_status status);
/* The same as a trial: another plan follows; with ranks, on all of them. */
mnem_status tool_stage_try(tool_stage *stage);
/* The --memory to recommend for another plan of this many bytes: under that budget the plan may
 * need a few pages more. Returns text. */
char *tool_budget_of_other(uint64_t bytes, char text[TOOL_TEXT]);
/* As tool_fail_plan, for a verb that computed its need itself (refusal.c). */
int tool_fail_needs(uint64_t needed_bytes, uint64_t budget_bytes, mnem_knob knob);
/* From here on refusals aren't printed but held, together with those of other work: end prints
 * the one that needs most, so that its least is enough for all. */
void tool_refusal_hold(void);
bool tool_refusal_held(void); /* a refusal is held */
/* Prints the held refusal and returns its code; if none is held, or something else failed, returns
 * code. */
int tool_refusal_end(int code);
/* On ranks other than 0: plans and creates together with rank 0, follows it until the end, and
 * closes the stage. */
int tool_stage_follow(tool_stage *stage);
/* The same without closing, and with another function than mnem_engine_follow. */
typedef mnem_status tool_follow(void *context, mnem_engine *engine);
int tool_stage_follow_with(tool_stage *stage, tool_follow *follow, void *context);
/* Loads, with progress; Ctrl-C cancels it. */
int tool_stage_create(tool_stage *stage);
/* Records a step of the run in the trace, if there is one; begin and end are paired. */
void tool_stage_begin(tool_stage *stage, const char *step);
void tool_stage_end(tool_stage *stage, const char *step);
/* If a trace was requested: destroys everything except the ledger, and writes the trace. Returns
 * code if it isn't TOOL_OK. */
int tool_stage_end_trace(tool_stage *stage, int code);
/* Destroys everything in reverse order; a zeroed stage is allowed. */
void tool_stage_close(tool_stage *stage);

/* Reads a whole file ("-": standard input) into stage->prompt. */
int tool_stage_read(tool_stage *stage, const char *path);
/* Evaluates n tokens in chunks, with progress if what != NULL; passes the logits of tokens from
 * first_logits on to on_logits. MNEM_CANCELLED on Ctrl-C. */
mnem_status tool_stage_eval(tool_stage *stage, const int32_t *ids, int32_t n, int32_t first_logits,
                            mnem_on_logits *on_logits, void *context, const char *what);
/* Evaluates a token and a draft (mnem_sequence_verify). MNEM_CANCELLED on Ctrl-C. */
mnem_status tool_stage_verify(tool_stage *stage, const int32_t *ids, int32_t n,
                              mnem_on_choice *on_choice, void *context, int32_t *accepted);

/* ---- the tables (report.c) ---- */
/* The name of the type of most of the model's bytes. */
const char *tool_main_type(const mnem_model *model);
void tool_report_model(FILE *file, const tool_stage *stage);
/* Prints model and plan in a line on standard error (--verbose: as tables); nothing with --quiet or
 * --json. */
void tool_report_start(const tool_stage *stage);
void tool_report_plan(FILE *file, const mnem_engine_plan *plan, const tool_stage *stage);
/* Prints the plan in a few lines: the bytes of each kind, not of each part. */
void tool_report_plan_short(FILE *file, const mnem_engine_plan *plan, const tool_stage *stage);
void tool_report_ledger(FILE *file, const tool_stage *stage);
/* Prints the ledger at the end of a run; on a terminal only the peak. */
void tool_report_end(FILE *file, const tool_stage *stage);
json_t *tool_report_plan_json(const mnem_engine_plan *plan, const tool_stage *stage);

/* ---- what would be faster (advice.c) ---- */
/* Prints budgets and options that would be faster or smaller, the largest gain first. */
void tool_advice(FILE *file, const tool_stage *stage);
/* Prints the largest gain in a line; nothing if all is in memory. */
void tool_advice_line(FILE *file, const tool_stage *stage);

/* ---- the machine profile (profile.c) ---- */
/* false, and zeros: there is none. */
bool tool_profile_load(mnem_machine_profile *profile);
/* The speed of the swap file that the user set in the profile (swap_bytes_per_s); 0: measure it. */
double tool_profile_swap(void);
/* Writes the file completely or not at all; prints errors. */
bool tool_profile_save(const mnem_machine_profile *profile);
enum { TOOL_WORK_TYPES = 64 }; /* more than the number of any weights' type */
/* The bytes that a generated token reads of a model, and its multiply-adds; head_macs of them
 * belong to the output matrix, which in a prompt only the last token needs. */
typedef struct tool_token_work {
    double bytes, macs, head_macs;
    double macs_of[TOOL_WORK_TYPES]; /* by type of the weights, without the output matrix */
    bool sparse;                     /* some weights are 2:4, whose products take less time */
} tool_token_work;
tool_token_work tool_token_work_of(const mnem_model *model, const mnem_transformer *shape);

/* The speeds that a model reached on this machine with so many threads. One is stored per number of
 * threads and size of model: the last one under the least load. */
typedef struct tool_reached {
    int32_t threads; /* 0: all processors that this process may use */
    double token_bytes;
    tool_rates rates;
} tool_reached;
/* *kept_old: the stored speeds were measured under less load and aren't replaced
 * (profile_age.h). */
bool tool_reached_save(const tool_reached *reached, bool *kept_old);
/* Copies the speeds and the load of the model that is nearest in size, with so many threads, into a
 * profile. false: there is none. */
bool tool_reached_use(int32_t threads, double token_bytes, mnem_machine_profile *profile,
                      double *load);
/* Completes the profile of a stage, whose model is open, with the speeds of a similar model. */
void tool_profile_use(tool_stage *stage);
/* The reason why no speed is predicted, with advice. */
const char *tool_speed_unknown(const tool_stage *stage);
/* The reason to doubt a predicted speed, with advice; "": none. Returns text. */
enum { TOOL_NOTE = 128 };
const char *tool_profile_note(const tool_stage *stage, char text[TOOL_NOTE]);

/* The profile's path; false: neither XDG_CACHE_HOME nor HOME is set. */
bool tool_profile_path(char *path, size_t n);

/* Whether a path is that of the model that ships with the command. */
bool tool_model_is_shipped(const char *path);

#endif
