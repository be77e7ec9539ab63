/* weights_source.c: weights as a graph's run sees them: by handle, wherever they come from. */
#include "model/weights/weights_private.h"

static const void *resident(void *context, int32_t handle) {
    const mnem__weights *w = context;
    const int32_t matrix = handle - w->first_handle;
    return matrix < w->matrix_count ? mnem__weights_resident(w, matrix) : NULL;
}

static mnem_status acquire(void *context, int32_t handle, mnem_graph_chunk *chunk) {
    mnem__weights *w = context;
    return mnem__weights_acquire(w, handle - w->first_handle, chunk);
}

static void release(void *context, const mnem_graph_chunk *chunk) {
    mnem__weights_release(context, chunk);
}

static const char *name(void *context, int32_t handle) {
    const mnem__weights *w = context;
    return mnem__weights_name(w, handle - w->first_handle);
}

mnem_graph_weights mnem__weights_source(mnem__weights *w) {
    return (mnem_graph_weights){.resident = resident,
                                .acquire = acquire,
                                .release = release,
                                .context = w,
                                .experts = &mnem__weights_experts,
                                .name = name};
}
