"""The programs of examples/python run, and print what they say."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import mnem

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_one(self, name, *arguments, text=""):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "python", name), *arguments],
                              input=text, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_chat(self):
        chats = [[{"role": "user", "content": f"Who was number {n}?"},
                  {"role": "assistant", "content": "Nobody."}] for n in range(40)]
        made = mnem.train(chats, init=MODEL, template=TEMPLATE, steps=1, batch=1, ctx=64, memory="2G",
                          out=os.path.join(self.folder, "chats"))
        out = self.run_one("chat.py", made.path, "1G", text="Who was Adam?\nAnd Eve?\n")
        self.assertIn("peak", out)
        self.assertEqual(out.count("> "), 3)

    def test_extract(self):
        lines = self.run_one("extract.py", MODEL, "David was a shepherd, and thirty years old.").splitlines()
        self.assertEqual(sorted(json.loads("\n".join(lines[:-1]))), ["age", "name", "trade"])

    def test_search(self):
        file = self.write("lines.txt", "The sea roared.\n\nThe king sat upon his throne.\nSheep.\nA boat.\n")
        lines = self.run_one("search.py", MODEL, file, "The king sat upon his throne.").splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[0], "1.000  The king sat upon his throne.")

    def test_adapt(self):
        text = self.write("text.txt", "".join(f"And the {n} sons of Noah went forth.\n" for n in range(200)))
        out = self.run_one("adapt.py", MODEL, text, os.path.join(self.folder, "out"), "2G")
        self.assertIn("step 1 of 40: loss", out)
        self.assertIn("adapter.gguf: loss", out)

    def test_buffers(self):
        out = self.run_one("buffers.py")
        self.assertIn("input[6] is still 6.0", out)
        self.assertIn("activations", out)

    def test_each_program_has_a_test(self):
        names = [name[:-3] for name in os.listdir(os.path.join(ROOT, "examples", "python"))
                 if name.endswith(".py")]
        self.assertEqual([name for name in names if not hasattr(self, "test_" + name)], [])


if __name__ == "__main__":
    unittest.main()
