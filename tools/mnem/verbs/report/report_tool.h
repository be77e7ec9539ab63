/* report_tool.h: shared by the files of `mnem report`. */
#ifndef MNEM_TOOLS_MNEM_VERBS_REPORT_REPORT_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_REPORT_REPORT_TOOL_H

#include "options.h"

enum { REPORT_CONDITIONS_MAX = 32 };

typedef struct report_options {
    tool_args args;
    const char *html, *fail_on;
    int32_t device, rank;
} report_options;

/* ---- conditions of --fail-on (report_condition.c) ---- */
typedef struct report_condition {
    mnem_report_metric metric;
    char sign[3]; /* "<", "<=", ">", ">=", "==", "!=" */
    double limit;
    const char *text; /* part of the command line, without a terminating zero */
    int length;
} report_condition;

typedef struct report_conditions {
    report_condition of[REPORT_CONDITIONS_MAX];
    int count;
} report_conditions;

/* Parses conditions; TOOL_OK, or wrong usage with a message. text NULL: no conditions. */
int report_conditions_parse(const char *text, report_conditions *conditions);
/* Prints on stderr which conditions hold; TOOL_FAILED if one holds, or can't be evaluated. */
int report_conditions_check(const report_conditions *conditions, const mnem_report_facts *facts);
/* An array of objects: condition, value, failed. */
json_t *report_conditions_json(const report_conditions *conditions, const mnem_report_facts *facts);

/* ---- runs of the history (report_run.c) ---- */
typedef struct report_run {
    mnem_history_run run;
    mnem_report_facts facts; /* facts of the run below */
    char path[160], program[32];
    mnem_report_owner owner[8];
    mnem_report_operator phase[MNEM_PHASE_COUNT];
} report_run;
/* Whether an operand is a folder, or a number that isn't the name of a file. */
bool report_run_named(const char *operand);
/* Exit code, with the message printed. */
int report_run_open(const char *operand, report_run *run);

/* ---- output ---- */
void report_print(const mnem_report_facts *facts); /* report_text.c */
/* The cells of a line for each rank of a trace, under these columns. */
enum { REPORT_RANK_CELLS = 8 };
extern const char *const report_rank_columns[REPORT_RANK_CELLS + 1]; /* NULL at the end */
void report_rank_cells(const mnem_report_facts *facts, char cell[REPORT_RANK_CELLS][TOOL_TEXT]);
void report_ranks(mnem_report *const *reports, int count);
json_t *report_ranks_json(mnem_report *const *reports, int count);
void report_compare(const mnem_report_facts *const facts[2]); /* report_compare.c */
/* One report, without "type" and conditions (report_json.c). */
json_t *report_json(const mnem_report_facts *facts);
/* Writes the page to path (report_html.c), with a table of all ranks if there are several.
 * Returns an exit code; prints the error. */
int report_html(mnem_report *report, mnem_report *const *ranks, int count, const char *path);
json_t *report_compare_json(const mnem_report_facts *const facts[2]);

/* ---- texts (report_text.c); each returns its buffer ---- */
/* A time, or a number of operations: "3.2 s", "41 ms", "1,234 operations". */
char *report_time(const mnem_report_facts *facts, uint64_t time, char text[TOOL_TEXT]);
/* A metric's value in its unit: "812 MiB", "12.3 %", "3"; "-": unknown. */
char *report_value(const mnem_report_facts *facts, mnem_report_metric metric, char text[TOOL_TEXT]);
/* The unit of an operator's count: "times", or "tokens" or "steps" of a phase of the history. */
const char *report_unit(const mnem_report_operator *o);
/* longest: the longest single time of an operator. rate: the bytes moved, or the operations (a
 * multiply-add is two), in billions per second. "-": unknown. */
char *report_longest(const mnem_report_facts *f, const mnem_report_operator *o,
                     char text[TOOL_TEXT]);
char *report_rate(const mnem_report_operator *o, bool operations, char text[TOOL_TEXT]);
/* The site, "train.py:41 forward", or kind and tag without one, in `room` columns. */
char *report_owner_text(const char *kind, const char *tag, const char *site, int room,
                        char text[TOOL_TEXT * 8]);
/* The three lines of the verdict, without the words before them. */
enum { REPORT_VERDICTS = 3, REPORT_VERDICT_TEXT = 400 };
typedef struct report_verdict {
    char line[REPORT_VERDICTS][REPORT_VERDICT_TEXT];
} report_verdict;
extern const char *const report_verdict_word[REPORT_VERDICTS]; /* "peak", "room", "leaks" */
void report_verdict_make(const mnem_report_facts *facts, report_verdict *verdict);

#endif
