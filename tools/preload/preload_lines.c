/* preload_lines.c: the file and line of an address, from .debug_line (DWARF 2 to 5).
 *
 * Idea: each unit of the section is a program that writes rows "address, file, line" in order; all
 * are run until two neighbouring rows enclose the address. What the unit's names are is read only
 * then.
 * Invariant: a reader that runs over its end gives zeros and says so; every loop takes bytes.
 * Cost: a pass over the section, about 5 ns a byte. */
#include "preload_elf.h"

#include <stdio.h>
#include <string.h>

enum { FORMATS = 8, LNCT_PATH = 1, LNCT_DIRECTORY = 2 };

typedef struct reader {
    const uint8_t *at, *end;
    bool bad;
} reader;

typedef struct unit {
    reader program, tables; /* tables: directories and files */
    unsigned version, address_bytes, offset_bytes;
    unsigned min_bytes, max_ops, line_range, opcode_base;
    int line_base;
    uint8_t operands[256];
} unit;

typedef struct found {
    uint64_t file;
    unsigned line;
    bool yes;
} found;

static uint64_t take_number(reader *r, unsigned bytes) {
    uint64_t value = 0;
    if (r->bad || (size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes && i < 8; i++) value |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    return value;
}

static uint64_t take_leb(reader *r, bool is_signed) {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        const uint64_t byte = take_number(r, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80 && !r->bad) continue;
        if (is_signed && shift < 64 && byte & 0x40) value |= ~UINT64_C(0) << shift;
        return value;
    }
}

static void skip(reader *r, uint64_t bytes) {
    if (r->bad || bytes > (uint64_t)(r->end - r->at))
        r->bad = true;
    else
        r->at += bytes;
}

static const char *take_text(reader *r) {
    const char *text = (const char *)r->at;
    const uint8_t *zero = r->bad ? NULL : memchr(r->at, 0, (size_t)(r->end - r->at));
    if (!zero) {
        r->bad = true;
        return "";
    }
    r->at = zero + 1;
    return text;
}

/* ---- units ---- */

/* r stands at a unit, and behind it afterwards. */
static bool unit_read(reader *r, unit *u) {
    memset(u, 0, sizeof *u);
    uint64_t length = take_number(r, 4);
    u->offset_bytes = length == 0xffffffff ? 8 : 4;
    if (u->offset_bytes == 8) length = take_number(r, 8);
    reader in = *r;
    skip(r, length);
    if (r->bad) return false;
    in.end = r->at;
    u->version = (unsigned)take_number(&in, 2);
    if (u->version < 2 || u->version > 5) return false;
    u->address_bytes = 8;
    if (u->version == 5) {
        u->address_bytes = (unsigned)take_number(&in, 1);
        take_number(&in, 1); /* segment selector */
    }
    const uint64_t header = take_number(&in, u->offset_bytes);
    reader program = in;
    skip(&program, header);
    in.end = program.at;
    u->min_bytes = (unsigned)take_number(&in, 1);
    u->max_ops = u->version >= 4 ? (unsigned)take_number(&in, 1) : 1;
    take_number(&in, 1); /* default is_stmt */
    u->line_base = (int8_t)take_number(&in, 1);
    u->line_range = (unsigned)take_number(&in, 1);
    u->opcode_base = (unsigned)take_number(&in, 1);
    for (unsigned i = 1; i < u->opcode_base; i++) u->operands[i] = (uint8_t)take_number(&in, 1);
    u->tables = in;
    u->program = program;
    u->program.end = r->at;
    return !in.bad && !program.bad && u->line_range && u->opcode_base && u->address_bytes == 8;
}

/* ---- rows ---- */

typedef struct state {
    uint64_t address, file, last_address, last_file;
    unsigned line, last_line;
    bool begun;
} state;

/* A row: does the address lie between the one before and this? */
static bool row(state *s, uint64_t wanted, found *f) {
    if (s->begun && s->last_address <= wanted && wanted < s->address) {
        *f = (found){s->last_file, s->last_line, true};
        return true;
    }
    s->begun = true;
    s->last_address = s->address;
    s->last_file = s->file;
    s->last_line = s->line;
    return false;
}

static bool extended(const unit *u, reader *r, state *s, uint64_t wanted, found *f) {
    const uint64_t length = take_leb(r, false);
    reader in = *r;
    skip(r, length);
    if (r->bad || !length) return false;
    in.end = r->at;
    const uint64_t op = take_number(&in, 1);
    if (op == 2) s->address = take_number(&in, u->address_bytes);
    if (op != 1) return false;
    if (row(s, wanted, f)) return true;
    *s = (state){.file = 1, .line = 1};
    return false;
}

static void standard(const unit *u, reader *r, state *s, unsigned op) {
    switch (op) {
    case 2: s->address += take_leb(r, false) * u->min_bytes; break;
    case 3: s->line += (unsigned)take_leb(r, true); break;
    case 4: s->file = take_leb(r, false); break;
    case 8: s->address += (uint64_t)((255 - u->opcode_base) / u->line_range) * u->min_bytes; break;
    case 9: s->address += take_number(r, 2); break;
    default:
        for (unsigned i = 0; i < u->operands[op]; i++) take_leb(r, false);
    }
}

