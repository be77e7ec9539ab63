/* verb_info.c: `mnem info`: what a model file holds. Works for every file that opens: any
 * architecture, and vocabularies without tensors.
 *
 * All is gathered first, what can't be had with its reason, then printed as text or as JSON: a file
 * that doesn't run, or has no tokenizer, is an answer and no failure.
 * A file's texts may be any bytes: on a terminal what could move the cursor is a dot, JSON gets
 * UTF-8 or, where it isn't that, ASCII. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "verbs/info/info_features.h"
#include "verbs/info/info_transformer.h"

typedef struct info_options {
    tool_args args;
    bool tensors, keys;
    mnem_tokenizer_options tokenizer;
} info_options;

enum { TYPES_MAX = 64 };

typedef struct use { /* of one type */
    const char *name;
    uint32_t tensors;
    uint64_t bytes;
} use;

typedef struct info {
    const mnem_model *model;
    mnem_model_info file;
    mnem_transformer transformer;
    mnem_tokenizer *tokenizer;
    mnem_tokenizer_info tokens;
    char why_not_run[512]; /* "" : it runs */
    char why_no_tokenizer[512];
    char adapter[120]; /* what it says of itself; "": it isn't one */
    use uses[TYPES_MAX];
    int types;
    int sparse, compact; /* matrices that are 2:4; those in the file, too */
    uint64_t sparse_bytes;
} info;

/* ---- gathering ---- */

static void count_types(info *i) {
    mnem_tensor_info t;
    for (uint32_t n = 0; mnem_model_tensor_get(i->model, n, &t); n++) {
        const char *name = mnem_type_get(t.type)->name;
        int at = 0;
        while (at < i->types && i->uses[at].name != name) at++;
        if (at == TYPES_MAX) continue;
        if (at == i->types) i->uses[i->types++].name = name;
        i->uses[at].tensors++;
        i->uses[at].bytes += t.file_bytes;
        i->sparse += t.sparse;
        i->compact += t.compact;
        if (t.sparse) i->sparse_bytes += mnem_sparse_bytes(t.type, t.shape[0], t.shape[1]);
    }
}

static bool key_is(const info *i, const char *key, const char *text) {
    mnem_value value;
    return mnem_model_key_find(i->model, key, &value) && value.type == MNEM_VALUE_STRING &&
           strcmp(value.text.bytes, text) == 0;
}

/* Rows of the first A: adapters of one file may differ, but don't where we write them. */
static int64_t adapter_rank(const info *i) {
    static const char half[] = ".lora_a";
    const size_t n = sizeof half - 1;
    mnem_tensor_info t;
    for (uint32_t k = 0; mnem_model_tensor_get(i->model, k, &t); k++) {
        const size_t length = strlen(t.name);
        if (t.dims == 2 && length > n && strcmp(t.name + length - n, half) == 0) return t.shape[0];
    }
    return 0;
}

static void gather_adapter(info *i) {
    mnem_value alpha;
    int n;
    if (!key_is(i, "general.type", "adapter")) return;
    if (!key_is(i, "adapter.type", "lora")) {
        snprintf(i->adapter, sizeof i->adapter, "of a kind that mnem doesn't know");
        return;
    }
    n = snprintf(i->adapter, sizeof i->adapter, "low-rank (LoRA), rank %" PRId64, adapter_rank(i));
    if (mnem_model_key_find(i->model, "adapter.lora.alpha", &alpha) && alpha.type == MNEM_VALUE_F32)
        snprintf(i->adapter + n, sizeof i->adapter - (size_t)n, ", alpha %g", alpha.f);
}

static void gather(info *i, const info_options *o) {
    mnem_model_info_get(i->model, &i->file);
    count_types(i);
    gather_adapter(i);
    if (i->file.tensors == 0)
        snprintf(i->why_not_run, sizeof i->why_not_run, "the file has no tensors");
    else if (mnem_model_transformer(i->model, &i->transformer) != MNEM_OK)
        snprintf(i->why_not_run, sizeof i->why_not_run, "%s", mnem_last_error());
    if (mnem_tokenizer_create_with(i->model, &o->tokenizer, &i->tokenizer) == MNEM_OK)
        mnem_tokenizer_info_get(i->tokenizer, &i->tokens);
    else
        snprintf(i->why_no_tokenizer, sizeof i->why_no_tokenizer, "%s", mnem_last_error());
}

/* ---- values as text ---- */

/* Copies text, what could move the cursor as '.', at most n - 1 bytes. */
static char *plain(mnem_text text, char *out, size_t n) {
    size_t length = text.length < n - 1 ? text.length : n - 1;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        out[i] = c < 32 || c == 127 ? '.' : (char)c;
    }
    out[length] = 0;
    if (length < text.length && n > 4) memcpy(out + n - 4, "...", 4);
    return out;
}

