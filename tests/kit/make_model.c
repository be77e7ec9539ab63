/* make_model.c: writes a model of random weights, of any shape, type and tokenizer.
 *
 * The idea: weights are random bytes with scales set so that a row of k has a standard deviation of
 * 1/sqrt(k): quantized blocks are made directly, never quantized, so a file takes about as long as
 * writing it. The same arguments give the same file: each tensor's generator starts from its name.
 * Which tensors there are says the architecture's table. Memory: one row, and the vocabulary's
 * texts.
 *
 *     make_model OUT --arch llama --embd 2048 --layers 22 --heads 32 --kv-heads 4 --ff 5632
 *                    --vocab 32000 --type Q4_0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_blocks.h"
#include "kit/kit_random.h"
#include "kit/make_model.h"
#include "mnem/mnem.h"

void die(const char *what) {
    fprintf(stderr, "make_model: %s\n", what);
    exit(1);
}

void must(mnem_status status) {
    if (status != MNEM_OK) die(mnem_last_error());
}

const mnem__architecture *architecture(const options *o) {
    const mnem__architecture *found = mnem__architecture_find(o->arch);
    if (!found) die("--arch: no such architecture");
    return found;
}

static bool is_llama3(const options *o) {
    return o->rope_scaling && strcmp(o->rope_scaling, "llama3") == 0;
}

static mnem_type type_of(const char *name) {
    for (int i = 0; i < 64; i++) {
        const mnem_type_info *info = mnem_type_get((mnem_type)i);
        if (info && info->is_weight && strcmp(info->name, name) == 0) return (mnem_type)i;
    }
    die("a type that can't be made");
    return MNEM_TYPE_F32;
}

/* ---- rows of every type of weights ---- */

static void random_bytes(uint64_t *state, uint8_t *out, size_t n) {
    for (; n >= 8; n -= 8, out += 8) {
        uint64_t r = next_random(state);
        memcpy(out, &r, 8);
    }
    uint64_t r = next_random(state);
    memcpy(out, &r, n);
}

/* About normal (the sum of four uniform numbers), of standard deviation 1. */
static float normal(uint64_t *state) {
    uint64_t r = next_random(state);
    int sum =
        (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);
    return ((float)sum / 65536.f - 2.f) * 1.7320508f;
}

static uint16_t bfloat_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

/* n random weights of type, about of this deviation; whole blocks: random bytes under scales that
 * give it. */
static void make_row(mnem_type type, int64_t n, uint64_t *state, float deviation, uint8_t *row) {
    const mnem_type_info *info = mnem_type_get(type);
    if (info->block_elements == 1) {
        for (int64_t i = 0; i < n; i++) {
            float f = normal(state) * deviation;
            uint16_t h = type == MNEM_TYPE_F16 ? kit_half(f) : bfloat_of(f);
            if (type == MNEM_TYPE_F32)
                memcpy(row + 4 * i, &f, 4);
            else
                memcpy(row + 2 * i, &h, 2);
        }
        return;
    }
    random_bytes(state, row, mnem_type_row_bytes(type, n));
    for (int64_t i = 0; i < n / info->block_elements; i++)
        if (!kit_block_scales(type, state, deviation, row + i * info->block_bytes))
            die("a type that can't be made");
}

/* ---- tensors: declared by one walk, written by the same walk ---- */

static uint64_t seed_of(const options *o, const char *name) {
    uint64_t h = 0xcbf29ce484222325 ^ (uint64_t)o->seed * 0x9e3779b97f4a7c15;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3;
    return h;
}

typedef struct walk {
    const options *o;
    mnem_transformer shape;
    mnem_gguf_writer *writer;
    bool data;
} walk;

/* Matrices of rows of k, below each other where there are three dimensions. */
static void matrix(const walk *w, const char *name, const char *type_name, int dims,
                   const int64_t *shape, float deviation) {
    const int64_t k = shape[dims - 1], rows = dims == 3 ? shape[0] * shape[1] : shape[0];
    mnem_type type = type_of(type_name);
    if (mnem_type_row_bytes(type, k) == 0) type = MNEM_TYPE_F16; /* not whole blocks */
    if (!w->data) {
        must(mnem__gguf_write_tensor(w->writer, name, type, dims, shape));
        return;
    }
    uint64_t state = seed_of(w->o, name), bytes = mnem_type_row_bytes(type, k);
    uint8_t *row = malloc(bytes);
    if (!row) die("no memory");
    for (int64_t i = 0; i < rows; i++) {
        make_row(type, k, &state, deviation, row);
        must(mnem__gguf_write_data(w->writer, row, bytes));
    }
    free(row);
}

