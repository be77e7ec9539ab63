/* preload_unwind.c: the calls above an allocation.
 *
 * Idea: code without frame pointers says in .eh_frame how a caller's frame is found. That takes
 * long to read, but depends on the address alone, so each address's rule is kept: a step is then a
 * look-up, two additions and two loads. Where there is no such table (code made at run time, hand
 * written code) or on another processor, frames that begin with the saved frame pointer are
 * followed as long as they lie in order within the thread's stack.
 * Invariant: a rule is two words, the first its address xor the second, so that one that another
 * thread is writing is none; the stack only grows outwards, so every walk ends.
 * Cost: 2 to 4 ns a frame, a few microseconds for an address met the first time. */
#include "preload.h"

#include <link.h>
#include <pthread.h>

enum { RULES = 1 << 14, FP_BITS = 25, KEPT_SP_MAX = 16 << 20 };

static struct { atomic_uint_fast64_t key, rule; } rules[RULES];

/* ---- rules as words: cfa 3 bits, fp 2, offsets 25 each ---- */

static uint64_t pack(preload_rule r) {
    const uint64_t mask = (UINT64_C(1) << FP_BITS) - 1;
    return (uint64_t)r.cfa | (uint64_t)r.fp << 3 | ((uint64_t)r.cfa_offset & mask) << 5 |
           ((uint64_t)r.fp_offset & mask) << (5 + FP_BITS);
}

static int64_t offset_of(uint64_t word, int at) {
    return (int64_t)(word << (64 - FP_BITS - at)) >> (64 - FP_BITS);
}

/* ---- modules ---- */

typedef struct search {
    uintptr_t pc;
    preload_rule rule;
} search;

static int search_module(struct dl_phdr_info *info, size_t size, void *context) {
    search *s = context;
    const uint8_t *header = NULL;
    uintptr_t start = UINTPTR_MAX, end = 0;
    bool within = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type == PT_GNU_EH_FRAME) header = (const uint8_t *)from;
        if (p->p_type == PT_LOAD && s->pc >= from && s->pc < to) within = true;
    }
    if (!within) return 0;
    /* What may be read is the segment that has the table; the entries lie there too. */
    for (int i = 0; header && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type != PT_LOAD || (uintptr_t)header < from || (uintptr_t)header >= to) continue;
        start = from;
        end = to;
    }
    if (start < end)
        s->rule = preload_cfi_find(header, header - ((uintptr_t)header - start),
                                   header + (end - (uintptr_t)header), s->pc);
    return 1;
}

static uint64_t rule_make(uintptr_t pc) {
    search s = {pc, {.cfa = PRELOAD_CFA_CHAIN}};
#ifdef __x86_64__
    dl_iterate_phdr(search_module, &s);
#else
    (void)search_module;
#endif
    return pack(s.rule);
}

static uint64_t rule_of(uintptr_t pc) {
    const size_t at = pc * UINT64_C(0x9E3779B97F4A7C15) >> 50;
    uint64_t rule = atomic_load_explicit(&rules[at].rule, memory_order_relaxed);
    if (PRELOAD_LIKELY((atomic_load_explicit(&rules[at].key, memory_order_relaxed) ^ rule) == pc))
        return rule;
    rule = rule_make(pc);
    atomic_store_explicit(&rules[at].rule, rule, memory_order_relaxed);
    atomic_store_explicit(&rules[at].key, rule ^ pc, memory_order_relaxed);
    return rule;
}

void preload_unwind_forget(void) {
    for (size_t i = 0; i < RULES; i++)
        atomic_store_explicit(&rules[i].key, 0, memory_order_relaxed);
}

/* ---- frames ---- */

static PRELOAD_TLS uintptr_t stack_end;

static uintptr_t stack_end_find(void) {
    pthread_attr_t attr;
    void *base;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) return 1;
    stack_end = 1;
    if (pthread_attr_getstack(&attr, &base, &bytes) == 0) stack_end = (uintptr_t)base + bytes;
    pthread_attr_destroy(&attr);
    return stack_end;
}

/* By the chain of frame pointers, where it stays within the stack. */
static bool step_chain(preload_frame *f) {
    const uintptr_t end = stack_end ? stack_end : stack_end_find();
    if (f->fp < f->sp || f->fp % 8 || f->fp - f->sp > KEPT_SP_MAX || end < 16 || f->fp > end - 16)
        return false;
    const uintptr_t *frame = (const uintptr_t *)f->fp; /* the saved one, the return address */
    f->sp = f->fp + 16;
    f->fp = frame[0];
    f->pc = frame[1];
    return true;
}

static uintptr_t load(uintptr_t address) {
    return *(const uintptr_t *)address;
}

static bool step(preload_frame *f) {
    const uint64_t rule = rule_of(f->pc - 1); /* the call, not what follows it */
    const int64_t offset = offset_of(rule, 5);
    uintptr_t cfa;
    switch ((preload_cfa)(rule & 7)) {
    case PRELOAD_CFA_SP: cfa = f->sp + (uintptr_t)offset; break;
    case PRELOAD_CFA_FP: cfa = f->fp + (uintptr_t)offset; break;
    case PRELOAD_CFA_AT_FP: cfa = load(f->fp + (uintptr_t)offset); break;
    case PRELOAD_CFA_CHAIN: return step_chain(f);
    default: return false;
    }
    if (cfa <= f->sp || cfa % 8 || cfa - f->sp > KEPT_SP_MAX) return false;
    const preload_saved saved = (preload_saved)(rule >> 3 & 3);
    if (saved == PRELOAD_FP_AT_CFA)
        f->fp = load(cfa + (uintptr_t)offset_of(rule, 5 + FP_BITS));
    else if (saved == PRELOAD_FP_AT_FP)
        f->fp = load(f->fp + (uintptr_t)offset_of(rule, 5 + FP_BITS));
    f->pc = load(cfa - 8);
    f->sp = cfa;
    return true;
}

int preload_unwind(preload_frame from, uintptr_t *pcs, int max) {
    int n = 0;
    while (n < max && from.pc) {
        pcs[n++] = from.pc;
        if (!step(&from)) break;
    }
    return n;
}
