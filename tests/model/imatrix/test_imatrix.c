/* test_imatrix.c: importance matrices: added, written, read; those of llama.cpp; files that lie. */
#include "mnem/imatrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "model/gguf_forge.h"

#define STORED(name) MNEM_TEST_DATA "/imatrix/" name

static void refused(mnem_status status, mnem_status expected, const char *words) {
    if (status != expected || !strstr(mnem_last_error(), words))
        fail_msg("status %d, no \"%s\": %s", status, words, mnem_last_error());
}

static void same_entries(const mnem_imatrix *a, const mnem_imatrix *b) {
    mnem_imatrix_entry x, y;
    int64_t i = 0;
    for (; mnem_imatrix_entry_get(a, i, &x); i++) {
        assert_true(mnem_imatrix_find(b, x.tensor, &y));
        assert_true(x.matrices == y.matrices && x.columns == y.columns);
        assert_memory_equal(x.sums, y.sums, (size_t)(x.matrices * x.columns) * sizeof *x.sums);
        assert_memory_equal(x.counts, y.counts, (size_t)x.matrices * sizeof *x.counts);
    }
    assert_true(i > 0);
    assert_false(mnem_imatrix_entry_get(b, i, &y));
}

static mnem_status make(mnem_imatrix **m) {
    static const float sums[] = {1, 2, 3, 4, 5, 6}, counts[] = {10, 0, 20};
    mnem_status status = mnem_imatrix_create(m);
    if (status == MNEM_OK) status = mnem_imatrix_add(*m, "b", 1, 4, sums, counts);
    if (status == MNEM_OK) status = mnem_imatrix_add(*m, "c.weight", 3, 2, sums, counts);
    if (status == MNEM_OK) status = mnem_imatrix_add(*m, "a", 1, 2, sums + 4, counts + 2);
    if (status == MNEM_OK) status = mnem_imatrix_note(*m, "one.txt", 7, 512);
    if (status == MNEM_OK) status = mnem_imatrix_note(*m, "two.txt", 3, 256);
    return status;
}

/* ---- what is kept ---- */

static void what_is_added_again_is_summed(void **state) {
    (void)state;
    mnem_imatrix *m;
    mnem_imatrix_entry e;
    must(make(&m));
    must(mnem_imatrix_add(m, "a", 1, 2, (float[]){0.5f, 100}, (float[]){4}));
    assert_true(mnem_imatrix_find(m, "a", &e));
    assert_true(e.sums[0] == 5.5f && e.sums[1] == 106 && e.counts[0] == 24);
    refused(mnem_imatrix_add(m, "a", 1, 1, e.sums, e.counts), MNEM_INVALID,
            "but had 1 of 2 before");
    refused(mnem_imatrix_add(m, "", 1, 2, e.sums, e.counts), MNEM_INVALID,
            "the name of a tensor is empty");
    refused(mnem_imatrix_add(m, "a", 0, 1, e.sums, e.counts), MNEM_INVALID,
            "tensor a: matrices is 0 and columns 1, expected at least 1 for both");
    refused(mnem_imatrix_add(m, "x", 1, 2, (float[]){1, -1}, (float[]){1}), MNEM_INVALID,
            "tensor x.in_sum2: the number at index 1 is -1");
    refused(mnem_imatrix_add(m, "x", 1, 1, (float[]){1}, (float[]){NAN}), MNEM_INVALID,
            "tensor x.counts: the number at index 0 is");
    refused(mnem_imatrix_add(m, "b", 1, 4, (float[]){3e38f, 0, 0, 0}, (float[]){1}), MNEM_OK, "");
    refused(mnem_imatrix_add(m, "b", 1, 4, (float[]){3e38f, 0, 0, 0}, (float[]){1}), MNEM_INVALID,
            "the number at index 0 is inf");
    assert_false(mnem_imatrix_find(m, "x", &e));
    mnem_imatrix_destroy(m);
}