static found search(const unit *u, uint64_t wanted) {
    found f = {0};
    reader r = u->program;
    state s = {.file = 1, .line = 1};
    while (r.at < r.end && !r.bad) {
        const unsigned op = (unsigned)take_number(&r, 1);
        if (op >= u->opcode_base) {
            const unsigned by = op - u->opcode_base;
            s.address += (uint64_t)(by / u->line_range) * u->min_bytes;
            s.line += (unsigned)(u->line_base + (int)(by % u->line_range));
            if (row(&s, wanted, &f)) break;
        } else if (op == 0) {
            if (extended(u, &r, &s, wanted, &f)) break;
        } else if (op == 1) {
            if (row(&s, wanted, &f)) break;
        } else {
            standard(u, &r, &s, op);
        }
    }
    return f;
}

/* ---- names ---- */

typedef struct texts {
    preload_span line, plain; /* .debug_line_str, .debug_str */
} texts;

static const char *text_at(preload_span span, uint64_t at) {
    return at < span.n && memchr(span.at + at, 0, span.n - at) ? (const char *)span.at + at : "";
}

/* A value of an entry: a text or a number; false: a form that isn't known. */
static bool take_form(const unit *u, reader *r, const texts *t, uint64_t form, const char **text,
                      uint64_t *number) {
    switch (form) {
    case 0x08: *text = take_text(r); break;
    case 0x1f: *text = text_at(t->line, take_number(r, u->offset_bytes)); break;
    case 0x0e: *text = text_at(t->plain, take_number(r, u->offset_bytes)); break;
    case 0x0b: *number = take_number(r, 1); break;
    case 0x05: *number = take_number(r, 2); break;
    case 0x06: *number = take_number(r, 4); break;
    case 0x07: *number = take_number(r, 8); break;
    case 0x0f: *number = take_leb(r, false); break;
    case 0x1e: skip(r, 16); break;
    case 0x09: skip(r, take_leb(r, false)); break;
    default: return false;
    }
    return !r->bad;
}

/* Version 5: a table of directories or of files, up to entry `wanted`; r stands behind all of it if
 * it isn't there. */
static bool table_entry(const unit *u, reader *r, const texts *t, uint64_t wanted,
                        const char **name, uint64_t *directory) {
    uint64_t type[FORMATS], form[FORMATS];
    const uint64_t formats = take_number(r, 1);
    if (formats > FORMATS) return false;
    for (uint64_t i = 0; i < formats; i++) {
        type[i] = take_leb(r, false);
        form[i] = take_leb(r, false);
    }
    const uint64_t count = take_leb(r, false);
    for (uint64_t i = 0; i < count && formats && !r->bad; i++) {
        for (uint64_t k = 0; k < formats; k++) {
            const char *text = "";
            uint64_t number = 0;
            if (!take_form(u, r, t, form[k], &text, &number)) return false;
            if (i == wanted && type[k] == LNCT_PATH) *name = text;
            if (i == wanted && type[k] == LNCT_DIRECTORY) *directory = number;
        }
        if (i == wanted) return true;
    }
    return false;
}

static bool names_5(const unit *u, const texts *t, uint64_t file, const char **directory,
                    const char **name) {
    const char *ignored = "";
    uint64_t at = 0, none = 0;
    reader r = u->tables;
    table_entry(u, &r, t, UINT64_MAX, &ignored, &none);
    if (r.bad || !table_entry(u, &r, t, file, name, &at)) return false;
    r = u->tables;
    return table_entry(u, &r, t, at, directory, &none);
}

/* Versions 2 to 4: texts up to an empty one; then files with three numbers each. From 1. */
static bool names_old(const unit *u, uint64_t file, const char **directory, const char **name) {
    reader r = u->tables;
    uint64_t at = 0;
    while (*take_text(&r)) {
    }
    for (uint64_t i = 1;; i++) {
        const char *text = take_text(&r);
        if (!*text) return false;
        const uint64_t folder = take_leb(&r, false);
        take_leb(&r, false);
        take_leb(&r, false);
        if (i != file) continue;
        *name = text;
        at = folder;
        break;
    }
    r = u->tables;
    for (uint64_t i = 1; i <= at; i++) {
        const char *text = take_text(&r);
        if (!*text) break;
        if (i == at) *directory = text;
    }
    return true;
}

bool preload_elf_line(preload_elf elf, uint64_t address, char *file, size_t n, unsigned *line) {
    preload_span span;
    texts t = {0};
    unit u;
    if (!preload_elf_section(elf, ".debug_line", &span)) return false;
    reader r = {span.at, span.at + span.n, false};
    found f = {0};
    while (r.at < r.end && !r.bad && !f.yes)
        if (unit_read(&r, &u)) f = search(&u, address);
    if (!f.yes || !f.line) return false;
    if (!preload_elf_section(elf, ".debug_line_str", &t.line)) t.line = (preload_span){0};
    if (!preload_elf_section(elf, ".debug_str", &t.plain)) t.plain = (preload_span){0};
    const char *directory = "", *name = "";
    const bool named = u.version == 5 ? names_5(&u, &t, f.file, &directory, &name)
                                      : names_old(&u, f.file, &directory, &name);
    if (!named || !*name) return false;
    snprintf(file, n, "%s%s%s", *name == '/' ? "" : directory,
             *name == '/' || !*directory ? "" : "/", name);
    *line = f.line;
    return true;
}
