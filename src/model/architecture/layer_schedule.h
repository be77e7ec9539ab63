/* layer_schedule.h: builds schedules of layers (mnem_layer_schedule). */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_LAYER_SCHEDULE_H
#define MNEM_SRC_MODEL_ARCHITECTURE_LAYER_SCHEDULE_H

#include "mnem/model.h"

/* Makes it a list with this layer added. */
void mnem__layer_schedule_add(mnem_layer_schedule *schedule, int32_t layer);
/* An equal schedule for this many layers in a simpler form, ALL or BUT_EVERY, if there is one. */
mnem_layer_schedule mnem__layer_schedule_simple(const mnem_layer_schedule *schedule,
                                                int32_t layers);

#endif
