/* tool.h: what the files of the mnem command share.
 *
 * One file per verb (verb_*.c), whose entry takes the parsed arguments and returns the exit code.
 * The tables are in verbs.c (verbs) and options.c (options, environment); parsing, help, the man
 * page and completion come from them. Data goes to stdout through tool_out*, messages to stderr.
 *
 *     int verb_info(const tool_args *args) {
 *         mnem_model *model;
 *         mnem_status status = mnem_model_open(args->operand[0], &model);
 *         if (status != MNEM_OK) return tool_fail(status);
 *         ...
 *         mnem_model_close(model);
 *         return tool_out_end();
 *     }
 */
#ifndef MNEM_TOOLS_MNEM_TOOL_H
#define MNEM_TOOLS_MNEM_TOOL_H

#include <stdio.h>

#include <jansson.h>

#include "mnem/mnem.h"

typedef struct tool_args tool_args;

/* ---- exit codes ---- */
enum {
    TOOL_OK = 0,
    TOOL_FAILED = 1,
    TOOL_USAGE = 2,
    TOOL_OVER_BUDGET = 3,
    TOOL_INTERRUPTED = 130, /* by a signal; main makes it 128 + which */
};
/* Prints "mnem: <last error>" and gives the exit code of a failed status (CANCELLED: 130, without a
 * text). */
