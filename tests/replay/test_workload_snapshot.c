/* test_workload_snapshot.c: PyTorch's memory snapshots: what is read, and what is refused. The
 * files are written by tests/data/snapshots/make_snapshots.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/replay.h"

static mnem_workload *opened(const char *name, const mnem_workload_options *options) {
    char path[512];
    mnem_workload *w;
    snprintf(path, sizeof path, "%s/snapshots/%s", MNEM_TEST_DATA, name);
    if (mnem_workload_open(path, options, &w) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return w;
}

/* 4 weights, 3 steps of 3 activations and one block of a side stream. */
static void check_whole(const char *name) {
    mnem_workload *w = opened(name, NULL);
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    assert_string_equal(info.format, "PyTorch snapshot");
    assert_int_equal(info.prelude, 0);
    assert_int_equal(info.allocations, 4 + 3 * 4);
    assert_int_equal(info.count, 4 + 3 * 8);
    assert_int_equal(info.dropped, 0);
    assert_int_equal(info.streams, 2);
    assert_int_equal(info.devices, 1);
    assert_int_equal(info.ops[1].bytes, 3 * (1 << 20) + 1);
    const uint64_t weights = 4 * 3 * (1 << 20) + 6;
    assert_int_equal(info.bytes_end, weights);
    assert_int_equal(info.bytes_peak, weights + 600000 + 3 * 128 + 70000);
    assert_int_equal(info.segments_asked, 2);
    assert_int_equal(info.bytes_reserved_peak, 22 << 20);
    /* The side stream's block goes last, when its free is completed. */
    assert_int_equal(info.ops[7].bytes, 70000);
    assert_int_equal(info.ops[7].stream, 1);
    assert_int_equal(info.ops[11].block, info.ops[7].block);
    assert_int_equal(info.ops[11].bytes, 0);
    assert_string_equal(mnem_workload_site(w, 0), "train.py:11 __init__");
    assert_string_equal(mnem_workload_site(w, 6), "train.py:22 block");
    assert_string_equal(mnem_workload_site(w, 99999), "");
    mnem_workload_close(w);
}

static void every_protocol_gives_the_same(void **state) {
    (void)state;
    check_whole("whole-2.pickle");
    check_whole("whole-3.pickle");
    check_whole("whole-4.pickle");
    check_whole("whole-5.pickle");
}

static void the_pickler_of_c_plus_plus_is_read(void **state) {
    (void)state;
    check_whole("cpp.pickle");
}

static void blocks_from_before_the_record_are_the_start(void **state) {
    (void)state;
    mnem_workload *w = opened("bounded.pickle", NULL), *whole = opened("whole-4.pickle", NULL);
    mnem_workload_info info, all;
    mnem_workload_info_get(w, &info);
    mnem_workload_info_get(whole, &all);
    /* The last 25 events hold no allocation of a weight, and frees of blocks from before. */
    assert_true(info.prelude >= 4);
    assert_int_equal(info.dropped, 0);
    assert_int_equal(info.bytes_end, all.bytes_end);
    assert_int_equal(info.bytes_peak, all.bytes_peak);
    for (size_t i = 0; i < info.prelude; i++) assert_true(info.ops[i].bytes > 0);
    assert_int_equal(info.bytes_reserved_peak, 22 << 20);
    mnem_workload_close(w);
    mnem_workload_close(whole);
}

static void the_device_with_most_events_is_read(void **state) {
    (void)state;
    mnem_workload *w = opened("devices.pickle", NULL);
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    assert_int_equal(info.device, 1);
    assert_int_equal(info.devices, 3);
    assert_int_equal(info.allocations, 4 + 4 * 4 + 1);
    /* The last block's free was asked for, not completed: still live. */
    assert_int_equal(info.bytes_end, 4 * 3 * (1 << 20) + 6 + 5000);
    mnem_workload_close(w);
}

static void another_device_can_be_asked_for(void **state) {
    (void)state;
    mnem_workload *w = opened("devices.pickle", &(mnem_workload_options){.device_given = true});
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    assert_int_equal(info.device, 0);
    assert_int_equal(info.count, 4); /* no events: the weights are live */
    assert_int_equal(info.prelude, 4);
    mnem_workload_close(w);
    w = opened("devices.pickle", &(mnem_workload_options){.device_given = true, .device = 2});
    mnem_workload_info_get(w, &info);
    assert_int_equal(info.device, 2);
    assert_int_equal(info.prelude, 3); /* the recorder missed a segment and three weights */
    mnem_workload_close(w);
}

