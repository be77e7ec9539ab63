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
#include "mnem/mnem.h"
#include "model/architecture/architecture.h"
#include "model/gguf/gguf_writer.h"

typedef struct options {
    const char *out, *arch, *type, *output_type, *rope_scaling, *tokenizer, *chat_template;
    long embd, layers, heads, kv_heads, head_dim, ff, vocab, context, alignment, seed;
    bool tied, bias;
} options;

static void die(const char *what) {
    fprintf(stderr, "make_model: %s\n", what);
    exit(1);
}

static void must(mnem_status status) {
    if (status != MNEM_OK) die(mnem_last_error());
}

/* ---- arguments ---- */

static const char HELP[] =
    "usage: make_model OUT [--arch NAME] [--embd N] [--layers N] [--heads N]\n"
    "  [--kv-heads N] [--head-dim N] [--ff N] [--vocab N] [--context N] [--type TYPE]\n"
    "  [--output-type TYPE] [--tied] [--bias] [--rope-scaling yarn|linear|llama3]\n"
    "  [--tokenizer llama|gpt2] [--chat-template TEXT] [--alignment N] [--seed N]\n";

static bool take_number(options *o, const char *name, const char *value) {
    const struct {
        const char *name;
        long *to;
    } numbers[] = {
        {"--embd", &o->embd},         {"--layers", &o->layers},     {"--heads", &o->heads},
        {"--kv-heads", &o->kv_heads}, {"--head-dim", &o->head_dim}, {"--ff", &o->ff},
        {"--vocab", &o->vocab},       {"--context", &o->context},   {"--alignment", &o->alignment},
        {"--seed", &o->seed},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = strtol(value, NULL, 10);
            return true;
        }
    return false;
}

static bool take_text(options *o, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"--arch", &o->arch},
        {"--type", &o->type},
        {"--output-type", &o->output_type},
        {"--rope-scaling", &o->rope_scaling},
        {"--tokenizer", &o->tokenizer},
        {"--chat-template", &o->chat_template},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].to = value;
            return true;
        }
    return false;
}

static bool take_flag(options *o, const char *name) {
    bool *flag = strcmp(name, "--tied") == 0   ? &o->tied
                 : strcmp(name, "--bias") == 0 ? &o->bias
                                               : NULL;
    if (flag) *flag = true;
    return flag != NULL;
}

static options parse(int argc, char **argv) {
    options o = {.arch = "llama",
                 .type = "Q4_0",
                 .embd = 256,
                 .layers = 4,
                 .heads = 8,
                 .kv_heads = 0,
                 .ff = 768,
                 .vocab = 2048,
                 .context = 2048};
    for (int i = 1; i < argc; i++) {
        if (take_flag(&o, argv[i])) continue;
        if (argv[i][0] != '-' && !o.out) {
            o.out = argv[i];
            continue;
        }
        bool known = i + 1 < argc &&
                     (take_number(&o, argv[i], argv[i + 1]) || take_text(&o, argv[i], argv[i + 1]));
        if (!known) {
            fputs(HELP, stderr);
            die(argv[i]);
        }
        i++;
    }
    if (!o.out) {
        fputs(HELP, stderr);
        exit(2);
    }
    if (o.kv_heads == 0) o.kv_heads = o.heads;
    if (o.head_dim == 0) o.head_dim = o.embd / o.heads;
    if (!o.output_type) o.output_type = o.type;
    if (!o.tokenizer) o.tokenizer = strcmp(o.arch, "llama") == 0 ? "llama" : "gpt2";
    return o;
}

