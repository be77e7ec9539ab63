/* test_walk.c: a walk's hidden states are those of an engine to the bit, for every family that is
 * walked; so they are on a device whose memory faults when the host touches it (kit_apart.h); what
 * it tells of a layer's matrices; what is refused, and that nothing stays behind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "engine/engine_case.h"
#include "engine/engine_private.h"
#include "kit/kit.h"
#include "kit/kit_apart.h"
#include "kit/kit_device.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { VOCAB = 96, CHUNK = 80, SEQUENCES = 3, TOKENS = SEQUENCES * CHUNK };

/* Windows, convolutions, biases, one matrix for several, norms behind, factors of long contexts. */
static const char *const families[] = {
    "llama", "llama_yarn", "phi3",     "phi3_long",   "gemma2",  "gemma3",     "glm4",  "granite",
    "olmo3", "lfm2",       "mistral3", "phi3_window", "smollm3", "starcoder2", "qwen2", "qwen3"};
enum { FAMILIES = sizeof families / sizeof *families };

static int32_t text[TOKENS];

static int fill_text(void **state) {
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) text[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    return 0;
}

static const char *path_of(const char *family) {
    static char path[256];
    snprintf(path, sizeof path, "%s/architectures/%s.gguf", MNEM_TEST_DATA, family);
    return path;
}

static mnem_device *device; /* of the cases; NULL: the host */

typedef struct walk_case {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_walk_options options;
    mnem_walk_report report;
} walk_case;

static void open_case(walk_case *c, const char *path, uint64_t budget) {
    *c = (walk_case){.ledger = NULL};
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &c->ledger));
    must(mnem_ledger_watch_heap(c->ledger));
    must(mnem_model_open(path, &c->model));
    c->options =
        (mnem_walk_options){.ledger = c->ledger, .device = device, .threads = 2, .chunk = CHUNK};
}

static void close_case(walk_case *c) {
    mnem_model_close(c->model);
    must(mnem_ledger_destroy(c->ledger)); /* nothing is charged any more */
}

static void see_nothing(void *context, const mnem_walk_input *input, const mnem_worker *worker) {
    (void)context, (void)input, (void)worker;
}

/* A case with room for half of the states only, the others in a file, with such a watcher. */
static void open_spilling(walk_case *c, const char *spill, const mnem_walk_watcher *watcher) {
    open_case(c, path_of("llama"), 0);
    must(mnem_walk(c->model, &c->options, text, SEQUENCES, watcher, &c->report));
    const uint64_t half = c->report.peak_bytes - c->report.bytes_states / 2;
    close_case(c);
    open_case(c, path_of("llama"), half);
    c->options.pass = CHUNK;
    c->options.spill = spill;
}

/* ---- states ---- */

typedef struct rows {
    float *of; /* [TOKENS][embd] */
    int32_t embd;
} rows;

static mnem_status keep_states(void *context, int64_t sequence, const float *from) {
    rows *r = context;
    const size_t n = (size_t)CHUNK * (size_t)r->embd;
    memcpy(r->of + (size_t)sequence * n, from, n * sizeof *from);
    return MNEM_OK;
}

static mnem_status keep_hidden(void *context, int32_t part, int32_t at, int32_t n, float *from) {
    rows *r = context;
    float *to = r->of + (size_t)(part * CHUNK + at) * (size_t)r->embd;
    memcpy(to, from, (size_t)n * (size_t)r->embd * sizeof *from);
    return MNEM_OK;
}

static void run_engine(const char *path, rows *r) {
    const mnem_engine_options o = {
        .context = CHUNK, .threads = 2, .sequences = SEQUENCES, .kv = MNEM_KV_F16, .chunk = 64};
    engine_case c;
    mnem_step_part parts[SEQUENCES];
    engine_case_open(&c, path, 0, &o);
    r->embd = c.engine->map->shape.embd;
    r->of = calloc(TOKENS, (size_t)r->embd * sizeof(float));
    for (int32_t i = 0; i < SEQUENCES; i++) {
        parts[i] = (mnem_step_part){.ids = text + i * CHUNK, .n = CHUNK};
        must(mnem_sequence_create(c.engine, &parts[i].sequence));
    }
    must(mnem__engine_step_hidden(c.engine, parts, SEQUENCES, keep_hidden, r));
    engine_case_close(&c);
}

