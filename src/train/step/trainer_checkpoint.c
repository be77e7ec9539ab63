/* trainer_checkpoint.c: a trainer's state as a checkpoint.
 *
 * Idea: a step depends on the weights, the moments, the number of finished steps, the loss
 * scale, and the caller's data; the caller's part is a text. The model's shape and the kind of
 * moments are a text, too: a file with another one is refused before anything is read, and so is
 * one with impossible sections or an impossible loss scale. Invariant: between steps gradients
 * are zero and aren't stored. Cost: one pass over weights and moments; heap that is charged from
 * the start (MNEM__PART_CHECKPOINT). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/program/train_mask.h"
#include "train/step/trainer_private.h"

enum { ENTRIES = MNEM__TRAINER_ENTRIES_MASKED, SHAPE_TEXT = 512 };

/* While a file is written or read, the charge is released for its heap. */
static void lend(mnem_trainer *t) {
    mnem__part_give(&t->taken, MNEM__PART_CHECKPOINT);
}

static void take_back(mnem_trainer *t) {
    (void)mnem__part_take(&t->taken, MNEM__PART_CHECKPOINT);
}

typedef struct words {
    char bytes[SHAPE_TEXT];
    size_t length;
} words;

__attribute__((format(printf, 2, 3))) static void add(words *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(to->bytes + to->length, sizeof to->bytes - to->length, format, args);
    va_end(args);
    to->length += (size_t)n;
}

static float or_one(float x) {
    return x != 0 ? x : 1;
}

/* Adds the constants of the computation; equivalent values are written alike. */
static void add_constants(words *to, const mnem__train_shape *shape) {
    const mnem_rope *r = &shape->t.rope;
    const bool yarn = r->yarn_ext != 0;
    add(to, " epsilon %.9g", (double)shape->t.epsilon);
    if (!mnem__architecture_find(shape->t.architecture)->turn) return;
    add(to, " rope %d rope_base %.9g rope_neox %d rope_scale %.9g", r->dims, (double)r->base,
        r->neox, (double)or_one(r->scale));
    add(to, " yarn %.9g yarn_attn %.9g yarn_fast %.9g yarn_slow %.9g yarn_context %d",
        (double)r->yarn_ext, (double)or_one(r->yarn_attn), yarn ? (double)r->yarn_beta_fast : 0,
        yarn ? (double)r->yarn_beta_slow : 0, yarn ? r->original_context : 0);
}

/* constants false: the form of older checkpoints without them. */
static words shape_text(const mnem_trainer *t, bool constants) {
    const mnem_transformer *s = &t->setup.shape->t;
    words to = {.length = 0};
    add(&to,
        "%s layers %d embd %d heads %d kv_heads %d head_dim %d ff %d vocab %d context %d "
        "moments %d",
        s->architecture, s->layers, s->embd, s->heads, s->kv_heads, s->head_dim, s->ff, s->vocab,
        s->context, (int)t->setup.o.optimizer.moments);
    if (constants) add_constants(&to, t->setup.shape);
    if (t->masks) add(&to, " masked 1");
    if (t->teacher)
        add(&to, " teacher %016llx weight %.9g temperature %.9g",
            (unsigned long long)t->teacher_sum, (double)t->setup.o.distill.weight,
            (double)t->setup.o.distill.temperature);
    if (t->setup.teach.states) add(&to, " states %d", t->setup.teach.logits ? 2 : 1);
    const mnem__train_shape *lora = t->setup.shape;
    if (lora->lora_rank)
        add(&to, " lora %d alpha %g of %u on %016llx", lora->lora_rank, (double)lora->lora_alpha,
            (unsigned)lora->lora_targets, (unsigned long long)t->frozen_sum);
    return to;
}

static uint64_t weights_bytes(const mnem_trainer *t) {
    return (uint64_t)t->setup.shape->count * sizeof(float);
}

static mnem_status write_weights(void *trainer, mnem__checkpoint_put *put, void *to) {
    const mnem_trainer *t = trainer;
    return mnem__trainer_part_write(t, mnem__trainer_weights(t), weights_bytes(t), put, to);
}

static mnem_status write_masks(void *trainer, mnem__checkpoint_put *put, void *to) {
    const mnem_trainer *t = trainer;
    return mnem__trainer_part_write(t, MNEM__PART_MASKS, mnem__train_mask_bytes(t->setup.shape),
                                    put, to);
}