static const char *value_type_name(mnem_value_type type) {
    static const char *const names[MNEM_VALUE_TYPES] = {"u8",  "i8",  "u16",  "i16",  "u32",
                                                        "i32", "f32", "bool", "text", "array",
                                                        "u64", "i64", "f64"};
    return names[type];
}

static void value_text(const mnem_value *v, char *out, size_t n) {
    switch (v->type) {
    case MNEM_VALUE_STRING: plain(v->text, out, n); break;
    case MNEM_VALUE_F32:
    case MNEM_VALUE_F64: snprintf(out, n, "%g", v->f); break;
    case MNEM_VALUE_BOOL: snprintf(out, n, "%s", v->u ? "true" : "false"); break;
    case MNEM_VALUE_U8:
    case MNEM_VALUE_U16:
    case MNEM_VALUE_U32:
    case MNEM_VALUE_U64: snprintf(out, n, "%" PRIu64, v->u); break;
    case MNEM_VALUE_ARRAY:
        snprintf(out, n, "%" PRIu64 " of %s", v->count, value_type_name(v->element));
        break;
    default: snprintf(out, n, "%" PRId64, v->i);
    }
}

static void shape_text(const mnem_tensor_info *t, char *out, size_t n) {
    int at = snprintf(out, n, "[");
    for (int i = 0; i < t->dims; i++)
        at += snprintf(out + at, n - (size_t)at, "%s%" PRId64, i ? ", " : "", t->shape[i]);
    snprintf(out + at, n - (size_t)at, "]");
}

/* ---- as text ---- */

static void print_file(const info *i) {
    const mnem_model_info *f = &i->file;
    char text[256], size[TOOL_TEXT], exact[TOOL_TEXT], name[128];
    info_line("file", f->path);
    tool_size(f->file_bytes, size);
    tool_exact(f->file_bytes, exact);
    if (f->version)
        snprintf(text, sizeof text,
                 "GGUF version %u, %u part%s, alignment %" PRIu64 ", %s (%s bytes)", f->version,
                 f->files, tool_s(f->files), f->alignment, size, exact);
    else
        snprintf(text, sizeof text, "a folder of safetensors, %u part%s, %s (%s bytes)", f->files,
                 tool_s(f->files), size, exact);
    info_line("format", text);
    if (*f->name)
        info_line("name", plain((mnem_text){f->name, strlen(f->name)}, name, sizeof name));
    info_line("architecture",
              plain((mnem_text){f->architecture, strlen(f->architecture)}, name, sizeof name));
    if (*i->adapter) info_line("adapter", i->adapter);
}

static void print_tensors_summary(const info *i) {
    char text[160], size[TOOL_TEXT], exact[TOOL_TEXT], count[TOOL_TEXT];
    snprintf(text, sizeof text, "%u, %s parameters, %s (%s bytes)", i->file.tensors,
             tool_count((double)i->file.parameters, count), tool_size(i->file.tensor_bytes, size),
             tool_exact(i->file.tensor_bytes, exact));
    info_line("tensors", text);
    for (int n = 0; n < i->types; n++)
        tool_outf("  %-12s %5u tensor%-2s%12s\n", i->uses[n].name, i->uses[n].tensors,
                  tool_s(i->uses[n].tensors), tool_size(i->uses[n].bytes, size));
    if (i->sparse > 0)
        tool_outf("  2:4          %5d tensor%-2s%12s in memory%s, without their zeros\n", i->sparse,
                  tool_s((uint64_t)i->sparse), tool_size(i->sparse_bytes, size),
                  i->compact ? " and file" : "");
    if (i->compact > 0)
        tool_outf("  compact: only mnem opens it; mnem prune %s -o OUT --pattern 2:4 makes an "
                  "ordinary file of it\n",
                  tool_file_name(i->file.path));
}

static void print_tokenizer(const info *i) {
    const mnem_tokenizer_info *t = &i->tokens;
    if (!i->tokenizer) {
        info_line("tokenizer", *i->adapter ? "none: the model has it" : i->why_no_tokenizer);
        return;
    }
    char text[200];
    snprintf(text, sizeof text, "%s%s%s", t->model, t->pre && *t->pre ? ", pre-tokenizer " : "",
             t->pre ? t->pre : "");
    info_line("tokenizer", text);
    snprintf(text, sizeof text, "%d token%s, %u merge%s; BOS %d%s, EOS %d%s", t->vocab,
             tool_s((uint64_t)t->vocab), t->merges, tool_s(t->merges), t->bos,
             t->add_bos ? " (added)" : "", t->eos, t->add_eos ? " (added)" : "");
    info_line("vocabulary", text);
    info_line("chat format", mnem_chat_format_text(mnem_tokenizer_chat_format(i->tokenizer)));
}

