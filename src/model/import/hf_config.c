/* hf_config.c: see hf_config.h. */
#include "model/import/hf_config.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- asking ---- */

static const mnem__node *find_name(const mnem__hf_config *c, const char *name) {
    const mnem__node *found = mnem__node_get(c->text, name);
    return found ? found : mnem__node_get(c->root, name);
}

/* The next word of a list; false: none. */
static bool next_word(const char **at, char word[64]) {
    while (**at == ' ') ++*at;
    const size_t n = strcspn(*at, " ");
    if (n == 0 || n >= 64) return false;
    memcpy(word, *at, n);
    word[n] = 0;
    *at += n;
    return true;
}

const mnem__node *mnem__hf_find(const mnem__hf_config *c, const char *names) {
    char name[64];
    for (const char *at = c->members->names; next_word(&at, name);) {
        const mnem__node *found = mnem__hf_has_word(names, name) ? find_name(c, name) : NULL;
        if (found) return found;
    }
    return NULL;
}

static bool is_null_in(const mnem__node *object, const char *name) {
    const bool is_object = object && object->kind == MNEM__JSON_OBJECT;
    for (const mnem__node *n = is_object ? object->first : NULL; n; n = n->next)
        if (n->kind == MNEM__JSON_NULL && strcmp(n->key, name) == 0) return true;
    return false;
}

static double default_number(const mnem__hf_config *c, const char *names) {
    for (const mnem__hf_default *d = c->members->defaults; d && d->name; d++)
        if (mnem__hf_has_word(names, d->name))
            return is_null_in(c->text ? c->text : c->root, d->name) ? NAN : d->number;
    return NAN;
}

double mnem__hf_number(const mnem__hf_config *c, const char *names) {
    const mnem__node *found = mnem__hf_find(c, names);
    if (c->layers && mnem__hf_has_word(names, "num_hidden_layers")) return c->layers;
    return found ? mnem__node_number(found, NAN) : default_number(c, names);
}

static const mnem__node *in_rope(const mnem__hf_config *c, const char *name) {
    return mnem__node_get(c->rope, name);
}

double mnem__hf_rope_number(const mnem__hf_config *c, const char *name) {
    const mnem__node *found = in_rope(c, name);
    return found ? mnem__node_number(found, NAN) : mnem__hf_number(c, name);
}

const char *mnem__hf_rope_type(const mnem__hf_config *c) {
    const mnem__node *type = in_rope(c, "rope_type");
    return mnem__node_text(type ? type : in_rope(c, "type"), "");
}

static mnem_status check_size(const mnem__hf_config *c, const char *names, double number,
                              double most, int64_t *size) {
    if (number >= 1 && number <= most && number == floor(number)) {
        *size = (int64_t)number;
        return MNEM_OK;
    }
    if (isnan(number))
        return mnem__fail(MNEM_BAD_FILE,
                          mnem__hf_find(c, names) ? "%s: %.*s: is not a number"
                                                  : "%s: %.*s: is missing",
                          c->path, (int)strcspn(names, " "), names);
    return mnem__fail(number > most && number <= INT32_MAX ? MNEM_UNSUPPORTED : MNEM_BAD_FILE,
                      "%s: %.*s: is %g, expected an integer of 1 to %g", c->path,
                      (int)strcspn(names, " "), names, number, most);
}

mnem_status mnem__hf_check_list(const mnem__hf_config *c, const char *name, const mnem__node *node,
                                int64_t items, const char *of) {
    char is[40] = "is missing";
    const bool list = node && node->kind == MNEM__JSON_LIST;
    if (list && node->count == (uint64_t)items) return MNEM_OK;
    if (list)
        snprintf(is, sizeof is, "has %llu items", (unsigned long long)node->count);
    else if (node)
        snprintf(is, sizeof is, "is not a list");
    return mnem__fail(MNEM_BAD_FILE, "%s: %s: %s, expected a list of %lld %s", c->path, name, is,
                      (long long)items, of);
}

mnem_status mnem__hf_refuse_kind(const mnem__hf_config *c, const char *name, int64_t layer,
                                 const mnem__node *node, const char *kinds) {
    char text[40];
    const char *is = mnem__node_text(node, "no text");
    return mnem__fail(MNEM_UNSUPPORTED, "%s: %s: \"%s\" (layer %lld) isn't supported (%s are)",
                      c->path, name, mnem__gguf_printable(is, strlen(is), text, sizeof text),
                      (long long)layer, kinds);
}

mnem_status mnem__hf_size(const mnem__hf_config *c, const char *names, double most, int64_t *size) {
    return check_size(c, names, mnem__hf_number(c, names), most, size);
}

mnem_status mnem__hf_size_alike(const mnem__hf_config *c, const char *names, double most,
                                int64_t *size) {
    const mnem__node *list = mnem__hf_find(c, names);
    if (!list || list->kind != MNEM__JSON_LIST) return mnem__hf_size(c, names, most, size);
    const double number = mnem__node_number(mnem__node_at(list, 0), NAN);
    for (const mnem__node *n = list->first; n; n = n->next)
        if (mnem__node_number(n, NAN) != number)
            return mnem__fail(
                MNEM_UNSUPPORTED,
                "%s: %.*s: differs between layers (%g and %g), expected one number for all",
                c->path, (int)strcspn(names, " "), names, number, mnem__node_number(n, NAN));
    return check_size(c, names, number, most, size);
}