static void compare_states(const char *path) {
    rows engine, walk;
    walk_case c;
    run_engine(path, &engine);
    walk = engine;
    walk.of = calloc(TOKENS, (size_t)walk.embd * sizeof(float));
    open_case(&c, path, 0);
    c.options.pass = 48;
    const mnem_walk_watcher w = {.input = see_nothing, .states = keep_states, .context = &walk};
    must(mnem_walk(c.model, &c.options, text, SEQUENCES, &w, &c.report));
    if (memcmp(walk.of, engine.of, (size_t)TOKENS * (size_t)walk.embd * sizeof(float)) != 0)
        fail_msg("%s: the states differ", path);
    close_case(&c);
    free(walk.of);
    free(engine.of);
}

static void states_are_those_of_an_engine(void **state) {
    (void)state;
    for (int f = 0; f < FAMILIES; f++) compare_states(path_of(families[f]));
}

/* Inputs are kept as f32 beside their quantized form, which must be the one that engines use. */
static void states_of_quantized_weights_are_too(void **state) {
    (void)state;
    const char *const types[] = {"Q4_0", "Q8_0"};
    for (int i = 0; i < 2; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "--type %s --vocab 384", types[i]);
        make_model(kit_path("quantized.gguf"), arguments);
        compare_states(kit_path("quantized.gguf"));
    }
}

/* ---- a device that the host doesn't reach ---- */

/* What the watcher sees, summed so that any other bit tells. */
static void sum_input(void *context, const mnem_walk_input *in, const mnem_worker *worker) {
    uint64_t *sum = context;
    if (worker->index != 0) return;
    for (int64_t r = 0; r < in->rows; r++)
        for (int64_t i = 0; i < in->columns; i++) {
            uint32_t bits;
            memcpy(&bits, in->x + r * in->stride + i, sizeof bits);
            *sum = (*sum ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
        }
}

static uint64_t inputs_of(const char *path, bool spills) {
    uint64_t sum = 1;
    walk_case c;
    const mnem_walk_watcher w = {.input = sum_input, .context = &sum};
    if (spills)
        open_spilling(&c, kit_path("apart"), &w);
    else
        open_case(&c, path, 0);
    sum = 1;
    must(mnem_walk(c.model, &c.options, text, SEQUENCES, &w, &c.report));
    assert_true(!spills || c.report.bytes_spilled > 0);
    close_case(&c);
    return sum;
}

static void the_bits_are_the_hosts_on_a_device_apart(void **state) {
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        const uint64_t host = inputs_of(path_of(families[f]), false);
        device = device_open("apart", 0);
        const uint64_t entries = apart_entries();
        assert_true(inputs_of(path_of(families[f]), false) == host);
        assert_true(f > 0 || inputs_of(path_of("llama"), true) == host);
        compare_states(path_of(families[f]));
        assert_true(apart_entries() > entries);
        must(mnem_device_close(device));
        device = NULL;
    }
}

static void a_device_without_operators_only_plans(void **state) {
    walk_case c;
    (void)state;
    must(mnem_device_open("null", NULL, &device));
    open_case(&c, path_of("llama"), 0);
    assert_int_equal(mnem_walk(c.model, &c.options, text, 1, NULL, NULL), MNEM_UNSUPPORTED);
    c.options.plan_only = true;
    must(mnem_walk(c.model, &c.options, text, 1, NULL, &c.report));
    assert_true(c.report.peak_bytes > 0);
    close_case(&c);
    must(mnem_device_close(device));
    device = NULL;
}

/* ---- inputs ---- */

typedef struct seen {
    char names[16][64];
    int32_t same[16];
    int64_t columns[16];
    int64_t rows[16];
    int32_t matrices, layers, begun, ended;
} seen;

static mnem_status note_begin(void *context, const mnem_walk_layer *layer) {
    seen *s = context;
    assert_int_equal(layer->layer, s->begun);
    assert_true(layer->matrices <= 16);
    s->begun++;
    s->layers = layer->layers;
    s->matrices = layer->matrices;
    for (int32_t i = 0; i < layer->matrices; i++)
        snprintf(s->names[i], sizeof s->names[i], "%s", layer->matrix[i].name);
    return MNEM_OK;
}

static void note_input(void *context, const mnem_walk_input *in, const mnem_worker *worker) {
    seen *s = context;
    if (worker->index != 0) return;
    s->same[in->matrix] = in->same;
    s->columns[in->matrix] = in->columns;
    s->rows[in->matrix] += in->rows;
}

static mnem_status note_end(void *context, const mnem_walk_layer *layer) {
    seen *s = context;
    (void)layer;
    s->ended++;
    return MNEM_OK;
}

