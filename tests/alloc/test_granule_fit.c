/* test_granule_fit.c: the granule allocator against a model that carries out its map and unmap
 * orders. */
#include <stdlib.h>
#include <string.h>

#include "alloc/granule/granule_fit.h"
#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/device.h"

enum {
    UNIT = 256,
    UNITS = 64, /* of a granule */
    GRANULE = UNIT * UNITS,
    GRANULES = 40,
    SLOTS = 16 * GRANULES,
    BLOCKS = 400,
    NOBODY = -1
};

/* ---- the model ---- */

typedef struct block {
    uint64_t offset, bytes;
    uint32_t handle;
} block;

typedef struct model {
    int shown[SLOTS];            /* the granule that is mapped there, or NOBODY */
    int owner[GRANULES * UNITS]; /* the block that lives there */
    int users[SLOTS];            /* live units seen through the slot */
    bool there[GRANULES];
    block blocks[BLOCKS];
    int live, orders, refuse_at; /* the order with this number is refused; 0: none */
    uint64_t live_bytes;
} model;

static mnem_status follow(void *context, const mnem__granule_order *order) {
    model *m = context;
    if (++m->orders == m->refuse_at) return MNEM_CANCELLED;
    for (size_t k = 0; k < order->take_count; k++) {
        assert_true(order->take[k] < GRANULES && !m->there[order->take[k]]);
        m->there[order->take[k]] = true;
    }
    assert_int_equal(order->map_offset % GRANULE, 0);
    for (size_t k = 0; k < order->map_count; k++) {
        const size_t slot = order->map_offset / GRANULE + k;
        assert_true(slot < SLOTS && m->shown[slot] == NOBODY && m->there[order->map[k]]);
        m->shown[slot] = (int)order->map[k];
    }
    for (size_t k = 0; k < order->unmap_count; k++)
        for (uint32_t n = 0; n < order->unmap[k].count; n++) {
            const size_t slot = order->unmap[k].offset / GRANULE + n;
            assert_true(slot < SLOTS && m->shown[slot] != NOBODY);
            assert_int_equal(m->users[slot], 0);
            m->shown[slot] = NOBODY;
        }
    for (size_t k = 0; k < order->give_count; k++) {
        for (int slot = 0; slot < SLOTS; slot++)
            assert_int_not_equal(m->shown[slot], order->give[k]);
        m->there[order->give[k]] = false;
    }
    return MNEM_OK;
}

static void model_init(model *m) {
    memset(m, 0, sizeof *m);
    for (int slot = 0; slot < SLOTS; slot++) m->shown[slot] = NOBODY;
    for (int unit = 0; unit < GRANULES * UNITS; unit++) m->owner[unit] = NOBODY;
}

/* Every byte of a new block is mapped and nobody's; of an old one, mapped and still its own. */
static void model_claim(model *m, const block *b, int from, int to) {
    for (uint64_t at = b->offset; at < b->offset + b->bytes; at += UNIT) {
        const uint64_t slot = at / GRANULE;
        assert_true(slot < SLOTS && m->shown[slot] != NOBODY);
        int *owner = &m->owner[m->shown[slot] * UNITS + (int)(at % GRANULE / UNIT)];
        assert_int_equal(*owner, from);
        *owner = to;
        m->users[slot] += (to != NOBODY) - (from != NOBODY);
    }
    m->live_bytes += (to != NOBODY) * b->bytes - (from != NOBODY) * b->bytes;
}

static mnem_status model_alloc(model *m, mnem__granule_fit *f, uint64_t bytes) {
    mnem__granule_block got;
    const mnem_status status = mnem__granule_fit_alloc(f, bytes, &got);
    if (status != MNEM_OK) return status;
    block *b = &m->blocks[m->live];
    *b = (block){got.offset, (bytes + UNIT - 1) / UNIT * UNIT, got.handle};
    assert_int_equal(b->bytes, mnem__granule_fit_block_bytes(f, b->handle));
    model_claim(m, b, NOBODY, (int)b->handle);
    m->live++;
    return MNEM_OK;
}

