/* tool.h: shared by all files of the mnem command.
 *
 * One file per verb (verb_*.c): its options, its help, and an entry that receives the parsed
 * arguments and returns the exit code. Parsing, help, the man page and completion come from
 * these tables (options.h). Data goes to stdout through tool_out*, messages to stderr.
 *
 *     static int verb_info(const tool_args *args) {
 *         mnem_model *model;
 *         mnem_status status = mnem_model_open(args->operand[0], &model);
 *         if (status != MNEM_OK) return tool_fail(status);
 *         ...
 *         mnem_model_close(model);
 *         return tool_out_end();
 *     }
 * */
#ifndef MNEM_TOOLS_MNEM_TOOL_H
#define MNEM_TOOLS_MNEM_TOOL_H

#include <stdio.h>

#include <jansson.h>

#include "mnem/mnem.h"

typedef struct tool_args tool_args;
typedef struct tool_option tool_option;
typedef struct tool_verb tool_verb;

/* ---- exit codes ---- */
enum {
    TOOL_OK = 0,
    TOOL_FAILED = 1,
    TOOL_USAGE = 2,
    TOOL_OVER_BUDGET = 3,
    TOOL_INTERRUPTED = 130, /* by a signal; main adds its number to 128 */
};
/* Prints "mnem: <last error>" and returns the exit code of a failed status (CANCELLED: 130, prints
 * nothing). */
