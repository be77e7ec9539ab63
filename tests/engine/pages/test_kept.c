/* test_kept.c: the table of what each layer keeps, and who follows it: pages, the plan and saved
 * files have the bytes of its rows, of every kind of layer. */
#include <unistd.h>

#include "engine/engine_private.h"
#include "engine/pages/saved_case.h"

static const struct {
    const char *path;
    bool ids, keeps; /* by page; a layer sees all */
    int32_t window;  /* of the layers that see less */
} models[] = {{LLAMA, false, true, 0},
              {STATES, true, true, 0},                    /* convolutions, attention */
              {FAMILY("gemma3"), false, true, 24},        /* windows in 5 of 6 layers */
              {FAMILY("gemma4_rows"), false, true, 24},   /* heads by kind; the last half shares */
              {FAMILY("phi3_window"), false, false, 24}}; /* in all */
enum { MODELS = sizeof models / sizeof *models };

/* Bytes of one page of the kind, row by row; 0: no layer is of the kind. */
static uint64_t rows_bytes(const mnem_engine *e, int kind) {
    uint64_t bytes = 0;
    const int32_t layers = e->map->shape.layers;
    for (int32_t row = 0; row < (e->map->shape.state_beside ? 2 * layers : layers); row++) {
        const mnem__kept kept = mnem__kept_of(&e->map->shape, &e->pages[0].layout, row);
        if (kept.pages == (mnem__kv_kind)kind && kept.row == row) bytes += kept.page_bytes;
    }
    return bytes;
}

static void a_kind_of_pages_is_what_its_rows_add_up_to(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        engine_case c;
        uint64_t bytes = 0;
        bool ids = false, keeps = false, forgets = false;
        open_case(&c, models[m].path, MNEM_KV_F16, 16);
        for (int k = 0; k < MNEM__KV_KINDS; k++) {
            const mnem__kv_need *need = mnem__engine_need(c.engine, k);
            assert_true(c.engine->pages[k].page_bytes == rows_bytes(c.engine, k));
            assert_int_equal(c.engine->pages[k].count > 0, rows_bytes(c.engine, k) > 0);
            assert_int_equal(c.engine->pages[k].ids != NULL, need->ids);
            bytes += need->page_bytes;
            forgets = forgets || need->forgets;
            ids = ids || need->ids;
            keeps = keeps || mnem__engine_keeps(c.engine, k);
        }
        assert_true(bytes == c.plan.page_bytes);
        assert_int_equal(forgets, models[m].window > 0);
        assert_int_equal(c.engine->tables.window, models[m].window);
        assert_int_equal(ids, models[m].ids);
        assert_int_equal(keeps, models[m].keeps);
        engine_case_close(&c);
    }
}

/* Head, ids of the text, and of each kind the pages that the sequence holds, with a sum each. */
static uint64_t save_bytes(const mnem_engine *e, const mnem_sequence *s) {
    uint64_t bytes = 88 + mnem_sequence_length(s) * sizeof(int32_t);
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const uint64_t ids = mnem__engine_need(e, k)->ids ? PAGE * sizeof(int32_t) : 0;
        const uint64_t pages = (uint64_t)(s->table[k].used - s->table[k].first);
        if (rows_bytes(e, k) > 0) bytes += pages * (rows_bytes(e, k) + ids + sizeof(uint64_t));
    }
    return bytes;
}

static void a_save_has_what_the_rows_say(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        engine_case c;
        mnem_sequence *s;
        mnem_saved saved;
        float logits[VOCAB];
        const int fd = new_file();
        open_case(&c, models[m].path, MNEM_KV_F16, 16);
        must(mnem_sequence_create(c.engine, &s));
        go_on(&c, s, LENGTH, logits);
        assert_int_equal(mnem__sequence_held(s) > 0, models[m].window > 0);
        must(mnem_sequence_save(s, text, 0, fd, 0));
        assert_true(mnem_sequence_save_bytes(s, 0) == save_bytes(c.engine, s));
        assert_int_equal(lseek(fd, 0, SEEK_END), save_bytes(c.engine, s));
        must(mnem_saved_open(c.engine, fd, 0, &saved));
        assert_int_equal(saved.first_window, mnem__sequence_held(s));
        close(fd);
        mnem_sequence_destroy(s);
        engine_case_close(&c);
    }
}

