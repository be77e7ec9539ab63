#!/usr/bin/env python3
"""grammar_values.py VOCABULARY.gguf...: what an enum of 1,000 values costs, for each vocabulary.

Needs build/release/libmnem.so, and of each file only its vocabulary. Four kinds of values: codes, words,
addresses of one prefix, and texts beyond ASCII. A list of 60 of them is walked token by token: a mask, and
the step past the token. Then an object of 5,000 properties is compiled. One thread, its processor time; of
each token the best of five walks, every one with a grammar that was just compiled, so that nothing is
cached. Exits 1 where a median is above 50 us, a p99 above 1 ms, a token above 10 ms, or compiling takes
more than 100 ms (the values) or 1 s (the properties).
"""
import json
import random
import sys

import compare_grammar

VALUES, WALKED, WALKS = 1000, 60, 5
SYLLABLES = "ba ko mi ter san lo ri ven da pe chu gran sol ex ti on".split()
LETTERS = "äöüéèñçßabcdefghij漢字東京大阪"


def codes(r):
    return "".join(r.choice("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789") for _ in range(8))


def words(r):
    return " ".join("".join(r.choices(SYLLABLES, k=r.randint(2, 4))).capitalize() for _ in range(r.randint(1, 3)))


def addresses(r):
    return f"https://example.com/schemas/2024/item-{r.randrange(10**6):06}"


def texts(r):
    return "".join(r.choices(LETTERS, k=r.randint(4, 12))) + str(r.randrange(1000))


def distinct(kind, r):
    values = {}
    while len(values) < VALUES:
        values[kind(r)] = True
    return list(values)


def walk(side, schema, text):
    """The time to compile, and of each token."""
    times = []
    compiling, _ = compare_grammar.timed(side.compile, schema)
    if not compare_grammar.walk(side, text, times):
        sys.exit(f"not accepted: {text[:60]}")
    return compiling, times


def measure(side, kind):
    r = random.Random(kind.__name__)
    values = distinct(kind, r)
    schema = json.dumps({"type": "object", "properties": {"v": {"type": "array", "items": {"enum": values}}},
                         "required": ["v"]}).encode()
    text = json.dumps({"v": r.sample(values, WALKED)}, ensure_ascii=False).encode()
    runs = [walk(side, schema, text) for _ in range(WALKS)]
    times = sorted(map(min, zip(*(times for _, times in runs))))
    median, p99 = (times[int(len(times) * q)] / 1e3 for q in (0.5, 0.99))
    longest, compiling = times[-1] / 1e6, min(c for c, _ in runs) / 1e6
    print(f"  {kind.__name__}: compile {compiling:.1f} ms; {len(times)} tokens: median {median:.0f} us, "
          f"p99 {p99:.0f} us, longest {longest:.2f} ms")
    return median <= 50 and p99 <= 1000 and longest <= 10 and compiling <= 100


def properties(side):
    schema = {"type": "object", "properties": {f"property_{i}": {"type": "string"} for i in range(5000)}}
    compiling = min(compare_grammar.timed(side.compile, json.dumps(schema).encode())[0] for _ in range(3)) / 1e6
    print(f"  5,000 properties: compile {compiling:.0f} ms")
    return compiling <= 1000


def main():
    good = True
    for path in sys.argv[1:]:
        vocabulary = compare_grammar.Vocabulary(path)
        side = compare_grammar.Ours(vocabulary)
        print(f"{path.rsplit('/', 1)[-1]}: {vocabulary.count} tokens")
        for kind in (codes, words, addresses, texts):
            good &= measure(side, kind)
        good &= properties(side)
    return 0 if good and sys.argv[1:] else 1


if __name__ == "__main__":
    sys.exit(main())
