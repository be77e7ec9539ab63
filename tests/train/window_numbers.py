#!/usr/bin/env python3
"""Where windows of test_corpus_feed.c begin, written down again from the description: the numbers that
window_numbers_mean_the_same_everywhere expects."""

M32 = (1 << 32) - 1
STREAM = 0x77696E0000000000


def philox(key, low, high):
    k = [key & M32, key >> 32]
    c = [low & M32, low >> 32, high & M32, high >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & M32, (p >> 32) ^ c[3] ^ k[1], p & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c[1] << 32 | c[0]


def start(begin, tokens, sequence, seed, number):
    count = max(1, (tokens - sequence) // sequence)
    epoch, x = divmod(number, count)
    half = 1
    while (count - 1) >> (2 * half):
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = x >> half, x & mask
        for i in range(6):
            left, right = right, left ^ (philox(seed, i << 32 | right, STREAM + epoch) & mask)
        x = left << half | right
        if x < count:
            break
    phase = philox(seed, 1 << 63, STREAM + epoch) % (tokens - count * sequence)
    return begin + phase + x * sequence


if __name__ == "__main__":
    n = (1 << 30) - 1
    for number in (0, 1, 2, n, 5 * n + 7, 1 << 50):
        print(start(1000, 1 << 40, 1024, 42, number))
