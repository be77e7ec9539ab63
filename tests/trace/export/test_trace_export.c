/* test_trace_export.c: files for other viewers have the ledger's sums, to the byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_random.h"
#include "mnem/replay.h"
#include "mnem/trace.h"
#include "trace/export/event_list.h"
#include "trace/export/export.h"

enum { ROUNDS = MNEM_SANITIZED ? 5 : 40 };

static event_list list;

static list_sums make(uint32_t events) {
    list_begin(&list);
    return list_random(&list, events);
}

static void unmake(void) {
    mnem_trace_reader_close(list.reader);
}

/* ---- PyTorch's snapshot ---- */

static mnem_workload_info replayed(const char *path, uint32_t device, mnem_workload **w) {
    mnem_workload_info info;
    must(mnem_workload_open(path, &(mnem_workload_options){.device_given = true, .device = device},
                            w));
    mnem_workload_info_get(*w, &info);
    return info;
}

static void check_device(const char *path, uint32_t device, uint64_t peak, uint64_t end) {
    mnem_workload *w;
    const mnem_workload_info info = replayed(path, device, &w);
    assert_int_equal(info.bytes_peak, peak);
    assert_int_equal(info.bytes_end, end);
    assert_int_equal(info.bytes_reserved_peak, peak);
    assert_int_equal(info.prelude, 0);
    assert_int_equal(info.dropped, 0);
    assert_int_equal(info.devices, 2);
    mnem_workload_close(w);
}

/* Devices are numbered as their first events come. */
static bool pool_comes_first(void) {
    for (uint32_t i = 0; i < list.count; i++)
        if (list.event[i].what <= MNEM_TRACE_FREE) return list.event[i].what >= MNEM_TRACE_ALLOC;
    return false;
}

static void a_snapshot_replays_to_the_ledgers_peak(void **state) {
    (void)state;
    const char *path = kit_path("t.pickle");
    for (int i = 0; i < ROUNDS; i++) {
        const list_sums sums = make(200 + (uint32_t)random_below(6000));
        must(mnem__trace_write_snapshot(list.reader, path));
        check_device(path, pool_comes_first(), sums.peak, sums.end);
        unmake();
    }
}

static void a_pools_blocks_are_a_device_of_their_own(void **state) {
    (void)state;
    const char *path = kit_path("t.pickle");
    for (int i = 0; i < ROUNDS; i++) {
        const list_sums sums = make(3000);
        must(mnem__trace_write_snapshot(list.reader, path));
        check_device(path, !pool_comes_first(), sums.pool_peak, sums.pool_end);
        unmake();
    }
}

static void sites_are_kind_tag_and_span(void **state) {
    (void)state;
    mnem_workload *w;
    list_begin(&list);
    const int32_t a = list_account(&list, MNEM_KIND_KV, "pages", 1, false);
    list_add(&list, (mnem_trace_event){.what = MNEM_TRACE_BEGIN, .name = list_name(&list, "load")});
    list_add(&list, (mnem_trace_event){.what = MNEM_TRACE_LIVE, .account = a, .bytes = 100});
    must(mnem__trace_write_snapshot(list.reader, kit_path("t.pickle")));
    replayed(kit_path("t.pickle"), 0, &w);
    assert_string_equal(mnem_workload_site(w, 0), "kv:0 pages");
    mnem_workload_close(w);
    unmake();
}

/* ---- stacks ---- */

static void folded_lines_sum_to_the_peak(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        const list_sums sums = make(3000);
        uint64_t all = 0, pages = 0;
        must(mnem__trace_write_folded(list.reader, kit_path("t.folded")));
        char *text = read_file(kit_path("t.folded"), NULL), *rest = text;
        for (char *line; (line = strsep(&rest, "\n")) && *line;) {
            const uint64_t bytes = strtoull(strrchr(line, ' '), NULL, 10);
            assert_true(bytes > 0);
            if (strncmp(line, "pool 1;activation;cache;attention.c:41 ", 5) == 0) continue;
            all += bytes;
            if (strncmp(line, "kv;pages", 8) == 0) pages += bytes;
        }
        free(text);
        assert_int_equal(all, sums.peak);
        assert_int_equal(pages, sums.account_at_peak[1]);
        unmake();
    }
}