static void matrices_of_the_same_rows_are_told_as_such(void **state) {
    const int32_t expected[] = {0, 0, 0, 3, 4, 4, 6};
    static const char *const names[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                        "ffn_gate", "ffn_up", "ffn_down"};
    static seen s;
    walk_case c;
    (void)state;
    s = (seen){.layers = 0};
    open_case(&c, path_of("llama"), 0);
    const mnem_walk_watcher w = {
        .begin = note_begin, .input = note_input, .end = note_end, .context = &s};
    must(mnem_walk(c.model, &c.options, text, SEQUENCES, &w, NULL));
    assert_int_equal(s.matrices, 7);
    assert_int_equal(s.begun, s.layers);
    assert_int_equal(s.ended, s.layers);
    for (int i = 0; i < 7; i++) {
        assert_non_null(strstr(s.names[i], names[i]));
        assert_int_equal(s.same[i], expected[i]);
        assert_int_equal(s.rows[i], (int64_t)TOKENS * s.layers);
    }
    close_case(&c);
}

/* ---- weights replaced ---- */

/* What a layer's matrices become: what they are, or zeros. */
typedef struct replacer {
    const mnem_model *model;
    bool zeros;
    int32_t ends;
    rows states;
} replacer;

static mnem_status replace(void *context, const mnem_walk_layer *layer) {
    replacer *r = context;
    r->ends++;
    for (int32_t i = 0; i < layer->matrices; i++) {
        const mnem_tensor_info *m = &layer->matrix[i];
        uint8_t *raw = calloc(1, m->bytes);
        const int32_t tensor = mnem_model_tensor_find(r->model, m->name);
        const int64_t half = m->shape[0] / 32 * 16;
        if (!r->zeros) must(mnem_model_tensor_read(r->model, (uint32_t)tensor, 0, m->bytes, raw));
        if (half) must(mnem_walk_replace(layer, i, 0, half, m->type, raw));
        must(mnem_walk_replace(layer, i, half, m->shape[0] - half, m->type,
                               raw + (uint64_t)half * m->bytes / (uint64_t)m->shape[0]));
        free(raw);
    }
    return MNEM_OK;
}

static mnem_status keep_replaced(void *context, int64_t sequence, const float *from) {
    return keep_states(&((replacer *)context)->states, sequence, from);
}

static void walk_replaced(walk_case *c, replacer *r, int32_t embd) {
    r->model = c->model;
    r->states = (rows){calloc(TOKENS, (size_t)embd * sizeof(float)), embd};
    const mnem_walk_watcher w = {
        .input = see_nothing, .end = replace, .states = keep_replaced, .context = r, .again = true};
    must(mnem_walk(c->model, &c->options, text, SEQUENCES, &w, &c->report));
}

static void the_same_weights_replaced_change_nothing(void **state) {
    const mnem_walk_watcher like = {.input = see_nothing, .again = true};
    rows engine;
    (void)state;
    run_engine(path_of("llama"), &engine);
    for (int i = 0; i < 4; i++) {
        const bool spills = i % 2;
        replacer r = {.ends = 0};
        walk_case c;
        device = i < 2 ? NULL : device_open("apart", 0);
        if (spills)
            open_spilling(&c, kit_path("again"), &like);
        else
            open_case(&c, path_of("llama"), 0);
        walk_replaced(&c, &r, engine.embd);
        assert_int_equal(c.report.bytes_spilled > 0, spills);
        assert_memory_equal(r.states.of, engine.of,
                            (size_t)TOKENS * (size_t)engine.embd * sizeof(float));
        free(r.states.of);
        close_case(&c);
        must(mnem_device_close(device));
        device = NULL;
    }
    free(engine.of);
}

/* Then no layer adds to the stream, which stays the embedding. */
static void a_layer_runs_again_with_what_replaced_its_weights(void **state) {
    replacer r = {.zeros = true};
    mnem_transformer t;
    walk_case c;
    (void)state;
    open_case(&c, path_of("llama"), 0);
    must(mnem_model_transformer(c.model, &t));
    walk_replaced(&c, &r, t.embd);
    const uint32_t table = (uint32_t)mnem_model_tensor_find(c.model, "token_embd.weight");
    const uint64_t bytes = (uint64_t)t.embd * sizeof(float);
    for (int32_t i = 0; i < TOKENS; i++) {
        float row[1024];
        assert_true(bytes <= sizeof row);
        must(mnem_model_tensor_read(c.model, table, (uint64_t)text[i] * bytes, bytes, row));
        assert_memory_equal(r.states.of + (size_t)i * (size_t)t.embd, row, bytes);
    }
    free(r.states.of);
    close_case(&c);
}

