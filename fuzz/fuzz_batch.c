/* fuzz_batch.c: any bytes as a line of requests of `mnem batch`, as one of answers, and as a file
 * of lines.
 *
 *     fuzz_batch -max_len=4000 NEW_FOLDER fuzz/corpus/batch */
#include <stdint.h>

#include "tools/batch/line_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *text = (const char *)data;
    line_check_request(text, n);
    line_check_answer(text, n);
    line_check_file(text, n);
    return 0;
}
