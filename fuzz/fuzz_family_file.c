/* fuzz_family_file.c: see fuzz_family_file.h.
 *
 * The idea: bytes that are changed at random end at the first check of a header. Here keys and
 * tensors of a whole model are changed one by one, and the file around them is made right again:
 * offsets fit, and a tensor has the bytes that its type and shape take. So what stands behind the
 * parser (hyperparameters, shapes, packing, the programs of a run) sees lies that are whole files.
 * The models are those of tests/data/architectures. */
#include "fuzz_family_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/model.h"

enum { FILE_BYTES = 1 << 22, TENSOR_BYTES = 1 << 19, TENSORS = 256, KEYS = 96, ALIGNMENT = 32 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static const char *const families[] = {"olmoe",
                                       "mixtral",
                                       "qwen2moe",
                                       "qwen3moe",
                                       "gpt_oss",
                                       "deepseek2",
                                       "deepseek3",
                                       "lfm2",
                                       "lfm2_ends",
                                       "bert",
                                       "nomic_bert",
                                       "llama",
                                       "phi3_long",
                                       "gemma3",
                                       "mistral3",
                                       "glm4",
                                       "gemma2",
                                       "starcoder2",
                                       "granite",
                                       "olmo3",
                                       "qwen2vl",
                                       "qwen3vl",
                                       "qwen3vlmoe",
                                       "granitemoe",
                                       "granitemoe_shared",
                                       "lfm2moe",
                                       "glm4moe_norms",
                                       "minimax_m2",
                                       "qwen35",
                                       "qwen35_ends",
                                       "qwen35moe",
                                       "qwen3next",
                                       "mamba",
                                       "falcon_mamba",
                                       "mamba2",
                                       "mamba2_one",
                                       "ernie4_5_moe",
                                       "seed_oss_bias",
                                       "dots1_groups",
                                       "gemma",
                                       "hunyuan_dense",
                                       "exaone4",
                                       "command_r",
                                       "cohere2",
                                       "arcee_bias",
                                       "nemotron_bias",
                                       "hunyuan_moe",
                                       "deepseek32",
                                       "glm_dsa_shared",
                                       "granitehybrid",
                                       "granitehybrid_moe",
                                       "falcon_h1_norm",
                                       "gemma3n",
                                       "gemma4",
                                       "gemma4_wide",
                                       "nemotron_h",
                                       "bailingmoe2",
                                       "exaone_moe",
                                       "hy_v3",
                                       "afmoe",
                                       "cohere2moe",
                                       "cohere2moe_shared",
                                       "gemma4_moe",
                                       "jamba",
                                       "mimo2",
                                       "step35",
                                       "laguna",
                                       "gemma4",
                                       "gemma4_wide",
                                       "gemma4_moe",
                                       "jamba",
                                       "kimi_linear",
                                       "nemotron_h",
                                       "nemotron_h_moe_groups",
                                       "nemotron_h_latent",
                                       "mistral4_dense",
                                       "llama4",
                                       "phimoe_bias",
                                       "apertus",
                                       "granite_swa",
                                       "smallthinker",
                                       "qwen3next_qkvz",
                                       "mimo2_qkv",
                                       "granite_swa_shared",
                                       "bamba"};
enum { FAMILIES = sizeof families / sizeof *families };

/* Keys that a file may have beside its own; behind the architecture's name. */
static const char *const more_keys[] = {"expert_group_count",
                                        "expert_group_used_count",
                                        "expert_gating_func",
                                        "expert_weights_scale",
                                        "expert_weights_norm",
                                        "expert_shared_count",
                                        "expert_shared_feed_forward_length",
                                        "leading_dense_block_count",
                                        "nextn_predict_layers",
                                        "interleave_moe_layer_step",
                                        "attention.indexer.top_k",
                                        "attention.indexer.head_count",
                                        "attention.indexer.key_length",
                                        "attention.indexer.types",
                                        "attention.q_lora_rank",
                                        "attention.sliding_window",
                                        "attention.key_length",
                                        "attention.value_length",
                                        "rope.dimension_count",
                                        "rope.scaling.factor",
                                        "rope.scaling.original_context_length",
                                        "rope.scaling.yarn_log_multiplier",
                                        "shortconv.l_cache",
                                        "rope.dimension_sections",
                                        "attention.recurrent_layers",
                                        "full_attention_interval",
                                        "ssm.conv_kernel",
                                        "ssm.state_size",
                                        "ssm.group_count",
                                        "ssm.time_step_rank",
                                        "ssm.inner_size",
                                        "ssm.dt_b_c_rms",
                                        "ssm.dt_b_c_rms_epsilon",
                                        "attention.shared_kv_layers",
                                        "attention.key_length_swa",
                                        "attention.value_length_swa",
                                        "rope.dimension_count_swa",
                                        "embedding_length_per_layer_input",
                                        "pooling_type",
                                        "pooling_type",
                                        "attention.rope_pattern",
                                        "attention.temperature_scale",
                                        "attention.temperature_length"};
enum { MORE_KEYS = sizeof more_keys / sizeof *more_keys };

typedef struct key {
    char name[96];
    mnem_value value; /* texts and arrays are the base's */
} key;

typedef struct tensor {
    char name[80];
    uint32_t type, dims, base; /* base: the tensor whose bytes it has, where they still fit */
    int64_t shape[4];
    int fill; /* -1: the base's */
} tensor;

static struct {
    mnem_model *base;
    key key[KEYS];
    tensor tensor[TENSORS];
    uint32_t keys, tensors;
} file;

/* ---- the base ---- */

static mnem_model *base_of(uint8_t family) {
    static mnem_model *models[FAMILIES];
    mnem_model **m = &models[family % FAMILIES];
    char path[512];
    snprintf(path, sizeof path, MNEM_TEST_DATA "/architectures/%s.gguf",
             families[family % FAMILIES]);
    if (!*m) CHECK(mnem_model_open(path, m) == MNEM_OK);
    return *m;
}

static void take_base(mnem_model *base) {
    mnem_text name;
    mnem_tensor_info info;
    file.base = base;
    file.keys = file.tensors = 0;
    while (mnem_model_key_get(base, file.keys, &name, &file.key[file.keys].value)) {
        CHECK(file.keys + 1 < KEYS - MORE_KEYS);
        snprintf(file.key[file.keys++].name, sizeof file.key->name, "%s", name.bytes);
    }
    for (; mnem_model_tensor_get(base, file.tensors, &info); file.tensors++) {
        CHECK(file.tensors + 1 < TENSORS);
        tensor *t = &file.tensor[file.tensors];
        *t = (tensor){.type = (uint32_t)info.type, .dims = (uint32_t)info.dims, .fill = -1};
        t->base = file.tensors;
        memcpy(t->shape, info.shape, sizeof t->shape);
        snprintf(t->name, sizeof t->name, "%s", info.name);
    }
}

/* ---- edits ---- */

enum {
    EDIT_NUMBER,      /* of a key: a + 256 b */
    EDIT_WILD_NUMBER, /* one of the numbers below */
    EDIT_NO_KEY,
    EDIT_MORE, /* one of the keys above */
    EDIT_SHAPE,
    EDIT_WILD_SHAPE,
    EDIT_TYPE,
    EDIT_TYPES, /* of all tensors of which rows are whole blocks */
    EDIT_NO_TENSOR,
    EDIT_FILL, /* every byte of its data */
    FAMILY_EDITS
};

static const int64_t wild[] = {0,         -1,        INT32_MAX,        INT32_MIN,  UINT32_MAX,
                               INT64_MAX, INT64_MIN, (int64_t)1 << 32, 1 << 30,    1 << 24,
                               65537,     1025,      (int64_t)1 << 62, 0x7fc00000, 0x7f800000};
enum { WILD = sizeof wild / sizeof *wild };

static void set_number(key *k, int64_t number, bool wild_one) {
    if (k->value.type == MNEM_VALUE_STRING || k->value.type == MNEM_VALUE_ARRAY) return;
    if (k->value.type == MNEM_VALUE_F32 || k->value.type == MNEM_VALUE_F64)
        k->value.f = wild_one ? (double)number * 1e30 : (double)number / 256;
    else
        k->value.i = number;
    if (wild_one && number == 0x7fc00000) k->value.f = (double)NAN;
}

static void add_key(const char *name, int64_t number) {
    mnem_model_info info;
    mnem_model_info_get(file.base, &info);
    if (file.keys == KEYS) return;
    key *k = &file.key[file.keys++];
    *k = (key){.value = {.type = MNEM_VALUE_U32, .count = 1, .i = number}};
    if (strstr(name, "scal")) k->value = (mnem_value){.type = MNEM_VALUE_F32, .f = (double)number};
    snprintf(k->name, sizeof k->name, "%.20s.%s", info.architecture, name);
}

static void set_types(mnem_type type) {
    const mnem_type_info *info = mnem_type_get(type);
    for (uint32_t i = 0; info && i < file.tensors; i++) {
        tensor *t = &file.tensor[i];
        if (t->dims > 1 && t->shape[t->dims - 1] % info->block_elements == 0)
            t->type = (uint32_t)type;
    }
}

static void edit_tensor(tensor *t, int what, uint8_t a, uint8_t b) {
    const uint32_t d = a % 4u;
    if (what == EDIT_SHAPE) t->shape[d] = b;
    if (what == EDIT_WILD_SHAPE) t->shape[d] = wild[b % WILD];
    if ((what == EDIT_SHAPE || what == EDIT_WILD_SHAPE) && d >= t->dims) t->dims = d + 1;
    if (what == EDIT_TYPE) t->type = a;
    if (what == EDIT_FILL) t->fill = a;
    if (what == EDIT_NO_TENSOR) *t = file.tensor[--file.tensors];
}

static void edit(const uint8_t e[4]) {
    const int what = e[0] % FAMILY_EDITS, number = e[2] | e[3] << 8;
    key *k = &file.key[e[1] % file.keys];
    switch (what) {
    case EDIT_NUMBER: set_number(k, number, false); break;
    case EDIT_WILD_NUMBER: set_number(k, wild[e[2] % WILD], true); break;
    case EDIT_NO_KEY:
        if (file.keys > 1) *k = file.key[--file.keys];
        break;
    case EDIT_MORE: add_key(more_keys[e[1] % MORE_KEYS], number); break;
    case EDIT_TYPES: set_types((mnem_type)e[2]); break;
    default:
        if (file.tensors > 1) edit_tensor(&file.tensor[e[1] % file.tensors], what, e[2], e[3]);
    }
}

/* ---- the file's bytes ---- */

static uint8_t out[FILE_BYTES];
static size_t used;

static void put(const void *data, size_t n) {
    if (n > sizeof out - used) n = sizeof out - used; /* what is missing is a lie like others */
    if (n) memcpy(out + used, data, n);
    used += n;
}

static void put_u32(uint32_t number) {
    put(&number, sizeof number);
}

static void put_u64(uint64_t number) {
    put(&number, sizeof number);
}

static void put_text(const char *text, size_t n) {
    put_u64(n);
    put(text, n);
}

static size_t width_of(mnem_value_type type) {
    static const uint8_t widths[MNEM_VALUE_TYPES] = {
        [MNEM_VALUE_U8] = 1,  [MNEM_VALUE_I8] = 1,  [MNEM_VALUE_U16] = 2, [MNEM_VALUE_I16] = 2,
        [MNEM_VALUE_U32] = 4, [MNEM_VALUE_I32] = 4, [MNEM_VALUE_F32] = 4, [MNEM_VALUE_BOOL] = 1,
        [MNEM_VALUE_U64] = 8, [MNEM_VALUE_I64] = 8, [MNEM_VALUE_F64] = 8};
    return widths[type];
}

static void put_array(const mnem_value *v) {
    put_u32((uint32_t)v->element);
    put_u64(v->count);
    if (v->element != MNEM_VALUE_STRING) put(v->elements, v->count * width_of(v->element));
    for (uint64_t i = 0; v->element == MNEM_VALUE_STRING && i < v->count; i++) {
        const mnem_text text = mnem_value_text(v, i);
        put_text(text.bytes, text.length);
    }
}

static void put_key(const key *k) {
    const mnem_value *v = &k->value;
    const float narrow = v->type == MNEM_VALUE_F32 ? (float)v->f : 0;
    put_text(k->name, strlen(k->name));
    put_u32((uint32_t)v->type);
    if (v->type == MNEM_VALUE_ARRAY)
        put_array(v);
    else if (v->type == MNEM_VALUE_STRING)
        put_text(v->text.bytes, v->text.length);
    else if (v->type == MNEM_VALUE_F32)
        put(&narrow, sizeof narrow);
    else
        put(&v->u, width_of(v->type));
}

static uint64_t bytes_of(const tensor *t) {
    const mnem_type_info *type = mnem_type_get((mnem_type)t->type);
    uint64_t rows = 1;
    if (!type) return ALIGNMENT;
    for (uint32_t d = 0; d + 1 < t->dims; d++)
        rows = t->shape[d] >= 0 && t->shape[d] < 65536 && rows < 65536
                   ? rows * (uint64_t)t->shape[d]
                   : TENSOR_BYTES;
    const int64_t k = t->shape[t->dims - 1];
    if (k <= 0 || k > TENSOR_BYTES || rows > TENSOR_BYTES) return TENSOR_BYTES;
    const uint64_t bytes = rows * mnem_type_row_bytes((mnem_type)t->type, k);
    return bytes < TENSOR_BYTES ? bytes : TENSOR_BYTES;
}

static void put_data(const tensor *t) {
    static uint8_t data[TENSOR_BYTES];
    const uint64_t n = bytes_of(t);
    mnem_tensor_info base;
    CHECK(mnem_model_tensor_get(file.base, t->base, &base));
    if (t->fill < 0 && base.type == (mnem_type)t->type && base.bytes >= n)
        CHECK(mnem_model_tensor_read(file.base, t->base, 0, n, data) == MNEM_OK);
    else
        memset(data, t->fill < 0 ? 0x2c : t->fill, n); /* 0x2c2c is 0.065 as F16 */
    put(data, n);
    while (used % ALIGNMENT && used < sizeof out) out[used++] = 0;
}

static void put_declaration(const tensor *t, uint64_t *offset) {
    put_text(t->name, strlen(t->name));
    put_u32(t->dims);
    for (uint32_t d = t->dims; d-- > 0;) put_u64((uint64_t)t->shape[d]);
    put_u32(t->type);
    put_u64(*offset);
    *offset += (bytes_of(t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t fuzz_family_file(uint8_t family, const uint8_t *data, size_t n, const uint8_t **bytes) {
    uint64_t offset = 0;
    take_base(base_of(family));
    for (size_t at = 0; at + 4 <= n; at += 4) edit(data + at);
    used = 0;
    put("GGUF", 4);
    put_u32(3);
    put_u64(file.tensors);
    put_u64(file.keys);
    for (uint32_t i = 0; i < file.keys; i++) put_key(&file.key[i]);
    for (uint32_t i = 0; i < file.tensors; i++) put_declaration(&file.tensor[i], &offset);
    while (used % ALIGNMENT && used < sizeof out) out[used++] = 0;
    for (uint32_t i = 0; i < file.tensors; i++) put_data(&file.tensor[i]);
    *bytes = out;
    return used;
}
