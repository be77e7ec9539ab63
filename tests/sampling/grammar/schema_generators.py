#!/usr/bin/env python3
"""schema_generators.py MATCH_TEXTS [DOCUMENTS [SEED]]: schemas that generators write, and documents as their own
serialisers write them. Ten generators of PyPI, of the versions of schema_generators.txt: each says the schema of classes
here, and DOCUMENTS (20) random objects of them. Twenty schemas more are typed after the documentation of zod and
schemars (schema_generators.json), with documents in the form of JSON.stringify and serde_json.

What mnem/grammar.h names as not written is not asked for: sets of plain values (uniqueItems), integers beyond 64
bits, bounded numbers of more than 15 digits, members in another order than the schema's (marshmallow_jsonschema sorts them unless told otherwise).

Both ways: a document of a serialiser can be written; one that is changed until jsonschema calls it invalid can't.
A document that jsonschema calls invalid itself is named (a time
without a zone is none in RFC 3339, 5.6). Prints a line for each generator, and leaves with 1 where one of its documents is judged wrongly."""
import copy
import dataclasses
import datetime
import decimal
import enum
import importlib.util
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import uuid
from typing import Annotated, Dict, List, Literal, Optional, Tuple, Union

import attrs
import cattrs.preconf.json
import datamodel_code_generator
import dataclasses_json
import fastapi
import fastapi.encoders
import fastapi.openapi.utils
import instructor
import jsonschema
import marshmallow
import marshmallow_jsonschema
import msgspec
import openai
import openai.lib._pydantic
import pydantic
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

# ---- random values of the classes below ----

WORDS = ["", "a", "Ur", "über \"x\"", "line\nbreak", "\\ / \t", "日本", "😀", "0", "null", "{}", "a" * 40]
WHEN = datetime.datetime(2024, 2, 29, 12, 30, 5, tzinfo=datetime.timezone.utc)


def text(r):
    return r.choice(WORDS) + r.choice(["", " ", "é", str(r.randint(0, 99))])


def name(r):
    return r.choice(["Ur", "Nod", "Bethel", "a b", "é"])


def real(r):
    return r.choice([0.0, -1.5, 1e-7, 123456.789, 1e16, 0.1, r.uniform(-1000, 1000)])


def when(r):
    return WHEN + datetime.timedelta(days=r.randint(-9000, 9000), microseconds=r.choice([0, 0, 123456, 500000]))


def some(r, make, most=3):
    return [make(r) for _ in range(r.randint(0, most))]


def maybe(r, make):
    return make(r) if r.random() < 0.6 else None


class Status(enum.Enum):
    NEW = "new"
    PAID = "paid"
    GONE = "gone away"


# ---- Pydantic: also what FastAPI, instructor, langchain and openai make schemas of ----

class Address(pydantic.BaseModel):
    """Where somebody lives"""
    street: str
    number: Annotated[int, pydantic.Field(ge=1, lt=10000)]
    zip: Annotated[str, pydantic.Field(pattern=r"^\d{5}$")]


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: Annotated[int, pydantic.Field(ge=0, le=9)]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    barks: bool
    weight: Annotated[float, pydantic.Field(gt=0, le=120.5)]


class Node(pydantic.BaseModel):
    value: int
    next: Optional["Node"] = None


class Plain(pydantic.BaseModel):
    """What every generator can say"""
    id: int
    title: Annotated[str, pydantic.Field(min_length=1, max_length=60)]
    status: Status
    level: Literal[1, 2, 3]
    tags: List[str]
    price: float
    note: Optional[str] = None
    home: Address
    pets: List[Annotated[Union[Cat, Dog], pydantic.Field(discriminator="kind")]]


