#!/usr/bin/env python3
"""schema_documents.py MATCH_TEXTS [SCHEMAS [FIRST]]: random JSON schemas and documents, both ways.

Each seed (FIRST, 1, and those behind it; 10,000) is a schema of all keywords that mnem/grammar.h
names, and eight documents: what a reading of the schema suggests, and the same with mistakes. They
are written as json.dumps or JSON.stringify write them. PyPI's jsonschema, with decimal numbers,
judges: valid ones can be written, invalid ones can't. Of the narrowings of mnem/grammar.h the order
of members is kept by the documents, and other members than the named ones are not asked for where
additionalProperties is absent (unevaluatedProperties, in the schema that judges that).
Schemas that are refused are counted, with the reasons; one of which it is said that it has no text
must have no valid document. Exits 1 where a document was judged wrongly.
"""
import collections
import copy
import json
import random
import subprocess
import sys
from decimal import Decimal

import jsonschema

BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
PATTERNS = {r"^[a-z]{2,8}$": ["abz", "x"], r"\d+": ["a12", "zz"], r"^\w+@\w+\.(com|org)$": ["a_1@b.org", "a@b.c"],
            r"^[^\s\"]{1,9}": ["xy z", " a"], r"(ab|c)+x?$": ["zabcx", "abd"], r"^\S\D.$": ["abc", "a1"],
            r"\\|/": ["a\\b", "ab"], r"^(\+|-)?[0-9]{1,3}(\.[0-9]+)?$": ["-12.50", "1."], r"^$|^-$": ["", "-", "--"],
            r"^\p{L}+$": ["\u00e9a", "a1"], r"^(?!no)[a-z]+$": ["yes", "nope"], r"^.{3}": ["abcd", "ab"]}
FORMATS = {"date": ["2024-02-29", "2023-02-29"], "time": ["23:59:59Z", "24:00:00Z"],
           "date-time": ["2024-02-28T12:00:00Z", "2024-02-28 12:00"],
           "uuid": ["01234567-89ab-cdef-0123-456789abcdef", "01234567"], "ipv4": ["127.0.0.1", "256.1.1.1"],
           "email": ["a@b.org", "ab"]}
NAMES = ["name", "names", "age", "n", "\u00e9", "a b", "x\"y", "tags", "kind", "x-1"]
OTHERS = ["zz", "x", "xa", "more"]
VALUES = ["a", "b\"c", 1, -25, None, True, False, [1, {"x": None}], "\u00e9\n", {}, [], "", 0, {"k": [1, 2]}]


def decimal_of(r, digits, low, high):
    return Decimal("%.*e" % (digits, Decimal(r.uniform(-1, 1)) * Decimal(10) ** r.randint(low, high)))


# ---- schemas ----

def strings(r):
    s = {"type": "string"}
    kind = r.randint(0, 7)
    if kind in (1, 2):
        s["minLength"] = r.randint(0, 4)
    if kind in (1, 3):
        s["maxLength"] = s.get("minLength", 0) + r.randint(0, 9)
    if kind in (3, 4):
        s["pattern"] = r.choice(list(PATTERNS))
    if kind == 5:
        s["format"] = r.choice(list(FORMATS))
    if kind == 6:
        s["enum"] = r.sample(["a", "ab", "abc", "\u00e9\"", 1, None], 3)
        s["minLength"] = r.randint(0, 2)
    if kind == 7:
        s["not"] = r.choice([{"enum": ["a", "b"]}, {"pattern": "^[a-z]{2,8}$"}, {"const": ""}])
    return s


def wide_integers(r):
    """Bounds of integer types, and their neighbours."""
    s = {"type": "integer"}
    ends = [r.choice([-2 ** 63, -2 ** 31, -2 ** 53 + 1, 0, 10 ** 18]), r.choice([2 ** 63 - 1, 2 ** 31 - 1, 2 ** 64 - 1, 2 ** 53])]
    for words, end in ((BOUNDS[:2], min(ends)), (BOUNDS[2:], max(ends))):
        if r.random() < 0.8:
            s[r.choice(words)] = end + r.randint(-1, 1)
    return s


