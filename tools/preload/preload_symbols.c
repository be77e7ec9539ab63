/* preload_symbols.c: addresses of this process as names, files and lines.
 *
 * Idea: who is mapped where is asked of the dynamic linker; the file itself is mapped and read
 * (preload_elf.c), and where it was stripped its debug file, found by its build id, too. Modules
 * that are unloaded are remembered by name and place.
 * Invariant: nothing is taken from the heap; files are mapped one at a time, and read only.
 * Cost: a pass over a module's tables for each address that wasn't asked before. */
#include "preload.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload_elf.h"

enum { MODULES = 512, KNOWN = 1024, MAPPED = 8 };

typedef struct module {
    char path[256];
    uintptr_t base, start, end;
} module;

typedef struct mapped_file {
    char path[256];
    preload_elf elf; /* no bytes: it can't be read */
    uint64_t used;
} mapped_file;

typedef struct known {
    uintptr_t pc;
    preload_symbol symbol;
} known;

static preload_lock lock;
static module modules[MODULES];
static int module_count;
static mapped_file files[MAPPED];
static uint64_t uses;
static known *cache;

/* ---- modules ---- */

static int note_module(struct dl_phdr_info *info, size_t size, void *context) {
    module m = {.base = info->dlpi_addr, .start = UINTPTR_MAX};
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD) continue;
        if (from < m.start) m.start = from;
        if (from + p->p_memsz > m.end) m.end = from + p->p_memsz;
    }
    if (info->dlpi_name && *info->dlpi_name) {
        snprintf(m.path, sizeof m.path, "%s", info->dlpi_name);
    } else {
        const ssize_t n = readlink("/proc/self/exe", m.path, sizeof m.path - 1);
        m.path[n > 0 ? n : 0] = 0;
    }
    for (int i = 0; i < module_count; i++)
        if (modules[i].start == m.start && !strcmp(modules[i].path, m.path)) return 0;
    if (module_count < MODULES) modules[module_count++] = m;
    return 0;
}

void preload_modules_note(void) {
    preload_lock_take(&lock);
    dl_iterate_phdr(note_module, NULL);
    preload_lock_give(&lock);
}

/* The one noted last: what lay there before is gone. */
static const module *module_of(uintptr_t pc) {
    for (int i = module_count - 1; i >= 0; i--)
        if (pc >= modules[i].start && pc < modules[i].end) return &modules[i];
    return NULL;
}

/* ---- files ---- */

static preload_elf map_file(const char *path) {
    preload_elf elf = {0};
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return elf;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) elf = (preload_elf){bytes, (size_t)st.st_size};
    }
    close(fd);
    return elf;
}

static preload_elf file_of(const char *path) {
    mapped_file *oldest = &files[0];
    for (int i = 0; i < MAPPED; i++) {
        if (files[i].used && !strcmp(files[i].path, path)) {
            files[i].used = ++uses;
            return files[i].elf;
        }
        if (files[i].used < oldest->used) oldest = &files[i];
    }
    if (oldest->elf.n) munmap((void *)(uintptr_t)oldest->elf.bytes, oldest->elf.n);
    snprintf(oldest->path, sizeof oldest->path, "%s", path);
    oldest->elf = map_file(path);
    oldest->used = ++uses;
    return oldest->elf;
}

/* The file of a package's debug symbols, where it is installed. */
static preload_elf debug_of(preload_elf elf) {
    char path[256];
    preload_span id;
    if (!elf.n || !preload_elf_build_id(elf, &id)) return (preload_elf){0};
    int n = snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%02x/", id.at[0]);
    for (size_t i = 1; i < id.n; i++)
        n += snprintf(path + n, sizeof path - (size_t)n, "%02x", id.at[i]);
    snprintf(path + n, sizeof path - (size_t)n, ".debug");
    return file_of(path);
}

/* ---- names ---- */

static void resolve(uintptr_t pc, preload_symbol *s) {
    const module *m = module_of(pc);
    const char *name;
    memset(s, 0, sizeof *s);
    s->offset = pc;
    if (!m) return;
    const char *slash = strrchr(m->path, '/');
    snprintf(s->module, sizeof s->module, "%.63s", slash ? slash + 1 : m->path);
    const uint64_t address = s->offset = pc - m->base;
    uint64_t offset;
    for (int pass = 0; pass < 2 && !s->line; pass++) {
        const preload_elf own = file_of(m->path), elf = pass ? debug_of(own) : own;
        if (!*s->name && preload_elf_symbol(elf, address, &name, &offset)) {
            snprintf(s->name, sizeof s->name, "%.95s", name);
            s->offset = offset;
        }
        preload_elf_line(elf, address, s->file, sizeof s->file, &s->line);
    }
}

void preload_symbol_find(uintptr_t pc, preload_symbol *symbol) {
    if (!cache) cache = preload_map(KNOWN * sizeof *cache);
    known *k = cache ? &cache[(pc * UINT64_C(0x9E3779B97F4A7C15) >> 40) % KNOWN] : NULL;
    if (k && k->pc == pc) {
        *symbol = k->symbol;
        return;
    }
    resolve(pc, symbol);
    if (k) *k = (known){pc, *symbol};
}

void preload_symbols_forget(void) {
    for (int i = 0; i < MAPPED; i++) {
        if (files[i].elf.n) munmap((void *)(uintptr_t)files[i].elf.bytes, files[i].elf.n);
        files[i] = (mapped_file){0};
    }
    preload_unmap(cache, KNOWN * sizeof *cache);
    cache = NULL;
}
