/* weights_private.h: the tables of weights, shared by its files.
 *
 *     weights_layout.c   the division of a matrix into chunks, and the layout of a chunk in a slot
 *     weights_reader.c   the threads that read and pack, and their order
 *     weights_experts.c  wanted experts, read into slots where they stay
 *     weights.c          the functions of the owner
 *     weights_source.c   the functions of a graph's run
 *
 * A slot holds one chunk. The raw bytes are read to its end, far enough from the start that
 * packing the groups in order never overwrites unpacked bytes; the packed groups then lie at 0.
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
    int32_t made;     /* the tensor's index, if its bytes differ from the file's; or -1 */
    mnem_type type;
    mnem_layout layout; /* of the packed matrix */
    bool compact;       /* compact in the file too */
    uint32_t file;
    bool resident;
    uint32_t sum_at; /* of chunk 0; of the body and the head */
    int64_t rows, k;
    mnem__row_spans here;  /* the tensor's rows that are here */
    int64_t expert_groups; /* groups of 16 rows per expert; 0: not experts */
    int expert_matrices;   /* per expert, on their first matrix: 2 if it has gates and ups, or only
                              ups */
    uint64_t offset;       /* in the file */
    uint64_t row_bytes, raw_bytes, packed_bytes; /* of a row in the file; of a group of 16 rows */
    int64_t chunk_groups, chunks;
    uint64_t raw_at; /* of a chunk's raw bytes in a slot */
    uint64_t place;  /* in the resident block */
} mnem__matrix;

/* Matrices by index, in an order of use. */
typedef struct mnem__matrix_list {
    int32_t *index;
    int32_t count;
} mnem__matrix_list;

/* A position in the order: a pass, numbered from the start, a matrix of its list, a chunk. */
typedef struct mnem__weights_cursor {
    uint64_t pass;
    int32_t at;
    int64_t chunk;
} mnem__weights_cursor;

enum {
    MNEM__EXPERT_MATRICES = 3,    /* gate, up, down: the most */
    MNEM__EXPERT_SLOTS_LEAST = 4, /* two are held, two are read */
};

/* Mixtures whose experts aren't resident. */
typedef struct mnem__weights_mixtures_info {
    int32_t mixtures, experts; /* experts: the most of a mixture */
    int32_t total, slots;
    uint64_t slot_bytes, file_bytes;
} mnem__weights_mixtures_info;

typedef enum mnem__expert_state {
    MNEM__EXPERT_NOBODY, /* empty */
    MNEM__EXPERT_READING,
    MNEM__EXPERT_DROPPED, /* being read, but not wanted any more */
    MNEM__EXPERT_READY,
} mnem__expert_state;

