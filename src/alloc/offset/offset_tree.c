/* offset_tree.c: the check of a tree of free runs (offset_tree.h).
 *
 * Invariant: a run is behind all of its left subtree and before all of its right one; the heights
 * of the two differ by one at most; what a run says of its subtree is right.
 * Cost: linear; as deep as the tree. */
#include "alloc/offset/offset_tree.h"

uint32_t mnem__tree_count(const mnem__runs *r, uint32_t i, const mnem__tree *tree) {
    if (!i) return 0;
    const mnem__run *run = mnem__run_at(r, i);
    const uint32_t left = run->left, right = run->right;
    const int skew = (int)mnem__tree_level(r, left) - (int)mnem__tree_level(r, right);
    if (skew < -1 || skew > 1 || !run->is_free || mnem__tree_update(r, i, tree)) return UINT32_MAX;
    for (uint32_t j = left; j; j = mnem__run_at(r, j)->right) /* its largest is the last */
        if (!tree->less(mnem__run_at(r, j), run)) return UINT32_MAX;
    for (uint32_t j = right; j; j = mnem__run_at(r, j)->left)
        if (!tree->less(run, mnem__run_at(r, j))) return UINT32_MAX;
    const uint32_t n = mnem__tree_count(r, left, tree), m = mnem__tree_count(r, right, tree);
    return n == UINT32_MAX || m == UINT32_MAX ? UINT32_MAX : n + m + 1;
}
