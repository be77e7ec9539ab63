/* kit_growth.h: whether the work of something grows in proportion to its size, however fast the
 * machine is: two sizes are compared in the same run. */
#ifndef MNEM_TESTS_KIT_KIT_GROWTH_H
#define MNEM_TESTS_KIT_KIT_GROWTH_H

#include <stddef.h>

/* Does the work of size n, on the thread that it is called by. */
typedef void growth_work(void *context, size_t n);

/* Fails when the large size takes more than (large / small) ^ 1.5 times the processor time of the
 * small one: between what n log n and n * n would take, as far from both. Of each the fastest of
 * some runs counts. Take large / small >= 8, and a small size of a tenth of a millisecond or more.
 * Returns the ratio. */
double assert_grows_in_proportion(growth_work *work, void *context, size_t small, size_t large);

#endif
