/* folder.c: mnem_model_open, of files and of folders.
 *
 * The idea: a folder becomes a model as llama.cpp's converter would write it, but nothing is
 * written: keys are made of the JSON files, tensors are views of the safetensors files. Converting
 * is then writing an open model, and whatever runs a file runs a folder.
 * Cost: of tokenizer.json, the bytes of its tokens and merges twice while they are put in order. */
#include "model/import/folder.h"

#include <sys/stat.h>

#include "base/heap.h"
#include "model/import/hf_keys.h"
#include "model/import/hf_tensors.h"
#include "model/import/hf_vocab.h"

static mnem_status put_tokenizer(mnem__folder *f, const char *path, const mnem__hf_config *c,
                                 const char *pre, bool strict, int64_t *tokens) {
    const mnem_status status = mnem__hf_put_tokenizer(f, path, c, pre, tokens);
    if (status != MNEM_UNSUPPORTED || strict || pre) return status;
    return mnem__hf_put_tokenizer(f, path, c, "unknown", tokens);
}

static mnem_status folder_read(mnem__folder *f, const char *path, const char *pre, bool strict) {
    mnem__arena arena = {0};
    mnem__hf_config c;
    int64_t tokens = 0;
    mnem_status status = mnem__hf_config_open(&arena, path, &c);
    if (status == MNEM_OK) status = mnem__safetensors_open(path, &f->st);
    if (status == MNEM_OK) status = mnem__folder_begin(f, path);
    if (status == MNEM_OK) status = mnem__hf_put_keys(f, &c);
    if (status == MNEM_OK) status = mnem__hf_put_pooling(f, path, &c);
    if (status == MNEM_OK) status = put_tokenizer(f, path, &c, pre, strict, &tokens);
    if (status == MNEM_OK) status = mnem__hf_put_tensors(f, &c, tokens);
    if (status == MNEM_OK) status = mnem__hf_put_general(f, path, &c);
    if (status == MNEM_OK) {
        mnem__put_u32(f, "general.file_type", mnem__hf_file_type(f));
        status = mnem__folder_end(f);
    }
    mnem__arena_free(&arena);
    return status;
}

mnem_status mnem__folder_open(const char *path, const char *pre, bool strict, mnem_model **model) {
    *model = NULL;
    mnem__folder *f = mnem__calloc(MNEM__IMPORT_TAG, 1, sizeof *f);
    if (!f) return mnem__heap_status();
    f->model.source = &mnem__folder_source;
    const mnem_status status = folder_read(f, path, pre, strict);
    if (status != MNEM_OK) {
        mnem_model_close(&f->model);
        return mnem__model_refused(status, true);
    }
    *model = &f->model;
    return MNEM_OK;
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

mnem_status mnem_model_open(const char *path, mnem_model **model) {
    return is_folder(path) ? mnem__folder_open(path, NULL, false, model)
                           : mnem__model_refused(mnem__gguf_open(path, model), false);
}
