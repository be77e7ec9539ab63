/* registry.c: prepare: check a descriptor, choose the kernel, say the workspace.
 *
 * The registry has one table per device and operator (op_impl.h); an operator whose table is
 * missing here is refused by name. Cost: a few comparisons; nothing is allocated. */
#include <stdio.h>

#include "ops/core/op_impl.h"

static const mnem__op_table *const host[MNEM_OP_COUNT] = {
    [MNEM_OP_EMBED] = &mnem__op_embed,
    [MNEM_OP_RMS_NORM] = &mnem__op_rms_norm,
    [MNEM_OP_QUANTIZE] = &mnem__op_quantize,
    [MNEM_OP_MATMUL] = &mnem__op_matmul,
    [MNEM_OP_LOW_RANK] = &mnem__op_low_rank,
    [MNEM_OP_ROPE_TABLE] = &mnem__op_rope_table,
    [MNEM_OP_ROPE] = &mnem__op_rope,
    [MNEM_OP_KV_STORE] = &mnem__op_kv_store,
    [MNEM_OP_ATTENTION] = &mnem__op_attention,
    [MNEM_OP_SILU_MUL] = &mnem__op_silu_mul,
    [MNEM_OP_ADD] = &mnem__op_add,
    [MNEM_OP_COPY] = &mnem__op_copy,
    [MNEM_OP_RMS_NORM_GRAD] = &mnem__op_rms_norm_grad,
    [MNEM_OP_LAYER_NORM] = &mnem__op_layer_norm,
    [MNEM_OP_LAYER_NORM_GRAD] = &mnem__op_layer_norm_grad,
    [MNEM_OP_GELU] = &mnem__op_gelu,
    [MNEM_OP_GELU_GRAD] = &mnem__op_gelu_grad,
    [MNEM_OP_SILU_MUL_GRAD] = &mnem__op_silu_mul_grad,
    [MNEM_OP_EMBED_GRAD] = &mnem__op_embed_grad,
    [MNEM_OP_DROPOUT] = &mnem__op_dropout,
    [MNEM_OP_SCALE] = &mnem__op_scale,
    [MNEM_OP_GELU_MUL] = &mnem__op_gelu_mul,
    [MNEM_OP_SOFT_CAP] = &mnem__op_soft_cap,
    [MNEM_OP_SHORT_CONV] = &mnem__op_short_conv,
    [MNEM_OP_GELU_ERF] = &mnem__op_gelu_erf,
    [MNEM_OP_RELU_SQUARED] = &mnem__op_relu_squared,
    [MNEM_OP_RELU_MUL] = &mnem__op_relu_mul,
    [MNEM_OP_XIELU] = &mnem__op_xielu,
    [MNEM_OP_LINEAR] = &mnem__op_linear,
    [MNEM_OP_LINEAR_GRAD_INPUT] = &mnem__op_linear_grad_input,
    [MNEM_OP_LINEAR_GRAD_WEIGHT] = &mnem__op_linear_grad_weight,
    [MNEM_OP_LINEAR_LOSS] = &mnem__op_linear_loss,
    [MNEM_OP_CAUSAL_ATTENTION] = &mnem__op_causal_attention,
    [MNEM_OP_CAUSAL_ATTENTION_GRAD] = &mnem__op_causal_attention_grad,
    [MNEM_OP_ROUTE] = &mnem__op_route,
    [MNEM_OP_EXPERTS] = &mnem__op_experts,
    [MNEM_OP_EXPERTS_SUM] = &mnem__op_experts_sum,
    [MNEM_OP_SWIGLU_MUL] = &mnem__op_swiglu_mul,
    [MNEM_OP_ROW_GATE] = &mnem__op_row_gate,
    [MNEM_OP_SOFTMAX] = &mnem__op_softmax,
    [MNEM_OP_PRODUCT] = &mnem__op_product,
    [MNEM_OP_REDUCE] = &mnem__op_reduce,
    [MNEM_OP_CONCAT] = &mnem__op_concat,
    [MNEM_OP_CAST] = &mnem__op_cast,
    [MNEM_OP_STATE_LOSS] = &mnem__op_state_loss,
    [MNEM_OP_STATE_LOSS_GRAD] = &mnem__op_state_loss_grad,
    [MNEM_OP_GATHER] = &mnem__op_gather,
    [MNEM_OP_DELTA] = &mnem__op_delta,
    [MNEM_OP_SCAN] = &mnem__op_scan,
    [MNEM_OP_CONV_SILU] = &mnem__op_conv_silu,
    [MNEM_OP_SIGMOID_MUL] = &mnem__op_sigmoid_mul,
    [MNEM_OP_MUL] = &mnem__op_mul,
    [MNEM_OP_INDEX_STORE] = &mnem__op_index_store,
    [MNEM_OP_INDEX] = &mnem__op_index,
    [MNEM_OP_ROW_LEVEL] = &mnem__op_row_level,
    [MNEM_OP_ROW_CUT] = &mnem__op_row_cut,
};

/* A backend with kernels has its list of tables here. */
static const mnem__op_table *const *const devices[MNEM_OP_DEVICE_COUNT] = {
    [MNEM_OP_DEVICE_HOST] = host,
};

static const char *const device_texts[MNEM_OP_DEVICE_COUNT] = {
#define DEVICE_TEXT(name, text) [MNEM_OP_DEVICE_##name] = text,
    MNEM_OP_DEVICE_LIST(DEVICE_TEXT)
#undef DEVICE_TEXT
};

