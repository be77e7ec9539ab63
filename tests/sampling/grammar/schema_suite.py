#!/usr/bin/env python3
"""schema_suite.py MATCH_TEXTS FOLDER: the schemas of JSON-Schema-Test-Suite, each with its documents.

FOLDER is tests/draft2020-12 of the public repository json-schema-org/JSON-Schema-Test-Suite. A document counts
as accepted where one of its forms is: json.dumps with and without blanks, members as they stand or in the
schema's order. A schema of which it is said that no value fits counts as taken, and its valid documents as
rejected. Prints what was refused and what was judged wrongly, and exits with 1 where an invalid document is
accepted, fewer than 300 schemas are taken, or more than 20 valid documents are rejected. Run by hand.
"""
import collections
import json
import pathlib
import subprocess
import sys

TAKEN_MIN, REJECTED_MAX = 300, 20
NO_VALUE = "no value fits"


def ordered(schema, value):
    """The value with the members of its objects in the schema's order."""
    if isinstance(value, list):
        items = schema.get("items", {}) if isinstance(schema, dict) else {}
        return [ordered(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties") if isinstance(schema, dict) else None
    known = known if isinstance(known, dict) else {}
    names = [name for name in known if name in value] + [name for name in value if name not in known]
    return {name: ordered(known.get(name, {}), value[name]) for name in names}


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, kind, text):
        self.process.stdin.write(f"{kind} {text.encode('utf-8', 'surrogatepass').hex()}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def accepts(self, schema, value):
        return any(self.ask("t", json.dumps(form, separators=separators, ensure_ascii=False)).startswith("yes")
                   for form in (value, ordered(schema, value)) for separators in ((", ", ": "), (",", ":")))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, count = Program(sys.argv[1]), collections.Counter()
    for path in sorted(pathlib.Path(sys.argv[2]).glob("*.json")):
        for group in json.loads(path.read_text()):
            answer = program.ask("s", json.dumps(group["schema"]))
            taken, none = answer == "ok", NO_VALUE in answer
            count["schemas"] += 1
            count["taken" if taken or none else "refused"] += 1
            if not taken and not none:
                print(f"refused: {path.name}: {group['description']}: {answer}")
            for test in group["tests"] if taken or none else []:
                got = taken and program.accepts(group["schema"], test["data"])
                if got != test["valid"]:
                    kind = "invalid accepted" if got else "valid rejected"
                    count[kind] += 1
                    print(f"{kind}: {path.name}: {group['description']}: {json.dumps(test['data'])}")
    for name in ("schemas", "taken", "refused", "invalid accepted", "valid rejected"):
        print(f"{name}: {count[name]}")
    sys.exit(count["invalid accepted"] > 0 or count["taken"] < TAKEN_MIN or count["valid rejected"] > REJECTED_MAX)


if __name__ == "__main__":
    main()
