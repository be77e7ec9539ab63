/* fuzz_template.c: any bytes as a chat template and, behind a zero, the JSON that it is given.
 *
 * What renders must be valid UTF-8, the same a second time, and within the limit of bytes; what
 * doesn't must say why, with a line that there is.
 *
 *     fuzz_template -max_len=4096 -dict=fuzz/template.dict NEW_FOLDER fuzz/corpus/template */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "mnem/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static const mnem_template_options limits = {.bytes = 1 << 20, .steps = 50000, .clock = 1735689600};

static void check_failure(const mnem_template *t, const char *text, size_t n) {
    mnem_template_failure failure;
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n' || text[i] == '\r';
    mnem_template_failure_get(t, &failure);
    CHECK(failure.line <= lines);
    CHECK(failure.raised || failure.message.length > 0);
    CHECK(mnem__utf8_invalid(failure.message.bytes, failure.message.length) ==
              failure.message.length ||
          !failure.raised);
}

static void check_text(mnem_template *t, const mnem_template_input *input, mnem_text text) {
    char *copy = malloc(text.length + 1);
    CHECK(copy && mnem__utf8_invalid(text.bytes, text.length) == text.length);
    memcpy(copy, text.bytes, text.length);
    const size_t length = text.length;
    CHECK(mnem_template_render(t, input, &text) == MNEM_OK);
    CHECK(text.length == length && memcmp(copy, text.bytes, length) == 0);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = malloc(n + 1); /* a zero behind it ends the JSON */
    mnem_template *t;
    mnem_text out;
    CHECK(text);
    memcpy(text, data, n);
    text[n] = 0;
    const size_t length = strnlen(text, n);
    const char *json = length < n ? text + length + 1 : NULL;
    const mnem_template_input input = {.messages = json && *json == '[' ? json : "[]",
                                       .arguments = json && *json == '{' ? json : NULL,
                                       .bos = "<s>",
                                       .eos = "</s>",
                                       .add_generation_prompt = n % 2};
    if (mnem_template_open(text, length, &limits, &t) == MNEM_OK) {
        if (mnem_template_render(t, &input, &out) == MNEM_OK)
            check_text(t, &input, out);
        else
            check_failure(t, text, length);
        CHECK(mnem_template_bytes_peak(t) <= limits.bytes);
        mnem_template_close(t);
    }
    free(text);
    return 0;
}
