/* test_prune_solved.c: 2:4 by SparseGPT, a layer after another: two of every four are zero, states
 * nearer than by Wanda, the same bytes for any budget, pass and number of threads; what is refused;
 * each failing allocation leaves nothing. */
#include <stdlib.h>
#include <string.h>

#include "compress/hidden_states.h"
#include "kit/kit.h"
#include "kit/kit_device.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_model.h"

/* Under sanitizers, where a solve takes minutes, a short text. */
enum { VOCAB = 96, CHUNK = 48, SEQUENCES = MNEM_SANITIZED ? 2 : 12, TOKENS = SEQUENCES * CHUNK };

static const char tiny[] = MNEM_TEST_DATA "/architectures/llama.gguf";
static char *taught; /* of what the fixture has learnt, one layer */
static char *wide;   /* random weights, two layers */
static int32_t text[TOKENS];

static int prepare(void **state) {
    (void)state;
    taught = strdup(kit_path("taught.gguf"));
    make_taught_model(taught, 1);
    wide = strdup(kit_path("wide.gguf"));
    make_model(wide, "--type F16 --embd 128 --heads 4 --kv-heads 2 --ff 256 --tied");
    for (int32_t i = 0; i < TOKENS; i++) text[i] = (7 * i * i + 13 * i + i / 11 + 5) % VOCAB;
    return 0;
}

typedef struct settings {
    const char *type;
    uint64_t budget; /* 0: none */
    int32_t threads, pass;
    mnem_device *device; /* NULL: the host */
} settings;

static mnem_status prune(const char *from, const char *to, settings s) {
    mnem_ledger *ledger;
    mnem_status status =
        mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = s.budget}, &ledger);
    if (status != MNEM_OK) return status;
    const mnem_prune_options p = {.pattern = MNEM_PRUNE_2_4, .type = s.type, .threads = s.threads};
    const mnem_solve_options o = {.walk = {.ledger = ledger,
                                           .device = s.device,
                                           .threads = s.threads,
                                           .chunk = CHUNK,
                                           .pass = s.pass},
                                  .ids = text,
                                  .sequences = SEQUENCES};
    status = mnem_ledger_watch_heap(ledger);
    if (status == MNEM_OK) status = mnem_prune_solved(from, to, &p, &o);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    return status;
}

/* ---- what comes out ---- */

static bool is_masked(const mnem_tensor_info *t) {
    return t->dims == 2 && strncmp(t->name, "blk.", 4) == 0;
}

static void check_rows(const mnem_model *model, uint32_t index, const mnem_tensor_info *t) {
    const int64_t k = t->shape[1];
    const uint64_t bytes = mnem_type_row_bytes(t->type, k);
    uint8_t *raw = malloc(bytes);
    float *row = malloc((size_t)k * sizeof(float));
    for (int64_t r = 0; r < t->shape[0]; r++) {
        must(mnem_model_tensor_read(model, index, (uint64_t)r * bytes, bytes, raw));
        must(mnem_dequantize_row(t->type, k, raw, row));
        for (int64_t c = 0; c < k; c += 4) {
            int zeros = 0;
            for (int i = 0; i < 4; i++) zeros += row[c + i] == 0;
            assert_true(zeros >= 2);
        }
    }
    free(row);
    free(raw);
}

static void two_of_four_are_zero_in_each_type(void **state) {
    static const char *const types[] = {NULL, "Q4_0", "Q8_0"};
    mnem_model *model;
    mnem_tensor_info t;
    (void)state;
    for (int i = 0; i < 3; i++) {
        int masked = 0;
        must(prune(tiny, kit_path("sparse.gguf"), (settings){.type = types[i], .threads = 1}));
        must(mnem_model_open(kit_path("sparse.gguf"), &model));
        for (uint32_t m = 0; mnem_model_tensor_get(model, m, &t); m++) {
            if (!is_masked(&t)) continue;
            check_rows(model, m, &t);
            masked++;
        }
        assert_true(masked > 0);
        mnem_model_close(model);
    }
}

/* The better way for what was seen: on the text itself it loses half of what Wanda does. */
static void hidden_states_are_nearer_than_by_wanda(void **state) {
    hidden_states exact = {.ids = text, .chunk = CHUNK, .sequences = SEQUENCES};
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_imatrix *imatrix;
    (void)state;
    hidden_states_walk(&exact, taught);
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &ledger));
    must(mnem_model_open(taught, &model));
    must(mnem_imatrix_create(&imatrix));
    must(mnem_calibrate(model, &(mnem_walk_options){.ledger = ledger, .threads = 2, .chunk = CHUNK},
                        text, SEQUENCES, imatrix, NULL));
    must(mnem_prune_file(taught, kit_path("wanda.gguf"),
                         &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4, .imatrix = imatrix}));
    must(prune(taught, kit_path("sparse.gguf"), (settings){.threads = 1}));
    const double wanda = hidden_states_distance(&exact, kit_path("wanda.gguf")),
                 sparse = hidden_states_distance(&exact, kit_path("sparse.gguf"));
    print_message("%.4f by Wanda, %.4f by SparseGPT\n", wanda, sparse);
    assert_true(sparse < 0.5 * wanda);
    mnem_imatrix_destroy(imatrix);
    mnem_model_close(model);
    must(mnem_ledger_destroy(ledger));
    hidden_states_free(&exact);
}

