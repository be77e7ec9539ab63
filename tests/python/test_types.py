"""The package's types: mypy --strict and pyright, where they are installed, find nothing in a program that
uses them."""
import inspect
import os
import shutil
import subprocess
import tempfile
import unittest

import mnem

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "typed_program.py")
PACKAGE = os.path.dirname(os.path.abspath(mnem.__file__))
BESIDE = os.path.dirname(PACKAGE)


class Types(unittest.TestCase):
    def found(self, *command):
        if not shutil.which(command[0]):
            self.skipTest(f"there is no {command[0]}")
        with tempfile.TemporaryDirectory() as folder:
            program = shutil.copy(PROGRAM, folder)
            done = subprocess.run([*command, program], capture_output=True, text=True, cwd=folder,
                                  env=dict(os.environ, MYPYPATH=BESIDE, PYTHONPATH=BESIDE))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_mypy_finds_nothing(self):
        self.found("mypy", "--strict", "--follow-imports", "silent", "--cache-dir", os.devnull)

    def test_pyright_finds_nothing(self):
        self.found("pyright" if shutil.which("pyright") else "basedpyright", "--level", "error")

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
