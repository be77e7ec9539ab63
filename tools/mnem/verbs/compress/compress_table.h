/* compress_table.h: measures gain and loss of a compression, on a text that it didn't use.
 *
 * A verb that writes a smaller model takes tool_compress_options, and:
 *
 *     tool_compress c;
 *     code = tool_compress_begin(&c, &o->compress, args, NULL);
 *     c.source = in, c.out = out, c.name = c.plain = "Q4_0", c.memory = o->memory;
 *     if (code == TOOL_OK) code = tool_compress_check(&c);   // before any work
 *     if (code == TOOL_OK) code = tool_compress_try(&c);     // could it be measured?
 *     if (code == TOOL_OK) ... writes tool_compress_path(&c) ...;
 *     if (code == TOOL_OK) code = tool_compress_end(&c);     // the table; nothing without --test
 */
#ifndef MNEM_TOOLS_MNEM_VERBS_COMPRESS_COMPRESS_TABLE_H
#define MNEM_TOOLS_MNEM_VERBS_COMPRESS_COMPRESS_TABLE_H

#include "options.h"

/* Options of the test; NULL and 0: not given. */
typedef struct tool_compress_asked {
    const char *test, *table;
    double max_loss; /* percent; valid if --max-loss was given */
    bool no_table;
} tool_compress_asked;
extern const tool_option tool_compress_options[];

enum { TOOL_COMPRESS_ROWS = 8 };

/* A row of the table: one model. */
typedef struct tool_compress_row {
    char name[32];
    bool source, result;       /* the reference of the comparison; the requested model */
    uint64_t bytes;            /* of the file */
    double bits;               /* bits per parameter, of its tensors */
    double perplexity, error;  /* and the standard error */
    double ratio, ratio_error; /* perplexity relative to the source's */
    double kl, kl_error, top1; /* relative to the source's predictions */
    double prompt_rate, rate;  /* tokens per second */
} tool_compress_row;

typedef struct tool_compress {
    const tool_args *args;
    tool_compress_asked *asked;
    const char *source, *out; /* paths */
    const char *name;         /* of the result's row */
    const char *plain;        /* the result's type, if it is a plain type; or NULL */
    uint64_t memory;          /* budget of the test, which runs models; 0: the default */
    int32_t context, threads;
    /* As tool_windows_text.skip: the tokens that a calibration used; NULL: another text. */
    int64_t (*seen)(const void *context, int64_t tokens);
    const void *seen_context;
    bool implied; /* the test wasn't requested: it is skipped if it is impossible */
    /* the rest is filled in */
    tool_compress_row row[TOOL_COMPRESS_ROWS];
    int rows;
    uint64_t tokens; /* whose predictions count */
    int32_t window;  /* in tokens */
} tool_compress;

/* Exit codes, with the message printed. */

/* Initializes it. Without a text of its own the test uses the part that a calibration on this text
 * leaves out (NULL: no calibration). */
int tool_compress_begin(tool_compress *compress, tool_compress_asked *asked, const tool_args *args,
                        const char *calibrated);
/* Checks that options are compatible, and files can be written. */
int tool_compress_check(const tool_compress *compress);
/* Checks before the long work that memory and text are enough for the test, with the source in
 * place of the result, which is smaller. If not, an implied test is cancelled with a message
 * (asked->test becomes NULL). */
int tool_compress_try(tool_compress *compress);
/* The path to write the result to: out, or a file beside it while --max-loss may still refuse
 * it. */
const char *tool_compress_path(const tool_compress *compress);
/* Measures source, result, and plain types of the source, which are written beside the result
 * and removed; prints the table, or its object, and writes --table's file. Renames the result to
 * out, or removes it if the loss is too large. */
int tool_compress_end(tool_compress *compress);

/* ---- the drawing (compress_draw.c) ---- */
int tool_compress_draw(const tool_compress *compress, const char *path);

#endif
