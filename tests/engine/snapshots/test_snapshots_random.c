/* test_snapshots_random.c: random cuts, forks, steps, saves and loads of sequences with snapshots,
 * in memory and in a store that fails: they have the bits of a text that never was cut, and the
 * books of pages and slots are right after each. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/saved/saved_private.h"
#include "engine/snapshots/snapshots_case.h"

static uint64_t state_;

static int32_t random_to(int32_t most) { /* 0 to most; xorshift64* */
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (int32_t)(state_ * 0x2545f4914f6cdd1d >> 33) % (most + 1);
}

/* A store in memory that is full, refuses and fails at random. */
enum { SLOTS = 40, STATE_MOST = 1 << 14 };
static struct {
    uint8_t bytes[SLOTS][STATE_MOST];
    bool taken[SLOTS];
    mnem_engine *engine;
    int32_t out, in, saved, loaded;
} shelf;

static void *state_on(int32_t page) {
    return mnem__location_host(mnem__kv_page_at(&shelf.engine->pages[MNEM__KV_STATES], page));
}

static int32_t shelf_write(void *context, int32_t page, int32_t position, int32_t tokens) {
    (void)context;
    int32_t slot = 0;
    assert_in_range(tokens, 1, position);
    if (random_to(7) == 0) return MNEM__STORE_NOT;
    while (slot < SLOTS && shelf.taken[slot]) slot++;
    if (slot == SLOTS || random_to(9) == 0) return MNEM__STORE_FULL;
    memcpy(shelf.bytes[slot], state_on(page), shelf.engine->pages[MNEM__KV_STATES].page_bytes);
    shelf.taken[slot] = true;
    shelf.out++;
    return slot;
}

static bool shelf_read(void *context, int32_t slot, int32_t page) {
    (void)context;
    assert_true(shelf.taken[slot]);
    if (random_to(7) == 0) return false;
    memcpy(state_on(page), shelf.bytes[slot], shelf.engine->pages[MNEM__KV_STATES].page_bytes);
    shelf.in++;
    return true;
}

static void shelf_drop(void *context, int32_t slot) {
    (void)context;
    assert_true(shelf.taken[slot]);
    shelf.taken[slot] = false;
}

static mnem_status shelf_save(void *context, int32_t slot, int fd, uint64_t at,
                              mnem__checksum *sum) {
    const size_t n = shelf.engine->pages[MNEM__KV_STATES].page_bytes;
    (void)context;
    assert_true(shelf.taken[slot]);
    if (random_to(7) == 0) return MNEM_NOT_READY;
    mnem__checksum_add(sum, shelf.bytes[slot], n);
    assert_int_equal(pwrite(fd, shelf.bytes[slot], n, (off_t)at), (ssize_t)n);
    shelf.saved++;
    return MNEM_OK;
}

static int32_t shelf_load(void *context, int fd, uint64_t at, int32_t position, int32_t tokens,
                          mnem__checksum *sum) {
    const size_t n = shelf.engine->pages[MNEM__KV_STATES].page_bytes;
    int32_t slot = 0;
    (void)context;
    assert_in_range(tokens, 1, position);
    while (slot < SLOTS && shelf.taken[slot]) slot++;
    if (slot == SLOTS || random_to(9) == 0) return MNEM__STORE_FULL;
    assert_int_equal(pread(fd, shelf.bytes[slot], n, (off_t)at), (ssize_t)n);
    mnem__checksum_add(sum, shelf.bytes[slot], n);
    shelf.taken[slot] = true;
    shelf.loaded++;
    return slot;
}

static void put_up_shelf(mnem_engine *e) {
    memset(shelf.taken, 0, sizeof shelf.taken);
    shelf.engine = e;
    assert_true(e->pages[MNEM__KV_STATES].page_bytes <= STATE_MOST);
    e->snapshots.store = (mnem__snapshot_store){.write = shelf_write,
                                                .read = shelf_read,
                                                .drop = shelf_drop,
                                                .save = shelf_save,
                                                .load = shelf_load};
}