/* Fills in the sections, with masks, if any, as the last one; returns their number. */
static size_t fill_entries(mnem_trainer *t, const char *shape, const char *note,
                           mnem__checkpoint_entry entries[ENTRIES]) {
    const mnem__checkpoint_entry list[ENTRIES] = {
        {.name = "shape", .type = MNEM__ENTRY_TEXT, .data = shape, .bytes = strlen(shape)},
        {.name = "note", .type = MNEM__ENTRY_TEXT, .data = note, .bytes = strlen(note)},
        {.name = "steps", .type = MNEM__ENTRY_U64, .u = t->steps},
        {.name = "updates", .type = MNEM__ENTRY_U64, .u = t->updates},
        {.name = "scale", .type = MNEM__ENTRY_F64, .f = t->scale.scale},
        {.name = "scale_good", .type = MNEM__ENTRY_U64, .u = t->scale.good},
        {.name = "scale_at_floor", .type = MNEM__ENTRY_U64, .u = t->scale.at_floor},
        {.name = "scale_skipped", .type = MNEM__ENTRY_U64, .u = t->scale.skipped},
        {.name = "weights",
         .type = MNEM__ENTRY_BYTES,
         .bytes = weights_bytes(t),
         .produce = write_weights,
         .context = t},
        {.name = "moments",
         .type = MNEM__ENTRY_BYTES,
         .bytes = mnem__trainer_moments_bytes(t),
         .produce = mnem__trainer_moments_write,
         .context = t},
        {.name = "masks",
         .type = MNEM__ENTRY_BYTES,
         .bytes = mnem__train_mask_bytes(t->setup.shape),
         .produce = write_masks,
         .context = t}};
    memcpy(entries, list, sizeof list);
    return t->masks ? MNEM__TRAINER_ENTRIES_MASKED : MNEM__TRAINER_ENTRIES;
}

static mnem_status put_nowhere(void *to, const void *data, uint64_t bytes) {
    (void)to, (void)data, (void)bytes;
    return MNEM_OK;
}

/* status: the status so far; a failure and its error text are kept. */
static mnem_status send_moments(mnem_trainer *t, mnem_status status) {
    char text[256];
    snprintf(text, sizeof text, "%s", status == MNEM_OK ? "" : mnem_last_error());
    const mnem_status sent = mnem__trainer_moments_write(t, put_nowhere, NULL);
    return status == MNEM_OK ? sent : mnem__fail(status, "%s", text);
}

mnem_status mnem_trainer_save(mnem_trainer *t, const char *path, const char *note) {
    const words shape = shape_text(t, true);
    mnem__checkpoint_entry entries[ENTRIES];
    const size_t n = fill_entries(t, shape.bytes, note, entries);
    const bool cut = mnem__trainer_moments_cut(t);
    mnem_status status = MNEM_OK;
    t->moments_written = false;
    lend(t);
    if (!t->setup.comm || mnem_comm_rank(t->setup.comm) == 0)
        status = mnem__checkpoint_write(path, entries, n);
    /* The other ranks send their moments, even if the file couldn't be created. */
    if (cut && !t->moments_written) status = send_moments(t, status);
    take_back(t);
    return mnem__ranks_agree(t->setup.comm, status);
}

typedef struct numbers {
    uint64_t steps, updates, good, at_floor, skipped;
    double scale;
} numbers;

static mnem_status read_numbers(const mnem__checkpoint *c, numbers *n) {
    MNEM__TRY(mnem__checkpoint_u64(c, "steps", &n->steps));
    MNEM__TRY(mnem__checkpoint_u64(c, "updates", &n->updates));
    MNEM__TRY(mnem__checkpoint_f64(c, "scale", &n->scale));
    MNEM__TRY(mnem__checkpoint_u64(c, "scale_good", &n->good));
    MNEM__TRY(mnem__checkpoint_u64(c, "scale_at_floor", &n->at_floor));
    return mnem__checkpoint_u64(c, "scale_skipped", &n->skipped);
}

/* Reads the next word of a text, and advances it. */
static mnem_text take_word(const char **text) {
    const char *word = *text;
    const size_t n = strcspn(word, " ");
    *text = word + n + (word[n] == ' ');
    return (mnem_text){word, n};
}

static bool is_same(mnem_text a, mnem_text b) {
    return a.length == b.length && !memcmp(a.bytes, b.bytes, a.length);
}

/* Shapes are "ARCHITECTURE name value name value ...": names the first difference. */
static mnem_status say_difference(const char *ours, const char *theirs) {
    const mnem_text masked = {"masked", 6}, teacher = {"teacher", 7}, states = {"states", 6};
    mnem_text name = {"architecture", 12}, a = take_word(&ours), b = take_word(&theirs);
    mnem_text other = name;
    while (is_same(name, other) && is_same(a, b) && (*ours || *theirs)) {
        name = take_word(&ours), other = take_word(&theirs);
        a = take_word(&ours), b = take_word(&theirs);
    }
    if (is_same(name, teacher) || is_same(other, teacher))
        return mnem__fail(MNEM_BAD_FILE,
                          "train: the checkpoint is from a run with %s teacher; set "
                          "distill.teacher as in that run",
                          !is_same(other, teacher) ? "no"
                          : is_same(name, teacher) ? "another"
                                                   : "a");
    if (is_same(name, states) || is_same(other, states))
        return mnem__fail(
            MNEM_BAD_FILE,
            "train: the checkpoint is from a run that learns from other outputs of the teacher "
            "(logits, hidden states or both); set distill.on as in that run");
    if (is_same(name, masked) || is_same(other, masked))
        return mnem__fail(
            MNEM_BAD_FILE,
            "train: the checkpoint is from a run %s masked training; set masked as in that run",
            is_same(other, masked) ? "with" : "without");
    if (!is_same(name, other))
        return mnem__fail(MNEM_BAD_FILE,
                          name.length ? "train: the checkpoint has no adapters, but this run "
                                        "trains adapters; set lora as in the run that wrote it"
                                      : "train: the checkpoint has adapters, but this run trains "
                                        "none; set lora as in the run that wrote it");
    if (is_same(name, (mnem_text){"on", 2}))
        return mnem__fail(MNEM_BAD_FILE,
                          "train: the checkpoint's adapters are for another model: "
                          "the weights of this model differ; use the model of that run");
    return mnem__fail(
        MNEM_BAD_FILE,
        "train: the checkpoint is for another model: its %.*s is %.*s, but this model's is %.*s; "
        "use the model of that run",
        (int)name.length, name.bytes, (int)b.length, b.bytes, (int)a.length, a.bytes);
}

