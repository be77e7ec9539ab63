/* make_model_shape.c: the shape that the arguments of make_model give an architecture: which layers
 * are of which kind, and how wide what is in them is. */
#include "kit/make_model.h"
#include "model/architecture/layer_schedule.h"

static bool is_gate_in_up(const mnem__architecture *a) {
    for (const mnem__layer_part *part = a->parts; part->out; part++)
        if (mnem__part_joins_gate(part)) return true;
    return false;
}

bool is_conv(const options *o) {
    return architecture(o)->takes & MNEM__TAKES_CONV;
}

bool has_layer_heads(const options *o) {
    return architecture(o)->takes & MNEM__TAKES_LAYER_HEADS;
}

/* Layers of one part: of three the first scans, the second feeds. */
bool has_layer_ff(const options *o) {
    return architecture(o)->takes & MNEM__TAKES_LAYER_FF;
}

uint32_t ff_of(const options *o, long layer) {
    return has_layer_ff(o) && layer % 3 != 1 ? 0 : (uint32_t)o->ff;
}

/* Experts read half of the width. */
bool has_latent_experts(const options *o) {
    return mnem__architecture_has(architecture(o), MNEM__ROLE_LATENT_DOWN);
}

/* Of three layers that convolve, two do, the second attends. */
uint32_t kv_heads_of(const options *o, long layer) {
    const long period = has_layer_ff(o) ? 3 : o->attend_every;
    const bool recurs = has_layer_heads(o) && (layer + 1) % period != 0;
    return recurs || (is_conv(o) && layer % 3 != 1) ? 0 : (uint32_t)o->kv_heads;
}

/* Keys and values through a latent; beside it half as much as a head is wide is turned. */
bool is_interleaved(const options *o) {
    return architecture(o)->takes & MNEM__TAKES_INTERLEAVED;
}

bool is_latent(const options *o) {
    return architecture(o)->takes & MNEM__TAKES_LATENT;
}

int32_t rope_dims_of(const options *o) {
    return (int32_t)(is_latent(o) ? o->head_dim / 2 : o->head_dim);
}

bool has_states(const options *o) {
    return architecture(o)->takes & MNEM__TAKES_STATES;
}

static void set_states(const options *o, mnem_transformer *t) {
    t->recurrent =
        (mnem_layer_schedule){.kind = MNEM_LAYERS_BUT_EVERY, .n = (int32_t)o->attend_every};
    t->state_groups = (int32_t)o->state_groups;
    t->state_heads = (int32_t)o->state_heads;
    t->state_rows = (int32_t)o->state_dim;
    t->state_columns = (int32_t)o->state_columns;
    const mnem__layer_part *part = mnem__architecture_recurs(architecture(o));
    t->state_scans = part->core == MNEM_OP_SCAN;
    t->state_beside = architecture(o)->state_beside;
    if (!mnem__architecture_attends(architecture(o)) || t->state_beside)
        t->recurrent.kind = MNEM_LAYERS_ALL;
    if (has_layer_ff(o)) t->recurrent = (mnem_layer_schedule){.kind = MNEM_LAYERS_LIST};
    for (int32_t layer = 0; has_layer_ff(o) && layer < t->layers; layer++)
        if (layer % 3 < 2) mnem__layer_schedule_add(layer % 3 ? &t->feeding : &t->recurrent, layer);
    if (part->decay_b) {
        t->state_channels = true;
        t->state_groups = t->state_heads = (int32_t)o->heads;
        t->state_columns = t->state_rows;
    }
    if (!part->step) return;
    t->state_rank = t->state_columns; /* Mamba 1 */
    t->state_columns *= t->state_heads;
    t->state_heads = 1;
    t->state_groups = 0;
}

/* Layers with a window differ from the others, the last have no keys. */
bool has_kinds(const options *o) {
    return architecture(o)->takes & MNEM__TAKES_KINDS;
}

static void set_kinds(const options *o, mnem_transformer *t) {
    t->windowed = architecture(o)->windowed;
    t->window = (int32_t)o->window;
    t->window_head_dim = (int32_t)(o->window_head_dim == o->head_dim ? 0 : o->window_head_dim);
    t->kv_shared_layers = (int32_t)o->kv_shared;
    t->layer_embd = (int32_t)o->layer_embd;
    if (!(architecture(o)->takes & MNEM__TAKES_STREAMS)) return;
    t->streams = 4;
    t->laurel = 8;
    if (t->layer_embd == 0) t->layer_embd = 8;
}

mnem_transformer shape_of(const options *o) {
    mnem_transformer t = {.layers = (int32_t)o->layers,
                          .embd = (int32_t)o->embd,
                          .heads = (int32_t)o->heads,
                          .kv_heads = (int32_t)o->kv_heads,
                          .head_dim = (int32_t)o->head_dim,
                          .ff = (int32_t)o->ff,
                          .vocab = (int32_t)o->vocab,
                          .context = (int32_t)o->context,
                          .rope.dims = rope_dims_of(o),
                          .conv_length = is_conv(o) || has_states(o) ? 3 : 0,
                          .output_gate = architecture(o)->output_gate,
                          .head_gates = architecture(o)->takes & MNEM__TAKES_HEAD_KINDS,
                          .token_types = architecture(o)->encoder ? 2 : 0,
                          .wide_qk_norm = architecture(o)->wide_qk_norm,
                          .experts = (int32_t)o->experts,
                          .ff_expert = (int32_t)o->ff_expert,
                          .ff_shared = (int32_t)o->ff_shared,
                          .gate_in_up = is_gate_in_up(architecture(o))};
    if (is_latent(o)) {
        t.latent = (int32_t)o->latent;
        t.value_dim = (int32_t)o->head_dim;
        t.latent_q = (int32_t)o->embd / 2;
        if (architecture(o)->takes & MNEM__TAKES_INDEXER) {
            t.index_heads = (int32_t)o->index_heads;
            t.index_dim = (int32_t)o->index_dim;
            t.index_top_k = (int32_t)o->index_top_k;
            t.indexed.kind = MNEM_LAYERS_ALL;
        }
        t.key_dim = (int32_t)o->head_dim + t.rope.dims;
        t.head_dim = t.latent + t.rope.dims;
        t.kv_heads = 1;
        t.leading = (mnem_layer_schedule){.kind = MNEM_LAYERS_FIRST, .n = 1};
    }
    if (has_kinds(o)) set_kinds(o, &t);
    if (has_latent_experts(o)) t.embd_expert = t.embd / 2;
    if (is_interleaved(o)) t.leading = (mnem_layer_schedule){.kind = MNEM_LAYERS_BUT_EVERY, .n = 2};
    if (has_states(o)) set_states(o, &t);
    if (architecture(o)->takes & MNEM__TAKES_SOME_EXPERTS) mnem__layer_schedule_add(&t.leading, 0);
    for (int32_t layer = 0; layer < t.layers; layer++)
        if (is_conv(o) && kv_heads_of(o, layer) == 0)
            mnem__layer_schedule_add(&t.convolving, layer);
    return t;
}
