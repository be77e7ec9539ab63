"""The generated declarations are those of the headers, and C agrees on every size and offset."""
import ctypes as C
import os
import shlex
import subprocess
import sys
import tempfile
import unittest

from mnem import _declarations, _declarations_more

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAKE = [sys.executable, os.path.join(ROOT, "python", "make_declarations")]


def made(*arguments):
    return subprocess.run([*MAKE, *arguments], check=True, capture_output=True, text=True).stdout


class Declarations(unittest.TestCase):
    def test_the_file_is_what_the_script_writes(self):
        for module, which in (_declarations, []), (_declarations_more, ["more"]):
            with open(module.__file__, encoding="utf-8") as file:
                self.assertEqual(file.read(), made(*which))

    def test_sizes_and_offsets_are_those_of_c(self):
        compiler = shlex.split(os.environ.get("CC", "cc"))
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
            with open(source, "w", encoding="utf-8") as file:
                file.write(made("--check"))
            subprocess.run([*compiler, "-I" + os.path.join(ROOT, "include"), source, "-o", program],
                           check=True)
            lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        seen = 0
        for line in lines.splitlines():
            name, *numbers = line.split()
            struct, _, field = name.partition(".")
            kind = getattr(_declarations_more, struct)  # which has the others too
            at = getattr(kind, field) if field else None
            here = [at.offset, at.size] if at else [C.sizeof(kind)]
            self.assertEqual(here, [int(n) for n in numbers], name)
            seen += 1
        self.assertGreater(seen, 250)


if __name__ == "__main__":
    unittest.main()
