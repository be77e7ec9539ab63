/* convert_folder.c: a folder of Hugging Face's as a GGUF file: it opens as a model, and that is
 * written, tensor by tensor, as quantizing writes one.
 *
 * What it takes is known when the tables are read and the buffers are there, before the file is
 * begun: the most that was live until then, or what is live and the threads' stacks. */
#include <string.h>

#include "base/error.h"
#include "base/minmax.h"
#include "mnem/ledger.h"
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

/* The heap's own rounding; the file's writer, which has a buffer and a number for each tensor in a
 * table that doubles. */
enum { RESERVE = 512 << 10, WRITER = 96 << 10, WRITER_TENSOR = 16 };

/* While a file is written. */
typedef struct held {
    mnem_ledger *ledger;
    uint64_t *needed_bytes;
    uint64_t writer_bytes;
    uint64_t bytes; /* charged for threads and the reserve */
} held;

static mnem_status refuse(uint64_t needed, uint64_t budget) {
    char need[24], have[24], over[24];
    return mnem__fail(MNEM_OVER_BUDGET,
                      "convert: needs %llu bytes (%s), budget is %llu (%s), %s over",
                      (unsigned long long)needed, mnem_size_format(needed, need, sizeof need),
                      (unsigned long long)budget, mnem_size_format(budget, have, sizeof have),
                      mnem_size_format(needed - budget, over, sizeof over));
}

static mnem_status hold(void *context, int32_t threads) {
    held *h = context;
    mnem_ledger_info info;
    const uint64_t more = mnem_team_bytes(threads) + RESERVE;
    mnem_ledger_info_get(h->ledger, &info);
    const uint64_t needed =
        mnem__max_u64(info.bytes_peak, info.bytes_live + more + h->writer_bytes);
    if (h->needed_bytes) *h->needed_bytes = needed;
    if (info.budget_bytes && needed > info.budget_bytes) return refuse(needed, info.budget_bytes);
    MNEM__TRY(mnem_ledger_charge_planned(h->ledger, MNEM_KIND_HOST, "convert", more));
    h->bytes = more;
    return mnem_ledger_hold(h->ledger);
}

static mnem_status convert(const mnem_model *model, const char *to,
                           const mnem_convert_options *options) {
    const char *type = options->type ? options->type : own_type(model);
    mnem__quantize_job job = {.model = model,
                              .stays = mnem__hf_stays,
                              .file_type = file_type_of(model, type),
                              .what = "convert",
                              .doing = "converting",
                              .ready = options->ledger ? hold : NULL};
    mnem_model_info info;
    mnem_model_info_get(model, &info);
    held h = {.ledger = options->ledger,
              .needed_bytes = options->needed_bytes,
              .writer_bytes = WRITER + (uint64_t)info.tensors * WRITER_TENSOR};
    job.ready_context = &h;
    const mnem_quantize_options as = {.type = type,
                                      .threads = options->threads,
                                      .progress = options->progress,
                                      .on_report = options->on_report,
                                      .context = options->context};
    MNEM__TRY(mnem__recipe_find("convert", type, &job.recipe));
    const mnem_status status = mnem__quantize_run(&job, to, &as);
    if (h.bytes) mnem_ledger_release(h.ledger, MNEM_KIND_HOST, "convert", h.bytes);
    return status;
}

mnem_status mnem_convert_folder(const char *folder, const char *to,
                                const mnem_convert_options *options) {
    static const mnem_convert_options defaults = {.type = NULL};
    const mnem_convert_options *o = options ? options : &defaults;
    const mnem__recipe *recipe;
    mnem_model *model;
    if (o->needed_bytes) *o->needed_bytes = 0;
    if (o->type) MNEM__TRY(mnem__recipe_find("convert", o->type, &recipe));
    MNEM__TRY(mnem__folder_open(folder, o->pretokenizer, true, &model));
    const mnem_status status = convert(model, to, o);
    mnem_model_close(model);
    return status;
}
