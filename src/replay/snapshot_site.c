/* snapshot_site.c: where a block was asked for: one line of text for a list of frames.
 *
 * A stack is ten to eighty frames, the innermost first: the recorder (unwind, gather), the
 * allocator, PyTorch's C++, its Python, then the user's code. The site is the innermost of the best
 * kind that there is:
 *
 *     own       Python outside of libraries      train.py:41 forward
 *     library   Python of a library              torch/nn/modules/linear.py:125 forward
 *     backward  a node of the autograd engine,   BmmBackward0 (autograd)
 *               whose threads have no Python
 *     operator  PyTorch's, called from C++       aten::bmm
 *     native    other C++                        at::cuda::getNewWorkspace()
 *     noise     "??", the recorder, the allocator, the interpreter: only if nothing else is there
 *
 * Texts lie one behind the other, each with its zero, and a byte before it that says how long the
 * folders at its start are. Cost: once for each list of frames, which snapshots share. */
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "replay/snapshot_facts.h"

enum { SITE_MAX = 240, PATH_MAX_SHOWN = 140, FRAMES_MAX = 128 };

typedef enum frame_kind { NOISE, NATIVE, OPERATOR, BACKWARD, LIBRARY, OWN } frame_kind;

static const char operators[] = "at::_ops::", nodes[] = "autograd::generated::";

typedef struct text {
    const char *at;
    size_t n;
} text;

static bool holds(text t, const char *part) {
    return memmem(t.at, t.n, part, strlen(part)) != NULL;
}

static bool begins(text t, const char *start) {
    const size_t n = strlen(start);
    return t.n >= n && memcmp(t.at, start, n) == 0;
}

static bool ends(text t, const char *end) {
    const size_t n = strlen(end);
    return t.n >= n && memcmp(t.at + t.n - n, end, n) == 0;
}

/* ---- kinds ---- */

static bool holds_any(text t, const char *const *parts) {
    for (; *parts; parts++)
        if (holds(t, *parts)) return true;
    return false;
}

/* What is on every stack, and says nothing of who asked. */
static bool is_noise(text file, text name) {
    static const char *const names[] = {
        "unwind",     "gather", "CachingAllocator", "PyEval_", "PyObject_", "PyFunction_", "_start",
        "libc_start", "??",     "_PyFunction",      NULL};
    static const char *const files[] = {"CachingAllocator", "memory_snapshot", "boxing",
                                        "Register",         "ceval.",          "pythonrun",
                                        "Modules/main",     "Objects/call",    NULL};
    return !name.n || holds_any(name, names) || holds_any(file, files);
}

/* "<stdin>" and a notebook's cells are the user's; frozen and generated code isn't. */
static bool is_typed_in(text file) {
    return begins(file, "<stdin") || begins(file, "<ipython") || begins(file, "<cell");
}

static frame_kind kind_of_native(text file, text name) {
    if (holds(name, nodes) && holds(name, "::apply(")) return BACKWARD;
    if (begins(name, operators) && !holds(name, "::empty")) return OPERATOR;
    return is_noise(file, name) ? NOISE : NATIVE;
}

static frame_kind kind_of(text file, text name) {
    static const char *const libraries[] = {"/torch/", "-packages/", "/lib/python", "<", NULL};
    if (is_typed_in(file)) return OWN;
    if (!ends(file, ".py")) return kind_of_native(file, name);
    return holds_any(file, libraries) ? LIBRARY : OWN;
}

/* ---- text ---- */

typedef struct site {
    char text[SITE_MAX];
    size_t used, folders;
} site;

/* What isn't ASCII text as '?'. */
static void append_ascii(site *s, text t) {
    for (size_t i = 0; i < t.n && s->used < SITE_MAX - 1; i++)
        s->text[s->used++] = t.at[i] >= 32 && t.at[i] < 127 ? t.at[i] : '?';
}

static void put_word(site *s, const char *word) {
    append_ascii(s, (text){word, strlen(word)});
}

static void put_number(site *s, uint64_t number) {
    char digits[20];
    size_t n = sizeof digits;
    do digits[--n] = (char)('0' + number % 10);
    while (number /= 10);
    append_ascii(s, (text){digits + n, sizeof digits - n});
}

/* The end of a long path counts. */
static void put_path(site *s, text file) {
    if (file.n > PATH_MAX_SHOWN) {
        file.at += file.n - PATH_MAX_SHOWN;
        file.n = PATH_MAX_SHOWN;
    }
    const char *slash = memrchr(file.at, '/', file.n);
    s->folders = slash ? (size_t)(slash + 1 - file.at) : 0;
    append_ascii(s, file);
}

