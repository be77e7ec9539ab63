/* batch_file.h: files of requests for `mnem batch`, and what its answers say. */
#ifndef MNEM_TESTS_TOOLS_BATCH_BATCH_FILE_H
#define MNEM_TESTS_TOOLS_BATCH_BATCH_FILE_H

#include "kit/kit.h"
#include "tools/tool_run.h"

/* count requests of every kind, as the seed draws them: scratch/NAME. */
const char *batch_requests(const char *name, unsigned seed, int count);
/* Request i of them: its url, and its body as text (storage of the next call). */
const char *batch_body(unsigned seed, int i, const char **url);
/* The answers of a file by custom_id: {"r1": {"status_code": 200, "body": {...}}}, without what
 * differs from run to run (id, created, cached tokens). A line that is none, or a second answer of
 * an id, fails. */
json_t *batch_answers(const char *path);
/* Takes those members out of a body. */
void batch_strip(json_t *body);

#endif
