/* probe_system.c: what the system says of its caches: a prior, since virtual machines lie. */
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/thread.h"
#include "sight/probe/probe_private.h"

#if defined __x86_64__
#include <cpuid.h>
#endif

/* ---- sysfs ---- */

/* A cache's file, without the end of its line. */
static bool cache_file(const char *root, int processor, int index, const char *name, char *out,
                       size_t n) {
    char path[160];
    snprintf(path, sizeof path, "%.64s/sys/devices/system/cpu/cpu%d/cache/index%d/%s", root,
             processor, index, name);
    if (mnem__file_read_small(path, out, n) != MNEM_OK) return false;
    out[strcspn(out, "\n")] = 0;
    return true;
}

/* "48K" */
static uint64_t size_of(const char *text) {
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return n < (1ull << 32) ? (uint64_t)n << shift : 0;
}

/* "0-3,8": how many. */
static int32_t count_of(const char *list) {
    int32_t count = 0;
    for (const char *at = list; isdigit((unsigned char)*at);) {
        char *end;
        const long first = strtol(at, &end, 10),
                   last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (last < first || last - first > 1 << 16) break;
        count += (int32_t)(last - first) + 1;
        at = *end == ',' ? end + 1 : end;
    }
    return count ? count : 1;
}

void mnem__probe_caches(const char *root, int processor, uint64_t bytes[3], int32_t shared[3]) {
    char text[256];
    for (int i = 0; i < 8; i++) {
        if (!cache_file(root, processor, i, "type", text, sizeof text)) return;
        if (!strcmp(text, "Instruction")) continue;
        if (!cache_file(root, processor, i, "level", text, sizeof text)) continue;
        const long level = strtol(text, NULL, 10);
        if (level < 1 || level > 3) continue;
        if (cache_file(root, processor, i, "size", text, sizeof text))
            bytes[level - 1] = size_of(text);
        if (cache_file(root, processor, i, "shared_cpu_list", text, sizeof text))
            shared[level - 1] = count_of(text);
    }
}

/* The first that this process may use. */
static int first_processor(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) return i;
    return 0;
}

/* ---- the processor's name ---- */

#if defined __x86_64__
static void processor_name(char name[64]) {
    unsigned word[13] = {0}, most = __get_cpuid_max(0x80000000u, NULL);
    if (most < 0x80000004u) return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &word[4 * i], &word[4 * i + 1], &word[4 * i + 2],
                    &word[4 * i + 3]);
    char text[sizeof word];
    memcpy(text, word, sizeof word);
    size_t n = 0;
    for (const char *at = text; *at && n < 63; at++)
        if (*at != ' ' || (n && name[n - 1] != ' ')) name[n++] = *at;
    while (n && name[n - 1] == ' ') n--;
    name[n] = 0;
}

bool mnem__probe_has_pairs(void) {
    unsigned a, b, c, d;
    if (mnem__cpu_level_get() < MNEM__CPU_AVX512) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 5);
}

/* Leaf 7, edx: 22 products of bf16 tiles, 25 of int8's; 23 numbers of 16 bits. */
void mnem__probe_unused(char *text, size_t n) {
    unsigned a, b, c, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) d = 0;
    const bool tiles = d & (1u << 22 | 1u << 25), halves = d & 1u << 23;
    snprintf(text, n, "%s%s%s", tiles ? "AMX" : "", tiles && halves ? ", " : "",
             halves ? "AVX512-FP16" : "");
}
#else
static void processor_name(char name[64]) {
    (void)name;
}

void mnem__probe_unused(char *text, size_t n) {
    if (n) *text = 0;
}

bool mnem__probe_has_pairs(void) {
    return false;
}
#endif

void mnem__probe_system_get(mnem__probe_system *system) {
    *system = (mnem__probe_system){.cache_shared = {1, 1, 1}};
    processor_name(system->processor);
    if (!*system->processor) snprintf(system->processor, sizeof system->processor, "unknown");
    mnem__probe_caches("", first_processor(), system->cache_bytes, system->cache_shared);
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) system->memory_bytes = (uint64_t)pages * (uint64_t)page;
}

uint64_t mnem__probe_last_bytes(const mnem__probe_system *system, int32_t processors) {
    int last = 2;
    while (last > 0 && !system->cache_bytes[last]) last--;
    const int32_t shared = system->cache_shared[last] > 0 ? system->cache_shared[last] : 1;
    const int32_t caches = processors > shared ? (processors + shared - 1) / shared : 1;
    return (uint64_t)caches * system->cache_bytes[last];
}

uint64_t mnem_probe_last_cache(void) {
    mnem__probe_system system;
    mnem__probe_system_get(&system);
    return mnem__probe_last_bytes(&system, mnem__processors());
}

const mnem__probe_kernels *mnem__probe_kernels_get(mnem__cpu_level level) {
#if defined __x86_64__
    if (level >= MNEM__CPU_AVX512) return &mnem__probe_kernels_avx512;
    if (level >= MNEM__CPU_AVX2) return &mnem__probe_kernels_avx2;
#endif
    (void)level;
    return &mnem__probe_kernels_plain;
}

/* ---- which machine it is ---- */

/* FNV-1a (Fowler, Noll, Vo). */
static void mix(uint64_t *hash, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        *hash = (*hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ull;
}

uint64_t mnem_probe_fingerprint(void) {
    uint64_t hash = 0xcbf29ce484222325ull;
    mnem__probe_system system;
    mnem__probe_system_get(&system);
    /* Of memory 64 MiB don't matter: kernels keep some more or less. */
    const uint64_t number[] = {(uint64_t)mnem__cpu_level_get(), mnem__probe_has_pairs(),
                               (uint64_t)mnem__processors(), system.memory_bytes >> 26};
    mix(&hash, system.processor, strlen(system.processor));
    mix(&hash, system.cache_bytes, sizeof system.cache_bytes);
    mix(&hash, number, sizeof number);
    return hash;
}
