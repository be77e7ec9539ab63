"""The wheel of this build, installed into a fresh environment of each Python from 3.9 that the machine has:
the README's lines and the package's tests work there, without the network and without this tree's library.

MNEM_PYTHONS: pythons to use, separated by colons, instead of those found."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ["MNEM_BUILD"]
HERE = os.path.abspath(__file__)
# About the tree, not about what is installed.
TREES = {"test_wheel.py", "test_declarations.py", "test_examples.py", "test_llm_plugin.py", "test_types.py"}
ASK = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def pythons():
    """By version, those that can make an environment: of the path, and those that pyenv keeps."""
    names = ["python3", *(f"python3.{n}" for n in range(9, 14))]
    given = os.environ.get("MNEM_PYTHONS")
    kept = os.path.join(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions", "*", "bin")
    found = {}
    for path in given.split(":") if given else [*map(shutil.which, names), *(
            path for name in names[1:] for path in sorted(glob.glob(os.path.join(kept, name))))]:
        if path:
            said = subprocess.run([path, "-c", ASK], capture_output=True, text=True)
            version = said.stdout.strip()
            if said.returncode == 0 and (3, 9) <= tuple(map(int, version.split("."))):
                found.setdefault(version, path)
    return found


def clean(**more):
    """An environment without this tree's library and package."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("MNEM_", "PYTHON"))}
    return dict(kept, MNEM_HISTORY="off", **more)


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stdout[-4000:]}")
    return done.stdout


def readme_lines():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return re.search(r"```python\n(.*?)```", file.read(), re.S)[1]


def works(python, wheel, folder):
    """The wheel in a fresh environment of this Python; how many test files ran there."""
    run([python, "-m", "venv", folder], env=clean())
    here = os.path.join(folder, "bin", "python")
    run([here, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel], env=clean())
    at = run([here, "-c", "import mnem; print(mnem.__file__)"], env=clean(), cwd=folder).strip()
    if not at.startswith(os.path.realpath(folder)) and not at.startswith(folder):
        raise AssertionError(f"mnem is of {at}")
    if not run([here, "-c", readme_lines()], env=clean(), cwd=ROOT).strip():
        raise AssertionError("the README's lines print nothing")
    run([os.path.join(folder, "bin", "mnem"), "version"], env=clean())
    own = os.path.join(os.path.dirname(at), "bin", "mnem")
    files = [path for path in sorted(glob.glob(os.path.join(os.path.dirname(HERE), "test_*.py")))
             if os.path.basename(path) not in TREES]
    few = {"MNEM_LIVES": "4", "MNEM_OPTIONS": "2"}  # as this build's own tests run more of them
    for path in files:
        run([here, path], env=clean(MNEM_COMMAND=own, CC=os.environ.get("CC", "cc"), **few), cwd=folder)
    return len(files)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.wheel = run([sys.executable, os.path.join(ROOT, "python", "make_wheel"), BUILD,
                         cls.folder.name]).splitlines()[-1]

    def test_it_is_small_and_runs_on_other_systems(self):
        self.assertLess(os.path.getsize(self.wheel), 6 << 20)
        library = os.path.join(BUILD, "wheel-library", "libmnem.so")
        self.assertNotIn("STATIC_TLS", run(["readelf", "-d", library]))
        if not shutil.which("auditwheel"):
            self.skipTest("there is no auditwheel: only the size and the library's flags were checked")
        said = " ".join(run(["auditwheel", "show", self.wheel]).split())
        tag = re.search(r"py3-none-(\w+)\.whl", self.wheel)[1]
        if tag.startswith("manylinux"):  # where the machine has PCRE2's archive
            self.assertIn(f'consistent with the following platform tag: "{tag}"', said)

    def test_it_works_in_each_python(self):
        found = pythons()
        if not found:
            self.skipTest("no Python from 3.9 with venv and ensurepip (Debian's python3-venv)")
        with ThreadPoolExecutor(2) as team:
            done = [team.submit(works, path, self.wheel, os.path.join(self.folder.name, "env" + version))
                    for version, path in found.items()]
            for version, one in zip(found, done):
                with self.subTest(python=version):
                    print(f"Python {version}: {one.result()} files of tests", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
