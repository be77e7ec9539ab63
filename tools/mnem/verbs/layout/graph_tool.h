/* graph_tool.h: how `mnem graph` shows a program. */
#ifndef MNEM_TOOLS_MNEM_VERBS_LAYOUT_GRAPH_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_LAYOUT_GRAPH_TOOL_H

#include "stage.h"

typedef struct graph_options {
    tool_args args;
    tool_session_asked session;
    tool_training_asked training;
    int32_t phase;
    const char *svg;
} graph_options;

typedef struct graph_program {
    mnem_graph *graph;
    mnem_graph_sizes sizes;
} graph_program;

/* Prints bytes, the savings of clean-up and sharing, and the tensors of the first layer. */
void graph_print(const graph_program *program);
json_t *graph_json(const graph_program *program); /* a new reference */
/* Draws nodes on the x axis, offsets on the y axis; the title is the model's file and the text.
 * Returns an exit code. */
int graph_draw(const tool_stage *stage, const graph_program *program, const char *path,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* graph_train.c: --phase train; the stage is open, but not planned. */
int graph_train(tool_stage *stage, const graph_options *asked);

#endif
