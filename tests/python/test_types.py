"""The package's types: a program that uses them is clean, where mypy or pyright is installed."""
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import unittest

import mnem

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "typed_program.py")
PACKAGE = os.path.dirname(os.path.abspath(mnem.__file__))
PYRIGHT = shutil.which("pyright") or shutil.which("basedpyright")


class Types(unittest.TestCase):
    def clean(self, *words):
        found = subprocess.run([*words, PROGRAM], capture_output=True, text=True,
                               env=dict(os.environ, MYPYPATH=os.path.dirname(PACKAGE)))
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "there is no mypy")
    def test_mypy_accepts_a_program(self):
        self.clean(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
                   "--cache-dir=" + os.devnull)

    @unittest.skipUnless(PYRIGHT, "there is no pyright")
    def test_pyright_accepts_a_program(self):
        self.clean(PYRIGHT, "--level", "error")

    def test_every_name_has_a_type_and_a_text(self):
        with open(os.path.join(PACKAGE, "__init__.pyi"), encoding="utf-8") as file:
            stub = file.read()
        for name in mnem.__all__:
            self.assertIn(name, stub)
            if name != "__version__":
                self.assertTrue(inspect.getdoc(getattr(mnem, name)), name)
        for name, member in inspect.getmembers(mnem.LLM):
            if not name.startswith("_"):
                self.assertIn(f"def {name}(", stub)
                self.assertTrue(inspect.getdoc(member), name)


if __name__ == "__main__":
    unittest.main()