static void model_free(model *m, mnem__granule_fit *f, int k) {
    block b = m->blocks[k];
    m->blocks[k] = m->blocks[--m->live];
    model_claim(m, &b, (int)b.handle, NOBODY);
    mnem__granule_fit_free(f, b.handle);
}

static void model_compare(const model *m, const mnem__granule_fit *f) {
    mnem__granule_info info;
    uint32_t there = 0;
    must(mnem__granule_fit_check(f));
    mnem__granule_fit_info_get(f, &info);
    for (int granule = 0; granule < GRANULES; granule++) there += m->there[granule];
    assert_int_equal(info.granules, there);
    assert_int_equal(info.blocks_live, m->live);
    assert_int_equal(info.bytes_live, m->live_bytes);
    assert_int_equal(info.bytes_live + info.bytes_free, (uint64_t)there * GRANULE);
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        assert_int_equal((int)mnem__granule_fit_at(f, slot * GRANULE), m->shown[slot]);
}

static mnem__granule_options options_of(model *m) {
    return (mnem__granule_options){.granules_max = GRANULES,
                                   .granule_bytes = GRANULE,
                                   .growth = 4,
                                   .blocks_max = BLOCKS,
                                   .carry_out = follow,
                                   .context = m};
}

static mnem__granule_fit *fit_create(model *m) {
    mnem__granule_fit *f;
    const mnem__granule_options options = options_of(m);
    model_init(m);
    must(mnem__granule_fit_create(&options, &f));
    return f;
}

/* Mostly small, some of about a granule, some of many. */
static uint64_t random_bytes(uint64_t *state) {
    const uint64_t kind = next_random(state) % 16;
    const uint64_t most = kind < 6 ? 3 : kind < 12 ? UNITS : kind < 15 ? 3 * UNITS : 20 * UNITS;
    return 1 + next_random(state) % (most * UNIT);
}

/* Steps of a mood that changes: filling up, running empty, a comb of one size. */
static void random_steps(model *m, mnem__granule_fit *f, uint64_t seed, int steps, int every) {
    uint64_t state = seed, comb = 0, refused = 0;
    for (int step = 0; step < steps; step++) {
        if (step % 500 == 0) comb = next_random(&state) % 3 ? 0 : random_bytes(&state) % 50000 + 1;
        const bool fill = next_random(&state) % 100 < (step / 250 % 2 ? 45u : 60u);
        if (m->live && (!fill || m->live == BLOCKS)) {
            model_free(m, f, (int)(next_random(&state) % (uint64_t)m->live));
        } else {
            const mnem_status status = model_alloc(m, f, comb ? comb : random_bytes(&state));
            if (status != MNEM_OK) assert_int_equal(status, MNEM_OVER_BUDGET);
            refused += status != MNEM_OK;
        }
        if (next_random(&state) % 4000 == 0) must(mnem__granule_fit_trim(f, 8));
        if (every && step % every == 0) model_compare(m, f);
    }
    assert_true(refused > 0 || steps < 10000); /* it was full at times */
}

static void drain(model *m, mnem__granule_fit *f) {
    while (m->live) model_free(m, f, m->live - 1);
    must(mnem__granule_fit_trim(f, 0));
    model_compare(m, f);
    for (int granule = 0; granule < GRANULES; granule++) assert_false(m->there[granule]);
    mnem__granule_fit_destroy(f);
}

/* ---- tests ---- */

static void live_blocks_never_share_a_byte(void **state) {
    (void)state;
    static model m;
    const uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
    print_message("seed %llx\n", (unsigned long long)seed);
    mnem__granule_fit *f = fit_create(&m);
    random_steps(&m, f, seed, 100000, 1);
    drain(&m, f);
    f = fit_create(&m);
    random_steps(&m, f, seed * 3, MNEM_SANITIZED ? 100000 : 900000, 64);
    mnem__granule_info info;
    mnem__granule_fit_info_get(f, &info);
    assert_true(info.remaps > 1000);
    drain(&m, f);
}

