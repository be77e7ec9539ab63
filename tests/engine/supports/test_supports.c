/* test_supports.c: the table of supported features says what happens: every feature is tried on
 * every family's tiny model, and its function does the work or says MNEM_UNSUPPORTED. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/stored_families.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"
#include "model/architecture/architecture.h"
#include "model/architecture/transformer_graph.h"
#include "model/gguf/gguf_writer.h"

enum { TOKENS = 8, CONTEXT = 32 };

static const char *const families[] = {STORED_FAMILIES, "bert", "bert_cls", "nomic_bert", "gpt2"};
enum { FAMILIES = sizeof families / sizeof *families };

static const char *path_of(const char *family) {
    static char path[256];
    snprintf(path, sizeof path, "%s/architectures/%s.gguf", MNEM_TEST_DATA, family);
    if (strcmp(family, "gpt2") == 0) { /* the only one that is made */
        snprintf(path, sizeof path, "%s", kit_path("gpt2.gguf"));
        make_model(path, "--arch gpt2");
    }
    return path;
}

static int32_t ids[TOKENS] = {5, 18, 45, 11, 83, 64, 50, 22};

typedef struct subject {
    const char *path;
    const mnem_model *model;
    const mnem_transformer *t;
    mnem_ledger *ledger;
} subject;

/* ---- running ---- */