static void names_cannot_break_a_line(void **state) {
    (void)state;
    list_begin(&list);
    const int32_t a = list_account(&list, MNEM_KIND_IO, "a;b,c\nd\"\xff", 1, false);
    list_add(&list, (mnem_trace_event){.what = MNEM_TRACE_LIVE, .account = a, .bytes = 100});
    must(mnem__trace_write_folded(list.reader, kit_path("t.folded")));
    char *text = read_file(kit_path("t.folded"), NULL);
    assert_string_equal(text, "io;a_b,c d\"? 100\n");
    free(text);
    unmake();
}

/* ---- MindStudio's folder ---- */

/* The columns that its parser asks for by name. */
static const char *const operator_columns[] = {
    "Name",
    "Size(KB)",
    "Allocation Time(us)",
    "Release Time(us)",
    "Active Release Time(us)",
    "Duration(us)",
    "Active Duration(us)",
    "Allocation Total Allocated(MB)",
    "Allocation Total Reserved(MB)",
    "Allocation Total Active(MB)",
    "Release Total Allocated(MB)",
    "Release Total Reserved(MB)",
    "Release Total Active(MB)",
    "Stream Ptr",
    "Device Type",
};
static const char *const record_columns[] = {
    "Component",        "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)",
    "Total Active(MB)", "Stream Ptr",    "Device Type"};

/* Splits a line as its parser does: at every comma. */
static size_t split(char *line, char *cell[20]) {
    size_t n = 0;
    while (n < 20 && (cell[n] = strsep(&line, ","))) n++;
    return n;
}

static char *table(const char *name, const char *const *columns, size_t n, char **rest) {
    char path[300], *cell[20];
    snprintf(path, sizeof path, "%s/ASCEND_PROFILER_OUTPUT/%s", kit_path("t_ascend_pt"), name);
    char *text = *rest = read_file(path, NULL);
    assert_int_equal(split(strsep(rest, "\n"), cell), n);
    for (size_t i = 0; i < n; i++) assert_string_equal(cell[i], columns[i]);
    return text;
}

static uint64_t bytes_of(const char *number, uint64_t unit) {
    return (uint64_t)(strtod(number, NULL) * (double)unit + 0.5);
}

/* Every row is as wide as the head; sizes of what wasn't released sum to what is live. */
static uint64_t live_operators(const char *device) {
    char *rest, *text = table("operator_memory.csv", operator_columns, 15, &rest), *cell[20];
    uint64_t live = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        assert_int_equal(split(line, cell), 15);
        if (!*cell[3] && strcmp(cell[14], device) == 0) live += bytes_of(cell[1], KIB);
    }
    free(text);
    return live;
}

static void check_record(const char *device, uint64_t peak, uint64_t end) {
    char *rest, *text = table("memory_record.csv", record_columns, 7, &rest), *cell[20];
    uint64_t most = 0, last = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        assert_int_equal(split(line, cell), 7);
        if (strcmp(cell[0], "PTA") != 0 || strcmp(cell[6], device) != 0) continue;
        last = bytes_of(cell[2], MIB);
        if (last > most) most = last;
    }
    free(text);
    assert_int_equal(most, peak);
    assert_int_equal(last, end);
}

static void ascend_tables_say_what_is_live(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        list_begin(&list);
        const int32_t first = list_account(&list, MNEM_KIND_IO, "first", 1, false);
        list_add(&list, (mnem_trace_event){.what = MNEM_TRACE_LIVE, .account = first, .bytes = 1});
        list_add(&list, (mnem_trace_event){.what = MNEM_TRACE_LIVE, .account = first, .bytes = 0});
        const list_sums sums = list_random(&list, 2000);
        must(mnem__trace_write_ascend(list.reader, kit_path("t_ascend_pt")));
        assert_int_equal(live_operators("NPU:0"), sums.end);
        assert_int_equal(live_operators("NPU:1"), sums.pool_end);
        check_record("NPU:0", sums.peak, sums.end);
        check_record("NPU:1", sums.pool_peak, sums.pool_end);
        unmake();
    }
}

