/* weights_private.h: the tables of weights, shared by its files.
 *
 *     weights_layout.c   how a matrix is cut into chunks, and where a chunk lies in a slot
 *     weights_reader.c   the threads that read and pack, and the order in which they do
 *     weights_experts.c  experts that are wanted, read into slots that stay
 *     weights.c          what the owner calls
 *     weights_source.c   what a graph's run calls
 *
 * A slot holds one chunk. The raw bytes are read to its end, so far behind the start that packing
 * group by group forward never writes what isn't packed yet; then the packed groups lie at 0.
 *
 *     slot: [packed g0][packed g1][packed g2]...            ]
 *                      [ head | raw g0 | raw g1 | raw g2 ...]
 *                      raw_at, a multiple of 4096, as is what is read from the file
 *
 * Chunks are numbered by tickets in the order of the schedule; ticket t lies in slot t % slots. */
#ifndef MNEM_SRC_MODEL_WEIGHTS_WEIGHTS_PRIVATE_H
#define MNEM_SRC_MODEL_WEIGHTS_WEIGHTS_PRIVATE_H

#include <pthread.h>

#include "base/thread.h"
#include "model/gguf/gguf.h"
#include "model/weights/expert_cache.h"
#include "model/weights/weights.h"

enum {
    MNEM__WEIGHTS_ALIGNMENT = 4096, /* of direct reads: offset, length and address */
    MNEM__WEIGHTS_READERS = 2,      /* one reads while the other packs */
    MNEM__WEIGHTS_STACK_BYTES = 128 * 1024,
    MNEM__WEIGHTS_PASSES = 64, /* scheduled at one time */
};

typedef struct mnem__matrix {
    const char *name; /* the model's */
    int32_t made;     /* the tensor's index where its bytes aren't the file's as they are; or -1 */
    mnem_type type;
    mnem_layout layout; /* packed so */
    bool compact;       /* in the file, too */
    uint32_t file;
    bool resident;
    uint32_t sum_at; /* of chunk 0; of the body and the head */
    int64_t rows, k;
    mnem__row_spans here;  /* which of the tensor's rows these are */
    int64_t expert_groups; /* of 16 rows of each expert; 0: a matrix by itself */
    int expert_matrices;   /* of each expert, if this is their first: 2 where it has gates and ups,
                              or ups alone */
    uint64_t offset;       /* in the file */
    uint64_t row_bytes, raw_bytes, packed_bytes; /* of a row in the file; of a group of 16 */
    int64_t chunk_groups, chunks;
    uint64_t raw_at; /* in a slot, of a chunk that is packed there */
    uint64_t place;  /* in the resident block */
} mnem__matrix;

/* Matrices by index, in an order of use. */
typedef struct mnem__matrix_list {
    int32_t *index;
    int32_t count;
} mnem__matrix_list;

/* A place in the order: a pass by its number since the start, a matrix of its list, a chunk. */
typedef struct mnem__weights_cursor {
    uint64_t pass;
    int32_t at;
    int64_t chunk;
} mnem__weights_cursor;

enum {
    MNEM__EXPERT_MATRICES = 3,    /* gate, up, down; at the most */
    MNEM__EXPERT_SLOTS_LEAST = 4, /* two are held, two are read */
};

/* Mixtures whose experts aren't resident. */
typedef struct mnem__weights_mixtures_info {
    int32_t mixtures, experts; /* the most that one has */
    int32_t total, slots;
    uint64_t slot_bytes, file_bytes;
} mnem__weights_mixtures_info;

typedef enum mnem__expert_state {
    MNEM__EXPERT_NOBODY, /* nothing that could be used */
    MNEM__EXPERT_READING,
    MNEM__EXPERT_DROPPED, /* being read, but not wanted any more */
    MNEM__EXPERT_READY,
} mnem__expert_state;

/* Experts of one mixture that are to be read, if they aren't there. */
typedef struct mnem__expert_list {
    int32_t mixture, count;
    int32_t *number; /* [experts], ascending; of a guess the most certain first */
    bool *done;      /* [experts] handed out; of a guess never */
    int32_t at;      /* all before are done; of a guess: looked at */
} mnem__expert_list;

