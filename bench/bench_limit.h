/* bench_limit.h: `bench_ops limit`: how near MATMUL comes to what the machine can do. */
#ifndef MNEM_BENCH_BENCH_LIMIT_H
#define MNEM_BENCH_BENCH_LIMIT_H

#include <stdint.h>

/* Prints a table for each level of the processor, of the type named only, or of all (""). */
void bench_limit(int32_t threads, const char *type);

#endif
