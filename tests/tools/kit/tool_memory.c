/* tool_memory.c: budgets computed from what the command says of itself. */
#include "tools/kit/tool_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/base.h"

enum { TEXTS = 16 };

const char *tool_bytes(uint64_t bytes) {
    static char texts[TEXTS][24];
    static unsigned turn;
    char *text = texts[turn++ % TEXTS];
    snprintf(text, sizeof texts[0], "%" PRIu64, bytes);
    return text;
}

static uint64_t bytes_tagged(const json_t *plan, const char *tag) {
    size_t i;
    const json_t *line;
    json_array_foreach(json_object_get(plan, "lines"), i, line) {
        if (strcmp(json_string_value(json_object_get(line, "tag")), tag) == 0)
            return (uint64_t)json_integer_value(json_object_get(line, "bytes"));
    }
    fail_msg("no \"%s\" in the plan", tag);
    return 0;
}

uint64_t tool_program_bytes(void) {
    static uint64_t bytes;
    if (bytes) return bytes;
    json_t *plan = tool_last_object(RUN("plan", tool_model, "--memory", "2G", "--json"));
    bytes = bytes_tagged(plan, "code and libraries");
    json_decref(plan);
    assert_true(bytes > 0);
    return bytes;
}

const char *tool_memory(uint64_t beyond) {
    return MNEM_RELEASE ? tool_bytes(tool_program_bytes() + beyond) : "2G";
}

uint64_t tool_least(const tool_result *refusal) {
    char size[32];
    uint64_t bytes = 0;
    const char *least = strstr(refusal->err, "the smallest budget that works is --memory ");
    if (refusal->code != 3 || !least) fail_msg("exit code %d: %s", refusal->code, refusal->err);
    if (sscanf(least, "the smallest budget that works is --memory %31[0-9.KMGi]", size) != 1)
        fail_msg("%s", least);
    must(mnem_size_parse(size, &bytes));
    return bytes;
}
