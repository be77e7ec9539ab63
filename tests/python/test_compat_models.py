"""mnem.compat: models of other kinds, adapters, and what interrupts a call."""
import itertools
import os
import signal
import tempfile
import threading
import time
import unittest

import mnem
import mnem.compat as llama_cpp
from compat_shapes import MODEL, PROMPT, ROOM, ROOT, open_llama_closed

STORED = os.path.join(ROOT, "tests", "data", "architectures")


class Models(unittest.TestCase):
    """Tiny ones with recurrent layers, with both kinds, and an encoder."""

    def tokens(self, llm, ids, count=4):
        return list(itertools.islice(llm.generate(ids, temp=0.0), count))

    def test_recurrent_models_reuse_and_restore(self):
        ids = [5, 9, 13, 7, 21, 8]
        for name in "mamba", "falcon_h1":
            path = os.path.join(STORED, name + ".gguf")
            given = dict(n_ctx=64, memory=ROOM, verbose=False)
            with self.subTest(name):
                fresh = llama_cpp.Llama(path, **given)
                expected = self.tokens(fresh, ids)
                self.assertEqual(self.tokens(fresh, ids), expected)  # held in part
                other = self.tokens(fresh, [5, 9, 14, 7])
                llm = llama_cpp.Llama(path, **given)
                self.assertEqual(self.tokens(llm, [5, 9, 14, 7]), other)
                llm.eval([3, 4])
                llm.reset()
                llm.eval(ids)
                state = llm.save_state()
                fresh.load_state(state)
                self.assertEqual(fresh.n_tokens, len(ids))
                self.assertEqual(self.tokens(fresh, ids), expected)
                fresh.close()
                llm.close()

    def test_an_encoder_embeds(self):
        path = os.path.join(STORED, "bert.gguf")
        given = dict(n_ctx=64, memory=ROOM, verbose=False, embedding=True)
        llm = llama_cpp.Llama(path, **given)
        self.assertEqual(llm.pooling_type(), llama_cpp.LLAMA_POOLING_TYPE_MEAN)
        texts = ["abc", "b a"]
        together = llm.embed(texts)
        self.assertEqual(together, [llm.embed(text) for text in texts])
        self.assertEqual([len(one) for one in together], [llm.n_embd()] * 2)
        llm.close()
        llm = llama_cpp.Llama(path, pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE, **given)
        with self.assertRaisesRegex(NotImplementedError, "encoder"):
            llm.embed("abc")
        llm.close()

    def test_an_adapter_is_applied_by_its_scale(self):
        from test_together import write_adapter
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "adapter.gguf")
            write_adapter(path, 0.5)
            with mnem.LLM(MODEL, memory=ROOM, ctx=128, lora=(path, 2.0)) as llm:
                expected = list(llm.logits([5, 6, 7]))
            for scale in 2.0, 1.0:
                with open_llama_closed(lora_path=path, lora_scale=scale) as llm:
                    llm.eval([5, 6, 7])
                    found = llm.eval_logits[0]
                (self.assertEqual if scale == 2.0 else self.assertNotEqual)(found, expected)

    def test_ctrl_c_ends_a_call_and_the_llama_stays_usable(self):
        with open_llama_closed() as llm:
            whole = llm(PROMPT, max_tokens=12, temperature=0)["choices"][0]["text"]
            main = threading.main_thread().ident
            for _ in range(3):
                timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
                with self.assertRaises(KeyboardInterrupt):
                    timer.start()
                    begin = time.monotonic()
                    while time.monotonic() < begin + 20:  # more than one call, where they are short
                        llm(PROMPT, max_tokens=0, temperature=0)
                timer.join()
                self.assertEqual(llm(PROMPT, max_tokens=12, temperature=0)["choices"][0]["text"], whole)
            self.assertFalse(llm._steps.choices)

    def test_a_forked_child_is_refused(self):
        with open_llama_closed() as llm:
            llm.eval([5, 6])
            child = os.fork()
            if child == 0:
                try:
                    llm(PROMPT)
                except mnem.Error as error:
                    os._exit(0 if "fork" in str(error) else 1)
                os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    unittest.main()
