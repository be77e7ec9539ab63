/* peft_adapter.c: a folder of PEFT's with a low-rank adapter, opened as the adapter of a model.
 *
 * The idea: names are those of the base's class, so the base's family says where each matrix goes,
 * as it does for the weights of a folder. A stays as it is; where the rows of a matrix are in
 * another order here (heads that RoPE turns), so are those of B. Nothing is written or copied: the
 * tensors are views of adapter_model.safetensors.
 * Refused by name: what changes more than products of two matrices (DoRA, adapted embeddings,
 * biases, modules that were saved whole), matrices that are parts of others here, and scales that
 * differ from matrix to matrix. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/heap.h"
#include "model/import/families/hf_parse.h"
#include "model/import/folder.h"
#include "model/import/hf_views.h"

enum { NAME = 128 };

typedef struct peft {
    mnem__folder *folder;
    const mnem_transformer *base;
    const mnem__hf_family *family;
} peft;

/* ---- adapter_config.json ---- */

static mnem_status refuse_member(const char *path, const char *member, const char *text) {
    return mnem__fail(MNEM_UNSUPPORTED, "%s: %s: %s", path, member, text);
}

/* alpha / r is what products are multiplied with; of rank-stabilized adapters alpha / sqrt(r). */
static mnem_status read_config(const char *path, const mnem__node *root, double *alpha) {
    const double rank = mnem__node_number(mnem__node_get(root, "r"), 0);
    const mnem__node *alphas = mnem__node_get(root, "alpha_pattern");
    const mnem__node *ranks = mnem__node_get(root, "rank_pattern");
    const bool stable = mnem__node_true(mnem__node_get(root, "use_rslora"));
    *alpha = mnem__node_number(mnem__node_get(root, "lora_alpha"), 8);
    if (!mnem__node_is(mnem__node_get(root, "peft_type"), "LORA"))
        return refuse_member(path, "peft_type", "only LORA is supported");
    if (mnem__node_true(mnem__node_get(root, "use_dora")))
        return refuse_member(path, "use_dora", "DoRA is not supported");
    if (alphas && alphas->count)
        return refuse_member(path, "alpha_pattern", "an alpha for each matrix is not supported");
    if (stable && ranks && ranks->count)
        return refuse_member(path, "rank_pattern", "is not supported together with use_rslora");
    if (!(rank >= 1 && rank <= 65536) || !isfinite(*alpha))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: r is %g and lora_alpha %g: expected a rank of 1 to "
                          "65536 and a finite number",
                          path, rank, *alpha);
    if (stable) *alpha *= sqrt(rank);
    return MNEM_OK;
}

/* ---- tensors ---- */

static mnem_status refuse(const peft *p, const mnem__st_tensor *t, const char *text) {
    return mnem__hf_refuse(p->folder, t, MNEM_UNSUPPORTED, text);
}

/* "base_model.model.NAME.lora_A.weight", or with an adapter's name before .weight: NAME, and which
 * half; false: it is none. */
static bool split_name(const char *name, char base[NAME], bool *is_b) {
    static const char before[] = "base_model.model.", half[] = ".lora_";
    if (strncmp(name, before, sizeof before - 1) == 0) name += sizeof before - 1;
    const char *at = strstr(name, half);
    const size_t n = at ? (size_t)(at - name) : 0, end = strlen(name);
    if (!at || n + 8 > NAME || end < 7 || strcmp(name + end - 7, ".weight") != 0) return false;
    const char letter = at[sizeof half - 1];
    if ((letter != 'A' && letter != 'B') || at[sizeof half] != '.') return false;
    *is_b = letter == 'B';
    snprintf(base, NAME, "%.*s.weight", (int)n, name);
    return true;
}

static bool is_multiplied(const mnem__hf_family *family, const char *to) {
    for (const mnem__hf_factor *f = family->factors; f && f->to; f++)
        if (strcmp(f->to, to) == 0) return true;
    return false;
}

/* The order of B's rows is that of the matrix's. */
static mnem_status turn(const peft *p, const mnem__st_tensor *t, int32_t heads, mnem__view *view) {
    if (heads < 1 || t->shape[0] % heads != 0 || t->shape[0] / heads % 2 != 0)
        return refuse(p, t,
                      "the number of rows is not a multiple of twice the model's number of "
                      "heads: the adapter is for another model");
    view->halves = t->shape[0] / heads;
    view->plain = false;
    return MNEM_OK;
}

