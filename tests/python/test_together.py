"""Several prompts at once, adapters, saved states and asyncio, on the shipped model."""
import asyncio
import ctypes
import gc
import os
import struct
import tempfile
import time
import unittest
import weakref

import mnem
from mnem import _declarations as D
from mnem._library import lib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
ROOM = "2G"  # more than any build takes
PROMPTS = ["In the beginning", "And God said", "Thou shalt not", "And it came to pass in those days that"]


class Together(unittest.TestCase):
    def test_each_text_is_what_it_is_alone(self):
        with mnem.LLM(MODEL, memory=ROOM, ctx=128) as llm:
            alone = [llm.generate(prompt, 16, seed=5, logprobs=1) for prompt in PROMPTS]
            self.assertEqual(llm.generate(PROMPTS, 16, seed=5), alone)  # one after another
        with mnem.LLM(MODEL, memory=ROOM, ctx=128, parallel=3) as llm:
            found = llm.generate(PROMPTS, 16, seed=5, logprobs=1)
            self.assertEqual([(text, text.tokens, text.finish, text.prompt_tokens) for text in found],
                             [(text, text.tokens, text.finish, text.prompt_tokens) for text in alone])
            self.assertEqual([text.logprobs for text in found], [text.logprobs for text in alone])
            ids = [llm.tokenize(prompt) for prompt in PROMPTS]
            self.assertEqual(llm.generate(ids, 16, seed=5), alone)
            self.assertEqual(llm.generate(PROMPTS[2], 16, seed=5), alone[2])
            with self.assertRaisesRegex(ValueError, "stream"):
                llm.generate(PROMPTS, stream=True)
            with self.assertRaisesRegex(mnem.OverBudget, "context"):
                llm.generate([PROMPTS[0], [1] * 200])
            self.assertEqual(len(llm.embed(PROMPTS, pooling="mean")), 4)
            self.assertEqual(llm.generate(PROMPTS, 16, seed=5), alone)

    def test_what_prompts_begin_with_is_computed_once(self):
        begin = "In the beginning God created the heaven and the earth. And the earth was without form, and "
        prompts = [begin + word for word in ("void", "the waters", "darkness was upon", "God", "a")]

        def tokens():
            stats = D.mnem_engine_stats()
            lib.mnem_engine_stats_get(llm._engine.engine, ctypes.byref(stats))
            return stats.tokens

        with mnem.LLM(MODEL, memory=ROOM, ctx=128) as llm:
            alone = [llm.generate(prompt, 8, seed=5) for prompt in prompts]
        with mnem.LLM(MODEL, memory=ROOM, ctx=128, parallel=3) as llm:
            before = tokens()
            self.assertEqual(llm.generate(prompts, 8, seed=5), alone)
            all_tokens = sum(len(llm.tokenize(prompt)) for prompt in prompts) + 7 * len(prompts)
            self.assertLessEqual(tokens() - before, all_tokens - 4 * len(llm.tokenize(begin[:-1])))
            self.assertEqual(llm.generate(prompts, 8, seed=5), alone)

    def test_texts_together_follow_one_grammar(self):
        with mnem.LLM(MODEL, memory=ROOM, ctx=128, parallel=4) as llm:
            for text in llm.generate(PROMPTS, temperature=0, grammar='root ::= "yes" | "no"'):
                self.assertIn(text, ("yes", "no"))

    def test_conversations_together(self):
        template = "{% for m in messages %}{{ m.content }} {% endfor %}"
        with mnem.LLM(MODEL, memory=ROOM, ctx=128, parallel=2, template=template) as llm:
            said = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
            alone = [llm.chat(one, 8, temperature=0) for one in said]
            self.assertEqual(llm.chat(said, 8, temperature=0), alone)

    def test_more_texts_together_take_more(self):
        one, four = (mnem.plan(MODEL, memory=ROOM, ctx=128, parallel=n) for n in (1, 4))
        kv = [sum(line.bytes for line in plan.lines if line.kind == "kv") for plan in (one, four)]
        self.assertEqual(4 * kv[0], kv[1])


class States(unittest.TestCase):
    def test_a_saved_text_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path, seen = os.path.join(folder, "state"), []

            def look(ids, logits):
                seen.append(len(ids))

            with mnem.LLM(MODEL, memory=ROOM, ctx=128) as llm:
                with self.assertRaisesRegex(mnem.Error, "nothing to save"):
                    llm.save(path)
                first = llm.generate(PROMPTS[3], 16, temperature=0)
                llm.save(path)
                whole = llm.generate(PROMPTS[3] + first, 16, temperature=0)
            with mnem.LLM(MODEL, memory=ROOM, ctx=128) as llm:
                llm.load_state(path)
                held = llm._engine.sequences.last
                ids = llm.tokenize(PROMPTS[3]) + first.tokens
                self.assertEqual(held.held, ids[:len(held.held)])
                self.assertGreaterEqual(held.common(ids), len(ids) - 1)
                self.assertEqual(llm.generate(ids, 16, temperature=0, on_logits=look), whole)
            with mnem.LLM(MODEL, memory=ROOM, ctx=128, kv="f32") as llm:
                with self.assertRaises(mnem.Error):
                    llm.load_state(path)
                self.assertTrue(llm.generate(PROMPTS[3], 4))
            with mnem.LLM(MODEL, memory=ROOM, ctx=128) as llm:
                with self.assertRaises(mnem.Error):
                    llm.load_state(MODEL)
                with self.assertRaises(OSError):
                    llm.load_state(os.path.join(folder, "none"))


