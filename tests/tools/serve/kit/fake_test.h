/* fake_test.h: fake_serve.h for tests of one server: it, and what they ask of its last answer. */
#ifndef MNEM_TESTS_TOOLS_SERVE_KIT_FAKE_TEST_H
#define MNEM_TESTS_TOOLS_SERVE_KIT_FAKE_TEST_H

#include "kit/kit.h"

#include <jansson.h>

#include "tools/serve/api/fake_serve.h"

extern fake_serve fake;

/* ---- before and behind a test, or all of them ---- */

int fake_teardown(void **state);
/* A server that says "God" and refuses other names of its model than "kjv". */
int fake_setup_strict(void **state);
/* It still answers, unless it was told to refuse all. */
int fake_teardown_serving(void **state);

/* ---- the last answer ---- */

/* Prints the answer where it lacks the text. */
bool fake_has(const char *text);
int fake_count(const char *text);
/* Its last line, as JSON. */
json_t *fake_last_line(void);
/* A member that must be a whole number. */
json_int_t fake_number(const json_t *object, const char *name);
/* A shell's prompt begins on a line of its own. */
bool fake_ends_a_line(void);

/* ---- requests ---- */

/* What GET answers, which must be 200. */
const char *fake_get(const char *path);
/* Whether it is refused with that status, and an error of OpenAI's form about that field; NULL:
 * about none. */
bool fake_refuses(const char *path, const char *body, int status, const char *param);
/* Whether a chat is answered. */
bool fake_serves(void);
/* The prompt of the last request as text; storage of the kit. name_of, unless it is NULL: what is
 * written for a token; NULL: its text. */
const char *fake_prompted(void);
const char *fake_prompted_as(const char *(*name_of)(int32_t id));

#endif