/* ---- the recorder, by the name of a file ---- */

static void the_ending_chooses_the_format(void **state) {
    (void)state;
    static const char *const names[] = {"r.pickle", "r.folded", "r_ascend_pt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mnem_ledger *ledger;
        mnem_trace *trace;
        struct stat about;
        const char *path = kit_path(names[i]);
        must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 1000}, &ledger));
        must(mnem_ledger_charge(ledger, MNEM_KIND_IO, "before", 40));
        must(mnem_trace_create(&(mnem_trace_options){.path = path, .ledger = ledger}, &trace));
        must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 60));
        assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 950), MNEM_OVER_BUDGET);
        mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 25);
        must(mnem_trace_write(trace));
        mnem_trace_destroy(trace);
        assert_int_equal(stat(path, &about), 0);
        mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 35);
        mnem_ledger_release(ledger, MNEM_KIND_IO, "before", 40);
        must(mnem_ledger_destroy(ledger));
    }
    mnem_workload *w;
    const mnem_workload_info info = replayed(kit_path("r.pickle"), 0, &w);
    assert_int_equal(info.bytes_peak, 100);
    assert_int_equal(info.bytes_end, 75);
    mnem_workload_close(w);
    char *text = read_file(kit_path("r.folded"), NULL);
    assert_non_null(strstr(text, "kv;pages 60\n"));
    assert_non_null(strstr(text, "io;before 40\n"));
    free(text);
}

/* ---- what goes wrong ---- */

typedef mnem_status writer(mnem_trace_reader *reader, const char *path);

static void a_failed_allocation_leaves_nothing(void **state) {
    (void)state;
    static writer *const writers[] = {mnem__trace_write_snapshot, mnem__trace_write_folded,
                                      mnem__trace_write_ascend};
    static const char *const names[] = {"o.pickle", "o.folded", "o_ascend_pt"};
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        heap_sweep sweep = {.most = 100};
        mnem_status status;
        struct stat about;
        make(2000);
        do {
            must(mnem_trace_reader_rewind(list.reader));
            heap_sweep_begin(&sweep, false);
            status = writers[i](list.reader, kit_path(names[i]));
            if (status != MNEM_OK && i < 2)
                assert_int_not_equal(stat(kit_path(names[i]), &about), 0);
        } while (heap_sweep_next(&sweep, status));
        unmake();
    }
}

static void a_place_that_cannot_be_written_is_named(void **state) {
    (void)state;
    make(50);
    assert_int_equal(mnem__trace_write_snapshot(list.reader, "/nowhere/x.pickle"), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/x.pickle"));
    must(mnem_trace_reader_rewind(list.reader));
    assert_int_equal(mnem__trace_write_ascend(list.reader, "/nowhere/x_ascend_pt"), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/x_ascend_pt"));
    write_file(kit_path("file_ascend_pt"), "x", 1);
    must(mnem_trace_reader_rewind(list.reader));
    assert_int_equal(mnem__trace_write_ascend(list.reader, kit_path("file_ascend_pt")), MNEM_IO);
    unmake();
}

static int set_seed(void **state) {
    (void)state;
    random_seed_chosen();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_replays_to_the_ledgers_peak),
        cmocka_unit_test(a_pools_blocks_are_a_device_of_their_own),
        cmocka_unit_test(sites_are_kind_tag_and_span),
        cmocka_unit_test(folded_lines_sum_to_the_peak),
        cmocka_unit_test(names_cannot_break_a_line),
        cmocka_unit_test(ascend_tables_say_what_is_live),
        cmocka_unit_test(the_ending_chooses_the_format),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
        cmocka_unit_test(a_place_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, set_seed, NULL);
}