def text_of(data):
    return struct.pack("<Q", len(data)) + data


def write_adapter(path, value):
    """A GGUF adapter of rank 1 for the first layer's query matrix [256, 256]: all its numbers alike."""
    keys = [(b"general.type", b"adapter"), (b"general.architecture", b"llama"), (b"adapter.type", b"lora")]
    tensors = [(b"blk.0.attn_q.weight.lora_a", (256, 1)), (b"blk.0.attn_q.weight.lora_b", (1, 256))]
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys) + 1)
    for key, text in keys:
        data += text_of(key) + struct.pack("<I", 8) + text_of(text)
    data += text_of(b"adapter.lora.alpha") + struct.pack("<If", 6, 1.0)
    for i, (name, shape) in enumerate(tensors):
        data += text_of(name) + struct.pack("<IQQIQ", 2, *shape, 0, i * 1024)
    data += b"\0" * (-len(data) % 32)
    with open(path, "wb") as file:
        file.write(data + struct.pack("<256f", *[value] * 256) * 2)


class Adapters(unittest.TestCase):
    def test_an_adapter_changes_the_text_by_its_scale(self):
        def text(**options):
            with mnem.LLM(MODEL, memory=ROOM, ctx=64, **options) as llm:
                return list(llm.logits(PROMPTS[0]))

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "adapter.gguf")
            write_adapter(path, 0.5)
            whole, changed = text(), text(lora=path)
            self.assertNotEqual(changed, whole)
            self.assertEqual(text(lora=folder), changed)
            self.assertEqual(text(lora=[(folder, 0.0)]), whole)
            self.assertNotEqual(text(lora=(path, 0.5)), changed)
            for twice in ([path, path], (path, 2.0)):  # of equal effect
                self.assertNotEqual(text(lora=twice), changed)
                self.assertNotEqual(text(lora=twice), whole)
            with self.assertRaisesRegex(mnem.Error, "none.gguf"):
                text(lora=os.path.join(folder, "none.gguf"))


class Async(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = mnem.LLM(MODEL, memory=ROOM, ctx=256, template="{{ messages[0].content }}")
        cls.whole = cls.llm.generate(PROMPTS[0], 16, temperature=0)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def test_an_answer_is_awaited(self):
        async def ask():
            ask = self.llm.agenerate
            one, two = await asyncio.gather(ask(PROMPTS[0], 16, temperature=0),
                                            self.llm.achat(PROMPTS[0], 16, temperature=0))
            return one, two, await ask(PROMPTS[:2], 16, temperature=0)

        one, two, both = asyncio.run(ask())
        self.assertEqual([one, two, both[0]], [self.whole] * 3)
        self.assertEqual(one.tokens, self.whole.tokens)

    def test_a_stream_is_iterated_while_the_loop_goes_on(self):
        async def ask():
            pieces = []
            async for piece in self.llm.agenerate(PROMPTS[0], 16, temperature=0, stream=True):
                pieces.append(piece)
            async for piece in self.llm.achat(PROMPTS[0], 16, temperature=0, stream=True):
                pieces.append(piece)
            return pieces

        pieces = asyncio.run(ask())
        self.assertEqual("".join(pieces), 2 * self.whole)
        self.assertEqual([piece.finish for piece in pieces].count("length"), 2)

    def test_cancelling_the_task_stops_the_engine(self):
        slow = dict(ignore_end=True, on_logits=lambda ids, logits: time.sleep(0.05))  # 12 s

        async def ask():
            for stream in False, True:
                async def work():
                    if not stream:
                        return await self.llm.agenerate(PROMPTS[0], 0, **slow)
                    async for _ in self.llm.agenerate(PROMPTS[0], 0, stream=True, **slow):
                        pass

                task = asyncio.ensure_future(work())
                other = asyncio.ensure_future(self.llm.agenerate(PROMPTS[0], 16, temperature=0))
                await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(await other, self.whole)

        asyncio.run(ask())

    def test_an_iterator_left_half_read_stops_the_engine(self):
        async def ask():
            stream = self.llm.agenerate(PROMPTS[0], 0, ignore_end=True, stream=True)
            async for _ in stream:
                break
            await stream.aclose()
            return await self.llm.agenerate(PROMPTS[0], 16, temperature=0)

        self.assertEqual(asyncio.run(ask()), self.whole)

    def test_failures_are_raised(self):
        async def ask():
            with self.assertRaisesRegex(mnem.Error, "temperature"):
                await self.llm.agenerate(PROMPTS[0], temperature=-1)
            with self.assertRaisesRegex(mnem.Error, "temperature"):
                async for _ in self.llm.agenerate(PROMPTS[0], temperature=-1, stream=True):
                    pass

        asyncio.run(ask())


class Dropped(unittest.TestCase):
    def test_an_llm_that_nobody_holds_is_closed(self):
        gc.disable()
        try:
            llm = mnem.LLM(MODEL, memory=ROOM, ctx=64)
            thread = llm._worker.thread
            llm.generate(PROMPTS[0], 4)
            list(llm.generate(PROMPTS[0], 4, stream=True))
            with self.assertRaises(mnem.Error):
                llm.generate(PROMPTS[0], temperature=-1)
            gone = weakref.ref(llm)
            del llm
            self.assertIsNone(gone())
            thread.join(10)
            self.assertFalse(thread.is_alive())
        finally:
            gc.enable()


if __name__ == "__main__":
    unittest.main()
