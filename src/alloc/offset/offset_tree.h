/* offset_tree.h: a height-balanced tree of free runs (Adelson-Velsky and Landis, 1962), for the
 * policies that want an exact order among them.
 *
 * left and right are the children's numbers (0: none), level the height. There are no links to
 * parents: the path is kept on the stack, and is short because the height is at most 1.44
 * log2(2^26). */
#ifndef MNEM_SRC_ALLOC_OFFSET_OFFSET_TREE_H
#define MNEM_SRC_ALLOC_OFFSET_OFFSET_TREE_H

#include "alloc/offset/offset_runs.h"
#include "base/minmax.h"

enum { MNEM__TREE_DEPTH = 40 };

/* less: a strict order. pull: updates run i's summary of its subtree after its children changed;
 * returns whether it changed. */
typedef struct mnem__tree {
    bool (*less)(const mnem__run *x, const mnem__run *y);
    bool (*pull)(const mnem__runs *r, uint32_t i);
} mnem__tree;

/* The runs from the root down to the changed place. From `fresh` on, their summaries are those of
 * another place. */
typedef struct mnem__tree_path {
    uint32_t *root, runs[MNEM__TREE_DEPTH];
    int depth, fresh;
} mnem__tree_path;

static inline uint32_t mnem__tree_level(const mnem__runs *r, uint32_t i) {
    return i ? mnem__run_at(r, i)->level : 0;
}

MNEM__FIT_INLINE bool mnem__tree_update(const mnem__runs *r, uint32_t i, const mnem__tree *tree) {
    mnem__run *run = mnem__run_at(r, i);
    const uint32_t left = mnem__tree_level(r, run->left), right = mnem__tree_level(r, run->right);
    const uint32_t level = 1 + mnem__max_u32(left, right);
    const bool changed = level != run->level;
    run->level = level & 63;
    return tree->pull(r, i) || changed;
}

/*     i            c
 *    / \          / \
 *   c   z   ->   x   i       and its mirror image; returns c.
 *  / \              / \
 * x   y            y   z */
MNEM__FIT_INLINE uint32_t mnem__tree_rotate_right(const mnem__runs *r, uint32_t i,
                                                  const mnem__tree *tree) {
    mnem__run *run = mnem__run_at(r, i);
    const uint32_t c = run->left;
    run->left = mnem__run_at(r, c)->right;
    mnem__run_at(r, c)->right = i & ((1u << MNEM__RUN_BITS) - 1);
    mnem__tree_update(r, i, tree);
    mnem__tree_update(r, c, tree);
    return c;
}

MNEM__FIT_INLINE uint32_t mnem__tree_rotate_left(const mnem__runs *r, uint32_t i,
                                                 const mnem__tree *tree) {
    mnem__run *run = mnem__run_at(r, i);
    const uint32_t c = run->right;
    run->right = mnem__run_at(r, c)->left;
    mnem__run_at(r, c)->left = i & ((1u << MNEM__RUN_BITS) - 1);
    mnem__tree_update(r, i, tree);
    mnem__tree_update(r, c, tree);
    return c;
}

/* Balances run i's subtree, whose children are balanced and differ by at most two; returns its new
 * root. */
MNEM__FIT_INLINE uint32_t mnem__tree_balance(const mnem__runs *r, uint32_t i,
                                             const mnem__tree *tree) {
    mnem__run *run = mnem__run_at(r, i);
    const uint32_t left = mnem__tree_level(r, run->left), right = mnem__tree_level(r, run->right);
    if (left > right + 1) {
        const mnem__run *c = mnem__run_at(r, run->left);
        if (mnem__tree_level(r, c->left) < mnem__tree_level(r, c->right))
            run->left = mnem__tree_rotate_left(r, run->left, tree);
        return mnem__tree_rotate_right(r, i, tree);
    }
    if (right > left + 1) {
        const mnem__run *c = mnem__run_at(r, run->right);
        if (mnem__tree_level(r, c->right) < mnem__tree_level(r, c->left))
            run->right = mnem__tree_rotate_right(r, run->right, tree);
        return mnem__tree_rotate_left(r, i, tree);
    }
    return i;
}

