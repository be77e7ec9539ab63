/* layer_schedule.h: making schedules of layers (mnem_layer_schedule). */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_LAYER_SCHEDULE_H
#define MNEM_SRC_MODEL_ARCHITECTURE_LAYER_SCHEDULE_H

#include "mnem/model.h"

/* Makes it a list, which has this layer too. */
void mnem__layer_schedule_add(mnem_layer_schedule *schedule, int32_t layer);
/* The same for so many layers: ALL or BUT_EVERY where one of them says it. */
mnem_layer_schedule mnem__layer_schedule_simple(const mnem_layer_schedule *schedule,
                                                int32_t layers);

#endif
