/* process.c: what the process uses, and making it stop growing by itself.
 *
 * The idea: the kernel counts a page of code when it is first run. Reading every mapped page of the
 * program and its libraries once makes that count a constant that can be measured at the start and
 * charged; what is taken later is ours. Writable data counts the same before and after it is
 * written; zero data (bss) counts when it is written, so it is written. Small files that aren't
 * programs (a locale's table of characters) are read too: the kernel brings their pages in groups
 * that depend on where they lie. Large ones (a model) are left alone. The C heap keeps pages of
 * what was freed, a few more or less (of a file of settings that was there or not, of blocks in the
 * C library's own caches), so pages of it are written until whole steps are resident.
 * Invariant: nothing here takes heap memory; the stack stays below 32 KiB but for the part that is
 * touched on purpose. The same program takes the same bytes in every run, wherever it is loaded. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/pages.h"

enum {
    STACK_TOUCHED = 256 * 1024,
    STACK_STEP = 64 * 1024,
    HEAP_STEP = 64 * 1024,       /* the command writes 28 KiB before it measures itself */
    HEAP_MAX = 16 * 1024 * 1024, /* in a larger one a step is less than what its owner varies */
    BSS_MAX = 4 << 20,      /* zero data behind a program's own; a larger one is something else */
    TABLE_MAX = 512 * 1024, /* a file that is read whole; C.UTF-8's characters take 348 KiB */
    DATA_MAX = 8 << 20,     /* of a library, only read; larger ones aren't all read by anybody */
    MAP_LINE_MAX = 4096,
};

mnem_status mnem__file_read_small(const char *path, char *out, size_t n) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mnem__fail(MNEM_IO, "%s: can't be opened (%s)", path, strerrordesc_np(errno));
    size_t have = 0;
    while (have + 1 < n) {
        ssize_t got = read(fd, out + have, n - 1 - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
    }
    close(fd);
    out[have] = 0;
    return MNEM_OK;
}

/* The number of KiB after "name:" at the start of a line; false if it isn't there. */
static bool status_kib(const char *text, const char *name, uint64_t *bytes) {
    size_t length = strlen(name);
    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        if (strncmp(p, name, length)) continue;
        *bytes = strtoull(p + length, NULL, 10) * 1024;
        return true;
    }
    return false;
}

mnem_status mnem_process_usage_get(mnem_process_usage *usage) {
    char text[4096];
    *usage = (mnem_process_usage){0};
    mnem_status status = mnem__file_read_small("/proc/self/status", text, sizeof text);
    if (status != MNEM_OK) return status;
    if (!status_kib(text, "VmRSS:", &usage->bytes_resident) ||
        !status_kib(text, "VmHWM:", &usage->bytes_peak))
        return mnem__fail(MNEM_IO, "/proc/self/status: the line VmRSS or VmHWM is missing, so the "
                                   "memory of this process can't be measured");
    return MNEM_OK;
}

/* ---- settle ---- */

typedef struct mapping {
    uint64_t begin, end, offset, inode;
    bool readable, writable, executable, file, vdso, stack, heap;
} mapping;

/* What the walk remembers of the mappings before this one. */
typedef struct settle_walk {
    uint64_t program_inode; /* of the last ELF file */
    uint64_t program_end;   /* where its last mapping ended */
    int memory;             /* of this process, to read from; below 0: none */
} settle_walk;

/* A line such as "55d0-55d8 r-xp 00002000 fe:00 1234   /usr/bin/x". */
static bool mapping_parse(const char *line, mapping *m) {
    char *p;
    *m = (mapping){.begin = strtoull(line, &p, 16)};
    if (*p != '-') return false;
    m->end = strtoull(p + 1, &p, 16);
    if (*p != ' ' || strlen(p) < 6) return false;
    m->readable = p[1] == 'r';
    m->writable = p[2] == 'w';
    m->executable = p[3] == 'x';
    m->offset = strtoull(p + 5, &p, 16);
    strtoull(p, &p, 16); /* device: major:minor */
    if (*p == ':') strtoull(p + 1, &p, 16);
    m->inode = strtoull(p, &p, 10);
    while (*p == ' ') p++;
    m->file = *p == '/' && m->inode;
    m->vdso = !strcmp(p, "[vdso]");
    m->stack = !strcmp(p, "[stack]");
    m->heap = !strcmp(p, "[heap]");
    return true;
}

static void pages_read(uint64_t begin, uint64_t end) {
#ifdef MADV_POPULATE_READ
    if (!madvise((void *)begin, end - begin, MADV_POPULATE_READ) || errno != EINVAL) return;
#endif
    size_t page = mnem__page_size();
    for (uint64_t at = begin; at < end; at += page) (void)*(volatile const char *)at;
}

/* As far as the file goes: a mapping may be longer. */
static void table_read(uint64_t begin, uint64_t end) {
#ifdef MADV_POPULATE_READ
    madvise((void *)begin, end - begin, MADV_POPULATE_READ);
#else
    (void)begin, (void)end; /* older systems: counted when read */
#endif
}

/* Writes what is there already, so that zero data gets pages of its own. */
static void pages_rewrite(uint64_t begin, uint64_t end) {
#ifdef MADV_POPULATE_WRITE
    madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
#else
    (void)begin, (void)end; /* older systems: counted when written */
#endif
}

