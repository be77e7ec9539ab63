/* breakers.c: --dry-sequence-breaker: from words of the command line to the sampler's breakers.
 *
 * Escapes are those that llama.cpp reads in its option of that name: \n, \r, \t, \', \", \\ and \x
 * with two hexadecimal digits. Before anything else a backslash is itself. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

enum { ROOM = MNEM_DRY_BREAKER_BYTES + 1 };

static int hex(char c) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The byte that an escape behind a backslash stands for, and how long it is; 0: it is none. */
static size_t escape(const char *text, char *byte) {
    static const char names[] = "nrt'\"\\", bytes[] = "\n\r\t'\"\\";
    const char *at = *text ? strchr(names, *text) : NULL;
    if (at) {
        *byte = bytes[at - names];
        return 1;
    }
    if (*text != 'x' || hex(text[1]) < 0 || hex(text[2]) < 0) return 0;
    *byte = (char)(hex(text[1]) * 16 + hex(text[2]));
    return 3;
}

/* false: there is no room for it. */
static bool unescape(const char *text, char out[ROOM]) {
    size_t n = 0;
    for (; *text && n < ROOM; n++) {
        const size_t taken = *text == '\\' ? escape(text + 1, &out[n]) : 0;
        if (!taken) out[n] = *text;
        text += 1 + taken;
    }
    if (n == ROOM) return false;
    out[n] = 0;
    return true;
}

static mnem_status fill(tool_stage *stage, const char *const *texts, int32_t count) {
    const int32_t capacity = mnem_dry_breakers_size(texts, count);
    const uint64_t bytes = (uint64_t)capacity * sizeof(int32_t);
    mnem_status status = mnem_ledger_charge(stage->ledger, MNEM_KIND_HOST, "sampler", bytes);
    if (status != MNEM_OK) return status;
    stage->breakers.bytes = bytes;
    stage->breakers.words = calloc(capacity > 0 ? (size_t)capacity : 1, sizeof(int32_t));
    if (!stage->breakers.words) return MNEM_NO_MEMORY;
    return mnem_dry_breakers_init(stage->tokenizer, texts, count, stage->breakers.words, capacity,
                                  &stage->breakers.of);
}

int tool_breakers_check(const char *verb, const tool_texts *texts) {
    char text[ROOM];
    for (int i = 0; i < texts->count; i++)
        if (!unescape(texts->text[i], text))
            return tool_usage(
                verb, "--dry-sequence-breaker takes texts of at most %d bytes; \"%s\" has more",
                MNEM_DRY_BREAKER_BYTES, texts->text[i]);
    return TOOL_OK;
}

mnem_status tool_breakers_open(tool_stage *stage, const tool_texts *texts) {
    char text[MNEM_DRY_BREAKERS][ROOM];
    const char *pointer[MNEM_DRY_BREAKERS];
    int32_t count = 0;
    for (int i = 0; i < texts->count; i++) {
        if (strcmp(texts->text[i], "none") == 0) {
            count = 0;
            continue;
        }
        if (!unescape(texts->text[i], text[count])) continue; /* checked before */
        pointer[count] = text[count];
        count++;
    }
    return fill(stage, texts->count ? pointer : NULL, count);
}

int tool_stage_breakers(tool_stage *stage, const tool_texts *texts) {
    const int code = tool_breakers_check(stage->args->verb->name, texts);
    if (code != TOOL_OK) return code;
    const mnem_status status = tool_breakers_open(stage, texts);
    if (status == MNEM_NO_MEMORY)
        return tool_failed(
            "out of memory for the texts of --dry-sequence-breaker: end other programs");
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

void tool_breakers_close(tool_stage *stage) {
    if (stage->breakers.bytes)
        mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "sampler", stage->breakers.bytes);
    free(stage->breakers.words);
    stage->breakers.words = NULL;
    stage->breakers.bytes = 0;
}
