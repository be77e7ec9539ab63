/* saved_identity.c: what a model's pages depend on, as a number.
 *
 * Idea: keys and tensors as they are in the header say all but the weights themselves, and two
 * models of one training may have the same header. So 64 bytes in the middle of each tensor count
 * too: another training changes nearly all of them, and a few hundred reads find it.
 * Invariant: it doesn't depend on budget, context, threads or what is resident, where pages don't.
 * Cost: once for an engine; a read for each tensor. */
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/file/checksum.h"
#include "base/minmax.h"
#include "engine/saved/saved_private.h"

enum { SAMPLE = 64 };

static void add_text(mnem__checksum *sum, const char *bytes, size_t n) {
    const uint64_t length = n;
    mnem__checksum_add(sum, &length, sizeof length);
    mnem__checksum_add(sum, bytes, n);
}

static void add_value(mnem__checksum *sum, const mnem_value *v) {
    const uint64_t head[] = {(uint64_t)v->type, (uint64_t)v->element, v->count, v->u};
    if (v->type == MNEM_VALUE_STRING) {
        add_text(sum, v->text.bytes, v->text.length);
    } else if (v->type != MNEM_VALUE_ARRAY) {
        mnem__checksum_add(sum, head, sizeof head);
    } else {
        mnem__checksum_add(sum, head, sizeof head - sizeof head[0]);
        for (uint64_t i = 0; i < v->count; i++) {
            const mnem_text text = mnem_value_text(v, i);
            const double number = mnem_value_f64(v, i);
            if (v->element == MNEM_VALUE_STRING)
                add_text(sum, text.bytes, text.length);
            else
                mnem__checksum_add(sum, &number, sizeof number);
        }
    }
}

static mnem_status add_tensor(mnem__checksum *sum, const mnem_model *model, uint32_t index,
                              const mnem_tensor_info *info) {
    uint8_t sample[SAMPLE] = {0};
    const uint64_t n = mnem__min_u64(info->bytes, SAMPLE);
    const uint64_t head[] = {(uint64_t)info->type, info->bytes, (uint64_t)info->dims};
    add_text(sum, info->name, strlen(info->name));
    mnem__checksum_add(sum, head, sizeof head);
    mnem__checksum_add(sum, info->shape, sizeof info->shape);
    MNEM__TRY(mnem_model_tensor_read(model, index, (info->bytes - n) / 2, n, sample));
    mnem__checksum_add(sum, sample, sizeof sample);
    return MNEM_OK;
}

static mnem_status add_model(mnem__checksum *sum, const mnem_model *model, bool *bf16) {
    mnem_text key;
    mnem_value value;
    mnem_tensor_info info;
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &value); i++) {
        add_text(sum, key.bytes, key.length);
        add_value(sum, &value);
    }
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++) {
        *bf16 = *bf16 || info.type == MNEM_TYPE_BF16;
        MNEM__TRY(add_tensor(sum, model, i, &info));
    }
    return MNEM_OK;
}

/* Adds the adapters' files. Scales aren't part of the identity, since each sequence has its own. */
static mnem_status add_adapters(mnem__checksum *sum, const mnem__adapter_set *set, bool *bf16) {
    for (int32_t i = 0; set && i < set->adapters; i++)
        MNEM__TRY(add_model(sum, set->file[i], bf16));
    return MNEM_OK;
}

mnem_status mnem__saved_model_identity(const mnem_model *model, bool *bf16, uint64_t *identity) {
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    MNEM__TRY(add_model(&sum, model, bf16));
    *identity = mnem__checksum_get(&sum);
    return MNEM_OK;
}

static mnem_status make(const mnem_engine *e, uint64_t *identity) {
    mnem__checksum sum;
    bool bf16 = false;
    mnem__checksum_init(&sum);
    MNEM__TRY(add_model(&sum, e->model, &bf16));
    MNEM__TRY(add_adapters(&sum, e->adapters, &bf16));
    /* What else turns keys: which of two lists of factors a context takes; and bf16 in pairs. */
    const bool beyond =
        e->map->rope_long.tensor >= 0 && e->choice.context > e->map->shape.rope.original_context;
    const bool pairs = bf16 && mnem__cpu_level_get() == MNEM__CPU_AVX512_BF16;
    const uint8_t differs[] = {beyond, pairs};
    mnem__checksum_add(&sum, differs, sizeof differs);
    *identity = mnem__checksum_get(&sum);
    return MNEM_OK;
}

/* Several threads that ask first find the same number. */
mnem_status mnem__saved_identity(const mnem_engine *e, uint64_t *identity) {
    mnem_engine *memory = (mnem_engine *)(uintptr_t)e;
    *identity = __atomic_load_n(&memory->identity, __ATOMIC_RELAXED);
    if (*identity) return MNEM_OK;
    MNEM__TRY(make(e, identity));
    if (*identity == 0) *identity = 1; /* 0: not asked for yet */
    __atomic_store_n(&memory->identity, *identity, __ATOMIC_RELAXED);
    return MNEM_OK;
}