def numbers(r):
    if r.random() < 0.15:
        return wide_integers(r)
    s = {"type": r.choice(["integer", "number", "number"])}
    if r.random() < 0.2:
        s["multipleOf"] = r.choice([1, 2, 7, 0.5, 0.01, 2.5, 256])
    low = r.choice([Decimal(r.choice([-1000, -7, 0, 3, 120])), Decimal("0.5"), decimal_of(r, r.randint(0, 14), -8, 15)])
    size = r.choice([Decimal(2), Decimal(11), Decimal("99.5"), abs(decimal_of(r, 2, -8, 15)) + Decimal("1e-6")])
    if r.random() < 0.5:
        s[r.choice(BOUNDS[:2])] = number_of(low)
    if r.random() < 0.5:
        s[r.choice(BOUNDS[2:])] = number_of(low + size)
    if "multipleOf" in s and len(s) > 3:
        del s["multipleOf"]
    return s


def number_of(d):
    return int(d) if d == int(d) and abs(d) < 10 ** 15 else float("%.14e" % d)


def objects(r, depth):
    names = r.sample(NAMES, r.randint(0, 4))
    s = {"type": "object"}
    if names or r.random() < 0.3:
        s["properties"] = {n: schema(r, depth - 1) for n in names}
    if names and r.random() < 0.7:
        s["required"] = r.sample(names, r.randint(0, len(names)))
    if r.random() < 0.4:
        s["additionalProperties"] = r.choice([False, True, {"type": "integer"}, schema(r, 0)])
    if r.random() < 0.15:
        s["patternProperties"] = {"^x": schema(r, 0)}
    if r.random() < 0.1:
        s["propertyNames"] = r.choice([{"enum": names + ["zz"]}, {"maxLength": 4}, {"pattern": "^[a-z]"}])
    if r.random() < 0.1:
        s["minProperties"] = r.randint(0, 2)
    if r.random() < 0.1:
        s["maxProperties"] = r.randint(1, 4)
    if len(names) > 1 and r.random() < 0.15:
        s["dependentRequired"] = {names[0]: names[1:2]}
    if len(names) > 1 and r.random() < 0.1:
        s["dependentSchemas"] = {names[0]: {"required": names[1:2]}}
    return s


def arrays(r, depth):
    s = {"type": "array"}
    if r.random() < 0.3:
        s["prefixItems"] = [schema(r, depth - 1) for _ in range(r.randint(1, 3))]
    if r.random() < 0.8:
        s["items"] = r.choice([schema(r, depth - 1), schema(r, depth - 1), {"type": "integer"}, False])
    if r.random() < 0.4:
        s["maxItems"] = r.randint(0, 4)
    if r.random() < 0.3:
        s["minItems"] = r.randint(0, min(2, s.get("maxItems", 2)))
    if r.random() < 0.1:
        s["contains"] = {"const": r.choice([1, "a", None])}
    if r.random() < 0.1:
        low = r.randint(-3, 3)
        s = {"type": "array", "uniqueItems": True,
             "items": r.choice([{"enum": r.sample(["a", "b", 1, None, True], r.randint(1, 4))},
                                {"type": "integer", "minimum": low, "maximum": low + r.randint(0, 4)},
                                {"anyOf": [{"const": 1}, {"type": ["boolean", "null"]}]}])}
    return s


def several(r, depth):
    kind = r.randint(0, 6)
    if kind == 0:
        return {"anyOf": [schema(r, depth - 1) for _ in range(r.randint(1, 3))]}
    if kind == 1:
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": k}, "v": schema(r, depth - 1)},
                           "required": ["kind"]} for k in ("cat", "dog")] + [{"type": "null"}]}
    if kind == 2:
        return {"allOf": [schema(r, 0), schema(r, 0)]} if r.random() < 0.3 else {
            "allOf": [{"properties": {"a": schema(r, depth - 1)}}, {"properties": {"b": schema(r, 0)}, "required": ["b"]}],
            "type": "object"}
    if kind == 3:
        low = r.randint(-9, 9)
        return {"type": ["integer", "null"], "allOf": [{"minimum": low}, {"maximum": low + r.randint(0, 99)}],
                **r.choice([{"anyOf": [{"minimum": low + 5}, {"type": "null"}, {"multipleOf": 3}]},
                            {"oneOf": [{"minimum": low + 5}, {"maximum": low + 9, "type": "integer"}]}])}
    if kind == 4:
        return {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "v": schema(r, 0)},
                "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
                "then": {"required": ["v"]}, "else": {"properties": {"w": schema(r, 0)}}}
    if kind == 5:
        return {"type": r.sample(["string", "integer", "boolean", "null", "array"], 2),
                "anyOf": [{"maxLength": 3}, {"enum": ["long one", 7]}]}
    return {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "string", "minLength": r.randint(3, 5)},
                      {"type": "integer"}]}


