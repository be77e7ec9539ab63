/* dataset_turns.h: converts an element of a data set into a list of {"role", "content"}, the
 * form of messages.h. */
#ifndef MNEM_TOOLS_MNEM_DATASET_DATASET_TURNS_H
#define MNEM_TOOLS_MNEM_DATASET_DATASET_TURNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether a value is {"role": "...", ...}. */
bool dataset_is_message(const json_t *value);
/* The names of a question and its answer in an element; false: it has no such pair. In an element
 * with "text" only "prompt" and "completion" count as a pair. */
bool dataset_pair(const json_t *element, const char **question, const char **answer);
/* The name of an instruction's answer; NULL: the element isn't an instruction. */
const char *dataset_instruction(const json_t *element);
/* Whether a value is a list of messages. */
bool dataset_is_messages(const json_t *value);
/* Returns a new list; NULL: `why` has the error, or "" if the form is unknown. */
json_t *dataset_turns(const json_t *element, char *why, size_t size);
/* *tools: a new reference to the element's tools, or NULL; false: they aren't a list. */
bool dataset_tools(const json_t *element, json_t **tools);

#endif