static void remap_first(uint64_t addresses) {
    static model m;
    mnem__granule_fit *f;
    mnem__granule_options options = options_of(&m);
    options.remap_first = true;
    options.growth = 1;
    options.virtual_bytes = addresses * GRANULES * GRANULE;
    model_init(&m);
    must(mnem__granule_fit_create(&options, &f));
    uint64_t seed = 77;
    for (int round = 0; round < 5; round++) {
        for (int step = 0; step < 20000; step++) {
            const bool fill = next_random(&seed) % 2;
            if (fill && m.live < BLOCKS)
                (void)model_alloc(&m, f, random_bytes(&seed));
            else if (m.live)
                model_free(&m, f, (int)(next_random(&seed) % (uint64_t)m.live));
            if (step % 64 == 0) must(mnem__granule_fit_check(f));
            if (step % 1000 == 999) must(mnem__granule_fit_trim(f, 0));
        }
    }
    while (m.live) model_free(&m, f, m.live - 1);
    must(mnem__granule_fit_check(f));
    mnem__granule_fit_destroy(f);
}

static void remapping_first_is_as_right_where_addresses_are_short(void **state) {
    (void)state;
    remap_first(2);
    remap_first(3);
}

static void no_heap_while_blocks_max_are_live(void **state) {
    (void)state;
    static model m;
    mnem__granule_fit *f = fit_create(&m);
    mnem__heap_fail_at(1, true);
    random_steps(&m, f, 12345, 50000, 0);
    mnem__heap_fail_at(0, false);
    model_compare(&m, f);
    drain(&m, f);
}

static void scattered_granules_are_mapped_in_a_row(void **state) {
    (void)state;
    static model m;
    mnem__granule_fit *f = fit_create(&m);
    for (int k = 0; k < GRANULES; k++) must(model_alloc(&m, f, GRANULE));
    for (int k = GRANULES - 2; k >= 0; k -= 2) model_free(&m, f, k);
    const int orders = m.orders;
    must(model_alloc(&m, f, GRANULES / 2 * GRANULE));
    assert_int_equal(m.orders, orders + 1);
    assert_int_equal(mnem__granule_fit_alloc(f, 1, &(mnem__granule_block){0}), MNEM_OVER_BUDGET);
    model_compare(&m, f);
    drain(&m, f);
}

/* Live blocks in the middle of a row keep every granule busy; what is free beside them is used. */
static void parts_of_granules_make_a_place(void **state) {
    (void)state;
    static model m;
    mnem__granule_fit *f = fit_create(&m);
    const uint64_t size = GRANULE + GRANULE / 2;
    while (model_alloc(&m, f, size) == MNEM_OK) {
    }
    const uint64_t before = m.live_bytes;
    for (int k = 0; k + 1 < m.live; k++) model_free(&m, f, k); /* the last one takes its place */
    uint64_t freed = before - m.live_bytes;
    while (freed >= size && model_alloc(&m, f, size) == MNEM_OK) freed -= size;
    assert_true(freed < size);
    model_compare(&m, f);
    drain(&m, f);
}

static void small_blocks_keep_to_few_granules(void **state) {
    (void)state;
    static model m;
    mnem__granule_fit *f = fit_create(&m);
    mnem__granule_info info;
    for (int k = 0; k < 30; k++) {
        must(model_alloc(&m, f, UNIT));
        must(model_alloc(&m, f, GRANULE));
    }
    for (int k = m.live - 1; k >= 0; k--)
        if (m.blocks[k].bytes == GRANULE) model_free(&m, f, k);
    must(mnem__granule_fit_trim(f, 0));
    mnem__granule_fit_info_get(f, &info);
    assert_int_equal(info.granules, 1);
    drain(&m, f);
}

