#!/usr/bin/env python3
"""schema_random.py MNEM [SEEDS [TOKENS]]: answers of the model that ships, at a temperature of 1.5, to
random JSON schemas, validated with PyPI's jsonschema (formats too, numbers as decimals). An answer that is cut by -n isn't
validated, but must be the beginning of one that is: it is counted."""
import json
import random
import subprocess
import sys
import tempfile
from decimal import Decimal, getcontext

import jsonschema

getcontext().prec = 100
IS_INTEGER = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, x: isinstance(x, (int, Decimal)) and not isinstance(x, bool) and x == int(x))
EXACT = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=IS_INTEGER)


def schema(r, depth, defs):
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "length", "pattern", "format",
             "multiple", "both", "several"]
    if depth > 0:
        kinds += ["object", "object", "array", "array", "tuple", "anyOf", "map", "oneOf", "types", "keys"]
    if defs:
        kinds.append("ref")
    kind = r.choice(kinds)
    if kind in ("string", "boolean", "null"):
        return {"type": kind}
    if kind in ("integer", "number"):
        s = {"type": kind}
        low = r.choice([-1000, -7, 0, 0.5, 3, 120])
        if r.random() < 0.5:
            s[r.choice(["minimum", "exclusiveMinimum"])] = low
        if r.random() < 0.5:
            s[r.choice(["maximum", "exclusiveMaximum"])] = low + r.choice([2, 11, 99.5, 100000])
        return s
    if kind == "multiple":
        return {"type": r.choice(["number", "integer"]), "multipleOf": r.choice([1, 2, 7, 0.5, 0.01, 2.5, 256])}
    if kind == "both":
        return {"type": "string", "pattern": r.choice([r"^[a-z]{2,8}$", r"\d+", r"(ab|c)+x?$", r"\\|/"]), "minLength": r.randint(0, 4),
                "maxLength": r.randint(4, 9)}
    if kind == "several":
        low = r.randint(-9, 9)
        return {"type": ["integer", "null"], "allOf": [{"minimum": low}, {"maximum": low + r.randint(0, 99)}],
                **r.choice([{"anyOf": [{"minimum": low + 5}, {"type": "null"}, {"multipleOf": 3}]},
                            {"oneOf": [{"minimum": low + 5}, {"maximum": low + 9, "type": "integer"}]}])}
    if kind == "keys":
        return {"type": "object", "patternProperties": {"^x": schema(r, depth - 1, defs)},
                "additionalProperties": r.choice([False, {"type": "null"}]), "minProperties": r.randint(0, 1)}
    if kind == "enum":
        return {"enum": r.sample(["a", "b\"c", 1, -2.5, None, True, [1, {"x": None}], "é\n", {}], r.randint(1, 4))}
    if kind == "const":
        return {"const": r.choice(["x", 3, {"k": [1, 2]}, None])}
    if kind == "length":
        least = r.randint(0, 5)
        return {"type": "string", "minLength": least, "maxLength": least + r.randint(0, 9)}
    if kind == "pattern":
        return {"type": "string", "pattern": r.choice(
            [r"^[a-z]{2,8}$", r"\d+", r"^\w+@\w+\.(com|org)$", r"^[^\s\"]{1,9}", r"(ab|c)+x?$", r"^\S\D.$", r"\\|/"])}
    if kind == "format":
        return {"type": "string", "format": r.choice(["date", "time", "date-time", "uuid"])}
    if kind == "object":
        names = r.sample(["name", "names", "age", "n", "é", "a b", "x\"y", "tags"], r.randint(0, 5))
        s = {"type": "object", "properties": {n: schema(r, depth - 1, defs) for n in names}}
        if names:
            s["required"] = r.sample(names, r.randint(0, len(names)))
        if r.random() < 0.4:
            s["additionalProperties"] = r.choice([False, True, {"type": "integer"}])
        return s
    if kind == "map":
        return {"type": "object", "additionalProperties": schema(r, depth - 1, defs)}
    if kind == "array":
        s = {"type": "array", "items": schema(r, depth - 1, defs), "maxItems": r.randint(0, 4)}
        if r.random() < 0.5:
            s["minItems"] = r.randint(0, s["maxItems"])
        return s
    if kind == "tuple":
        s = {"type": "array", "prefixItems": [schema(r, depth - 1, defs) for _ in range(r.randint(1, 3))]}
        if r.random() < 0.6:
            s["items"] = r.choice([False, {"type": "integer"}])
        return s
    if kind == "oneOf":
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": k}, "v": schema(r, depth - 1, defs)},
                           "required": ["kind"]} for k in ("cat", "dog")] + [{"type": "null"}]}
    if kind == "types":
        return {"type": r.sample(["string", "integer", "boolean", "null", "array"], 2)}
    if kind == "ref":
        return {"$ref": "#/$defs/" + r.choice(defs)}
    return {"anyOf": [schema(r, depth - 1, defs) for _ in range(r.randint(1, 3))]}


def main():
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    tokens = sys.argv[3] if len(sys.argv) > 3 else "400"
    valid = cut = wrong = 0
    for seed in range(1, seeds + 1):
        r = random.Random(seed)
        s = schema(r, 3, ["p", "q"])
        s["$defs"] = {"p": schema(r, 1, []), "q": schema(r, 2, ["p"])}
        if "$ref" in json.dumps(s["$defs"]) and "#/$defs/q" in json.dumps(s["$defs"]):
            del s["$defs"]["q"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(s, file)
            file.flush()
            run = subprocess.run([sys.argv[1], "run", "-p", "In the beginning", "--json-schema", file.name, "-q",
                                  "--temp", "1.5", "--seed", str(seed), "-n", tokens],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said, text = run.stderr.decode(), run.stdout.decode()
        if run.returncode:
            wrong += 1
            print("seed %d: %s\n%s" % (seed, said, json.dumps(s)))
        elif "incomplete" in said:
            cut += 1
        else:
            try:
                exact = json.loads(json.dumps(s), parse_float=Decimal)
                EXACT(exact, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(
                    json.loads(text, parse_float=Decimal))
                valid += 1
            except (ValueError, jsonschema.ValidationError) as error:
                wrong += 1
                print("seed %d: %s\n%s\n%s" % (seed, str(error)[:300], text, json.dumps(s)))
    print("%d valid, %d cut by -n, %d wrong" % (valid, cut, wrong))
    sys.exit(wrong > 0)


main()
