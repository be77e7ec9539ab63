/* preload.h: what the files of libmnem-track.so share: the library that stands between a program
 * and its C heap, and knows at any moment what is live, since when, and which calls asked for it.
 *
 *     preload_hooks.c    malloc and its family: notes, then calls the allocator behind
 *     preload_unwind.c   the calls above an allocation, by rules for each address that are cached
 *     preload_cfi.c      such a rule, from .eh_frame
 *     preload_stacks.c   a number for each different stack
 *     preload_blocks.c   the live blocks, by address
 *     preload_marks.c    generations: moments between which blocks are told apart
 *     preload_report.c   what is live, by stack
 *     preload_symbols.c  addresses as names; preload_lines.c as files and lines
 *     preload_trace.c    each allocation and free as text
 *     preload_settings.c what MNEM_TRACK says; preload_api.c what mnem/leaks.h calls
 *
 * Nothing here takes memory from the heap that it watches: all is mapped (preload_map), and what
 * the C library takes on our behalf meanwhile isn't counted (preload_busy). Never a lock is held
 * while code that isn't ours runs.
 * Threads: everything may be called from any thread, but for what says otherwise. */
#ifndef MNEM_TOOLS_PRELOAD_PRELOAD_H
#define MNEM_TOOLS_PRELOAD_PRELOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PRELOAD_DEPTH_MAX = 64 };

#define PRELOAD_TLS       __thread __attribute__((tls_model("initial-exec")))
#define PRELOAD_LIKELY(x) __builtin_expect(!!(x), 1)

/* ---- settings (preload_settings.c): constant after the start ---- */

typedef struct preload_settings {
    char out[256];   /* the report's file, "%p" for the process; "": standard error */
    char trace[256]; /* "": none */
    int depth, top;  /* frames of a stack; stacks of a report */
    bool blocks;     /* each live block on a line, too */
    bool children;   /* programs that this one starts are watched too */
    bool quiet;      /* no report at the end */
} preload_settings;
extern preload_settings preload_set;

/* "out=FILE,top=20": false, with what is wrong of it in why. */
bool preload_settings_read(const char *text, char why[128]);
/* pattern with "%p" as this process's number. */
void preload_path(const char *pattern, char *path, size_t n);

/* ---- memory (preload_blocks.c) ---- */

/* Zeroed pages from the kernel; NULL when it has none. */
void *preload_map(size_t bytes);
void preload_unmap(void *start, size_t bytes);
uint64_t preload_mapped_bytes(void);

/* ---- locks ---- */

