/* state.c: bytes of a recurrent state, and the walk of a run over its blocks (state_run.h).
 *
 * Blocks are dealt to the team, so that no state is written by two members. Cost: that of the
 * kernels; 16 tokens' preparation is in the second cache at most. */
#include "ops/state/state_run.h"

#include <string.h>

enum { DIMENSION_MOST = 1 << 20 };

uint64_t mnem_state_bytes(int64_t heads, int64_t rows, int64_t columns) {
    const int64_t most = DIMENSION_MOST;
    if (heads < 1 || rows < 1 || columns < 1 || heads > most || rows > most || columns > most)
        return 0;
    const uint64_t wide = (uint64_t)mnem__state_columns(columns);
    if ((uint64_t)heads * (uint64_t)rows > (1ull << 38) / wide) return 0;
    return (uint64_t)heads * (uint64_t)rows * wide * sizeof(float);
}

static int block_width(const mnem__state_run *run, int64_t column) {
    const int64_t left = mnem__state_columns(run->columns) - column;
    return left < MNEM__STATE_COLUMNS ? (int)left : MNEM__STATE_COLUMNS;
}

static void walk_block(const mnem__state_run *run, const mnem__state_part *part, float *head,
                       int64_t index, bool is_new) {
    const int64_t column = index * MNEM__STATE_COLUMNS, left = run->columns - column;
    mnem__state_block block = {.rows = run->rows,
                               .width = block_width(run, column),
                               .count =
                                   left < MNEM__STATE_COLUMNS ? (int)left : MNEM__STATE_COLUMNS,
                               .state = head + column * run->rows};
    if (is_new) memset(block.state, 0, (size_t)(run->rows * block.width) * sizeof(float));
    if (run->enter) run->enter(run->own, part, column, block.width);
    for (int t = 0; t < part->tokens; t++) run->token(run->own, part, &block, column, t);
}

static void walk_head(const mnem__state_run *run, const mnem_kv_sequence *s, float *head,
                      mnem__state_part part) {
    for (int32_t at = 0; at < s->rows; at += MNEM__STATE_TOKENS) {
        part.first_row = s->first_row + at;
        part.tokens = s->rows - at < MNEM__STATE_TOKENS ? s->rows - at : MNEM__STATE_TOKENS;
        run->prepare(run->own, &part);
        for (int64_t i = part.block_begin; i < part.block_end; i++)
            walk_block(run, &part, head, i, at == 0 && s->first_position == 0);
    }
}

void mnem__state_walk(const mnem__state_run *run, const mnem_op *op, const mnem_op_args *args,
                      const mnem_worker *worker) {
    const int64_t blocks = (run->columns + MNEM__STATE_COLUMNS - 1) / MNEM__STATE_COLUMNS;
    const int64_t head_floats = run->rows * mnem__state_columns(run->columns);
    int64_t begin, end;
    mnem_team_split(worker, run->heads * blocks, 1, &begin, &end);
    for (int32_t i = 0; i < args->kv_count; i++)
        for (int64_t at = begin, next; at < end && args->kv[i].rows > 0; at = next) {
            mnem__state_part part = {.head = at / blocks, .block_begin = at % blocks};
            next = (part.head + 1) * blocks < end ? (part.head + 1) * blocks : end;
            part.block_end = part.block_begin + (next - at);
            walk_head(run, &args->kv[i],
                      mnem__state_get(op, &args->kv[i]) + part.head * head_floats, part);
        }
}
