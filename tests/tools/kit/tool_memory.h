/* tool_memory.h: budgets of the command for tests. They are bytes beyond the command's own code and
 * data, or what a refusal names, so that a test means the same however large the command is. */
#ifndef MNEM_TESTS_TOOLS_KIT_TOOL_MEMORY_H
#define MNEM_TESTS_TOOLS_KIT_TOOL_MEMORY_H

#include <stdint.h>

#include "tools/tool_run.h"

/* A number of bytes as the value of an option; one of 16 texts, taken in turn. */
const char *tool_bytes(uint64_t bytes);

/* What the command takes before it does anything: "code and libraries" of its plan. */
uint64_t tool_program_bytes(void);

/* The value of --memory: the command's own bytes and these beyond; 2 GiB in builds that are not
 * releases, because sanitizers take bytes of their own. Storage as of tool_bytes. */
const char *tool_memory(uint64_t beyond);

/* The budget that a refusal names ("the smallest budget that works is --memory SIZE"); a refusal
 * without one fails. */
uint64_t tool_least(const tool_result *refusal);

#endif