static void a_device_that_is_not_there_is_refused(void **state) {
    (void)state;
    mnem_workload *w;
    const mnem_workload_options options = {.device_given = true, .device = 7};
    const char *path = MNEM_TEST_DATA "/snapshots/devices.pickle";
    assert_int_equal(mnem_workload_open(path, &options, &w), MNEM_NOT_FOUND);
    assert_non_null(strstr(mnem_last_error(), "no events of device 7 (it has 3 devices)"));
}

static void a_list_of_segments_is_the_live_blocks(void **state) {
    (void)state;
    mnem_workload *w = opened("segments.pickle", NULL);
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    assert_int_equal(info.count, 4);
    assert_int_equal(info.prelude, 4);
    assert_int_equal(info.bytes_end, 4 * 3 * (1 << 20) + 6);
    mnem_workload_close(w);
}

/* ---- what is refused ---- */

static mnem_status read_bytes(const char *bytes, size_t n) {
    char *copy = malloc(n); /* exactly as long, so that reading past it is seen */
    mnem_workload *w;
    memcpy(copy, bytes, n);
    const mnem_status status = mnem_workload_read("p", copy, n, NULL, &w);
    free(copy);
    mnem_workload_close(w);
    return status;
}

#define REFUSED(bytes, status, why)                                                                \
    do {                                                                                           \
        assert_int_equal(read_bytes(bytes, sizeof(bytes) - 1), status);                            \
        if (!strstr(mnem_last_error(), why))                                                       \
            fail_msg("\"%s\" isn't in \"%s\"", why, mnem_last_error());                            \
    } while (0)

static void code_is_refused_by_name_and_byte(void **state) {
    (void)state;
    REFUSED("\x80\x02"
            "cos\nsystem\n(U\x02lstR.",
            MNEM_UNSUPPORTED, "p: byte 2: refused, because this pickle would run code (os.system)");
    REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93)R.", MNEM_UNSUPPORTED, "byte 14: ");
    REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93)R.", MNEM_UNSUPPORTED, "(os.system)");
    REFUSED("\x80\x04\x93.", MNEM_UNSUPPORTED, "a class or function without a readable name");
    REFUSED("\x80\x02]R.", MNEM_UNSUPPORTED, "opcode 0x52");
    REFUSED("\x80\x02(ios\nsystem\n.", MNEM_UNSUPPORTED, "opcode 0x69");
    REFUSED("\x80\x02\x82\x01.", MNEM_UNSUPPORTED, "opcode 0x82");
    REFUSED("\x80\x02"
            "c\x1b[31m",
            MNEM_UNSUPPORTED, "(?[31m.)");
}

static void broken_pickles_are_refused_with_their_byte(void **state) {
    (void)state;
    REFUSED("\x80\x01.", MNEM_UNSUPPORTED, "protocol 1, but 2 to 5 are supported");
    REFUSED("\x80\x06.", MNEM_UNSUPPORTED, "protocol 6, but 2 to 5 are supported");
    REFUSED("\x80\x02", MNEM_BAD_FILE, "byte 2: the file is cut off here");
    REFUSED("\x80\x02J\x01", MNEM_BAD_FILE, "byte 2: the file is cut off here");
    REFUSED("\x80\x02X\xff\xff\xff\xff"
            "abc",
            MNEM_BAD_FILE, "byte 2: the file is cut off here");
    REFUSED("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
            "abc",
            MNEM_BAD_FILE, "byte 2: the file is cut off here");
    REFUSED("\x80\x02\x8b\xff\xff\xff\xff", MNEM_BAD_FILE, "the file is cut off here");
    REFUSED("\x80\x02.", MNEM_BAD_FILE, "byte 2: the pickle ends with values that nothing uses");
    REFUSED("\x80\x02]].", MNEM_BAD_FILE, "byte 4: the pickle ends with values that nothing uses");
    REFUSED("\x80\x02(].", MNEM_BAD_FILE, "byte 4: the pickle ends with values that nothing uses");
    REFUSED("\x80\x02"
            "a",
            MNEM_BAD_FILE, "there is no list, dict or set to add it to");
    REFUSED("\x80\x02Na", MNEM_BAD_FILE, "there is no list, dict or set to add it to");
    REFUSED("\x80\x02](Na", MNEM_BAD_FILE, "there is no list, dict or set to add it to");
    REFUSED("\x80\x02NNa", MNEM_BAD_FILE, "the pickle adds elements to a value that is no list");
    REFUSED("\x80\x02]NNs", MNEM_BAD_FILE, "the pickle adds elements to a value that is no list");
    REFUSED("\x80\x02}(Nu", MNEM_BAD_FILE, "a key has no value");
    REFUSED("\x80\x02(Nd", MNEM_BAD_FILE, "a key has no value");
    REFUSED("\x80\x02u", MNEM_BAD_FILE, "that it never began");
    REFUSED("\x80\x02(e", MNEM_BAD_FILE, "there is no list, dict or set to add it to");
    REFUSED("\x80\x02N\x86", MNEM_BAD_FILE, "uses more values than it has made");
    REFUSED("\x80\x02q\x01", MNEM_BAD_FILE, "stores a value (memo) before it has made one");
    REFUSED("\x80\x02Nr\xff\xff\xff\x7f", MNEM_BAD_FILE,
            "number of a stored value (memo) is higher");
    REFUSED("\x80\x02h\x01", MNEM_BAD_FILE, "reads a stored value (memo) that it never stored");
    REFUSED("\x80\x02"
            "0",
            MNEM_BAD_FILE, "the pickle drops a value");
    REFUSED("\x80\x02"
            "2",
            MNEM_BAD_FILE, "the pickle copies a value");
    REFUSED("\x80\x02\xff", MNEM_BAD_FILE, "opcode 0xff is not one");
}

