/* train_words.h: `mnem train` on random words, as somebody meets it for the first time, for
 * tests. */
#ifndef MNEM_TESTS_TOOLS_TRAIN_WORDS_H
#define MNEM_TESTS_TOOLS_TRAIN_WORDS_H

#include "tools/tool_run.h"

enum { TEXT = 40000 };

/* TEXT bytes of words, other ones at each call; its storage, with a zero behind. */
char *words(void);

/* A setup: at("text.txt") of words, at("config.json") of a small model and 8 steps. */
int make_files(void **state);

#define MEMORY     (MNEM_RELEASE ? "64M" : "2G")
#define TRAIN(...) RUN("train", "--memory", MEMORY, "--threads", "1", __VA_ARGS__)

/* Without steps: only what comes before. */
#define LOOK(data, ...)                                                                            \
    TRAIN("--data", data, "--config", at("config.json"), "--out", at("looked"), "--dry-run",       \
          __VA_ARGS__)

/* Fails the test unless the command went well, or was refused and named all of these. */
void succeed(tool_result r);
void refused(tool_result r, const char *const *said);
#define REFUSED(result, ...) refused(result, (const char *const[]){__VA_ARGS__, NULL})

/* A file's text; it stays until the call after the next. */
char *content(const char *path);

/* Names of a folder, as "a b "; the order is the system's. "": there is none. */
const char *names(const char *path);

#endif
