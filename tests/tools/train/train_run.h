/* train_run.h: short runs of `mnem train` for tests, and the log that they leave. */
#ifndef MNEM_TESTS_TOOLS_TRAIN_RUN_H
#define MNEM_TESTS_TOOLS_TRAIN_RUN_H

#include "tools/tool_run.h"

enum { STEPS = 60 };

/* JSON of a model that takes a millisecond a step, and 60 steps of it. */
extern const char config[];

/* Files of this program, made by every call: some thousand words with a little order in them, and
 * the configuration above. */
const char *text_file(void);
const char *config_file(void);

#define MEMORY     (MNEM_RELEASE ? "64M" : "2G")
#define TRAIN(...) RUN("train", "-q", "--memory", MEMORY, "--threads", "1", __VA_ARGS__)

typedef struct logged {
    double loss[STEPS + 1]; /* by step */
    double validation;      /* the last */
    int steps;
    int validations;
} logged;

logged read_log(const char *out);
/* Fails unless all numbers of both are the same. */
void same(const logged *a, const logged *b);

/* To the end, in folder out; its log. */
logged whole_run(const char *out);

#endif
