/* mnem/leaks.h: live memory of the C heap by owner: every malloc of a program, with its call stack
 * and its age, and marks that distinguish blocks allocated before and after.
 *
 * Behind these functions is libmnem-track.so, not libmnem: link with -Wl,--no-as-needed
 * -lmnem-track, or start the program with LD_PRELOAD=libmnem-track.so; in a program that has
 * neither they do nothing and say so. It watches from the program's start, whatever is called here,
 * and reports at its end (docs/leaks.md). Not here: what mnem itself holds, by kind and tag
 * (ledger.h).
 * Threads: everything may be called from any thread.
 *
 *     mnem_track("out=leaks.txt,top=5");
 *     uint32_t loaded = mnem_track_mark();
 *     ...
 *     mnem_track_report(NULL, loaded);
 */
#ifndef MNEM_LEAKS_H
#define MNEM_LEAKS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_track_info {
    uint64_t blocks_live, bytes_live, bytes_peak; /* as asked for */
    uint64_t allocations, frees;                  /* a realloc is both */
    uint64_t frees_unknown;    /* of blocks that were there before the library was */
    uint64_t allocations_lost; /* not watched, for lack of room */
    uint64_t bytes_own;        /* what the library itself has mapped */
    uint32_t stacks;           /* different ones so far */
    uint32_t generation;       /* marks so far */
} mnem_track_info;

/* What the library has; NULL without it. Call the functions below instead. */
__attribute__((weak)) bool mnem_track_library_set(const char *settings);
__attribute__((weak)) uint32_t mnem_track_library_mark(void);
__attribute__((weak)) bool mnem_track_library_report(const char *path, uint32_t since);
__attribute__((weak)) void mnem_track_library_info(mnem_track_info *info);

/* Settings as MNEM_TRACK takes them: words with commas between: out=FILE ("%p": the process's
 * number), top=N stacks, depth=N frames, blocks, quiet. NULL: none changes. false: errno is ENOSYS
 * where the library isn't there, EINVAL for a word that isn't known. */
static inline bool mnem_track(const char *settings) {
    if (mnem_track_library_set) return mnem_track_library_set(settings);
    errno = ENOSYS;
    return false;
}

/* Begins the next generation of blocks, and returns its number (from 1); 0 without the library. */
static inline uint32_t mnem_track_mark(void) {
    return mnem_track_library_mark ? mnem_track_library_mark() : 0;
}

/* Writes what is live of the generations from since on (0: all), by stack, behind what the file
 * has; path NULL: where the settings say. false with errno. */
static inline bool mnem_track_report(const char *path, uint32_t since) {
    if (mnem_track_library_report) return mnem_track_library_report(path, since);
    errno = ENOSYS;
    return false;
}

/* Zeros without the library. */
static inline void mnem_track_info_get(mnem_track_info *info) {
    static const mnem_track_info none = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    *info = none;
    if (mnem_track_library_info) mnem_track_library_info(info);
}

#ifdef __cplusplus
}
#endif
#endif
