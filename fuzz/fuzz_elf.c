/* fuzz_elf.c: any bytes as a program's file, and as the part of a program that says how its stack
 * is unwound: what libmnem-track.so reads in programs of others (tools/preload).
 *
 *     fuzz_elf -max_len=20000 NEW_FOLDER fuzz/corpus/elf */
#include <stdlib.h>
#include <string.h>

#include "preload.h"
#include "preload_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static void look_up(preload_elf elf, uint64_t address) {
    const char *name;
    uint64_t offset;
    unsigned line;
    char file[64];
    if (preload_elf_symbol(elf, address, &name, &offset)) {
        CHECK((const uint8_t *)name >= elf.bytes && (const uint8_t *)name < elf.bytes + elf.n);
        CHECK(*name && strlen(name) < elf.n && offset <= address);
    }
    if (preload_elf_line(elf, address, file, sizeof file, &line))
        CHECK(line && *file && strlen(file) < sizeof file);
}

/* The table of functions may begin anywhere. */
static void unwind(const uint8_t *bytes, size_t n) {
    for (size_t at = 0; at < n; at += 1 + n / 16)
        for (size_t pc = 0; pc < n; pc += 1 + n / 16) {
            const preload_rule r =
                preload_cfi_find(bytes + at, bytes, bytes + n, (uintptr_t)bytes + pc);
            CHECK(r.cfa >= PRELOAD_CFA_SP && r.cfa <= PRELOAD_CFA_END);
            CHECK(r.cfa_offset > -(1 << 24) && r.cfa_offset < 1 << 24);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    uint8_t *bytes = malloc(n ? n : 1); /* exactly as long */
    preload_span id;
    CHECK(bytes);
    if (n) memcpy(bytes, data, n);
    const preload_elf elf = {bytes, n};
    if (preload_elf_build_id(elf, &id)) CHECK(id.n >= 2 && id.n <= 64);
    for (uint64_t address = 0; address < 0x2000; address += 0x93) look_up(elf, address);
    unwind(bytes, n);
    free(bytes);
    return 0;
}