static void vector(const walk *w, const char *name, int dims, const int64_t *shape, float center,
                   float deviation) {
    if (!w->data) {
        must(mnem__gguf_write_tensor(w->writer, name, MNEM_TYPE_F32, dims, shape));
        return;
    }
    const int64_t n = dims == 2 ? shape[0] * shape[1] : shape[0];
    uint64_t state = seed_of(w->o, name);
    for (int64_t i = 0; i < n; i++) {
        float f = center + deviation * normal(&state);
        must(mnem__gguf_write_data(w->writer, &f, sizeof f));
    }
}

/* Llama 3.1's factors: 8 for long waves, 1 for short ones, smooth between; 8192 tokens before. */
static void rope_factors(const walk *w, const char *name) {
    int64_t n = w->o->head_dim / 2;
    if (!w->data) {
        must(mnem__gguf_write_tensor(w->writer, name, MNEM_TYPE_F32, 1, &n));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double wave = 2 * 3.14159265358979 * pow(500000., (double)i / (double)n);
        double smooth = (8192 / wave - 1) / (4 - 1);
        double factor = wave < 8192 / 4. ? 1 : wave > 8192 ? 8 : 1 / ((1 - smooth) / 8 + smooth);
        float f = (float)factor;
        must(mnem__gguf_write_data(w->writer, &f, sizeof f));
    }
}

/* Vectors that add to the stream of residuals are smaller than those inside a layer. */
static void put_tensor(const walk *w, mnem__role role, long layer) {
    const options *o = w->o;
    const mnem__role_info *info = mnem__role_get(role);
    if (role == MNEM__ROLE_STREAM_ROUTER_AGAIN) return; /* the same tensor */
    const bool to_stream = info->columns == MNEM__WIDTH_EMBD;
    char name[MNEM__ROLE_NAME];
    int64_t shape[3];
    const mnem_transformer of_layer = mnem__transformer_as_layer(&w->shape, (int32_t)layer);
    const int dims = mnem__role_shape(role, &of_layer, shape);
    const float by_row = 1 / sqrtf((float)shape[dims - 1]);
    mnem__role_name(role, (int32_t)layer, name);
    if (role == MNEM__ROLE_ROPE_FACTORS)
        rope_factors(w, name);
    else if (!mnem__role_is_matrix(role))
        vector(w, name, dims, shape, role == MNEM__ROLE_STATE_A ? -1 : info->is_norm,
               info->is_norm ? 0.1f
               : to_stream   ? 0.2f
                             : 0.3f);
    else if (role == MNEM__ROLE_OUTPUT || (role == MNEM__ROLE_EMBEDDING && o->tied))
        matrix(w, name, o->output_type, dims, shape, 3 * by_row);
    else if (info->precision == MNEM__PRECISION_WHOLE)
        matrix(w, name, role == MNEM__ROLE_ROUTER ? o->router_type : "F32", dims, shape,
               2 * by_row);
    else
        matrix(w, name, o->type, dims, shape,
               role == MNEM__ROLE_EMBEDDING   ? 1
               : role == MNEM__ROLE_POSITIONS ? 0.5f
                                              : by_row);
}

static bool is_made(const options *o, mnem__option option) {
    switch (option) {
    case MNEM__OPTION_STATE_NORM:
    case MNEM__REQUIRED:
    case MNEM__OPTION_LAYER_SCALE: return true;
    case MNEM__OPTION_QKV_BIAS:
    case MNEM__OPTION_FFN_BIAS: return o->bias;
    case MNEM__OPTION_OUT_BIAS:
    case MNEM__OPTION_CHOICE_BIAS:
    case MNEM__OPTION_HEAD_NORMS:
    case MNEM__OPTION_OUTPUT_BIAS:
    case MNEM__OPTION_ROPE_LONG: return false;
    case MNEM__OPTION_OUTPUT: return !o->tied;
    case MNEM__OPTION_ROPE_FACTORS: return is_llama3(o);
    }
    return false;
}

