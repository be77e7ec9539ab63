/* schema_twins.c: see schema_twins.h.
 *
 * The idea: generators write the schema of a name, a date or an identifier wherever one is used.
 * Written once, it is one rule, which saves its bytes, the time to make it, and what a text's state
 * may hold. A hash over what constrains finds those that may be equal, and a walk compares them.
 * Cost: linear in the schemas that are asked for, each of which is hashed once. */
#include "sampling/grammar/schema/twins/schema_twins.h"

struct mnem__twin {
    const mnem__node *node, *first;
    uint64_t hash; /* of what it says */
    mnem__twin *same_node, *same_hash;
};

/* How an object is read: SCHEMA: only keywords that constrain count; NAMES: all members count, and
 * are schemas; VALUE: all counts. */
typedef enum twin_mode { SCHEMA, NAMES, VALUE } twin_mode;

enum { SLOTS = 256 };

static bool is_in(const char *key, const char *const *list) {
    for (; *list; list++)
        if (strcmp(key, *list) == 0) return true;
    return false;
}

static twin_mode mode_below(twin_mode mode, const mnem__node *n) {
    static const char *const names[] = {"properties", "patternProperties", "dependentSchemas",
                                        "dependencies", NULL};
    static const char *const values[] = {"enum", "const", "\1notEnum", NULL};
    if (mode != SCHEMA || !n->key) return mode == NAMES ? SCHEMA : mode;
    if (is_in(n->key, names)) return NAMES;
    return is_in(n->key, values) ? VALUE : SCHEMA;
}

/* The node itself or one behind it that counts. */
static const mnem__node *next_that_counts(const mnem__twins *t, const mnem__node *n,
                                          twin_mode mode) {
    while (n && mode == SCHEMA && n->key && !t->counts(n->key)) n = n->next;
    return n;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001B3);
    return mix(hash, n);
}

/* As deep as a JSON file may be. */
static uint64_t hash_of(const mnem__twins *t, const mnem__node *node, twin_mode mode,
                        uint64_t *visited) {
    uint64_t hash = mix(node->kind, (uint64_t)node->integer);
    ++*visited;
    hash = mix_bytes(hash, node->text, node->text_bytes);
    for (const mnem__node *n = next_that_counts(t, node->first, mode); n;
         n = next_that_counts(t, n->next, mode)) {
        if (n->key) hash = mix_bytes(hash, n->key, strlen(n->key));
        hash = mix(hash, hash_of(t, n, mode_below(mode, n), visited));
    }
    return hash;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same(const mnem__twins *t, const mnem__node *a, const mnem__node *b, twin_mode mode,
                    uint64_t *visited) {
    ++*visited;
    if (a->kind != b->kind || a->is_integer != b->is_integer || a->integer != b->integer ||
        memcmp(&a->number, &b->number, sizeof a->number) != 0 || !same_text(a->digits, b->digits) ||
        a->text_bytes != b->text_bytes || memcmp(a->text, b->text, a->text_bytes) != 0)
        return false;
    const mnem__node *n = next_that_counts(t, a->first, mode);
    const mnem__node *m = next_that_counts(t, b->first, mode);
    while (n && m) {
        if (!same_text(n->key, m->key) || !is_same(t, n, m, mode_below(mode, n), visited))
            return false;
        n = next_that_counts(t, n->next, mode);
        m = next_that_counts(t, m->next, mode);
    }
    return !n && !m;
}

static uint32_t slot_of(const mnem__twins *t, const mnem__node *node) {
    return (uint32_t)(((uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (t->slots - 1);
}

static void put(mnem__twins *t, mnem__twin *twin) {
    mnem__twin **by_node = &t->of_node[slot_of(t, twin->node)];
    mnem__twin **by_hash = &t->of_hash[twin->hash & (t->slots - 1)];
    twin->same_node = *by_node;
    twin->same_hash = *by_hash;
    *by_node = *by_hash = twin;
}

/* Four times as many slots; the old ones stay in the arena. */
static bool make_room(mnem__twins *t, mnem__arena *arena) {
    mnem__twin **old = t->of_node;
    const uint32_t slots = t->slots;
    if (t->count < slots) return true;
    t->slots = slots ? 4 * slots : SLOTS;
    t->of_node = mnem__arena_alloc(arena, t->slots * sizeof(void *));
    t->of_hash = mnem__arena_alloc(arena, t->slots * sizeof(void *));
    if (!t->of_node || !t->of_hash) return false;
    for (uint32_t i = 0; i < slots; i++)
        for (mnem__twin *twin = old[i], *next; twin; twin = next) {
            next = twin->same_node;
            put(t, twin);
        }
    return true;
}

const mnem__node *mnem__twins_first(mnem__twins *t, mnem__arena *arena, const mnem__node *node,
                                    uint64_t *visited) {
    *visited = 1;
    if (!make_room(t, arena)) return NULL;
    for (const mnem__twin *own = t->of_node[slot_of(t, node)]; own; own = own->same_node)
        if (own->node == node) return own->first;
    mnem__twin *twin = mnem__arena_alloc(arena, sizeof *twin);
    if (!twin) return NULL;
    *twin = (mnem__twin){node, node, hash_of(t, node, SCHEMA, visited), NULL, NULL};
    for (const mnem__twin *other = t->of_hash[twin->hash & (t->slots - 1)]; other;
         other = other->same_hash)
        if (other->hash == twin->hash && other->first == other->node &&
            is_same(t, node, other->node, SCHEMA, visited)) {
            twin->first = other->node;
            break;
        }
    put(t, twin);
    t->count++;
    return twin->first;
}
