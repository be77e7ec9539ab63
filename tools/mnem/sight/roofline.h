/* roofline.h: a model's operators under the roofs that a probe measured: none can take less than
 * its bytes at the rate of the level that they are in, or its multiply-adds at the peak of its type
 * (Williams, Waterman & Patterson, "Roofline: an insightful visual performance model", 2009). */
#ifndef MNEM_TOOLS_MNEM_SIGHT_ROOFLINE_H
#define MNEM_TOOLS_MNEM_SIGHT_ROOFLINE_H

#include "stage.h"

enum { ROOFLINE_MOST = 48 };

/* Nodes of one kind that write tensors of one name, in all layers. */
typedef struct roofline_op {
    const char *op; /* "matmul" */
    char name[32];  /* "q"; "" */
    int32_t count;
    uint64_t multiply_adds, bytes;
    const mnem_probe_level *level; /* where its bytes are */
    const char *type;              /* of its arithmetic: "int8"; NULL: it has none */
    double seconds;                /* at the least */
    bool arithmetic;               /* that is what limits it */
} roofline_op;

typedef struct roofline {
    const char *phase; /* "decode", "prefill" */
    int32_t tokens, past;
    roofline_op op[ROOFLINE_MOST];
    int count;
    uint64_t multiply_adds, bytes;
    double operators_s;      /* all of them, one after another */
    uint64_t streamed_bytes; /* from disk meanwhile */
    double seconds;          /* at the least: operators or disk */
} roofline;

/* Of a planned stage, from the programs that a run would execute. */
mnem_status roofline_make(const tool_stage *stage, const mnem_probe *probe, bool prefill,
                          roofline *r);
void roofline_print(const roofline *r);
json_t *roofline_json(const roofline *r); /* the caller's */
/* Roofs and, where there are any, operators. An exit code. */
int roofline_draw(const mnem_probe *probe, const roofline *list, int count, const char *title,
                  const char *path);

/* What the kept probe says a stage could reach, in tokens/s of each phase. */
typedef struct roofline_most {
    double generate, prompt;       /* 0: not known */
    double memory_rate, int8_rate; /* bytes/s, operations/s of all threads */
    double level_rate;             /* of the level that the model is swept from */
    char level[8];
    char when[TOOL_TEXT]; /* "mnem probe, 3 h ago" */
} roofline_most;
/* False when there is no probe of this machine. */
bool roofline_most_get(const tool_stage *stage, roofline_most *most);
json_t *roofline_most_json(const roofline_most *most);

#endif
