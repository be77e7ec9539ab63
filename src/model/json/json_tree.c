/* json_tree.c: see json_tree.h.
 *
 * The idea: nodes and texts come out of blocks of 32 KiB; a child is appended to its parent, which
 * the parser keeps on a stack as deep as events may nest.
 * Cost: 96 bytes a value, and its texts; finding a member walks over those before it, which is
 * right for the tens that a configuration has. */
#include "model/json/json_tree.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/heap.h"

enum { BLOCK_BYTES = 32 << 10 };

struct mnem__arena_block {
    mnem__arena_block *before;
    uint64_t unused; /* keeps what follows aligned */
};

void *mnem__arena_alloc(mnem__arena *a, size_t n) {
    n = (size_t)mnem__align_up(n, 8);
    if (n > a->room - a->used || !a->block) {
        const size_t room = n > BLOCK_BYTES ? n : BLOCK_BYTES;
        if (room > MNEM__ARENA_BYTES_MAX - a->bytes) {
            mnem__fail(MNEM_NO_MEMORY, "the parsed JSON needs more than 64 MiB, the limit");
            return NULL;
        }
        mnem__arena_block *b = mnem__calloc(MNEM__IMPORT_TAG, 1, sizeof *b + room);
        if (!b) return NULL;
        b->before = a->block;
        *a = (mnem__arena){.block = b, .room = room, .bytes = a->bytes + room};
    }
    void *here = (uint8_t *)(a->block + 1) + a->used;
    a->used += n;
    return here;
}

char *mnem__arena_text(mnem__arena *a, const char *text, size_t n) {
    char *copy = mnem__arena_alloc(a, n + 1);
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

void mnem__arena_free(mnem__arena *a) {
    while (a->block) {
        mnem__arena_block *before = a->block->before;
        mnem__free(a->block);
        a->block = before;
    }
    *a = (mnem__arena){0};
}

/* ---- reading ---- */

static mnem_status no_room(const mnem__json *j) {
    const mnem_status status = mnem__heap_status();
    return mnem__fail_in(status == MNEM_OK ? MNEM_NO_MEMORY : status, "%s", j->file.path);
}

static void append(mnem__node *parent, mnem__node *node) {
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    parent->count++;
}

static mnem_status node_make(mnem__arena *a, const mnem__json *j, mnem__json_event event,
                             mnem__node **out) {
    mnem__node *node = *out = mnem__arena_alloc(a, sizeof *node);
    if (!node) return no_room(j);
    *node = (mnem__node){.kind = (uint8_t)event, .text = ""};
    if (event == MNEM__JSON_TEXT) {
        node->text = mnem__arena_text(a, j->text, j->text_bytes);
        node->text_bytes = j->text_bytes;
        if (!node->text) return no_room(j);
    }
    if (event == MNEM__JSON_NUMBER) {
        node->number = j->number;
        node->integer = j->integer;
        node->is_integer = j->is_integer;
        if (j->is_big) node->digits = mnem__arena_text(a, j->text, j->text_bytes);
        if (j->is_big && !node->digits) return no_room(j);
    }
    return MNEM_OK;
}

typedef struct tree_reader {
    mnem__arena *arena;
    mnem__json *json;
    mnem__node *open[MNEM__JSON_DEPTH_MAX];
    int depth;
    const char *key; /* of the value that comes next */
} tree_reader;

/* One event. The root is what is made while nothing is open. */
static mnem_status take_event(tree_reader *r, mnem__json_event event, mnem__node **root) {
    mnem__node *node;
    if (event == MNEM__JSON_KEY) {
        r->key = mnem__arena_text(r->arena, r->json->text, r->json->text_bytes);
        return r->key ? MNEM_OK : no_room(r->json);
    }
    if (event == MNEM__JSON_OBJECT_END || event == MNEM__JSON_LIST_END) {
        r->depth--;
        return MNEM_OK;
    }
    MNEM__TRY(node_make(r->arena, r->json, event, &node));
    node->key = r->key;
    r->key = NULL;
    if (r->depth)
        append(r->open[r->depth - 1], node);
    else
        *root = node;
    if (event == MNEM__JSON_OBJECT || event == MNEM__JSON_LIST) r->open[r->depth++] = node;
    return MNEM_OK;
}

mnem_status mnem__tree_read(mnem__arena *arena, mnem__json *json, mnem__node **node) {
    tree_reader r = {.arena = arena, .json = json};
    *node = NULL;
    do {
        mnem__json_event event;
        MNEM__TRY(mnem__json_next(json, &event));
        MNEM__TRY(take_event(&r, event, node));
    } while (r.depth);
    return MNEM_OK;
}

mnem_status mnem__tree_open(mnem__arena *arena, const char *path, mnem__node **node) {
    struct stat st;
    mnem__json json;
    mnem__json_event event;
    *node = NULL;
    if (stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) return MNEM_OK;
    MNEM__TRY(mnem__json_open(&json, path));
    mnem_status status = mnem__tree_read(arena, &json, node);
    if (status == MNEM_OK) status = mnem__json_next(&json, &event);
    mnem__json_close(&json);
    return status;
}

/* ---- asking ---- */

/* Of members of one name the last counts, as in Python. */
const mnem__node *mnem__node_get(const mnem__node *object, const char *key) {
    const mnem__node *found = NULL;
    if (!object || object->kind != MNEM__JSON_OBJECT) return NULL;
    for (const mnem__node *n = object->first; n; n = n->next)
        if (strcmp(n->key, key) == 0) found = n;
    return found && found->kind != MNEM__JSON_NULL ? found : NULL;
}

const mnem__node *mnem__node_at(const mnem__node *list, uint32_t i) {
    if (!list || list->kind != MNEM__JSON_LIST) return NULL;
    const mnem__node *n = list->first;
    while (n && i--) n = n->next;
    return n;
}

const char *mnem__node_text(const mnem__node *node, const char *otherwise) {
    return node && node->kind == MNEM__JSON_TEXT ? node->text : otherwise;
}

double mnem__node_number(const mnem__node *node, double otherwise) {
    return node && node->kind == MNEM__JSON_NUMBER ? node->number : otherwise;
}

bool mnem__node_true(const mnem__node *node) {
    return node && node->kind == MNEM__JSON_TRUE;
}