def schema(r, depth):
    kind = r.random()
    if depth > 0 and kind < 0.25:
        return objects(r, depth)
    if depth > 0 and kind < 0.4:
        return arrays(r, depth)
    if depth > 0 and kind < 0.55:
        return several(r, depth)
    if kind < 0.7:
        return numbers(r)
    if kind < 0.85:
        return strings(r)
    return r.choice([{"type": "boolean"}, {"type": "null"}, {"type": r.sample(["string", "integer", "null"], 2)},
                     {"enum": r.sample(VALUES, r.randint(1, 5))}, {"const": r.choice(VALUES)}, {}, True,
                     {"$ref": "#/$defs/p"},
                     {"not": {"enum": r.sample(["a", 1, None, True], 2)}, "type": ["string", "integer", "null"]}])


# ---- documents: values whose numbers are Decimal ----

def random_number(r, s):
    wide = [s[word] for word in BOUNDS if isinstance(s.get(word), int) and abs(s[word]) >= 10 ** 15]
    if wide and s.get("type") == "integer":
        number = r.choice(wide) + r.randint(-2, 2)
        return number if abs(number) < 2 ** 64 else 0
    bounds = [Decimal(str(s[word])) for word in BOUNDS if word in s]
    if "multipleOf" in s and r.random() < 0.8:
        return Decimal(str(s["multipleOf"])) * r.randint(-999, 999)
    if bounds and r.random() < 0.7:
        number = r.choice(bounds) + Decimal(r.choice([-1, 0, 1])) * Decimal(10) ** r.randint(-9, 2)
        if len(bounds) == 2 and r.random() < 0.4:
            number = (bounds[0] + bounds[1]) / 2
    else:
        number = Decimal(r.randint(-10 ** r.randint(1, 15), 10 ** r.randint(1, 15)))
        number *= Decimal(10) ** r.randint(-15, 3)
    if s.get("type") == "integer" or r.random() < 0.2:
        number = Decimal(int(number))
    number = Decimal("%.14e" % number)
    return number if Decimal("1e-9") <= abs(number) <= Decimal("1e17") else Decimal(0)


def some_string(r, s):
    for word, table in (("pattern", PATTERNS), ("format", FORMATS)):
        if word in s and r.random() < 0.9:
            return r.choice(table[s[word]])
    n = r.randint(max(0, s.get("minLength", 0) - 1), min(s.get("maxLength", 5), 12) + 1)
    return "".join(r.choice("aZ0 \"\\\u00e9\n\U0001f600/") for _ in range(n))


def some_object(r, s, defs, depth):
    required = s.get("required", [])
    value = {k: sample(r, v, defs, depth + 1) for k, v in s.get("properties", {}).items()
             if r.random() < (0.97 if k in required else 0.5)}
    for name in r.sample(OTHERS, r.choice([0, 0, 0, 1, 2])):
        at = s.get("additionalProperties", {})
        if name[0] == "x" and "patternProperties" in s:
            at = s["patternProperties"]["^x"]
        value.setdefault(name, sample(r, at, defs, depth + 1))
    return value


def some_array(r, s, defs, depth):
    first, more = s.get("prefixItems", []), s.get("items", {})
    count = r.randint(s.get("minItems", 0), max(s.get("minItems", 0), s.get("maxItems", 3))) + (r.random() < 0.1)
    items = [sample(r, v, defs, depth + 1) for v in first[:max(count, r.randint(0, 3))]]
    while len(items) < count and more is not False:
        items.append(sample(r, more, defs, depth + 1))
    if "contains" in s and r.random() < 0.8:
        items.insert(r.randint(0, len(items)), s["contains"]["const"])
    return items


def merged(s, one):
    """A schema beside one of its cases, as far as a sample needs it."""
    both = {k: v for k, v in s.items() if k not in ("allOf", "anyOf", "oneOf", "if", "then", "else")}
    for k, v in (one.items() if isinstance(one, dict) else ()):
        both[k] = {**both[k], **v} if isinstance(v, dict) and isinstance(both.get(k), dict) else v
    return both