static void a_file_reads_back(void **state) {
    (void)state;
    mnem_imatrix *m, *again;
    mnem_imatrix_info info;
    must(make(&m));
    must(mnem_imatrix_write(m, kit_path("m.gguf")));
    must(mnem_imatrix_open(kit_path("m.gguf"), &again));
    same_entries(m, again);
    mnem_imatrix_info_get(again, &info);
    assert_true(info.entries == 3 && info.texts == 2 && info.chunks == 10);
    assert_int_equal(info.chunk_size, 256);
    assert_string_equal(mnem_imatrix_text(again, 1), "two.txt");
    assert_null(mnem_imatrix_text(again, 2));
    must(mnem_imatrix_write(again, kit_path("n.gguf")));
    assert_same_files(kit_path("m.gguf"), kit_path("n.gguf"));
    mnem_imatrix_destroy(m);
    mnem_imatrix_destroy(again);
}

/* Both of one run of llama-imatrix: the older file has means times chunks. */
static void both_files_of_llama_cpp_say_the_same(void **state) {
    (void)state;
    mnem_imatrix *m, *old;
    mnem_imatrix_info info;
    mnem_imatrix_entry e, o;
    must(mnem_imatrix_open(STORED("llama.gguf"), &m));
    must(mnem_imatrix_open(STORED("llama.dat"), &old));
    mnem_imatrix_info_get(m, &info);
    assert_true(info.texts == 1 && info.chunks == 2 && info.chunk_size == 64 && info.entries > 9);
    for (int64_t i = 0; mnem_imatrix_entry_get(m, i, &e); i++) {
        assert_true(mnem_imatrix_find(old, e.tensor, &o));
        assert_true(e.counts[0] == 128 && o.counts[0] == 2 && o.columns == e.columns);
        for (int64_t j = 0; j < e.columns; j++)
            assert_true(fabsf(e.sums[j] / 128 - o.sums[j] / 2) <= 1e-5f * o.sums[j]);
    }
    mnem_imatrix_info_get(old, &info);
    assert_true(info.texts == 1 && info.chunks == 2);
    mnem_imatrix_destroy(m);
    mnem_imatrix_destroy(old);
}

static void experts_have_counts_of_their_own(void **state) {
    (void)state;
    mnem_imatrix *m;
    mnem_imatrix_entry e;
    must(mnem_imatrix_open(STORED("qwen3moe.gguf"), &m));
    assert_true(mnem_imatrix_find(m, "blk.0.ffn_gate_exps.weight", &e));
    assert_true(e.matrices > 1);
    float rows = 0;
    for (int64_t i = 0; i < e.matrices; i++) rows += e.counts[i];
    assert_true(rows > 128 && fmodf(rows, 128) == 0); /* each token chose several */
    must(mnem_imatrix_write(m, kit_path("moe.gguf")));
    mnem_imatrix_destroy(m);
}

/* ---- files that lie ---- */

typedef struct lie {
    const char *type, *sums, *counts; /* names; NULL: not there */
    uint32_t sums_type;
    uint64_t columns, matrices;
    float number, count;
    const char *words;
} lie;

static void write_lie(const lie *l, const char *path) {
    static forge f;
    const uint64_t sums[] = {l->columns, l->matrices}, counts[] = {1, l->matrices};
    const uint64_t tensors = (l->sums != NULL) + (l->counts != NULL);
    const size_t sums_bytes = (size_t)(l->columns * l->matrices) * (l->sums_type ? 2 : 4);
    f.n = 0;
    forge_head(&f, 3, tensors, l->type ? 1 : 0);
    if (l->type) forge_key_text(&f, "general.type", l->type);
    if (l->sums) forge_tensor(&f, l->sums, 2, sums, l->sums_type, 0);
    if (l->counts)
        forge_tensor(&f, l->counts, 2, counts, 0, l->sums ? (sums_bytes + 31) / 32 * 32 : 0);
    forge_pad(&f, 32);
    for (size_t i = 0; l->sums && i < sums_bytes / 4; i++) forge_put(&f, &l->number, 4);
    forge_pad(&f, 32);
    for (uint64_t i = 0; l->counts && i < l->matrices; i++) forge_put(&f, &l->count, 4);
    forge_pad(&f, 32);
    forge_write(&f, path);
}