static void print_keys(const info *i) {
    mnem_text key;
    mnem_value value;
    tool_outf("\nkeys\n");
    for (uint32_t n = 0; mnem_model_key_get(i->model, n, &key, &value); n++) {
        char name[96], text[120];
        value_text(&value, text, sizeof text);
        tool_outf("  %-44s %-5s %s\n", plain(key, name, sizeof name), value_type_name(value.type),
                  text);
    }
}

static void print_tensors(const info *i) {
    mnem_tensor_info t;
    tool_outf("\n  %-32s %-7s %-20s %14s %4s %14s\n", "tensor", "type", "shape", "bytes", "part",
              "offset");
    for (uint32_t n = 0; mnem_model_tensor_get(i->model, n, &t); n++) {
        char name[96], shape[100], bytes[TOOL_TEXT];
        shape_text(&t, shape, sizeof shape);
        tool_outf("  %-32s %-7s %-20s %14s %4u %14" PRIu64 "\n",
                  plain((mnem_text){t.name, strlen(t.name)}, name, sizeof name),
                  mnem_type_get(t.type)->name, shape, tool_exact(t.file_bytes, bytes), t.file + 1,
                  t.offset);
    }
}

static void print_text(const info *i, const info_options *o) {
    print_file(i);
    if (*i->why_not_run) {
        char text[800];
        snprintf(text, sizeof text, "no: %s", i->why_not_run);
        if (tool_out_flush()) tool_wrap(stdout, "runs           ", text);
    } else {
        info_transformer_print(&i->transformer, i->file.version == 0);
    }
    print_tensors_summary(i);
    print_tokenizer(i);
    if (o->keys) print_keys(i);
    if (o->tensors) print_tensors(i);
}

/* ---- as JSON ---- */

/* Text of a file may be any bytes; JSON takes UTF-8 only. */
static json_t *json_text(mnem_text text) {
    json_t *value = json_stringn(text.bytes, text.length);
    if (value) return value;
    char ascii[256];
    plain(text, ascii, sizeof ascii);
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 128) *c = '?';
    return json_string(ascii);
}

static json_t *json_c(const char *text) {
    return json_text((mnem_text){text, strlen(text)});
}

/* The shortest decimal of a float, not the digits of its double: 1e-05. */
static double decimal(double f32) {
    char text[32];
    snprintf(text, sizeof text, "%.7g", f32);
    return strtod(text, NULL);
}

static json_t *json_value(const mnem_value *v) {
    switch (v->type) {
    case MNEM_VALUE_STRING: return json_text(v->text);
    case MNEM_VALUE_BOOL: return json_boolean(v->u);
    case MNEM_VALUE_F32: return json_real(decimal(v->f));
    case MNEM_VALUE_F64: return json_real(v->f); /* NULL for NaN and infinities */
    case MNEM_VALUE_ARRAY:
        return json_pack("{s:s, s:I}", "array_of", value_type_name(v->element), "count",
                         (json_int_t)v->count);
    default: return json_integer((json_int_t)v->i);
    }
}

static json_t *json_transformer(const mnem_transformer *t) {
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:b, s:b, s:b, s:b, s:b, "
        "s:i, s:i, s:i, s:i}",
        "architecture", t->architecture, "layers", t->layers, "embd", t->embd, "heads", t->heads,
        "kv_heads", t->kv_heads, "head_dim", t->head_dim, "ff", t->ff, "vocab", t->vocab, "context",
        t->context, "epsilon", decimal((double)t->epsilon), "rope_base",
        decimal((double)t->rope.base), "rope_scaling", info_rope_scaling(t), "tied", t->tied,
        "qkv_bias", t->qkv_bias, "out_bias", t->out_bias, "qk_norm", t->qk_norm, "encoder",
        t->encoder, "pooling", (int)t->pooling, "conv_length", t->conv_length, "streams",
        t->streams, "laurel", t->laurel);
}

static json_t *json_tokenizer(const info *i) {
    const mnem_tokenizer_info *t = &i->tokens;
    return json_pack("{s:o, s:o, s:i, s:i, s:i, s:i, s:b, s:b, s:s}", "model", json_c(t->model),
                     "pre", json_c(t->pre ? t->pre : ""), "vocab", t->vocab, "merges",
                     (int)t->merges, "bos", t->bos, "eos", t->eos, "add_bos", t->add_bos, "add_eos",
                     t->add_eos, "chat_format",
                     mnem_chat_format_text(mnem_tokenizer_chat_format(i->tokenizer)));
}

