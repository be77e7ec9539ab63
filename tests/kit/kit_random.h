/* kit_random.h: numbers that only look random. The same state gives the same ones everywhere. */
#ifndef MNEM_TESTS_KIT_KIT_RANDOM_H
#define MNEM_TESTS_KIT_KIT_RANDOM_H

#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood 2014); the state may be anything. */
uint64_t next_random(uint64_t *state);
/* 0 to n - 1; low to high. */
uint64_t next_below(uint64_t *state, uint64_t n);
int32_t next_between(uint64_t *state, int32_t low, int32_t high);

/* The same with one state for the whole program, which is printed when it is set, so that a run
 * can be repeated. */
void random_seed(uint64_t seed);
/* For what must hold whatever is drawn: 1, or MNEM_TEST_SEED, a number or `clock`. */
void random_seed_chosen(void);
uint64_t random_bits(void);
/* 0 to n - 1. */
uint64_t random_below(uint64_t n);

#endif
