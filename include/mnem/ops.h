/* mnem/ops.h: tensor types, and operators in two phases.
 *
 * prepare takes descriptors with the largest shapes, finds every error and says the workspace; run
 * takes the actual number of tokens and the pointers, allocates nothing and cannot fail. All memory
 * is the caller's. run is called by every member of a team at once (SPMD, team.h); a lone caller
 * passes {NULL, 0, 1}. Results don't depend on the team's size, on how many tokens run together,
 * nor on how weights are cut into row ranges: the shapes fix each output's order of additions.
 * Threads: a prepared operator is constant; any number of runs may share it.
 *
 *     mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .workers = 2, .epsilon = 1e-5f};
 *     d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, max_tokens, n_embd);
 *     d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, n_embd);
 *     mnem_op op;
 *     mnem_op_prepare(&d, &op);                       // op.workspace_bytes
 *     mnem_op_run(&op, &(mnem_op_args){.tokens = 3, .in = {x, w}, .out = y}, &worker);
 */
#ifndef MNEM_OPS_H
#define MNEM_OPS_H

#include "mnem/base.h"
#include "mnem/team.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, number in GGUF files, elements per block, bytes per block). The types whose bytes are 0
 * are known by name only, to be refused by name. A8: activations, see mnem_type_row_bytes. */
#define MNEM_TYPE_LIST(X)                                                                          \
    X(F32, 0, 1, 4)                                                                                \
    X(F16, 1, 1, 2)                                                                                \
    X(Q4_0, 2, 32, 18)                                                                             \
    X(Q4_1, 3, 32, 20)                                                                             \
    X(Q5_0, 6, 32, 22)                                                                             \
    X(Q5_1, 7, 32, 24)                                                                             \
    X(Q8_0, 8, 32, 34)                                                                             \
    X(Q8_1, 9, 32, 0)                                                                              \
    X(Q2_K, 10, 256, 0)                                                                            \
    X(Q3_K, 11, 256, 0)                                                                            \
    X(Q4_K, 12, 256, 144)                                                                          \
    X(Q5_K, 13, 256, 176)                                                                          \
    X(Q6_K, 14, 256, 210)                                                                          \
    X(Q8_K, 15, 256, 0)                                                                            \
    X(IQ2_XXS, 16, 256, 0)                                                                         \
    X(IQ2_XS, 17, 256, 0)                                                                          \
    X(IQ3_XXS, 18, 256, 0)                                                                         \
    X(IQ1_S, 19, 256, 0)                                                                           \
    X(IQ4_NL, 20, 32, 0)                                                                           \
    X(IQ3_S, 21, 256, 0)                                                                           \
    X(IQ2_S, 22, 256, 0)                                                                           \
    X(IQ4_XS, 23, 256, 0)                                                                          \
    X(I8, 24, 1, 1)                                                                                \
    X(I16, 25, 1, 2)                                                                               \
    X(I32, 26, 1, 4)                                                                               \
    X(I64, 27, 1, 8)                                                                               \
    X(F64, 28, 1, 8)                                                                               \
    X(IQ1_M, 29, 256, 0)                                                                           \
    X(BF16, 30, 1, 2)                                                                              \
    X(TQ1_0, 34, 256, 0)                                                                           \
    X(TQ2_0, 35, 256, 0)                                                                           \
    X(MXFP4, 39, 32, 0)                                                                            \
    X(A8, 1000, 32, 48)

typedef enum mnem_type {
#define MNEM_TYPE_ENUM(name, number, elements, bytes) MNEM_TYPE_##name = number,
    MNEM_TYPE_LIST(MNEM_TYPE_ENUM)
#undef MNEM_TYPE_ENUM
} mnem_type;

typedef struct mnem_type_info {
    const char *name; /* "Q4_K" */
    uint32_t block_elements;
    uint32_t block_bytes; /* 0: known by name only */
    bool is_weight;       /* matmul takes weights of this type */
} mnem_type_info;
const mnem_type_info *mnem_type_info_get(mnem_type type); /* NULL for an unknown number */

/* Bytes of one row of n elements; 0 when n isn't whole blocks, or the type is known by name only.
 * A8, n elements (n any; the last block is padded with zeros): blocks of 32 elements, each
 * {f32 scale, int32 -128 sum(q), int32 -128 sum(q of the first 16), f32 -scale sum(q), int8 q[32]}:
 * the forms that the kernels want. The bytes of a row are rounded up to 64. */
uint64_t mnem_type_row_bytes(mnem_type type, int64_t n);

typedef enum mnem_layout {
    MNEM_LAYOUT_ROW,    /* element (i, j) at i * stride[0] + j * stride[1] */
    MNEM_LAYOUT_PACKED, /* weights: groups of rows interleaved, see mnem_pack_group */
} mnem_layout;

