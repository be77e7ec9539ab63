/* machine.h: how fast this machine reads memory and a model's file. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_MACHINE_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_MACHINE_H

#include "sight/profile_age.h"
#include "stage.h"

/* Bytes a second: the best of passes over a block larger than the caches, inside the budget, with
 * the plan's threads; 0: the budget has no room for one. Exit code, with the message printed. */
int tool_machine_memory(tool_stage *stage, double *bytes_per_s);
/* The same with the load meanwhile and the time in age, where there is room to measure. */
int tool_machine_loaded(tool_stage *stage, double *bytes_per_s, tool_profile_age *age);
/* Bytes a second of the model's file, read in order past the page cache for a second at most; 0
 * where the file system can't read past it, since the cache's speed says nothing. */
double tool_machine_disk(const tool_stage *stage);

/* Measures stage->profile again, without the session, whose memory it gives back. Of two
 * measurements the faster one is kept: others can only slow one down. age->again_at becomes the
 * time, or 0 where the budget has no room to measure. */
int tool_machine_again(tool_stage *stage, tool_profile_age *age);

#endif
