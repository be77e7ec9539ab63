/* schema_refs.c: where the $refs of a schema lead: JSON pointers (RFC 6901), and names that schemas
 * have ($id, $anchor). A $dynamicRef that can lead to one place only is a $ref. */
#include <stdlib.h>

#include "sampling/grammar/schema/schema_private.h"

enum { REFS_MAX = 100000 };

/* Writes a part of a pointer, up to the next /, without its escapes; false: it is too long. */
static bool take_part(const char **at, char *part, size_t n) {
    size_t used = 0;
    for (; **at && **at != '/'; ++*at) {
        char c = **at;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            c = (*at)[1] == '0' ? '~' : '/';
            ++*at;
        } else if (c == '%') {
            char hex[3] = {(*at)[1], (*at)[1] ? (*at)[2] : 0, 0}, *end;
            c = (char)strtol(hex, &end, 16);
            if (end == hex + 2) *at += 2;
            if (end != hex + 2) c = '%';
        }
        if (used + 1 == n) return false;
        part[used++] = c;
    }
    part[used] = 0;
    return true;
}

/* What stands there in a list by a whole number. */
static const mnem__node *numbered(const mnem__node *list, const char *part) {
    const size_t digits = strspn(part, "0123456789");
    const bool is = digits > 0 && digits < 10 && part[digits] == 0;
    return is ? mnem__node_at(list, (uint32_t)strtoul(part, NULL, 10)) : NULL;
}

static const mnem__node *find_target(const mnem__node *top, const char *pointer) {
    char part[256];
    const mnem__node *node = top;
    if (*pointer++ != '#') return NULL;
    while (node && *pointer == '/') {
        pointer++;
        if (!take_part(&pointer, part, sizeof part)) return NULL;
        node = node->kind == MNEM__JSON_LIST ? numbered(node, part) : mnem__node_get(node, part);
    }
    return *pointer ? NULL : node;
}

/* ---- names ---- */

static bool is_whole(const char *uri) {
    const size_t scheme = strcspn(uri, ":/?#");
    return uri[scheme] == ':';
}

/* Whether two references to documents mean the same, seen from the schema's own name. */
static bool is_same(const mnem__schema *s, const char *a, size_t a_bytes, const char *b) {
    const char *base = mnem__node_text(mnem__node_get(s->top, "$id"), NULL);
    if (!base) base = mnem__node_text(mnem__node_get(s->top, "id"), "");
    const size_t b_bytes = strcspn(b, "#");
    if (a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0) return true;
    if (is_whole(a) == is_whole(b)) return false;
    const char *whole = is_whole(a) ? a : b, *part = is_whole(a) ? b : a;
    const size_t whole_bytes = is_whole(a) ? a_bytes : b_bytes;
    const size_t part_bytes = is_whole(a) ? b_bytes : a_bytes;
    const char *slash = strrchr(base, '/');
    const size_t folder = slash && *part != '/' ? (size_t)(slash + 1 - base) : 0;
    return folder > 0 && part_bytes > 0 && whole_bytes == folder + part_bytes &&
           memcmp(whole, base, folder) == 0 && memcmp(whole + folder, part, part_bytes) == 0;
}

static const char *id_of(const mnem__node *node) {
    const char *id = mnem__node_text(mnem__node_get(node, "$id"), NULL);
    return id ? id : mnem__node_text(mnem__node_get(node, "id"), NULL);
}

/* Whether a word holds schemas by their names; of values, no schema. */
static bool is_map(const char *key) {
    static const char *const maps[] = {"$defs",        "definitions",      "properties",
                                       "dependencies", "dependentSchemas", "patternProperties"};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (strcmp(key, maps[i]) == 0) return true;
    return false;
}

static bool is_of_schemas(const char *key) {
    return is_map(key) ||
           (mnem__schema_tag(key) && strcmp(key, "enum") != 0 && strcmp(key, "const") != 0);
}

/* The schema of that name, n bytes, below a node. As deep as a JSON file may be. map: the node
 * holds schemas by their names. anywhere: also within words that no draft defines, where it is a
 * schema only because it is referred to (2020-12, core, 9.4.2). */
static const mnem__node *find_document(const mnem__schema *s, const mnem__node *node,
                                       const char *name, size_t n, bool map, bool anywhere) {
    const char *id = map && !anywhere ? NULL : id_of(node);
    if (id && *id != '#' && is_same(s, name, n, id)) return node;
    for (const mnem__node *c = node->first; c; c = c->next) {
        if (!anywhere && !map && c->key && !is_of_schemas(c->key)) continue;
        const bool of_names = !map && c->key && is_map(c->key);
        const mnem__node *found = find_document(s, c, name, n, of_names, anywhere);
        if (found) return found;
    }
    return NULL;
}

/* Not in a schema with an $id of its own. */
static const mnem__node *find_anchor(const mnem__node *node, const char *name, bool first) {
    const char *id = id_of(node), *own = mnem__node_text(mnem__node_get(node, "$id"), "#");
    if (*own != '#' && !first) return NULL;
    if (mnem__node_is(mnem__node_get(node, "$anchor"), name)) return node;
    if (mnem__node_is(mnem__node_get(node, "$dynamicAnchor"), name)) return node;
    if (id && *id == '#' && strcmp(id + 1, name) == 0) return node;
    for (const mnem__node *c = node->first; c; c = c->next) {
        const mnem__node *found = find_anchor(c, name, false);
        if (found) return found;
    }
    return NULL;
}