typedef struct mnem__expert_reads {
    /* constant after create */
    mnem_on_experts *on_want; /* or NULL */
    void *on_want_context;
    int32_t mixtures;
    int32_t *gates; /* [mixtures] matrices */
    uint8_t *base;
    uint64_t slot_bytes;
    /* under the lock */
    mnem__expert_cache cache;
    uint8_t *state; /* [slots] mnem__expert_state */
    bool *held;     /* [slots] by the owner */
    bool *guessed;  /* [slots] read before anything wanted it, which nothing did yet */
    uint32_t *sums; /* [mixtures][experts] of what was read; 0: not read yet */
    mnem__expert_list want, guess;
    bool in_order;
} mnem__expert_reads;

typedef enum mnem__slot_state {
    MNEM__SLOT_FREE,
    MNEM__SLOT_READING,
    MNEM__SLOT_DROPPED, /* being read, but not wanted any more */
    MNEM__SLOT_READY,
    MNEM__SLOT_HELD, /* by the owner */
} mnem__slot_state;

typedef struct mnem__ring_slot {
    mnem__slot_state state;
    uint64_t pass;
} mnem__ring_slot;

typedef enum mnem__weights_mode {
    MNEM__WEIGHTS_IDLE,
    MNEM__WEIGHTS_LOADING,
    MNEM__WEIGHTS_STREAMING,
} mnem__weights_mode;

typedef struct mnem__weights_part {
    const mnem__gguf_part *file; /* the model's */
    int fd;
    atomic_bool direct;
} mnem__weights_part;

struct mnem__weights {
    /* constant after create */
    const mnem_model *model;
    int32_t first_handle;
    const void *(*more)(void *context, int32_t handle);
    void *more_context;
    mnem__matrix *matrices;
    int32_t matrix_count;
    uint32_t owner; /* of their names in a trace (base/event.h) */
    mnem__matrix_list pass_list[MNEM__PASSES], load_list;
    mnem__weights_part *parts;
    uint32_t part_count;
    mnem__location resident;
    uint8_t *ring;
    uint64_t slot_bytes;
    uint32_t slot_count;
    bool page_cache;

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t for_readers, for_owner;
    mnem__weights_mode mode;
    bool stop;
    mnem__ring_slot *slots;
    uint64_t unchecked;               /* bytes that were given to readers since the last check */
    uint32_t *sums;                   /* of chunks of the body and the head; 0: not read yet */
    uint64_t ticket_read, ticket_use; /* the next to be read, to be acquired */
    mnem__weights_cursor read_at, use_at;
    uint64_t passes; /* scheduled since the start */
    uint8_t pass_kind[MNEM__WEIGHTS_PASSES];
    uint32_t reading;      /* chunks that readers work on */
    uint64_t bytes_loaded; /* raw, of resident matrices */
    mnem__weights_stats stats;
    mnem__expert_reads experts;
    mnem_status status; /* of the first read that failed */
    char error[512];
    mnem__thread readers[MNEM__WEIGHTS_READERS];
};

/* ---- layout ---- */

/* Fills everything but place. MNEM_INVALID when a slot can't hold 16 rows; slot_bytes 0 leaves the
 * chunks out. */
mnem_status mnem__matrix_describe(const mnem__weights_options *options, int32_t index,
                                  uint64_t slot_bytes, mnem__matrix *matrix);
/* Where in a slot an expert's matrix i lies, gates the first of them, and where its raw bytes are
 * read to. */
uint64_t mnem__expert_matrix_at(const mnem__matrix *gates, int i, uint64_t *raw);
/* Counts and measures experts that aren't resident. */
mnem_status mnem__weights_mixtures(const mnem__weights_options *options,
                                   mnem__weights_mixtures_info *mixtures);
/* All groups of a resident matrix. */
static inline uint64_t mnem__matrix_block_bytes(const mnem__matrix *m) {
    return (uint64_t)((m->rows + MNEM_PACK_ROWS - 1) / MNEM_PACK_ROWS) * m->packed_bytes;
}
/* The smallest slot that holds 16 rows. */
uint64_t mnem__matrix_slot_min(const mnem__matrix *matrix);
/* Checks the options and chooses what is 0. */
mnem_status mnem__weights_ring_choose(const mnem__weights_options *options, int32_t *slots,
                                      uint64_t *slot_bytes);
