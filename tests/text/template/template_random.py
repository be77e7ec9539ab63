"""template_random.py: small templates made at random, of everything that the language has.

Expressions mostly fit their places (a filter of lists gets a list), so that most of them render; the
rest are for the errors.
"""
import random

CLOCK = 1735689600

TEXTS = ["", "a", "hello World", " x ", "a,b,,c", "Ünïcödé ß", "日本", "tab\there", "line\nbreak\n", "it's", "\"q\"",
         "12", "-3", "4.5", "1e3", "{x}", "%d", "<b>&</b>", "AbC dEf", "🙂", "aaa", "a-b_c", "x\r\ny", "\\", "0x1f",
         "\x01", "\u00a0n"]
INTS = ["0", "1", "2", "-1", "3", "7", "10", "-5", "100", "1_000", "9223372036854775807", "0x1F", "0b101"]
FLOATS = ["0.0", "1.5", "-2.25", "3.0", "1e3", "1e20", "1e-7", "0.1", "123456789.125", "2.5", "1.0e16"]
LISTS = ["[]", "[1, 2, 3]", "['b', 'A', 'c', 'a']", "xs", "people", "[1, 'a', none, 2.5, true]", "[[1, 2], [3, 4]]",
         "(1, 2)", "('x',)", "range(4)", "d.keys()", "d.items()", "d.values()", "s.split(',')", "[3, 1, 2, 1]"]
DICTS = ["{}", "d", "{'a': 1, 'B': 2}", "people[0]", "{'x': {'y': [1]}}", "{1: 'one', 2.5: none, true: 'yes'}",
         "dict(a=1, b='x')", "e"]
ANY = ["none", "true", "false", "missing", "d.missing", "ns", "u"]
VARIABLES = {
    "s": "a,B;c a", "n": 5, "f": 2.5, "t": True, "z": None, "u": "ÀÉÎ ßtraße", "xs": [3, 1, 2], "i": 0, "neg": -7,
    "d": {"b": 2, "a": "x", "C": None, "items": [1], "nested": {"k": [True, 1.0]}}, "e": {"é": "ü", "q": "\"'\\\n\t"},
    "people": [{"name": "Ann", "age": 30, "role": "user"}, {"name": "bob", "age": 25, "role": "tool"},
               {"name": "Cy", "role": "user", "tags": ["x", "y"]}],
}
METHODS = ["strip()", "strip('ax ')", "lstrip()", "rstrip('\\n')", "upper()", "lower()", "title()", "capitalize()",
           "split()", "split(',')", "split(',', 1)", "rsplit(None, 1)", "rsplit(',', 1)", "split('a')[-1]", "splitlines()",
           "splitlines(true)", "startswith('a')", "startswith(('a', ' '))", "endswith('c')", "replace('a', 'XY')",
           "replace('', '-')", "replace('a', '', 1)", "find('a')", "rfind('a')", "count('a')", "index('a')", "isdigit()",
           "isalpha()", "isupper()", "islower()", "isspace()", "isalnum()", "istitle()", "removeprefix('a')",
           "removesuffix('c')", "zfill(8)", "center(9, '*')", "ljust(7)", "rjust(7, '.')", "partition(',')",
           "rpartition('a')", "swapcase()", "join(['p', 'q'])", "join(xs)", "format(1, x=2)", "isascii()",
           "find('', 1)", "startswith('b', 1)", "count('')", "isprintable()", "split(none, 1)", "rsplit()",
           "replace('aa', 'b')", "expand()", "casefold()"]
TEXT_FILTERS = ["upper", "lower", "title", "capitalize", "trim", "trim('a')", "length", "reverse", "replace('a', 'b')",
                "replace('a', 'b', 1)", "int", "float", "int(7)", "int(0, 16)", "string", "list", "first", "last",
                "wordcount", "indent", "indent(2, true)", "indent(2, blank=true)", "indent('> ', first=True)", "escape",
                "safe", "truncate(5)", "truncate(5, true, '', 0)", "center(12)", "urlencode", "default('x')",
                "default('e', true)", "format(1)", "tojson", "e", "count", "join('-')", "unique | list", "sort | join",
                "forceescape"]
