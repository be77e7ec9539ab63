#!/usr/bin/env python3
"""schema_random.py MNEM [SEEDS [TOKENS]]: answers of the model that ships, at a temperature of 1.5, to
random JSON schemas, validated with PyPI's jsonschema (formats too). An answer that is cut by -n isn't
validated, but must be the beginning of one that is: it is counted.

schema_random.py --documents MATCH_TEXTS [SEEDS]: random documents, valid and invalid as jsonschema says
(bounds with decimal), in the forms of json.dumps and JSON.stringify: valid ones can be written, others
can't."""
import json
import random
import subprocess
import sys
import tempfile
from decimal import Decimal

import jsonschema


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
        return {"type": "string", "pattern": r.choice(list(PATTERNS)), "minLength": r.randint(0, 4),
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


BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
PATTERNS = {r"^[a-z]{2,8}$": "abz", r"\d+": "a12", r"^\w+@\w+\.(com|org)$": "a_1@b.org", r"^[^\s\"]{1,9}": "xy z",
            r"(ab|c)+x?$": "zabcx", r"^\S\D.$": "abc", r"\\|/": "a\\b"}
FORMATS = {"date": "2024-02-28", "time": "23:59:59Z", "date-time": "2024-02-28T12:00:00Z",
           "uuid": "01234567-89ab-cdef-0123-456789abcdef"}


def number_text(r, number):
    """As json.dumps or JSON.stringify writes a number, with zeros behind its point."""
    x = float(number)
    if r.random() < 0.5:
        text = json.dumps(x if r.random() < 0.7 or x % 1 else int(x))
    elif x == 0 or abs(x) >= 1e-6:
        text = format(Decimal(repr(x)).normalize() + 0, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = json.dumps(x).replace("e-0", "e-")
    digits, e, exponent = text.partition("e")
    return digits + ("0" * r.choice([0, 0, 1, 6]) if "." in digits else "") + e + exponent


def random_number(r, s):
    bounds = [Decimal(str(s[word])) for word in BOUNDS if word in s]
    if bounds and r.random() < 0.7:
        near = r.choice(bounds)
        number = near + Decimal(r.choice([-1, 0, 1])) * Decimal(10) ** r.randint(-9, 2)
        if len(bounds) == 2 and r.random() < 0.3:
            number = (bounds[0] + bounds[1]) / 2
    else:
        number = Decimal(r.randint(-10 ** r.randint(1, 15), 10 ** r.randint(1, 15))) * Decimal(10) ** r.randint(-15, 3)
    number = Decimal("%.14e" % number)
    return number if Decimal("1e-9") <= abs(number) <= Decimal("1e18") else Decimal(0)


def document(r, s, defs, depth=0):
    """The text of a document that is valid or nearly so; members in the order of the schema."""
    comma, colon = r.choice([(",", ":"), (", ", ": ")])
    if "$ref" in s:
        return document(r, defs[s["$ref"].rsplit("/", 1)[1]], defs, depth)
    if "allOf" in s:
        return str(r.choice(["null", r.randint(-12, 120)]))
    if "multipleOf" in s:
        number = Decimal(str(s["multipleOf"])) * r.randint(-999, 999) + r.choice([0, 0, 0, 1, Decimal("0.25")])
        return str(int(number)) if s["type"] == "integer" else format(number, "f")
    if "patternProperties" in s:
        names = {n: document(r, s["patternProperties"]["^x"], defs, depth + 1) if n[0] == "x" else "null"
                 for n in r.sample(["x", "xy", "a", "ax"], r.randint(0, 3))}
        return "{" + comma.join(json.dumps(k) + colon + v for k, v in names.items()) + "}"
    for word in ("anyOf", "oneOf", "enum"):
        if word in s:
            one = r.choice(s[word])
            return json.dumps(one, ensure_ascii=False, separators=(",", ":")) if word == "enum" else document(
                r, one, defs, depth)
    if "const" in s:
        return json.dumps(s["const"], separators=(",", ":"))
    if "pattern" in s:
        return json.dumps(PATTERNS[s["pattern"]])
    if "format" in s:
        return json.dumps(FORMATS[s["format"]])
    kind = s.get("type", "array" if "prefixItems" in s else "object")
    kind = r.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        members, required = s.get("properties", {}), s.get("required", [])
        pairs = [(k, document(r, v, defs, depth + 1)) for k, v in members.items()
                 if r.random() < (0.97 if k in required else 0.5)]
        more = s.get("additionalProperties", "properties" not in s)
        if more is not False and r.random() < 0.5:
            pairs.append(("more", "null" if more is True else document(r, more, defs, depth + 1)))
        return "{" + comma.join(json.dumps(k, ensure_ascii=False) + colon + v for k, v in pairs) + "}"
    if kind == "array":
        first = s.get("prefixItems", [])
        items = [document(r, v, defs, depth + 1) for v in first]
        more = s.get("items", True)
        count = r.randint(s.get("minItems", 0), s.get("maxItems", 2)) + (r.random() < 0.1)
        for _ in range(count if more is not False else 0):
            items.append("null" if more is True else document(r, more, defs, depth + 1))
        return "[" + comma.join(items) + "]"
    if kind == "string":
        n = r.randint(max(0, s.get("minLength", 0) - 1), s.get("maxLength", 5) + 1)
        return json.dumps("".join(r.choice("aZ0 \"\\é\n") for _ in range(n)), ensure_ascii=False)
    if kind == "integer":
        return str(int(random_number(r, s))) if any(w in s for w in BOUNDS) else str(r.randint(-10 ** 9, 10 ** 9))
    if kind == "number":
        return number_text(r, random_number(r, s))
    return "null" if kind == "null" else r.choice(["true", "false"])


def bounded(r):
    """A number between random bounds."""
    s = {"type": r.choice(["number", "number", "integer"])}
    low = Decimal("%.*e" % (r.randint(0, 14), Decimal(r.uniform(-1, 1)) * Decimal(10) ** r.randint(-8, 15)))
    high = low + abs(Decimal("%.2e" % (Decimal(r.random()) * Decimal(10) ** r.randint(-8, 15)))) + Decimal("1e-6")
    which = r.randint(0, 2)
    if which != 0:
        s[r.choice(BOUNDS[:2])] = float("%.14e" % low)
    if which != 1:
        s[r.choice(BOUNDS[2:])] = float("%.14e" % high)
    return s


def narrow(s):
    """What of a schema is written: other members and other items only where the schema names them."""
    if isinstance(s, list):
        return [narrow(x) for x in s]
    if not isinstance(s, dict) or "const" in s or "enum" in s:
        return s
    out = {k: {n: narrow(x) for n, x in v.items()} if k == "properties" else narrow(v) for k, v in s.items()}
    for word, other in (("properties", "additionalProperties"), ("prefixItems", "items")):
        if word in s and other not in s:
            out[other] = False
    return out


def ask(program, letter, text):
    program.stdin.write("%s %s\n" % (letter, text.encode().hex()))
    program.stdin.flush()
    return program.stdout.readline().strip()


def check_documents(program, seeds):
    valid = invalid = wrong = refused = 0
    for seed in range(1, seeds + 1):
        r = random.Random(seed)
        s = bounded(r) if r.random() < 0.5 else schema(r, 3, [])
        said = ask(program, "s", json.dumps(s))
        refused += said != "ok"
        exact = json.loads(json.dumps(s), parse_float=Decimal)
        whole, written = (jsonschema.Draft202012Validator(
            x, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER) for x in (exact, narrow(exact)))
        for _ in range(20):
            text = document(r, s, {})
            value = json.loads(text, parse_float=Decimal)
            good = whole.is_valid(value)
            if good and not written.is_valid(value):
                continue
            valid, invalid = valid + good, invalid + (not good)
            answer = ask(program, "t", text) if said == "ok" else "no " + said
            if answer.split()[0] != ("yes" if good else "no"):
                wrong += 1
                print("seed %d: %s is %svalid, but: %s\n%s" % (seed, text, "" if good else "in", answer, json.dumps(s)))
    print("%d valid, %d invalid, %d wrong; %d schemas refused" % (valid, invalid, wrong, refused))
    return wrong > 0


def main():
    if sys.argv[1] == "--documents":
        program = subprocess.Popen([sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        sys.exit(check_documents(program, int(sys.argv[3]) if len(sys.argv) > 3 else 500))
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
                jsonschema.Draft202012Validator(
                    s, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(json.loads(text))
                valid += 1
            except (ValueError, jsonschema.ValidationError) as error:
                wrong += 1
                print("seed %d: %s\n%s\n%s" % (seed, str(error)[:300], text, json.dumps(s)))
    print("%d valid, %d cut by -n, %d wrong" % (valid, cut, wrong))
    sys.exit(wrong > 0)


main()