static bool pass_by(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

typedef mnem_status on_engine(mnem_engine *engine);

static mnem_status step(mnem_engine *engine, mnem_sequence **s) {
    must(mnem_sequence_create(engine, s));
    const mnem_step_part part = {*s, ids, TOKENS, TOKENS - 1};
    return mnem_engine_step(engine, &part, 1, pass_by, NULL);
}

static mnem_status use_step(mnem_engine *engine) {
    mnem_sequence *s;
    const mnem_status status = step(engine, &s);
    mnem_sequence_destroy(s);
    return status;
}

static int32_t end_text(void *context, const float *logits) {
    return (void)context, (void)logits, -1;
}

static mnem_status use_draft(mnem_engine *engine) {
    mnem_sequence *s;
    int32_t n;
    mnem_status status = step(engine, &s);
    if (status == MNEM_OK) status = mnem_sequence_verify(s, ids, 3, end_text, NULL, &n);
    mnem_sequence_destroy(s);
    return status;
}

static mnem_status use_embed(mnem_engine *engine) {
    float out[1024];
    const mnem_embed_text text = {ids, TOKENS};
    const mnem_embed_options mean = {.pooling = MNEM_POOLING_MEAN};
    return mnem_engine_embed(engine, &text, 1, &mean, out);
}

static mnem_status use_saved(mnem_engine *engine) {
    mnem_sequence *s;
    mnem_saved saved;
    const char *path = kit_path("saved");
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    mnem_status status = step(engine, &s);
    if (status == MNEM_OK) status = mnem_sequence_save(s, ids, 0, fd, 0);
    if (status == MNEM_OK) status = mnem_saved_open(engine, fd, 0, &saved);
    mnem_sequence_destroy(s);
    close(fd);
    return status;
}

static mnem_status run_with(const subject *x, mnem_engine_options o, on_engine *use) {
    mnem_engine_plan plan;
    mnem_engine *engine = NULL;
    o.ledger = x->ledger;
    o.context = CONTEXT;
    o.chunk = TOKENS;
    o.threads = 1;
    mnem_status status = o.comm ? mnem_engine_plan_ranks(x->model, &o, &plan)
                                : mnem_engine_plan_make(x->model, &o, &plan);
    if (status == MNEM_OK) status = mnem_engine_create(x->model, &o, &plan, &engine);
    if (status == MNEM_OK && use) status = use(engine);
    mnem_engine_destroy(engine);
    return status;
}

static mnem_status try_generate(const subject *x) {
    return run_with(x, (mnem_engine_options){0}, use_step);
}

static mnem_status try_draft(const subject *x) {
    const mnem_status status = run_with(x, (mnem_engine_options){.logits_rows = 3}, use_draft);
    assert_int_equal(run_with(x, (mnem_engine_options){.draft = 2}, use_draft), status);
    return status;
}

static mnem_status try_embed(const subject *x) {
    return run_with(x, (mnem_engine_options){0}, use_embed);
}

static mnem_status try_saved(const subject *x) {
    return run_with(x, (mnem_engine_options){0}, use_saved);
}

/* ---- adapters ---- */

/* The first matrix behind attention, or behind a state. */
static void find_matrix(const subject *x, mnem_tensor_info *w) {
    for (uint32_t i = 0; mnem_model_tensor_get(x->model, i, w); i++)
        if (strstr(w->name, ".attn_output.weight") || strstr(w->name, ".ssm_out.weight")) return;
    fail_msg("%s: no attn_output, no ssm_out", x->path);
}

/* Zeros of rank 1 for it. */
static void write_adapter(const subject *x, const char *path) {
    static const uint8_t zeros[4096];
    const mnem_value kind = {
        .type = MNEM_VALUE_STRING, .count = 1, .text = {"adapter", sizeof "adapter" - 1}};
    const mnem_value lora = {
        .type = MNEM_VALUE_STRING, .count = 1, .text = {"lora", sizeof "lora" - 1}};
    mnem_model_info info;
    mnem_tensor_info w;
    mnem_gguf_writer *to;
    char half[64];
    mnem_model_info_get(x->model, &info);
    const mnem_value architecture = {.type = MNEM_VALUE_STRING,
                                     .count = 1,
                                     .text = {info.architecture, strlen(info.architecture)}};
    find_matrix(x, &w);
    must(mnem_gguf_create(path, &to));
    must(mnem__gguf_write_key(to, "general.architecture", &architecture));
    must(mnem__gguf_write_key(to, "general.type", &kind));
    must(mnem__gguf_write_key(to, "adapter.type", &lora));
    must(mnem__gguf_write_key_f32(to, "adapter.lora.alpha", 1));
    snprintf(half, sizeof half, "%s.lora_a", w.name);
    must(mnem__gguf_write_tensor(to, half, MNEM_TYPE_F32, 2, (int64_t[]){1, w.shape[1]}));
    snprintf(half, sizeof half, "%s.lora_b", w.name);
    must(mnem__gguf_write_tensor(to, half, MNEM_TYPE_F32, 2, (int64_t[]){w.shape[0], 1}));
    must(mnem__gguf_write_data(to, zeros, (uint64_t)w.shape[1] * sizeof(float)));
    must(mnem__gguf_write_data(to, zeros, (uint64_t)w.shape[0] * sizeof(float)));
    must(mnem_gguf_finish(to));
}

static mnem_model *open_adapter(const subject *x) {
    mnem_model *file;
    const char *path = kit_path("adapter.gguf");
    write_adapter(x, path);
    must(mnem_model_open(path, &file));
    return file;
}

static mnem_status try_adapters(const subject *x) {
    mnem_model *file = open_adapter(x);
    const mnem_adapter adapter = {.model = file, .scale = 1};
    const mnem_engine_options o = {.adapters = &adapter, .adapter_count = 1};
    const mnem_status status = run_with(x, o, use_embed);
    mnem_model_close(file);
    return status;
}

/* ---- ranks ---- */

typedef struct rank {
    pthread_t thread;
    const subject *x;
    mnem_comm *comm;
    mnem_cut cut;
    const mnem_adapter *adapter;
    on_engine *use; /* on rank 0 */
    mnem_status status;
} rank;

static void *run_rank(void *context) {
    rank *r = context;
    subject x = *r->x;
    const mnem_engine_options o = {.comm = r->comm,
                                   .cut = r->cut,
                                   .adapters = r->adapter,
                                   .adapter_count = r->adapter != NULL};
    must(mnem_ledger_create(&(mnem_ledger_options){0}, &x.ledger));
    r->status = run_with(&x, o, mnem_comm_rank(r->comm) == 0 ? r->use : mnem_engine_follow);
    must(mnem_ledger_destroy(x.ledger));
    return NULL;
}

/* Two ranks plan and are created. */
static mnem_status over_ranks(const subject *x, rank kind) {
    mnem_comm *comms[2];
    rank ranks[2] = {kind, kind};
    must(mnem_comm_thread_create(2, comms));
    for (int i = 0; i < 2; i++) {
        ranks[i].x = x;
        ranks[i].comm = comms[i];
    }
    assert_int_equal(pthread_create(&ranks[1].thread, NULL, run_rank, &ranks[1]), 0);
    run_rank(&ranks[0]);
    assert_int_equal(pthread_join(ranks[1].thread, NULL), 0);
    for (int i = 0; i < 2; i++) mnem_comm_destroy(comms[i]);
    return ranks[0].status;
}

static mnem_status try_ranks_layers(const subject *x) {
    return over_ranks(x, (rank){.cut = MNEM_CUT_LAYERS, .use = use_step});
}

static mnem_status try_ranks_rows(const subject *x) {
    return over_ranks(x, (rank){.cut = MNEM_CUT_ROWS, .use = use_step});
}

static mnem_status use_saved_file(mnem_engine *engine) {
    mnem_saved saved;
    const int fd = open("/dev/null", O_RDONLY);
    const mnem_status status = mnem_saved_open(engine, fd, 0, &saved);
    close(fd);
    return status;
}

static mnem_status try_ranks_saved(const subject *x) {
    return over_ranks(x, (rank){.cut = MNEM_CUT_LAYERS, .use = use_saved_file});
}

static mnem_status try_ranks_draft(const subject *x) {
    return over_ranks(x, (rank){.cut = MNEM_CUT_LAYERS, .use = use_draft});
}

static mnem_status try_ranks_adapters(const subject *x) {
    mnem_model *file = open_adapter(x);
    const mnem_adapter adapter = {.model = file, .scale = 1};
    const mnem_status status = over_ranks(x, (rank){.cut = MNEM_CUT_ROWS, .adapter = &adapter});
    mnem_model_close(file);
    return status;
}

/* ---- walks, pruning ---- */

static mnem_status try_walk(const subject *x) {
    mnem_imatrix *imatrix;
    const mnem_walk_options o = {.ledger = x->ledger, .threads = 1, .chunk = TOKENS};
    must(mnem_imatrix_create(&imatrix));
    const mnem_status status = mnem_calibrate(x->model, &o, ids, 1, imatrix, NULL);
    mnem_imatrix_destroy(imatrix);
    return status;
}

static mnem_status prune(const subject *x, mnem_prune_options o) {
    static mnem_prune_plan plan;
    o.threads = 1;
    return mnem_prune_measure(x->path, &o, &plan);
}

static mnem_status try_prune_heads(const subject *x) {
    const mnem_status status = prune(x, (mnem_prune_options){.heads = 0.5});
    const bool one_group = x->t->kv_heads == 1; /* a condition on numbers */
    return status == MNEM_INVALID && one_group ? MNEM_OK : status;
}

static mnem_status try_prune_channels(const subject *x) {
    return prune(x, (mnem_prune_options){.ffn = 0.5});
}

static mnem_status try_prune_layers(const subject *x) {
    return prune(x, (mnem_prune_options){.layers = 0.5});
}

static mnem_status try_prune_2_4(const subject *x) {
    return prune(x, (mnem_prune_options){.pattern = MNEM_PRUNE_2_4});
}

/* ---- training ---- */

static mnem_status train(const subject *x, mnem_train_options o) {
    static mnem_train_plan plan;
    mnem_trainer *trainer = NULL;
    o.ledger = x->ledger;
    o.sequence = TOKENS;
    o.batch = 2;
    o.threads = 1;
    mnem_status status = mnem_train_plan_make(&o, &plan);
    if (status == MNEM_OK) status = mnem_trainer_create(&o, &plan, &trainer);
    if (status == MNEM_OK && !o.distill.teacher) status = mnem_trainer_load(trainer, x->model);
    mnem_trainer_destroy(trainer);
    return status;
}

static mnem_status try_train(const subject *x) {
    return train(x, (mnem_train_options){.shape = *x->t});
}

static mnem_status try_train_adapters(const subject *x) {
    return train(x, (mnem_train_options){.lora = {.rank = 1, .base = x->model}});
}

static mnem_status try_teach(const subject *x) {
    const mnem_transformer student = {.architecture = "llama",
                                      .layers = 1,
                                      .embd = 32,
                                      .heads = 2,
                                      .kv_heads = 2,
                                      .head_dim = 16,
                                      .ff = 64,
                                      .vocab = x->t->vocab,
                                      .context = CONTEXT,
                                      .epsilon = 1e-5f,
                                      .rope = {.dims = 16, .base = 10000}};
    return train(x, (mnem_train_options){
                        .shape = student,
                        .distill = {.teacher = x->model, .weight = 0.5f, .temperature = 1}});
}

/* ---- the table ---- */

static const struct {
    uint32_t features;
    mnem_status (*try)(const subject *x);
} tries[] = {
    {MNEM_FEATURE_GENERATE, try_generate},
    {MNEM_FEATURE_EMBED, try_embed},
    {MNEM_FEATURE_SAVED, try_saved},
    {MNEM_FEATURE_ADAPTERS, try_adapters},
    {MNEM_FEATURE_RANKS_LAYERS, try_ranks_layers},
    {MNEM_FEATURE_RANKS_ROWS, try_ranks_rows},
    {MNEM_FEATURE_WALK, try_walk},
    {MNEM_FEATURE_PRUNE_HEADS, try_prune_heads},
    {MNEM_FEATURE_PRUNE_CHANNELS, try_prune_channels},
    {MNEM_FEATURE_PRUNE_LAYERS, try_prune_layers},
    {MNEM_FEATURE_PRUNE_2_4, try_prune_2_4},
    {MNEM_FEATURE_TRAIN, try_train},
    {MNEM_FEATURE_TRAIN_ADAPTERS, try_train_adapters},
    {MNEM_FEATURE_TEACH, try_teach},
    {MNEM_FEATURE_DRAFT, try_draft},
};
enum { TRIES = sizeof tries / sizeof *tries };

static int try_one(const subject *x, uint32_t features, mnem_status (*attempt)(const subject *)) {
    const mnem_support says = mnem_support_get(x->t, features);
    const mnem_status status = attempt(x);
    if (status == (says.supported ? MNEM_OK : MNEM_UNSUPPORTED)) return 0;
    print_message("%s, features %x: the table says %s (%s), the attempt %s: %s\n", x->path,
                  features, says.supported ? "yes" : "no", says.supported ? "" : says.reason,
                  status == MNEM_OK ? "works" : "fails",
                  status == MNEM_OK ? "" : mnem_last_error());
    return 1;
}

static void open_subject(const char *family, subject *x) {
    static mnem_transformer t;
    mnem_model *model;
    x->path = path_of(family);
    must(mnem_model_open(x->path, &model));
    must(mnem_model_transformer(model, &t));
    must(mnem_ledger_create(&(mnem_ledger_options){0}, &x->ledger));
    x->model = model;
    x->t = &t;
}

static void close_subject(subject *x) {
    mnem_model_close((mnem_model *)x->model);
    must(mnem_ledger_destroy(x->ledger));
}

static void the_table_says_what_happens(void **state) {
    int wrong = 0;
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        subject x;
        open_subject(families[f], &x);
        for (int i = 0; i < TRIES; i++) wrong += try_one(&x, tries[i].features, tries[i].try);
        close_subject(&x);
    }
    assert_int_equal(wrong, 0);
}

