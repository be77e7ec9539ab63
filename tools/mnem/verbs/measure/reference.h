/* reference.h: a second model beside a verb's own, inside the same budget.
 *
 * Both run the same tokens in turns, a few at a time, and the reference's logits wait in a buffer
 * for the model's. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_REFERENCE_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_REFERENCE_H

#include "stage.h"

typedef struct tool_reference {
    tool_stage stage; /* its model and session; the ledger is the verb's own */
    int32_t rows;     /* tokens whose logits wait */
    float *logits;    /* [rows][vocab] */
    uint64_t logits_bytes;
} tool_reference;

/* Exit codes, with the message printed; close is needed in any case, before the model's stage is
 * closed. */

/* After the model is open. Another vocabulary than the model's is refused. */
int tool_reference_open(tool_reference *reference, const tool_stage *model, const char *path);
/* Plans both, each with the model's options, so that they fit together and a text takes the least
 * time; what doesn't fit is refused with the bytes of both. model->plan is of all that there will
 * be. logits: how many of a text's window are compared. */
int tool_reference_plan(tool_reference *reference, tool_stage *model, int32_t logits);
/* Loads both. */
int tool_reference_create(tool_reference *reference, tool_stage *model);
void tool_reference_close(tool_reference *reference);

#endif