static void pickles_of_other_things_are_refused(void **state) {
    (void)state;
    REFUSED("\x80\x02N.", MNEM_BAD_FILE, "p: the file is a pickle, but not a memory snapshot");
    REFUSED("\x80\x02}.", MNEM_BAD_FILE, "the list of segments is missing");
    REFUSED("\x80\x02}X\x08\0\0\0segments]s.", MNEM_BAD_FILE, "the trace has no allocation");
    REFUSED("\x80\x02]Na.", MNEM_BAD_FILE,
            "p: segment 0 has another form than in a memory snapshot");
    REFUSED("\x80\x02]}X\x06\0\0\0deviceJ\xff\xff\xff\xffsa.", MNEM_BAD_FILE, "segment 0");
    REFUSED("\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]](Na.", MNEM_BAD_FILE, "");
}

static void nesting_and_lists_in_themselves_end(void **state) {
    (void)state;
    char marks[3000] = "\x80\x02";
    memset(marks + 2, '(', sizeof marks - 2);
    assert_int_equal(read_bytes(marks, sizeof marks), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "byte 1002: the pickle nests its values deeper"));
    /* l = []; l.append(l): a list of segments whose segment is a list. */
    REFUSED("\x80\x02]q\0h\0a.", MNEM_BAD_FILE, "segment 0");
    /* A trace that is shared by many devices: the walk over it ends. */
    char *big = malloc(1 << 20), *p = big;
    p += sprintf(p, "%s", "\x80\x02}X");
    memcpy(p, "\x08\0\0\0segments]s", 14), p += 14;
    memcpy(p, "X\x0d\0\0\0device_traces](]q", 22), p += 22;
    *p++ = 0;
    for (int i = 0; i < 200000; i++) *p++ = (char)(i ? '}' : '(');
    *p++ = 'e';
    for (int i = 0; i < 4000; i++) *p++ = 'h', *p++ = 0;
    memcpy(p, "es.", 3), p += 3;
    assert_int_equal(read_bytes(big, (size_t)(p - big)), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "lists contain each other"));
    free(big);
}

static void every_cut_of_a_snapshot_is_refused(void **state) {
    (void)state;
    static char bytes[1 << 16];
    FILE *file = fopen(MNEM_TEST_DATA "/snapshots/cpp.pickle", "rb");
    assert_non_null(file);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(n > 1000);
    for (size_t i = 1; i < n; i++) assert_int_equal(read_bytes(bytes, i), MNEM_BAD_FILE);
    assert_int_equal(read_bytes(bytes, n), MNEM_OK);
}

static void memory_may_run_out_at_any_allocation(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    const char *path = MNEM_TEST_DATA "/snapshots/devices.pickle";
    for (uint64_t n = 1; status == MNEM_NO_MEMORY; n++) {
        mnem_workload *w;
        mnem__heap_fail_at(n, false);
        status = mnem_workload_open(path, NULL, &w);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) assert_true(n > 15);
        mnem_workload_close(w);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_int_equal(status, MNEM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_protocol_gives_the_same),
        cmocka_unit_test(the_pickler_of_c_plus_plus_is_read),
        cmocka_unit_test(blocks_from_before_the_record_are_the_start),
        cmocka_unit_test(the_device_with_most_events_is_read),
        cmocka_unit_test(another_device_can_be_asked_for),
        cmocka_unit_test(a_device_that_is_not_there_is_refused),
        cmocka_unit_test(a_list_of_segments_is_the_live_blocks),
        cmocka_unit_test(code_is_refused_by_name_and_byte),
        cmocka_unit_test(broken_pickles_are_refused_with_their_byte),
        cmocka_unit_test(pickles_of_other_things_are_refused),
        cmocka_unit_test(nesting_and_lists_in_themselves_end),
        cmocka_unit_test(every_cut_of_a_snapshot_is_refused),
        cmocka_unit_test(memory_may_run_out_at_any_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
