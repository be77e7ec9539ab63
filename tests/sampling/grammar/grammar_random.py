#!/usr/bin/env python3
"""grammar_random.py MATCH_TEXTS [COUNT [SEED]]: random grammars and texts, against a recogniser that
is naive: it finds the ends of an expression from a place by trying all, rules by repeating until
nothing is added. Left recursion, empty rules, ambiguity and characters of several bytes are frequent.
Prints what differs, and says at the end how many texts were compared."""
import random
import subprocess
import sys

LETTERS = ["a", "b", "c", "é", "ー", "😀", "\n", '"', "]"]


class Grammar:
    """Expressions are tuples: ("text", s), ("class", set, negated), ("any",), ("rule", i),
    ("all", [...]), ("one", [...]), ("many", e, least, most or None)."""

    def __init__(self, rng):
        self.rng = rng
        self.rules = rng.randint(1, 5)
        self.body = [self.expression(3) for _ in range(self.rules)]

    def expression(self, depth):
        r = self.rng
        kind = r.choice(["text", "text", "class", "any", "rule", "rule", "all", "one", "many"])
        if depth == 0 and kind in ("all", "one", "many"):
            kind = "text"
        if kind == "text":
            return ("text", "".join(r.choice(LETTERS) for _ in range(r.choice([0, 1, 1, 2, 3]))))
        if kind == "class":
            return ("class", sorted({r.choice(LETTERS) for _ in range(r.randint(1, 3))}), r.random() < 0.3)
        if kind == "any":
            return ("any",)
        if kind == "rule":
            return ("rule", r.randrange(self.rules))
        if kind in ("all", "one"):
            return (kind, [self.expression(depth - 1) for _ in range(r.randint(1, 3))])
        least = r.choice([0, 0, 1, 1, 2, 3])
        most = r.choice([None, least, least + 1, least + 2])
        return ("many", self.expression(depth - 1), least, most)

    # ---- as GBNF ----

    def letter(self, c, inside):
        if c == "\n":
            return "\\n"
        if c in '"\\]' and (inside or c == '"'):
            return "\\" + c
        if ord(c) > 127 and self.rng.random() < 0.5:
            return "\\U%08x" % ord(c)
        return c

    def text(self, e):
        if e[0] == "text":
            return '"' + "".join(self.letter(c, False) for c in e[1]) + '"'
        if e[0] == "class":
            return "[" + ("^" if e[2] else "") + "".join(self.letter(c, True) for c in e[1]) + "]"
        if e[0] == "any":
            return "."
        if e[0] == "rule":
            return "root" if e[1] == 0 else "r%d" % e[1]
        if e[0] == "all":
            return "(" + " ".join(self.text(x) for x in e[1]) + ")"
        if e[0] == "one":
            return "(" + " | ".join(self.text(x) for x in e[1]) + ")"
        inner = "(" + self.text(e[1]) + ")"
        short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((e[2], e[3]))
        if short:
            return inner + short
        if e[3] is None:
            return inner + "{%d,}" % e[2]
        return inner + ("{%d}" % e[2] if e[2] == e[3] else "{%d,%d}" % (e[2], e[3]))

    def gbnf(self):
        return "\n".join("%s ::= %s" % (self.text(("rule", i)), self.text(b)) for i, b in enumerate(self.body))

    # ---- what it admits ----

    def fits(self, text):
        table = {}

        def ends(e, at):
            kind = e[0]
            if kind == "text":
                return {at + len(e[1])} if text.startswith(e[1], at) else set()
            if kind in ("class", "any"):
                good = at < len(text) and (kind == "any" or (text[at] in e[1]) != e[2])
                return {at + 1} if good else set()
            if kind == "rule":
                return table.setdefault((e[1], at), set())
            if kind == "one":
                return set().union(*(ends(x, at) for x in e[1]))
            if kind == "all":
                now = {at}
                for x in e[1]:
                    now = set().union(*(ends(x, p) for p in now))
                return now
            now, found, times = {at}, set(), 0
            seen = set()
            while now:
                if times >= e[2]:
                    found |= now
                if times == e[3] or (times >= e[2] and now <= seen):
                    break
                if times >= e[2]:
                    seen |= now
                now = set().union(*(ends(e[1], p) for p in now))
                times += 1
            return found

        table[(0, 0)] = set()
        size = 0
        while size != len(table) + sum(map(len, table.values())):
            size = len(table) + sum(map(len, table.values()))
            for (rule, at), known in list(table.items()):
                known |= ends(self.body[rule], at)
        return len(text) in table[(0, 0)]

    def derive(self, e, depth):
        """A text of it, or one that is nearly so, where it goes too deep."""
        r = self.rng
        if e[0] == "text":
            return e[1]
        if e[0] == "any":
            return r.choice(LETTERS)
        if e[0] == "class":
            some = [c for c in LETTERS if (c in e[1]) != e[2]]
            return r.choice(some) if some else ""
        if e[0] == "rule":
            return self.derive(self.body[e[1]], depth - 1) if depth > 0 else ""
        if e[0] == "all":
            return "".join(self.derive(x, depth) for x in e[1])
        if e[0] == "one":
            return self.derive(r.choice(e[1]), depth)
        most = e[2] + 2 if e[3] is None else e[3]
        return "".join(self.derive(e[1], depth) for _ in range(r.randint(e[2], most)))


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    program = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(kind, text):
        program.stdin.write(kind + " " + text.encode().hex() + "\n")
        program.stdin.flush()
        return program.stdout.readline().strip()

    compared = admitted = endless = wrong = 0
    for i in range(count):
        rng = random.Random(seed * 1000003 + i)
        g = Grammar(rng)
        said = ask("g", g.gbnf())
        if said != "ok":
            if "no finite text fits" in said:
                endless += 1
            else:
                wrong += 1
                print("not read:", said, "\n" + g.gbnf())
            if not any(g.fits(t) for t in ["", "a", "b", "ab", g.derive(("rule", 0), 4)[:10]]):
                continue
            wrong += 1
            print("it has texts:", g.gbnf())
            continue
        for _ in range(8):
            text = g.derive(("rule", 0), rng.randint(1, 4))[:12]
            if text and rng.random() < 0.5:
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(LETTERS + [""]) + text[at + rng.randint(0, 1):]
            expected = g.fits(text)
            said = ask("t", text).split()
            compared += 1
            admitted += expected
            if (said[0] == "yes") != expected:
                wrong += 1
                print("seed %d: %r is %s, expected %s\n%s" % (i, text, said, expected, g.gbnf()))
    program.stdin.close()
    print("%d texts of %d grammars, %d admitted, %d grammars without texts, %d differences"
          % (compared, count, admitted, endless, wrong))
    sys.exit(wrong > 0)


main()