static const mnem__op_kernel *find(const mnem__op_table *table, mnem__op_key key) {
    for (int level = (int)mnem__cpu_level_get(); level >= 0; level--) {
        const mnem__op_kernels *kernels = table->levels[level];
        for (int i = 0; kernels && i < kernels->count; i++)
            if (kernels->list[i].type == key.type && kernels->list[i].layout == key.layout)
                return &kernels->list[i];
    }
    return NULL;
}

static const char *layout_text(mnem_layout layout) {
    return layout == MNEM_LAYOUT_PACKED ? " packed" : layout == MNEM_LAYOUT_SPARSE ? " 2:4" : "";
}

static const char *type_text(mnem_type type) {
    const mnem_type_info *info = mnem_type_get(type);
    return info ? info->name : "unknown";
}

/* No kernel for a key: the keys that the levels of this processor have kernels for. Plain kernels
 * exist for each of them. */
static mnem_status refuse_key(const mnem_op_desc *desc, const mnem__op_table *table,
                              mnem__op_key key) {
    const mnem__op_kernels *kernels = table->levels[0];
    char list[200] = "";
    size_t at = 0;
    for (int i = 0; kernels && i < kernels->count; i++) {
        const int n =
            snprintf(list + at, sizeof list - at, "%s%s%s", i ? ", " : "",
                     type_text(kernels->list[i].type), layout_text(kernels->list[i].layout));
        if (n < 0 || at + (size_t)n >= sizeof list) {
            list[at] = '\0';
            break;
        }
        at += (size_t)n;
    }
    return mnem__op_fail(MNEM_UNSUPPORTED, desc, "no kernel for %s%s; there are kernels for: %s",
                         type_text(key.type), layout_text(key.layout), list);
}

static mnem_status find_table(const mnem_op_desc *desc, const mnem__op_table **table) {
    if ((unsigned)desc->kind >= MNEM_OP_COUNT)
        return mnem__fail(MNEM_INVALID,
                          "operator: desc.kind is %d, expected a constant of mnem_op_kind",
                          (int)desc->kind);
    if ((unsigned)desc->device >= MNEM_OP_DEVICE_COUNT)
        return mnem__fail(MNEM_INVALID,
                          "%s: desc.device is %d, expected a constant of mnem_op_device",
                          mnem_op_text(desc->kind), (int)desc->device);
    *table = devices[desc->device] ? devices[desc->device][desc->kind] : NULL;
    if (*table) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED, "operator %s has no kernel for device %s",
                      mnem_op_text(desc->kind), device_texts[desc->device]);
}

/* A longer descriptor, of a later version, is one of ours if it says nothing that we don't know. */
static mnem_status check_size(const mnem_op_desc *desc) {
    const unsigned char *bytes = (const void *)desc;
    if (desc->size == 0 || desc->size == sizeof *desc) return MNEM_OK;
    if (desc->size < sizeof *desc || desc->size > 16 * sizeof *desc)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "operator: desc.size is %u, expected %zu: the caller was built with another "
            "version of mnem/ops.h",
            (unsigned)desc->size, sizeof *desc);
    for (uint32_t i = sizeof *desc; i < desc->size; i++)
        if (bytes[i])
            return mnem__fail(
                MNEM_UNSUPPORTED,
                "operator: the descriptor's byte %u is not 0, but belongs to a field that this "
                "mnem does not know; set the field to 0, or use a newer mnem",
                (unsigned)i);
    return MNEM_OK;
}

static mnem_status check_strides(const mnem_op_desc *desc) {
    for (int i = 0; i < MNEM_OP_INPUTS + 1 + MNEM_OP_ALSO; i++) {
        const mnem_tensor *t = i < MNEM_OP_INPUTS    ? &desc->in[i]
                               : i == MNEM_OP_INPUTS ? &desc->out
                                                     : &desc->also[i - MNEM_OP_INPUTS - 1];
        for (int d = 0; d < t->dims && d < MNEM_TENSOR_DIMS; d++)
            if (t->stride[d] < 0)
                return mnem__op_fail(
                    MNEM_UNSUPPORTED, desc,
                    "a tensor has the stride %lld in dimension %d, expected 0 or more",
                    (long long)t->stride[d], d);
    }
    return MNEM_OK;
}

mnem_status mnem_op_prepare(const mnem_op_desc *desc, mnem_op *op) {
    const mnem__op_table *table;
    MNEM__TRY(check_size(desc));
    MNEM__TRY(find_table(desc, &table));
    MNEM__TRY(check_strides(desc));
    if (desc->workers < 1 || desc->workers > MNEM_TEAM_MAX)
        return mnem__op_fail(MNEM_INVALID, desc, "desc.workers is %d, expected 1 to %d",
                             (int)desc->workers, MNEM_TEAM_MAX);
    MNEM__TRY(table->check(desc));
    const mnem__op_kernel *kernel = find(table, table->key(desc));
    if (!kernel) return refuse_key(desc, table, table->key(desc));
    *op = (mnem_op){
        .desc = *desc, .kernel = kernel->name, .run = kernel->run, .detail = kernel->detail};
    op->workspace_bytes = table->workspace ? table->workspace(op) : 0;
    return MNEM_OK;
}