NUMBER_FILTERS = ["abs", "round", "round(1)", "round(0, 'ceil')", "round(1, 'floor')", "int", "float", "string", "tojson",
                  "default(3)", "round(-1)", "d", "upper"]
LIST_FILTERS = ["list", "length", "first", "last", "join", "join(', ')", "sort", "sort(reverse=true)", "unique | list",
                "reverse | list", "sum", "max", "min", "map('string') | list", "map('upper') | join('+')", "tojson",
                "select | list", "reject('none') | list", "select('number') | list", "select('odd') | list",
                "batch(2) | list", "batch(2, 'f') | list", "slice(2) | list", "slice(3, 'f') | list", "string",
                "map(attribute='name') | list", "map(attribute='age', default=0) | list", "selectattr('age') | list",
                "selectattr('role', 'equalto', 'user') | list", "rejectattr('name', 'in', ['Ann']) | map(attribute='name') | list",
                "sort(attribute='name') | map(attribute='name') | join", "groupby('role') | list | length",
                "selectattr('age', 'gt', 26) | list", "sum(attribute='age')", "max(attribute='name')", "d",
                "map('int') | list", "sort(case_sensitive=true)", "unique(true) | list", "map(attribute=0) | list",
                "first | upper", "map('tojson') | join", "sum(start=10)", "min(case_sensitive=true)"]
DICT_FILTERS = ["items | list", "dictsort", "dictsort(true)", "dictsort(by='value')", "dictsort(reverse=true)", "length",
                "list", "tojson", "tojson(indent=2)", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "string",
                "tojson(separators=(',', ':'))", "first", "last", "join", "tojson(indent='\\t')", "sort", "count",
                "tojson(indent=0)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence",
         "iterable", "true", "false", "odd", "even", "divisibleby 3", "divisibleby(2)", "eq 1", "equalto('a')", "ne 2",
         "lt 3", "gt 0", "ge(1)", "le 5", "in [1, 'a']", "in('abc')", "lower", "upper", "callable", "sameas true",
         "sameas none", "escaped", "filter", "test", "lessthan 4", "greaterthan(2)"]


