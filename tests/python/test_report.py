"""mnem.report: the command's numbers of a snapshot, of a trace and of a run of the history."""
import json
import os
import subprocess
import tempfile
import unittest

import mnem

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SNAPSHOTS = os.path.join(ROOT, "tests", "data", "snapshots")
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
COMMAND = os.environ["MNEM_COMMAND"]


def command(*arguments):
    done = subprocess.run([COMMAND, "report", "--json", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Report(unittest.TestCase):
    def check(self, found, other):
        self.assertEqual(list(found.metrics), list(other["metrics"]))
        for name, number in other["metrics"].items():
            if isinstance(number, float):
                self.assertAlmostEqual(found.metrics[name], number, 9)
            else:
                self.assertEqual(found.metrics[name], number, name)
        for ours, theirs in (found.tags, other["tags"]), (found.sites, other["sites"]):
            self.assertEqual([(at.kind, at.tag, at.site, at.bytes_at_peak, at.bytes_end) for at in ours],
                             [(at["kind"], at["tag"], at["site"], at["bytes_at_peak"], at["bytes_end"])
                              for at in theirs])
        self.assertEqual([(at.name, at.ns) for at in found.operators],
                         [(at["name"], at["ns_total"]) for at in other["operators"]])
        self.assertEqual([(at.tag, at.bytes) for at in found.leaks],
                         [(at["tag"], at["bytes"]) for at in other["leaks"]])

    def test_a_snapshot_has_the_commands_numbers(self):
        names = [name for name in sorted(os.listdir(SNAPSHOTS)) if name.endswith(".pickle")]
        self.assertIn("sites.pickle", names)
        for name in names:
            path = os.path.join(SNAPSHOTS, name)
            self.check(mnem.report(path), command(path))

    def test_it_prints_as_a_table(self):
        found = mnem.report(os.path.join(SNAPSHOTS, "sites.pickle"))
        self.assertIn("peak", str(found))
        self.assertIn(found.tags[0].tag, str(found))
        self.assertIn("sites.pickle", repr(found))

    def test_a_run_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            text, out, trace = (os.path.join(folder, name) for name in ("text.txt", "out", "run.pftrace"))
            with open(text, "w", encoding="utf-8") as file:
                file.write("And the days of Adam were many years.\n" * 300)
            old = os.environ.get("MNEM_HISTORY")
            os.environ["MNEM_HISTORY"] = os.path.join(folder, "history")
            try:
                subprocess.run([COMMAND, "train", "-d", text, "-o", out, "--config", "tiny", "--steps", "1", "-b",
                                "1", "-c", "32", "--memory", "2G", "-q", "--trace", trace], check=True,
                               stdout=subprocess.DEVNULL)
                self.check(mnem.report(trace), command(trace))
                other = {"sites": [], "leaks": [], **command(out)}
                self.check(mnem.report(out), {key: value or [] if key in ("sites", "leaks") else value
                                              for key, value in other.items()})
                with self.assertRaisesRegex(mnem.Error, "history"):
                    mnem.report(folder)
            finally:
                os.environ.pop("MNEM_HISTORY")
                if old is not None:
                    os.environ["MNEM_HISTORY"] = old

    def test_a_trace_of_this_process(self):
        mnem.Budget("2G")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.pftrace")
            with mnem.Trace(path) as trace:
                with self.assertRaisesRegex(mnem.Error, "trace"):
                    mnem.Trace(os.path.join(folder, "other.pftrace"))
                with trace.span("all of it"), mnem.LLM(MODEL, memory="500M", ctx=64) as llm:
                    llm.generate("In the", 4)
                    trace.counter("held", 77)
                trace.note("subject", "test")
            trace.close()
            with self.assertRaisesRegex(mnem.Error, "closed"):
                trace.note("a", "b")
            found = trace.report()
            self.check(found, command(path))
            self.assertEqual(trace.dropped, 0)
            self.assertIn("weights", [at.kind for at in found.tags])
            self.assertIn("all of it", [at.name for at in found.operators])
            self.assertEqual(found.budget, 2 << 30)
            self.assertEqual(found.metrics["samples_off"], 0)
            with self.assertRaisesRegex(mnem.Error, "pftrace"):
                mnem.Trace(os.path.join(folder, "run.txt"))

    def test_a_file_that_is_none_is_refused(self):
        with self.assertRaisesRegex(mnem.Error, "missing.pickle"):
            mnem.report(os.path.join(SNAPSHOTS, "missing.pickle"))
        with self.assertRaises(mnem.Error):
            mnem.report(os.path.join(ROOT, "CMakeLists.txt"))


if __name__ == "__main__":
    unittest.main()
