/* speed.h: tokens per second of a session: in a prompt, and generated one by one. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_SPEED_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_SPEED_H

#include "stage.h"

enum { TOOL_SPEED_MOST = 16384 }; /* largest number of tokens of a measurement */

/* Measures from an empty context: the best of the repeats after a warm-up, with progress. Tokens
 * are pseudo-random, which doesn't change the work. */
typedef mnem_status tool_speed(tool_stage *stage, int32_t tokens, int32_t repeats, double *rate);
tool_speed tool_speed_prompt, tool_speed_tokens;
/* All sequences of the plan at once, each generating so many tokens. */
tool_speed tool_speed_together;

#endif