/* A slot is taken exactly where a list has it. */
static void check_shelf(const mnem__snapshots *x, int seed) {
    int32_t found[SLOTS] = {0}, stored = 0;
    for (int32_t l = 0; l < x->list_count; l++)
        for (int32_t k = 0; k < x->lists[l].count; k++)
            if (x->lists[l].at[k].page < 0) found[x->lists[l].at[k].slot]++, stored++;
    for (int32_t i = 0; i < SLOTS; i++)
        if ((found[i] > 0) != shelf.taken[i]) fail_msg("seed %d: slot %d", seed, i);
    if (stored != x->stored) fail_msg("seed %d: %d stored", seed, stored);
}

/* Every page has as many references as tables and lists have it, and snapshots leave live states
 * the room that they were planned with. */
static void check_books(const engine_case *c, int seed) {
    const mnem_engine *e = c->engine;
    const mnem__kv_pages *pages = &e->pages[MNEM__KV_STATES];
    int32_t references[64] = {0}, held[64] = {0}, used = 0, free = 0, live = 0;
    for (int32_t i = 0; i < e->sequences; i++) {
        const mnem_sequence *s = &e->tables.sequences[i];
        const mnem__snapshot_list *list = &e->snapshots.lists[i];
        const mnem__kv_table *t = &s->table[MNEM__KV_STATES];
        if (t->used) references[t->page[0]]++;
        for (int32_t k = 0; k < list->count; k++) {
            if (list->at[k].page >= 0) references[list->at[k].page]++;
            if (list->at[k].page >= 0) held[list->at[k].page]++;
            if (list->at[k].position > s->length ||
                (k > 0 && list->at[k].position <= list->at[k - 1].position))
                fail_msg("seed %d: snapshot %d at %d", seed, k, list->at[k].position);
        }
    }
    for (int32_t p = 0; p < pages->count; p++) {
        if (references[p] != pages->references[p]) fail_msg("seed %d: page %d", seed, p);
        used += held[p] > 0;
        free += references[p] == 0;
        live += references[p] > 0 && held[p] == 0;
    }
    if (used != e->snapshots.used || free != pages->free_count || used > e->snapshots.most ||
        pages_of(c).free.states != pages_of(c).all.states - live)
        fail_msg("seed %d: %d snapshots, %d free, %d live", seed, used, free, live);
}

static void go(engine_case *c, mnem_sequence *s, int seed) {
    const int32_t length = mnem_sequence_length(s);
    const int32_t ready = s->ready, to = length + 1 + random_to(40);
    const mnem__snapshot *near = mnem__snapshots_find(mnem__sequence_snapshots(s), length);
    /* With a store a snapshot may go, while the state that was read of it stays. */
    const int32_t snapshot = near ? near->position : 0;
    if (ready < snapshot ||
        (ready < length && ready > snapshot && !c->engine->snapshots.store.write))
        fail_msg("seed %d: %d tokens go on from %d", seed, length, ready);
    if (to > LENGTH) return;
    if (random_to(3) == 0) {
        const int32_t at[] = {length + random_to(9), length + 10 + random_to(9)};
        mnem_sequence_snapshots_at(s, at, 2);
    }
    if (check(c, s, to) != length - ready) fail_msg("seed %d: from %d of %d", seed, ready, length);
}

enum { SEQUENCES = 5 };

/* A cut may leave the state where it is; then another one fetches it before the next step. */
static void cut_back(mnem_sequence *s) {
    const int32_t n = random_to(mnem_sequence_length(s));
    if (random_to(2)) {
        must(mnem_sequence_truncate(s, n));
        return;
    }
    must(mnem__sequence_truncate_away(s, n));
    if (random_to(1)) (void)mnem__sequence_put_away(s);
}

