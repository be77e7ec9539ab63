/* line_check.h: what holds of any bytes as a line of requests or of answers; aborts where it
 * doesn't. Shared by a test and a fuzz target. */
#ifndef MNEM_TESTS_TOOLS_BATCH_LINE_CHECK_H
#define MNEM_TESTS_TOOLS_BATCH_LINE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* Whether it is a request. */
bool line_check_request(const char *line, size_t n);
void line_check_answer(const char *line, size_t n);
/* As a file, in lines. */
void line_check_file(const char *bytes, size_t n);

#endif
