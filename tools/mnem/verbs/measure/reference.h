/* reference.h: a second model beside a verb's own, inside the same budget.
 *
 * Both run the same tokens alternately, a few at a time; the reference's logits are buffered
 * until the model's are there. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_REFERENCE_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_REFERENCE_H

#include "stage.h"

typedef struct tool_reference {
    tool_stage stage; /* its model and session; the ledger is shared with the verb */
    int32_t kv;       /* a mnem_kv_choice, of its keys and values; -1: that of the model's */
    int32_t rows;     /* number of buffered rows */
    float *logits;    /* [rows][vocab] */
    uint64_t logits_bytes;
} tool_reference;

/* All return exit codes and print errors; call close in any case, before the model's stage is
 * closed. */

/* Call it after the model is open. Refuses another vocabulary than the model's. */
int tool_reference_open(tool_reference *reference, const tool_stage *model, const char *path);
/* Plans both with the model's options, so that they fit together and take the least time for a
 * text; a refusal names the bytes of both. model->plan covers both. logits: number of
 * predictions of a window that are compared. */
int tool_reference_plan(tool_reference *reference, tool_stage *model, int32_t logits);
/* Loads both. */
int tool_reference_create(tool_reference *reference, tool_stage *model);
void tool_reference_close(tool_reference *reference);

#endif
