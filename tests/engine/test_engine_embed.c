/* test_engine_embed.c: embeddings against `transformers` (tests/data/architectures), of encoders
 * and decoders; the same bits whatever the memory, the threads and the company; what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { VOCAB = 96, TOKENS = 200, EMBD = 32, WIDE = 128, TEXTS = 5 };

static const char *const families[] = {"bert", "bert_cls", "nomic_bert", "llama_tied", "lfm2"};
enum { FAMILIES = sizeof families / sizeof *families, DECODERS_FROM = 3 };

static int32_t text[TOKENS];

static void file_of(const char *family, const char *end, char path[256]) {
    snprintf(path, 256, "%s/architectures/%s.%s", MNEM_TEST_DATA, family, end);
}

static const char *path_of(const char *family) {
    static char path[256];
    file_of(family, "gguf", path);
    return path;
}

static int fill_text(void **state) {
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) text[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    return 0;
}

static int32_t embd_of(const engine_case *c) {
    mnem_transformer t;
    must(mnem_model_transformer(c->model, &t));
    assert_true(t.embd <= EMBD);
    return t.embd;
}

/* Two rows: what the file's pooling gives (a decoder's mean), and the last one. */
static void compare(const char *family, const engine_case *c, float ours[2][EMBD]) {
    char path[256];
    size_t bytes;
    file_of(family, "pooled", path);
    char *read = read_file(path, &bytes);
    const int32_t embd = embd_of(c), *shape = (const int32_t *)(void *)read;
    const float *theirs = (const float *)(void *)read + 2;
    assert_int_equal(bytes, 8 + 2 * (size_t)embd * sizeof(float));
    assert_int_equal(shape[1], embd);
    for (int row = 0; row < 2; row++) {
        double difference = 0, size = 0;
        for (int i = 0; i < embd; i++) {
            const double d = (double)ours[row][i] - (double)theirs[row * embd + i];
            difference += d * d;
            size += (double)theirs[row * embd + i] * (double)theirs[row * embd + i];
        }
        print_message("%-10s %.2g\n", family, sqrt(difference / size));
        if (!(sqrt(difference / size) <= 1e-4)) fail_msg("%s: row %d differs", family, row);
    }
    free(read);
}

static void embeddings_are_those_of_transformers(void **state) {
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        engine_case c;
        float rows[2][EMBD];
        const mnem_engine_options o = {
            .context = TOKENS, .kv = MNEM_KV_F32, .threads = 2, .chunk = 64};
        const mnem_embed_text whole = {text, TOKENS};
        mnem_embed_options e = {.raw = true};
        if (f >= DECODERS_FROM) e.pooling = MNEM_POOLING_MEAN;
        engine_case_open(&c, path_of(families[f]), 0, &o);
        must(mnem_engine_embed(c.engine, &whole, 1, &e, rows[0]));
        e.pooling = MNEM_POOLING_LAST;
        must(mnem_engine_embed(c.engine, &whole, 1, &e, rows[1]));
        compare(families[f], &c, rows);
        engine_case_close(&c);
    }
}

/* Of lengths on both sides of a page and of a pass. */
static const mnem_embed_text texts[TEXTS] = {
    {text, 1}, {text + 3, 64}, {text + 5, 120}, {text, 65}, {text + 9, 128}};

typedef struct way {
    mnem_engine_options options;
    bool least; /* budget: the least that does */
} way;

static const way ways[] = {
    {.options = {.context = 128, .threads = 1}},
    {.options = {.context = 128, .threads = 2, .chunk = 7}},
    {.options = {.context = 128, .threads = 2}, .least = true},
    {.options = {.context = 128, .threads = 1, .sequences = 3}},
    {.options = {.context = 160, .threads = 2, .sequences = TEXTS}},
    {.options = {.context = 128, .threads = 2, .sequences = TEXTS}, .least = true},
};

static void bits_do_not_depend_on_memory_threads_or_company(void **state) {
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        float first[TEXTS * EMBD], out[TEXTS * EMBD];
        const mnem_embed_options e = {.pooling = MNEM_POOLING_MEAN};
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            const mnem_engine_options *o = &ways[w].options;
            const char *path = path_of(families[f]);
            engine_case c;
            mnem_ledger_info info;
            mnem_engine_stats stats;
            engine_case_open(&c, path, ways[w].least ? engine_case_least(path, o) : 0, o);
            must(mnem_engine_embed(c.engine, texts, TEXTS, &e, w ? out : first));
            mnem_ledger_info_get(c.ledger, &info);
            assert_int_equal(info.bytes_live, c.plan.peak_bytes);
            mnem_engine_stats_get(c.engine, &stats);
            assert_int_equal(stats.pages_used, 0);
            const size_t bytes = TEXTS * (size_t)embd_of(&c) * sizeof *out;
            engine_case_close(&c);
            if (w) assert_memory_equal(out, first, bytes);
        }
    }
}

/* Large enough that the least budget streams their matrices, in blocks of 32. */
static void streamed_encoders_give_the_bits_of_resident_ones(void **state) {
    (void)state;
    static const char *const arches[] = {"bert", "nomic-bert", "lfm2"};
    for (int a = 0; a < 3; a++) {
        char arguments[128];
        float first[TEXTS * WIDE], out[TEXTS * WIDE];
        const mnem_embed_options e = {.pooling = MNEM_POOLING_MEAN};
        const mnem_engine_options o = {.context = 128, .threads = 2, .sequences = 2};
        const char *path = kit_path("made.gguf");
        snprintf(arguments, sizeof arguments,
                 "--arch %s --embd %d --layers 3 --heads 4 --ff 512 --type Q8_0", arches[a], WIDE);
        make_model(path, arguments);
        for (int least = 0; least < 2; least++) {
            engine_case c;
            engine_case_open(&c, path, least ? engine_case_least(path, &o) : 0, &o);
            must(mnem_engine_embed(c.engine, texts, TEXTS, &e, least ? out : first));
            assert_int_equal(c.plan.streamed, least);
            engine_case_close(&c);
        }
        assert_memory_equal(out, first, sizeof out);
    }
}

