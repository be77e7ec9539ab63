/* kit_heap.c: see kit_heap.h. */
#include "kit/kit_heap.h"

#include "base/heap.h"
#include "kit/kit.h"

static uint64_t bytes_live(void) {
    mnem_heap_usage usage;
    mnem_heap_usage_get(&usage);
    return usage.bytes_live;
}

void heap_sweep_begin(heap_sweep *sweep, bool sticky) {
    sweep->bytes_live = bytes_live();
    mnem__heap_fail_at(++sweep->nth, sticky);
}

bool heap_sweep_next(heap_sweep *sweep, mnem_status status) {
    mnem__heap_fail_at(0, false);
    assert_int_equal(bytes_live(), sweep->bytes_live);
    if (status == MNEM_OK) return false;
    assert_int_equal(status, MNEM_NO_MEMORY);
    assert_true(sweep->nth < sweep->most);
    return true;
}