static void tensors(const walk *w) {
    const mnem__tensor_use *use = architecture(w->o)->tensors;
    for (; !mnem__role_in_layer(use->role); use++)
        if (mnem__layer_is(&w->shape, -1, use->layers)) put_tensor(w, use->role, -1);
    const mnem__tensor_use *first = use;
    for (long layer = 0; layer < w->o->layers; layer++)
        for (use = first; mnem__role_in_layer(use->role); use++)
            if (is_made(w->o, use->option) &&
                mnem__layer_is(&w->shape, (int32_t)layer, use->layers))
                put_tensor(w, use->role, layer);
    for (; use->role; use++)
        if (is_made(w->o, use->option)) put_tensor(w, use->role, -1);
}

/* ---- keys ---- */

/* What general.file_type calls a file of mostly this type. */
static uint32_t file_type(mnem_type type) {
    static const struct {
        mnem_type type;
        uint32_t number;
    } numbers[] = {{MNEM_TYPE_F32, 0},   {MNEM_TYPE_F16, 1},   {MNEM_TYPE_Q4_0, 2},
                   {MNEM_TYPE_Q4_1, 3},  {MNEM_TYPE_Q8_0, 7},  {MNEM_TYPE_Q5_0, 8},
                   {MNEM_TYPE_Q5_1, 9},  {MNEM_TYPE_Q4_K, 14}, {MNEM_TYPE_Q5_K, 16},
                   {MNEM_TYPE_Q6_K, 18}, {MNEM_TYPE_BF16, 32}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].type == type) return numbers[i].number;
    return 0;
}

/* Pairs of each place in an image. A text's tokens have three equal places. */
static void put_sections(mnem_gguf_writer *w, const options *o) {
    const int32_t pairs = rope_dims_of(o) / 2, third = (pairs + 2) / 3;
    const int32_t of[] = {third, third, pairs - 2 * third, 0};
    const mnem_value value = {
        .type = MNEM_VALUE_ARRAY, .element = MNEM_VALUE_I32, .count = 4, .elements = of};
    char key[96];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", o->arch);
    must(mnem__gguf_write_key(w, key, &value));
}

static void put_rope(mnem_gguf_writer *w, const options *o) {
    char key[96];
#define KEY(rest) (snprintf(key, sizeof key, "%s." rest, o->arch), key)
    const bool llama3 = is_llama3(o);
    must(mnem__gguf_write_key_u32(w, KEY("rope.dimension_count"), (uint32_t)rope_dims_of(o)));
    must(mnem__gguf_write_key_f32(w, KEY("rope.freq_base"), llama3 ? 500000.f : 10000.f));
    if (architecture(o)->takes & MNEM__TAKES_SECTIONS) put_sections(w, o);
    if (!o->rope_scaling || llama3) return;
    must(mnem_gguf_key_text(w, KEY("rope.scaling.type"), o->rope_scaling));
    must(mnem__gguf_write_key_f32(w, KEY("rope.scaling.factor"), 4));
    if (strcmp(o->rope_scaling, "yarn") == 0)
        must(mnem__gguf_write_key_u32(w, KEY("rope.scaling.original_context_length"),
                                      (uint32_t)(o->context / 4)));
}

/* What the architecture takes, each so that it shows in a text of a few tokens. */
static void put_numbers(mnem_gguf_writer *w, const options *o) {
    const mnem__architecture *a = architecture(o);
    const struct {
        const char *name;
        bool taken;
        float value;
    } keys[] = {{"embedding_scale", a->takes & MNEM__TAKES_SCALES, 3},
                {"residual_scale", a->takes & MNEM__TAKES_SCALES, 0.5f},
                {"attention.scale", a->takes & MNEM__TAKES_SCALES, 0.2f},
                {"logit_scale", a->takes & MNEM__TAKES_SCALES, 2},
                {"attn_logit_softcapping", a->takes & MNEM__TAKES_ATTENTION_CAP, 4},
                {"final_logit_softcapping", a->takes & MNEM__TAKES_LOGIT_CAP, 5}};
    char key[96];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(key, sizeof key, "%s.%s", o->arch, keys[i].name);
        if (keys[i].taken) must(mnem__gguf_write_key_f32(w, key, keys[i].value));
    }
    snprintf(key, sizeof key, "%s.attention.sliding_window", o->arch);
    if (a->windowed.kind) must(mnem__gguf_write_key_u32(w, key, (uint32_t)o->window));
}

