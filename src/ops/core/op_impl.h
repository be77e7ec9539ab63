/* op_impl.h: the registry of operators: device, operator, type, layout.
 *
 * registry.c: [device][operator] --> mnem__op_table --> levels[level] --> kernels by type,
 * layout
 *
 * An operator has one mnem__op_table per device with kernels for it: a check that finds every
 * error of a descriptor, a key (the operand whose type and layout choose the kernel), and a list
 * of kernels per level (NULL: none). The host's levels are those of base/cpu.h; other devices
 * have only the first, and may share the host's check. mnem_op_prepare uses the best level with
 * a kernel for the key. Sources of a vector level are compiled with its flags (mnem_kernels in
 * cmake/mnem.cmake); their lists are declared here only under MNEM_X86. */
#ifndef MNEM_SRC_OPS_CORE_OP_IMPL_H
#define MNEM_SRC_OPS_CORE_OP_IMPL_H

#include "base/cpu.h"
#include "base/error.h"
#include "mnem/ops.h"

#if defined(__x86_64__)
#define MNEM_X86 1
#else
#define MNEM_X86 0
#endif

/* For name_plain, name_avx2 and name_avx512, as far as they are built: expand a macro for each;
 * list them in a table; choose the best for the current level. */
#if MNEM_X86
#define MNEM__AT_BEST_LEVEL(name)                                                                  \
    (mnem__cpu_level_get() >= MNEM__CPU_AVX512 ? &name##_avx512                                    \
     : mnem__cpu_level_get() >= MNEM__CPU_AVX2 ? &name##_avx2                                      \
                                               : &name##_plain)
#define MNEM__OP_EACH_LEVEL(make) make(plain) make(avx2) make(avx512)
#define MNEM__OP_LISTS(name)                                                                       \
    { &name##_plain, &name##_avx2, &name##_avx512 }
#else
#define MNEM__AT_BEST_LEVEL(name) (&name##_plain)
#define MNEM__OP_EACH_LEVEL(make) make(plain)
#define MNEM__OP_LISTS(name)                                                                       \
    { &name##_plain }
#endif

typedef void mnem__op_run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker);

typedef struct mnem__op_kernel {
    mnem_type type;
    mnem_layout layout;
    const char *name; /* "matmul q4_0 avx512" */
    mnem__op_run *run;
    const void *detail; /* becomes op->detail */
} mnem__op_kernel;

typedef struct mnem__op_kernels {
    const mnem__op_kernel *list;
    int count;
} mnem__op_kernels;

typedef struct mnem__op_key {
    mnem_type type;
    mnem_layout layout;
} mnem__op_key;

enum { MNEM__OP_LEVELS = MNEM__CPU_BEST + 1 };

typedef struct mnem__op_table {
    mnem_status (*check)(const mnem_op_desc *desc);
    mnem__op_key (*key)(const mnem_op_desc *desc);
    /* The bytes for the largest shapes of op->desc; the kernel is already chosen. NULL: none. */
    uint64_t (*workspace)(const mnem_op *op);
    const mnem__op_kernels *levels[MNEM__OP_LEVELS];
} mnem__op_table;

/* Fails with "<operator> (<operands>): <what>". what is a format, such as "in[0] isn't as wide as
 * out". */
mnem_status mnem__op_fail(mnem_status status, const mnem_op_desc *desc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether a tensor has these dims, type F32, layout ROW, and a contiguous last dimension. */
bool mnem__tensor_is_f32(const mnem_tensor *tensor, int dims);
/* Whether two tensors have the same dims and shape. */
bool mnem__tensor_same_shape(const mnem_tensor *a, const mnem_tensor *b);
/* Whether dims, shape, strides and offset are valid, and the size doesn't overflow. */
bool mnem__tensor_valid(const mnem_tensor *tensor);
/* Whether no two elements of a valid, unquantized tensor overlap: sorted by stride, each
 * dimension's stride exceeds the extent of all smaller ones. */
bool mnem__tensor_apart(const mnem_tensor *tensor);
static inline bool mnem__tensor_absent(const mnem_tensor *tensor) {
    return tensor->dims == 0;
}

/* The host's tables, one per operator, each defined in the operator's own file. */
extern const mnem__op_table mnem__op_quantize, mnem__op_matmul, mnem__op_low_rank;
extern const mnem__op_table mnem__op_embed, mnem__op_rms_norm, mnem__op_rope_table, mnem__op_rope,
    mnem__op_kv_store, mnem__op_attention, mnem__op_silu_mul, mnem__op_add, mnem__op_copy;
extern const mnem__op_table mnem__op_rms_norm_grad, mnem__op_layer_norm, mnem__op_layer_norm_grad,
    mnem__op_gelu, mnem__op_gelu_grad, mnem__op_silu_mul_grad, mnem__op_embed_grad,
    mnem__op_dropout, mnem__op_scale, mnem__op_gelu_mul, mnem__op_soft_cap, mnem__op_short_conv,
    mnem__op_gelu_erf, mnem__op_relu_squared, mnem__op_xielu;
extern const mnem__op_table mnem__op_route, mnem__op_experts, mnem__op_experts_sum,
    mnem__op_swiglu_mul, mnem__op_relu_mul, mnem__op_row_gate, mnem__op_row_level, mnem__op_row_cut;
extern const mnem__op_table mnem__op_linear, mnem__op_linear_grad_input,
    mnem__op_linear_grad_weight, mnem__op_linear_loss;
extern const mnem__op_table mnem__op_causal_attention, mnem__op_causal_attention_grad;
extern const mnem__op_table mnem__op_softmax, mnem__op_product, mnem__op_reduce, mnem__op_concat,
    mnem__op_cast;
extern const mnem__op_table mnem__op_state_loss, mnem__op_state_loss_grad;
extern const mnem__op_table mnem__op_gather;
extern const mnem__op_table mnem__op_conv_silu, mnem__op_delta, mnem__op_scan, mnem__op_sigmoid_mul;
extern const mnem__op_table mnem__op_mul, mnem__op_index_store, mnem__op_index;

#endif