/* Replaces `old` by `now` below the run at path[depth - 1], or as the root. */
static inline void mnem__tree_link(const mnem__runs *r, const mnem__tree_path *p, int depth,
                                   uint32_t old, uint32_t now) {
    now &= (1u << MNEM__RUN_BITS) - 1;
    if (depth == 0) {
        *p->root = now;
        return;
    }
    mnem__run *parent = mnem__run_at(r, p->runs[depth - 1]);
    if (parent->left == old)
        parent->left = now;
    else
        parent->right = now;
}

/* Repairs from the deepest run upwards, until nothing changes. */
MNEM__FIT_INLINE void mnem__tree_repair(const mnem__runs *r, mnem__tree_path *p,
                                        const mnem__tree *tree) {
    while (p->depth--) {
        const uint32_t i = p->runs[p->depth];
        const bool changed = mnem__tree_update(r, i, tree);
        const uint32_t top = mnem__tree_balance(r, i, tree);
        if (top != i)
            mnem__tree_link(r, p, p->depth, i, top);
        else if (!changed && p->depth < p->fresh)
            return;
    }
}

MNEM__FIT_INLINE void mnem__tree_insert(const mnem__runs *r, uint32_t *root, uint32_t i,
                                        const mnem__tree *tree) {
    mnem__tree_path p = {.root = root, .fresh = MNEM__TREE_DEPTH};
    mnem__run *run = mnem__run_at(r, i), *parent = NULL;
    bool left = false;
    for (uint32_t at = *root; at; at = left ? parent->left : parent->right) {
        p.runs[p.depth++] = at;
        parent = mnem__run_at(r, at);
        left = tree->less(run, parent);
    }
    run->left = run->right = 0;
    run->level = 0;
    mnem__tree_update(r, i, tree);
    if (!parent)
        *root = i;
    else if (left)
        parent->left = i & ((1u << MNEM__RUN_BITS) - 1);
    else
        parent->right = i & ((1u << MNEM__RUN_BITS) - 1);
    mnem__tree_repair(r, &p, tree);
}

/* Replaces run i by its successor in the right subtree; the path then ends above the successor's
 * old place. */
MNEM__FIT_INLINE void mnem__tree_replace(const mnem__runs *r, mnem__tree_path *p, uint32_t i) {
    const mnem__run *run = mnem__run_at(r, i);
    const int hole = p->fresh = p->depth++;
    uint32_t next = run->right;
    while (mnem__run_at(r, next)->left) {
        p->runs[p->depth++] = next;
        next = mnem__run_at(r, next)->left;
    }
    mnem__run *heir = mnem__run_at(r, next);
    if (p->depth > hole + 1) {
        mnem__run_at(r, p->runs[p->depth - 1])->left = heir->right;
        heir->right = run->right;
    }
    heir->left = run->left;
    heir->level = run->level;
    p->runs[hole] = next;
    mnem__tree_link(r, p, hole, i, next);
}

/* The path to run i, without i. */
MNEM__FIT_INLINE mnem__tree_path mnem__tree_path_to(const mnem__runs *r, uint32_t *root, uint32_t i,
                                                    const mnem__tree *tree) {
    mnem__tree_path p = {.root = root, .fresh = MNEM__TREE_DEPTH};
    const mnem__run *run = mnem__run_at(r, i);
    for (uint32_t at = *root; at != i;) {
        p.runs[p.depth++] = at;
        const mnem__run *parent = mnem__run_at(r, at);
        at = tree->less(run, parent) ? parent->left : parent->right;
    }
    return p;
}

MNEM__FIT_INLINE void mnem__tree_remove(const mnem__runs *r, uint32_t *root, uint32_t i,
                                        const mnem__tree *tree) {
    mnem__tree_path p = mnem__tree_path_to(r, root, i, tree);
    const mnem__run *run = mnem__run_at(r, i);
    if (run->left && run->right)
        mnem__tree_replace(r, &p, i);
    else
        mnem__tree_link(r, &p, p.depth, i, run->left | run->right);
    mnem__tree_repair(r, &p, tree);
}

/* Counts the runs of a subtree; UINT32_MAX: one is out of order or unbalanced. */
uint32_t mnem__tree_count(const mnem__runs *r, uint32_t i, const mnem__tree *tree);

#endif
