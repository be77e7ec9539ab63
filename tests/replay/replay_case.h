/* replay_case.h: workloads and replays of them for tests; what fails, fails the test. */
#ifndef MNEM_TESTS_REPLAY_REPLAY_CASE_H
#define MNEM_TESTS_REPLAY_REPLAY_CASE_H

#include "mnem/replay.h"

/* Of the text form. */
mnem_workload *workload(const char *text);
/* One with so many random operations; sizes from 1 byte to 1 MiB. */
mnem_workload *random_workload(unsigned seed, int ops);

mnem_replay_target *target(const char *name, const mnem_replay_settings *settings);
/* Settings as they are by themselves. */
mnem_replay_result run(const mnem_workload *w, const char *name,
                       const mnem_replay_options *options);

#endif
