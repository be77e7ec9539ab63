/* convert_folder.c: a folder of Hugging Face's as a GGUF file: it opens as a model, and that is
 * written, tensor by tensor, as quantizing writes one. */
#include <string.h>

#include "base/error.h"
#include "model/convert/quantize.h"
#include "model/import/folder.h"
#include "model/import/hf_tensors.h"

enum { FILE_MXFP4 = 38 }; /* of general.file_type */

/* The type of 16 bits that most of it has. */
static const char *own_type(const mnem_model *model) {
    mnem_value value;
    const bool found = mnem_model_key_find(model, "general.file_type", &value);
    return found && value.u == 32 ? "BF16" : "F16";
}

/* Experts that stay MXFP4 give a file its type, but for one of fewer bits than 16 elsewhere. */
static uint32_t file_type_of(const mnem_model *model, const char *type) {
    mnem_tensor_info info;
    const bool plain =
        strcmp(type, "F32") == 0 || strcmp(type, "F16") == 0 || strcmp(type, "BF16") == 0;
    for (uint32_t i = 0; plain && mnem_model_tensor_get(model, i, &info); i++)
        if (info.type == MNEM_TYPE_MXFP4) return FILE_MXFP4;
    return 0;
}

static mnem_status convert(const mnem_model *model, const char *to,
                           const mnem_convert_options *options) {
    const char *type = options->type ? options->type : own_type(model);
    mnem__quantize_job job = {.model = model,
                              .stays = mnem__hf_stays,
                              .file_type = file_type_of(model, type),
                              .what = "convert",
                              .doing = "converting"};
    const mnem_quantize_options as = {.type = type,
                                      .threads = options->threads,
                                      .progress = options->progress,
                                      .on_report = options->on_report,
                                      .context = options->context};
    MNEM__TRY(mnem__recipe_find("convert", type, &job.recipe));
    return mnem__quantize_run(&job, to, &as);
}

mnem_status mnem_convert_folder(const char *folder, const char *to,
                                const mnem_convert_options *options) {
    static const mnem_convert_options defaults = {.type = NULL};
    const mnem_convert_options *o = options ? options : &defaults;
    const mnem__recipe *recipe;
    mnem_model *model;
    if (o->type) MNEM__TRY(mnem__recipe_find("convert", o->type, &recipe));
    MNEM__TRY(mnem__folder_open(folder, o->pretokenizer, true, &model));
    const mnem_status status = convert(model, to, o);
    mnem_model_close(model);
    return status;
}