static void so_it_does_of_features_together(void **state) {
    subject x;
    (void)state;
    open_subject("llama", &x);
    int wrong = try_one(&x, MNEM_FEATURE_RANKS_LAYERS | MNEM_FEATURE_SAVED, try_ranks_saved);
    wrong += try_one(&x, MNEM_FEATURE_RANKS_ROWS | MNEM_FEATURE_ADAPTERS, try_ranks_adapters);
    wrong += try_one(&x, MNEM_FEATURE_RANKS_LAYERS | MNEM_FEATURE_DRAFT, try_ranks_draft);
    close_subject(&x);
    assert_int_equal(wrong, 0);
}

/* A set is refused where one of it is. */
static void a_message_names_the_family_the_feature_and_the_way_out(void **state) {
    subject x;
    (void)state;
    open_subject("bert", &x);
    assert_int_equal(mnem_model_supports(x.model, MNEM_FEATURE_EMBED), MNEM_OK);
    assert_int_equal(mnem_model_supports(x.model, MNEM_FEATURE_EMBED | MNEM_FEATURE_RANKS_ROWS),
                     MNEM_UNSUPPORTED);
    assert_string_equal(mnem_last_error(), "bert: splitting by rows over ranks is not supported "
                                           "(an encoder): run it on one rank");
    close_subject(&x);
    assert_int_equal(mnem_transformer_supports(NULL, MNEM_FEATURE_GENERATE), MNEM_OK);
    assert_int_equal(
        mnem_transformer_supports(NULL, MNEM_FEATURE_ADAPTERS | MNEM_FEATURE_RANKS_ROWS),
        MNEM_UNSUPPORTED);
    assert_string_equal(mnem_last_error(),
                        "use of adapters without merging them is not supported "
                        "(implemented for one rank only): merge the adapters into the model");
}