/* Experts of one mixture that must be read, unless they are in memory. */
typedef struct mnem__expert_list {
    int32_t mixture, count;
    int32_t *number; /* [experts], ascending; predicted ones: the most likely first */
    bool *done;      /* [experts] given to the run; predicted ones never are */
    int32_t at;      /* all before are done; predicted ones: checked */
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
    bool *guessed;  /* [slots] read on a prediction, and not wanted yet */
    uint32_t *sums; /* [mixtures][experts] checksums of what was read; 0: not read yet */
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
    mnem__matrix *matrices;
    int32_t matrix_count;
    uint32_t owner; /* owner of names in a trace (base/event.h) */
    mnem__matrix_list pass_list[MNEM__PASSES], load_list;
    mnem__weights_part *parts;
    uint32_t part_count;
    mnem__location resident;
    uint8_t *ring;
    uint64_t slot_bytes;
    uint32_t slot_count;
    bool page_cache;

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t for_readers, for_owner;
    mnem__weights_mode mode;
    bool stop;
    mnem__ring_slot *slots;
    uint64_t unchecked; /* bytes given to readers since the last check */
    uint32_t *sums;     /* checksums of chunks of the body and the head; 0: not read yet */
    uint64_t ticket_read, ticket_use; /* the next to read; the next to acquire */
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

/* Sets all fields but place. MNEM_INVALID: a slot can't hold 16 rows; slot_bytes 0: without
 * chunks. */
mnem_status mnem__matrix_describe(const mnem__weights_options *options, int32_t index,
                                  uint64_t slot_bytes, mnem__matrix *matrix);
/* The position of an expert's matrix i in a slot, where gates is the first matrix, and the
 * position of its raw bytes. */
uint64_t mnem__expert_matrix_at(const mnem__matrix *gates, int i, uint64_t *raw);
/* Counts and measures experts that aren't resident. */
mnem_status mnem__weights_mixtures(const mnem__weights_options *options,
                                   mnem__weights_mixtures_info *mixtures);
/* The bytes of all groups of a resident matrix. */
static inline uint64_t mnem__matrix_block_bytes(const mnem__matrix *m) {
    return (uint64_t)((m->rows + MNEM_PACK_ROWS - 1) / MNEM_PACK_ROWS) * m->packed_bytes;
}
/* The smallest slot that holds 16 rows. */
uint64_t mnem__matrix_slot_min(const mnem__matrix *matrix);
/* Checks the options and chooses those that are 0. */
mnem_status mnem__weights_ring_choose(const mnem__weights_options *options, int32_t *slots,
                                      uint64_t *slot_bytes);
/* The number of chunks with a checksum: all that passes may read, so that it depends only on the
 * slots. */
mnem_status mnem__weights_sums(const mnem__weights_options *options, uint64_t slot_bytes,
                               uint64_t *sums);
/* Lays the tables out from base, the heap block; returns its bytes (base NULL: only measures). */
uint64_t mnem__weights_lay_out(const mnem__weights_options *options, int32_t slots, uint64_t sums,
                               const mnem__weights_mixtures_info *mixtures, void *base);
/* The same for the tables of experts, from `at` on in weights (NULL: only measures). */
uint64_t mnem__weights_experts_lay_out(mnem__weights *weights,
                                       const mnem__weights_mixtures_info *mixtures, uint64_t at);

/* The rows of a chunk; the bytes of its raw rows. */
void mnem__chunk_rows(const mnem__matrix *matrix, int64_t chunk, int64_t *begin, int64_t *end);
uint64_t mnem__chunk_raw_bytes(const mnem__matrix *matrix, int64_t chunk);

/* ---- reading ---- */

/* Opens the file that is open as part `index` of the model, even if its path has another file
 * now. */
mnem_status mnem__weights_part_open(const mnem_model *model, uint32_t index, bool page_cache,
                                    mnem__weights_part *part);
/* Reads bytes at offset of a part into buffer (4096-aligned, with room for the surrounding units
 * of 4096); *raw: their position. MNEM_IO. */
mnem_status mnem__weights_part_read(mnem__weights_part *part, bool page_cache, uint64_t offset,
                                    uint64_t bytes, uint8_t *buffer, uint8_t **raw);

/* Packs rows, from number `row` of the matrix on, into whole groups in order. MNEM_BAD_FILE:
 * they aren't 2:4, although the file says so or had such rows when it was opened. */
mnem_status mnem__weights_pack(const mnem__matrix *matrix, int64_t row, int64_t rows,
                               const uint8_t *raw, uint8_t *packed);
/* Reads bytes of a matrix's raw rows from `at` on; converts tensors that differ from the file. */
mnem_status mnem__matrix_read(mnem__weights *weights, const mnem__matrix *matrix, uint64_t at,
                              uint64_t bytes, uint8_t *buffer, uint8_t **raw);

/* ---- the order; the lock is held ---- */

/* Moves the cursor to the next chunk; false: there is none. guess: also in the predicted pass. */
bool mnem__weights_cursor_settle(const mnem__weights *w, mnem__weights_cursor *cursor, bool guess);
/* The predicted next pass. */
mnem__pass mnem__weights_guess(const mnem__weights *w);
const mnem__matrix_list *mnem__weights_list(const mnem__weights *w, uint64_t pass);
void mnem__weights_cursor_next(const mnem__weights *w, const mnem__matrix_list *list,
                               mnem__weights_cursor *cursor);

/* A checksum of a sample of the bytes that were read; never 0. */
uint32_t mnem__weights_sample(const uint8_t *raw, uint64_t bytes);
mnem_status mnem__weights_check_parts(const mnem__weights *w);

/* ---- experts ---- */

typedef struct mnem__expert_job {
    int32_t slot, mixture, number;
    bool given_up;  /* the slot no longer belongs to the job */
    uint32_t sum;   /* of what was read */
    uint64_t bytes; /* so many */
} mnem__expert_job;
/* Takes the next expert to read, if there is room for it. The lock is held. */
bool mnem__expert_job_take(mnem__weights *w, mnem__expert_job *job);
/* Reads and packs; stops between two matrices if the expert is no longer wanted. No lock is
 * held. */
mnem_status mnem__expert_job_run(mnem__weights *w, mnem__expert_job *job);
/* The lock is held. */
mnem_status mnem__expert_job_finish(mnem__weights *w, const mnem__expert_job *job,
                                    mnem_status status);
/* The source of experts; context: the mnem__weights. */
extern const mnem_graph_experts mnem__weights_experts;
/* Drops the list of wanted experts. The lock is held. */
void mnem__weights_experts_forget(mnem__weights *w);

/* The main function of a reader's thread; context: the mnem__weights. */
void mnem__weights_reader(void *context);

#endif
