/* engine_text.h: the sentences of a plan. */
#ifndef MNEM_SRC_ENGINE_ENGINE_TEXT_H
#define MNEM_SRC_ENGINE_ENGINE_TEXT_H

#include "engine/engine_search.h"

/* Why the plan is as it is: plan->why, from the filled plan. */
void mnem__engine_why(mnem_engine_plan *plan, const mnem__transformer_map *map);
/* What another way would change: "2 MiB from disk for every token, chunks of 64". */
void mnem__engine_change(const mnem__search *search, const mnem__way *from, const mnem__way *to,
                         char *out, size_t n);

#endif