/* The chunks that have a sum: of all that passes may read, so that it depends on the slots only. */
mnem_status mnem__weights_sums(const mnem__weights_options *options, uint64_t slot_bytes,
                               uint64_t *sums);
/* Points the tables into base, the heap block; returns its bytes (base NULL: only that). */
uint64_t mnem__weights_lay_out(const mnem__weights_options *options, int32_t slots, uint64_t sums,
                               const mnem__weights_mixtures_info *mixtures, void *base);
/* So too: the tables of experts, from at on in weights (NULL measures). */
uint64_t mnem__weights_experts_lay_out(mnem__weights *weights,
                                       const mnem__weights_mixtures_info *mixtures, uint64_t at);

/* Rows of a chunk; the bytes of its raw rows. */
void mnem__chunk_rows(const mnem__matrix *matrix, int64_t chunk, int64_t *begin, int64_t *end);
uint64_t mnem__chunk_raw_bytes(const mnem__matrix *matrix, int64_t chunk);

/* ---- reading ---- */

/* Opens the file that the model has open as part number index, whatever is at its path by now. */
mnem_status mnem__weights_part_open(const mnem_model *model, uint32_t index, bool page_cache,
                                    mnem__weights_part *part);
/* Reads bytes at offset of a part into buffer (4096-aligned, room for whole units of 4096 around
 * them); *raw is where they begin. MNEM_IO. */
mnem_status mnem__weights_part_read(mnem__weights_part *part, bool page_cache, uint64_t offset,
                                    uint64_t bytes, uint8_t *buffer, uint8_t **raw);

/* Packs rows, of which the first is number row of the matrix, into whole groups, forward.
 * MNEM_BAD_FILE: they aren't 2:4, as the file says or had them when it was opened. */
mnem_status mnem__weights_pack(const mnem__matrix *matrix, int64_t row, int64_t rows,
                               const uint8_t *raw, uint8_t *packed);
/* The same of a matrix's raw rows, bytes from `at` on, wherever they come from: a tensor that isn't
 * what its file holds is made. */
mnem_status mnem__matrix_read(mnem__weights *weights, const mnem__matrix *matrix, uint64_t at,
                              uint64_t bytes, uint8_t *buffer, uint8_t **raw);

/* ---- the order; the lock is held ---- */

/* Settles the cursor on a chunk; false when nothing is there. guess: also in the pass that isn't
 * scheduled yet. */
bool mnem__weights_cursor_settle(const mnem__weights *w, mnem__weights_cursor *cursor, bool guess);
/* The pass that is taken to come next. */
mnem__pass mnem__weights_guess(const mnem__weights *w);
const mnem__matrix_list *mnem__weights_list(const mnem__weights *w, uint64_t pass);
void mnem__weights_cursor_next(const mnem__weights *w, const mnem__matrix_list *list,
                               mnem__weights_cursor *cursor);

/* The bytes behind a sample of each of which stands for what was read; never 0. */
uint32_t mnem__weights_sample(const uint8_t *raw, uint64_t bytes);
mnem_status mnem__weights_check_parts(const mnem__weights *w);

/* ---- experts ---- */

typedef struct mnem__expert_job {
    int32_t slot, mixture, number;
    bool given_up;  /* the slot isn't the job's any more */
    uint32_t sum;   /* of what was read */
    uint64_t bytes; /* so many */
} mnem__expert_job;
/* Takes the next expert to be read, when there is room for it. The lock is held. */
bool mnem__expert_job_take(mnem__weights *w, mnem__expert_job *job);
/* Reads and packs, and gives up between two matrices when the expert isn't wanted any more. No lock
 * is held. */
mnem_status mnem__expert_job_run(mnem__weights *w, mnem__expert_job *job);
/* The lock is held. */
mnem_status mnem__expert_job_finish(mnem__weights *w, const mnem__expert_job *job,
                                    mnem_status status);
/* The source of experts; its context is the mnem__weights. */
extern const mnem_graph_experts mnem__weights_experts;
/* Forgets what is wanted. The lock is held. */
void mnem__weights_experts_forget(mnem__weights *w);

/* The main function of a reader's thread; context is the mnem__weights. */
void mnem__weights_reader(void *context);

#endif
