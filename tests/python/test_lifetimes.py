"""Lives of LLMs in one process, of a random kind each: whole and half-read texts, several threads, calls that
are stopped, forks, children, and two at a time. What the kernel counts stays inside of the budget, closing
gives back what was taken, and no thread, descriptor, file or mapping is left.

MNEM_LIVES: how many (default 20); MNEM_SEED: of which (default 1)."""
import gc
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import mnem

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
PROMPT = "In the beginning"
MIB = 1 << 20
LIVES, SEED = int(os.environ.get("MNEM_LIVES", 20)), int(os.environ.get("MNEM_SEED", 1))


# ---- what a process holds ----

def status(name):
    """A line of /proc/self/status: bytes of those in kB."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                words = line.split()
                return int(words[1]) * (1024 if len(words) > 2 else 1)
    raise KeyError(name)


def held():
    """Threads, descriptors, mappings of the library's own memory and files in the temporary folder. A
    thread that was joined may still be leaving."""
    gc.collect()
    end = time.monotonic() + 10
    while status("Threads") > threading.active_count() and time.monotonic() < end:
        time.sleep(0.01)
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = sum("memfd:" in line or "(deleted)" in line for line in file)
    return {"threads": status("Threads"), "descriptors": len(os.listdir("/proc/self/fd")),
            "mappings": mapped, "files": len(os.listdir(tempfile.gettempdir()))}


def resident():
    return status("RssAnon") + status("RssShmem")


# ---- kinds of lives: each opens, uses and leaves its LLMs ----

def opened(draw):
    return mnem.LLM(MODEL, memory=draw.choice([None, "16M"]), ctx=draw.choice([64, 128, 256]), threads=draw.choice([0, 1, 2]),
                    kv=draw.choice(["f16", "q8_0"]))


def whole(draw):
    with opened(draw) as llm:
        text = llm.generate(PROMPT, draw.randint(1, 12), seed=draw.randint(0, 9))
        assert text


def dropped(draw):
    """No close, and no with: the collector."""
    llm = opened(draw)
    llm.generate(PROMPT, 2)
    if draw.random() < 0.5:
        llm.itself = llm


def unused(draw):
    mnem.plan(MODEL, ctx=64)
    opened(draw).close()


def half_read(draw):
    with opened(draw) as llm:
        stream = llm.generate(PROMPT, 0, stream=True, temperature=0)
        first = next(stream)
        del stream
        assert llm.generate(PROMPT, 1, temperature=0) == first


def closed_while_streaming(draw):
    llm = opened(draw)
    stream = llm.generate(PROMPT, 0, stream=True, temperature=0)
    next(stream)
    llm.close()
    try:
        for _ in stream:
            pass
    except mnem.Cancelled:
        pass  # unless the text had ended
    for refused in lambda: llm.generate(PROMPT, 1), lambda: list(llm.generate(PROMPT, 1, stream=True)):
        try:
            refused()
        except mnem.Error as error:
            assert "closed" in str(error), error
        else:
            raise AssertionError("a closed LLM answers")
    llm.close()


def two_at_a_time(draw):
    with opened(draw) as a, opened(draw) as b:
        of_a = a.generate(PROMPT, 8, stream=True, temperature=0)
        of_b = b.generate(PROMPT, 8, stream=True, temperature=0)
        if draw.random() < 0.5:
            next(of_a), next(of_b)
            if draw.random() < 0.5:
                a.close()
        else:
            for one, other in zip(of_a, of_b):
                assert one and other


def threads(draw):
    found = []
    with opened(draw) as llm:
        team = [threading.Thread(target=lambda: found.append(llm.generate(PROMPT, 4, temperature=0)))
                for _ in range(3)]
        for one in team:
            one.start()
        for one in team:
            one.join()
    assert len(found) == 3 and len(set(found)) == 1, found


def closed_by_another_thread(draw):
    """The others are stopped or refused; none waits for ever."""
    llm, wrong = opened(draw), []

    def use():
        try:
            while True:
                llm.generate(PROMPT, 0, temperature=0)
        except mnem.Error:
            pass
        except BaseException as other:
            wrong.append(other)

    team = [threading.Thread(target=use) for _ in range(3)]
    for one in team:
        one.start()
    time.sleep(draw.random() * 0.02)
    llm.close()
    for one in team:
        one.join()
    assert not wrong, wrong


def interrupted(draw):
    with opened(draw) as llm:
        main = threading.main_thread().ident
        timer = threading.Timer(draw.random() * 0.02, lambda: signal.pthread_kill(main, signal.SIGINT))
        try:
            timer.start()
            while timer.is_alive():
                for _ in llm.generate(PROMPT, 0, stream=True):
                    pass
            time.sleep(1)  # where the signal comes after the last call
        except KeyboardInterrupt:
            pass
        timer.join()
        assert llm.generate(PROMPT, 2)


def forked(draw):
    """The child is refused, drops its copy without harm to the parent, and the parent goes on."""
    with opened(draw) as llm:
        before = llm.generate(PROMPT, 4, temperature=0)
        stream = llm.generate(PROMPT, 0, stream=True, temperature=0)
        next(stream)
        child = os.fork()
        if child == 0:
            try:
                llm.generate(PROMPT, 1)
            except mnem.Error as error:
                refused = "fork" in str(error)
            stream.close()
            llm.close()
            del llm, stream
            gc.collect()
            os._exit(0 if refused else 1)
        assert os.waitpid(child, 0)[1] == 0
        stream.close()
        assert llm.generate(PROMPT, 4, temperature=0) == before


def child_text(path):
    with mnem.LLM(path, memory="2G", ctx=64) as llm:
        return str(llm.generate(PROMPT, 4, temperature=0))


def spawned(draw):
    """The pool's own thread and pipes end with it."""
    with opened(draw) as llm:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            text = pool.apply(child_text, (MODEL,))
            pool.close()
            pool.join()
        assert text == llm.generate(PROMPT, 4, temperature=0)


