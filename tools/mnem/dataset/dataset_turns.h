/* dataset_turns.h: an element of a data set as a list of {"role", "content"}, as messages.h has
 * them. */
#ifndef MNEM_TOOLS_MNEM_DATASET_DATASET_TURNS_H
#define MNEM_TOOLS_MNEM_DATASET_DATASET_TURNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* {"role": "...", ...} */
bool dataset_is_message(const json_t *value);
/* The names of a question and its answer in an element that has both; false: it has no such pair.
 * A pair that is less certain than "prompt" and "completion" is none beside "text". */
bool dataset_pair(const json_t *element, const char **question, const char **answer);
/* The name of an instruction's answer; NULL: the element is no instruction. */
const char *dataset_instruction(const json_t *element);
/* A list of them. */
bool dataset_is_messages(const json_t *value);
/* A new list; NULL: why says what is wrong, "" where it has no form that is known. */
json_t *dataset_turns(const json_t *element, char *why, size_t size);
/* A new reference to its tools, NULL where there are none; false: they are no list. */
bool dataset_tools(const json_t *element, json_t **tools);

#endif
