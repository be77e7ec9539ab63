"""mnem.LLM on the shipped model: the command's text and numbers, lifetimes, Ctrl-C and fork."""
import gc
import json
import os
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
COMMAND = os.environ["MNEM_COMMAND"]
ROOM = "2G"  # more than any build takes
PROMPT = "In the beginning"


def command(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True,
                          env=dict(os.environ, MNEM_HISTORY="off"))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    """Those of the kernel; one that was joined may still be leaving."""
    end = time.monotonic() + 10
    while len(os.listdir("/proc/self/task")) > threading.active_count() and time.monotonic() < end:
        time.sleep(0.01)
    return len(os.listdir("/proc/self/task"))


class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = mnem.LLM(MODEL, memory=ROOM, ctx=256)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def test_greedy_text_is_the_commands(self):
        other = command("run", MODEL, "-p", PROMPT, "--raw", "-n", "24", "--temp", "0", "--ctx", "256")
        self.assertEqual(self.llm.generate(PROMPT, 24, temperature=0), other.stdout.rstrip("\n"))

    def test_text_of_a_seed_is_the_commands(self):
        for seed in "1", "2":
            other = command("run", MODEL, "-p", PROMPT, "--raw", "-n", "24", "--seed", seed, "--ctx",
                            "256")
            self.assertEqual(self.llm.generate(PROMPT, 24, seed=int(seed)), other.stdout.rstrip("\n"))

    def test_a_stream_has_the_same_text(self):
        pieces = list(self.llm.generate(PROMPT, 24, temperature=0, stream=True))
        self.assertGreater(len(pieces), 5)
        self.assertEqual("".join(pieces), self.llm.generate(PROMPT, 24, temperature=0))

    def test_a_stream_left_half_read_ends(self):
        whole = self.llm.generate(PROMPT, 24, temperature=0)
        stream = self.llm.generate(PROMPT, 0, temperature=0, stream=True)
        next(stream)
        del stream
        gc.collect()
        self.assertEqual(self.llm.generate(PROMPT, 24, temperature=0), whole)

    def test_tokens_make_the_text_again(self):
        text = PROMPT + " God created the heaven"
        ids = self.llm.tokenize(text)
        self.assertGreater(len(ids), 3)
        self.assertEqual(self.llm.detokenize(ids), text)
        self.assertEqual(self.llm.generate(ids, 8, temperature=0),
                         self.llm.generate(text, 8, temperature=0))

    def test_ledger_and_plan_have_lines_that_sum(self):
        plan, ledger = self.llm.plan, self.llm.ledger
        self.assertEqual(sum(line.bytes for line in plan.lines), plan.peak)
        self.assertEqual(sum(line.bytes for line in ledger.lines), ledger.live)
        self.assertLessEqual(ledger.peak, ledger.budget)
        self.assertIn("weights", str(plan))
        self.assertIn("budget", str(ledger))

    def test_errors_carry_the_librarys_text(self):
        with self.assertRaisesRegex(mnem.Error, "no chat template"):
            self.llm.chat("Good day")
        with self.assertRaisesRegex(mnem.OverBudget, "256"):
            self.llm.generate([1] * 300, 4)
        with self.assertRaisesRegex(mnem.Error, "temperature"):
            self.llm.generate(PROMPT, 4, temperature=-1)

    def test_threads_take_turns(self):
        whole = self.llm.generate(PROMPT, 16, temperature=0)
        found = []
        team = [threading.Thread(
            target=lambda: found.append(self.llm.generate(PROMPT, 16, temperature=0)))
            for _ in range(4)]
        for one in team:
            one.start()
        for one in team:
            one.join()
        self.assertEqual(found, [whole] * 4)

    def test_a_forked_child_is_refused(self):
        child = os.fork()
        if child == 0:
            try:
                self.llm.generate(PROMPT, 1)
            except mnem.Error as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_ctrl_c_ends_a_call_and_the_llm_stays_usable(self):
        whole = self.llm.generate(PROMPT, 24, temperature=0)
        main = threading.main_thread().ident
        for _ in range(3):
            timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                begin = time.monotonic()
                while time.monotonic() < begin + 20:  # more than one call, where they are short
                    self.llm.generate(PROMPT, 0, temperature=0)
            timer.join()
            self.assertEqual(self.llm.generate(PROMPT, 24, temperature=0), whole)


TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}"


