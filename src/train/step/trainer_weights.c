/* trainer_weights.c: initializes, loads and writes a trainer's weights.
 *
 * Idea: the block of gradients is zero between steps, so it is the scratch for rows on their way
 * from and to files. Invariant: it is zero again afterwards. Cost: one pass over the weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/checksum.h"
#include "base/random.h"
#include "mnem/supports.h"
#include "model/architecture/hparams.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"
#include "train/step/trainer_private.h"

bool mnem_trainer_parameter_get(const mnem_trainer *t, int32_t index, mnem_parameter *parameter) {
    if (index < 0 || index >= t->setup.shape->params) return false;
    const mnem__train_param *p = &t->setup.shape->param[index];
    const bool apart = t->taken.apart, cut = t->setup.cut.sums > 0;
    *parameter = (mnem_parameter){.name = p->name,
                                  .dims = p->dims,
                                  .shape = {p->shape[0], p->shape[1]},
                                  .weights = apart ? NULL : t->weights + p->offset,
                                  .gradients = apart || cut ? NULL : t->gradients + p->gradients};
    return true;
}

/* ---- initial weights ---- */

/* As in GPT-2: normal numbers of deviation 0.02; the matrices that end a branch are divided by
 * sqrt(2 layers), because so many branches are added in the residual stream. An adapter's A is
 * random and its B zero, so that it has no effect at first. A tensor's numbers depend on the
 * seed and its index alone, not on those before it. */
static void init_numbers(const mnem__train_shape *s, int32_t index, uint64_t seed, uint64_t first,
                         uint64_t n, float *w) {
    const mnem__train_param *p = &s->param[index];
    const float normal = 0.02f, residual = normal / sqrtf(2.0f * (float)s->t.layers);
    const float deviation = p->init == MNEM__TRAIN_LORA_A     ? 1 / sqrtf((float)p->shape[1])
                            : p->init == MNEM__TRAIN_RESIDUAL ? residual
                                                              : normal;
    if (p->init != MNEM__TRAIN_ONES && p->init != MNEM__TRAIN_ZEROS)
        mnem__random_normals(seed, (uint64_t)index, first, n, deviation, w);
    else
        for (uint64_t i = 0; i < n; i++) w[i] = p->init == MNEM__TRAIN_ONES ? 1.0f : 0.0f;
}

static mnem_status init_parameter(mnem_trainer *t, int32_t index, uint64_t seed) {
    const mnem__train_param *p = &t->setup.shape->param[index];
    const uint64_t begin = (uint64_t)p->offset, count = (uint64_t)p->count;
    const mnem__part part = mnem__trainer_weights(t);
    for (uint64_t at = 0, n; at < count; at += n) {
        const uint64_t place = (begin + at) * sizeof(float);
        n = mnem__trainer_piece(t, (count - at) * sizeof(float)) / sizeof(float);
        init_numbers(t->setup.shape, index, seed, at, n, mnem__trainer_piece_at(t, part, place));
        MNEM__TRY(mnem__trainer_piece_put(t, part, place, n * sizeof(float)));
    }
    return MNEM_OK;
}

void mnem_trainer_init(mnem_trainer *t, uint64_t seed) {
    t->unwritten = false;
    for (int32_t i = 0; i < t->setup.shape->params; i++)
        t->unwritten = t->unwritten || init_parameter(t, i, seed) != MNEM_OK;
}

/* ---- files ---- */

static void clear_scratch(mnem_trainer *t) {
    mnem__trainer_clear_gradients(t);
}

