/* saved_case.h: a text, an engine that runs it, and saves of its sequences in files of memory. */
#ifndef MNEM_TESTS_ENGINE_PAGES_SAVED_CASE_H
#define MNEM_TESTS_ENGINE_PAGES_SAVED_CASE_H

#include "engine/engine_case.h"
#include "kit/kit.h"

enum { VOCAB = 96, LENGTH = 200, CONTEXT = 256, PAGE = 64 };

#define FAMILY(name) MNEM_TEST_DATA "/architectures/" name ".gguf"
#define LLAMA        FAMILY("llama")
#define STATES       FAMILY("lfm2")

extern int32_t text[LENGTH];
/* A group's set-up. */
int fill_text(void **state);

/* An engine of three sequences. */
void open_case(engine_case *c, const char *path, mnem_kv_choice kv, int32_t chunk);
int new_file(void);
/* Goes on with the text to before `end`; logits of the last token. */
void go_on(engine_case *c, mnem_sequence *s, int32_t end, float logits[VOCAB]);
/* A sequence of n tokens of the text, saved from `from` on, and gone. */
void save(engine_case *c, int32_t n, int32_t from, int fd, uint64_t offset);
/* Of both kinds. */
int32_t free_pages(const engine_case *c);
/* As mnem_on_step_logits: to an array of VOCAB. */
bool keep_logits(void *context, int32_t part, int32_t index, const float *logits);

#endif
