/* test_resume.c: what a checkpoint may say, and that a trainer that refuses one is what it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "mnem/train.h"
#include "train/checkpoint/checkpoint.h"

enum { SECTIONS = 16, TEXT = 512 };

typedef struct made {
    mnem_ledger *ledger;
    mnem_trainer *trainer;
    float *weights;
} made;

static mnem_train_options options_of(mnem_type compute) {
    return (mnem_train_options){.shape = {.architecture = "llama",
                                          .layers = 1,
                                          .embd = 16,
                                          .heads = 2,
                                          .kv_heads = 2,
                                          .head_dim = 8,
                                          .ff = 16,
                                          .vocab = 20,
                                          .context = 8,
                                          .epsilon = 1e-5f,
                                          .rope = {.dims = 8, .base = 10000}},
                                .batch = 1,
                                .threads = 1,
                                .compute = compute,
                                .schedule = {.rate_peak = 1e-2, .total_steps = 100}};
}

static made make(const mnem_train_options *options, uint64_t seed) {
    made m;
    mnem_train_options o = *options;
    mnem_train_plan plan;
    mnem_parameter p;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &m.ledger),
                     MNEM_OK);
    o.ledger = m.ledger;
    if (mnem_train_plan_make(&o, &plan) != MNEM_OK) fail_msg("%s", mnem_last_error());
    if (mnem_trainer_create(&o, &plan, &m.trainer) != MNEM_OK) fail_msg("%s", mnem_last_error());
    mnem_trainer_init(m.trainer, seed);
    assert_true(mnem_trainer_parameter_get(m.trainer, 0, &p));
    m.weights = p.weights;
    return m;
}

static void unmake(made *m) {
    mnem_trainer_destroy(m->trainer);
    assert_int_equal(mnem_ledger_destroy(m->ledger), MNEM_OK);
}

static const char *path(void) {
    static char text[64];
    snprintf(text, sizeof text, "/tmp/test_resume.%d.ckpt", (int)getpid());
    return text;
}

/* ---- a checkpoint, changed and with checksums that are right ---- */

typedef struct sections {
    mnem__checkpoint_entry entry[SECTIONS];
    size_t n;
} sections;

static void sections_load(sections *s) {
    mnem__checkpoint *c;
    *s = (sections){.n = 0};
    assert_int_equal(mnem__checkpoint_open(path(), &c), MNEM_OK);
    for (mnem__checkpoint_entry *e = s->entry; mnem__checkpoint_entry_get(c, s->n, e);
         e++, s->n++) {
        char *data = calloc(1, e->bytes + TEXT), *name = strdup(e->name);
        if (e->type == MNEM__ENTRY_BYTES)
            assert_int_equal(mnem__checkpoint_read(c, name, data, e->bytes), MNEM_OK);
        if (e->type == MNEM__ENTRY_TEXT)
            assert_int_equal(mnem__checkpoint_text(c, name, data, e->bytes + 1), MNEM_OK);
        e->name = name;
        e->data = data;
    }
    mnem__checkpoint_close(c);
}

static mnem__checkpoint_entry *section(sections *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->entry[i].name, name)) return &s->entry[i];
    fail_msg("no section %s", name);
    return NULL;
}

static void sections_store(sections *s) {
    if (mnem__checkpoint_write(path(), s->entry, s->n) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    for (size_t i = 0; i < s->n; i++) {
        free((void *)(uintptr_t)s->entry[i].name);
        free((void *)(uintptr_t)s->entry[i].data);
    }
}

static void save(const mnem_train_options *o) {
    made m = make(o, 1);
    if (mnem_trainer_save(m.trainer, path(), "a note") != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    unmake(&m);
}

/* Another trainer of these options refuses the file, says this, and has its weights still. */
static void refused(const mnem_train_options *o, const char *said) {
    made m = make(o, 2);
    char note[16];
    const float before = m.weights[0];
    const mnem_status status = mnem_trainer_resume(m.trainer, path(), note, sizeof note);
    assert_int_equal(status, MNEM_BAD_FILE);
    if (!strstr(mnem_last_error(), said)) fail_msg("%s", mnem_last_error());
    assert_true(m.weights[0] == before);
    assert_int_equal(mnem_trainer_steps(m.trainer), 0);
    unmake(&m);
}

static void resumes(const mnem_train_options *o) {
    made m = make(o, 2), first = make(o, 1);
    char note[16];
    if (mnem_trainer_resume(m.trainer, path(), note, sizeof note) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    assert_true(m.weights[0] == first.weights[0]);
    assert_string_equal(note, "a note");
    unmake(&first);
    unmake(&m);
}

/* ---- what can't be right ---- */

static void an_impossible_loss_scale_changes_nothing(void **unused) {
    (void)unused;
    const mnem_train_options o = options_of(MNEM_TYPE_F16);
    sections s;
    save(&o);
    sections_load(&s);
    section(&s, "scale")->f = 1e30;
    sections_store(&s);
    refused(&o, "loss scale");
    sections_load(&s);
    section(&s, "scale")->f = 1024;
    section(&s, "scale_good")->u = (uint64_t)1 << 32;
    sections_store(&s);
    refused(&o, "loss scale");
    sections_load(&s);
    section(&s, "scale_good")->u = 7;
    sections_store(&s);
    resumes(&o);
    remove(path());
}

static void moments_of_another_size_change_nothing(void **unused) {
    (void)unused;
    const mnem_train_options o = options_of(MNEM_TYPE_F32);
    sections s;
    save(&o);
    sections_load(&s);
    section(&s, "moments")->bytes -= 4;
    sections_store(&s);
    refused(&o, "moments");
    remove(path());
}

/* ---- another model ---- */

static void another_epsilon_or_rope_is_another_model(void **unused) {
    (void)unused;
    const mnem_train_options o = options_of(MNEM_TYPE_F32);
    mnem_train_options other = o;
    save(&o);
    other.shape.epsilon = 1e-3f;
    refused(&other, "epsilon is 9.99999975e-06, but this model's is 0.00100000005");
    other = o;
    other.shape.rope.base = 20000;
    refused(&other, "rope_base is 10000, but this model's is 20000");
    other = o;
    other.shape.rope.dims = 4;
    refused(&other, "rope is 8, but this model's is 4");
    other = o;
    other.shape.rope.scale = 0.5f;
    refused(&other, "rope_scale is 1, but this model's is 0.5");
    other.shape.rope.scale = 1; /* what 0 means */
    resumes(&other);
    remove(path());
}

static void an_older_checkpoint_without_these_resumes(void **unused) {
    (void)unused;
    const mnem_train_options o = options_of(MNEM_TYPE_F32);
    sections s;
    save(&o);
    sections_load(&s);
    mnem__checkpoint_entry *shape = section(&s, "shape");
    const char *end = strstr(shape->data, " epsilon ");
    assert_non_null(end);
    shape->bytes = (uint64_t)(end - (const char *)shape->data);
    sections_store(&s);
    resumes(&o);
    mnem_train_options other = o;
    other.shape.ff = 32;
    refused(&other, "ff is 16, but this model's is 32");
    remove(path());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_impossible_loss_scale_changes_nothing),
        cmocka_unit_test(moments_of_another_size_change_nothing),
        cmocka_unit_test(another_epsilon_or_rope_is_another_model),
        cmocka_unit_test(an_older_checkpoint_without_these_resumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
