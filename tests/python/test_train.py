"""mnem.train: the command's losses and files, a callback that ends a run, Ctrl-C, resume and refusals."""
import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import mnem

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
COMMAND = os.environ["MNEM_COMMAND"]
ROOM = "2G"
SMALL = {"layers": 1, "embd": 32, "heads": 2, "kv_heads": 1, "ff": 64, "vocab": 300, "context": 32, "batch": 4,
         "dropout": 0.1}
TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")


def command(*arguments):
    done = subprocess.run([COMMAND, "train", *arguments, "--memory", ROOM, "-q", "--no-history"],
                          capture_output=True, text=True, env=dict(os.environ, MNEM_HISTORY="off"))
    if done.returncode:
        raise AssertionError(done.stderr)


def content(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def losses(folder):
    records = [json.loads(line) for line in content(folder, "log.jsonl").splitlines()]
    return [record["loss"] for record in records if record["type"] == "step"]


class Train(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.text = self.path("text.txt")
        with open(self.text, "w", encoding="utf-8") as file:
            for n in range(400):
                file.write(f"And the {n} days of Adam were {n * 7} years, and he begat sons.\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def small(self, out, **options):
        return mnem.train(self.text, config=SMALL, out=self.path(out),
                          **{"steps": 6, "rate": 0.01, "memory": ROOM, "threads": 1, **options})

    def test_losses_and_files_are_the_commands(self):
        with open(self.path("small.json"), "w", encoding="utf-8") as file:
            json.dump(SMALL, file)
        command("-d", self.text, "--config", self.path("small.json"), "-o", self.path("other"), "--steps", "6",
                "--rate", "0.01", "-t", "1")
        steps = []
        done = self.small("own", on_step=steps.append)
        self.assertEqual(done.losses, losses(self.path("other")))
        self.assertEqual(losses(self.path("own")), done.losses)
        for name in "checkpoint", "tokens", "vocabulary.gguf":
            self.assertEqual(content(self.path("own"), name), content(self.path("other"), name), name)
        self.assertTrue(done.finished and done.steps == 6)
        self.assertEqual([(at.step, at.loss, at.tokens) for at in steps],
                         [(n + 1, loss, 128) for n, loss in enumerate(done.losses)])
        self.assertIsNotNone(done.heldout_loss)
        self.assertEqual(sum(line.bytes for line in done.plan.lines), done.plan.peak)
        self.assertIn("weights", str(done.plan))
        with mnem.LLM(done.path, memory=ROOM) as llm:
            self.assertGreater(len(llm.generate("And the", 8, temperature=0)), 0)

    def test_a_callback_ends_a_run_and_resume_goes_on(self):
        whole = self.small("whole")
        part = self.small("part", on_step=lambda at: at.step < 3)
        self.assertEqual((part.steps, part.finished, part.losses), (3, False, whole.losses[:3]))
        self.assertTrue(os.path.exists(part.path))
        rest = mnem.train(out=self.path("part"), resume=True, memory=ROOM, threads=1)
        self.assertEqual((rest.losses, rest.finished), (whole.losses, True))
        self.assertEqual(content(rest.checkpoint), content(whole.checkpoint))
        longer = mnem.train(out=self.path("part"), resume=True, steps=8, memory=ROOM, threads=1)
        self.assertEqual((longer.steps, longer.losses[:6]), (8, whole.losses))

    def test_held_out_text_is_measured_on_the_way(self):
        whole, seen = self.small("whole"), []
        part = self.small("part", evaluate_every=2, on_step=lambda at: seen.append(at.heldout_loss))
        self.assertEqual(part.losses, whole.losses)
        self.assertEqual([at for at, _ in part.heldout_losses], [2, 4, 6])
        self.assertEqual(seen, [None, seen[1], None, seen[3], None, whole.heldout_loss])
        self.assertGreater(seen[1], seen[5])

    def test_the_command_goes_on_with_a_run(self):
        whole = self.small("whole")
        self.small("part", on_step=lambda at: at.step < 3)
        command("--resume", "-o", self.path("part"), "-t", "1")
        self.assertEqual(losses(self.path("part")), whole.losses)
        self.assertEqual(content(self.path("part"), "checkpoint"), content(whole.checkpoint))

    def test_a_failing_callback_keeps_the_work(self):
        def fail(at):
            if at.step == 2:
                raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            self.small("part", on_step=fail)
        rest = mnem.train(out=self.path("part"), resume=True, memory=ROOM, threads=1)
        self.assertEqual(rest.steps, 6)

    def test_ctrl_c_keeps_the_work(self):
        main = threading.main_thread().ident
        with self.assertRaises(KeyboardInterrupt):
            self.small("part", steps=10**6, warmup=10,
                       on_step=lambda at: signal.pthread_kill(main, signal.SIGINT) if at.step == 3 else None)
        self.assertTrue(os.path.exists(os.path.join(self.path("part"), "checkpoint")))
        self.assertFalse(os.path.exists(os.path.join(self.path("part"), "model.gguf")))
        rest = mnem.train(out=self.path("part"), resume=True, memory=ROOM, threads=1,
                          on_step=lambda at: at.step < 6)
        self.assertEqual(rest.steps, 6)

    def test_an_adapter_is_the_commands(self):
        options = dict(init=MODEL, lora=2, steps=2, batch=2, ctx=32, memory=ROOM, threads=1)
        done = mnem.train(self.text, out=self.path("own"), lora_targets=["q_proj", "v"], **options)
        command("-d", self.text, "--init", MODEL, "--lora", "2", "--lora-targets", "q,v", "--steps", "2", "-b",
                "2", "-c", "32", "-t", "1", "-o", self.path("other"))
        self.assertEqual(done.losses, losses(self.path("other")))
        self.assertEqual(os.path.basename(done.path), "adapter.gguf")
        self.assertEqual(content(done.checkpoint), content(self.path("other"), "checkpoint"))

    def test_conversations_are_the_commands(self):
        with open(self.path("template.jinja"), "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        chats = [[{"role": "user", "content": f"Who was number {n}?"},
                  {"role": "assistant", "content": f"He was the {n}th."},
                  {"role": "user", "content": "And then?"},
                  {"role": "assistant", "content": "Nobody."}] for n in range(40)]
        with open(self.path("chats.jsonl"), "w", encoding="utf-8") as file:
            for chat in chats:
                file.write(json.dumps({"messages": chat}) + "\n")
        options = dict(init=MODEL, lora=2, steps=2, batch=2, memory=ROOM, threads=1, template=TEMPLATE)
        done = mnem.train(self.path("chats.jsonl"), out=self.path("own"), **options)
        command("-d", self.path("chats.jsonl"), "--init", MODEL, "--lora", "2", "--template",
                self.path("template.jinja"), "--steps", "2", "-b", "2", "-t", "1", "-o", self.path("other"))
        self.assertEqual(done.losses, losses(self.path("other")))
        self.assertEqual(content(self.path("own"), "tokens"), content(self.path("other"), "tokens"))
        given = mnem.train(chats, out=self.path("given"), **options)
        self.assertEqual(given.losses, done.losses)
        longer = mnem.train(out=self.path("given"), resume=True, steps=3, memory=ROOM, threads=1)
        command("--resume", "-o", self.path("own"), "--steps", "3", "-t", "1")
        self.assertEqual(losses(self.path("own")), longer.losses)

    def test_records_are_the_commands(self):
        with open(self.path("template.jinja"), "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        kinds = {
            "alpaca": [{"instruction": f"Name {n}", "input": "a king" if n % 2 else "", "output": "Saul"}
                       for n in range(30)],
            "dolly": [{"instruction": f"Name {n}", "context": "a king", "response": "Saul"} for n in range(30)],
            "pairs": [{"question": f"Who is {n}?", "answer": "Saul"} for n in range(30)],
            "sharegpt": [{"system": "Be brief.", "conversations": [{"from": "human", "value": f"Who is {n}?"},
                                                                   {"from": "gpt", "value": "Saul"}]}
                         for n in range(30)],
            "lists": [[{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "Saul"}]
                      for n in range(30)],
        }
        for number, (name, given) in enumerate(kinds.items()):
            data, own, other = self.path(name + ".json"), self.path(name), self.path(name + "-other")
            with open(data, "w", encoding="utf-8") as file:
                if number % 2:
                    json.dump(given, file, indent=1)
                else:
                    file.write("".join(json.dumps(one) + "\n" for one in given))
            mnem.train(data, init=MODEL, lora=1, steps=1, batch=1, memory=ROOM, threads=1, template=TEMPLATE,
                       out=own)
            command("-d", data, "--init", MODEL, "--lora", "1", "--template", self.path("template.jinja"),
                    "--steps", "1", "-b", "1", "-t", "1", "-o", other)
            self.assertEqual(content(own, "tokens"), content(other, "tokens"), name)

    def test_texts_in_json_are_the_commands(self):
        data = self.path("texts.jsonl")
        with open(data, "w", encoding="utf-8") as file:
            for n in range(300):
                file.write(json.dumps({"text": f"The {n} sons of Noah\nwent forth."}) + "\n")
        with open(self.path("small.json"), "w", encoding="utf-8") as file:
            json.dump(SMALL, file)
        done = mnem.train(data, config=SMALL, steps=2, memory=ROOM, threads=1, out=self.path("own"))
        command("-d", data, "--config", self.path("small.json"), "--steps", "2", "-t", "1", "-o",
                self.path("other"))
        self.assertEqual(content(self.path("own"), "tokens"), content(self.path("other"), "tokens"))
        self.assertEqual(done.losses, losses(self.path("other")))

    def test_a_run_that_does_not_fit_leaves_nothing(self):
        config = {**SMALL, "embd": 512, "layers": 16, "ff": 2048}
        with self.assertRaises(mnem.OverBudget) as refused:
            mnem.train(self.text, config=config, steps=1, out=self.path("out"), memory="200M", threads=1)
        self.assertFalse(os.path.exists(self.path("out")))
        with self.assertRaisesRegex(ValueError, "need init"):
            mnem.train([[{"role": "user", "content": "?"}]], out=self.path("out"), steps=1, memory=ROOM)
        self.assertFalse(os.path.exists(self.path("out")))
        self.assertGreater(refused.exception.needed, refused.exception.budget)
        self.assertIsNotNone(refused.exception.least)

    def test_progress_is_shown_to_who_watches(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True
        old, sys.stderr = sys.stderr, Terminal()
        try:
            with self.assertLogs("mnem", "INFO") as logged:
                self.small("shown", steps=2)
            self.small("told", steps=1, on_step=lambda at: None)
            said = sys.stderr.getvalue()
        finally:
            sys.stderr = old
        self.assertEqual([said.count("step 1 of 2"), said.count("step 2 of 2"), said.count("of 1,")], [1, 1, 0])
        self.assertIn("steps 1 to 2", logged.output[0])
        self.assertIn("model.gguf after step 2", logged.output[-1])

    def test_descriptors_and_threads_go(self):
        def fail(at):
            raise KeyError(at.step)

        def run(name):
            self.small(name, steps=2)
            with self.assertRaises(KeyError):
                self.small(name + "-failed", on_step=fail)
            with self.assertRaises(ValueError):
                mnem.train(self.text, out=self.path(name + "-none"), config=SMALL, steps=0, memory=ROOM)
            with self.assertRaises(mnem.Error):
                mnem.train(self.text, init=self.text, out=self.path(name + "-init"), steps=1, memory=ROOM)
            return len(os.listdir("/proc/self/fd")), threading.active_count()
        first = run("first")
        gc.collect()
        self.assertEqual(run("second"), first)
        self.assertFalse(os.path.exists(self.path("second-init")))

    def test_memory_is_a_share_beside_an_llm(self):
        with mnem.LLM(MODEL, memory=ROOM, ctx=64) as llm:
            whole = self.small("alone", memory="100M")
            self.assertLessEqual(whole.plan.budget, llm.ledger.live + (100 << 20))
            with self.assertRaises(mnem.OverBudget) as refused:
                mnem.train(self.text, config={**SMALL, "embd": 512, "layers": 16, "ff": 2048}, steps=1,
                           out=self.path("out"), memory="100M", threads=1)
            self.assertEqual(refused.exception.budget, 100 << 20)
            self.assertGreater(refused.exception.needed, 100 << 20)
            live = llm.ledger.live
            self.small("again", memory="100M")
            self.assertLess(llm.ledger.live, live + (1 << 20))
            self.assertGreater(len(llm.generate("And the", 8, temperature=0)), 0)

    def test_wrong_arguments_are_named(self):
        cases = (ValueError, "config is 'huge'", dict(config="huge")), (
            ValueError, "unknown key 'wide'", dict(config={"wide": 1})), (
            ValueError, "rate is 99", dict(rate=99)), (
            ValueError, "lora needs init", dict(lora=4)), (
            mnem.Error, "no training run to resume", dict(resume=True)), (
            FileNotFoundError, "missing.txt", dict(data=self.path("missing.txt")))
        for kind, text, given in cases:
            with self.assertRaisesRegex(kind, text):
                mnem.train(**{"data": self.text, "out": self.path("out"), "memory": ROOM, **given})
            self.assertFalse(os.path.exists(self.path("out")))
        with self.assertRaisesRegex(ValueError, "data is missing"):
            mnem.train(out=self.path("out"), memory=ROOM)
        self.small("own")
        with self.assertRaisesRegex(mnem.Error, "holds a run"):
            self.small("own")
        with self.assertRaisesRegex(ValueError, "rate is 0.5"):
            mnem.train(out=self.path("own"), resume=True, rate=0.5)
        os.mkdir(self.path("foreign"))
        with open(os.path.join(self.path("foreign"), "model.gguf"), "w"):
            pass
        with self.assertRaisesRegex(mnem.Error, "does not belong"):
            self.small("foreign")


if __name__ == "__main__":
    unittest.main()
