/* stage_model.c: a model's adapters; and several models in one process.
 *
 * A server with several models has one stage with the ledger and no model, and a stage for each
 * model, which borrows the ledger and the profile. The stages of models print nothing: their errors
 * go to the requests for the model. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

/* ---- adapters ---- */

/* What follows the last colon is a scale if it is a number. */
float tool_adapter_split(const char *asked, char name[PATH_MAX]) {
    const char *colon = strrchr(asked, ':');
    char *end = NULL;
    const float scale = colon ? strtof(colon + 1, &end) : 1;
    const bool scaled = colon && end != colon + 1 && !*end;
    snprintf(name, PATH_MAX, "%.*s", scaled ? (int)(colon - asked) : PATH_MAX - 1, asked);
    return scaled ? scale : 1;
}

int tool_adapters_check(const char *verb, const tool_texts *lora) {
    char name[PATH_MAX], path[PATH_MAX];
    int code = TOOL_OK;
    for (int i = 0; i < lora->count && code == TOOL_OK; i++) {
        tool_adapter_split(lora->text[i], name);
        code = tool_adapter_path(verb, name, path);
    }
    return code;
}

mnem_status tool_adapters_open(tool_stage *stage) {
    const tool_texts *lora = &stage->asked->lora;
    char name[PATH_MAX], path[PATH_MAX];
    mnem_status status = MNEM_OK;
    for (int i = 0; i < lora->count && status == MNEM_OK; i++) {
        const float scale = tool_adapter_split(lora->text[i], name);
        tool_adapter_path(stage->args->verb->name, name, path); /* checked before */
        status = mnem_adapter_open(path, stage->model, &stage->adapter_file[i]);
        stage->adapter[i] = (mnem_adapter){stage->adapter_file[i], scale};
    }
    stage->options.adapters = stage->adapter;
    stage->options.adapter_count = lora->count;
    return status;
}

/* ---- a model beside others ---- */

static void borrow(tool_stage *stage, const tool_stage *of, const tool_session_asked *asked) {
    mnem_engine_options *o = &stage->options;
    stage->args = of->args;
    stage->asked = asked;
    stage->ledger = of->ledger;
    stage->profile = of->profile;
    *o = of->options;
    if (o->profile) o->profile = &stage->profile;
    o->context = asked->context;
}

mnem_status tool_stage_open_beside(const tool_stage *of, const tool_session_asked *asked,
                                   const char *path, tool_stage *stage) {
    borrow(stage, of, asked);
    mnem_status status = mnem_model_open(path, &stage->model);
    if (status == MNEM_OK) status = mnem_model_transformer(stage->model, &stage->transformer);
    if (status == MNEM_OK) status = tool_adapters_open(stage);
    if (status != MNEM_OK) return status;
    const mnem_tokenizer_options options = {.pre = asked->pre};
    return mnem_tokenizer_create_with(stage->model, &options, &stage->tokenizer);
}

void tool_stage_close_beside(tool_stage *stage) {
    mnem_tokenizer_destroy(stage->tokenizer);
    for (int i = 0; i < TOOL_ADAPTERS_MAX; i++) mnem_model_close(stage->adapter_file[i]);
    mnem_model_close(stage->model);
    stage->tokenizer = NULL;
    stage->model = NULL;
    memset(stage->adapter_file, 0, sizeof stage->adapter_file);
}