/* Grows the stack down to the page at low, and writes nothing below it. */
__attribute__((noinline)) static void stack_reach(uint64_t low) {
    enum { LEFT = 1024 }; /* of that page, for this frame's end */
    const uint64_t bytes = (uint64_t)(uintptr_t)__builtin_frame_address(0) - low - LEFT;
    volatile char *at = __builtin_alloca(bytes);
    for (uint64_t i = 0; i < bytes; i += 4096) at[i] = 0;
}

/* How much of the stack lies between its top and here where the start of a process was drawn most
 * deeply: Linux leaves out up to 8 KiB below the words and the environment, and draws how many
 * (arch_align_stack). Zero where the two marks beside that gap aren't on this stack. */
static uint64_t stack_deepest(const mapping *stack, uint64_t here) {
    enum { DRAWN_MOST = 8192 };
    const uint64_t words = (uint64_t)(uintptr_t)program_invocation_name; /* above the gap */
    const uint64_t below = getauxval(AT_RANDOM);
    if (words >= stack->end || below >= words || below <= here) return 0;
    return stack->end - words + DRAWN_MOST + below - here;
}

/* Touches what the stack may need, in whole steps from its top: where a process starts on its stack
 * is random and leaves pages out, and its words and environment lie above. So the bytes are the
 * same in every run. A thread's stack has no such top; then it is what may be needed. */
static void stack_touch(const mapping *stack) {
    const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    const bool own = stack->begin < here && here <= stack->end;
    uint64_t low = here - STACK_TOUCHED;
    if (own) {
        uint64_t used = stack_deepest(stack, here);
        if (used < stack->end - here) used = stack->end - here;
        low = stack->end - mnem__align_up(used + STACK_TOUCHED, STACK_STEP);
    }
    stack_reach(low);
    if (own) pages_rewrite(low, stack->end);
}

/* Writes pages that aren't resident, from its beginning, until whole steps are. */
static void heap_touch(const mapping *heap) {
    unsigned char is[HEAP_MAX / 4096];
    const uint64_t page = mnem__page_size(), count = (heap->end - heap->begin) / page;
    uint64_t have = 0;
    if (count > sizeof is || mincore((void *)heap->begin, heap->end - heap->begin, is)) return;
    for (uint64_t i = 0; i < count; i++) have += is[i] & 1;
    uint64_t more = mnem__align_up(have, HEAP_STEP / page) - have;
    for (uint64_t i = 0; i < count && more > 0; i++) {
        if (is[i] & 1) continue;
        pages_rewrite(heap->begin + i * page, heap->begin + (i + 1) * page);
        more--;
    }
}

/* Nobody reads all of such a table: that of ICU, 30 MiB, comes with MPI and reads XML for it. */
static bool is_data_of_a_library(const mapping *m) {
    return !m->writable && !m->executable && m->end - m->begin > DATA_MAX;
}

/* Whether a program or a library begins at the mapping. It isn't read directly: another thread may
 * have unmapped it since, or its file may have become shorter, and that would be a signal. */
static bool is_program(const settle_walk *walk, const mapping *m) {
    char mark[4];
    return m->file && m->offset == 0 &&
           pread(walk->memory, mark, sizeof mark, (off_t)m->begin) == sizeof mark &&
           !memcmp(mark, "\177ELF", sizeof mark);
}

static void mapping_settle(settle_walk *walk, const mapping *m) {
    if (!m->readable) return;
    if (m->stack) stack_touch(m);
    if (m->heap) heap_touch(m);
    if (is_program(walk, m)) walk->program_inode = m->inode;
    if (m->vdso || (m->file && m->inode == walk->program_inode)) {
        if (!is_data_of_a_library(m)) pages_read(m->begin, m->end);
        walk->program_end = m->end;
    } else if (!m->inode && m->writable && m->begin == walk->program_end &&
               m->end - m->begin <= BSS_MAX) {
        pages_rewrite(m->begin, m->end);
    } else if (m->file && !m->writable && m->end - m->begin <= TABLE_MAX) {
        table_read(m->begin, m->end);
    }
}

static void mappings_settle(int fd, int memory) {
    char text[2 * MAP_LINE_MAX];
    settle_walk walk = {.memory = memory};
    size_t have = 0;
    for (;;) {
        ssize_t got = read(fd, text + have, sizeof text - 1 - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        have += (size_t)got;
        text[have] = 0;
        char *line = text;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            mapping m;
            *end = 0;
            if (mapping_parse(line, &m)) mapping_settle(&walk, &m);
        }
        have -= (size_t)(line - text);
        if (have + 1 >= sizeof text) return; /* a line longer than any path */
        memmove(text, line, have);
    }
}

void mnem_process_settle(void) {
    mnem__heap_settle();
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) mappings_settle(fd, memory);
    if (memory >= 0) close(memory);
    if (fd >= 0) close(fd);
}

/* Of the object that has this function: what its file has of segments that nobody writes. */
static int segments_read(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size, (void)context;
    const uint64_t here = (uintptr_t)&mnem__library_read, page = mnem__page_size();
    bool own = false;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        const uint64_t begin = object->dlpi_addr + segment->p_vaddr;
        own = own || (segment->p_type == PT_LOAD && here - begin < segment->p_memsz);
    }
    for (int i = 0; own && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R) || segment->p_flags & PF_W)
            continue;
        const uint64_t begin = object->dlpi_addr + segment->p_vaddr;
        pages_read(begin & ~(page - 1), mnem__align_up(begin + segment->p_filesz, page));
    }
    return own;
}

void mnem__library_read(void) {
    dl_iterate_phdr(segments_read, NULL);
}