static mnem_status check_shape(const mnem_trainer *t, const mnem__checkpoint *c) {
    char theirs[SHAPE_TEXT];
    MNEM__TRY(mnem__checkpoint_text(c, "shape", theirs, sizeof theirs));
    const words ours = shape_text(t, strstr(theirs, " epsilon ") != NULL);
    return strcmp(ours.bytes, theirs) ? say_difference(ours.bytes, theirs) : MNEM_OK;
}

/* Checks the stored loss scale; *scale: the one to continue with. */
static mnem_status check_scale(const mnem_trainer *t, const numbers *n, mnem__loss_scale *scale) {
    *scale = t->scale;
    /* A run that wasn't f16 before starts with the default scale. */
    if (t->setup.o.compute != MNEM_TYPE_F16 || (n->scale == 1 && !n->good && !n->at_floor))
        return MNEM_OK;
    if (n->good > UINT32_MAX || n->at_floor > UINT32_MAX)
        return mnem__fail(MNEM_BAD_FILE,
                          "train: the checkpoint is damaged: its loss scale has %llu steps without "
                          "overflow and %llu overflows at the lowest scale; use a copy of it, or "
                          "start a new run",
                          (unsigned long long)n->good, (unsigned long long)n->at_floor);
    *scale = (mnem__loss_scale){n->scale, (uint32_t)n->good, (uint32_t)n->at_floor, n->skipped};
    return mnem__loss_scale_restore(scale);
}

static mnem_status read_masks(mnem_trainer *t, const mnem__checkpoint *c) {
    if (!t->masks) return MNEM_OK;
    MNEM__TRY(mnem__trainer_part_read(t, c, "masks", MNEM__PART_MASKS,
                                      mnem__train_mask_bytes(t->setup.shape)));
    return mnem__trainer_mask_count(t, false);
}

/* All checks come before the trainer changes. */
static mnem_status load(mnem_trainer *t, const mnem__checkpoint *c, char *note, size_t n) {
    mnem__checkpoint_entry entries[ENTRIES];
    mnem__loss_scale scale;
    numbers found;
    const size_t sections = fill_entries(t, "", "", entries);
    MNEM__TRY(check_shape(t, c));
    MNEM__TRY(mnem__checkpoint_expect(c, entries, sections));
    MNEM__TRY(read_numbers(c, &found));
    MNEM__TRY(check_scale(t, &found, &scale));
    MNEM__TRY(mnem__checkpoint_text(c, "note", note, n));
    t->unwritten = true; /* stays set if a read or a copy fails */
    MNEM__TRY(mnem__trainer_part_read(t, c, "weights", mnem__trainer_weights(t), weights_bytes(t)));
    MNEM__TRY(mnem__trainer_moments_read(t, c));
    MNEM__TRY(read_masks(t, c));
    t->unwritten = false;
    t->steps = found.steps;
    t->updates = found.updates;
    t->scale = scale;
    return MNEM_OK;
}

/* Checks that all ranks read the same file, or copies of it. */
static mnem_status agree_on_file(const mnem_trainer *t, const mnem__checkpoint *c) {
    char text[24];
    if (!t->setup.comm) return MNEM_OK;
    snprintf(text, sizeof text, "%016llx", (unsigned long long)mnem__checkpoint_identity(c));
    return mnem_comm_agree(t->setup.comm, "the checkpoint", text);
}

mnem_status mnem_trainer_resume(mnem_trainer *t, const char *path, char *note, size_t n) {
    mnem__checkpoint *c = NULL;
    lend(t);
    mnem_status status = mnem__ranks_agree(t->setup.comm, mnem__checkpoint_open(path, &c));
    if (status == MNEM_OK) status = agree_on_file(t, c);
    if (status == MNEM_OK) {
        status = load(t, c, note, n);
        if (status != MNEM_OK && strncmp(mnem_last_error(), path, strlen(path)) != 0)
            status = mnem__fail_in(status, "%s", path);
        status = mnem__ranks_agree(t->setup.comm, status);
    }
    mnem__checkpoint_close(c);
    take_back(t);
    return status;
}

mnem_status mnem_trainer_steps_saved(const char *path, uint64_t *steps) {
    mnem__checkpoint *c;
    MNEM__TRY(mnem__checkpoint_open(path, &c));
    mnem_status status = mnem__checkpoint_u64(c, "steps", steps);
    mnem__checkpoint_close(c);
    return status;
}