static void put_kinds(mnem_gguf_writer *w, const options *o) {
    const struct {
        const char *name;
        long value;
    } keys[] = {{"attention.key_length_swa", o->window_head_dim},
                {"attention.value_length_swa", o->window_head_dim},
                {"rope.dimension_count_swa", o->window_head_dim},
                {"attention.shared_kv_layers", o->kv_shared},
                {"embedding_length_per_layer_input", shape_of(o).layer_embd}};
    char key[96];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(key, sizeof key, "%s.%s", o->arch, keys[i].name);
        must(mnem__gguf_write_key_u32(w, key, (uint32_t)keys[i].value));
    }
}

static void put_experts(mnem_gguf_writer *w, const options *o) {
    const struct {
        const char *name;
        long value;
    } keys[] = {{"expert_count", o->experts},
                {"expert_used_count", architecture(o)->mixer > 0 ? 2 : o->experts_used},
                {"expert_feed_forward_length", o->ff_expert},
                {"moe_latent_size", o->embd / 2},
                {"expert_shared_count", 1}, /* from here on of those that every token uses */
                {"expert_shared_feed_forward_length", o->ff_shared}};
    const bool shared = mnem__architecture_has(architecture(o), MNEM__ROLE_DOWN_SHARED);
    char key[96];
    for (size_t i = 0; i < (shared ? sizeof keys / sizeof *keys : 3); i++) {
        if (i == 3 && !has_latent_experts(o)) continue;
        snprintf(key, sizeof key, "%s.%s", o->arch, keys[i].name);
        must(mnem__gguf_write_key_u32(w, key, (uint32_t)keys[i].value));
    }
}

/* One number, or one a layer where they differ. */
static void put_by_layer(mnem_gguf_writer *w, const options *o, const char *key,
                         uint32_t (*of)(const options *o, long layer), bool differ) {
    uint32_t numbers[MNEM_LAYERS_MAX];
    for (long layer = 0; layer < o->layers; layer++) numbers[layer] = of(o, layer);
    const mnem_value value = {.type = MNEM_VALUE_ARRAY,
                              .element = MNEM_VALUE_U32,
                              .count = (uint64_t)o->layers,
                              .elements = numbers};
    must(differ ? mnem__gguf_write_key(w, key, &value)
                : mnem__gguf_write_key_u32(w, key, numbers[0]));
}

static void put_states(mnem_gguf_writer *w, const options *o) {
    const mnem_transformer t = shape_of(o);
    const struct {
        const char *name;
        int32_t value;
    } keys[] = {{"full_attention_interval", t.recurrent.n},
                {"ssm.conv_kernel", t.conv_length},
                {"ssm.group_count", t.state_groups},
                {"ssm.time_step_rank", t.state_rank ? t.state_rank : t.state_heads},
                {"ssm.state_size", t.state_rows},
                {"ssm.inner_size", t.state_heads * t.state_columns},
                {"kda.head_dim", t.state_rows}};
    char key[96];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(key, sizeof key, "%s.%s", o->arch, keys[i].name);
        must(mnem__gguf_write_key_u32(w, key, (uint32_t)keys[i].value));
    }
    snprintf(key, sizeof key, "%s.rope.scaling.finetuned", o->arch);
    if (has_layer_heads(o))
        must(mnem__gguf_write_key(w, key, &(mnem_value){.type = MNEM_VALUE_BOOL, .count = 1}));
}

static void put_latent(mnem_gguf_writer *w, const options *o) {
    const mnem_transformer t = shape_of(o);
    const struct {
        const char *name;
        int32_t value;
    } keys[] = {
        {"attention.kv_lora_rank", t.latent},
        {"attention.q_lora_rank", t.latent_q},
        {"attention.key_length_mla", t.key_dim},
        {"attention.value_length_mla", t.value_dim},
        {"leading_dense_block_count", t.leading.n},
        {"rope.dimension_count", t.rope.dims},
        {"attention.indexer.top_k", t.index_top_k},
        {"attention.indexer.head_count", t.index_heads},
        {"attention.indexer.key_length", t.index_dim},
        {"expert_gating_func", 2}}; /* sigmoid; llama.cpp wants it where it has an indexer */
    const bool has_q = mnem__architecture_has(architecture(o), MNEM__ROLE_Q_LATENT);
    char key[96];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(key, sizeof key, "%s.%s", o->arch, keys[i].name);
        if (i >= 6 && !t.index_heads) continue;
        if (i == 5 && architecture(o)->turn) continue; /* put_rope */
        if (i != 1 || has_q) must(mnem__gguf_write_key_u32(w, key, (uint32_t)keys[i].value));
    }
}