class Rich(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    ref: uuid.UUID
    made: datetime.datetime
    day: datetime.date
    clock: datetime.time
    span: datetime.timedelta
    amount: decimal.Decimal
    counts: Dict[str, int]
    pair: Tuple[int, str]
    share: Annotated[float, pydantic.Field(ge=0, le=1)]
    even: Annotated[int, pydantic.Field(multiple_of=2)]
    either: Union[int, str, None]
    unique: Annotated[List[Status], pydantic.Field(max_length=3)]
    list: Node
    raw: bytes
    alias: Annotated[int, pydantic.Field(alias="a-b c")]


def address(r):
    return Address(street=text(r), number=r.randint(1, 9999), zip=f"{r.randint(0, 99999):05}")


def pet(r):
    if r.random() < 0.5:
        return Cat(lives=r.randint(0, 9))
    return Dog(barks=r.random() < 0.5, weight=r.choice([120.5, 1, 0.25, 1e-5]))


def plain(r):
    return Plain(id=r.choice([0, -5, 2**31, 2**53]), title=(text(r) + "x")[:60], status=r.choice(list(Status)),
                 level=r.choice([1, 2, 3]), tags=some(r, text), price=real(r), note=maybe(r, text), home=address(r),
                 pets=some(r, pet))


def rich(r):
    node = None
    for _ in range(r.randint(1, 3)):
        node = Node(value=r.randint(-9, 9), next=node)
    return Rich(ref=uuid.UUID(int=r.getrandbits(128), version=4), made=when(r), day=when(r).date(),
                clock=when(r).time().replace(tzinfo=datetime.timezone.utc),
                span=datetime.timedelta(seconds=r.choice([0, 5, 90061, 86400 * 40]), microseconds=r.choice([0, 250000])),
                amount=decimal.Decimal(r.choice(["0", "1.50", "-7", "1234567890.123456789"])),
                counts={text(r): r.randint(-9, 9) for _ in range(r.randint(0, 3))}, pair=(r.randint(-9, 9), text(r)),
                share=r.choice([0, 1, 0.5, 0.125]), even=2 * r.randint(-50, 50), either=r.choice([1, text(r), None]),
                unique=r.sample(list(Status), r.randint(0, 3)), list=node, raw=r.choice([b"", b"abc"]),
                **{"a-b c": r.randint(-9, 9)})


def dumped(o):
    return o.model_dump_json(by_alias=True)


def pydantic_cases():
    for kind, make in ((Plain, plain), (Rich, rich)):
        for mode in ("validation", "serialization"):
            yield kind.model_json_schema(mode=mode), lambda r, make=make: dumped(make(r))


def fastapi_cases():
    app = fastapi.FastAPI()
    app.post("/plain", response_model=Plain)(lambda body: None)
    app.post("/rich", response_model=Rich)(lambda body: None)
    parts = app.openapi()["components"]
    for kind, make in (("Plain", plain), ("Rich", rich)):
        yield ({"$ref": f"#/components/schemas/{kind}", "components": parts},
               lambda r, make=make: json.dumps(fastapi.encoders.jsonable_encoder(make(r)), ensure_ascii=False,
                                               separators=(",", ":")))


def datamodel_cases():
    """Its own models of a schema, and what these say of themselves."""
    for kind, make in ((Plain, plain), (Rich, rich)):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "made.py"
            datamodel_code_generator.generate(
                json.dumps(kind.model_json_schema()), input_file_type=datamodel_code_generator.InputFileType.JsonSchema,
                output=path, output_model_type=datamodel_code_generator.DataModelType.PydanticV2BaseModel)
            spec = importlib.util.spec_from_file_location("made_" + kind.__name__, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        made = getattr(module, kind.__name__)
        yield (made.model_json_schema(),
               lambda r, made=made, make=make: dumped(made.model_validate_json(dumped(make(r)))))


def instructor_cases():
    for kind, make in ((Plain, plain), (Rich, rich)):
        yield (instructor.openai_schema(kind).openai_schema["parameters"], lambda r, make=make: dumped(make(r)))


def openai_cases():
    for kind, make in ((Plain, plain), (Node, lambda r: Node(value=1, next=Node(value=r.randint(0, 9))))):
        yield openai.lib._pydantic.to_strict_json_schema(kind), lambda r, make=make: dumped(make(r))
        yield (openai.pydantic_function_tool(kind)["function"]["parameters"], lambda r, make=make: dumped(make(r)))


def langchain_cases():
    @tool(parse_docstring=True)
    def search(query: str, limit: int = 10, kinds: Optional[List[Literal["a", "b"]]] = None,
               weights: Optional[Dict[str, float]] = None) -> str:
        """Searches.

        Args:
            query: what
            limit: how many
            kinds: which
            weights: how much each counts
        """
        return query

    def arguments(r):
        some_of = {"query": text(r), "limit": r.randint(0, 99), "kinds": maybe(r, lambda r: some(r, lambda r: "a")),
                   "weights": maybe(r, lambda r: {text(r): real(r)})}
        keep = [k for k in some_of if k == "query" or r.random() < 0.6]
        return json.dumps({k: some_of[k] for k in keep})

    yield convert_to_openai_tool(search)["function"]["parameters"], arguments
    for strict in (None, True):
        for kind, make in ((Plain, plain), (Rich, rich))[:1 if strict else 2]:
            yield (convert_to_openai_tool(kind, strict=strict)["function"]["parameters"],
                   lambda r, make=make: dumped(make(r)))


# ---- msgspec ----

class Small(msgspec.Struct, tag="small"):
    a: Annotated[int, msgspec.Meta(ge=0, lt=100)]


class Large(msgspec.Struct, tag="large", forbid_unknown_fields=True):
    b: Annotated[str, msgspec.Meta(min_length=1, max_length=50)]
    c: Optional[float] = None


class Pairs(msgspec.Struct, array_like=True):
    x: int
    y: float = 0.5


class Mixed(msgspec.Struct, rename="camel", omit_defaults=True):
    first_id: int
    parts: List[Union[Small, Large]]
    status: Status
    made: datetime.datetime
    ref: uuid.UUID
    day: datetime.date
    amount: decimal.Decimal
    pair: Tuple[int, str, bool]
    many: Dict[str, List[int]]
    points: List[Pairs] = []
    raw: Optional[bytes] = None
    either: Union[int, str, None] = None


def msgspec_cases():
    def mixed(r):
        part = lambda r: Small(a=r.randint(0, 99)) if r.random() < 0.5 else Large(b=(text(r) + "x")[:50],
                                                                                 c=maybe(r, real))
        return msgspec.json.encode(Mixed(
            first_id=r.randint(-9, 2**53), parts=some(r, part), status=r.choice(list(Status)), made=when(r),
            ref=uuid.UUID(int=r.getrandbits(128), version=4), day=when(r).date(), amount=decimal.Decimal("1.50"),
            pair=(1, text(r), True), many={text(r): some(r, lambda r: 5)},
            points=some(r, lambda r: Pairs(x=r.randint(-5, 5), y=real(r))), raw=maybe(r, lambda r: b"\0\xff"),
            either=r.choice([None, 7, text(r)]))).decode()
    yield msgspec.json.schema(Mixed), mixed
    yield msgspec.json.schema(Union[Small, Large]), lambda r: msgspec.json.encode(Small(a=r.randint(0, 99))).decode()


# ---- attrs with cattrs: cattrs writes documents, msgspec says the schema of attrs' classes ----

@attrs.define
class Leg:
    length: int
    name: Optional[str] = None


@attrs.define
class Table:
    label: str
    legs: List[Leg]
    status: Status
    sizes: Dict[str, float]
    made: str
    wide: Optional[bool] = None
    top: Union[Leg, None] = None
    colour: Literal["red", "blue"] = "red"


def attrs_cases():
    converter = cattrs.preconf.json.make_converter()
    leg = lambda r: Leg(length=r.randint(-9, 9), name=maybe(r, text))
    table = lambda r: Table(label=text(r), legs=some(r, leg), status=r.choice(list(Status)),
                            sizes={text(r): real(r)}, made=when(r).isoformat(), wide=maybe(r, lambda r: True),
                            top=maybe(r, leg), colour=r.choice(["red", "blue"]))
    yield msgspec.json.schema(Table), lambda r: converter.dumps(table(r))


# ---- marshmallow, and dataclasses-json, whose schemas are marshmallow's ----

class Track(marshmallow.Schema):
    title = marshmallow.fields.String(required=True, validate=marshmallow.validate.Length(min=1, max=60))
    seconds = marshmallow.fields.Integer(required=True, validate=marshmallow.validate.Range(min=0, max=5000))


class Record(marshmallow.Schema):
    artist = marshmallow.fields.String(required=True)
    year = marshmallow.fields.Integer(allow_none=True)
    rating = marshmallow.fields.Float(validate=marshmallow.validate.Range(min=0, max=5))
    kind = marshmallow.fields.String(required=True, validate=marshmallow.validate.OneOf(["lp", "ep", "single"]))
    made = marshmallow.fields.DateTime(required=True)
    day = marshmallow.fields.Date()
    ref = marshmallow.fields.UUID(required=True)
    link = marshmallow.fields.Url()
    mail = marshmallow.fields.Email()
    live = marshmallow.fields.Boolean()
    tracks = marshmallow.fields.List(marshmallow.fields.Nested(Track), required=True)
    extra = marshmallow.fields.Dict(keys=marshmallow.fields.String(), values=marshmallow.fields.Integer())


def marshmallow_cases():
    def record(r):
        track = lambda r: {"title": (text(r) + "x")[:60], "seconds": r.randint(0, 5000)}
        o = {"artist": text(r), "year": maybe(r, lambda r: 1999), "kind": r.choice(["lp", "ep", "single"]),
             "made": when(r), "ref": uuid.UUID(int=r.getrandbits(128), version=4), "tracks": some(r, track)}
        rest = {"rating": round(r.uniform(0, 5), 12), "day": when(r).date(), "link": "https://example.org/a?b=c#d",
                "mail": "ann.b@example.org", "live": True, "extra": {name(r): 5}}
        return Record().dumps(o | {k: v for k, v in rest.items() if r.random() < 0.6})
    yield marshmallow_jsonschema.JSONSchema(props_ordered=True).dump(Record()), record


@dataclasses_json.dataclass_json
@dataclasses.dataclass
class Wheel:
    size: int
    flat: bool = False


@dataclasses_json.dataclass_json(letter_case=dataclasses_json.LetterCase.CAMEL)
@dataclasses.dataclass
class Car:
    owner_name: str
    wheels: List[Wheel]
    speed: float
    extras: Dict[str, int]
    ref: uuid.UUID
    status: Status
    note: Optional[str] = None


def dataclasses_cases():
    yield (marshmallow_jsonschema.JSONSchema(props_ordered=True).dump(Car.schema()),
           lambda r: Car(owner_name=text(r), wheels=some(r, lambda r: Wheel(size=r.randint(1, 99))), speed=real(r),
                         extras={text(r): 1}, ref=uuid.UUID(int=r.getrandbits(128), version=4),
                         status=r.choice(list(Status)), note=maybe(r, text)).to_json())


# ---- typed after documentation ----

def typed_cases():
    folder = pathlib.Path(__file__).parent
    for case in json.loads((folder / "schema_generators.json").read_text()):
        forms = [json.dumps(d, ensure_ascii=False, separators=(",", ":")) for d in case["documents"]]
        yield case["schema"], lambda r, forms=forms: r.choice(forms)


CASES = {"pydantic": pydantic_cases, "msgspec": msgspec_cases, "marshmallow": marshmallow_cases,
         "attrs with cattrs": attrs_cases, "dataclasses-json": dataclasses_cases, "fastapi": fastapi_cases,
         "datamodel-code-generator": datamodel_cases, "instructor": instructor_cases, "langchain": langchain_cases,
         "openai": openai_cases, "zod and schemars, typed": typed_cases}

# ---- both ways ----


class Matcher:
    def __init__(self, program):
        self.run = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, kind, line):
        self.run.stdin.write(f"{kind} {line.encode().hex()}\n")
        self.run.stdin.flush()
        return self.run.stdout.readline().strip()


def spots(value, path=()):
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, v in inside:
        yield from spots(v, path + (key,))


def changed(r, value):
    """One place of a document as another value, without a member, or with one more."""
    value = copy.deepcopy(value)
    path = r.choice([p for p in spots(value) if p] or [()])
    if not path:
        return r.choice([None, [], 5])
    at = value
    for key in path[:-1]:
        at = at[key]
    old, way = at[path[-1]], r.random()
    if way < 0.25 and isinstance(at, dict):
        del at[path[-1]]
    elif way < 0.4 and isinstance(at, dict):
        at["no such name"] = 1
    elif way < 0.7 and isinstance(old, (int, float)) and not isinstance(old, bool):
        at[path[-1]] = r.choice([old + 1000, -old - 1000, old + 0.5, str(old)])
    else:
        at[path[-1]] = r.choice([None, True, -1, 0.5, "no such value", [], {}, [old], {"a": old}])
    return value


def check(program, cases, documents, r):
    """Counts of schemas, documents and changed ones, and what was judged wrongly."""
    counts, wrong, matcher = [0, 0, 0], [], Matcher(program)
    made = list(cases())
    for schema, _ in made:
        if (said := matcher.ask("s", json.dumps(schema))) != "ok":
            wrong.append(f"schema refused: {said}: {json.dumps(schema)[:300]}")
    for i in range(max(documents, len(made))):
        schema, make = made[i % len(made)]
        if matcher.ask("s", json.dumps(schema)) != "ok":
            continue
        counts[0] += i < len(made)
        checker = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        line = make(r)
        value = json.loads(line)
        errors = [e.message for e in checker.iter_errors(value)]
        if errors:  # the generator's document does not follow its own schema
            print(f"  no document: {errors[0][:150]}")
            continue
        counts[1] += 1
        if re.search(r"\\ud[89ab]", line):  # mnem/grammar.h: surrogates are not escaped
            line = json.dumps(value, ensure_ascii=False)
        if not (said := matcher.ask("t", line)).startswith("yes"):
            wrong.append(f"can't be written ({said}): {line}")
        for _ in range(20):
            other = changed(r, value)
            if checker.is_valid(other):
                continue
            counts[2] += 1
            line = json.dumps(other)
            if matcher.ask("t", line).startswith("yes"):
                wrong.append(f"invalid, can be written: {line}")
    matcher.run.stdin.close()
    return counts, wrong


def main(program, documents=20, seed=1):
    failed = False
    for generator, cases in CASES.items():
        counts, wrong = check(program, cases, int(documents), random.Random(f"{seed} {generator}"))
        print(f"{generator}: {counts[0]} schemas, {counts[1]} documents, {counts[2]} changed ones, {len(wrong)} wrong")
        for line in wrong[:5]:
            print("   ", line)
        failed |= bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