/* The schema with an $id of its own that a node stands in; NULL: the node isn't below. */
static const mnem__node *document_of(const mnem__node *node, const mnem__node *wanted,
                                     const mnem__node *within) {
    const char *id = mnem__node_text(mnem__node_get(node, "$id"), "#");
    if (*id != '#') within = node;
    if (node == wanted) return within;
    for (const mnem__node *c = node->first; c; c = c->next) {
        const mnem__node *found = document_of(c, wanted, within);
        if (found) return found;
    }
    return NULL;
}

/* Whether a schema below has an $id of its own. */
static bool has_documents(const mnem__node *node, const mnem__node *top) {
    const char *id = mnem__node_text(mnem__node_get(node, "$id"), "#");
    if (node != top && *id != '#') return true;
    for (const mnem__node *c = node->first; c; c = c->next)
        if (has_documents(c, top)) return true;
    return false;
}

static const mnem__node *find_named(mnem__schema *s, const mnem__node *ref) {
    const char *text = mnem__node_text(ref, ""), *fragment = strchr(text, '#');
    const size_t name = strcspn(text, "#");
    const mnem__node *document = s->top;
    if (name) {
        document = find_document(s, s->top, text, name, false, false);
        if (!document) document = find_document(s, s->top, text, name, false, true);
    } else if (s->documents)
        document = document_of(s->top, ref, s->top);
    if (!document) document = name ? NULL : s->top;
    if (!document || !fragment || !fragment[1]) return document;
    return fragment[1] == '/' ? find_target(document, fragment)
                              : find_anchor(document, fragment + 1, true);
}

const mnem__node *mnem__schema_target(mnem__schema *s, const mnem__node *ref) {
    const char *text = mnem__node_text(ref, "");
    if (s->refs == REFS_MAX) {
        mnem__schema_fail(s, MNEM_UNSUPPORTED,
                          "the schema follows \"$ref\" more than %d times, the limit", REFS_MAX);
        return NULL;
    }
    const bool named = s->documents || (*text && *text != '#') || (*text == '#' && text[1] != '/');
    if (named && !mnem__schema_spend(s, s->arena.bytes / 100)) return NULL;
    const mnem__node *target = find_named(s, ref);
    s->refs++;
    if (!target && *text == '#')
        mnem__schema_fail(s, MNEM_BAD_FILE,
                          "\"$ref\" is \"%.60s\", which is not found in the schema", text);
    else if (!target)
        mnem__schema_fail(
            s, MNEM_UNSUPPORTED,
            "\"$ref\" is \"%.60s\", which is not in this schema; copy its target into \"$defs\"",
            text);
    return target;
}

const mnem__node *mnem__schema_resolved(mnem__schema *s, const mnem__node *node) {
    for (int i = 0; i < 16 && node && s->status == MNEM_OK; i++) {
        const mnem__node *ref = mnem__schema_get(node, MNEM__WORD_REF);
        if (!ref || (node->count > 1 && !s->ref_alone)) return node;
        node = mnem__schema_target(s, ref);
    }
    return node;
}

/* ---- references that depend on the way to them ---- */

static uint32_t count_anchors(const mnem__node *node, const char *name) {
    uint32_t n = mnem__node_is(mnem__node_get(node, "$dynamicAnchor"), name);
    for (const mnem__node *c = node->first; c; c = c->next) n += count_anchors(c, name);
    return n;
}

/* Whether a $dynamicRef leads where a $ref would, from wherever it is reached: its anchor is not
 * dynamic, or the only one of its name (2020-12, core, 8.2.3.2). */
static bool is_static(mnem__schema *s, const mnem__node *ref) {
    const char *fragment = strchr(mnem__node_text(ref, ""), '#');
    const mnem__node *target = find_named(s, ref);
    if (!target) return false;
    if (!fragment || !fragment[1] || fragment[1] == '/') return true;
    return !mnem__node_is(mnem__node_get(target, "$dynamicAnchor"), fragment + 1) ||
           count_anchors(s->top, fragment + 1) == 1;
}

static void note_extended(mnem__schema *s, const mnem__node *ref) {
    const mnem__node *target = find_named(s, ref);
    uint32_t i = 0;
    while (i < MNEM__EXTENDED && s->extended[i] && s->extended[i] != target) i++;
    if (i < MNEM__EXTENDED) s->extended[i] = target;
}

bool mnem__schema_is_extended(const mnem__schema *s, const mnem__node *node) {
    uint32_t i = 0;
    while (i < MNEM__EXTENDED && s->extended[i] && s->extended[i] != node) i++;
    return i < MNEM__EXTENDED && s->extended[i];
}

static void settle(mnem__schema *s, mnem__node *members) {
    const char *const *words = mnem__schema_words;
    bool ref = false;
    for (const mnem__node *n = members; n; n = n->next)
        ref |= n->key && strcmp(n->key, words[MNEM__WORD_REF]) == 0;
    for (mnem__node *n = members; n; n = n->next) {
        const char *key = n->key ? n->key : "";
        const bool dynamic = strcmp(key, words[MNEM__WORD_DYNAMIC_REF]) == 0;
        const bool recursive = strcmp(key, words[MNEM__WORD_RECURSIVE_REF]) == 0;
        const bool value =
            strcmp(key, words[MNEM__WORD_CONST]) == 0 || strcmp(key, words[MNEM__WORD_ENUM]) == 0;
        if (!value) settle(s, n->first);
        if (ref || n->kind != MNEM__JSON_TEXT || !(dynamic || recursive)) continue;
        if (!mnem__schema_spend(s, s->arena.bytes / 50)) return;
        if (recursive ? s->documents : !is_static(s, n)) continue;
        n->key = words[MNEM__WORD_REF];
        if (dynamic) note_extended(s, n);
    }
}

void mnem__schema_settle_refs(mnem__schema *s) {
    s->documents = has_documents(s->top, s->top);
    if (!s->ref_alone) settle(s, s->top->first);
}
