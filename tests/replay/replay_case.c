/* replay_case.c: workloads and replays of them for tests. */
#include "replay/replay_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"

mnem_workload *workload(const char *text) {
    mnem_workload *w;
    if (mnem_workload_read("test", text, strlen(text), NULL, &w) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return w;
}

mnem_replay_target *target(const char *name, const mnem_replay_settings *settings) {
    mnem_replay_target *t;
    if (mnem_replay_target_create(name, settings, &t) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return t;
}

mnem_replay_result run(const mnem_workload *w, const char *name,
                       const mnem_replay_options *options) {
    mnem_replay_result r;
    mnem_replay_target *t = target(name, NULL);
    if (mnem_replay_run(w, t, options, &r) != MNEM_OK) fail_msg("%s", mnem_last_error());
    mnem_replay_target_destroy(t);
    return r;
}

mnem_workload *random_workload(unsigned seed, int ops) {
    char *text = malloc((size_t)ops * 40), *p = text;
    int live[64], count = 0, id = 0;
    print_message("seed %u\n", seed);
    for (int i = 0; i < ops; i++) {
        seed = seed * 1664525 + 1013904223;
        if (count == 64 || (count && seed >> 31)) {
            const int at = (int)(seed >> 8) % count;
            p += sprintf(p, "f %d\n", live[at]);
            live[at] = live[--count];
        } else {
            p += sprintf(p, "a %d %u %u\n", id, 1 + (seed >> 8) % (1 << (seed >> 4) % 21),
                         seed >> 20 & 1);
            live[count++] = id++;
        }
    }
    mnem_workload *w = workload(text);
    free(text);
    return w;
}