/* To a file and back, with some of its snapshots, from wherever they are. */
static void save_and_load(engine_case *c, mnem_sequence **s) {
    mnem_saved saved;
    const int32_t most = random_to(3) ? INT32_MAX : random_to(3);
    const int32_t ready = mnem__sequence_ready(*s, mnem_sequence_length(*s));
    if (ready == 0) return; /* there is nothing to save */
    must(mnem__sequence_truncate_away(*s, ready));
    const int fd = memfd_create("saved", MFD_CLOEXEC);
    const uint64_t bytes = mnem__sequence_save_bytes(*s, 0, most);
    const uint64_t sum = mnem__checksum_of(text, (size_t)ready * sizeof *text);
    const mnem_status status = mnem__sequence_save(*s, text, sum, 0, most, fd, 0);
    if (status == MNEM_OK) {
        assert_in_range(lseek(fd, 0, SEEK_END), 1, bytes);
        mnem_sequence_destroy(*s);
        must(mnem_sequence_create(c->engine, s));
        must(mnem_saved_open(c->engine, fd, 0, &saved));
        assert_true(saved.states >= 1 && saved.states - 1 <= most && saved.bytes <= bytes);
        must(mnem_sequence_load(*s, &saved, ready));
        assert_int_equal(mnem__sequence_ready(*s, ready), ready);
    } else {
        assert_int_equal(status, MNEM_NOT_READY); /* what could not be read is gone */
        assert_true(mnem__sequence_ready(*s, ready) < ready);
    }
    close(fd);
}

static void mix(engine_case *c, mnem_sequence **s, int seed) {
    const int i = random_to(SEQUENCES - 1), k = random_to(SEQUENCES - 1);
    if (!s[i] && !s[k]) {
        must(mnem_sequence_create(c->engine, &s[i]));
    } else if (!s[i]) {
        const int32_t n = random_to(mnem_sequence_length(s[k]));
        const int32_t stored = c->engine->snapshots.stored;
        const mnem_status status = mnem_sequence_fork(s[k], n, &s[i]);
        if (status == MNEM_OK) return;
        assert_int_equal(status, MNEM_OVER_BUDGET); /* what could not be read is gone */
        assert_true(!s[i] && c->engine->snapshots.stored < stored);
    } else if (random_to(5) == 0) {
        mnem_sequence_destroy(s[i]);
        s[i] = NULL;
    } else if (random_to(3) == 0) {
        cut_back(s[i]);
    } else if (random_to(3) == 0) {
        save_and_load(c, &s[i]);
    } else {
        must(mnem_sequence_truncate(s[i], mnem_sequence_length(s[i])));
        go(c, s[i], seed);
    }
}

static void mix_with(int seed, bool with_shelf) {
    engine_case c;
    mnem_sequence *s[SEQUENCES] = {0};
    state_ = 0x9e3779b97f4a7c15 * (uint64_t)seed;
    mnem_engine_options o = snapshots_plain;
    o.sequences = SEQUENCES;
    o.chunk = 1 + random_to(70);
    o.snapshots = random_to(with_shelf ? 6 : 20);
    o.snapshot_tokens = 8 + random_to(60);
    engine_case_open(&c, STATES, 0, &o);
    if (with_shelf) put_up_shelf(c.engine);
    for (int step = 0; step < 60; step++) {
        mix(&c, s, seed);
        check_books(&c, seed);
        if (with_shelf) check_shelf(&c.engine->snapshots, seed);
    }
    for (int i = 0; i < SEQUENCES; i++) mnem_sequence_destroy(s[i]);
    check_books(&c, seed);
    if (with_shelf) check_shelf(&c.engine->snapshots, seed);
    assert_int_equal(c.engine->snapshots.stored, 0);
    engine_case_close(&c);
}

static void random_mixes_have_the_bits_of_a_text_that_never_was_cut(void **state) {
    (void)state;
    for (int seed = 1; seed <= 60; seed++) mix_with(seed, false);
}

static void a_store_that_fails_at_random_changes_no_bit(void **state) {
    (void)state;
    for (int seed = 1; seed <= 60; seed++) mix_with(seed, true);
    assert_true(shelf.out > 60 && shelf.in > 60 && shelf.saved > 60 && shelf.loaded > 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_mixes_have_the_bits_of_a_text_that_never_was_cut),
        cmocka_unit_test(a_store_that_fails_at_random_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
