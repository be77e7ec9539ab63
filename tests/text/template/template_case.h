/* template_case.h: a template, what it is given, and what comes of it, as JSON.
 *
 *     {"template": "...", "messages": [...], "tools": [...], "documents": [...],
 *      "arguments": {...}, "bos": "...", "eos": "...", "add_generation_prompt": true,
 *      "clock": 1700000000, "bytes": 1000000, "steps": 1000}
 *
 * All but the template may be missing. The result is {"text": "..."}, {"raised": "..."} where the
 * template raised an exception, or {"error": "..."}. */
#ifndef MNEM_TESTS_TEXT_TEMPLATE_TEMPLATE_CASE_H
#define MNEM_TESTS_TEXT_TEMPLATE_TEMPLATE_CASE_H

#include <jansson.h>

/* The result, which is the caller's. */
json_t *template_case_run(const json_t *one);

#endif
