/* machine.h: measures how fast this machine reads memory and a model's file. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_MACHINE_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_MACHINE_H

#include "sight/profile_age.h"
#include "stage.h"

/* Bytes/s: the best of several passes over a block larger than the caches, inside the budget,
 * with the plan's threads; 0: the budget is too small for a block. Returns an exit code; prints
 * the error. */
int tool_machine_memory(tool_stage *stage, double *bytes_per_s);
/* The same; sets the load during the measurement and its time in age, if it was possible. */
int tool_machine_loaded(tool_stage *stage, double *bytes_per_s, tool_profile_age *age);
/* Bytes/s of the model's file, read in order without the page cache, for at most a second; 0:
 * the file system can't bypass the cache. */
double tool_machine_disk(const tool_stage *stage);

/* Measures stage->profile again, after it closed the session to free its memory. The faster of
 * the two measurements is stored: other programs can only slow one down. age->again_at becomes
 * the time, or 0 if the budget is too small to measure. */
int tool_machine_again(tool_stage *stage, tool_profile_age *age);

#endif
