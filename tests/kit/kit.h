/* kit.h: what every test program starts with: cmocka behind the headers that it wants before it,
 * sizes, and calls that must succeed. docs/testing.md tells how a test is added. */
#ifndef MNEM_TESTS_KIT_KIT_H
#define MNEM_TESTS_KIT_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mnem/base.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Fails the test with the library's error, at the line of the call. */
#define must(call) kit_must((call), #call, __FILE__, __LINE__)
void kit_must(mnem_status status, const char *call, const char *file, int line);

#endif
