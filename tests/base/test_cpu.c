/* test_cpu.c: the processor's level by name, and a limit that lowers it and never raises it. */
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "mnem/base.h"

static const char *const names[] = {"plain", "avx2", "avx512", "avx512_bf16"};

static void each_limit_gives_the_lower_of_it_and_the_machine(void **state) {
    (void)state;
    const int best = (int)mnem__cpu_level_get();
    assert_string_equal(mnem_cpu_level(), names[best]);
    for (int i = 0; i <= MNEM__CPU_BEST; i++) {
        must(mnem_cpu_limit(names[i]));
        assert_string_equal(mnem_cpu_level(), names[i < best ? i : best]);
    }
}

static void what_is_no_level_is_named_and_changes_nothing(void **state) {
    (void)state;
    must(mnem_cpu_limit("plain"));
    const char *const wrong[] = {"", "AVX2", "avx", "avx512_bf166", NULL};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mnem_cpu_limit(wrong[i]), MNEM_INVALID);
        assert_non_null(strstr(mnem_last_error(), "plain, avx2, avx512 or avx512_bf16"));
        assert_string_equal(mnem_cpu_level(), "plain");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_gives_the_lower_of_it_and_the_machine),
        cmocka_unit_test(what_is_no_level_is_named_and_changes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
