#!/usr/bin/env python3
"""schema_orders.py MATCH_TEXTS [SCHEMAS [SEED]]: members in any order, both ways.

Random schemas without a type that name two or three members, beside one another, in allOf and anyOf, and lists of
constants with as many members; documents have them in random orders, then others. PyPI's jsonschema judges: valid
documents can be written (but for those of anyOf and "not", of which only the converse is asked), invalid ones
can't. Exits with 1 where one was judged wrongly.
"""
import json
import random
import subprocess
import sys

import jsonschema

NAMES = ["a", "ab", "\u00e9", "b\"", "zz"]
VALUES = [1, "x", 2, "s", None, True, {"q": 1}, {"a": 2, "q": 1}, [1], {}]
LEAVES = [{"type": "integer"}, {"const": 1}, {"type": "string"}, True, False, {}, {"enum": ["x", 2]},
          {"properties": {"q": {"const": 1}, "a": {}}, "required": ["q"]}]
DOCUMENTS = 40


def part(r, names):
    schema = {"properties": {name: r.choice(LEAVES) for name in names}}
    if r.random() < 0.6:
        schema["required"] = [name for name in names if r.random() < 0.5]
    return schema


def schema_of(r, names):
    """A schema, and whether all its valid documents can be written."""
    cut = r.randint(1, len(names) - 1)
    parts = [part(r, names[:cut]), part(r, names[cut:])]
    return r.choice([
        (part(r, names), True),
        ({"allOf": parts}, True),
        ({"anyOf": parts}, False),
        ({"not": {"anyOf": parts, "unevaluatedProperties": False}}, False),
        ({**part(r, names), "additionalProperties": r.choice([False, {"type": "integer"}, True])}, True),
        ({"const": {name: r.choice(VALUES) for name in names}}, True),
        ({"enum": [{name: r.choice(VALUES) for name in r.sample(names, 2)} for _ in range(3)]}, True)])


def document_of(r, schema, names):
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not values:
        document = {name: r.choice(VALUES) for name in r.sample(names, r.randint(0, len(names)))}
        return {**document, "other": r.choice(VALUES)} if r.random() < 0.3 else document
    document = r.choice(values)
    document = {name: document[name] for name in r.sample(list(document), len(document))}
    if r.random() < 0.3:
        document[r.choice(NAMES)] = r.choice(VALUES)
    return document


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    r, judged, wrong = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1), [0, 0], 0
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def ask(kind, text):
            process.stdin.write(f"{kind} {text.encode().hex()}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1000):
            names = r.sample(NAMES, r.randint(2, 3))
            schema, whole = schema_of(r, names)
            taken = ask("s", json.dumps(schema)) == "ok"
            validator = jsonschema.Draft202012Validator(schema)
            for _ in range(DOCUMENTS):
                document = document_of(r, schema, names)
                valid = validator.is_valid(document)
                texts = [json.dumps(document, ensure_ascii=ascii_only, separators=separators)
                         for ascii_only in (False, True) for separators in ((",", ":"), (", ", ": "))]
                written = [taken and ask("t", text).startswith("yes") for text in texts]
                judged[valid] += 1
                if any(written) if not valid else whole and not all(written):
                    wrong += 1
                    print(json.dumps(schema), json.dumps(document), "valid" if valid else "invalid", written)
        process.stdin.close()
    print(f"{judged[1]} valid, {judged[0]} invalid, {wrong} judged wrongly")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