/* A table's number stands where users find it. */
static void counts_are_of_their_kinds(void **state) {
    (void)state;
    mnem_page_count a = {.full = 3, .window = 5};
    const mnem_page_count b = {.full = 4, .window = 1};
    assert_int_equal(mnem__page_count_of(a, MNEM__KV_FULL), a.full);
    assert_int_equal(mnem__page_count_of(a, MNEM__KV_WINDOW), a.window);
    assert_int_equal(mnem__page_count_total(a), 8);
    assert_int_equal(mnem__page_count_plus(a, b).full, 7);
    assert_int_equal(mnem__page_count_minus(a, b).window, 4);
    assert_int_equal(mnem__page_count_max(a, b).full, 4);
    assert_int_equal(mnem__page_count_max(a, b).window, 5);
    assert_false(mnem__page_count_fits(a, b));
    assert_false(mnem__page_count_fits(b, a));
    assert_true(mnem__page_count_fits(a, a));
}

/* Layers 3 and 4 have windows, 5 has none; of those before 1 and 2 are the last. */
static void a_layer_that_shares_keeps_nothing_of_its_own(void **state) {
    (void)state;
    static const int32_t of[] = {0, 1, 2, 1, 1, 2};
    engine_case c;
    open_case(&c, FAMILY("gemma4_rows"), MNEM_KV_F16, 16);
    const mnem_transformer *t = &c.engine->map->shape;
    for (int32_t layer = 0; layer < 6; layer++) {
        const mnem__kept kept = mnem__kept_of(t, &c.engine->pages[0].layout, layer);
        mnem_kv_layout own = c.engine->pages[0].layout;
        own.head_dim = layer % 3 == 2 ? 16 : 8;
        assert_int_equal(kept.row, of[layer]);
        assert_int_equal(kept.window, layer % 3 == 2 ? 0 : 24);
        assert_true(kept.page_bytes == (layer < 3 ? mnem_kv_page_bytes(&own) : 0));
    }
    engine_case_close(&c);
}

/* Of three layers the second takes the choice of the first. */
static void keys_of_an_indexer_lie_behind_keys_and_values(void **state) {
    (void)state;
    const mnem_kv_choice types[] = {MNEM_KV_F16, MNEM_KV_F32};
    for (int i = 0; i < 2; i++) {
        engine_case c;
        open_case(&c, FAMILY("glm_dsa_shared"), types[i], 16);
        const mnem_transformer *t = &c.engine->map->shape;
        const mnem_kv_layout *layout = &c.engine->pages[0].layout;
        uint64_t all = 0;
        for (int32_t layer = 0; layer < 3; layer++) {
            const mnem__kept kept = mnem__kept_of(t, layout, layer);
            const uint64_t keys = layer == 1 ? 0 : (uint64_t)64 * 16 * (i ? 4 : 2);
            assert_int_equal(kept.page_bytes, mnem_kv_page_bytes(layout) + keys);
            all += kept.page_bytes;
        }
        assert_int_equal(c.engine->pages[0].page_bytes, all);
        engine_case_close(&c);
    }
}

/* Values have their own width, where that is made of whole blocks of the pages' type. */
static void values_are_kept_as_wide_as_they_are(void **state) {
    (void)state;
    static const struct {
        const char *path;
        mnem_kv_choice type;
        int32_t keys, values, kept;
    } cases[] = {{FAMILY("mimo2"), MNEM_KV_F16, 24, 16, 16},
                 {FAMILY("mimo2"), MNEM_KV_F32, 24, 16, 16},
                 {FAMILY("deepseek2"), MNEM_KV_F16, 40, 32, 32}, /* keys: a latent, and 8 turned */
                 {LLAMA, MNEM_KV_F16, 8, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine_case c;
        open_case(&c, cases[i].path, cases[i].type, 16);
        const mnem_kv_layout *kv = &c.engine->pages[0].layout;
        const int32_t values = kv->value_dim ? kv->value_dim : kv->head_dim;
        const uint64_t numbers = (uint64_t)kv->head_dim + ((uint64_t)values + 15) / 16 * 16;
        assert_int_equal(kv->head_dim, cases[i].keys);
        assert_int_equal(kv->value_dim, cases[i].kept);
        assert_int_equal(mnem_kv_page_bytes(kv), (uint64_t)kv->kv_heads * PAGE * numbers *
                                                     (cases[i].type == MNEM_KV_F32 ? 4 : 2));
        assert_int_equal(mnem__kv_layout_for(&c.engine->map->shape, MNEM_KV_Q8_0).value_dim,
                         cases[i].values % 32 ? 0 : cases[i].values);
        engine_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_of_pages_is_what_its_rows_add_up_to),
        cmocka_unit_test(a_save_has_what_the_rows_say),
        cmocka_unit_test(counts_are_of_their_kinds),
        cmocka_unit_test(a_layer_that_shares_keeps_nothing_of_its_own),
        cmocka_unit_test(keys_of_an_indexer_lie_behind_keys_and_values),
        cmocka_unit_test(values_are_kept_as_wide_as_they_are),
    };
    return cmocka_run_group_tests(tests, fill_text, NULL);
}