static void a_quantized_model_is_pruned_as_it_was(void **state) {
    (void)state;
    must(mnem_quantize_file(taught, kit_path("q8.gguf"), &(mnem_quantize_options){.type = "Q8_0"}));
    must(prune(kit_path("q8.gguf"), kit_path("sparse.gguf"), (settings){.threads = 1}));
}

/* ---- the same bytes ---- */

static void bytes_are_the_same_for_any_pass_and_threads(void **state) {
    static const int32_t passes[] = {0, 16, 33};
    (void)state;
    must(prune(tiny, kit_path("first.gguf"), (settings){.threads = 1}));
    for (int i = 0; i < 3; i++)
        for (int32_t threads = 1; threads <= 3; threads++) {
            must(prune(tiny, kit_path("other.gguf"),
                       (settings){.threads = threads, .pass = passes[i]}));
            assert_same_files(kit_path("first.gguf"), kit_path("other.gguf"));
        }
}

/* One whose memory faults when the host touches it; also of rows that are 2:4 already. */
static void bytes_are_the_same_on_a_device_apart(void **state) {
    mnem_device *device = device_open("apart", 0);
    const char *from = wide;
    (void)state;
    for (int i = 0; i < 2; i++) {
        must(prune(from, kit_path("first.gguf"), (settings){.threads = 2}));
        must(prune(from, kit_path("other.gguf"),
                   (settings){.threads = 2, .pass = 16, .device = device}));
        assert_same_files(kit_path("first.gguf"), kit_path("other.gguf"));
        must(prune(wide, kit_path("sparse.gguf"), (settings){.threads = 2}));
        from = kit_path("sparse.gguf");
    }
    must(mnem_device_close(device));
}

static void bytes_are_the_same_for_any_budget(void **state) {
    const uint64_t step = (MNEM_SANITIZED ? 2 : 1) * MIB;
    uint64_t budget = 11 * MIB;
    (void)state;
    must(prune(wide, kit_path("first.gguf"), (settings){.threads = 2}));
    for (;; budget -= step) {
        const mnem_status status =
            prune(wide, kit_path("other.gguf"), (settings){.budget = budget, .threads = 2});
        if (status != MNEM_OK) {
            assert_int_equal(status, MNEM_OVER_BUDGET);
            break;
        }
        assert_same_files(kit_path("first.gguf"), kit_path("other.gguf"));
    }
    print_message("least %.0f MiB\n", (double)(budget + step) / MIB);
    assert_true(budget < 9 * MIB);
}

/* ---- refusals ---- */

static void what_can_not_be_is_refused(void **state) {
    const mnem_solve_options o = {.ids = text, .sequences = SEQUENCES};
    (void)state;
    assert_int_equal(
        mnem_prune_solved(tiny, kit_path("no.gguf"), &(mnem_prune_options){.ffn = 0.25}, &o),
        MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "supports 2:4 sparsity only"));
    assert_int_equal(prune(tiny, kit_path("no.gguf"), (settings){.type = "Q4_1"}), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "no exact zero"));
    assert_int_equal(prune(tiny, tiny, (settings){.threads = 1}), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "would overwrite the model, which is an input"));
}

static void no_failing_allocation_leaves_anything(void **state) {
    heap_sweep sweep = {.most = 5000};
    mnem_status status;
    (void)state;
    const int files = kit_folder_count();
    do {
        heap_sweep_begin(&sweep, false);
        status = prune(tiny, kit_path("swept.gguf"), (settings){.threads = 1});
        if (status != MNEM_OK) assert_int_equal(kit_folder_count(), files);
    } while (heap_sweep_next(&sweep, status));
    assert_int_equal(kit_folder_count(), files + 1);
}

static int end(void **state) {
    (void)state;
    free(taught);
    free(wide);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_of_four_are_zero_in_each_type),
        cmocka_unit_test(hidden_states_are_nearer_than_by_wanda),
        cmocka_unit_test(a_quantized_model_is_pruned_as_it_was),
        cmocka_unit_test(bytes_are_the_same_for_any_pass_and_threads),
        cmocka_unit_test(bytes_are_the_same_on_a_device_apart),
        cmocka_unit_test(bytes_are_the_same_for_any_budget),
        cmocka_unit_test(what_can_not_be_is_refused),
        cmocka_unit_test(no_failing_allocation_leaves_anything),
    };
    return cmocka_run_group_tests(tests, prepare, end);
}
