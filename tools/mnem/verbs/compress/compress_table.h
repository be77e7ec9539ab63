/* compress_table.h: what a compression gained and what it lost, on a text that it didn't see.
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

/* What is asked of the test; NULL and 0: not given. */
typedef struct tool_compress_asked {
    const char *test, *table;
    double max_loss; /* percent; counts where --max-loss is given */
    bool no_table;
} tool_compress_asked;
extern const tool_option tool_compress_options[];

enum { TOOL_COMPRESS_ROWS = 8 };

/* A model of the table. */
typedef struct tool_compress_row {
    char name[32];
    bool source, result;       /* what all are compared with; what was asked for */
    uint64_t bytes;            /* of the file */
    double bits;               /* of its tensors, for each parameter */
    double perplexity, error;  /* and its standard error */
    double ratio, ratio_error; /* of the perplexity to the source's */
    double kl, kl_error, top1; /* from the source's predictions */
    double prompt_rate, rate;  /* tokens per second */
} tool_compress_row;

typedef struct tool_compress {
    const tool_args *args;
    tool_compress_asked *asked;
    const char *source, *out; /* paths */
    const char *name;         /* of the result's row */
    const char *plain;        /* the type that the result simply is; NULL: none */
    uint64_t memory;          /* of the test, which runs models; with 0 the defaults */
    int32_t context, threads;
    /* As of tool_windows_text: what a calibration has seen of the text; NULL: it is another. */
    int64_t (*seen)(const void *context, int64_t tokens);
    const void *seen_context;
    bool implied; /* nobody asked for the test: where it can't be, none is made */
    /* the rest is filled in */
    tool_compress_row row[TOOL_COMPRESS_ROWS];
    int rows;
    uint64_t tokens; /* whose predictions count */
    int32_t window;  /* in tokens */
} tool_compress;

/* Exit codes, with the message printed. */

/* Makes one. Without a text of its own the test is on what a calibration on this text keeps apart
 * (NULL: there is none). */
int tool_compress_begin(tool_compress *compress, tool_compress_asked *asked, const tool_args *args,
                        const char *calibrated);
/* Do the options go together, can files be written under their names? */
int tool_compress_check(const tool_compress *compress);
/* What the test would fail with for lack of memory or text, before the long work. The source stands
 * for the result, which is smaller. A test that is implied is called off then (asked->test is NULL
 * from then on), and why is said. */
int tool_compress_try(tool_compress *compress);
/* Where the result is written: out, or beside it as long as --max-loss may refuse it. */
const char *tool_compress_path(const tool_compress *compress);
/* Measures source and result, and between them what the source's plain types give, which are
 * written beside the result and taken away; prints the table, or its object, and writes --table's
 * file. The result gets its name, or is taken away where it lost too much. */
int tool_compress_end(tool_compress *compress);

/* ---- the drawing (compress_draw.c) ---- */
int tool_compress_draw(const tool_compress *compress, const char *path);

#endif