int64_t mnem__hf_heads(const mnem__hf_config *c, bool keys) {
    const double heads = mnem__hf_number(c, "num_attention_heads n_head");
    const double kv = keys ? mnem__hf_number(c, "num_key_value_heads") : NAN;
    const double number = isnan(kv) ? heads : kv;
    return number >= 1 && number <= 65536 ? (int64_t)number : 0;
}

int64_t mnem__hf_head_dim(const mnem__hf_config *c) {
    const double heads = (double)mnem__hf_heads(c, false);
    double dim = c->family->traits & MNEM__HF_NO_HEAD_DIM ? NAN : mnem__hf_number(c, "head_dim");
    if (isnan(dim) && c->family->traits & MNEM__HF_MAKES_HEAD_DIM && heads > 0)
        dim = floor(mnem__hf_number(c, "hidden_size") / heads);
    return dim >= 1 && dim <= 65536 ? (int64_t)dim : 0;
}

/* ---- layers of one part ---- */

static const mnem__node *find_letters(const mnem__hf_config *c) {
    return mnem__hf_find(c, "hybrid_override_pattern layers_block_type");
}

char mnem__hf_layer_letter(const mnem__hf_config *c, uint32_t layer) {
    static const struct {
        char letter;
        const char *names;
    } kinds[] = {{'M', "mamba linear_attention"},
                 {'*', "attention full_attention"},
                 {'-', "mlp"},
                 {'E', "moe"}};
    const mnem__node *letters = find_letters(c);
    const char *pattern = mnem__node_text(letters, NULL);
    if (pattern)
        return layer < strlen(pattern) && strchr("M*-E", pattern[layer]) ? pattern[layer] : 0;
    const char *name = mnem__node_text(mnem__node_at(letters, layer), "");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mnem__hf_has_word(kinds[i].names, name)) return kinds[i].letter;
    return 0;
}

static bool has_mixtures(const mnem__hf_config *c) {
    for (uint32_t i = 0; i < c->layers; i++)
        if (mnem__hf_layer_letter(c, i) == 'E') return true;
    return false;
}

/* How many layers there are, and whether some have experts. */
static void find_layers(mnem__hf_config *c) {
    const bool one_part = c->family->traits & MNEM__HF_ONE_PART;
    const mnem__node *letters = one_part ? find_letters(c) : NULL;
    const char *pattern = mnem__node_text(letters, NULL);
    const size_t n = pattern ? strlen(pattern) : letters ? letters->count : 0;
    c->layers = n < UINT32_MAX ? (uint32_t)n : 0;
    const bool none = one_part ? !has_mixtures(c) : mnem__hf_number(c, MNEM__HF_EXPERT_COUNT) == 0;
    if (c->family->dense && none) c->family = c->family->dense;
}

/* ---- opening ---- */

static mnem_status refuse_class(const char *path, const char *name) {
    char printable[72];
    return mnem__fail(MNEM_UNSUPPORTED, "%s: architectures: \"%s\" isn't supported", path,
                      mnem__gguf_printable(name, strlen(name), printable, sizeof printable));
}

/* Numbers that were quantized by another are no weights that could be read. */
static mnem_status check_quantized(const mnem__hf_config *c) {
    const mnem__node *q = mnem__hf_find(c, "quantization_config");
    char printable[40];
    if (!q) return MNEM_OK;
    const char *method = mnem__node_text(mnem__node_get(q, "quant_method"), "unknown");
    if (c->family->traits & MNEM__HF_MXFP4 && strcmp(method, "mxfp4") == 0) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: quantization_config: weights quantized by \"%s\" aren't supported; use "
                      "the folder of the unquantized model, and --type to quantize it",
                      c->path,
                      mnem__gguf_printable(method, strlen(method), printable, sizeof printable));
}

/* As a word of mnem__hf_fixed. */
static void value_word(const mnem__node *node, char word[40]) {
    switch ((mnem__json_event)node->kind) {
    case MNEM__JSON_TRUE: snprintf(word, 40, "true"); break;
    case MNEM__JSON_FALSE: snprintf(word, 40, "false"); break;
    case MNEM__JSON_NUMBER: snprintf(word, 40, "%g", node->number); break;
    case MNEM__JSON_LIST: snprintf(word, 40, node->count ? "[...]" : "[]"); break;
    default: mnem__gguf_printable(node->text, node->text_bytes, word, 40);
    }
}

static mnem_status refuse_value(const mnem__hf_config *c, const char *name, const char *value,
                                const char *values) {
    return mnem__fail(MNEM_UNSUPPORTED, "%s: %s: %s isn't supported (%s is)", c->path, name, value,
                      values);
}

/* null is as if the member were missing: the class has none of what it names, unless it has a
 * number for that. */
