/* mnem/workload.h: allocation traces: what a program asked for and gave back, in order.
 *
 * Two formats. mnem's text: "a ID BYTES [STREAM]" allocates, "f ID [STREAM]" frees, "#" begins a
 * comment; an ID is any number and is never reused. And PyTorch's memory snapshot: the pickle that
 * torch.cuda.memory._dump_snapshot writes, read without executing anything. What a file says is
 * checked (sizes, ids, order), and is never allocated: addresses and sizes are numbers here. Not
 * here: running a workload through a policy (replay.h).
 * Threads: a workload is constant after it is opened; any thread may read it.
 *
 *     mnem_workload *w;
 *     if (mnem_workload_open("serve.trace", NULL, &w) == MNEM_OK) {
 *         mnem_workload_info info;
 *         mnem_workload_info_get(w, &info);
 *         for (size_t i = 0; i < info.count; i++) use(info.ops[i]);
 *     }
 *     mnem_workload_close(w);
 */
#ifndef MNEM_WORKLOAD_H
#define MNEM_WORKLOAD_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_workload mnem_workload;

typedef struct mnem_workload_op {
    uint64_t bytes;  /* > 0: an allocation; 0: a free */
    uint32_t block;  /* 0, 1, 2, ... in the order of allocation; a block is freed at most once */
    uint32_t stream; /* of the allocation or the free: 0, 1, ... in the order of first use */
} mnem_workload_op;

typedef struct mnem_workload_info {
    const mnem_workload_op *ops; /* [count]; borrowed until close */
    size_t count, allocations;   /* frees = count - allocations */
    size_t prelude;       /* ops[0..prelude) allocate what was live before the record began */
    uint64_t bytes_peak;  /* the largest sum of live bytes, as asked for */
    uint64_t bytes_total; /* of all allocations */
    uint64_t bytes_end;   /* live after the last op */
    uint32_t blocks_peak; /* live at one time, at most */
    uint32_t streams;     /* number of different ones */
    const char *format;   /* "text", "PyTorch snapshot" */
    /* Snapshots; zero for text. */
    uint32_t device, devices;     /* the one that was read; how many have events or blocks */
    uint64_t segments_asked;      /* segment_alloc and segment_map events: what PyTorch asked for */
    uint64_t bytes_reserved_peak; /* by PyTorch, where the record shows it */
    uint64_t dropped;             /* events that contradict the others, left out or mended */
} mnem_workload_info;

/* Zero means default. */
typedef struct mnem_workload_options {
    bool device_given; /* snapshots of several devices: read this one (default: most events) */
    uint32_t device;
    /* Called now and then with bytes read; false cancels. NULL: never called. */
    bool (*on_progress)(void *context, uint64_t bytes_done);
    void *progress_context;
} mnem_workload_options;

/* options may be NULL. MNEM_IO, MNEM_BAD_FILE (with the line or the byte), MNEM_UNSUPPORTED
 * (compressed, or a pickle that needs to run code), MNEM_NOT_FOUND (no such device),
 * MNEM_CANCELLED, MNEM_NO_MEMORY; *workload is NULL then. A file without one allocation is
 * MNEM_BAD_FILE. */
mnem_status mnem_workload_open(const char *path, const mnem_workload_options *options,
                               mnem_workload **workload);
/* The same from an open file or pipe, to its end; fd stays open. name is for messages. */
mnem_status mnem_workload_open_fd(const char *name, int fd, const mnem_workload_options *options,
                                  mnem_workload **workload);
/* The same from bytes in memory. */
mnem_status mnem_workload_read(const char *name, const void *data, size_t bytes,
                               const mnem_workload_options *options, mnem_workload **workload);
void mnem_workload_close(mnem_workload *workload); /* NULL is fine */
void mnem_workload_info_get(const mnem_workload *workload, mnem_workload_info *info);
/* Where a block was asked for, "train.py:41 forward", as the snapshot says; "" if it doesn't.
 * Borrowed until close. */
const char *mnem_workload_site(const mnem_workload *workload, uint32_t block);

#ifdef __cplusplus
}
#endif
#endif