static void a_refused_order_changes_nothing(void **state) {
    (void)state;
    static model m;
    for (int refuse = 1; refuse < 40; refuse++) {
        mnem__granule_fit *f = fit_create(&m);
        uint64_t seed = 99;
        int refused = 0;
        m.refuse_at = refuse;
        for (int step = 0; step < 3000; step++) {
            if (m.live == BLOCKS || (m.live && next_random(&seed) % 100 < 45)) {
                model_free(&m, f, (int)(next_random(&seed) % (uint64_t)m.live));
                continue;
            }
            const mnem_status status = model_alloc(&m, f, random_bytes(&seed));
            if (status != MNEM_CANCELLED) continue;
            refused++;
            model_compare(&m, f);
        }
        assert_int_equal(refused, 1);
        drain(&m, f);
    }
}

static void out_of_memory_at_every_allocation(void **state) {
    (void)state;
    static model m;
    for (uint64_t n = 1;; n++) {
        mnem__granule_options options = options_of(&m);
        mnem__granule_fit *f = NULL;
        uint64_t seed = 5, failures = 0;
        model_init(&m);
        options.blocks_max = 0; /* metadata grows */
        mnem__heap_fail_at(n, false);
        const mnem_status created = mnem__granule_fit_create(&options, &f);
        if (created != MNEM_OK) {
            mnem__heap_fail_at(0, false);
            assert_int_equal(created, MNEM_NO_MEMORY);
            assert_null(f);
            continue;
        }
        for (int step = 0; step < 2000; step++) {
            if (m.live == BLOCKS || (m.live && next_random(&seed) % 100 < 40)) {
                model_free(&m, f, (int)(next_random(&seed) % (uint64_t)m.live));
                continue;
            }
            const mnem_status status = model_alloc(&m, f, 1 + next_random(&seed) % 4000);
            failures += status == MNEM_NO_MEMORY;
            if (status == MNEM_NO_MEMORY) model_compare(&m, f);
        }
        mnem__heap_fail_at(0, false);
        drain(&m, f);
        if (!failures) break;
    }
}

