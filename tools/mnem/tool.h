/* tool.h: what the files of the mnem command share.
 *
 * One file per verb (verb_*.c): its options, its help, and an entry that takes the parsed arguments
 * and returns the exit code. Parsing, help, the man page and completion come from these tables
 * (options.h). Data goes to stdout through tool_out*, messages to stderr.
 *
 *     static int verb_info(const tool_args *args) {
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
typedef struct tool_option tool_option;
typedef struct tool_verb tool_verb;

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
/* The same for what failed in the tool itself. Returns TOOL_FAILED. */
int tool_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A message of what is over the budget, where no plan says it. Returns TOOL_OVER_BUDGET. */
int tool_over(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Before standard input is read: somebody who types it is told. */
void tool_say_waiting(void);
/* With --json a verb that failed ends with an object that says so: what the messages said. */
void tool_error_json(const tool_args *args, int code);
/* The same text, for other ranks; "" where nothing was said. */
void tool_failure_said(char *text, size_t n);
/* One more number or text in it. */
void tool_failure_bytes(const char *key, uint64_t bytes);
void tool_failure_text(const char *key, const char *text);

/* ---- plans that don't fit, in the command's words (refusal.c) ---- */
/* As tool_fail_asked; of a refusal the message names the option that would help and the least
 * --memory, and with --json the object of the failure has its numbers (needed 0: not known). */
int tool_fail_plan(mnem_status status, uint64_t needed_bytes, uint64_t budget_bytes,
                   mnem_knob knob);
/* The same of a rank, which the text names; more: another way, such as "one more rank, or ". Of a
 * list of budgets the least is the whole list, with another entry for this rank. */
int tool_fail_rank(const char *text, int32_t rank, uint64_t needed_bytes, uint64_t budget_bytes,
                   mnem_knob knob, const char *more);
/* The same of several together ("the model and its reference"), which no single plan says. */
int tool_fail_bytes(const char *who, uint64_t needed_bytes, uint64_t budget_bytes);
/* Of a plan for a device that holds too little: its capacity is the budget. */
int tool_fail_capacity(uint64_t needed_bytes, uint64_t capacity_bytes);
/* Of a model over devices. */
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

/* What every command line has; a verb's own struct begins with it (options.h). */
struct tool_args {
    const tool_verb *verb;
    int operands;
    const char *operand[TOOL_OPERANDS_MAX]; /* NULL past the last */
    bool given[TOOL_OPTIONS_MAX];           /* option i of the verb was on the command line */
    const char *model;                      /* --model's, which is the first operand then */
    bool json, quiet, verbose, help;
};

/* Texts of an option that may be given again. */
typedef struct tool_texts {
    const char *text[TOOL_SPACES_MAX];
    int count;
} tool_texts;

struct tool_verb {
    const char *name;
    struct {
        const char *operands; /* "[MODEL]" as the usage line shows it */
        int least, most;      /* operands */
        const char *summary;  /* one line */
        const char *text;     /* paragraphs of help, lines of at most 80 columns */
        const char *examples; /* lines: command, two spaces, "# what it does" */
    } about;
    const tool_option *options;
    tool_args *args; /* begins the struct that the options fill */
    int (*entry)(const tool_args *args);
    void (*defaults)(tool_args *args); /* those that a constant can't say; NULL: none */
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
extern const tool_verb *const tool_verbs[]; /* up to a NULL */

/* The verb of this command line. */
const char *tool_verb_name(void);
/* Parses the command line; on TOOL_OK *args are the verb's, and whole. Prints what is wrong
 * otherwise. */
int tool_parse(int argc, char **argv, const tool_args **args);
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
uint64_t tool_budget_bytes(const mnem_ledger *ledger);

/* ---- stdout ---- */
/* Writes text; false when nobody reads any more (EPIPE) or the write failed. */
bool tool_out(const char *text, size_t length);
bool tool_outf(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool tool_out_flush(void);
bool tool_out_closed(void); /* the reader went away or writing failed: stop making text */
/* Flushes; TOOL_OK also for a closed pipe, TOOL_FAILED (with a message) if writing failed. */
int tool_out_end(void);
/* Prints one JSON object on one line, flushes, and takes the reference. Its "type" says what the
 * line is, where it has none of its own. NULL: it couldn't be made, which counts as writing that
 * failed. */
bool tool_out_json(const char *type, json_t *value);
/* Text as it stands within quotes in JSON, of whole characters; context is not looked at. */
void tool_out_escaped(void *context, const char *text, size_t length);
/* null where it isn't finite, which JSON has no word for. */
json_t *tool_json_real(double value);
/* null where it isn't known: not above 0, or not said to be. */
json_t *tool_json_known(double value);
json_t *tool_json_count(bool known, uint64_t value);

/* ---- numbers as text; each returns its buffer ---- */
enum { TOOL_TEXT = 40 };
char *tool_size(uint64_t bytes, char text[TOOL_TEXT]);    /* "1.17 GiB" */
char *tool_exact(uint64_t number, char text[TOOL_TEXT]);  /* "1,258,291" */
char *tool_count(double number, char text[TOOL_TEXT]);    /* "5.2 M" */
char *tool_seconds(double seconds, char text[TOOL_TEXT]); /* "3.2 s", "12 min" */
double tool_clock(void);                                  /* seconds, monotonic */
int32_t tool_processors(void); /* which this process may use; 0: not known */
/* The most that the process had, as the kernel counts it. */
uint64_t tool_peak_bytes(void);
/* A path without its folders. */
const char *tool_file_name(const char *path);
/* "" for one, "s" for any other number: "%d token%s". */
const char *tool_s(uint64_t number);
/* Of the terminal; 0: it isn't one. */
int tool_columns(FILE *file);
/* Prints text wrapped at 80 columns, or at those of the terminal up to 100: `lead` before the
 * first line, later lines indented by its width. A
 * `command` is kept on one line. */
void tool_wrap(FILE *file, const char *lead, const char *text);
/* A row of a table, on two lines where both parts don't fit into the same columns as one. */
bool tool_out_row(const char *left, const char *right);
/* "FILE: what became of it". On a terminal that is too narrow for both, what follows the path
 * begins on a line of its own, so that the path can be copied; elsewhere it is one line. */
bool tool_out_result(const char *path, const char *text);
/* Is it a terminal that has colours, and does the user want them? */
bool tool_has_colours(FILE *file);
/* tool_wrap in the colour of what is only there to be glanced at, where there are colours. */
void tool_wrap_dim(FILE *file, const char *lead, const char *text);

/* ---- bytes as tables (bytes_table.c) ---- */
/* A plan's lines, which sum to its peak and what is kept. */
typedef struct tool_bytes {
    const mnem_plan_line *line;
    unsigned lines;
    uint64_t peak_bytes, budget_bytes;
    uint64_t kept_bytes;   /* serve: beside the peak, for requests that need more than usual */
    bool budget_chosen;    /* nobody gave one */
    uint64_t before_bytes; /* training: of the peak, what there is only before the steps */
} tool_bytes;
void tool_bytes_plan(FILE *file, const tool_bytes *bytes);
/* The peak and the sum of each kind, in two or three lines. */
void tool_bytes_plan_short(FILE *file, const tool_bytes *bytes);
json_t *tool_bytes_json(const tool_bytes *bytes); /* the lines */
/* What the kernel counted at the process's peak beyond the ledger's. */
uint64_t tool_bytes_unaccounted(const mnem_ledger *ledger);
/* Its accounts, now and at their peaks, and the sums. */
json_t *tool_ledger_json(const mnem_ledger *ledger);
/* Accounts now and at their peak, and the process beside them; short: its last line only. */
void tool_bytes_ledger_short(FILE *file, const mnem_ledger *ledger, uint64_t predicted_bytes,
                             uint64_t kept_bytes);
void tool_bytes_ledger(FILE *file, const mnem_ledger *ledger, uint64_t predicted_bytes,
                       uint64_t kept_bytes);

/* ---- text_check.c ---- */
typedef struct tool_text {
    const char *path, *name; /* the file, and what messages call it */
    const char *way_out;     /* behind a refusal; NULL: nothing */
    bool alone, quiet;       /* nothing else is read, so it mustn't be empty; no warning */
} tool_text;
/* Refuses a file that doesn't look like text, with the byte and what it looks like; bytes that
 * aren't UTF-8 are told. What can't be opened or isn't a file passes. An exit code. */
int tool_text_check(const tool_text *text);
/* Bytes of the UTF-8 character that begins at s (n > 0 bytes are there); more than n when it is cut
 * off; 0: none does. */
size_t tool_utf8_length(const unsigned char *s, size_t n);

/* ---- progress: one line on stderr that is overwritten; where stderr isn't a terminal nothing, or
 * a line now and then (tool_progress_lines) ---- */
typedef struct tool_progress {
    const char *what; /* "loading" */
    double start, shown;
    double before; /* the part, 0 to 1, that was done before the start */
    bool terminal, lines;
} tool_progress;
void tool_progress_begin(tool_progress *progress, const char *what);
/* Shows "what  42 %  12.3 MiB/s ..." once a second has passed. note may be NULL. Cheap to call
 * often. */
void tool_progress_step(tool_progress *progress, uint64_t done, uint64_t total, const char *note);
/* The library's progress as steps of one (context), and whether to go on. */
bool tool_progress_tell(void *progress, const char *what, uint64_t done, uint64_t total);
void tool_progress_end(tool_progress *progress);
void tool_progress_quiet(bool quiet); /* from now on none */
/* From now on also where stderr isn't a terminal: a line every MNEM_PROGRESS seconds. */
void tool_progress_lines(void);
void tool_progress_hide(void); /* takes any progress line off the screen (tool_message does) */

/* ---- signals ---- */
/* From here on the first SIGINT, SIGTERM or SIGHUP sets the flag and cancels the session (NULL:
 * only the flag); the second exits at once. What a verb was writing is taken away on its way out.
 */
void tool_interrupt_watch(mnem_session *session);
/* The same for something else that a signal handler may call; with a context of NULL nothing is
 * called. */
void tool_interrupt_call(void (*function)(void *context), void *context);
/* Called where a second signal leaves at once; what a signal handler may do. */
void tool_interrupt_leave(void (*function)(void));
bool tool_interrupted(void);
/* As that signal does; from any thread. */
void tool_interrupt_stop(int number);
/* By another one than Ctrl-C: also what goes on after that ends. */
bool tool_interrupt_ends(void);
/* 128 + the signal's number; Ctrl-C's where it was cleared. */
int tool_interrupt_code(void);
void tool_interrupt_clear(void);
/* Readable while an interrupt isn't cleared, for poll; -1: there is none. */
int tool_interrupt_fd(void);

#endif