typedef struct preload_lock {
    atomic_uint taken;
} preload_lock;
void preload_lock_wait(preload_lock *lock);
static inline void preload_lock_take(preload_lock *lock) {
    if (!PRELOAD_LIKELY(!atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire)))
        preload_lock_wait(lock);
}
static inline void preload_lock_give(preload_lock *lock) {
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

/* ---- stacks ---- */

/* A place in the calls of this thread: the next instruction, and the registers there. */
typedef struct preload_frame {
    uintptr_t pc, sp, fp;
} preload_frame;

/* Return addresses from `from` outwards, innermost first; at most max. */
int preload_unwind(preload_frame from, uintptr_t *pcs, int max);
void preload_unwind_forget(void); /* code went away: rules are found anew */

/* How the frame of a caller is found from one that stands at an address. */
typedef enum preload_cfa {                     /* 0: no rule */
                           PRELOAD_CFA_SP = 1, /* sp + cfa_offset */
                           PRELOAD_CFA_FP,     /* fp + cfa_offset */
                           PRELOAD_CFA_AT_FP,  /* what lies at fp + cfa_offset */
                           PRELOAD_CFA_CHAIN,  /* not known: frames that begin with the saved fp */
                           PRELOAD_CFA_END,    /* the first of the thread */
} preload_cfa;
typedef enum preload_saved { PRELOAD_FP_KEPT, PRELOAD_FP_AT_CFA, PRELOAD_FP_AT_FP } preload_saved;
typedef struct preload_rule {
    preload_cfa cfa;
    preload_saved fp;
    int32_t cfa_offset, fp_offset;
} preload_rule;
/* The rule of .eh_frame for an address within a module whose .eh_frame_hdr is given; the rest of
 * the module's bytes, [start, end), may be read. PRELOAD_CFA_CHAIN: it has none that we follow. */
preload_rule preload_cfi_find(const uint8_t *header, const uint8_t *start, const uint8_t *end,
                              uintptr_t pc);

/* A number above 0 for the frames; 0 when there's no room. */
uint32_t preload_stack_number(const uintptr_t *pcs, int count);
const uintptr_t *preload_stack_frames(uint32_t stack, int *count);
uint32_t preload_stack_count(void); /* numbers are below it */

/* What this thread allocates isn't noted while it is busy; returns what it was. */
bool preload_busy(bool now);

/* ---- live blocks ---- */

typedef struct preload_block {
    uintptr_t address; /* 0: none */
    uint64_t bytes;    /* as asked */
    uint64_t serial;   /* of the allocation: 1, 2, ... */
    uint32_t stack;
    uint32_t born_ms; /* since the start */
    uint32_t generation;
    uint32_t unused;
} preload_block;

bool preload_block_add(const preload_block *block);
/* false: not one of ours. */
bool preload_block_take(uintptr_t address, preload_block *block);
/* Each live block, in no order; others may come and go meanwhile. `each` must not allocate. */
void preload_block_each(void (*each)(void *context, const preload_block *block), void *context);

typedef struct preload_totals {
    uint64_t blocks_live, bytes_live, bytes_peak;
    uint64_t allocations, frees;
    uint64_t unknown; /* frees of blocks that we don't know: from before the start */
    uint64_t lost;    /* allocations that found no room in our tables */
} preload_totals;
void preload_totals_get(preload_totals *totals);
extern atomic_uint_fast64_t preload_lost, preload_unknown;

/* ---- time and generations (preload_marks.c) ---- */

uint64_t preload_now_ns(void); /* since the start, in steps of the kernel's clock (4 ms) */
uint32_t preload_generation(void);
/* Ends the generation: 1, 2, ... is the number of the next. From a signal too. */
uint32_t preload_mark(void);
uint64_t preload_mark_ns(uint32_t generation); /* when it began */

/* ---- what is written ---- */

/* Text that is written to a file as it fills. */
typedef struct preload_text {
    int fd;
    bool failed;
    size_t used;
    char bytes[4096];
} preload_text;
void preload_textf(preload_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void preload_text_flush(preload_text *text);

/* Of what is live: all, or what was born in generations [from, to]. title: what the moment is. */
bool preload_report(int fd, const char *title, uint32_t from, uint32_t to);
/* Where reports go: the file that settings name, or what standard error was at the start. Not below
 * 0, or none. */
int preload_report_open(const char *path);
void preload_report_start(void);

typedef struct preload_symbol {
    char module[64], name[96], file[160];
    uint64_t offset; /* of the address in the module's file, or behind the name */
    unsigned line;   /* 0: not known */
} preload_symbol;
/* By one thread at a time. */
void preload_symbol_find(uintptr_t pc, preload_symbol *symbol);
void preload_symbols_forget(void); /* unmaps what was read */
/* Who is mapped where, now; what was there before stays known. */
void preload_modules_note(void);

/* ---- the trace ---- */

bool preload_trace_open(const char *path);
extern atomic_bool preload_traced;
void preload_trace_alloc(const preload_block *block);
void preload_trace_free(const preload_block *block);
void preload_trace_close(bool names); /* names: of the stacks, behind the events */
void preload_trace_lock(bool take);   /* around a fork */

/* ---- around a fork ---- */
void preload_blocks_lock(bool take);
void preload_stacks_lock(bool take);

#endif
