"""The plugin of llm (python/llm-mnem) with the real llm package; skipped where that isn't installed."""
import asyncio
import os
import shutil
import sys
import tempfile
import unittest

import mnem

try:
    import llm
    from click.testing import CliRunner
except ImportError:
    llm = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")


class Files(unittest.TestCase):
    def test_the_module_is_the_one_that_is_named(self):
        folder = os.path.join(ROOT, "python", "llm-mnem")
        with open(os.path.join(folder, "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn('mnem = "llm_mnem"', file.read())
        with open(os.path.join(folder, "llm_mnem.py"), encoding="utf-8") as file:
            compile(file.read(), "llm_mnem.py", "exec")


@unittest.skipUnless(llm, "llm isn't installed")
class Plugin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, os.path.join(ROOT, "python", "llm-mnem"))
        cls.folder = tempfile.mkdtemp()
        os.environ["LLM_USER_PATH"] = cls.folder
        os.environ["LLM_MNEM_MODELS"] = os.path.dirname(MODEL)
        from llm.cli import cli
        from llm.plugins import pm
        import llm_mnem
        if not pm.is_registered(llm_mnem) and not pm.has_plugin("mnem"):
            pm.register(llm_mnem)
            llm_mnem.register_commands(cli)
        cls.cli, cls.plugin = cli, llm_mnem

    @classmethod
    def tearDownClass(cls):
        if cls.plugin._Loaded.model:
            cls.plugin._Loaded.model.close()
        shutil.rmtree(cls.folder)

    def run_cli(self, *arguments):
        return CliRunner().invoke(self.cli, arguments, catch_exceptions=False)

    def test_a_prompt_has_the_text_of_mnem(self):
        with mnem.LLM(MODEL, memory="2G", ctx=128) as model:
            other = str(model.generate("In the beginning", 12, temperature=0))
        done = self.run_cli("-m", "mnem-mnem-kjv-5m-q8_0", "In the beginning", "-n", "-o", "temperature", "0",
                            "-o", "max_tokens", "12", "-o", "memory", "2G", "-o", "ctx", "128")
        self.assertEqual(done.exit_code, 0, done.output)
        self.assertEqual(done.output.strip("\n"), other.strip("\n"))

    def test_models_are_added_listed_and_removed(self):
        done = self.run_cli("mnem", "add", "kjv", MODEL, "--memory", "2G", "--ctx", "64")
        self.assertIn("mnem-kjv: <mnem.Plan", done.output)
        self.assertIn("--memory 2G --ctx 64", self.run_cli("mnem", "list").output)
        model = llm.get_model("mnem-kjv")
        response = model.prompt("In the", max_tokens=4, temperature=0)
        self.assertGreater(len(response.text()), 0)
        self.assertEqual(response.usage().output, 4)
        pieces = list(model.prompt("In the", max_tokens=4, temperature=0, stream=True))
        self.assertEqual("".join(pieces), response.text())

        async def ask():
            return await llm.get_async_model("mnem-kjv").prompt("In the", max_tokens=4, temperature=0).text()
        self.assertEqual(asyncio.run(ask()), response.text())
        vectors = list(llm.get_embedding_model("mnem-kjv").embed_multi(["Adam", "Eve"]))
        self.assertEqual([len(vector) for vector in vectors], [256, 256])
        self.assertEqual(self.run_cli("mnem", "remove", "kjv").exit_code, 0)
        self.assertNotIn("mnem-kjv:", self.run_cli("mnem", "list").output)
        self.assertIn("there is no model", self.run_cli("mnem", "remove", "kjv").output)

    def test_what_does_not_fit_is_refused(self):
        done = self.run_cli("mnem", "add", "tight", MODEL, "--memory", "1M")
        self.assertEqual(done.exit_code, 1)
        self.assertIn("least", done.output)
        self.assertNotIn("tight", self.run_cli("mnem", "list").output)


if __name__ == "__main__":
    unittest.main()