def sample(r, s, defs, depth=0):
    if not isinstance(s, dict) or depth > 6:
        return r.choice([None, 1, "a", [], {}])
    if "$ref" in s:
        return sample(r, defs[s["$ref"].rsplit("/", 1)[1]], defs, depth + 1)
    if r.random() < 0.03:
        return copy.deepcopy(r.choice(VALUES))
    for word in ("anyOf", "oneOf"):
        if word in s:
            return sample(r, merged(s, r.choice(s[word])), defs, depth)
    if "allOf" in s:
        for one in s["allOf"]:
            s = merged(s, one) | {"allOf": []} if "allOf" in s else merged(s, one)
        return sample(r, merged(s, {}), defs, depth)
    if "if" in s:
        return sample(r, merged(s, r.choice([s["then"], s["else"]])), defs, depth)
    if "const" in s:
        return copy.deepcopy(s["const"])
    if "enum" in s:
        return copy.deepcopy(r.choice(s["enum"]))
    kind = s.get("type", "object" if "properties" in s else "any")
    kind = r.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        return some_object(r, s, defs, depth)
    if kind == "array":
        return some_array(r, s, defs, depth)
    if kind in ("integer", "number"):
        return random_number(r, {**s, "type": kind})
    if kind == "string":
        return some_string(r, s)
    if kind == "boolean":
        return r.random() < 0.5
    return None if kind == "null" else copy.deepcopy(r.choice(VALUES))


def places(value, found):
    """Every container of a value, to make a mistake in."""
    if isinstance(value, (dict, list)) and value:
        found.append(value)
        for one in value.values() if isinstance(value, dict) else value:
            places(one, found)
    return found


def spoil(r, value):
    """Makes a mistake, which may be none."""
    found = places(value, [])
    if not found:
        return copy.deepcopy(r.choice(VALUES))
    at = r.choice(found)
    key = r.choice(list(at)) if isinstance(at, dict) else r.randrange(len(at))
    what = r.randint(0, 3)
    if what == 0:
        del at[key]
    elif what == 1 and isinstance(at, dict):
        at[r.choice(OTHERS)] = copy.deepcopy(r.choice(VALUES))
    elif what == 2 and isinstance(at, list):
        at.append(copy.deepcopy(at[key]))
    else:
        at[key] = copy.deepcopy(r.choice(VALUES))
    return value


# ---- texts ----

