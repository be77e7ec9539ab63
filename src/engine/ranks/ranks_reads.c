/* ranks_reads.c: which bytes of a model's file an engine of a plan reads.
 *
 * Idea: matrices, or their rows, as the plan's residency has them (weights_layout.c says where they
 * lie), the embedding where its rows are looked up, and all vectors, which are few bytes. */
#include "base/error.h"
#include "engine/engine_private.h"

static mnem_status tell_tensor(const mnem_model *model, int32_t tensor, mnem_on_engine_read *tell,
                               void *context) {
    mnem_tensor_info info;
    if (tensor < 0 || !mnem_model_tensor_get(model, (uint32_t)tensor, &info)) return MNEM_OK;
    return tell(context, info.file, info.offset, info.file_bytes);
}

/* Biases of experts have a row for each. */
static bool is_vector(const mnem_tensor_info *info) {
    int32_t layer;
    const mnem__role role = mnem__role_find(info->name, &layer);
    return info->dims == 1 || (role >= MNEM__LAYER_VECTOR_FIRST && role < MNEM__OUTER_FIRST);
}

static mnem_status tell_vectors(const mnem_model *model, mnem_on_engine_read *tell, void *context) {
    mnem_tensor_info info;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
        if (is_vector(&info)) MNEM__TRY(tell_tensor(model, (int32_t)i, tell, context));
    return MNEM_OK;
}

static mnem_status tell_all(mnem__setup *setup, const mnem_engine_plan *plan,
                            mnem_on_engine_read *tell, void *context) {
    const mnem__transformer_map *map = setup->map;
    const mnem__choice choice = mnem__engine_choice(plan);
    mnem__residency(map, choice.order, choice.resident, setup->flags);
    const mnem__weights_options options = mnem__engine_weights_options(setup, &choice);
    MNEM__TRY(mnem__weights_ranges(&options, tell, context));
    if (!mnem__embedding_packed(setup))
        MNEM__TRY(tell_tensor(setup->model, map->matrices[map->embedding], tell, context));
    MNEM__TRY(tell_tensor(setup->model, map->positions.tensor, tell, context));
    return tell_vectors(setup->model, tell, context);
}

mnem_status mnem_engine_reads(const mnem_model *model, const mnem_engine_options *options,
                              const mnem_engine_plan *plan, mnem_on_engine_read *tell,
                              void *context) {
    mnem__setup setup;
    mnem_engine_options here = *options;
    here.layer_begin = plan->layer_begin;
    here.layer_end = plan->layer_end;
    here.rows = plan->rows;
    MNEM__TRY(mnem__setup_init(&setup, model, &here));
    const mnem_status status = tell_all(&setup, plan, tell, context);
    mnem__setup_fini(&setup);
    return status;
}