static void bad_options_are_refused(void **state) {
    (void)state;
    mnem__granule_fit *f;
    const mnem__granule_options bad[] = {
        {.granules_max = 0},
        {.granules_max = 4, .granules_start = 5},
        {.granules_max = 4, .granule_bytes = 3000000},
        {.granules_max = 4, .alignment = 3},
        {.granules_max = 4, .granule_bytes = 4096, .alignment = 256},
        {.granules_max = 4, .virtual_bytes = 4 << 21},
        {.granules_max = UINT32_MAX},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(mnem__granule_fit_create(&bad[k], &f), MNEM_INVALID);
    must(mnem__granule_fit_create(&(mnem__granule_options){.granules_max = 4}, &f));
    mnem__granule_block b;
    assert_int_equal(mnem__granule_fit_alloc(f, 0, &b), MNEM_INVALID);
    assert_int_equal(mnem__granule_fit_alloc(f, UINT64_MAX, &b), MNEM_OVER_BUDGET);
    must(mnem__granule_fit_alloc(f, 4 << 21, &b));
    assert_int_equal(mnem__granule_fit_alloc(f, 1, &b), MNEM_OVER_BUDGET);
    mnem__granule_fit_destroy(f);
    mnem__granule_fit_destroy(NULL);
}

/* ---- with memory ---- */

enum { HOST_GRANULES = 24, HOST_GRANULE = 2 << 20 };

typedef struct host {
    mnem_device *device;
    mnem_range range;
    uint64_t granules[HOST_GRANULES];
} host;

static mnem_status host_follow(void *context, const mnem__granule_order *order) {
    host *h = context;
    uint64_t row[HOST_GRANULES * 8];
    for (size_t k = 0; k < order->take_count; k++)
        must(mnem_granules_take(h->device, MNEM_SPACE_DEVICE, &h->granules[order->take[k]], 1));
    assert_true(order->map_count <= sizeof row / sizeof *row);
    for (size_t k = 0; k < order->map_count; k++) row[k] = h->granules[order->map[k]];
    if (order->map_count) must(mnem_range_map(&h->range, order->map_offset, row, order->map_count));
    for (size_t k = 0; k < order->unmap_count; k++)
        must(mnem_range_unmap(&h->range, order->unmap[k].offset, order->unmap[k].count));
    for (size_t k = 0; k < order->give_count; k++)
        must(mnem_granules_give(h->device, &h->granules[order->give[k]], 1));
    return MNEM_OK;
}

/* A number every 4 KiB, and in the last bytes. */
static uint64_t *host_word(const host *h, const block *b, uint64_t at) {
    const uint64_t offset = at + 8 > b->bytes ? b->bytes - 8 : at;
    return (uint64_t *)((char *)mnem_range_host(&h->range) + b->offset + offset);
}

static void host_free(const host *h, mnem__granule_fit *f, block *blocks, int *live, int k) {
    for (uint64_t at = 0; at < blocks[k].bytes + 4096; at += 4096)
        assert_int_equal(*host_word(h, &blocks[k], at), blocks[k].offset ^ blocks[k].handle);
    mnem__granule_fit_free(f, blocks[k].handle);
    blocks[k] = blocks[--*live];
}

static void contents_survive_remaps(void **state) {
    (void)state;
    host h;
    mnem__granule_fit *f;
    block blocks[256];
    int live = 0;
    uint64_t seed = 4711;
    must(mnem_device_open("host", NULL, &h.device));
    must(mnem_range_reserve(h.device, (uint64_t)16 * HOST_GRANULES * HOST_GRANULE, &h.range));
    must(mnem__granule_fit_create(&(mnem__granule_options){.granules_max = HOST_GRANULES,
                                                           .carry_out = host_follow,
                                                           .context = &h},
                                  &f));
    for (int step = 0; step < 4000; step++) {
        const uint64_t most = next_random(&seed) % 4   ? 3 << 20
                              : next_random(&seed) % 2 ? 9000
                                                       : 14 << 20;
        const uint64_t bytes = (next_random(&seed) % most + 256) & ~UINT64_C(255);
        mnem__granule_block got;
        if (live && (live == 256 || next_random(&seed) % 100 < 40)) {
            host_free(&h, f, blocks, &live, (int)(next_random(&seed) % (uint64_t)live));
            continue;
        }
        if (mnem__granule_fit_alloc(f, bytes, &got) != MNEM_OK) continue;
        block *b = &blocks[live++];
        *b = (block){got.offset, bytes, got.handle};
        for (uint64_t at = 0; at < bytes + 4096; at += 4096)
            *host_word(&h, b, at) = b->offset ^ b->handle;
    }
    mnem__granule_info info;
    mnem__granule_fit_info_get(f, &info);
    assert_true(info.remaps > 20);
    while (live) host_free(&h, f, blocks, &live, live - 1);
    must(mnem__granule_fit_trim(f, 0));
    mnem__granule_fit_destroy(f);
    mnem_range_release(&h.range);
    must(mnem_device_close(h.device));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_blocks_never_share_a_byte),
        cmocka_unit_test(remapping_first_is_as_right_where_addresses_are_short),
        cmocka_unit_test(no_heap_while_blocks_max_are_live),
        cmocka_unit_test(scattered_granules_are_mapped_in_a_row),
        cmocka_unit_test(parts_of_granules_make_a_place),
        cmocka_unit_test(small_blocks_keep_to_few_granules),
        cmocka_unit_test(a_refused_order_changes_nothing),
        cmocka_unit_test(out_of_memory_at_every_allocation),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(contents_survive_remaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
