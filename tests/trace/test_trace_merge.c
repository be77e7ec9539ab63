/* test_trace_merge.c: traces of ranks as one file: each one's events are in it, moved, and nothing
 * else. */
#include "trace/trace_kit.h"

enum { RANKS = 3 };

/* Two ledgers of one process, one behind the other, as two ranks. */
static void record(int rank, char path[256]) {
    recording r;
    char name[32];
    snprintf(name, sizeof name, "part%d.pftrace", rank);
    begin(&r, name, (mnem_trace_options){.events = 64}, 1000 + (uint64_t)rank);
    snprintf(name, sizeof name, "%d", 7 + rank);
    must(mnem_trace_note(r.trace, "verb", "run"));
    must(mnem_trace_note(r.trace, "model", rank ? "other" : "first"));
    must(mnem_trace_note(r.trace, "predicted_bytes", name));
    mnem_trace_begin(rank == 1 ? "load" : "read \"it\"");
    must(mnem_ledger_charge(r.ledger, MNEM_KIND_KV, "pages", 60 + (uint64_t)rank));
    must(mnem_ledger_charge(r.ledger, MNEM_KIND_HOST, rank ? "table" : "pages", 30));
    assert_int_equal(mnem_ledger_charge(r.ledger, MNEM_KIND_KV, "pages", 5000), MNEM_OVER_BUDGET);
    mnem_trace_counter("VmRSS", 4096 * (uint64_t)rank);
    mnem_trace_end(rank == 1 ? "load" : "read \"it\"");
    mnem_ledger_release(r.ledger, MNEM_KIND_HOST, rank ? "table" : "pages", 30);
    mnem_ledger_release(r.ledger, MNEM_KIND_KV, "pages", 60 + (uint64_t)rank);
    mnem_trace_reader_close(written(&r));
    must(mnem_ledger_destroy(r.ledger));
    snprintf(path, 256, "%s", r.path);
}

static void assert_same_event(mnem_trace_reader *a, const mnem_trace_event *x, mnem_trace_reader *b,
                              const mnem_trace_event *y) {
    mnem_trace_account m, n;
    mnem_trace_thread s, t;
    assert_string_equal(mnem_trace_what_text(x->what), mnem_trace_what_text(y->what));
    assert_true(x->bytes == y->bytes && x->id == y->id && x->detail == y->detail);
    if (x->what >= MNEM_TRACE_ALLOC) /* others have none */
        assert_string_equal(mnem_trace_reader_name(a, x->name), mnem_trace_reader_name(b, y->name));
    assert_int_equal(x->account < 0, y->account < 0);
    if (x->account >= 0) {
        assert_true(mnem_trace_reader_account(a, (uint32_t)x->account, &m));
        assert_true(mnem_trace_reader_account(b, (uint32_t)y->account, &n));
        assert_string_equal(m.tag, n.tag);
        assert_true(m.kind == n.kind && m.owner == n.owner && m.pool == n.pool);
        assert_int_equal(m.rank, x->rank);
    }
    if (x->what != MNEM_TRACE_BEGIN && x->what != MNEM_TRACE_END) return;
    assert_true(mnem_trace_reader_thread(a, x->thread, &s));
    assert_true(mnem_trace_reader_thread(b, y->thread, &t));
    assert_string_equal(s.name, t.name);
    assert_int_equal(s.tid, t.tid);
    assert_int_equal(s.rank, x->rank);
}

/* One rank's events of the file are those of its part. */
static void check_rank(const char *path, const mnem_trace_part *part, uint32_t rank) {
    mnem_trace_reader *all, *own;
    mnem_trace_file_info of_all, of_own;
    mnem_trace_event x, y;
    must(mnem_trace_reader_open(path, &(mnem_trace_reader_options){.only = 1 + rank}, &all));
    must(mnem_trace_reader_open(part->path, NULL, &own));
    for (int again = 0; again < 2; again++) {
        uint64_t events = 0;
        for (; mnem_trace_reader_next(own, &y) == 1; events++) {
            assert_int_equal(mnem_trace_reader_next(all, &x), 1);
            assert_int_equal(x.rank, rank);
            assert_int_equal(x.ns, y.ns + part->shift_ns);
            assert_same_event(all, &x, own, &y);
        }
        assert_int_equal(mnem_trace_reader_next(all, &x), 0);
        assert_true(events > 10);
        must(mnem_trace_reader_rewind(all));
        must(mnem_trace_reader_rewind(own));
    }
    mnem_trace_reader_info(all, &of_all);
    mnem_trace_reader_info(own, &of_own);
    assert_int_equal(of_all.ranks, RANKS);
    assert_int_equal(of_all.events, of_own.events);
    assert_int_equal(of_all.budget_bytes, 1000 + rank);
    assert_int_equal(of_all.pid, of_own.pid);
    assert_string_equal(mnem_trace_reader_note_of(all, "verb"), "run"); /* said once */
    assert_string_equal(mnem_trace_reader_note_of(all, "model"),
                        mnem_trace_reader_note_of(own, "model"));
    assert_string_equal(mnem_trace_reader_note_of(all, "predicted_bytes"),
                        mnem_trace_reader_note_of(own, "predicted_bytes"));
    mnem_trace_reader_close(all);
    mnem_trace_reader_close(own);
}

static void each_rank_is_in_it_as_it_was(void **state) {
    (void)state;
    char path[RANKS][256];
    mnem_trace_part parts[RANKS];
    for (int i = 0; i < RANKS; i++) {
        record(i, path[i]);
        parts[i] = (mnem_trace_part){path[i], i == 1 ? 12345 : 0, -i, 3};
    }
    for (size_t i = 0; i < 2; i++) {
        const char *all = kit_path(formats[i]);
        mnem_trace_reader *reader;
        mnem_trace_file_info info;
        mnem_trace_event e;
        uint64_t events = 0, last = 0;
        must(mnem_trace_merge(parts, RANKS, all));
        for (uint32_t rank = 0; rank < RANKS; rank++) check_rank(all, &parts[rank], rank);
        must(mnem_trace_reader_open(all, NULL, &reader));
        for (; mnem_trace_reader_next(reader, &e) == 1; events++, last = e.ns)
            assert_true(e.ns >= last);
        mnem_trace_reader_info(reader, &info);
        assert_int_equal(info.events, events);
        assert_true(info.duration_ns >= last);
        assert_non_null(strstr(mnem_trace_reader_note_of(reader, "rank 2"), "clock -2 +- 3 ns"));
        assert_string_equal(mnem_trace_reader_note_of(reader, "model"), "first");
        mnem_trace_reader_close(reader);
        assert_int_equal(
            mnem_trace_reader_open(all, &(mnem_trace_reader_options){.only = RANKS + 1}, &reader),
            MNEM_NOT_FOUND);
        assert_non_null(strstr(mnem_last_error(), "has no rank 3 (it has 3 ranks)"));
    }
    assert_int_equal(mnem_trace_merge(parts, RANKS, kit_path("t.pickle")), MNEM_UNSUPPORTED);
    assert_int_equal(mnem_trace_merge(parts, 0, kit_path("t.json")), MNEM_INVALID);
    parts[1].path = "/nosuch/part";
    assert_int_equal(mnem_trace_merge(parts, RANKS, kit_path("t.json")), MNEM_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_rank_is_in_it_as_it_was)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
