/* preload_elf.h: what a program's file says of its addresses: functions, files and lines.
 *
 * Works on bytes that may be anything; nothing outside them is read. 64-bit ELF of this machine's
 * order of bytes. Takes no memory. Threads: any. */
#ifndef MNEM_TOOLS_PRELOAD_PRELOAD_ELF_H
#define MNEM_TOOLS_PRELOAD_PRELOAD_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct preload_elf {
    const uint8_t *bytes;
    size_t n;
} preload_elf;

typedef struct preload_span {
    const uint8_t *at;
    size_t n;
} preload_span;

/* The bytes of a section; false: it has none, or they are compressed. */
bool preload_elf_section(preload_elf elf, const char *name, preload_span *span);
/* The function that an address lies in (as linked), from .symtab or .dynsym; name is borrowed. */
bool preload_elf_symbol(preload_elf elf, uint64_t address, const char **name, uint64_t *offset);
/* The identity that its debug file has too; at most 64 bytes. */
bool preload_elf_build_id(preload_elf elf, preload_span *id);
/* The file and line of an address, from .debug_line of versions 2 to 5. */
bool preload_elf_line(preload_elf elf, uint64_t address, char *file, size_t n, unsigned *line);

#endif