int tool_fail(mnem_status status);
/* The same, with what would help behind the text. */
int tool_fail_with(mnem_status status, const char *advice);
/* The same where MNEM_INVALID is about what the command line asks for: wrong usage, then. */
int tool_fail_asked(mnem_status status);
/* "mnem: <text>" on stderr; ends a progress line first. */
void tool_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, and a line that leads to the verb's help. Returns TOOL_USAGE. */
int tool_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A message of what is over the budget, where no plan says it. Returns TOOL_OVER_BUDGET. */
int tool_over(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Before standard input is read: somebody who types it is told. */
void tool_say_waiting(void);
/* With --json a verb that failed ends with an object that says so: what the messages said. */
void tool_error_json(const tool_args *args, int code);
/* One more number or text in it. */
void tool_failure_bytes(const char *key, uint64_t bytes);
void tool_failure_text(const char *key, const char *text);

/* ---- plans that don't fit, in the command's words (refusal.c) ---- */
/* As tool_fail_asked; of a refusal the message names the option that would help and the least
 * --memory, and with --json the object of the failure has its numbers (needed 0: not known). */
int tool_fail_plan(mnem_status status, uint64_t needed_bytes, uint64_t budget_bytes,
                   mnem_knob knob);
/* Of a plan for a device that holds too little: its capacity is the budget. */
int tool_fail_capacity(uint64_t needed_bytes, uint64_t capacity_bytes);
/* Of a model over devices. */
int tool_fail_split(const mnem_session_split *split, const mnem_session_device *devices,
                    int32_t count);

/* ---- verbs and arguments ---- */
enum { TOOL_OPERANDS_MAX = 64, TOOL_STOPS_MAX = 8, TOOL_SPACES_MAX = 32, TOOL_OPTIONS_MAX = 96 };

/* X(NAME): verb_NAME is the entry, in verb_NAME.c. */
#define TOOL_VERB_LIST(X)                                                                          \
    X(run)                                                                                         \
    X(plan)                                                                                        \
    X(graph)                                                                                       \
    X(place)                                                                                       \
    X(info)                                                                                        \
    X(bench)                                                                                       \
    X(quantize)                                                                                    \
    X(merge)                                                                                       \
    X(train)                                                                                       \
    X(perplexity)                                                                                  \
    X(tokenize)                                                                                    \
    X(template)                                                                                    \
    X(replay)                                                                                      \
    X(help)                                                                                        \
    X(version)

typedef enum tool_verb_id {
#define TOOL_VERB_ENUM(name) TOOL_VERB_##name,
    TOOL_VERB_LIST(TOOL_VERB_ENUM)
#undef TOOL_VERB_ENUM
        TOOL_VERBS
} tool_verb_id;

struct tool_args {
    tool_verb_id verb;
    int operands;
    const char *operand[TOOL_OPERANDS_MAX]; /* NULL past the last */
    bool given[TOOL_OPTIONS_MAX];           /* option i of the table was on the command line */
    /* the options; what isn't given has the default of options.c */
    const char *prompt, *file, *system, *trace;
    uint64_t memory, capacity;               /* 0: not given */
    int32_t tokens, context, threads, chunk; /* 0: not given */
    int32_t prompt_tokens, repeats;          /* bench */
    int32_t kv;                              /* mnem_kv_choice */
    double temperature, top_p, min_p, repeat_penalty;
    int32_t top_k;
    uint64_t seed;
    const char *stop[TOOL_STOPS_MAX];
    int stops;
    const char *out;                    /* place */
    double time_limit;                  /* place: seconds */
    const char *space[TOOL_SPACES_MAX]; /* place: NAME[=SIZE][:COST] */
    int spaces;
    const char *type;   /* quantize */
    const char *device; /* "host", "null" */
    bool page_cache, json, quiet, refresh;
    bool tensors, keys;                                      /* info */
    const char *devices;                                     /* plan; NULL: not given */
    bool explain;                                            /* plan */
    int32_t phase;                                           /* graph: decode, prefill */
    bool no_special, plain;                                  /* tokenize */
    const char *template, *template_args, *messages, *tools; /* template; NULL: not given */
    bool no_prompt;
    const char *policy, *svg; /* replay */
    uint64_t align, segment;  /* replay; 0: not given */
    int32_t snapshot_device;
    bool timeline;
    const char *data, *config, *init, *sample; /* train */
    int32_t batch, micro_batch, vocab;         /* 0: not given */
    int32_t precision, moments;                /* auto f32 bf16 f16; f32 8bit */
    int32_t lora;                              /* rank; 0: not given */
    double lora_alpha;
    const char *lora_targets;
    double scale; /* merge */
    uint64_t steps, train_tokens, stop_after, save_every;
    double rate, dropout, heldout;
    bool resume, dry_run, any_bytes;
    bool help;
};

typedef struct tool_verb {
    const char *name;
    const char *operands; /* "[MODEL]" as the usage line shows it */
    int operands_min, operands_max;
    const char *summary;  /* one line */
    const char *text;     /* paragraphs of help, lines of at most 80 columns */
    const char *examples; /* lines: command, two spaces, "# what it does" */
    int (*entry)(const tool_args *args);
} tool_verb;
extern const tool_verb tool_verbs[TOOL_VERBS];

#define TOOL_VERB_ENTRY(name) int verb_##name(const tool_args *args);
TOOL_VERB_LIST(TOOL_VERB_ENTRY)
#undef TOOL_VERB_ENTRY

/* The verb of this command line. */
const char *tool_verb_name(void);
/* Parses the command line; on TOOL_OK *args is whole. Prints what is wrong otherwise. */
int tool_parse(int argc, char **argv, tool_args *args);
/* Was the option ("seed") given? */
bool tool_given(const tool_args *args, const char *name);
/* The value of an environment variable of the table, or NULL when unset or empty. */
const char *tool_env(const char *name);
/* The model to use: the first operand, $MNEM_MODEL, or the one that ships. NULL (with a message)
 * when there is none. Static storage. */
const char *tool_model_path(const tool_args *args);
/* The same where no operand names one, without a message. */
const char *tool_model_default(void);

/* What a plan may take: the budget, or what the ledger chose where nobody gave one (stage.c). */
uint64_t tool_budget_bytes(uint64_t budget_bytes, const mnem_ledger *ledger);

/* ---- stdout ---- */
/* Writes text; false when nobody reads any more (EPIPE) or the write failed. */
bool tool_out(const char *text, size_t length);
bool tool_outf(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool tool_out_flush(void);
bool tool_out_closed(void); /* the reader went away or writing failed: stop making text */
/* Flushes; TOOL_OK also for a closed pipe, TOOL_FAILED (with a message) if writing failed. */
int tool_out_end(void);
/* Prints one JSON value on one line, flushes, and takes the reference. NULL: it couldn't be made,
 * which counts as writing that failed. */
bool tool_out_json(json_t *value);
/* null where it isn't finite, which JSON has no word for. */
json_t *tool_json_real(double value);

/* ---- numbers as text; each returns its buffer ---- */
enum { TOOL_TEXT = 40 };
char *tool_size(uint64_t bytes, char text[TOOL_TEXT]);    /* "1.17 GiB" */
char *tool_exact(uint64_t number, char text[TOOL_TEXT]);  /* "1,258,291" */
char *tool_count(double number, char text[TOOL_TEXT]);    /* "5.2 M" */
char *tool_seconds(double seconds, char text[TOOL_TEXT]); /* "3.2 s", "12 min" */
double tool_clock(void);                                  /* seconds, monotonic */
/* "" for one, "s" for any other number: "%d token%s". */
const char *tool_s(uint64_t number);
/* Of the terminal; 0: it isn't one. */
int tool_columns(FILE *file);
/* Prints text wrapped at 96 columns, or fewer where the terminal has fewer: `lead` before the first
 * line, later lines indented by its width. */
void tool_wrap(FILE *file, const char *lead, const char *text);

/* ---- bytes as tables (bytes_table.c) ---- */
/* A plan's lines, which sum to its peak. */
typedef struct tool_bytes {
    const mnem_plan_line *line;
    unsigned lines;
    uint64_t peak_bytes, budget_bytes;
    bool budget_chosen;    /* nobody gave one */
    uint64_t before_bytes; /* training: of the peak, what there is only before the steps */
} tool_bytes;
void tool_bytes_plan(FILE *file, const tool_bytes *bytes);
json_t *tool_bytes_json(const tool_bytes *bytes); /* the lines */
/* Accounts now and at their peak, and the process beside them. */
void tool_bytes_ledger(FILE *file, const mnem_ledger *ledger, uint64_t predicted_bytes);

/* ---- progress: one line on stderr that is overwritten; nothing when stderr isn't a terminal ----
 */
typedef struct tool_progress {
    const char *what; /* "loading" */
    double start, shown;
    double before; /* the part, 0 to 1, that was done before the start */
    bool terminal;
} tool_progress;
void tool_progress_begin(tool_progress *progress, const char *what);
/* Shows "what  42 %  12.3 MiB/s ..." once a second has passed. note may be NULL. Cheap to call
 * often. */
void tool_progress_step(tool_progress *progress, uint64_t done, uint64_t total, const char *note);
void tool_progress_end(tool_progress *progress);
void tool_progress_quiet(bool quiet); /* from now on none */
void tool_progress_hide(void); /* takes any progress line off the screen (tool_message does) */

/* ---- signals ---- */
/* From here on the first SIGINT, SIGTERM or SIGHUP sets the flag and cancels the session (NULL:
 * only the flag); the second exits at once. What a verb was writing is taken away on its way out.
 */
void tool_interrupt_watch(mnem_session *session);
/* The same for something else that a signal handler may call. */
void tool_interrupt_call(void (*function)(void *context), void *context);
bool tool_interrupted(void);
/* By another one than Ctrl-C: also what goes on after that ends. */
bool tool_interrupt_ends(void);
/* 128 + the signal's number; Ctrl-C's where it was cleared. */
int tool_interrupt_code(void);
void tool_interrupt_clear(void);
/* Readable while an interrupt isn't cleared, for poll; -1: there is none. */
int tool_interrupt_fd(void);

#endif
