/* snapshots_case.h: an engine with recurrent layers, and the logits of a text that never was cut.
 *
 * The convolutions of lfm2 stand in for recurrent layers, as in test_live_states.c. */
#ifndef MNEM_TESTS_ENGINE_SNAPSHOTS_SNAPSHOTS_CASE_H
#define MNEM_TESTS_ENGINE_SNAPSHOTS_SNAPSHOTS_CASE_H

#include "engine/engine_private.h"
#include "engine/pages/saved_case.h"

enum { EVERY = 32 };

/* Snapshots at each multiple of EVERY tokens, room for 12 of 3 sequences. */
extern const mnem_engine_options snapshots_plain;

/* The set-up of the group. */
int prepare(void **state);
/* snapshots_plain with another chunk and another number of snapshots. */
void open_with(engine_case *c, int32_t chunk, int32_t snapshots);
/* Goes on with the text up to end; fails if the logits differ from those of the text that never was
 * cut. Returns the tokens that ran again. */
int32_t check(engine_case *c, mnem_sequence *s, int32_t end);
mnem_engine_pages pages_of(const engine_case *c);

#endif