/* By name, so that a wrong table and refusal that agree are found. */
static void known_answers(void **state) {
    static const struct {
        const char *family, *refused;
    } known[] = {
        {"llama", "train"},
        {"gemma2", "prune_layers,train,train_adapters,teach,ranks_data"},
        {"lfm2", "ranks_rows,prune_heads,train,train_adapters,teach,ranks_data,draft"},
        {"qwen35", "ranks_rows,walk,prune_heads,prune_channels,prune_layers,train,train_adapters,"
                   "teach,ranks_data,draft"},
        {"qwen3moe", "walk,prune_channels,train,train_adapters,teach,ranks_data"},
        {"deepseek2", "ranks_rows,walk,prune_heads,prune_channels,prune_layers,train,"
                      "train_adapters,teach,ranks_data"},
        {"bert", "generate,saved,ranks_layers,ranks_rows,walk,prune_heads,train,train_adapters,"
                 "teach,ranks_data,draft"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[200] = "";
        mnem_feature_info f;
        subject x;
        open_subject(known[i].family, &x);
        for (int32_t n = 0; mnem_feature_get(n, &f); n++)
            if (!mnem_support_get(x.t, f.feature).supported)
                strcat(strcat(text, *text ? "," : ""), f.name);
        close_subject(&x);
        assert_string_equal(text, known[i].refused);
    }
}

/* Which layers share an indexer's choice is a file's to say: parts begin with one that chooses. */
static void layers_that_share_a_choice_stay_on_one_rank(void **state) {
    static const struct {
        const char *file;
        int32_t runs, begin[4];
    } cases[] = {{"glm_dsa", 3, {0, 1, 2, 3}},
                 {"glm_dsa_shared", 2, {0, 2, 3}},
                 {"glm_dsa_last", 2, {0, 1, 3}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        mnem_model *model;
        mnem_transformer t;
        snprintf(path, sizeof path, "%s/architectures/%s.gguf", MNEM_TEST_DATA, cases[i].file);
        must(mnem_model_open(path, &model));
        must(mnem_model_transformer(model, &t));
        assert_int_equal(mnem__layer_runs(&t), cases[i].runs);
        for (int32_t run = 0; run <= cases[i].runs; run++)
            assert_int_equal(mnem__layer_run_begin(&t, run), cases[i].begin[run]);
        for (int32_t layer = 0; layer < t.layers; layer++) {
            mnem__transformer_map *map = NULL;
            const bool begins = mnem_layer_is(&t.indexed, layer);
            assert_int_equal(mnem__transformer_map_part(model, layer, t.layers, &map),
                             begins ? MNEM_OK : MNEM_UNSUPPORTED);
            if (!begins) assert_non_null(strstr(mnem_last_error(), "has no indexer"));
            mnem__transformer_map_destroy(map);
        }
        mnem_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_says_what_happens),
        cmocka_unit_test(so_it_does_of_features_together),
        cmocka_unit_test(a_message_names_the_family_the_feature_and_the_way_out),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(layers_that_share_a_choice_stay_on_one_rank),
    };
    return cmocka_run_group_tests_name("supports", tests, NULL, NULL);
}
