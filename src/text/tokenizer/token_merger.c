/* token_merger.c: joins neighbouring symbols, the best pair first, for BPE and SentencePiece alike.
 *
 * The idea: a word is an array of units (bytes); a symbol lives at its first byte and writes its
 * length at its first and last byte, so that both neighbours are found without links. A tournament
 * tree over the units holds the key of the pair that starts there; its root is the next pair to
 * join, its leftmost path breaks ties.
 *
 *     text   l o w e r        span 2 2 1 2 2     (symbols "lo" "w" "er")
 *     leaves k . k . .        k: key of ("lo","w"), ("w","er"); '.': MNEM__NO_PAIR
 *
 * Leaves: 2n nodes serve any n. With K the power of two >= n, the tree's left-to-right order of
 * leaves is K .. 2n-1, then n .. K-1.
 * Invariant: a leaf has a key only if a symbol starts there and has a right neighbour; an inner
 * node is the smaller of its two children.
 * Cost: n - 1 joins at most, each O(log n) and three keys; 16 bytes for each byte of the word. */
#include "text/tokenizer/token_merger.h"

#include "base/heap.h"
#include "base/text/utf8.h"

enum { MERGER_ROOM_FIRST = 256 };

mnem_status mnem__merger_room(mnem__merger *m, size_t n) {
    if (n <= m->room) return MNEM_OK;
    mnem__merger_fini(m);
    if (n < MERGER_ROOM_FIRST) n = MERGER_ROOM_FIRST;
    m->id = mnem__alloc(MNEM__TOKENIZER_TAG, n * sizeof *m->id);
    m->span = m->id ? mnem__alloc(MNEM__TOKENIZER_TAG, n * sizeof *m->span) : NULL;
    m->tree = m->span ? mnem__alloc(MNEM__TOKENIZER_TAG, 2 * n * sizeof *m->tree) : NULL;
    if (!m->tree) {
        mnem__merger_fini(m);
        return mnem__heap_status();
    }
    m->room = (uint32_t)n;
    return MNEM_OK;
}

void mnem__merger_fini(mnem__merger *m) {
    mnem__free(m->id);
    mnem__free(m->span);
    mnem__free(m->tree);
    *m = (mnem__merger){0};
}

void mnem__merger_characters(mnem__merger *m, const mnem__token_vocab *v) {
    for (uint32_t i = 0; i < m->n;) {
        size_t length = mnem__utf8_length(m->text + i, m->n - i);
        if (length == 0) length = 1;
        m->span[i] = m->span[i + length - 1] = (uint32_t)length;
        m->id[i] = mnem__token_vocab_find(v, m->text + i, length);
        i += (uint32_t)length;
    }
}

static uint32_t power_of_two(uint32_t n) {
    return n < 2 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

static uint32_t leaf_of(uint32_t n, uint32_t power, uint32_t unit) {
    return unit < 2 * n - power ? power + unit : power + unit - n;
}

static uint32_t unit_of(uint32_t n, uint32_t power, uint32_t leaf) {
    return leaf >= power ? leaf - power : leaf + n - power;
}

static uint32_t smaller_child(const uint32_t *tree, uint32_t node) {
    const uint32_t a = tree[2 * node], b = tree[2 * node + 1];
    return a < b ? a : b;
}

static void tree_set(uint32_t *tree, uint32_t leaf, uint32_t key) {
    tree[leaf] = key;
    for (uint32_t node = leaf / 2; node > 0; node /= 2) {
        const uint32_t best = smaller_child(tree, node);
        if (tree[node] == best) break;
        tree[node] = best;
    }
}

static uint32_t tree_best(const uint32_t *tree, uint32_t n) {
    uint32_t node = 1;
    while (node < n) node = 2 * node + (tree[2 * node] != tree[node]);
    return node;
}

static uint32_t key_at(const mnem__merger *m, const mnem__merge_rule *rule, uint32_t unit) {
    const uint32_t right = unit + m->span[unit];
    return right < m->n ? rule->key(rule->context, m, unit, right) : MNEM__NO_PAIR;
}

static void join(mnem__merger *m, const mnem__token_vocab *vocab, uint32_t left, uint32_t right) {
    const uint32_t span = m->span[left] + m->span[right];
    m->span[left] = m->span[left + span - 1] = span;
    m->id[left] = mnem__token_vocab_find(vocab, m->text + left, span);
}

void mnem__merger_run(mnem__merger *m, const mnem__merge_rule *rule) {
    const uint32_t n = m->n, power = power_of_two(n);
    uint32_t *tree = m->tree;
    for (uint32_t i = 0; i < n; i++) tree[n + i] = MNEM__NO_PAIR;
    for (uint32_t i = 0; i < n; i += m->span[i]) tree[leaf_of(n, power, i)] = key_at(m, rule, i);
    for (uint32_t node = n - 1; node > 0; node--) tree[node] = smaller_child(tree, node);
    while (n > 1 && tree[1] != MNEM__NO_PAIR) {
        const uint32_t left = unit_of(n, power, tree_best(tree, n));
        const uint32_t right = left + m->span[left];
        tree_set(tree, leaf_of(n, power, right), MNEM__NO_PAIR);
        join(m, rule->vocab, left, right);
        tree_set(tree, leaf_of(n, power, left), key_at(m, rule, left));
        if (left == 0) continue;
        const uint32_t before = left - m->span[left - 1];
        tree_set(tree, leaf_of(n, power, before), key_at(m, rule, before));
    }
}