static void a_file_that_lies_is_named_with_tensor_and_number(void **state) {
    (void)state;
    static const lie lies[] = {
        {"model", "a.in_sum2", "a.counts", 0, 4, 1, 1, 1, "general.type to be \"imatrix\""},
        {NULL, "a.in_sum2", "a.counts", 0, 4, 1, 1, 1, "general.type to be \"imatrix\""},
        {"imatrix", "a.in_sum2", NULL, 0, 4, 1, 1, 1,
         "tensor a.in_sum2: tensor a.counts, which belongs to it, is missing"},
        {"imatrix", NULL, "a.counts", 0, 4, 1, 1, 1,
         "tensor a.counts: tensor a.in_sum2, which belongs to it, is missing"},
        {"imatrix", "a.in_sum2", "a.counts", 1, 4, 1, 1, 1, "tensor a.in_sum2 has the type F16"},
        {"imatrix", "a.in_sum2", "a.counts", 0, 4, 1, -2, 1,
         "tensor a.in_sum2: the number at index 0 is -2"},
        {"imatrix", "a.in_sum2", "a.counts", 0, 4, 2, 1, INFINITY,
         "tensor a.counts: the number at index 0"},
    };
    mnem_imatrix *m;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        write_lie(&lies[i], kit_path("lie.gguf"));
        refused(mnem_imatrix_open(kit_path("lie.gguf"), &m), MNEM_BAD_FILE, lies[i].words);
        assert_non_null(strstr(mnem_last_error(), "lie.gguf"));
        assert_null(m);
    }
}

static void an_older_file_that_is_cut_off_is_refused(void **state) {
    (void)state;
    size_t n;
    mnem_imatrix *m;
    char *bytes = read_file(STORED("llama.dat"), &n);
    for (size_t cut = 0; cut < n; cut += cut < 64 || cut > n - 64 ? 1 : 37) {
        write_file(kit_path("cut.dat"), bytes, cut);
        const mnem_status status = mnem_imatrix_open(kit_path("cut.dat"), &m);
        if (status == MNEM_OK) { /* only the text's name and the chunks may be missing */
            assert_true(cut + 64 > n);
            mnem_imatrix_destroy(m);
        }
    }
    free(bytes);
    write_file(kit_path("words.dat"), "In the beginning", 16);
    refused(mnem_imatrix_open(kit_path("words.dat"), &m), MNEM_BAD_FILE,
            "neither a GGUF nor a valid .dat importance matrix");
    refused(mnem_imatrix_open(kit_path("none"), &m), MNEM_IO, "can't be opened");
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 99};
    mnem_status status;
    mnem_imatrix *m;
    do {
        heap_sweep_begin(&sweep, true);
        status = make(&m);
        if (status == MNEM_OK) status = mnem_imatrix_write(m, kit_path("oom.gguf"));
        mnem_imatrix_destroy(m);
        if (status == MNEM_OK) status = mnem_imatrix_open(kit_path("oom.gguf"), &m);
        if (status == MNEM_OK) mnem_imatrix_destroy(m);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_again_is_summed),
        cmocka_unit_test(a_file_reads_back),
        cmocka_unit_test(both_files_of_llama_cpp_say_the_same),
        cmocka_unit_test(experts_have_counts_of_their_own),
        cmocka_unit_test(a_file_that_lies_is_named_with_tensor_and_number),
        cmocka_unit_test(an_older_file_that_is_cut_off_is_refused),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
