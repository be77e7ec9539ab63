/* roofline.h: a model's operators and the roofs that a probe measured: an operator needs at
 * least the time of its bytes at the rate of their level, and that of its multiply-adds at the
 * peak of its type (Williams, Waterman & Patterson, "Roofline: an insightful visual performance
 * model", 2009). */
#ifndef MNEM_TOOLS_MNEM_SIGHT_ROOFLINE_H
#define MNEM_TOOLS_MNEM_SIGHT_ROOFLINE_H

#include "stage.h"

enum { ROOFLINE_MOST = 48 };

/* All nodes of one kind that write tensors of one name, over all layers. */
typedef struct roofline_op {
    const char *op; /* "matmul" */
    char name[32];  /* "q"; "" */
    int32_t count;
    uint64_t multiply_adds, bytes;
    const mnem_probe_level *level; /* the level that holds its bytes */
    const char *type;              /* the type of its arithmetic: "int8"; NULL: none */
    double seconds;                /* at the least */
    bool arithmetic;               /* limited by arithmetic, not by bytes */
} roofline_op;

typedef struct roofline {
    const char *phase; /* "decode", "prefill" */
    int32_t tokens, past;
    roofline_op op[ROOFLINE_MOST];
    int count;
    uint64_t multiply_adds, bytes;
    double operators_s;      /* the sum of all operators */
    uint64_t streamed_bytes; /* read from disk at the same time */
    double seconds;          /* lower bound: the larger of operators and disk */
} roofline;

/* Makes the roofline of a planned stage, from the programs that a run would execute. */
mnem_status roofline_make(const tool_stage *stage, const mnem_probe *probe, bool prefill,
                          roofline *r);
void roofline_print(const roofline *r);
json_t *roofline_json(const roofline *r); /* a new reference */
/* Draws roofs and, if there are any, operators. Returns an exit code. */
int roofline_draw(const mnem_probe *probe, const roofline *list, int count, const char *title,
                  const char *path);

/* The upper bounds of a stage by the stored probe, in tokens/s of each phase. */
typedef struct roofline_most {
    double generate, prompt;       /* 0: unknown */
    double memory_rate, int8_rate; /* bytes/s and operations/s of all threads */
    double level_rate;             /* rate of the level that the model is read from */
    char level[8];
    char when[TOOL_TEXT]; /* "mnem probe, 3 h ago" */
} roofline_most;
/* False: there is no probe of this machine. */
bool roofline_most_get(const tool_stage *stage, roofline_most *most);
json_t *roofline_most_json(const roofline_most *most);

#endif