COMMON = [whole, dropped, unused, half_read, closed_while_streaming, two_at_a_time, threads,
          closed_by_another_thread, interrupted, forked]


def live(lives, seed, budget):
    """What the lives leave and the most they took, as the kernel counts it; one of each first, so that
    what Python and the C library keep for themselves is there."""
    draw = random.Random(seed)
    before = status("VmRSS")
    mnem.Budget(budget)
    for kind in [*COMMON, spawned] * 2:
        kind(draw)
    gc.collect()
    start, bytes_start, worst = held(), resident(), 0
    for n in range(lives):
        kind = spawned if n % 20 == 19 else draw.choice(COMMON)
        kind(draw)
        now = held()
        assert now == start, f"life {n} ({kind.__name__}): {now}, before {start}"
        worst = max(worst, resident() - bytes_start)
    return {"budget": budget, "growth": status("VmHWM") - before, "peak": status("VmHWM"),
            "kept": resident() - bytes_start, "worst": worst}


# ---- the interpreter ends while something runs ----

ENDS = {
    "a half-read stream": "s = llm.generate('In', 0, stream=True); next(s)",
    "a stream in another thread": "import threading; threading.Thread(target=lambda: list(llm.generate("
                                  "'In', 40, stream=True))).start()",
    "a daemon thread's call": "import threading, time; threading.Thread(target=lambda: [llm.generate('In', 0) "
                              "for _ in range(99)], daemon=True).start(); time.sleep(0.05)",
    "sys.exit in a stream": "\nfor _ in llm.generate('In', 0, stream=True): sys.exit(0)",
    "a cycle": "llm.itself = llm; llm.generate('In', 1)",
}


class Lifetimes(unittest.TestCase):
    def test_lives_stay_in_the_budget_and_leave_nothing(self):
        with mnem.LLM(MODEL, memory="2G", ctx=256, kv="f16", load=False) as llm:
            one = sum(line.bytes for line in llm.plan.lines if line.kind != "runtime")
            runtime = llm.plan.peak - one
        with tempfile.TemporaryDirectory() as folder:
            found = subprocess.run(
                [sys.executable, "-W", "ignore::DeprecationWarning",  # of a fork beside threads
                 __file__, "live", str(LIVES), str(SEED), str(runtime + 2 * one + 8 * MIB)],
                env=dict(os.environ, TMPDIR=folder), capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertEqual(found.stderr, "")
        seen = json.loads(found.stdout)
        print("bytes:", seen, file=sys.stderr)
        self.assertLessEqual(seen["growth"], seen["budget"])
        self.assertLessEqual(seen["kept"], MIB)

    def test_the_interpreter_ends_while_something_runs(self):
        for name, code in ENDS.items():
            with self.subTest(name):
                found = subprocess.run(
                    [sys.executable, "-c", "import sys, mnem; llm = mnem.LLM(sys.argv[1], memory='2G', "
                     "ctx=256); " + code, MODEL], capture_output=True, text=True, timeout=60)
                self.assertEqual((found.returncode, found.stderr), (0, ""))


if __name__ == "__main__":
    if sys.argv[1:2] == ["live"]:
        print(json.dumps(live(*map(int, sys.argv[2:5]))))
    else:
        unittest.main()