static mnem_status replace_wrongly(void *context, const mnem_walk_layer *layer) {
    const float row[64 * 64] = {0};
    (void)context;
    assert_int_equal(mnem_walk_replace(layer, 0, 8, 16, MNEM_TYPE_F32, row), MNEM_INVALID);
    assert_int_equal(mnem_walk_replace(layer, 0, 0, 8, MNEM_TYPE_F32, row), MNEM_INVALID);
    assert_int_equal(mnem_walk_replace(layer, 99, 0, 16, MNEM_TYPE_F32, row), MNEM_INVALID);
    return mnem_walk_replace(layer, 0, 0, 16, MNEM_TYPE_F32, row);
}

static void quantized_weights_are_not_replaced(void **state) {
    walk_case c;
    (void)state;
    make_model(kit_path("quantized.gguf"), "--type Q8_0");
    open_case(&c, kit_path("quantized.gguf"), 0);
    mnem_walk_watcher w = {.end = replace_wrongly, .again = true};
    assert_int_equal(mnem_walk(c.model, &c.options, text, 1, &w, NULL), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "has type Q8_0"));
    w.again = false;
    assert_int_equal(mnem_walk(c.model, &c.options, text, 1, &w, NULL), MNEM_INVALID);
    close_case(&c);
}

/* ---- what is refused ---- */

static void mixtures_and_encoders_are_refused(void **state) {
    static const char *const refused[] = {"mixtral", "bert", "deepseek2"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        walk_case c;
        open_case(&c, path_of(refused[i]), 0);
        assert_int_equal(mnem_walk(c.model, &c.options, text, 1, NULL, NULL), MNEM_UNSUPPORTED);
        close_case(&c);
    }
}

static void ids_beyond_the_vocabulary_are_refused(void **state) {
    int32_t ids[CHUNK] = {[40] = VOCAB};
    walk_case c;
    (void)state;
    open_case(&c, path_of("llama"), 0);
    assert_int_equal(mnem_walk(c.model, &c.options, ids, 1, NULL, NULL), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "token 40 has the id 96"));
    close_case(&c);
}

/* pwrite of this program: fails when the disk has no more room than this. */
static size_t disk_left = SIZE_MAX;
ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at) {
    if (n <= disk_left) {
        if (disk_left != SIZE_MAX) disk_left -= n;
        return __real_pwrite(fd, bytes, n, at);
    }
    errno = ENOSPC;
    return -1;
}

static void a_full_disk_is_told(void **state) {
    walk_case c;
    (void)state;
    open_spilling(&c, kit_path("full"), NULL);
    disk_left = 0;
    assert_int_equal(mnem_walk(c.model, &c.options, text, SEQUENCES, NULL, NULL), MNEM_IO);
    disk_left = SIZE_MAX;
    assert_non_null(strstr(mnem_last_error(),
                           "full: the temporary file of hidden states can't be written (No space"));
    close_case(&c);
}

static void a_file_that_is_there_is_not_taken_for_states(void **state) {
    walk_case c;
    (void)state;
    write_file(kit_path("taken"), "mine", 4);
    open_spilling(&c, kit_path("taken"), NULL);
    assert_int_equal(mnem_walk(c.model, &c.options, text, SEQUENCES, NULL, NULL), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "taken"));
    close_case(&c);
    char *still = read_file(kit_path("taken"), NULL);
    assert_string_equal(still, "mine");
    free(still);
}

static bool stop_at_half(void *context, const char *what, uint64_t done, uint64_t total) {
    (void)context, (void)what;
    return done < total / 2;
}

static void a_stopped_walk_leaves_nothing(void **state) {
    walk_case c;
    mnem_ledger_info before, after;
    (void)state;
    open_case(&c, path_of("llama"), 0);
    c.options.progress = (mnem_progress){stop_at_half, NULL};
    mnem_ledger_info_get(c.ledger, &before);
    assert_int_equal(mnem_walk(c.model, &c.options, text, SEQUENCES, NULL, NULL), MNEM_CANCELLED);
    mnem_ledger_info_get(c.ledger, &after);
    assert_int_equal(after.bytes_live, before.bytes_live);
    close_case(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_those_of_an_engine),
        cmocka_unit_test(states_of_quantized_weights_are_too),
        cmocka_unit_test(the_bits_are_the_hosts_on_a_device_apart),
        cmocka_unit_test(a_device_without_operators_only_plans),
        cmocka_unit_test(matrices_of_the_same_rows_are_told_as_such),
        cmocka_unit_test(the_same_weights_replaced_change_nothing),
        cmocka_unit_test(a_layer_runs_again_with_what_replaced_its_weights),
        cmocka_unit_test(quantized_weights_are_not_replaced),
        cmocka_unit_test(mixtures_and_encoders_are_refused),
        cmocka_unit_test(ids_beyond_the_vocabulary_are_refused),
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(a_file_that_is_there_is_not_taken_for_states),
        cmocka_unit_test(a_stopped_walk_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, fill_text, NULL);
}