def number_text(r, number):
    """As json.dumps or JSON.stringify writes a number, with zeros behind its point."""
    if isinstance(number, int) or number == int(number) and r.random() < 0.8:
        return str(int(number))
    x = float(number)
    if r.random() < 0.5 or abs(x) < 1e-6:
        text = json.dumps(x)
        text = text if r.random() < 0.5 else text.replace("e-0", "e-")
    else:
        text = format(Decimal(repr(x)).normalize() + 0, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
    digits, e, exponent = text.partition("e")
    return digits + ("0" * r.choice([0, 0, 1, 6]) if "." in digits else "") + e + exponent


def text_of(r, value, comma, colon):
    if isinstance(value, dict):
        return "{" + comma.join(json.dumps(k, ensure_ascii=False) + colon + text_of(r, v, comma, colon)
                                for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + comma.join(text_of(r, v, comma, colon) for v in value) + "]"
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return number_text(r, value)
    return json.dumps(value, ensure_ascii=False)


# ---- judging ----

IN_PLACE = ("allOf", "anyOf", "oneOf")


def names_members(s, defs):
    """Whether a schema, or one that applies to the same value, has properties."""
    if not isinstance(s, dict):
        return False
    beside = [one for word in IN_PLACE for one in s.get(word, [])]
    beside += [s[word] for word in ("if", "then", "else") if word in s]
    beside += list(s.get("dependentSchemas", {}).values())
    if "$ref" in s:
        beside.append(defs[s["$ref"].rsplit("/", 1)[1]])
    return "properties" in s or any(names_members(one, defs) for one in beside)


def bounds_beside(s, defs, words):
    """Bounds of a schema, and of those that apply to the same value."""
    if not isinstance(s, dict):
        return []
    beside = [one for word in IN_PLACE for one in s.get(word, [])]
    if "$ref" in s:
        beside.append(defs[s["$ref"].rsplit("/", 1)[1]])
    return [s[word] for word in words if word in s] + [b for one in beside for b in bounds_beside(one, defs, words)]


def integers_of_64_bits(s, defs):
    """What integers are held to on a side that has no bound, unless the other side asks for more."""
    low, high = bounds_beside(s, defs, BOUNDS[:2]), bounds_beside(s, defs, BOUNDS[2:])
    out = {}
    if not high and all(b < 2 ** 63 for b in low):
        out["maximum"] = 2 ** 63 - 1
    if not low and all(b >= -2 ** 63 for b in high):
        out["minimum"] = -2 ** 63
    return out


# What is written where anything is admitted: of numbers without a point or an exponent 19 digits.
ANY = {"maximum": 10 ** 19 - 1, "minimum": 1 - 10 ** 19, "items": {"$ref": "#/$defs/any"},
       "additionalProperties": {"$ref": "#/$defs/any"}}


def narrow(s, defs, place=True):
    """A schema that admits no other members where properties, but no additionalProperties are given, and
    counts those that it admits once towards minProperties; and integers of 64 bits.
    place: of a value, not beside another schema of the same value."""
    if s is True or s == {}:
        return {"$ref": "#/$defs/any"}
    if not isinstance(s, dict):
        return s
    out = dict(s)
    for word in IN_PLACE:
        if word in s:
            out[word] = [narrow(one, defs, False) for one in s[word]]
    for word in ("if", "then", "else"):
        if word in s:
            out[word] = narrow(s[word], defs, False)
    for word in ("properties", "patternProperties"):
        if word in s:
            out[word] = {k: narrow(v, defs) for k, v in s[word].items()}
    for word in ("items", "additionalProperties"):
        if word in s:
            out[word] = narrow(s[word], defs)
    if "prefixItems" in s:
        out["prefixItems"] = [narrow(one, defs) for one in s["prefixItems"]]
    named = list(s.get("properties", {})) + s.get("required", [])
    if s.get("minProperties", 0) == 2 and named:
        out["allOf"] = out.get("allOf", []) + [{"anyOf": [{"required": [n]} for n in named]}]
    if place and names_members(s, defs):
        out["unevaluatedProperties"] = False
    if s.get("type") == "integer" or "integer" in s.get("type", []):
        out["allOf"] = out.get("allOf", []) + [integers_of_64_bits(s, defs)]
    return out


def translated(s):
    """Python's patterns for those of ECMA-262 that PATTERNS has: $ is the very end, \\d and \\w are ASCII."""
    if isinstance(s, list):
        return [translated(one) for one in s]
    if not isinstance(s, dict):
        return s
    return {k: translated(v) if k != "pattern" else
            v.replace("$", r"\Z").replace(r"\d", "[0-9]").replace(r"\w", "[0-9A-Za-z_]").replace(r"\p{L}", r"[^\W\d_]")
            for k, v in s.items()}


def validator(s):
    exact = json.loads(json.dumps(translated(s)), parse_float=Decimal)
    return jsonschema.Draft202012Validator(exact, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def ask(program, letter, text):
    program.stdin.write("%s %s\n" % (letter, text.encode().hex()))
    program.stdin.flush()
    return program.stdout.readline().strip()


class Tally:
    def __init__(self):
        self.count, self.reasons = collections.Counter(), collections.Counter()

    def document(self, seed, s, text, good, answer):
        self.count["valid" if good else "invalid"] += 1
        if answer.split()[0] == ("yes" if good else "no"):
            return
        self.count["wrong"] += 1
        print("seed %d: %s is %svalid, but: %s\n%s" % (seed, text, "" if good else "in", answer, json.dumps(s)))


def check(program, seed, tally):
    r = random.Random(seed)
    s = schema(r, 3)
    defs = {"p": r.choice([strings, numbers])(r)}
    s = {**s, "$defs": defs} if isinstance(s, dict) else s
    said = ask(program, "s", json.dumps(s))
    never = "no value fits" in said
    if said != "ok":
        tally.count["schemas refused"] += 1
        tally.reasons[said.split(": ", 2)[-1][:70]] += 1
        if not never:
            return
    narrowed = narrow(s, defs)
    if isinstance(narrowed, dict):
        narrowed["$defs"] = {**{name: narrow(one, defs) for name, one in defs.items()}, "any": ANY}
    whole, written = validator(s), validator(narrowed)
    for _ in range(8):
        value = sample(r, s, defs)
        if r.random() < 0.4:
            value = spoil(r, value)
        text = text_of(r, value, *r.choice([(",", ":"), (", ", ": ")]))
        value = json.loads(text, parse_float=Decimal)
        good = whole.is_valid(value)
        if good and not written.is_valid(value):
            tally.count["not asked for"] += 1
            continue
        tally.document(seed, s, text, good, "no text" if never else ask(program, "t", text))


def main():
    program = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    count, first = (int(x) for x in (sys.argv[2:] + ["10000", "1"][len(sys.argv) - 2:]))
    tally = Tally()
    for seed in range(first, first + count):
        check(program, seed, tally)
    for reason, n in tally.reasons.most_common():
        print("%5d refused: %s" % (n, reason))
    print("%d schemas, %s" % (count, ", ".join("%d %s" % (n, what) for what, n in sorted(tally.count.items()))))
    sys.exit(tally.count["wrong"] > 0)


main()
