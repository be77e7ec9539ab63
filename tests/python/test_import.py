"""`import mnem` stays cheap: what it loads is a short list, and nothing that a user may not need."""
import os
import subprocess
import sys
import unittest

# Each costs 2 to 50 ms of a process's start; what needs one imports it there.
LATER = {"asyncio", "concurrent.futures", "ctypes.util", "dataclasses", "http", "importlib.metadata",
         "inspect", "logging", "multiprocessing", "numpy", "shutil", "socket", "subprocess",
         "tempfile", "typing", "urllib"}
SEEN = ("import sys; sys.path.insert(0, sys.argv[1]); old = set(sys.modules); import mnem; "
        "print(*sorted(set(sys.modules) - old))")


class Import(unittest.TestCase):
    def test_what_a_program_may_not_need_is_imported_later(self):
        """-S: packages that the machine loads at each start don't count."""
        import mnem
        at = os.path.dirname(os.path.dirname(mnem.__file__))
        found = subprocess.run([sys.executable, "-S", "-c", SEEN, at], capture_output=True, text=True,
                               check=True)
        loaded = set(found.stdout.split())
        self.assertIn("mnem", loaded)
        self.assertEqual(loaded & LATER, set())

    def test_every_declared_function_is_in_the_library(self):
        """Functions are looked up when they are first named: here, all of them."""
        from mnem import _declarations as D
        from mnem._library import lib
        for name, (result, arguments) in D.FUNCTIONS.items():
            function = getattr(lib, name)
            self.assertIs(function.restype, result)
            self.assertEqual(list(function.argtypes), arguments)
        with self.assertRaises(AttributeError):
            lib.mnem_no_such_function


if __name__ == "__main__":
    unittest.main()