static mnem_status put_half(const peft *p, uint32_t index) {
    const mnem__st_tensor *t = &p->folder->st.tensor[index];
    char name[NAME], to[NAME];
    mnem__hf_parsed parsed;
    bool is_b;
    if (!split_name(t->name, name, &is_b))
        return refuse(p, t, "only pairs of lora_A and lora_B of matrices are supported");
    mnem__hf_parse(name, &parsed);
    const mnem__hf_name *row =
        mnem__hf_name_find(p->family, parsed.layer >= 0, parsed.base, parsed.base_bytes);
    if (!row) return refuse(p, t, "the architecture of the model has no tensor of this name");
    const bool q = row->how == MNEM__HF_TURN_Q, k = row->how == MNEM__HF_TURN_K;
    const bool whole = row->how == MNEM__HF_AS_IS || row->how == MNEM__HF_TRANSPOSE;
    if ((!q && !k && !whole) || is_multiplied(p->family, row->to) || t->dims != 2)
        return refuse(p, t, "adapters of this matrix are not supported for this architecture");
    MNEM__TRY(mnem__hf_check_type(p->folder, t));
    uint32_t *source = mnem__folder_alloc(p->folder, sizeof *source);
    if (!source) return p->folder->status;
    *source = index;
    mnem__view view = {.source = source,
                       .sources = 1,
                       .each = t->shape[0] * t->shape[1],
                       .stored = t->type,
                       .plain = true};
    if (is_b && (q || k)) MNEM__TRY(turn(p, t, q ? p->base->heads : p->base->kv_heads, &view));
    const char half = is_b ? 'b' : 'a';
    if (parsed.layer >= 0)
        snprintf(to, sizeof to, "blk.%ld.%.60s.weight.lora_%c", parsed.layer, row->to, half);
    else
        snprintf(to, sizeof to, "%.60s.weight.lora_%c", row->to, half);
    mnem__put_tensor(p->folder, to, t->type, 2, t->shape, &view);
    return p->folder->status;
}

/* ---- opening ---- */

static mnem_status find_family(const char *path, const mnem_transformer *base, peft *p) {
    p->base = base;
    p->family = mnem__hf_family_of(base->architecture);
    if (p->family) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: PEFT adapters of the architecture \"%s\" are not supported", path,
                      base->architecture);
}

static void put_keys(mnem__folder *f, const mnem_transformer *base, double alpha) {
    mnem__put_text(f, "general.architecture", base->architecture, strlen(base->architecture));
    mnem__put_text(f, "general.type", "adapter", 7);
    mnem__put_text(f, "adapter.type", "lora", 4);
    mnem__put_f32(f, "adapter.lora.alpha", alpha);
}

/* Pickled weights have another name. */
static mnem_status open_weights(const char *path, mnem__folder *f) {
    static const char weights[] = "adapter_model.safetensors";
    char file[PATH_MAX];
    MNEM__TRY(mnem__folder_path(path, weights, file));
    if (access(file, F_OK) == 0) return mnem__safetensors_open_one(path, weights, &f->st);
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: has no %s: save the adapter with PEFT's save_pretrained, which writes "
                      "it (pickled weights are not read)",
                      path, weights);
}

static mnem_status read_folder(mnem__folder *f, const char *path, const char *config,
                               const mnem_transformer *base) {
    mnem__arena arena = {0};
    mnem__node *root = NULL;
    peft p = {.folder = f};
    double alpha = 0;
    mnem_status status = mnem__tree_open(&arena, config, &root);
    if (status == MNEM_OK) status = read_config(config, root, &alpha);
    if (status == MNEM_OK) status = find_family(path, base, &p);
    if (status == MNEM_OK) status = open_weights(path, f);
    if (status == MNEM_OK) status = mnem__folder_begin(f, path);
    if (status == MNEM_OK) put_keys(f, base, alpha);
    for (uint32_t i = 0; i < f->st.tensors && status == MNEM_OK; i++) status = put_half(&p, i);
    if (status == MNEM_OK) status = mnem__folder_end(f);
    mnem__arena_free(&arena);
    return status;
}

mnem_status mnem_adapter_open(const char *path, const mnem_model *base, mnem_model **adapter) {
    char config[PATH_MAX];
    mnem_transformer shape;
    *adapter = NULL;
    MNEM__TRY(mnem__folder_path(path, "adapter_config.json", config));
    if (access(config, F_OK) != 0) return mnem_model_open(path, adapter);
    MNEM__TRY(mnem_model_transformer(base, &shape));
    mnem__folder *f = mnem__calloc(MNEM__IMPORT_TAG, 1, sizeof *f);
    if (!f) return mnem__heap_status();
    f->model.source = &mnem__folder_source;
    const mnem_status status = read_folder(f, path, config, &shape);
    if (status != MNEM_OK) {
        mnem_model_close(&f->model);
        return status;
    }
    *adapter = &f->model;
    return MNEM_OK;
}