enum { MNEM_TENSOR_DIMS = 4 };

/* shape[0] is the slowest dimension (tokens, rows). Strides in bytes; quantized types must be
 * contiguous in the last dimension (stride of a row only). offset: bytes from the pointer given to
 * run. */
typedef struct mnem_tensor {
    mnem_type type;
    mnem_layout layout;
    int dims;
    int64_t shape[MNEM_TENSOR_DIMS];
    int64_t stride[MNEM_TENSOR_DIMS];
    int64_t offset;
} mnem_tensor;

/* Contiguous descriptors, offset 0. */
mnem_tensor mnem_tensor_1d(mnem_type type, int64_t n);
mnem_tensor mnem_tensor_2d(mnem_type type, int64_t rows, int64_t n);
mnem_tensor mnem_tensor_3d(mnem_type type, int64_t a, int64_t b, int64_t n);
mnem_tensor mnem_tensor_packed(mnem_type type, int64_t rows, int64_t n);
/* Bytes from the tensor's start to its end; 0 when the descriptor is wrong. */
uint64_t mnem_tensor_bytes(const mnem_tensor *tensor);
bool mnem_tensor_contiguous(const mnem_tensor *tensor);

/* ---- weights: packed once while loading, 16 rows at a time ---- */

enum { MNEM_PACK_ROWS = 16 };

/* Bytes of one packed group of 16 rows of k elements (a multiple of 64); 0 if the type isn't a
 * weight's or k isn't whole blocks. A matrix of r rows is ceil(r / 16) groups in a row. */
uint64_t mnem_pack_group_bytes(mnem_type type, int64_t k);
uint64_t mnem_pack_bytes(mnem_type type, int64_t rows, int64_t k);
/* raw: rows (1 to 16) as in the file, contiguous. packed: 64-byte aligned, not overlapping raw;
 * missing rows become zeros. */
void mnem_pack_group(mnem_type type, int64_t rows, int64_t k, const void *raw, void *packed);
/* One row (0 to 15) of a packed group as k floats: equal to mnem_dequantize_row of the raw row. */
void mnem_unpack_row(mnem_type type, int64_t k, const void *packed, int row, float *out);

/* ---- rows between types; n is whole blocks ---- */
mnem_status mnem_dequantize_row(mnem_type type, int64_t n, const void *row, float *out);
/* To F32 F16 BF16 Q8_0 Q4_0 Q4_K Q6_K Q4_1 Q5_0 Q5_1 Q5_K. MNEM_UNSUPPORTED otherwise. */
mnem_status mnem_quantize_row(mnem_type type, int64_t n, const float *row, void *out);

/* ---- KV pages ---- */

/* A page holds page_tokens consecutive positions of one layer, keys and values of all KV heads.
 * type: MNEM_TYPE_F16, or MNEM_TYPE_Q8_0 (head_dim a multiple of 32). */
typedef struct mnem_kv_layout {
    mnem_type type;
    int32_t kv_heads, head_dim;
    int32_t page_tokens; /* a multiple of 16 */
} mnem_kv_layout;
/* Bytes of one page of one layer (a multiple of 64); 0 when the layout is wrong. */
uint64_t mnem_kv_page_bytes(const mnem_kv_layout *layout);

/* Where one sequence's pages of one layer are: page i of the sequence is at
 * base + table[i] * page_stride. Its tokens in this run are rows [first_row, first_row + rows) of
 * the inputs, at positions first_position onwards. */
typedef struct mnem_kv_sequence {
    uint8_t *base;
    uint64_t page_stride;
    const int32_t *table;
    int32_t first_position;
    int32_t first_row, rows;
} mnem_kv_sequence;

/* ---- operators ---- */

/* Shapes: T tokens (the first dimension, at most what was prepared), n wide.
 * X(NAME, text):
 * EMBED       in[0] weight [vocab, n] (any weight type, ROW or PACKED), args.ids -> out [T, n] f32
 * RMS_NORM    in[0] [T, n] or [T, heads, n] f32, in[1] weight [n] f32 -> out like in[0] (may be
 *             in[0] itself, or A8 [T, n]: quantized on the way)
 * QUANTIZE    in[0] [T, n] f32 -> out [T, n] A8
 * MATMUL      in[0] [T, k] of mnem_matmul_input(weight type), or f32 (then quantized in the
 *             workspace), in[1] weight PACKED [rows, k], in[2] bias [rows] f32 (dims 0: none)
 *             -> out [T, rows] f32; desc.accumulate adds to out. args.row_begin, row_end: which
 *             rows this call does (begin a multiple of 16, end too or = rows); args.in[1] points at
 *             row_begin's group.
 * ROPE_TABLE  args.positions [T] -> out [T, rope.dims] f32: cos then sin of each pair's angle,
 *             rope.dims / 2 each; in[0] frequency factors [rope.dims / 2] f32 (dims 0: none)
 * ROPE        in[0] [T, heads, n] f32, in[1] the table -> out like in[0], may be in[0] itself
 * KV_STORE    in[0] keys, in[1] values, [T, kv_heads, n] f32 -> the pages in args.kv. ATTENTION
 * reads
 *             only blocks of 16 positions that were stored to; their rest is zeroed here
 * ATTENTION   in[0] queries [T, heads, n] f32, pages in args.kv -> out [T, heads, n] f32 (or A8
 *             [T, heads * n]). Causal, online softmax over tiles that start at absolute positions.
 * SILU_MUL    in[0] gate, in[1] up, [T, n] f32 -> out [T, n] f32 (may be in[0]) or A8:
 *             silu(gate) * up
 * ADD         in[0], in[1] [T, n] f32 -> out (may be either)
 * COPY        in[0] f32 of any strides, up to 4 dims -> out f32 contiguous */
