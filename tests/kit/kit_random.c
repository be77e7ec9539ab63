/* kit_random.c: see kit_random.h. */
#include "kit/kit_random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t program_state;

uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint64_t next_below(uint64_t *state, uint64_t n) {
    return next_random(state) % n;
}

int32_t next_between(uint64_t *state, int32_t low, int32_t high) {
    return low + (int32_t)next_below(state, (uint64_t)((int64_t)high - low + 1));
}

void random_seed(uint64_t seed) {
    program_state = seed;
    printf("seed %llu\n", (unsigned long long)seed);
}

void random_seed_chosen(void) {
    const char *chosen = getenv("MNEM_TEST_SEED");
    if (!chosen)
        random_seed(1);
    else if (strcmp(chosen, "clock") == 0)
        random_seed((uint64_t)time(NULL));
    else
        random_seed(strtoull(chosen, NULL, 10));
}

uint64_t random_bits(void) {
    return next_random(&program_state);
}

uint64_t random_below(uint64_t n) {
    return random_bits() % n;
}