static mnem_status check_tensor(const mnem__train_param *p, const mnem_tensor_info *info) {
    const mnem_type_info *type = mnem_type_get(info->type);
    const bool same = info->dims == p->dims && info->shape[0] == p->shape[0] &&
                      (p->dims == 1 || info->shape[1] == p->shape[1]);
    if (!same)
        return mnem__fail(
            MNEM_INVALID,
            "train: tensor %s is [%lld, %lld] in the model file, expected [%lld, %lld]", p->name,
            (long long)info->shape[0], (long long)info->shape[1], (long long)p->shape[0],
            (long long)p->shape[1]);
    if (!type || !mnem_type_row_bytes(info->type, p->shape[1]))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "train: tensor %s has type %s, expected a type for weights whose block "
                          "size divides %lld, the length of the tensor's rows",
                          p->name, type ? type->name : "unknown", (long long)p->shape[1]);
    return MNEM_OK;
}

/* The index of a parameter's row in the weights. */
static uint64_t place_of(const mnem__train_param *p, int64_t row) {
    return (uint64_t)(p->offset + row * p->shape[1]) * sizeof(float);
}

/* Row by row through the scratch. It is as large as all parameters of a layer in F32, or of what is
 * outside of them, so a row of any type has room in it. */
static mnem_status load_parameter(mnem_trainer *t, const mnem_model *model,
                                  const mnem__train_param *p) {
    uint32_t index;
    mnem_tensor_info info;
    MNEM__TRY(mnem__train_tensor_find(model, p->name, &index, &info));
    MNEM__TRY(check_tensor(p, &info));
    const int64_t rows = p->dims == 1 ? 1 : p->shape[0];
    const uint64_t bytes = mnem_type_row_bytes(info.type, p->shape[1]);
    const mnem__part part = mnem__trainer_weights(t);
    void *raw = mnem__trainer_scratch(t);
    for (int64_t r = 0; r < rows; r++) {
        const uint64_t place = place_of(p, r);
        MNEM__TRY(mnem_model_tensor_read(model, index, (uint64_t)r * bytes, bytes, raw));
        MNEM__TRY(mnem_dequantize_row(info.type, p->shape[1], raw,
                                      mnem__trainer_piece_at(t, part, place)));
        MNEM__TRY(mnem__trainer_piece_put(t, part, place, (uint64_t)p->shape[1] * sizeof(float)));
    }
    return MNEM_OK;
}

mnem_status mnem__trainer_frozen_read(const mnem_trainer *t, const mnem_model *model,
                                      const mnem__train_frozen *f, mnem__part part,
                                      mnem__checksum *sum) {
    const uint64_t row = mnem__train_frozen_row(f);
    for (uint64_t done = 0, n; done < f->bytes; done += n) {
        const uint64_t place = f->offset + done;
        uint8_t *to = mnem__trainer_piece_at(t, part, place);
        n = mnem__trainer_piece(t, f->bytes - done);
        if (n < f->bytes - done) n -= n % row;
        MNEM__TRY(mnem__train_frozen_read(model, f, done, n, to));
        mnem__checksum_add(sum, to, n);
        MNEM__TRY(mnem__trainer_piece_put(t, part, place, n));
    }
    return MNEM_OK;
}

/* The sum goes into checkpoints, so that no run is resumed over another base. */
mnem_status mnem__trainer_frozen_load(const mnem_trainer *t, const mnem__train_shape *s,
                                      const mnem_model *model, mnem__part part,
                                      uint64_t *checksum) {
    mnem__checksum sum;
    *checksum = 0;
    mnem__checksum_init(&sum);
    for (int32_t i = 0; i < s->frozen_count; i++)
        MNEM__TRY(mnem__trainer_frozen_read(t, model, &s->frozen[i], part, &sum));
    *checksum = mnem__checksum_get(&sum);
    return MNEM_OK;
}

/* Marks the weights that are zero now, which stay zero. */
static mnem_status find_zeros(mnem_trainer *t) {
    if (!t->masks) return MNEM_OK;
    MNEM__TRY(mnem__trainer_mask_count(t, true));
    if (t->masked.zeros) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "train: masked training needs weights that are zero, but none of the model's "
                      "%d matrices has one; prune the model first",
                      t->masked.matrices);
}