static json_t *json_types(const info *i) {
    json_t *types = json_object();
    for (int n = 0; n < i->types; n++)
        json_object_set_new(types, i->uses[n].name,
                            json_pack("{s:i, s:I}", "tensors", (int)i->uses[n].tensors, "bytes",
                                      (json_int_t)i->uses[n].bytes));
    return types;
}

static json_t *json_keys(const info *i) {
    json_t *keys = json_object();
    mnem_text key;
    mnem_value value;
    for (uint32_t n = 0; mnem_model_key_get(i->model, n, &key, &value); n++) {
        json_t *name = json_text(key), *as_json = json_value(&value);
        json_object_set_new(keys, json_string_value(name), as_json ? as_json : json_null());
        json_decref(name);
    }
    return keys;
}

static json_t *json_tensors(const info *i) {
    json_t *list = json_array();
    mnem_tensor_info t;
    for (uint32_t n = 0; mnem_model_tensor_get(i->model, n, &t); n++) {
        json_t *shape = json_array();
        for (int d = 0; d < t.dims; d++) json_array_append_new(shape, json_integer(t.shape[d]));
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:o, s:I, s:i, s:I}", "name", json_c(t.name),
                                        "type", mnem_type_get(t.type)->name, "shape", shape,
                                        "bytes", (json_int_t)t.file_bytes, "part", (int)t.file + 1,
                                        "offset", (json_int_t)t.offset));
    }
    return list;
}

static void print_json(const info *i, const info_options *o) {
    const mnem_model_info *f = &i->file;
    json_t *root = json_pack("{s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:o}", "file",
                             json_c(f->path), "architecture", json_c(f->architecture), "name",
                             json_c(f->name), "version", (int)f->version, "parts", (int)f->files,
                             "alignment", (json_int_t)f->alignment, "file_bytes",
                             (json_int_t)f->file_bytes, "tensor_bytes", (json_int_t)f->tensor_bytes,
                             "parameters", (json_int_t)f->parameters, "tensor_count",
                             (int)f->tensors, "key_count", (int)f->keys, "types", json_types(i));
    json_object_set_new(root, "sparse_tensors", json_integer(i->sparse));
    json_object_set_new(root, "compact_tensors", json_integer(i->compact));
    json_object_set_new(root, "runs", json_boolean(!*i->why_not_run));
    json_object_set_new(root, *i->why_not_run ? "reason" : "transformer",
                        *i->why_not_run ? json_c(i->why_not_run)
                                        : json_transformer(&i->transformer));
    if (!*i->why_not_run)
        json_object_set_new(root, "supports", info_features_json(&i->transformer));
    if (*i->adapter) json_object_set_new(root, "adapter", json_c(i->adapter));
    json_object_set_new(root, "tokenizer", i->tokenizer ? json_tokenizer(i) : json_null());
    if (o->keys) json_object_set_new(root, "keys", json_keys(i));
    if (o->tensors) json_object_set_new(root, "tensors", json_tensors(i));
    tool_out_json("model", root);
}

static int verb_info(const tool_args *args) {
    const info_options *o = (const info_options *)args;
    const char *path = tool_model_path(args);
    if (!path) return TOOL_FAILED;
    static info i;
    mnem_model *model;
    mnem_status status = mnem_model_open(path, &model);
    if (status != MNEM_OK) return tool_fail(status);
    i.model = model;
    gather(&i, o);
    if (args->json)
        print_json(&i, o);
    else
        print_text(&i, o);
    mnem_tokenizer_destroy(i.tokenizer);
    mnem_model_close(model);
    return tool_out_end();
}

/* ---- the command line ---- */

#define AT(field) offsetof(info_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"tensors", 0, NULL, TOOL_VALUE_FLAG, AT(tensors),
     .help = "list every tensor with its type, shape and bytes"},
    {"keys", 0, NULL, TOOL_VALUE_FLAG, AT(keys), .help = "list every key with its value"},
    TOOL_GROUP(tool_pre_options, AT(tokenizer.pre)),
    TOOL_JSON_OPTION("one object"),
    {0},
};

static info_options asked;
TOOL_VERB(info, "[MODEL]", 0, 1, "show what a model file contains",
          "Shows a model file's architecture, tensors, types, tokenizer and bytes, and which\n"
          "features the model supports. Files without tensors (vocabularies) and files of any\n"
          "architecture are accepted.\n",
          "mnem info model.gguf  # show the summary\n"
          "mnem info model.gguf --tensors  # show every tensor\n"
          "mnem info model.gguf --json | jq .architecture  # print the architecture\n");