static mnem_status check_fixed(const mnem__hf_config *c) {
    char word[40];
    for (const mnem__hf_fixed *f = c->members->fixed; f && f->name; f++) {
        const mnem__node *node = find_name(c, f->name);
        const double standard = node ? NAN : mnem__hf_number(c, f->name);
        if (!node && isnan(standard)) continue;
        if (node)
            value_word(node, word);
        else
            snprintf(word, sizeof word, "%s", standard == 0 ? "false" : "true");
        if (!mnem__hf_has_word(f->values, word)) return refuse_value(c, f->name, word, f->values);
    }
    return MNEM_OK;
}

/* Where heads are cut from hidden_size, a head_dim may only say the same. */
static mnem_status check_head_dim(const mnem__hf_config *c) {
    char word[40], made[40];
    const mnem__node *node = mnem__hf_find(c, "head_dim");
    const double dim = mnem__node_number(node, NAN), heads = (double)mnem__hf_heads(c, false);
    if (!node) return MNEM_OK;
    value_word(node, word);
    if (!(dim >= 1 && dim <= 65536 && dim == floor(dim)))
        return mnem__fail(MNEM_BAD_FILE, "%s: head_dim: is %s, expected 1 to 65536", c->path, word);
    if (!(c->family->traits & MNEM__HF_NO_HEAD_DIM) || heads == 0) return MNEM_OK;
    snprintf(made, sizeof made, "%g", floor(mnem__hf_number(c, "hidden_size") / heads));
    return strcmp(word, made) == 0 ? MNEM_OK : refuse_value(c, "head_dim", word, made);
}

/* By whatever name; of two kinds of layers, those of each. */
static void find_rope(mnem__hf_config *c) {
    const mnem__node *rope = mnem__hf_find(c, "rope_parameters rope_scaling");
    const mnem__node *full = mnem__node_get(rope, "full_attention");
    c->rope_window = mnem__node_get(rope, "sliding_attention");
    c->rope = full || c->rope_window ? full : rope;
}

/* The name of a GGUF file in a folder; "": there is none. */
static void find_gguf(const char *folder, char name[NAME_MAX + 1]) {
    *name = 0;
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; !*name && (e = readdir(dir));) {
        const size_t n = strlen(e->d_name);
        if (n > 5 && strcmp(e->d_name + n - 5, ".gguf") == 0)
            snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    }
    closedir(dir);
}

/* PEFT writes an adapter as a folder that looks like a model's. */
static mnem_status refuse_folder(const char *path, const char *folder) {
    char adapter[PATH_MAX];
    MNEM__TRY(mnem__folder_path(folder, "adapter_config.json", adapter));
    if (access(adapter, F_OK) == 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s is a PEFT adapter, not a model: open its model, and the adapter "
                          "beside it",
                          folder);
    struct stat about;
    char name[NAME_MAX + 1];
    if (stat(folder, &about) != 0)
        return mnem__fail(MNEM_IO, "%s: can't be opened: %s", folder, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s is a file, not the folder of a model: a GGUF file needs no "
                          "conversion; for a safetensors file, give its folder",
                          folder);
    find_gguf(folder, name);
    if (*name)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s is not the folder of a model, as it has no config.json; give the "
                          "GGUF file in it: %s/%s",
                          folder, folder, name);
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: file not found, so %s is not the folder of a model; give the folder that "
        "has config.json and the safetensors files",
        path, folder);
}

mnem_status mnem__hf_config_open(mnem__arena *arena, const char *folder, mnem__hf_config *c) {
    char path[PATH_MAX];
    mnem__node *root;
    *c = (mnem__hf_config){0};
    MNEM__TRY(mnem__folder_path(folder, "config.json", path));
    c->path = mnem__arena_text(arena, path, strlen(path));
    if (!c->path) return mnem__fail(MNEM_NO_MEMORY, "%s", path);
    MNEM__TRY(mnem__tree_open(arena, path, &root));
    if (!root) return refuse_folder(path, folder);
    c->root = root;
    c->text = mnem__node_get(root, "text_config");
    const mnem__node *class_name = mnem__node_at(mnem__node_get(root, "architectures"), 0);
    if (!class_name)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: architectures: is missing, so the kind of model is unknown; "
                          "download config.json again, or use a model whose config.json names it",
                          path);
    c->family = mnem__hf_family_find(mnem__node_text(class_name, ""));
    if (!c->family) return refuse_class(path, mnem__node_text(class_name, "?"));
    const char *text_type = mnem__node_text(find_name(c, "model_type"), NULL);
    if (c->family->other && text_type && strcmp(text_type, c->family->other_type) == 0)
        c->family = c->family->other;
    c->members = mnem__hf_members_find(mnem__node_text(class_name, ""), text_type);
    if (!c->members) return refuse_class(path, mnem__node_text(class_name, "?"));
    find_layers(c);
    find_rope(c);
    MNEM__TRY(check_fixed(c));
    MNEM__TRY(check_head_dim(c));
    return check_quantized(c);
}
