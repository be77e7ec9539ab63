/* kit_growth.c: processor time of this thread, which others that run do not add to. */
#include "kit/kit_growth.h"

#include <math.h>
#include <time.h>

#include "kit/kit.h"

enum { RUNS = 5 };

static double seconds_of(growth_work *work, void *context, size_t n) {
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    work(context, n);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

double assert_grows_in_proportion(growth_work *work, void *context, size_t small, size_t large) {
    const double most = pow((double)large / (double)small, 1.5);
    double few = INFINITY, many = INFINITY;
    assert_true(large >= 8 * small);
    for (int i = 0; i < RUNS; i++) few = fmin(few, seconds_of(work, context, small));
    for (int i = 0; i < RUNS && many > most * few; i++)
        many = fmin(many, seconds_of(work, context, large));
    if (many > most * few)
        fail_msg("size %zu takes %.1f times as long as size %zu, and at most %.1f is in proportion",
                 large, many / few, small, most);
    return many / few;
}
