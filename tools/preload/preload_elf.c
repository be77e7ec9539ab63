/* preload_elf.c: sections and symbols of an ELF file in memory.
 *
 * Invariant: every offset is checked against the bytes before it is followed; texts end within
 * them.
 * Cost: a symbol is a pass over the table. */
#include "preload_elf.h"

#include <elf.h>
#include <string.h>

static bool within(size_t n, uint64_t at, uint64_t bytes) {
    return at <= n && bytes <= n - at;
}

static bool header_get(preload_elf elf, Elf64_Ehdr *header) {
    if (elf.n < sizeof *header) return false;
    memcpy(header, elf.bytes, sizeof *header);
    return !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_shentsize == sizeof(Elf64_Shdr) &&
           within(elf.n, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr));
}

static bool section_get(preload_elf elf, const Elf64_Ehdr *header, uint64_t index,
                        Elf64_Shdr *section, preload_span *span) {
    if (index >= header->e_shnum) return false;
    memcpy(section, elf.bytes + header->e_shoff + index * sizeof *section, sizeof *section);
    if (section->sh_type == SHT_NOBITS || section->sh_flags & SHF_COMPRESSED ||
        !within(elf.n, section->sh_offset, section->sh_size))
        return false;
    *span = (preload_span){elf.bytes + section->sh_offset, section->sh_size};
    return true;
}

/* The text at an offset; NULL: none that ends. */
static const char *text_at(preload_span span, uint64_t at) {
    return at < span.n && memchr(span.at + at, 0, span.n - at) ? (const char *)span.at + at : NULL;
}

bool preload_elf_section(preload_elf elf, const char *name, preload_span *span) {
    Elf64_Ehdr header;
    Elf64_Shdr section;
    preload_span names;
    if (!header_get(elf, &header) ||
        !section_get(elf, &header, header.e_shstrndx, &section, &names))
        return false;
    for (uint64_t i = 0; i < header.e_shnum; i++) {
        if (!section_get(elf, &header, i, &section, span)) continue;
        const char *own = text_at(names, section.sh_name);
        if (own && !strcmp(own, name)) return true;
    }
    return false;
}

static bool symbol_in(preload_span symbols, preload_span texts, uint64_t address, const char **name,
                      uint64_t *offset) {
    Elf64_Sym s;
    for (size_t i = 0; i + sizeof s <= symbols.n; i += sizeof s) {
        memcpy(&s, symbols.at + i, sizeof s);
        const unsigned type = ELF64_ST_TYPE(s.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s.st_shndx == SHN_UNDEF ||
            address < s.st_value || address - s.st_value >= s.st_size)
            continue;
        *name = text_at(texts, s.st_name);
        *offset = address - s.st_value;
        if (*name && **name) return true;
    }
    return false;
}

bool preload_elf_symbol(preload_elf elf, uint64_t address, const char **name, uint64_t *offset) {
    Elf64_Ehdr header;
    Elf64_Shdr section, linked;
    preload_span symbols, texts;
    if (!header_get(elf, &header)) return false;
    for (int pass = 0; pass < 2; pass++) /* .symtab has all that .dynsym has */
        for (uint64_t i = 0; i < header.e_shnum; i++)
            if (section_get(elf, &header, i, &section, &symbols) &&
                section.sh_type == (pass ? SHT_DYNSYM : SHT_SYMTAB) &&
                section_get(elf, &header, section.sh_link, &linked, &texts) &&
                symbol_in(symbols, texts, address, name, offset))
                return true;
    return false;
}

bool preload_elf_build_id(preload_elf elf, preload_span *id) {
    preload_span note;
    uint32_t head[3]; /* bytes of the name, of the identity, type */
    if (!preload_elf_section(elf, ".note.gnu.build-id", &note) || note.n < 16) return false;
    memcpy(head, note.at, sizeof head);
    if (head[0] != 4 || head[1] < 2 || head[1] > 64 || !within(note.n, 16, head[1])) return false;
    *id = (preload_span){note.at + 16, head[1]};
    return true;
}
