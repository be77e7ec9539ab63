/* mnem/ops.h: operators for inference and training, in two phases: prepare and run.
 *
 * mnem_op_prepare takes a descriptor with the largest shapes, reports every error and computes the
 * size of the workspace; mnem_op_run takes the actual number of tokens and the pointers, allocates
 * nothing and cannot fail. The caller owns all memory. Every member of a team calls run at once
 * (SPMD, base.h); a single-threaded caller passes {NULL, 0, 1}. Results don't depend on the team's
 * size, on how many tokens run together, or on how weights are split into row ranges: the shapes
 * determine the order of additions of each output.
 * Threads: a prepared operator is constant; any number of runs may share it.
 *
 *     mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .workers = 2, .epsilon = 1e-5f};
 *     d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, max_tokens, n_embd);
 *     d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, n_embd);
 *     mnem_op op;
 *     mnem_op_prepare(&d, &op);                       // op.workspace_bytes
 *     mnem_op_run(&op, &(mnem_op_args){.tokens = 3, .in = {x, w}, .out = y}, &worker);
 *
 * Costs of operators, inputs that may be overwritten, checks of arguments: op_query.h. Asynchronous
 * queues of operators, a cache of prepared operators: op_queue.h.
 */
#ifndef MNEM_OPS_H
#define MNEM_OPS_H

#include "mnem/base.h"
#include "mnem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- KV pages ---- */

/* A page holds page_tokens consecutive positions of one layer, keys and values of all KV heads.
 * Types: MNEM_TYPE_F16, _F32, or MNEM_TYPE_Q8_0 and _Q4_0 (widths are multiples of 32). */
typedef struct mnem_kv_layout {
    mnem_type type; /* of keys, and of values unless these are apart */
    int32_t kv_heads, head_dim;
    int32_t page_tokens;  /* a multiple of 16 */
    int32_t value_dim;    /* the width of a head's values; 0: that of its keys, head_dim */
    mnem_type value_type; /* of values, if they are apart */
    bool apart, keys_rotated, values_rotated; /* rotated: by a Hadamard matrix, each head */
} mnem_kv_layout;
/* Bytes of one page of one layer (a multiple of 64); 0: the layout is invalid. */
uint64_t mnem_kv_page_bytes(const mnem_kv_layout *layout);
/* Behind keys and values a page may hold an index key of each position: width numbers (at most
 * 1024), f32 in pages of f32, else f16. Returns their bytes in a page (a multiple of 64, or 0). */
uint64_t mnem_index_page_bytes(const mnem_kv_layout *layout, int32_t width);
/* A page of a layer with a short convolution holds its last length - 1 columns of width f32 instead
 * (short_conv.c); returns its bytes (a multiple of 64; 0: invalid). */
enum { MNEM_CONV_LENGTH_MAX = 16 };
uint64_t mnem_conv_page_bytes(int64_t width, int32_t length);

/* A recurrent state: a matrix [rows, columns] f32 for each head, in blocks of 32 columns, each
 * contiguous; returns its bytes (a multiple of 64; 0: invalid, more than 2^20 each or 2^40 bytes).
 * DELTA: rows are key channels, columns value channels. SCAN: state numbers, channels of a head. */
uint64_t mnem_state_bytes(int64_t heads, int64_t rows, int64_t columns);