int tool_fail(mnem_status status);
/* The same, with advice appended. */
int tool_fail_with(mnem_status status, const char *advice);
/* The same if MNEM_INVALID is caused by the command line: it becomes wrong usage. */
int tool_fail_asked(mnem_status status);
/* Prints "mnem: <text>" on stderr; removes a progress line first. */
void tool_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, and a line that points to the verb's help. Returns TOOL_USAGE. */
int tool_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for failures of the command itself. Returns TOOL_FAILED. */
int tool_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a refusal for lack of budget that isn't a plan's. Returns TOOL_OVER_BUDGET. */
int tool_over(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Call it before reading standard input: on a terminal it says that input is expected. */
void tool_say_waiting(void);
/* With --json a failed verb ends with an object that has the text of the messages. */
void tool_error_json(const tool_args *args, int code);
/* The text of the messages so far, for other ranks; "": none. */
void tool_failure_said(char *text, size_t n);
/* Adds a number or a text to that object. */
void tool_failure_bytes(const char *key, uint64_t bytes);
void tool_failure_text(const char *key, const char *text);

/* ---- plans that don't fit, in the command's words (refusal.c) ---- */
/* As tool_fail_asked; the message of a refusal names the option that would help and the least
 * --memory, and with --json the failure's object has its numbers (needed 0: unknown). */
int tool_fail_plan(mnem_status status, uint64_t needed_bytes, uint64_t budget_bytes,
                   mnem_knob knob);
/* The same for a rank, which the text names; more: another remedy, such as "one more rank, or ".
 * With a list of budgets the least is the whole list, with a new entry for this rank. */
int tool_fail_rank(const char *text, int32_t rank, uint64_t needed_bytes, uint64_t budget_bytes,
                   mnem_knob knob, const char *more);
/* The same for several plans together ("the model and its reference"). */
int tool_fail_bytes(const char *who, uint64_t needed_bytes, uint64_t budget_bytes);
/* The same for a device that is too small: its capacity is the budget. */
int tool_fail_capacity(uint64_t needed_bytes, uint64_t capacity_bytes);
/* The same for a model divided over devices. */
int tool_fail_split(const mnem_engine_split *split, const mnem_engine_device *devices,
                    int32_t count);

/* ---- verbs and arguments ---- */
enum {
    TOOL_OPERANDS_MAX = 64,
    TOOL_STOPS_MAX = 8,
    TOOL_ADAPTERS_MAX = 8,
    TOOL_SPACES_MAX = 32,
    TOOL_OPTIONS_MAX = 96
};

/* Common to all command lines; a verb's own struct begins with it (options.h). */
struct tool_args {
    const tool_verb *verb;
    int operands;
    const char *operand[TOOL_OPERANDS_MAX]; /* NULL behind the last one */
    bool given[TOOL_OPTIONS_MAX];           /* option i of the verb was on the command line */
    const char *model; /* the value of --model, which then is the first operand */
    bool json, quiet, verbose, help;
};

/* The texts of an option that may be given several times. */
typedef struct tool_texts {
    const char *text[TOOL_SPACES_MAX];
    int count;
} tool_texts;

struct tool_verb {
    const char *name;
    struct {
        const char *operands; /* as in the usage line: "[MODEL]" */
        int least, most;      /* number of operands */
        const char *summary;  /* one line */
        const char *text;     /* paragraphs of help, lines of at most 80 columns */
        const char *examples; /* lines: a command, two spaces, "# effect" */
    } about;
    const tool_option *options;
    tool_args *args; /* the start of the struct that options set */
    int (*entry)(const tool_args *args);
    void (*defaults)(tool_args *args); /* sets defaults that aren't constants; NULL: none */
};

/* X(NAME): tool_verb_NAME is the verb, in verb_NAME.c; in the order of `mnem help`. */
#define TOOL_VERB_LIST(X)                                                                          \
    X(run)                                                                                         \
    X(serve)                                                                                       \
    X(batch)                                                                                       \
    X(plan)                                                                                        \
    X(advise)                                                                                      \
    X(graph)                                                                                       \
    X(place)                                                                                       \
    X(info)                                                                                        \
    X(bench)                                                                                       \
    X(probe)                                                                                       \
    X(convert)                                                                                     \
    X(quantize)                                                                                    \
    X(merge)                                                                                       \
    X(prune)                                                                                       \
    X(train)                                                                                       \
    X(perplexity)                                                                                  \
    X(embed)                                                                                       \
    X(tokenize)                                                                                    \
    X(template)                                                                                    \
    X(replay)                                                                                      \
    X(report)                                                                                      \
    X(top)                                                                                         \
    X(help)                                                                                        \
    X(version)

#define TOOL_VERB_DECLARE(name) extern const tool_verb tool_verb_##name;
TOOL_VERB_LIST(TOOL_VERB_DECLARE)
#undef TOOL_VERB_DECLARE
extern const tool_verb *const tool_verbs[]; /* ends with NULL */

/* The verb of this command line. */
const char *tool_verb_name(void);
/* Parses the command line; on TOOL_OK *args is the verb's complete struct. Otherwise prints the
 * error. */
int tool_parse(int argc, char **argv, const tool_args **args);
/* Whether the option ("seed") was given. */
bool tool_given(const tool_args *args, const char *name);
/* The value of an environment variable of the table; NULL: unset or empty. */
const char *tool_env(const char *name);
/* The model's path: the first operand, $MNEM_MODEL, or the model that ships with mnem. NULL, with a
 * message: there is none. Static storage. */
const char *tool_model_path(const tool_args *args);
/* The same without an operand and without a message. */
const char *tool_model_default(void);

/* The bytes that a plan may use: the budget, or the ledger's choice if none was given (stage.c). */
uint64_t tool_budget_bytes(const mnem_ledger *ledger);

/* ---- stdout ---- */
/* Writes text; false: the pipe was closed (EPIPE), or the write failed. */
bool tool_out(const char *text, size_t length);
bool tool_outf(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool tool_out_flush(void);
bool tool_out_closed(void); /* the pipe was closed, or a write failed: stop */
/* Flushes; TOOL_OK, also for a closed pipe; TOOL_FAILED, with a message: a write failed. */
int tool_out_end(void);
/* Prints a JSON object on one line, flushes, and releases the reference. Adds "type" unless the
 * object has one. value NULL: out of memory, which counts as a failed write. */
bool tool_out_json(const char *type, json_t *value);
/* Prints text escaped for a JSON string; text consists of whole characters; context is unused. */
void tool_out_escaped(void *context, const char *text, size_t length);
/* A number; null if it isn't finite, which JSON can't represent. */
json_t *tool_json_real(double value);
/* A number; null if it is unknown: not above 0, or `known` is false. */
json_t *tool_json_known(double value);
json_t *tool_json_count(bool known, uint64_t value);

/* ---- numbers as text; each returns its buffer ---- */
enum { TOOL_TEXT = 40 };
char *tool_size(uint64_t bytes, char text[TOOL_TEXT]);    /* "1.17 GiB" */
char *tool_exact(uint64_t number, char text[TOOL_TEXT]);  /* "1,258,291" */
char *tool_count(double number, char text[TOOL_TEXT]);    /* "5.2 M" */
char *tool_seconds(double seconds, char text[TOOL_TEXT]); /* "3.2 s", "12 min" */
double tool_clock(void);                                  /* seconds, monotonic */
int32_t tool_processors(void); /* number that this process may use; 0: unknown */
/* The peak RSS of the process, as the kernel counts it. */
uint64_t tool_peak_bytes(void);
/* A path without its folders. */
const char *tool_file_name(const char *path);
/* "" for one, "s" for any other number: "%d token%s". */
const char *tool_s(uint64_t number);
/* The terminal's columns; 0: not a terminal. */
int tool_columns(FILE *file);
/* Prints text wrapped at 80 columns, on a terminal at its columns up to 100: `lead` before the
 * first line, later lines indented by its width. A `command` stays on one line. */
void tool_wrap(FILE *file, const char *lead, const char *text);
/* Prints a row of a table, on two lines if both parts don't fit on one. */
bool tool_out_row(const char *left, const char *right);
/* Prints "PATH: text". On a terminal that is too narrow, text begins on a line of its own, so
 * that the path can be copied; elsewhere it is one line. */
bool tool_out_result(const char *path, const char *text);
/* Whether it is a terminal with colours, and the user hasn't turned them off. */
bool tool_has_colours(FILE *file);
/* tool_wrap in a dim colour, if there are colours. */
void tool_wrap_dim(FILE *file, const char *lead, const char *text);

/* ---- bytes as tables (bytes_table.c) ---- */
/* A plan's lines, whose sum is its peak and kept_bytes. */
typedef struct tool_bytes {
    const mnem_plan_line *line;
    unsigned lines;
    uint64_t peak_bytes, budget_bytes;
    uint64_t kept_bytes;   /* serve: beyond the peak, for requests that need more than usual */
    bool budget_chosen;    /* no budget was given */
    uint64_t before_bytes; /* training: part of the peak that exists only before the steps */
} tool_bytes;
void tool_bytes_plan(FILE *file, const tool_bytes *bytes);
/* Prints the peak and the sum of each kind, in two or three lines. */
void tool_bytes_plan_short(FILE *file, const tool_bytes *bytes);
json_t *tool_bytes_json(const tool_bytes *bytes); /* the lines */
/* Bytes at the process's peak RSS that the ledger doesn't count. */
uint64_t tool_bytes_unaccounted(const mnem_ledger *ledger);
/* The accounts, now and at their peaks, and the sums. */
json_t *tool_ledger_json(const mnem_ledger *ledger);
/* Prints the accounts, now and at their peaks, and the process's memory; short: the last line
 * only. */
void tool_bytes_ledger_short(FILE *file, const mnem_ledger *ledger, uint64_t predicted_bytes,
                             uint64_t kept_bytes);
void tool_bytes_ledger(FILE *file, const mnem_ledger *ledger, uint64_t predicted_bytes,
                       uint64_t kept_bytes);

/* ---- text_check.c ---- */
typedef struct tool_text {
    const char *path, *name; /* the file, and its name in messages */
    const char *way_out;     /* advice behind a refusal; NULL: none */
    bool alone, quiet;       /* alone: the only file, so it mustn't be empty; quiet: no warnings */
} tool_text;
/* Refuses a file that isn't text, with the offending byte and the likely format; warns of bytes
 * that aren't UTF-8. A path that can't be opened or isn't a file passes. Returns an exit code. */
int tool_text_check(const tool_text *text);
/* The bytes of the UTF-8 character at s, which has n > 0 bytes; more than n: it is incomplete;
 * 0: not UTF-8. */
size_t tool_utf8_length(const unsigned char *s, size_t n);

/* ---- progress: one line on stderr that is overwritten; if stderr isn't a terminal, nothing, or a
 * line at intervals (tool_progress_lines) ---- */
typedef struct tool_progress {
    const char *what; /* "loading" */
    double start, shown;
    double before; /* part (0 to 1) done before the start */
    bool terminal, lines;
} tool_progress;
void tool_progress_begin(tool_progress *progress, const char *what);
/* Shows "what  42 %  12.3 MiB/s ...", at most once a second. note may be NULL. Frequent calls are
 * cheap. */
void tool_progress_step(tool_progress *progress, uint64_t done, uint64_t total, const char *note);
/* A progress callback for the library; progress is its context. Returns whether to continue. */
bool tool_progress_tell(void *progress, const char *what, uint64_t done, uint64_t total);
void tool_progress_end(tool_progress *progress);
void tool_progress_quiet(bool quiet); /* no progress from now on */
/* Prints progress also if stderr isn't a terminal: a line every MNEM_PROGRESS seconds. */
void tool_progress_lines(void);
void tool_progress_hide(void); /* erases a progress line (tool_message does) */

/* ---- signals ---- */
/* From here on the first SIGINT, SIGTERM or SIGHUP sets the flag and cancels the session (NULL:
 * only sets the flag); the second one removes a partially written file and exits at once. */
void tool_interrupt_watch(mnem_session *session);
/* The same with another function, which must be safe in a signal handler; context NULL: no call. */
void tool_interrupt_call(void (*function)(void *context), void *context);
/* Sets a function that is called when a second signal exits; it must be safe in a signal
 * handler. */
void tool_interrupt_leave(void (*function)(void));
bool tool_interrupted(void);
/* Acts as that signal does; callable from any thread. */
void tool_interrupt_stop(int number);
/* Whether the signal was another one than Ctrl-C, which also ends work that Ctrl-C leaves
 * running. */
bool tool_interrupt_ends(void);
/* 128 + the signal's number; that of Ctrl-C after a clear. */
int tool_interrupt_code(void);
void tool_interrupt_clear(void);
/* A descriptor for poll, readable until an interrupt is cleared; -1: not available. */
int tool_interrupt_fd(void);

#endif