/* What stands behind a part of a name, up to the next colon. */
static text word_behind(text name, const char *part) {
    const char *at = memmem(name.at, name.n, part, strlen(part));
    text word = {at + strlen(part), 0};
    while (word.at + word.n < name.at + name.n && word.at[word.n] != ':') word.n++;
    return word;
}

static void write_place(site *s, text file, uint64_t line, text name) {
    const bool placed = file.n && !begins(file, "?");
    if (placed) {
        put_path(s, file);
        put_word(s, ":");
        put_number(s, line);
    }
    if (placed && name.n) put_word(s, " ");
    append_ascii(s, name);
}

static void write_frame(site *s, frame_kind kind, text file, uint64_t line, text name) {
    *s = (site){.used = 0};
    if (kind == BACKWARD) {
        append_ascii(s, word_behind(name, nodes));
        put_word(s, " (autograd)");
    } else if (kind == OPERATOR) {
        put_word(s, "aten::");
        append_ascii(s, word_behind(name, operators));
    } else {
        write_place(s, file, line, name);
    }
}

static text text_of(const mnem__pickle *pickle, mnem__value v) {
    text t;
    t.at = mnem__pickle_text(pickle, v, &t.n);
    return t.at ? t : (text){"", 0};
}

static void choose_frame(site *s, const mnem__pickle *pickle, mnem__value frames) {
    mnem__pickle_walk walk = mnem__pickle_walk_begin(pickle, frames);
    mnem__value frame;
    int best = -1;
    for (int i = 0; i < FRAMES_MAX && best < (int)OWN; i++) {
        mnem__fields f;
        int64_t line = 0;
        if (!mnem__pickle_walk_next(pickle, &walk, &frame)) break;
        if (!mnem__pickle_fields(pickle, frame, &f)) continue;
        const text file = text_of(pickle, f.of[MNEM__WORD_FILENAME]);
        const text name = text_of(pickle, f.of[MNEM__WORD_NAME]);
        const frame_kind kind = kind_of(file, name);
        if ((int)kind <= best) continue;
        mnem__pickle_integer(pickle, f.of[MNEM__WORD_LINE], &line);
        write_frame(s, kind, file, (uint64_t)line, name);
        best = (int)kind;
    }
}

/* ---- kept ---- */

/* *at: behind the byte of its folders. */
static mnem_status keep(mnem__stack_sites *sites, mnem_workload *w, const site *s, uint32_t *at) {
    if (sites->bytes + s->used + 2 > sites->room) {
        const size_t room = sites->room ? sites->room * 2 : 4096;
        if (room > UINT32_MAX) return *at = 1, MNEM_OK; /* no more texts: "" */
        char *bigger = mnem__realloc("workload", w->site_text, room);
        if (!bigger) return mnem__heap_status();
        w->site_text = bigger;
        sites->room = room;
    }
    char *to = w->site_text + sites->bytes;
    *to = (char)(unsigned char)s->folders;
    memcpy(to + 1, s->text, s->used);
    to[s->used + 1] = 0;
    *at = (uint32_t)sites->bytes + 1;
    sites->bytes += s->used + 2;
    return MNEM_OK;
}

mnem_status mnem__stack_site(mnem__stack_sites *sites, const mnem__pickle *pickle, mnem_workload *w,
                             mnem__value frames, uint32_t *at) {
    site s = {.used = 0};
    if (!sites->bytes) MNEM__TRY(keep(sites, w, &s, at)); /* the first is "", at 1 */
    *at = 1;
    if (mnem__value_tag_of(frames) != MNEM__VALUE_LIST) return MNEM_OK;
    const uint32_t known = mnem__number_get(&sites->of_frames, frames);
    if (known != MNEM__NUMBER_NONE) return *at = known, MNEM_OK;
    choose_frame(&s, pickle, frames);
    MNEM__TRY(s.used ? keep(sites, w, &s, at) : MNEM_OK);
    return mnem__number_set(&sites->of_frames, frames, *at) ? MNEM_OK : mnem__heap_status();
}

const char *mnem__stack_text(const mnem_workload *w, uint32_t at) {
    return w->site_text ? w->site_text + at : "";
}

const char *mnem__stack_short(const mnem_workload *w, uint32_t at) {
    return w->site_text ? w->site_text + at + (unsigned char)w->site_text[at - 1] : "";
}
