/* engine_knob.h: the option of an engine (chunk, KV type or context) that would make it fit. */
#ifndef MNEM_SRC_ENGINE_ENGINE_KNOB_H
#define MNEM_SRC_ENGINE_ENGINE_KNOB_H

#include "mnem/session.h"
#include "plan/plan_knob.h"

enum { MNEM__CONTEXT_LEAST = 16 }; /* no smaller context is chosen or suggested */

/* Tries the options in the order of what a change costs. Kind MNEM_KNOB_NONE: no single change is
 * enough. */
typedef bool mnem__options_fit(void *owner, const mnem_engine_options *options);
mnem_knob mnem__engine_knob(const mnem_engine_options *asked, mnem__options_fit *fit, void *owner);

#endif