static void put_xielu(mnem_gguf_writer *w) {
    must(mnem__gguf_write_key_f32(w, "xielu.alpha_p", 0.8f));
    must(mnem__gguf_write_key_f32(w, "xielu.alpha_n", 0.7f));
    must(mnem__gguf_write_key_f32(w, "xielu.beta", 0.5f));
    must(mnem__gguf_write_key_f32(w, "xielu.eps", -1e-6f));
}

static void put_encoder(mnem_gguf_writer *w, const options *o) {
    const mnem_value no = {.type = MNEM_VALUE_BOOL, .count = 1};
    char key[96];
    snprintf(key, sizeof key, "%s.attention.causal", o->arch);
    must(mnem__gguf_write_key(w, key, &no));
    snprintf(key, sizeof key, "%s.pooling_type", o->arch);
    must(mnem__gguf_write_key_u32(w, key, MNEM_POOLING_MEAN));
    must(mnem__gguf_write_key_u32(w, "tokenizer.ggml.token_type_count", 2));
}

static void put_keys(mnem_gguf_writer *w, const options *o) {
    char key[96];
    must(mnem_gguf_key_text(w, "general.architecture", o->arch));
    must(mnem_gguf_key_text(w, "general.name", "random"));
    if (o->alignment)
        must(mnem__gguf_write_key_u32(w, "general.alignment", (uint32_t)o->alignment));
    must(mnem__gguf_write_key_u32(w, "general.file_type", file_type(type_of(o->type))));
    must(mnem__gguf_write_key_u32(w, "general.quantization_version", 2));
    must(mnem__gguf_write_key_u32(w, KEY("vocab_size"), (uint32_t)o->vocab));
    must(mnem__gguf_write_key_u32(w, KEY("context_length"), (uint32_t)o->context));
    must(mnem__gguf_write_key_u32(w, KEY("embedding_length"), (uint32_t)o->embd));
    must(mnem__gguf_write_key_u32(w, KEY("block_count"), (uint32_t)o->layers));
    put_by_layer(w, o, KEY("feed_forward_length"), ff_of, has_layer_ff(o));
    must(mnem__gguf_write_key_u32(w, KEY("attention.head_count"), (uint32_t)o->heads));
    put_by_layer(w, o, KEY("attention.head_count_kv"), kv_heads_of,
                 is_conv(o) || has_layer_heads(o));
    if (is_conv(o)) must(mnem__gguf_write_key_u32(w, KEY("shortconv.l_cache"), 3));
    const mnem_transformer t = shape_of(o);
    must(mnem__gguf_write_key_u32(w, KEY("attention.key_length"), (uint32_t)t.head_dim));
    must(mnem__gguf_write_key_u32(w, KEY("attention.value_length"),
                                  (uint32_t)(is_latent(o) ? t.latent : o->head_dim)));
    snprintf(key, sizeof key, "%s.%s", o->arch, architecture(o)->epsilon_key);
    must(mnem__gguf_write_key_f32(w, key, 1e-5f));
#undef KEY
    if (architecture(o)->turn) put_rope(w, o);
    put_numbers(w, o);
    if (has_states(o)) put_states(w, o);
    if (has_kinds(o)) put_kinds(w, o);
    if (architecture(o)->takes & MNEM__TAKES_EXPERTS) put_experts(w, o);
    if (is_latent(o)) put_latent(w, o);
    if (is_interleaved(o)) must(mnem__gguf_write_key_u32(w, "llama4.interleave_moe_layer_step", 2));
    if (architecture(o)->takes & MNEM__TAKES_XIELU) put_xielu(w);
    if (architecture(o)->encoder) put_encoder(w, o);
    put_tokenizer(w, o);
}

int main(int argc, char **argv) {
    options o = parse_options(argc, argv);
    if (is_latent(&o)) o.kv_heads = 1;
    walk w = {.o = &o, .shape = shape_of(&o)};
    must(mnem_gguf_create(o.out, &w.writer));
    put_keys(w.writer, &o);
    tensors(&w);
    if (o.hollow) {
        must(mnem__gguf_finish_hollow(w.writer));
        return 0;
    }
    w.data = true;
    tensors(&w);
    must(mnem_gguf_finish(w.writer));
    return 0;
}
