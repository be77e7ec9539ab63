"""The process's budget and its shares. A process has one, so each case has a process of its own."""
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
HEAD = f"""
import mnem
MODEL, MIB = {MODEL!r}, 1 << 20

def refused(make):
    try:
        make().close()
    except mnem.OverBudget as refusal:
        assert refusal.needed > refusal.budget, refusal
        assert refusal.least in str(refusal) and str(refusal.needed) in str(refusal), refusal
        return refusal
    raise AssertionError("not refused")

def runs(llm):
    assert len(llm.generate("In", 2, ignore_end=True).tokens) == 2
"""


def run(text):
    return subprocess.run([sys.executable, "-c", HEAD + text], capture_output=True, text=True)


class Shares(unittest.TestCase):
    def passes(self, text):
        found = run(text)
        self.assertEqual(found.returncode, 0, found.stderr)

    def test_two_shares_of_one_budget(self):
        self.passes("""
budget = mnem.Budget("2G")
before = budget.used
with mnem.LLM(MODEL, "64M", ctx=64) as a, mnem.LLM(MODEL, 64 * MIB, ctx=128) as b:
    runs(a), runs(b)
    assert budget.size == 2 << 30 and before < budget.used <= budget.peak
    assert budget.used - before < 128 * MIB
    assert sum(line.bytes for line in budget.ledger.lines) == budget.ledger.live
assert budget.used - before < MIB, budget.used - before
""")

    def test_a_share_bounds_what_an_llm_takes(self):
        self.passes("""
budget = mnem.Budget("2G")
before = budget.used
refusal = refused(lambda: mnem.LLM(MODEL, 2 * MIB, ctx=4096, kv="f32", chunk=64))
assert refusal.budget == 2 * MIB and "share" in str(refusal)
assert budget.used - before < MIB
with mnem.LLM(MODEL, refusal.least, ctx=4096, kv="f32", chunk=64) as llm:
    runs(llm)
    assert budget.used - before <= refusal.needed
knob = refused(lambda: mnem.LLM(MODEL, refusal.needed - MIB, ctx=4096, kv="f32", chunk=64)).knob
assert knob is not None
runs(mnem.LLM(MODEL, refusal.needed - MIB, **{"ctx": 4096, "kv": "f32", "chunk": 64, knob[0]: knob[1]}))
""")

    def test_a_second_llm_over_the_budget_is_refused_with_numbers(self):
        """What the first one left isn't enough; nor for the second one's tables."""
        self.passes("""
with mnem.LLM(MODEL, "2G", ctx=64, load=False) as llm:
    peak = llm.plan.peak
a = mnem.LLM(MODEL, peak, ctx=64)
for memory in None, 2 * MIB, peak:
    refusal = refused(lambda: mnem.LLM(MODEL, memory, ctx=64))
    assert refusal.budget in (peak, memory), refusal
    runs(a)
    assert a.ledger.budget == peak, a.ledger
b = mnem.LLM(MODEL, refused(lambda: mnem.LLM(MODEL, None, ctx=64)).least, ctx=64)
runs(a), runs(b)
""")

    def test_a_plan_whose_bytes_others_took_is_refused_with_numbers(self):
        self.passes("""
with mnem.LLM(MODEL, "2G", ctx=64, load=False) as llm:
    room = llm.plan.peak + MIB
a, b = mnem.LLM(MODEL, room, ctx=64, load=False), mnem.LLM(MODEL, None, ctx=64, load=False)
a.load()
def load():
    b.load()
    return b
refusal = refused(load)
assert refusal.budget == room, refusal
runs(a)
a.close()
b.load()
runs(b)
""")

    def test_memory_never_lowers_the_budget_of_others(self):
        self.passes("""
with mnem.LLM(MODEL, "2G", ctx=64) as a, mnem.LLM(MODEL, "64M", ctx=64) as b:
    assert b.ledger.budget == 2 << 30
    runs(a), runs(b)
with mnem.LLM(MODEL, "1G", ctx=64) as a:
    assert a.ledger.budget == 1 << 30
    mnem.plan(MODEL, "2G", ctx=64)
    assert a.ledger.budget == 1 << 30
    with mnem.LLM(MODEL, "2G", ctx=64) as b:
        assert a.ledger.budget == 2 << 30
""")

    def test_a_budget_that_is_given_stays(self):
        self.passes("""
budget = mnem.Budget("1G")
with mnem.LLM(MODEL, "2G", ctx=64) as a:
    assert budget.size == 1 << 30
    refusal = refused(lambda: mnem.Budget(MIB))
    assert refusal.budget == MIB and budget.size == 1 << 30
    assert mnem.Budget("2G").size == budget.size == a.ledger.budget == 2 << 30
refusal = refused(lambda: mnem.LLM(MODEL, "64M", ctx=64) if mnem.Budget(budget.used + MIB) else None)
assert "Budget" in str(refusal) and refusal.budget == budget.size
mnem.Budget(refusal.least)
runs(mnem.LLM(MODEL, "64M", ctx=64))
""")

    def test_a_budget_below_what_is_resident_is_refused_with_numbers(self):
        self.passes("""
refusal = refused(lambda: mnem.LLM(MODEL, 4096, ctx=64))
assert refusal.budget == 4096, refusal.budget
runs(mnem.LLM(MODEL, refusal.least, ctx=64))
""")
        self.passes("""
taken = bytearray(100 * MIB)
refusal = refused(lambda: mnem.LLM(MODEL, "16M", ctx=64))
assert refusal.needed > 100 * MIB
runs(mnem.LLM(MODEL, refusal.least, ctx=64))
""")


if __name__ == "__main__":
    unittest.main()