/* The pages of one sequence for one layer: page i of the sequence is at base + table[i] *
 * page_stride. Its tokens in this run are rows [first_row, first_row + rows) of the inputs, at
 * positions from first_position on. A state (CONV_SILU, DELTA, SCAN) is page 0, from
 * desc.state_offset on: a run reads the state after the token before first_position, and leaves
 * the state after its last token. At first_position 0 the state isn't read, so a new one needn't be
 * cleared. */
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
 * RMS_NORM    in[0] [T, n] or [T, heads, n] f32, in[1] weight [n] f32, of heads also [heads * n]
 *             (dims 0: none) -> out like in[0] (may be in[0] itself), or A8 [T, n]: then the result
 *             is quantized
 * QUANTIZE    in[0] [T, n] f32 -> out [T, n] A8
 * MATMUL      in[0] [T, k] of mnem_matmul_input(weight type), or f32 (then quantized in the
 *             workspace), in[1] weight PACKED [rows, k] (4 bits with scales and zeros of others:
 *             mnem_pack_int4) or SPARSE (2:4), in[2] bias [rows] f32 (dims 0: none)
 *             -> out [T, rows] f32; with desc.accumulate it is added to out. args.row_begin,
 *             row_end: the rows that this call computes (begin a multiple of 16, end too or =
 *             rows); args.in[1] points to row_begin's group. With in[0] [T, heads, k] f32 and out
 *             [T, heads, rows / heads] each head has rows of its own, a multiple of 16. in[3] isn't
 *             read (graph.h: a tap). With desc.low, in[4] [T, sum of ranks] f32 is LOW_RANK's out:
 *             B in[4] of the products that a row uses (args.low) is added at the end, in order
 * LOW_RANK    in[0] x [T, k] f32, desc.low and args.low (tensor.h) -> out [T, sum of ranks] f32:
 *             scale A x of the products that a row uses, side by side
 * ROPE_TABLE  args.positions [T] -> out [T, rope.dims] f32, F64: cos then sin of each pair's angle,
 *             rope.dims / 2 each; in[0] frequency factors [rope.dims / 2] f32 (dims 0: none)
 * ROPE        in[0] [T, heads, n] f32, in[1] the table -> out like in[0], may be in[0] itself
 * KV_STORE    in[0] keys [T, kv_heads, n], in[1] values [T, kv_heads, v] f32 -> the pages in
 *             args.kv, in blocks of 16 positions; the rest of a block is zeroed. v is value_dim of
 *             desc.kv, or n. ATTENTION reads such blocks only
 * ATTENTION   in[0] queries [T, heads, n] f32, pages in args.kv -> out [T, heads, v] f32 (or A8
 *             [T, heads * v]). Causal, online softmax over tiles that start at absolute positions.
 *             With desc.window a row attends to that many positions, the last of them its own
 *             (window_chunks: to those from the last multiple of window on); with desc.soft_cap a
 *             score is soft_cap * tanh(score / soft_cap). With desc.both_ways a row attends to its
 *             whole sequence, up to the last row of this run. in[1] sinks [heads] f32 (dims 0:
 *             none): a score per head more, whose value vector is zero. in[2] INDEX's out [T, k]
 *             (dims 0: none): rows at positions from k on attend to these positions only
 * INDEX_STORE  in[0] index keys [T, n] f32 (n at most 1024) -> the pages in args.kv, from
 *             desc.state_offset on, mnem_index_page_bytes(kv, n) a page
 * INDEX       a sparse attention's choice (DeepSeek-V3.2, 2025). in[0] queries [T, heads, n] f32,
 *             in[1] weights [T, heads] f32, index keys in args.kv -> out [T, k] I32: of a row at a
 *             position from k on the k positions up to its own, ascending, with the largest sums
 *             over heads of weight * max(query . key, 0); of equal ones the first. Rows before see
 *             all positions, and nothing is written for them
 * SILU_MUL    in[0] gate, in[1] up, [T, n] f32 -> out [T, n] f32 (may be in[0]) or A8: silu(gate)
 *             * up. With desc.limit (F32 only) min(silu(gate), limit) times up within +-limit
 * GELU_MUL    the same with GELU (tanh form) in the place of silu
 * RELU_MUL    the same with max(gate, 0) in the place of silu, of F32 only
 * SOFT_CAP    in[0] [T, n] f32 -> out (may be in[0]): desc.scale * tanh(in[0] / desc.scale)
 * ADD         in[0], in[1] [T, n] f32 -> out (may be either input); see also below
 * SHORT_CONV  in[0] b, c, x side by side [T, 3 n] f32, in[1] weight [n, length] f32 (2 to 16),
 *             pages of columns in args.kv (page_tokens of desc.kv) -> out [T, n] f32: c times the
 *             convolution of b x over the last length positions. Those before this run come from
 *             the pages, those before 0 are zeros; then this run's are written to the pages
 * CONV_SILU   in[0] x [T, n] f32, in[1] weight [n, length] f32 (2 to 16), in[2] bias [n] f32 (dims
 *             0: none), a state of mnem_conv_page_bytes(n, length) in args.kv -> out [T, n] f32
 *             (may be in[0]): silu of bias + the convolution of x over the last length positions
 * DELTA       gated delta rule (Yang et al. 2024). in[0] q, in[1] k [T, key_heads, n] f32, in[2] v
 *             [T, heads, m], in[3] decay [T, heads] (or [T, heads, n]: one for each channel of k),
 *             in[4] beta [T, heads], in[5] a [heads], in[6] bias [heads] (or [heads, n], as in[3]),
 *             all f32, a state of mnem_state_bytes(heads, n, m) in args.kv -> out [T, heads, m]
 *             f32. heads is a multiple of key_heads: value head h uses key head h / (heads /
 *             key_heads), with desc.tiled h % key_heads. For each head and token, S [n, m]:
 *             q' = desc.scale q / sqrt(q.q + epsilon), k' = k / sqrt(k.k + epsilon),
 *             S = exp(a softplus(decay + bias)) S, d = sigmoid(beta) (v - S^T k'), S += k' d^T,
 *             out = S^T q'
 * SCAN        selective scan. in[0] x [T, heads, m], in[1] dt [T, heads], in[2] B, in[3] C [T,
 *             groups, n], in[4] A [heads], in[5] D [heads], in[6] bias [heads] (dims 0: none), all
 *             f32, a state of mnem_state_bytes(heads, n, m) in args.kv -> out [T, heads, m] f32:
 *             Mamba 2 (Dao and Gu 2024); head h uses group h / (heads / groups). With in[0], in[1]
 *             and out [T, m], in[2], in[3] [T, n], in[4] [m, n], in[5] and in[6] [m]: Mamba 1 (Gu
 *             and Dao 2023), a state of mnem_state_bytes(1, n, m). For each channel, h [n]:
 *             s = softplus(dt + bias), h = exp(s A) h + s x B, out = sum(C h) + D x
 * SIGMOID_MUL  in[0] gate, in[1] up [T, n] or [T, heads, n] f32 -> out of the same shape (may be
 *             either): up / (1 + e^-gate), or with desc.softplus up * ln(1 + e^gate). in[0] may be
 *             [T, heads, 1], one gate for each head (out isn't in[0] then)
 * MUL         in[0], in[1] [T, n] f32 -> out of the same shape (may be either): their product by
 *             elements; in[1] may have strides of 0
 *
 * For training. "real" is any mix of F32, BF16 and F16 (sums in f32), or F64 for all operands (for
 * finite differences). Gradients of weights and biases are F32 (F64) and are always accumulated;
 * desc.accumulate tells whether other outputs are. An output with dims 0 isn't computed. Rows may
 * have gaps between them; operands are [T, heads, n] where stated. EMBED, RMS_NORM, ROPE, SILU_MUL
 * and ADD take real operands too; then ROPE's table is F32 (F64). Elementwise operators also allow
 * gaps within rows.
 * LINEAR      in[0] x [T, k] real, in[1] weight ROW [rows, k] (real, or any weight type), in[2]
 *             bias [rows] (dims 0: none) -> out [T, rows]
 * LINEAR_GRAD_INPUT  in[0] dy [T, rows], in[1] weight ROW [rows, k] -> out dx [T, k]
 * LINEAR_GRAD_WEIGHT  in[0] dy [T, rows], in[1] x [T, k] -> out dweight [rows, k], also[0] dbias
 * LINEAR_LOSS cross-entropy of x times the transposed weight, a few rows of logits at a time:
 *             in[0] x [T, n], in[1] weight ROW [vocab, n], args.targets [T] (-1: not counted)
 *             -> out [T] F32 (F64) losses in nats, also[0] dx [T, n], also[1] dweight [vocab,
 *             n]: gradients of args.gradient_scale * the sum of losses; dx honours
 *             desc.accumulate, losses never do. The size of the workspace is bounded for any vocab
 *             (linear_loss.c). Logits are computed twice for words whose logits of 256 tokens don't
 *             fit desc.keep_bytes (up to 8192 words always fit): a third more products, the same
 *             bits. With a teacher's in[2] [T, n2] and in[3] weight ROW [vocab, n2] the loss is
 *             (1 - a) times the cross-entropy plus a T^2 times the divergence of
 *             softmax(logits / T) from the teacher's, a = desc.teach_weight,
 *             T = desc.teach_temperature (without in[2]: the first term)
 * STATE_LOSS  in[0] x, in[1] a teacher's [T, n] real, args.targets [T] (-1: not counted) -> out
 *             [T] F32 (F64) desc.scale times |x - in[1]|^2 over |in[1]|^2 + n desc.epsilon
 * STATE_LOSS_GRAD  the same -> out dx [T, n] of args.gradient_scale * the sum of those
 * RMS_NORM_GRAD  in[0] x, in[1] weight [n], in[2] dy (like x) -> out dx, also[0] dweight [n].
 *             Gradients of norms are summed in blocks of 32 tokens, added one after another: a
 *             batch in parts of whole blocks gives the same bits
 * LAYER_NORM  in[0] x [T, n], in[1] weight [n], in[2] bias [n] or nothing -> out [T, n] (of F32
 *             operands also A8, like RMS_NORM)
 * LAYER_NORM_GRAD  in[0] x, in[1] weight, in[2] dy -> out dx, also[0] dweight, also[1] dbias
 * GELU        tanh form: in[0] [T, n] -> out (may be in[0]; of F32 also A8)
 * GELU_ERF    the same in its exact form, of F32 only: in[0] times the normal distribution
 * RELU_SQUARED  max(in[0], 0)^2, of F32 only, else like GELU
 * XIELU       in[0] x [T, n] f32, like GELU (Huang and Schlag 2025): with desc.xielu a, b, c, e it
 *             is a x^2 + c x above 0, else b (e^min(x, e) - 1 - x) + c x
 * GELU_GRAD   in[0] x, in[1] dy -> out dx (may be in[1])
 * SILU_MUL_GRAD  in[0] gate, in[1] up, in[2] dy -> out dgate, also[0] dup
 * EMBED_GRAD  in[0] dy [T, n], args.ids (args.positions with desc.by_position) -> out dweight
 *             [vocab, n], each row added to in the order of the tokens; with desc.by_token out
 *             has a row for each of these instead
 * DROPOUT     in[0] [T, n] -> out (may be in[0]): each element is zeroed with probability
 *             desc.dropout, by a random number that depends on args.seed, desc.stream, the row's
 *             absolute number (args.row_base + row) and the column; the others are divided by
 *             1 - dropout. The operator is its own gradient. NaN and infinity are multiplied by 0,
 *             so they remain visible as NaN
 * SCALE       in[0] [T, n], or [T, heads, n] F32 with gaps between heads -> out (may be in[0]):
 *             times desc.scale. It is its own gradient
 * CAUSAL_ATTENTION  in[0] q [T, heads, n], in[1] k, in[2] v [T, kv_heads, n], T whole sequences
 *             of desc.sequence tokens, or the beginning of one; n at most 256 -> out [T, heads, n]
 *             (never accumulated), also[0] the log of the sum of exponentials [T, heads] F32 (F64).
 *             Computed in tiles, without the matrix of scores. Later tokens have no influence
 * CAUSAL_ATTENTION_GRAD  in[0] q, in[1] k, in[2] v, in[3] out, in[4] that log, in[5] dout ->
 *             out dq, also[0] dk, also[1] dv (desc.accumulate: all three are accumulated)
 *
 * Mixtures of experts (Shazeer et al. 2017), N experts of which a token uses k = desc.route.used:
 * ROUTE       in[0] scores [T, N] f32, in[1] [N] f32 added for the choice alone, in[2] [N] f32, a
 *             factor of each expert's weight (dims 0: none) -> out [T, 2 k] f32: numbers of the k
 *             best experts (the first of equal ones), ascending, then their weights in this order
 *             With desc.route.groups the experts form that many groups of equal size, and only the
 *             groups_used groups are considered whose two best scores have the largest sums
 *             (groups_by_best: whose best score is largest)
 *             With desc.route.mixer (SparseMixer, Liu et al. 2023) an expert's weight is its
 *             softmax over those scores that are not further below it than mixer times the larger
 *             of the two sizes, without the experts chosen before it; scores are not biased
 * EXPERTS     in[0] [T, n] as MATMUL takes it, in[1] gates, in[2] ups PACKED [N * ff, n], in[3]
 *             downs PACKED [N * n_out, ff], in[4] ROUTE's out, in[5] biases [N * (2 ff + n_out)]
 *             f32, all gates', then ups', then downs' (dims 0: none) -> out [T, n_out] f32: the sum
 *             of weight * down(core(gate x, up x)) over a token's experts, added in the order of
 *             their numbers. desc.core: SILU_MUL, GELU_MUL, SWIGLU_MUL or RELU_MUL; ff and n_out
 *             are multiples of 16. Without in[2] (dims 0) in[1] is [N * 2 ff, n], of each expert
 *             its gates, then its ups; or with the core RELU_SQUARED its ups [N * ff, n] alone;
 *             then without in[5]. desc.route.on_input: weights multiply gate x and up x, not the
 *             results. in[6] isn't read (graph.h: a guess). Experts come from args.experts, each
 *             once for all its tokens
 *             With desc.apart in[1] to in[3] and in[5] hold only the experts from number desc.axis
 *             on, which args.experts counts from 0, and out is [T, used * n_out]: the results of
 *             down, side by side for a token's experts; those of absent experts aren't written
 * EXPERTS_SUM in[0] [T, used * n] f32, the complete output of EXPERTS apart, in[1] ROUTE's out ->
 *             out [T, n] f32: bit-identical to EXPERTS (route.on_input as there)
 * SWIGLU_MUL  in[0] gate, in[1] up, like SILU_MUL: g / (1 + e^(-1.702 g)) * (u + 1), with
 *             g = min(gate, 7), u = up within -7 to 7
 * ROW_GATE    in[0] [T, n] f32, in[1] [T, k] f32, in[2] weight [k] f32 -> out (may be in[0]): each
 *             row times the sigmoid of in[1]'s row times the weight
 * ROW_LEVEL   in[0] [T, n] f32, in[1] [T, k] f32 -> out [T, n] (may be in[0]): each row times the
 *             root mean square of in[1]'s row over its own, which is sqrt(desc.epsilon) or more
 * ROW_CUT     in[0] x [T, n] f32 -> out (may be in[0]): max(x - c, 0), where c is the mean of the
 *             row plus desc.scale times its standard deviation
 *
 * Generic ones: 1 to 4 dimensions, any strides that are multiples of the element, none negative
 * (refused), those of inputs also 0; elements of out don't overlap. A transposed operand is one
 * whose strides are exchanged (mnem_tensor_permute); a new axis has shape 1. A kernel that needs
 * contiguous data copies it to the workspace or the stack. "real" as above, F64 for all operands
 * or for none. T is out's first dimension (REDUCE: of in[0]; CONCAT on axis 0: isn't read).
 * ADD         in[0] + desc.alpha * in[1] -> out, real. Inputs are broadcast as in NumPy: the last
 *             dimensions are those of out or 1. The product is rounded, then the sum
 * SOFTMAX     in[0] -> out of its shape (may be in[0]), real, over dimension desc.axis
 * PRODUCT     in[0] [.., m, k] times in[1] [.., k, n] -> out [.., m, n], real, sums in f32 in the
 *             order of k; dimensions before the last two are broadcast. desc.accumulate adds to out
 * REDUCE      in[0] -> out [the same, 1 where bit d of desc.axes is set], real: desc.reduce. Sums
 *             are f64, rounded once; a NaN makes max and min NaN
 * CONCAT      in[0], in[1], ... (up to 7, the list ends at the first absent one) -> out,
 *             concatenated on desc.axis; any type of single elements, the same for all
 * GATHER      in[0] [T, k] -> columns [desc.axis, desc.axis + k) of out [T, n], F32 or A8 (then
 *             the columns are whole blocks of 32); in[0] may already be in its place in out. Other
 *             programs have the other columns: a graph's run receives them (graph.h). With in[1],
 *             ROUTE's out: rows of EXPERTS apart, in place (out is in[0]); other programs have
 *             those of other experts
 * CAST        in[0] -> out of its shape, from and to F32, F16, BF16, F64, I8, I16, I32, I64. Rounds
 *             to nearest even; to integers towards 0. A value out of range becomes the nearest
 *             number of the type (floats: infinity); NaN becomes the integer 0
 * COPY        in[0] -> out of its shape and type, any type of single elements. A transposition is a
 *             COPY of an operand with exchanged strides */
#define MNEM_OP_LIST(X)                                                                            \
    X(EMBED, "embed")                                                                              \
    X(RMS_NORM, "rms_norm")                                                                        \
    X(QUANTIZE, "quantize")                                                                        \
    X(MATMUL, "matmul")                                                                            \
    X(LOW_RANK, "low_rank")                                                                        \
    X(ROPE_TABLE, "rope_table")                                                                    \
    X(ROPE, "rope")                                                                                \
    X(KV_STORE, "kv_store")                                                                        \
    X(ATTENTION, "attention")                                                                      \
    X(SILU_MUL, "silu_mul")                                                                        \
    X(ADD, "add")                                                                                  \
    X(COPY, "copy")                                                                                \
    X(LINEAR, "linear")                                                                            \
    X(LINEAR_GRAD_INPUT, "linear_grad_input")                                                      \
    X(LINEAR_GRAD_WEIGHT, "linear_grad_weight")                                                    \
    X(LINEAR_LOSS, "linear_loss")                                                                  \
    X(RMS_NORM_GRAD, "rms_norm_grad")                                                              \
    X(LAYER_NORM, "layer_norm")                                                                    \
    X(LAYER_NORM_GRAD, "layer_norm_grad")                                                          \
    X(GELU, "gelu")                                                                                \
    X(GELU_GRAD, "gelu_grad")                                                                      \
    X(SILU_MUL_GRAD, "silu_mul_grad")                                                              \
    X(EMBED_GRAD, "embed_grad")                                                                    \
    X(DROPOUT, "dropout")                                                                          \
    X(SCALE, "scale")                                                                              \
    X(GELU_MUL, "gelu_mul")                                                                        \
    X(SOFT_CAP, "soft_cap")                                                                        \
    X(SHORT_CONV, "short_conv")                                                                    \
    X(GELU_ERF, "gelu_erf")                                                                        \
    X(CAUSAL_ATTENTION, "causal_attention")                                                        \
    X(CAUSAL_ATTENTION_GRAD, "causal_attention_grad")                                              \
    X(ROUTE, "route")                                                                              \
    X(EXPERTS, "experts")                                                                          \
    X(SWIGLU_MUL, "swiglu_mul")                                                                    \
    X(ROW_GATE, "row_gate")                                                                        \
    X(SOFTMAX, "softmax")                                                                          \
    X(PRODUCT, "product")                                                                          \
    X(REDUCE, "reduce")                                                                            \
    X(CONCAT, "concat")                                                                            \
    X(CAST, "cast")                                                                                \
    X(STATE_LOSS, "state_loss")                                                                    \
    X(STATE_LOSS_GRAD, "state_loss_grad")                                                          \
    X(GATHER, "gather")                                                                            \
    X(EXPERTS_SUM, "experts_sum")                                                                  \
    X(CONV_SILU, "conv_silu")                                                                      \
    X(DELTA, "delta")                                                                              \
    X(SCAN, "scan")                                                                                \
    X(SIGMOID_MUL, "sigmoid_mul")                                                                  \
    X(MUL, "mul")                                                                                  \
    X(RELU_SQUARED, "relu_squared")                                                                \
    X(RELU_MUL, "relu_mul")                                                                        \
    X(XIELU, "xielu")                                                                              \
    X(INDEX_STORE, "index_store")                                                                  \
    X(INDEX, "index")                                                                              \
    X(ROW_LEVEL, "row_level")                                                                      \
    X(ROW_CUT, "row_cut")

typedef enum mnem_op_kind {
#define MNEM_OP_ENUM(name, text) MNEM_OP_##name,
    MNEM_OP_LIST(MNEM_OP_ENUM)
#undef MNEM_OP_ENUM
        MNEM_OP_COUNT
} mnem_op_kind;
const char *mnem_op_text(mnem_op_kind kind);

/* Where operands are stored and kernels run. X(NAME, text). All kernels run on the host so far. */
#define MNEM_OP_DEVICE_LIST(X)                                                                     \
    X(HOST, "host")                                                                                \
    X(CUDA, "cuda")                                                                                \
    X(ASCEND, "ascend")

typedef enum mnem_op_device {
#define MNEM_OP_DEVICE_ENUM(name, text) MNEM_OP_DEVICE_##name,
    MNEM_OP_DEVICE_LIST(MNEM_OP_DEVICE_ENUM)
#undef MNEM_OP_DEVICE_ENUM
        MNEM_OP_DEVICE_COUNT
} mnem_op_device;

typedef struct mnem_rope {
    int32_t dims;    /* number of a head's elements that are rotated; even */
    bool neox;       /* pairs (i, i + dims/2); otherwise neighbours (2i, 2i + 1) */
    float base;      /* 10000 */
    float scale;     /* position multiplier of linear scaling and YaRN: 1/factor; 0: 1 */
    float yarn_ext;  /* 0: no YaRN; 1: YaRN's mix of interpolated and extrapolated angles */
    float yarn_attn; /* magnitude factor, before YaRN's 1 + 0.1 ln(1/scale); 0: 1 */
    float yarn_beta_fast, yarn_beta_slow; /* 32, 1 */
    bool yarn_unrounded;      /* the limits of the mix aren't rounded to whole pairs of elements */
    int32_t original_context; /* YaRN: context before scaling */
} mnem_rope;

/* How ROUTE chooses experts, and how it computes their weights from the scores. */
typedef struct mnem_route {
    int32_t used;                /* experts of a token */
    bool sigmoid;                /* of each score; else softmax over all scores of a token */
    bool normalized;             /* the weights of those used are divided by their sum */
    float scale;                 /* then multiplied by this; 0: 1 */
    int32_t groups, groups_used; /* 0: no groups */
    bool groups_by_best;         /* groups are ranked by their best expert; else by the two best */
    float mixer;                 /* 0: off */
    bool on_input;               /* EXPERTS: weights multiply what experts read */
} mnem_route;

/* a, b, c, e of XIELU. */
typedef struct mnem_xielu {
    float a, b, c, e;
} mnem_xielu;

/* The reduction of REDUCE. */
typedef enum mnem_reduce {
    MNEM_REDUCE_SUM,
    MNEM_REDUCE_MEAN,
    MNEM_REDUCE_MAX,
    MNEM_REDUCE_MIN,
    MNEM_REDUCE_COUNT
} mnem_reduce;

enum { MNEM_OP_INPUTS = 7, MNEM_OP_ALSO = 2 };

/* size identifies the version of this struct that a program was built with: MNEM_OP_DESC_INIT sets
 * it, 0 stands for the version of the library (linked statically, or built together). Later
 * versions add fields at the end, whose zeros keep the former behaviour. prepare accepts a longer
 * struct whose additional bytes are zero, and refuses a shorter one, since mnem_op has grown with
 * it. */
typedef struct mnem_op_desc {
    uint32_t size;
    mnem_op_kind kind;
    mnem_op_device device; /* default: host */
    mnem_tensor in[MNEM_OP_INPUTS], out;
    mnem_tensor also[MNEM_OP_ALSO]; /* further outputs */
    int32_t workers;                /* the largest team that will run it */
    float epsilon;                  /* norms; DELTA */
    float scale;                    /* ATTENTION: of the scores, usually 1/sqrt(head_dim); SCALE;
                                       SOFT_CAP: the cap; STATE_LOSS(_GRAD); DELTA: of q */
    bool accumulate;                /* MATMUL, gradients: results are added to out */
    mnem_rope rope;                 /* ROPE_TABLE, ROPE */
    bool inverse;                   /* ROPE: inverse rotation, which is its gradient */
    mnem_kv_layout kv;         /* KV_STORE, ATTENTION, INDEX(_STORE); SHORT_CONV: page_tokens */
    int32_t max_positions;     /* ATTENTION, INDEX */
    int32_t window;            /* ATTENTION: 0: all positions */
    bool window_chunks;        /* ATTENTION: windows begin at multiples of their length */
    float soft_cap;            /* ATTENTION: 0: none */
    bool both_ways;            /* ATTENTION: not causal */
    float temperature;         /* ATTENTION: what the scores of a row at position p are */
    int32_t temperature_every; /* multiplied by: 1 + temperature ln(1 + p / every) in whole
                                       numbers; 0: nothing */
    bool temperature_from_1;   /* ATTENTION: the first position is 1 there */
    mnem_xielu xielu;          /* XIELU */
    bool by_position;          /* EMBED: a row for each of args.positions, not of args.ids */
    bool by_token;             /* EMBED_GRAD: out has a row for each token */
    int32_t sequence;          /* CAUSAL_ATTENTION: tokens of one sequence */
    float dropout;             /* DROPOUT: probability, 0 to below 1 */
    uint32_t stream;           /* DROPOUT: a distinct number for each place in a model */
    uint64_t keep_bytes;       /* LINEAR_LOSS: bytes of logits that may be kept, 0: 4 MiB */
    float teach_weight;        /* LINEAR_LOSS: a teacher's, 0 to 1 */
    float teach_temperature;   /* of its logits and the student's, 0.001 to 1000 */
    mnem_route route;          /* ROUTE, EXPERTS */
    mnem_op_kind core;         /* EXPERTS */
    float alpha;               /* ADD: of in[1]; 0: 1 */
    int32_t axis;              /* SOFTMAX, CONCAT: a dimension, 0 the slowest;
                                       GATHER: the first column; EXPERTS: its first expert */
    uint32_t axes;             /* REDUCE: bits of dimensions */
    mnem_reduce reduce;        /* REDUCE */
    bool apart;                /* EXPERTS: outputs of experts aren't summed */
    bool tiled;                /* DELTA: which key head a value head uses */
    uint64_t state_offset;     /* CONV_SILU, DELTA, SCAN: bytes from the beginning of page 0
                                       to the state, a multiple of 64; INDEX(_STORE): of each
                                       page to its index keys */
    float limit;               /* SILU_MUL, EXPERTS with that core: 0: none */
    bool softplus;             /* SIGMOID_MUL */
    int32_t low_count;         /* LOW_RANK, MATMUL */
    const mnem_low_rank *low;  /* [low_count], borrowed while it is used */
} mnem_op_desc;

#define MNEM_OP_DESC_INIT                                                                          \
    { .size = sizeof(mnem_op_desc) }

/* One expert's matrices. */
typedef struct mnem_op_expert {
    int32_t number;
    const void *packed[3]; /* gate, up, down: its first group */
} mnem_op_expert;

/* The source of EXPERTS' matrices. want: called by worker 0 with the experts that the tokens use,
 * ascending; the array stays valid until the run ends. in_order: they must be delivered in this
 * order; otherwise in any order. next: called by every member for at = 0, 1, ..., count - 1, fills
 * in the at-th expert: the same one for all members, valid until the next call; false ends the run,
 * whose out is undefined then. */
typedef struct mnem_op_experts {
    void (*want)(void *context, const int32_t *numbers, int32_t count, bool in_order);
    bool (*next)(void *context, const mnem_worker *worker, int32_t at, mnem_op_expert *expert);
    void *context;
} mnem_op_experts;

typedef struct mnem_op mnem_op;
typedef struct mnem_op_args {
    int64_t tokens;
    const void *in[MNEM_OP_INPUTS];
    void *out;
    void *also[MNEM_OP_ALSO];
    void *workspace; /* 64-byte aligned, op.workspace_bytes, used by all members together */
    int64_t row_begin, row_end; /* MATMUL */
    const int32_t *ids;         /* EMBED(_GRAD) [T], each < vocab (checked by the caller) */
    const int32_t *positions;   /* ROPE_TABLE [T]; by_position: each < vocab */
    const mnem_kv_sequence *kv; /* KV_STORE, ATTENTION, SHORT_CONV, INDEX(_STORE); states */
    int32_t kv_count;
    const int32_t *targets;         /* LINEAR_LOSS [T], each < vocab or -1 (checked by the caller);
                               STATE_LOSS(_GRAD) */
    float gradient_scale;           /* LINEAR_LOSS, STATE_LOSS_GRAD */
    uint64_t seed;                  /* DROPOUT */
    int64_t row_base;               /* DROPOUT */
    const mnem_op_experts *experts; /* EXPERTS */
    const mnem_low_rank_run *low;   /* LOW_RANK, MATMUL with desc.low or soon */
    const mnem_op *soon;            /* MATMUL: a later LOW_RANK, for which it fetches; or NULL */
} mnem_op_args;

struct mnem_op {
    void (*run)(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker);
    uint64_t workspace_bytes;
    const char *kernel; /* "matmul q4_0 avx512" */
    const void *detail; /* the kernel's own constant table */
    mnem_op_desc desc;  /* last: programs of another version find what is before it */
};

/* Prepares an operator, and chooses the kernel for the processor's level (registry: operator, type,
 * layout). MNEM_INVALID or MNEM_UNSUPPORTED with a text that names the operator and the shape. */
mnem_status mnem_op_prepare(const mnem_op_desc *desc, mnem_op *op);

static inline void mnem_op_run(const mnem_op *op, const mnem_op_args *args,
                               const mnem_worker *worker) {
    op->run(op, args, worker);
}

/* The type that MATMUL requires as in[0] for a weight of this type: A8 for quantized ones, F32
 * otherwise. */
mnem_type mnem_matmul_input(mnem_type weight);

#ifdef __cplusplus
}
#endif
#endif