mnem_status mnem_trainer_load(mnem_trainer *t, const mnem_model *model) {
    const mnem__train_shape *s = t->setup.shape;
    mnem_status status = MNEM_OK;
    if (s->frozen_count)
        return mnem__trainer_frozen_load(t, s, model, MNEM__PART_FROZEN, &t->frozen_sum);
    MNEM__TRY(mnem_model_supports(model, MNEM_FEATURE_TRAIN));
    for (int32_t i = 0; i < s->params && status == MNEM_OK; i++)
        status = load_parameter(t, model, &s->param[i]);
    t->unwritten = status != MNEM_OK;
    clear_scratch(t);
    return status == MNEM_OK ? find_zeros(t) : status;
}

/* Norms and biases stay in F32, whatever the type of matrices: they are few bytes, and affect every
 * layer's values. */
static mnem_type type_in_file(const mnem__train_param *p, mnem_type type) {
    return p->dims == 1 ? MNEM_TYPE_F32 : type;
}

static mnem_status write_parameter(mnem_trainer *t, const mnem__train_param *p, mnem_type type,
                                   mnem_gguf_writer *w) {
    const mnem_type to = type_in_file(p, type);
    const int64_t rows = p->dims == 1 ? 1 : p->shape[0];
    void *raw = mnem__trainer_scratch(t);
    for (int64_t r = 0; r < rows; r++) {
        const void *row;
        MNEM__TRY(mnem__trainer_piece_get(t, mnem__trainer_weights(t), place_of(p, r),
                                          (uint64_t)p->shape[1] * sizeof(float), &row));
        MNEM__TRY(mnem_quantize_row(to, p->shape[1], row, raw));
        MNEM__TRY(mnem__gguf_write_data(w, raw, mnem_type_row_bytes(to, p->shape[1])));
    }
    return MNEM_OK;
}

/* llama.cpp's form of an adapter: these keys, and A [rank, columns] and B [rows, rank] of each
 * matrix under its own name with .lora_a and .lora_b; the product alpha / rank B A is added. */
static mnem_status write_lora_keys(const mnem__train_shape *s, mnem_gguf_writer *w) {
    MNEM__TRY(mnem_gguf_key_text(w, "general.architecture", s->t.architecture));
    MNEM__TRY(mnem_gguf_key_text(w, "general.type", "adapter"));
    MNEM__TRY(mnem_gguf_key_text(w, "adapter.type", "lora"));
    return mnem__gguf_write_key_f32(w, "adapter.lora.alpha", s->lora_alpha);
}

mnem_status mnem_trainer_write(mnem_trainer *t, mnem_type type, mnem_gguf_writer *w) {
    const mnem__train_shape *s = t->setup.shape;
    const uint32_t file_type = type == MNEM_TYPE_F16 ? 1 : type == MNEM_TYPE_BF16 ? 32 : 0;
    if (type != MNEM_TYPE_F32 && type != MNEM_TYPE_F16 && type != MNEM_TYPE_BF16)
        return mnem__fail(MNEM_INVALID, "train: the type to write is %d, expected F32, F16 or BF16",
                          (int)type);
    mnem_status status = s->lora_rank ? write_lora_keys(s, w) : mnem__hparams_write(&s->t, w);
    if (status == MNEM_OK) status = mnem__gguf_write_key_u32(w, "general.file_type", file_type);
    if (status == MNEM_OK && t->masked.matrices && t->masked.matrices_2_4 == t->masked.matrices)
        status = mnem_gguf_key_text(w, MNEM__GGUF_PATTERN, MNEM__GGUF_PATTERN_2_4);
    for (int32_t i = 0; i < s->params && status == MNEM_OK; i++)
        status = mnem__gguf_write_tensor(w, s->param[i].name, type_in_file(&s->param[i], type),
                                         s->param[i].dims, s->param[i].shape);
    for (int32_t i = 0; i < s->params && status == MNEM_OK; i++)
        status = write_parameter(t, &s->param[i], type, w);
    clear_scratch(t);
    return status;
}