#define MNEM_OP_LIST(X)                                                                            \
    X(EMBED, "embed")                                                                              \
    X(RMS_NORM, "rms_norm")                                                                        \
    X(QUANTIZE, "quantize")                                                                        \
    X(MATMUL, "matmul")                                                                            \
    X(ROPE_TABLE, "rope_table")                                                                    \
    X(ROPE, "rope")                                                                                \
    X(KV_STORE, "kv_store")                                                                        \
    X(ATTENTION, "attention")                                                                      \
    X(SILU_MUL, "silu_mul")                                                                        \
    X(ADD, "add")                                                                                  \
    X(COPY, "copy")

typedef enum mnem_op_kind {
#define MNEM_OP_ENUM(name, text) MNEM_OP_##name,
    MNEM_OP_LIST(MNEM_OP_ENUM)
#undef MNEM_OP_ENUM
        MNEM_OP_COUNT
} mnem_op_kind;
const char *mnem_op_text(mnem_op_kind kind);

typedef struct mnem_rope {
    int32_t dims;    /* how many of a head's elements turn; even */
    bool neox;       /* pairs (i, i + dims/2); otherwise neighbours (2i, 2i + 1) */
    float base;      /* 10000 */
    float scale;     /* position multiplier of linear scaling and YaRN: 1/factor; 0: 1 */
    float yarn_ext;  /* 0: no YaRN; 1: YaRN's mix of interpolated and extrapolated angles */
    float yarn_attn; /* magnitude factor, before YaRN's 1 + 0.1 ln(1/scale); 0: 1 */
    float yarn_beta_fast, yarn_beta_slow; /* 32, 1 */
    int32_t original_context;             /* YaRN: context before scaling */
} mnem_rope;

typedef struct mnem_op_desc {
    mnem_op_kind kind;
    mnem_tensor in[3], out;
    int workers;           /* the largest team that will run it */
    float epsilon;         /* RMS_NORM */
    float scale;           /* ATTENTION: of the scores, usually 1/sqrt(head_dim) */
    bool accumulate;       /* MATMUL */
    mnem_rope rope;        /* ROPE_TABLE, ROPE */
    mnem_kv_layout kv;     /* KV_STORE, ATTENTION */
    int32_t max_positions; /* ATTENTION */
} mnem_op_desc;

typedef struct mnem_op mnem_op;
typedef struct mnem_op_args {
    int64_t tokens;
    const void *in[3];
    void *out;
    void *workspace; /* 64-byte aligned, op.workspace_bytes, used by all members together */
    int64_t row_begin, row_end; /* MATMUL */
    const int32_t *ids;         /* EMBED [T], each < vocab (checked by the caller) */
    const int32_t *positions;   /* ROPE_TABLE [T] */
    const mnem_kv_sequence *kv; /* KV_STORE, ATTENTION */
    int32_t kv_count;
} mnem_op_args;

struct mnem_op {
    mnem_op_desc desc;
    uint64_t workspace_bytes;
    const char *kernel; /* "matmul q4_0 avx512" */
    void (*run)(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker);
    const void *detail; /* the kernel's own constant table */
};

/* MNEM_INVALID or MNEM_UNSUPPORTED with a text that names the operator and the shape. Chooses the
 * kernel for the machine's level (registry: device, operator, type, layout). */
mnem_status mnem_op_prepare(const mnem_op_desc *desc, mnem_op *op);

static inline void mnem_op_run(const mnem_op *op, const mnem_op_args *args,
                               const mnem_worker *worker) {
    op->run(op, args, worker);
}

/* What MATMUL wants as in[0] for a weight of this type: A8 for quantized ones, F32 otherwise. */
mnem_type mnem_matmul_input(mnem_type weight);

#ifdef __cplusplus
}
#endif
#endif
