/* minmax.h: the smaller and the larger of two numbers. */
#ifndef MNEM_SRC_BASE_MINMAX_H
#define MNEM_SRC_BASE_MINMAX_H

#include <stdint.h>

static inline int32_t mnem__min_i32(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static inline int32_t mnem__max_i32(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static inline uint32_t mnem__min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline uint32_t mnem__max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static inline int64_t mnem__min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t mnem__max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline uint64_t mnem__min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t mnem__max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static inline double mnem__min_f64(double a, double b) {
    return a < b ? a : b;
}

static inline double mnem__max_f64(double a, double b) {
    return a > b ? a : b;
}

#endif