static const mnem__architecture *architecture(const options *o) {
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

/* ---- random numbers ---- */

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

static uint64_t seed_of(const options *o, const char *name) {
    uint64_t h = 0xcbf29ce484222325 ^ (uint64_t)o->seed * 0x9e3779b97f4a7c15;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3;
    return h;
}

/* ---- rows ---- */

static uint16_t bfloat_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

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

typedef struct walk {
    const options *o;
    mnem_transformer shape;
    mnem_gguf_writer *writer;
    bool data;
} walk;

static void matrix(const walk *w, const char *name, const char *type_name, int64_t rows, int64_t k,
                   float deviation) {
    mnem_type type = type_of(type_name);
    if (mnem_type_row_bytes(type, k) == 0) type = MNEM_TYPE_F16; /* not whole blocks */
    if (!w->data) {
        must(mnem__gguf_write_tensor(w->writer, name, type, 2, (int64_t[]){rows, k}));
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

static void vector(const walk *w, const char *name, int64_t n, float center, float deviation) {
    if (!w->data) {
        must(mnem__gguf_write_tensor(w->writer, name, MNEM_TYPE_F32, 1, &n));
        return;
    }
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

static mnem_transformer shape_of(const options *o) {
    return (mnem_transformer){.layers = (int32_t)o->layers,
                              .embd = (int32_t)o->embd,
                              .heads = (int32_t)o->heads,
                              .kv_heads = (int32_t)o->kv_heads,
                              .head_dim = (int32_t)o->head_dim,
                              .ff = (int32_t)o->ff,
                              .vocab = (int32_t)o->vocab,
                              .context = (int32_t)o->context,
                              .rope.dims = (int32_t)o->head_dim};
}

/* Vectors that add to the stream of residuals are smaller than those inside a layer. */
static void put_tensor(const walk *w, mnem__role role, long layer) {
    const options *o = w->o;
    const mnem__role_info *info = mnem__role_get(role);
    const bool to_stream = info->columns == MNEM__WIDTH_EMBD;
    char name[MNEM__ROLE_NAME];
    int64_t shape[2];
    const int dims = mnem__role_shape(role, &w->shape, shape);
    const float by_row = 1 / sqrtf((float)shape[1]);
    mnem__role_name(role, (int32_t)layer, name);
    if (role == MNEM__ROLE_ROPE_FACTORS)
        rope_factors(w, name);
    else if (dims == 1)
        vector(w, name, shape[0], info->is_norm, info->is_norm ? 0.1f : to_stream ? 0.2f : 0.3f);
    else if (role == MNEM__ROLE_OUTPUT || (role == MNEM__ROLE_EMBEDDING && o->tied))
        matrix(w, name, o->output_type, shape[0], shape[1], 3 * by_row);
    else
        matrix(w, name, o->type, shape[0], shape[1],
               role == MNEM__ROLE_EMBEDDING   ? 1
               : role == MNEM__ROLE_POSITIONS ? 0.5f
                                              : by_row);
}

static bool is_made(const options *o, mnem__option option) {
    switch (option) {
    case MNEM__REQUIRED: return true;
    case MNEM__OPTION_QKV_BIAS: return o->bias;
    case MNEM__OPTION_OUT_BIAS: return false;
    case MNEM__OPTION_OUTPUT: return !o->tied;
    case MNEM__OPTION_ROPE_FACTORS: return is_llama3(o);
    }
    return false;
}

static void tensors(const walk *w) {
    const mnem__tensor_use *use = architecture(w->o)->tensors;
    for (; !mnem__role_in_layer(use->role); use++) put_tensor(w, use->role, -1);
    const mnem__tensor_use *first = use;
    for (long layer = 0; layer < w->o->layers; layer++)
        for (use = first; mnem__role_in_layer(use->role); use++)
            if (is_made(w->o, use->option)) put_tensor(w, use->role, layer);
    for (; use->role; use++)
        if (is_made(w->o, use->option)) put_tensor(w, use->role, -1);
}

/* ---- tokenizers ---- */

enum { PIECE = 16, KIND_NORMAL = 1, KIND_UNKNOWN = 2, KIND_CONTROL = 3, KIND_BYTE = 6 };

typedef struct vocabulary {
    long count, room;
    char (*text)[PIECE];
    int32_t *kind;
    char (*merge)[2 * PIECE]; /* of the token with the same index; "" if none */
} vocabulary;

static bool add(vocabulary *v, int32_t kind, const char *left, const char *right) {
    if (v->count == v->room) return false;
    snprintf(v->text[v->count], PIECE, "%s%s", left, right);
    v->kind[v->count] = kind;
    if (*right) snprintf(v->merge[v->count], 2 * PIECE, "%s %s", left, right);
    v->count++;
    return true;
}

/* Words of 1 to 4 letters with and without the space's sign before them, shorter ones first; each
 * is the one before it and a letter, so that merging reaches all of them. */
static void add_words(vocabulary *v, const char *space) {
    for (int length = 1, words = 26; length <= 4; length++, words *= 26)
        for (int spaced = 1; spaced >= 0; spaced--)
            for (int word = 0; word < words; word++) {
                char left[PIECE], right[2] = {(char)('a' + word % 26), 0};
                int at = snprintf(left, sizeof left, "%s", spaced ? space : "");
                for (int i = 1, rest = word / 26, unit = words / 26 / 26;
                     i<length; i++, unit = unit> 1 ? unit / 26 : 1) {
                    left[at++] = (char)('a' + rest / unit % 26);
                    left[at] = 0;
                }
                if (at == 0) continue; /* a letter alone is there already */
                if (!add(v, KIND_NORMAL, left, right)) return;
            }
}

/* Pieces as SentencePiece makes them: control, bytes, characters, words. */
static void sentencepiece(vocabulary *v) {
    add(v, KIND_UNKNOWN, "<unk>", "");
    add(v, KIND_CONTROL, "<s>", "");
    add(v, KIND_CONTROL, "</s>", "");
    for (int i = 0; i < 256; i++) {
        char text[PIECE];
        snprintf(text, sizeof text, "<0x%02X>", i);
        add(v, KIND_BYTE, text, "");
    }
    add(v, KIND_NORMAL, "\xe2\x96\x81", "");
    for (int c = '!'; c < 127; c++) add(v, KIND_NORMAL, (char[]){(char)c, 0}, "");
    add_words(v, "\xe2\x96\x81");
}

/* GPT-2's letter for a byte, as UTF-8. */
static void byte_letter(int byte, char *out) {
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    int code = byte;
    if (!printable) {
        code = 256;
        for (int i = 0; i < byte; i++)
            code += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
    }
    int n = 0;
    if (code >= 128) out[n++] = (char)(0xc0 | code >> 6);
    out[n++] = (char)(code < 128 ? code : 0x80 | (code & 63));
    out[n] = 0;
}

static void byte_level(vocabulary *v) {
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    v->room -= 3;
    for (int i = 0; i < 256; i++) {
        char text[PIECE];
        byte_letter(i, text);
        add(v, KIND_NORMAL, text, "");
    }
    add_words(v, "\xc4\xa0");
    v->room += 3;
    for (int i = 0; i < 3; i++) add(v, KIND_CONTROL, special[i], "");
}

static void put_array(mnem_gguf_writer *w, const char *key, mnem_value_type element, long count,
                      const void *elements) {
    mnem_value value = {.type = MNEM_VALUE_ARRAY,
                        .element = element,
                        .count = (uint64_t)count,
                        .elements = elements};
    must(mnem__gguf_write_key(w, key, &value));
}

static void put_bool(mnem_gguf_writer *w, const char *key, bool yes) {
    must(
        mnem__gguf_write_key(w, key, &(mnem_value){.type = MNEM_VALUE_BOOL, .count = 1, .u = yes}));
}

static void put_vocabulary(mnem_gguf_writer *w, const vocabulary *v, bool byte_pairs) {
    mnem_text *texts = calloc((size_t)v->count, sizeof *texts);
    float *scores = calloc((size_t)v->count, sizeof *scores);
    if (!texts || !scores) die("no memory");
    for (long i = 0; i < v->count; i++) {
        texts[i] = (mnem_text){v->text[i], strlen(v->text[i])};
        scores[i] = v->kind[i] == KIND_NORMAL ? -(float)i : 0;
    }
    must(mnem__gguf_write_key_texts(w, "tokenizer.ggml.tokens", texts, (uint64_t)v->count));
    put_array(w, "tokenizer.ggml.token_type", MNEM_VALUE_I32, v->count, v->kind);
    if (byte_pairs) {
        uint64_t merges = 0;
        for (long i = 0; i < v->count; i++)
            if (*v->merge[i]) texts[merges++] = (mnem_text){v->merge[i], strlen(v->merge[i])};
        must(mnem__gguf_write_key_texts(w, "tokenizer.ggml.merges", texts, merges));
    } else {
        put_array(w, "tokenizer.ggml.scores", MNEM_VALUE_F32, v->count, scores);
    }
    free(texts);
    free(scores);
}

static void put_tokenizer(mnem_gguf_writer *w, const options *o) {
    bool byte_pairs = strcmp(o->tokenizer, "gpt2") == 0;
    vocabulary v = {.room = o->vocab};
    if (o->vocab < 384) die("--vocab: expected at least 384");
    v.text = calloc((size_t)o->vocab, sizeof *v.text);
    v.kind = calloc((size_t)o->vocab, sizeof *v.kind);
    v.merge = calloc((size_t)o->vocab, sizeof *v.merge);
    if (!v.text || !v.kind || !v.merge) die("no memory");
    if (byte_pairs)
        byte_level(&v);
    else
        sentencepiece(&v);
    if (v.count != o->vocab) die("--vocab: too large for the words there are");
    must(mnem_gguf_key_text(w, "tokenizer.ggml.model", o->tokenizer));
    must(mnem_gguf_key_text(w, "tokenizer.ggml.pre", byte_pairs ? "gpt-2" : "default"));
    put_vocabulary(w, &v, byte_pairs);
    uint32_t last = (uint32_t)o->vocab - 1;
    must(mnem__gguf_write_key_u32(w, "tokenizer.ggml.bos_token_id", byte_pairs ? last - 2 : 1));
    must(mnem__gguf_write_key_u32(w, "tokenizer.ggml.eos_token_id", byte_pairs ? last - 2 : 2));
    if (!byte_pairs) must(mnem__gguf_write_key_u32(w, "tokenizer.ggml.unknown_token_id", 0));
    put_bool(w, "tokenizer.ggml.add_bos_token", !byte_pairs);
    put_bool(w, "tokenizer.ggml.add_eos_token", false);
    if (!byte_pairs) put_bool(w, "tokenizer.ggml.add_space_prefix", true);
    if (o->chat_template) must(mnem_gguf_key_text(w, "tokenizer.chat_template", o->chat_template));
    free(v.text);
    free(v.kind);
    free(v.merge);
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

static void put_rope(mnem_gguf_writer *w, const options *o) {
    char key[96];
#define KEY(rest) (snprintf(key, sizeof key, "%s." rest, o->arch), key)
    const bool llama3 = is_llama3(o);
    must(mnem__gguf_write_key_u32(w, KEY("rope.dimension_count"), (uint32_t)o->head_dim));
    must(mnem__gguf_write_key_f32(w, KEY("rope.freq_base"), llama3 ? 500000.f : 10000.f));
    if (!o->rope_scaling || llama3) return;
    must(mnem_gguf_key_text(w, KEY("rope.scaling.type"), o->rope_scaling));
    must(mnem__gguf_write_key_f32(w, KEY("rope.scaling.factor"), 4));
    if (strcmp(o->rope_scaling, "yarn") == 0)
        must(mnem__gguf_write_key_u32(w, KEY("rope.scaling.original_context_length"),
                                      (uint32_t)(o->context / 4)));
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
    must(mnem__gguf_write_key_u32(w, KEY("feed_forward_length"), (uint32_t)o->ff));
    must(mnem__gguf_write_key_u32(w, KEY("attention.head_count"), (uint32_t)o->heads));
    must(mnem__gguf_write_key_u32(w, KEY("attention.head_count_kv"), (uint32_t)o->kv_heads));
    must(mnem__gguf_write_key_u32(w, KEY("attention.key_length"), (uint32_t)o->head_dim));
    must(mnem__gguf_write_key_u32(w, KEY("attention.value_length"), (uint32_t)o->head_dim));
    snprintf(key, sizeof key, "%s.%s", o->arch, architecture(o)->epsilon_key);
    must(mnem__gguf_write_key_f32(w, key, 1e-5f));
#undef KEY
    if (architecture(o)->turn) put_rope(w, o);
    put_tokenizer(w, o);
}

int main(int argc, char **argv) {
    options o = parse(argc, argv);
    walk w = {.o = &o, .shape = shape_of(&o)};
    must(mnem_gguf_create(o.out, &w.writer));
    put_keys(w.writer, &o);
    tensors(&w);
    w.data = true;
    tensors(&w);
    must(mnem_gguf_finish(w.writer));
    return 0;
}
