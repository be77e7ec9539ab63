/* engine_text.h: the explanations of a plan. */
#ifndef MNEM_SRC_ENGINE_ENGINE_TEXT_H
#define MNEM_SRC_ENGINE_ENGINE_TEXT_H

#include "engine/engine_search.h"

/* Sets plan->why, the reasons for a complete plan's choices. */
void mnem__engine_why(mnem_engine_plan *plan, const mnem__transformer_map *map);
/* Describes what another way would change: "2 MiB from disk for every token, chunks of 64". */
void mnem__engine_change(const mnem__search *search, const mnem__way *from, const mnem__way *to,
                         char *out, size_t n);

#endif
