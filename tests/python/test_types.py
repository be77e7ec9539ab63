"""The package's types: mypy --strict and basedpyright, where they are installed, find nothing in the stubs
and in a program that uses them."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = '''
import mnem

budget = mnem.Budget("1G")
with mnem.LLM("model.gguf", memory="300M", ctx=512) as llm:
    peak: int = llm.plan.peak
    text = llm.generate("In the beginning", max_tokens=4, temperature=0.5, stop=["."])
    ids: list[int] = text.tokens
    for piece in llm.chat([{"role": "user", "content": "Who?"}], stream=True):
        print(piece.upper(), end="")
try:
    mnem.plan("model.gguf", 1)
except mnem.OverBudget as refusal:
    print(refusal.needed, refusal.budget, refusal.least, refusal.knob)
'''


class Types(unittest.TestCase):
    def found(self, *command):
        if not shutil.which(command[0]):
            self.skipTest(f"there is no {command[0]}")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            done = subprocess.run([*command, path], capture_output=True, text=True, cwd=folder, env=dict(
                os.environ, MYPYPATH=os.path.join(ROOT, "python"), PYTHONPATH=os.path.join(ROOT, "python")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_mypy_finds_nothing(self):
        self.found("mypy", "--strict", "--cache-dir", os.devnull)

    def test_pyright_finds_nothing(self):
        pyright = "pyright" if shutil.which("pyright") else "basedpyright"
        self.found(pyright, "--level", "error")


if __name__ == "__main__":
    unittest.main()