static void embeddings_have_a_length_of_one_unless_raw(void **state) {
    (void)state;
    engine_case c;
    float scaled[EMBD], raw[EMBD];
    double square = 0, raw_square = 0;
    engine_case_open(&c, path_of("bert"), 0, &(mnem_engine_options){.context = 128});
    must(mnem_engine_embed(c.engine, &texts[1], 1, NULL, scaled));
    must(mnem_engine_embed(c.engine, &texts[1], 1, &(mnem_embed_options){.raw = true}, raw));
    for (int i = 0; i < EMBD; i++) square += (double)scaled[i] * (double)scaled[i];
    for (int i = 0; i < EMBD; i++) raw_square += (double)raw[i] * (double)raw[i];
    assert_true(fabs(square - 1) < 1e-6);
    for (int i = 0; i < EMBD; i++)
        assert_true(fabs((double)raw[i] / sqrt(raw_square) - (double)scaled[i]) < 1e-6);
    engine_case_close(&c);
}

static uint64_t bytes_of(const mnem_engine_plan *plan, const char *tag) {
    for (unsigned i = 0; i < plan->lines; i++)
        if (strcmp(plan->line[i].tag, tag) == 0) return plan->line[i].bytes;
    return 0;
}

/* An encoder keeps nothing of a text, and has no logits. */
static void pages_of_an_encoder_are_those_of_one_layer(void **state) {
    (void)state;
    enum { MANY = 100, PAGES = 4 };
    engine_case c;
    mnem_transformer t;
    const mnem_engine_options o = {.context = 256, .sequences = MANY, .kv = MNEM_KV_F16};
    engine_case_open(&c, path_of("bert"), 0, &o);
    must(mnem_model_transformer(c.model, &t));
    const mnem_kv_layout kv = {MNEM_TYPE_F16, t.kv_heads, t.head_dim, 64, .value_dim = 0};
    assert_int_equal(bytes_of(&c.plan, "pages"), MANY * PAGES * mnem_kv_page_bytes(&kv));
    assert_int_equal(bytes_of(&c.plan, "logits"), 0);
    assert_int_equal(c.plan.chunk, 256);
    engine_case_close(&c);
}

static void what_cannot_be_embedded_is_refused_by_its_number(void **state) {
    (void)state;
    engine_case c;
    float out[2 * EMBD];
    const mnem_embed_text long_one[] = {texts[1], {text, 129}}, empty[] = {{text, 0}};
    const int32_t unknown[] = {VOCAB};
    engine_case_open(&c, path_of("bert"), 0, &(mnem_engine_options){.context = 128});
    assert_int_equal(mnem_engine_embed(c.engine, long_one, 2, NULL, out), MNEM_OVER_BUDGET);
    assert_string_equal(mnem_last_error(), "embed: text 2 (from 0) has 129 tokens, but the context "
                                           "has 128; split it, or use a larger context");
    assert_int_equal(mnem_engine_embed(c.engine, empty, 1, NULL, out), MNEM_INVALID);
    assert_string_equal(mnem_last_error(), "embed: text 1 (from 0) has no tokens; leave it out");
    assert_int_equal(mnem_engine_embed(c.engine, &(mnem_embed_text){unknown, 1}, 1, NULL, out),
                     MNEM_INVALID);
    must(mnem_engine_embed(c.engine, &texts[0], 1, NULL, out));
    engine_case_close(&c);
    engine_case_open(&c, path_of("lfm2"), 0, &(mnem_engine_options){.context = 128});
    assert_int_equal(mnem_engine_embed(c.engine, &texts[0], 1, NULL, out), MNEM_INVALID);
    assert_string_equal(
        mnem_last_error(),
        "embed: the pooling is 0, and the model (lfm2) names none: set it to mean, cls or last (a "
        "constant of mnem_pooling)");
    engine_case_close(&c);
}

static bool take(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static void an_encoder_writes_no_text(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    mnem_session *session;
    engine_case_open(&c, path_of("nomic_bert"), 0, &(mnem_engine_options){.context = 128});
    must(mnem_sequence_create(c.engine, &s));
    const mnem_step_part part = {s, text, 3, 2};
    assert_int_equal(mnem_engine_step(c.engine, &part, 1, take, NULL), MNEM_UNSUPPORTED);
    assert_string_equal(
        mnem_last_error(),
        "nomic-bert: text generation is not supported (an encoder): use mnem embed");
    assert_int_equal(mnem_session_create(c.model, &c.options, &c.plan, &session), MNEM_UNSUPPORTED);
    engine_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_those_of_transformers),
        cmocka_unit_test(bits_do_not_depend_on_memory_threads_or_company),
        cmocka_unit_test(streamed_encoders_give_the_bits_of_resident_ones),
        cmocka_unit_test(embeddings_have_a_length_of_one_unless_raw),
        cmocka_unit_test(pages_of_an_encoder_are_those_of_one_layer),
        cmocka_unit_test(what_cannot_be_embedded_is_refused_by_its_number),
        cmocka_unit_test(an_encoder_writes_no_text),
    };
    return cmocka_run_group_tests(tests, fill_text, NULL);
}