def quote(text):
    marks = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", "'": "\\'", "\r": "\\r", "\x01": "\\x01"}
    return "'" + "".join(marks.get(c, c) for c in text) + "'"


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def one(self, items):
        return self.r.choice(items)

    def text(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.3:
            return self.one(["s", "u", "people[0].name", "d.a", "d['a']"]) if r < 0.08 else quote(self.one(TEXTS))
        if r < 0.5:
            return f"{self.text(depth - 1)}.{self.one(METHODS)}"
        if r < 0.7:
            return f"{self.postfix(self.text(depth - 1))} | {self.one(TEXT_FILTERS)}"
        if r < 0.78:
            return f"{self.any(depth - 1)} ~ {self.any(depth - 1)}"
        if r < 0.84:
            return f"{self.postfix(self.text(depth - 1))} + {self.postfix(self.text(depth - 1))}"
        if r < 0.88:
            return f"{self.postfix(self.text(depth - 1))} * {self.one(['2', '0', '3', '-1'])}"
        if r < 0.92:
            return f"{self.postfix(self.text(depth - 1))}{self.slice()}"
        if r < 0.96:
            form = self.one(["%s", "%d", "%5.2f|", "%r", "%-5s|", "%05d", "%x", "%%", "%+d", "%s-%s", "%e", "%g", "%5s|"])
            return f"'{form}' % {self.any(0)}"
        form = self.one(["{}", "{0}{0}", "{:>5}|", "{:05d}", "{:.2f}", "{!r}", "{:,}", "{:x}", "{:^7}|", "{:%}", "{:*<4}",
                         "{{}}", "{a}", "{0.name}", "{0[1]}", "{:s}", "{:+}"])
        return f"'{form}'.format({self.any(0)})"

    def slice(self):
        part = lambda: self.one(["", "", "0", "1", "2", "-1", "-2", "5", "100", "-100"])
        step = self.one(["", "", "", ":-1", ":2", ":-2", ":1"])
        return f"[{part()}:{part()}{step}]" if self.r.random() < 0.8 else f"[{self.one(['0', '1', '-1', '9'])}]"

    def postfix(self, expression):
        return f"({expression})"

    def number(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.3:
            return self.one(INTS + FLOATS + ["n", "f", "i", "neg", "t"])
        if r < 0.6:
            sign = self.one(["+", "-", "*", "/", "//", "%", "**"])
            right = self.one(["0", "1", "2", "3", "-2"]) if sign == "**" else self.number(depth - 1)
            return f"({self.number(depth - 1)} {sign} {right})"
        if r < 0.75:
            return f"({self.number(depth - 1)}) | {self.one(NUMBER_FILTERS)}"
        if r < 0.85:
            return f"-{self.one(INTS)}"
        return f"({self.list(depth - 1)}) | {self.one(['length', 'sum', 'max', 'min', 'first'])}"

    def list(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.45:
            return self.one(LISTS)
        if r < 0.75:
            return f"({self.list(depth - 1)}) | {self.one(LIST_FILTERS)}"
        if r < 0.82:
            return f"({self.list(depth - 1)}){self.slice()}"
        if r < 0.87:
            return f"({self.list(depth - 1)}) + ({self.list(depth - 1)})"
        return "[" + ", ".join(self.any(depth - 1) for _ in range(self.r.randrange(4))) + "]"

    def dict(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.5:
            return self.one(DICTS)
        if r < 0.8:
            return f"({self.dict(depth - 1)}) | {self.one(DICT_FILTERS)}"
        method = self.one(["get('a')", "get('zz')", "get('zz', 4)", "keys()", "values()", "items()", "pop('a')",
                           "update(a=1)", "copy()", "a", "missing", "['a']"])
        return f"({self.dict(depth - 1)}){'' if method[0] == '[' else '.'}{method}"

    def truth(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.15:
            return self.one(["true", "false", "t", "z", "i", "xs"])
        if r < 0.4:
            sign = self.one(["==", "!=", "<", ">", "<=", ">=", "in", "not in"])
            return f"({self.any(depth - 1)} {sign} {self.any(depth - 1)})"
        if r < 0.7:
            return f"({self.any(depth - 1)}) is {self.one(['', '', 'not '])}{self.one(TESTS)}"
        if r < 0.8:
            return f"(not {self.any(depth - 1)})"
        if r < 0.85:
            return f"(1 < {self.number(0)} <= {self.number(0)})"
        return f"({self.any(depth - 1)} {self.one(['and', 'or'])} {self.any(depth - 1)})"

    def any(self, depth):
        r = self.r.random()
        if r < 0.3:
            return self.text(depth)
        if r < 0.5:
            return self.number(depth)
        if r < 0.7:
            return self.list(depth)
        if r < 0.82:
            return self.dict(depth)
        if r < 0.92:
            return self.truth(depth)
        if r < 0.96 and depth > 0:
            return f"({self.any(depth - 1)} if {self.truth(depth - 1)} else {self.any(depth - 1)})"
        return self.one(ANY)

    # statements

    def tag(self, inside):
        left, right = self.one(["", "", "-", "+"]), self.one(["", "", "-", "+"])
        return f"{{%{left} {inside} {right}%}}"

    def output(self, inside):
        return f"{{{{{self.one(['', '', '-'])} {inside} {self.one(['', '', '-'])}}}}}"

    def space(self):
        return self.one(["", "", " ", "\n", "  \n  ", "\n\n", "x", " y\n", "\t"])

    def body(self, depth, loop=False):
        return "".join(self.space() + self.statement(depth, loop) for _ in range(self.r.randrange(1, 4))) + self.space()

    def statement(self, depth, loop):
        r = self.r.random()
        if depth <= 0 or r < 0.3:
            if loop and self.r.random() < 0.5:
                field = self.one(["index", "index0", "first", "last", "length", "revindex", "revindex0", "depth",
                                  "previtem", "nextitem", "cycle('p', 'q')", "changed(v)", "missing"])
                return self.output(self.one(["v", f"loop.{field}", "v ~ loop.index"]))
            return self.output(self.any(2))
        if r < 0.42:
            other = self.tag("else") + self.body(depth - 1, loop) if self.r.random() < 0.5 else ""
            if self.r.random() < 0.3:
                other = self.tag(f"elif {self.truth(1)}") + self.body(depth - 1, loop) + other
            return self.tag(f"if {self.truth(2)}") + self.body(depth - 1, loop) + other + self.tag("endif")
        if r < 0.6:
            what = self.one([f"v in {self.list(1)}", f"v in {self.list(0)} if v", f"k, v in {self.dict(0)}.items()",
                             f"v in {self.list(0)} if v is number", f"v in {self.list(0)} if not ns.x",
                             f"v in {self.dict(0)}", "v in s", f"v in {self.any(0)}"])
            end = self.tag("else") + self.body(depth - 1) if self.r.random() < 0.3 else ""
            stop = ""
            if self.r.random() < 0.2:
                stop = self.tag(f"if {self.truth(1)}") + self.tag(self.one(["break", "continue"])) + self.tag("endif")
            return self.tag(f"for {what}") + stop + self.body(depth - 1, True) + end + self.tag("endfor")
        if r < 0.72:
            return self.tag(self.one([f"set w = {self.any(2)}", f"set ns.x = {self.any(1)}", f"set i = {self.number(1)}",
                                      f"set p, q = {self.list(0)}", f"set s = {self.text(1)}"])) + self.output("w ~ i ~ ns.x ~ p")
        if r < 0.78:
            name = self.one(["m", "g"])
            return (self.tag(f"macro {name}(a, b=2)") + self.body(depth - 1) + "{{ a ~ b }}" + self.tag("endmacro") +
                    self.output(f"{name}({self.any(1)}{self.one(['', ', b=3', ', 4', ', c=1', ', 1, 2'])})"))
        if r < 0.82:
            return self.tag("set w") + self.body(depth - 1) + self.tag("endset") + self.output("w | upper")
        if r < 0.86:
            return (self.tag(f"filter {self.one(['upper', 'trim', 'indent(2)', 'replace(chr, 1)', 'length'])}") +
                    self.body(depth - 1) + self.tag("endfilter"))
        if r < 0.9:
            return (self.tag("macro c(a)") + "[{{ caller(a) }}|{{ a }}]" + self.tag("endmacro") +
                    self.tag(f"call(v) c({self.any(1)})") + self.body(depth - 1) + "{{ v }}" + self.tag("endcall"))
        if r < 0.93:
            return self.tag(f"with w = {self.any(1)}") + self.body(depth - 1, loop) + self.tag("endwith")
        if r < 0.95:
            return self.one(["{# note #}", "{#- note -#}", "  {# note #}\n", "{% raw %}{{ x }}{% endraw %}"])
        if r < 0.97:
            return self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
        return self.tag(f"if {self.truth(1)}") + self.output(f"raise_exception({self.any(0)})") + self.tag("endif")

    def template(self):
        if self.r.random() < 0.5:
            return self.output(self.any(3))
        return "{% set ns = namespace(x=none) %}" + self.body(3)


def make(count, seed):
    return [{"template": Maker(seed * 1000003 + i).template(), "arguments": VARIABLES, "clock": CLOCK}
            for i in range(count)]