class Chat(unittest.TestCase):
    def test_an_answer_is_the_commands_and_a_conversation_goes_on(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write(TEMPLATE)
            file.flush()
            other = command("run", MODEL, "-p", PROMPT, "--template", file.name, "-n", "12", "--temp", "0",
                            "--ctx", "256")
        with mnem.LLM(MODEL, memory=ROOM, ctx=256, template=TEMPLATE) as llm:
            said = [{"role": "user", "content": PROMPT}]
            answer = llm.chat(said, 12, temperature=0)
            self.assertEqual(answer.strip(), other.stdout.strip())
            said += [{"role": "assistant", "content": answer}, {"role": "user", "content": "And"}]
            again = llm.chat(said, 12, temperature=0)
        with mnem.LLM(MODEL, memory=ROOM, ctx=256, template=TEMPLATE) as llm:
            self.assertEqual(llm.chat(said, 12, temperature=0), again)
            self.assertEqual("".join(llm.chat(said, 12, temperature=0, stream=True)), again)

    def test_embeddings_are_of_one_length(self):
        with mnem.LLM(MODEL, memory=ROOM, ctx=64) as llm:
            whole = llm.generate(PROMPT, 8, temperature=0)
            with self.assertRaisesRegex(mnem.Error, "pooling"):
                llm.embed(PROMPT)
            one, two = llm.embed([PROMPT, "And God said"], pooling="mean")
            self.assertAlmostEqual(sum(x * x for x in one), 1, places=4)
            self.assertNotEqual(one, two)
            self.assertEqual(llm.embed(PROMPT, pooling="mean"), one)
            self.assertEqual(llm.generate(PROMPT, 8, temperature=0), whole)


class Life(unittest.TestCase):
    def test_twenty_lives_leave_nothing(self):
        mnem.LLM(MODEL, memory=ROOM, ctx=64).close()
        before, live = (threads(), descriptors()), None
        for _ in range(20):
            with mnem.LLM(MODEL, memory=ROOM, ctx=64) as llm:
                llm.generate(PROMPT, 2)
            live = live or llm.ledger.live
        self.assertEqual((threads(), descriptors()), before)
        self.assertLess(abs(llm.ledger.live - live), 1 << 20)
        with self.assertRaisesRegex(mnem.Error, "closed"):
            llm.generate(PROMPT, 1)

    def test_two_at_a_time(self):
        with mnem.LLM(MODEL, memory=ROOM, ctx=64) as a, mnem.LLM(MODEL, memory=ROOM, ctx=128) as b:
            self.assertEqual(a.generate(PROMPT, 8, temperature=0), b.generate(PROMPT, 8, temperature=0))

    def test_a_plan_reads_no_weights_and_agrees_with_the_command(self):
        plan = mnem.plan(MODEL, memory=ROOM, ctx=256)
        other = json.loads(command("plan", MODEL, "--ctx", "256", "--memory", ROOM, "--json").stdout)
        models = "weights", "kv", "activation", "workspace"  # the rest is the process's
        self.assertEqual(
            [(line.kind, line.tag, line.bytes) for line in plan.lines if line.kind in models],
            [(line["kind"], line["tag"], line["bytes"]) for line in other["lines"]
             if line["kind"] in models])


REFUSED = """
import sys, mnem
try:
    mnem.LLM(sys.argv[1], memory=sys.argv[2], ctx=4096, kv="f32")
except mnem.OverBudget as refusal:
    print(refusal.needed, refusal.budget, refusal.least, refusal.knob[0])
    mnem.LLM(sys.argv[1], memory=refusal.least, ctx=4096, kv="f32").generate("In", 2)
    print("enough")
"""


class Refusal(unittest.TestCase):
    def test_a_refusal_says_what_is_enough(self):
        """The budget is what a process takes and two MiB more, so that the weights can't all fit."""
        with mnem.LLM(MODEL, memory=ROOM, ctx=64, load=False) as llm:
            runtime = sum(line.bytes for line in llm.plan.lines if line.kind in ("runtime", "host"))
        budget = runtime + (2 << 20)
        found = subprocess.run([sys.executable, "-c", REFUSED, MODEL, str(budget)], capture_output=True,
                               text=True)
        self.assertIn("enough", found.stdout, found.stderr)
        needed, limit, least = found.stdout.split()[:3]
        self.assertEqual(int(limit), budget)
        self.assertGreater(int(needed), budget)
        self.assertIn(least[-1], "KMG")

    def test_the_command_runs_as_a_module(self):
        found = subprocess.run([sys.executable, "-m", "mnem", "--version"], capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn(mnem.__version__, found.stdout)


if __name__ == "__main__":
    unittest.main()
