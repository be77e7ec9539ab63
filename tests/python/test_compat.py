"""mnem.compat: the subjects of llama-cpp-python's own tests, on the model that ships. No other package is
needed; with NumPy, ids and logits are its arrays."""
import gc
import itertools
import json
import os
import pickle
import tempfile
import threading
import unittest

import mnem
import mnem.compat as llama_cpp
from compat_shapes import MODEL, PROMPT, ROOM, Shapes, open_llama, open_llama_closed
from mnem.compat import llama_chat_format, llama_speculative


class Subjects(Shapes):
    @classmethod
    def setUpClass(cls):
        cls.llm = open_llama()

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def text(self, llm=None, prompt=PROMPT, **given):
        given = {"max_tokens": 12, "temperature": 0.0, **given}
        return (llm or self.llm).create_completion(prompt, **given)["choices"][0]["text"]

    def tokens(self, llm, ids, count=3):
        return list(itertools.islice(llm.generate(ids, temp=0.0), count))

    def test_version(self):
        self.assertEqual(llama_cpp.__version__, mnem.__version__)

    def test_tokens_are_of_bytes_and_become_bytes(self):
        llm = self.llm
        ids = llm.tokenize(b"Hello World")
        self.assertEqual(llm.detokenize(ids), b"Hello World")
        end = llm.detokenize([llm.token_eos()], special=True)
        plain = llm.tokenize(b"Hello World" + end)
        self.assertNotEqual(plain[-1], llm.token_eos())
        self.assertEqual(llm.tokenize(b"Hello World" + end, special=True), ids + [llm.token_eos()])
        self.assertEqual(llm.tokenize(b"", add_bos=False), [])
        self.assertEqual(llm.detokenize(llm.tokenize("æøå".encode())[:1]), "æ".encode()[:1])
        self.assertEqual(llm.n_vocab(), 2048)
        self.assertEqual(llm.detokenize([llm.token_nl()]), b"\n")
        again = llama_cpp.LlamaTokenizer(llm)
        self.assertEqual(again.decode(again.encode(PROMPT)), PROMPT)

    def test_greedy_text_is_that_of_mnem(self):
        with mnem.LLM(MODEL, memory=ROOM, ctx=128) as llm:
            self.assertEqual(self.text(), str(llm.generate(PROMPT, 12, temperature=0)))

    def test_a_grammar_holds_a_completion(self):
        grammar = llama_cpp.LlamaGrammar.from_string('root ::= "true" | "false"')
        for seed in range(3):
            text = self.text(temperature=0.8, seed=seed, grammar=grammar, max_tokens=16)
            self.assertIn(text, ("true", "false"))

    def test_grammars_of_texts_and_schemas(self):
        llama_cpp.LlamaGrammar.from_string('leaf ::= "."\nnode ::= leaf | "(" node node ")"\nroot ::= node\n')
        composed = {"$defs": {"A": {"properties": {"a": {"type": "integer"}}, "required": ["a"],
                                    "type": "object"}},
                    "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": "boolean"}},
                    "required": ["a", "b"], "type": "object"}
        grammar = llama_cpp.LlamaGrammar.from_json_schema(json.dumps(composed))
        found = json.loads(self.text(grammar=grammar, max_tokens=100))
        self.assertEqual(sorted(found), ["a", "b"])
        llama_cpp.LlamaGrammar.from_json_schema(json.dumps({"type": "object", "properties": {
            "temperature": {"type": "number"},
            "unit": {"anyOf": [{"enum": ["celsius", "fahrenheit"], "type": "string"}, {"type": "null"}]}}}))
        with self.assertRaisesRegex(mnem.Error, "line 1"):
            llama_cpp.LlamaGrammar.from_string("root ::= (")
        with tempfile.NamedTemporaryFile("w", suffix=".gbnf") as file:
            file.write('root ::= "yes"')
            file.flush()
            self.assertEqual(self.text(grammar=llama_cpp.LlamaGrammar.from_file(file.name)), "yes")

    def test_a_processor_changes_logits(self):
        wanted = self.llm.tokenize(b" Moses", add_bos=False)[0]
        lengths = []

        def prefer(ids, logits):
            lengths.append(len(ids))
            logits[wanted] = 1000.0
            return logits

        processors = llama_cpp.LogitsProcessorList([prefer])
        text = self.text(max_tokens=3, temperature=0.8, seed=1, logits_processor=processors)
        self.assertEqual(text, self.llm.detokenize([wanted] * 3).decode())
        begin = len(self.llm.tokenize(PROMPT.encode()))
        self.assertEqual(lengths, [begin, begin + 1, begin + 2])
        self.assertEqual(self.text(), self.text(logit_bias={wanted: 0.0}))
        self.assertEqual(self.text(max_tokens=1, logit_bias={str(wanted): 1000.0}),
                         self.llm.detokenize([wanted]).decode())

    def test_a_processor_may_use_the_model(self):
        def look(ids, logits):
            self.llm.detokenize([int(token) for token in ids])
            self.llm.tokenize(b"Moses")
            return logits
        self.assertEqual(self.text(logits_processor=look), self.text())

    def test_an_error_of_a_processor_arrives_and_the_model_goes_on(self):
        def fail(ids, logits):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            self.text(logits_processor=fail)
        self.assertEqual(self.text(), self.text())

    def test_no_end_before_min_tokens(self):
        least = llama_cpp.MinTokensLogitsProcessor(8, self.llm.token_eos())
        text = self.text(logits_processor=llama_cpp.LogitsProcessorList([least]),
                         logit_bias={self.llm.token_eos(): 1000.0}, max_tokens=20)
        self.assertEqual(len(self.llm.tokenize(text.encode(), add_bos=False)), 8)

    def test_criteria_stop(self):
        begin = len(self.llm.tokenize(PROMPT.encode()))
        criteria = llama_cpp.StoppingCriteriaList([lambda ids, logits: len(ids) >= begin + 4])
        found = self.llm.create_completion(PROMPT, temperature=0, stopping_criteria=criteria)
        self.assertEqual(found["choices"][0]["finish_reason"], "stop")
        self.assertEqual(found["usage"]["completion_tokens"], 4)

    def test_seeds_and_states_repeat_a_completion(self):
        llm = self.llm
        llm.set_seed(1337)
        state = llm.save_state()
        one, two = (self.text(temperature=1.0) for _ in range(2))
        llm.load_state(state)
        self.assertNotEqual(one, two)
        self.assertEqual(self.text(temperature=1.0), one)
        self.assertEqual(self.text(temperature=1.0, seed=7), self.text(temperature=1.0, seed=7))

    def test_a_state_goes_on_in_another_llama(self):
        ids = self.llm.tokenize(PROMPT.encode())
        expected = self.tokens(self.llm, ids)
        self.llm.reset()
        self.llm.eval(ids)
        state = pickle.loads(pickle.dumps(self.llm.save_state()))
        self.assertEqual(state.llama_state_size, len(state.llama_state))
        with open_llama_closed() as other:
            other.eval([5, 6, 7])
            other.load_state(state)
            self.assertEqual(other.n_tokens, len(ids))
            self.assertEqual(other.input_ids[:other.n_tokens].tolist(), ids)
            self.assertEqual(other.sample(temp=0.0), expected[0])
            self.assertEqual(self.tokens(other, ids), expected)
            self.assertEqual(other.n_tokens, len(ids) + 2)

    def test_a_prompt_that_is_held_is_not_computed_again(self):
        llm, ids = self.llm, self.llm.tokenize(PROMPT.encode())
        llm.reset()
        expected = self.tokens(llm, ids)
        llm.reset()
        llm.eval(ids)
        self.assertEqual(llm.sample(temp=0.0, idx=len(ids) - 1), expected[0])
        run, calls = llm._steps.run, []
        llm._steps.run = lambda job, tokens, on_row=None: (calls.append(list(tokens)), run(job, tokens, on_row))
        try:
            self.assertEqual(self.tokens(llm, ids), expected)
        finally:
            del llm._steps.run
        self.assertEqual(calls, [[], expected[:1], expected[1:2]])
        self.assertEqual(llm.n_tokens, len(ids) + len(expected) - 1)

    def test_a_shorter_prompt_reuses_its_part(self):
        llm, ids = self.llm, self.llm.tokenize(PROMPT.encode())
        llm.reset()
        expected = self.tokens(llm, ids)
        llm.reset()
        llm.eval(ids + llm.tokenize(b" God created", add_bos=False))
        self.assertEqual(self.tokens(llm, ids), expected)

    def test_an_edited_prompt_is_computed_anew(self):
        with open_llama_closed() as fresh:
            expected = self.text(fresh, "And the king said")
        self.text(prompt="And the LORD said")
        self.assertEqual(self.text(prompt="And the king said"), expected)

    def test_caches_hold_states(self):
        ids = self.llm.tokenize(PROMPT.encode())
        expected = self.text(prompt=ids, seed=1)
        with tempfile.TemporaryDirectory() as folder:
            for cache in (llama_cpp.LlamaRAMCache(), llama_cpp.LlamaDiskCache(folder)):
                with open_llama_closed() as writer:
                    writer.set_cache(cache)
                    self.assertEqual(self.text(writer, ids, seed=1), expected)
                self.assertGreater(cache.cache_size, 0)
                self.assertIn(ids, cache)
                self.assertNotIn([9, 9, 9], cache)
                with open_llama_closed() as reader:
                    reader.set_cache(cache)
                    loads, load = [], reader.load_state
                    reader.load_state = lambda state: (loads.append(state.n_tokens), load(state))
                    self.assertEqual(self.text(reader, ids, seed=1), expected)
                    self.assertEqual(len(loads), 1)
                cache.capacity_bytes = 1
                cache[(1, 2)] = llama_cpp.LlamaState([1, 2], None, 2, b"..", 2, 0)
                self.assertNotIn(ids, cache)

    def test_the_default_seed_is_random(self):
        ids = self.llm.tokenize(PROMPT.encode())
        with open_llama_closed() as llm:
            self.assertGreater(len({tuple(itertools.islice(llm.generate(ids, temp=2.0), 8))
                                    for _ in range(4)}), 1)
            llm.set_seed(5)
            self.assertEqual(len({tuple(itertools.islice(llm.generate(ids, temp=2.0), 8))
                                  for _ in range(2)}), 1)

    def test_tokens_may_be_sent_into_generate(self):
        llm, ids = self.llm, self.llm.tokenize(PROMPT.encode())
        more = llm.tokenize(b" God said", add_bos=False)
        stream = llm.generate(ids, temp=0.0)
        first = next(stream)
        second = stream.send(more)
        stream.close()
        self.assertEqual(self.tokens(llm, ids + [first] + more, 1), [second])

    def test_a_llama_goes_on_after_a_stream_that_was_left(self):
        expected = self.text()
        stream = self.llm(PROMPT, max_tokens=100, stream=True)
        next(stream)
        del stream
        self.assertEqual(self.text(), expected)
        self.assertFalse(self.llm._steps.choices)

    def test_streams_have_the_text_and_a_last_chunk(self):
        whole = self.text(stop=["morning", "zzz"])
        chunks = list(self.llm(PROMPT, max_tokens=12, temperature=0, stop=["morning", "zzz"], stream=True))
        self.assertEqual("".join(chunk["choices"][0]["text"] for chunk in chunks), whole)
        self.assertEqual([chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]], [None, "stop"]
                         if "morning" in self.text() else [None, "length"])
        self.assertEqual({chunk["id"] for chunk in chunks}, {chunks[0]["id"]})
        self.assertEqual(sorted(chunks[0]), ["choices", "created", "id", "model", "object"])

    def test_a_stop_text_over_two_tokens_is_held_back(self):
        text = self.text(max_tokens=16)
        for at in range(1, len(text) - 3):
            stop = text[at:at + 3]
            pieces = [chunk["choices"][0]["text"] for chunk in
                      self.llm(PROMPT, max_tokens=16, temperature=0, stop=stop, stream=True)]
            self.assertEqual("".join(pieces), text[:text.index(stop)])

    def test_logprobs_of_completions(self):
        found = self.llm(PROMPT, max_tokens=4, temperature=0, logprobs=3, echo=True)["choices"][0]
        told = found["logprobs"]
        self.assertEqual("".join(told["tokens"]), found["text"])
        self.assertEqual([found["text"][at:at + len(token)] for at, token in
                          zip(told["text_offset"], told["tokens"])], told["tokens"])
        self.assertIsNone(told["token_logprobs"][0])
        for token, value, top in list(zip(told["tokens"], told["token_logprobs"],
                                          told["top_logprobs"]))[-4:]:
            self.assertEqual(top[token], value)
            self.assertEqual(max(top.values()), value)  # greedy
            self.assertLess(value, 0)
        streamed = [chunk["choices"][0]["logprobs"] for chunk in
                    self.llm(PROMPT, max_tokens=4, temperature=0, logprobs=3, stream=True)]
        self.assertEqual([value for one in streamed[:-1] for value in one["token_logprobs"]],
                         told["token_logprobs"][-4:])

    def test_chat_streams_and_logprobs(self):
        said = [{"role": "user", "content": "Who was Moses?"}]
        given = dict(max_tokens=8, temperature=0, logprobs=True, top_logprobs=2)
        whole = self.llm.create_chat_completion(said, **given)["choices"][0]
        self.assertEqual([len(one["top_logprobs"]) for one in whole["logprobs"]["content"]], [2] * 8)
        chunks = list(self.llm.create_chat_completion(said, stream=True, **given))
        self.assertEqual({chunk["object"] for chunk in chunks}, {"chat.completion.chunk"})
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant"})
        self.assertEqual(chunks[-1]["choices"][0]["delta"], {})
        self.assertEqual("".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks),
                         whole["message"]["content"])

    def test_logits_of_all_tokens(self):
        with open_llama_closed(logits_all=True) as llm:
            ids = llm.tokenize(PROMPT.encode())
            llm.eval(ids)
            self.assertEqual(len(llm.scores), len(ids))
            rows = llm.eval_logits
            self.assertEqual((len(rows), len(rows[0])), (len(ids), llm.n_vocab()))
            chance = llama_cpp.Llama.logits_to_logprobs(rows[0])
            found = llm(PROMPT, max_tokens=1, temperature=0, logprobs=0, echo=True)["choices"][0]["logprobs"]
            self.assertAlmostEqual(float(chance[ids[1]]), found["token_logprobs"][1], places=4)
            self.assertEqual(llm.sample(temp=0.0, idx=0), max(range(llm.n_vocab()), key=rows[0].__getitem__))
        with self.assertRaisesRegex(ValueError, "logits_all"):
            self.text()
            self.llm.sample(temp=0.0, idx=0)

    def test_embeddings_by_pooling(self):
        with open_llama_closed(embedding=True) as tokens, open_llama_closed(
                embedding=True, pooling_type=llama_cpp.LLAMA_POOLING_TYPE_MEAN) as mean:
            rows, one = tokens.embed("Hello World"), mean.embed("Hello World")
            for column in range(3):
                self.assertAlmostEqual(sum(row[column] for row in rows) / len(rows), one[column], places=3)
            both = mean.embed(["Hello World", "A different prompt"])
            self.assertEqual(both[0], one)
            self.assertAlmostEqual(sum(x * x for x in mean.embed("Hello", normalize=True)), 1, places=4)
            self.assertEqual(self.text(mean), self.text())
        with self.assertRaisesRegex(RuntimeError, "embedding=True"):
            self.llm.embed("Hello")

    def test_templates_of_one_s_own(self):
        source = ("{{ bos_token }}{% for m in messages %}{{ '[' + m['role'] + '] ' + m['content'] }}"
                  "{% endfor %}")
        config = {"chat_template": source, "bos_token": {"content": "<s>"}, "eos_token": "</s>"}
        form = llama_chat_format.hf_tokenizer_config_to_chat_formatter(config)
        made = form(messages=[{"role": "user", "content": "Hello"}])
        self.assertEqual((made.prompt, made.stop, made.added_special), ("<s>[user] Hello", ["</s>"], True))

        @llama_chat_format.register_chat_format("mine")
        def mine(messages, **_given):
            return llama_chat_format.ChatFormatterResponse(prompt=messages[-1]["content"], stop=",")

        with open_llama_closed(chat_format="mine") as llm:
            found = llm.create_chat_completion([{"role": "user", "content": PROMPT}], temperature=0)
            self.assertEqual(found["choices"][0]["message"]["content"], self.text(stop=[","], max_tokens=99))
        with self.assertRaisesRegex(ValueError, "chatml"):
            open_llama(chat_format="unknown")

    def test_formats_by_name(self):
        said = [{"role": "system", "content": "S"}, {"role": "user", "content": "U1"},
                {"role": "assistant", "content": "A1"}, {"role": "user", "content": "U2"}]
        expected = {
            "llama-2": "[INST] <<SYS>>\nS\n<</SYS>>\n\nU1 [/INST] A1 </s><s>[INST] U2 [/INST]",
            "mistral-instruct": "[INST] S\n\nU1 [/INST]A1</s>[INST] U2 [/INST]",
            "chatml": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\n"
                      "A1<|im_end|>\n<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n",
            "zephyr": "<|system|>\nS</s>\n<|user|>\nU1</s>\n<|assistant|>\nA1</s>\n<|user|>\nU2</s>\n"
                      "<|assistant|>\n",
        }
        for name, text in expected.items():
            form = getattr(llama_chat_format, "format_" + name.replace("-", "_"))
            self.assertEqual(form(messages=said).prompt, text)
        for name in llama_chat_format.FORMATS:
            with open_llama_closed(chat_format=name, n_ctx=512) as llm:
                self.check_completion(llm.create_chat_completion(said, max_tokens=2), chat=True)

    def test_a_handler_gets_the_llama(self):
        def handler(*, llama, messages, **given):
            return llama, messages, given["temperature"]
        with open_llama_closed(chat_handler=handler) as llm:
            self.assertEqual(llm.create_chat_completion("said", temperature=0.5), (llm, "said", 0.5))
            llm.chat_handler = None  # as programs do later
            for name in None, "chatml", "zephyr":
                llm.chat_format = name
                said = llm.create_chat_completion([{"role": "user", "content": "Hi"}], max_tokens=1)
                self.check_completion(said, chat=True)
                self.assertEqual(llm.chat_format, name or "llama-2")

    def test_prompt_lookup(self):
        find = llama_speculative.LlamaPromptLookupDecoding.find_candidate_pred_tokens
        self.assertEqual(list(find([1, 2, 3, 1, 2, 3, 1, 2, 3], 3, 2)), [1, 2])
        self.assertEqual(list(find([1, 2, 3, 4, 5, 6, 7, 8, 9], 3, 2)), [])

    def test_a_llama_is_opened_again_from_a_pickle(self):
        with open_llama_closed(seed=3) as llm:
            again = pickle.loads(pickle.dumps(llm))
        self.assertEqual((again.n_ctx(), again._seed), (128, 3))
        self.assertEqual(self.text(again), self.text())
        again.close()

    def test_parameters_are_honoured_or_refused(self):
        for given in (dict(rope_freq_base=10.0), dict(kv_overrides={"a": 1}), dict(type_k=3),
                      dict(yarn_orig_ctx=4), dict(type_v=6)):
            with self.subTest(given), self.assertRaisesRegex(NotImplementedError, next(iter(given))):
                open_llama(**given)
        with open_llama_closed(n_gpu_layers=-1, use_mmap=False, n_threads=2, n_batch=64, flash_attn=True,
                               type_k=llama_cpp.GGML_TYPE_Q8_0, type_v=llama_cpp.GGML_TYPE_Q8_0,
                               rope_freq_base=10000.0, rope_freq_scale=1.0, numa=False,
                               n_threads_batch=1) as llm:
            self.assertEqual(llm._llm.plan.threads, 2)
            self.assertTrue(self.text(llm))
        with self.assertRaisesRegex(ValueError, "does not exist"):
            llama_cpp.Llama("no-such-file.gguf")
        with self.assertRaisesRegex(ValueError, "Failed to load model"):
            llama_cpp.Llama(os.path.abspath(__file__))
        for given in (dict(mirostat_mode=2), dict(typical_p=0.5), dict(suffix="end")):
            with self.subTest(given), self.assertRaisesRegex(NotImplementedError, next(iter(given))):
                self.text(**given)
        with self.assertRaisesRegex(ValueError, "exceed context window of 128"):
            self.text(prompt=[5] * 128)
        with open_llama_closed(n_ctx=0) as llm:
            self.assertEqual(llm.n_ctx(), 256)  # the model's
        with open_llama_closed(vocab_only=True) as llm:
            self.assertEqual(llm.detokenize(llm.tokenize(b"Moses")), b"Moses")
            self.assertEqual(llm.metadata["general.architecture"], "llama")
            with self.assertRaisesRegex(mnem.Error, "vocab_only"):
                llm(PROMPT)

    def test_a_suffix_fills_in_the_middle(self):
        keys = {f"tokenizer.ggml.fim_{part}_token_id": str(token)
                for token, part in enumerate(("pre", "suf", "mid"), 5)}
        for spm in False, True:
            with open_llama_closed(spm_infill=spm) as llm:
                left, right = (llm.tokenize(text, add_bos=False) for text in (b"In the", b"the earth"))
                llm.metadata = keys
                found = llm("In the", suffix="the earth", max_tokens=4)
                parts = [[5, *left], [6, *right]]
                ids = sum(parts[::-1] if spm else parts, []) + [7]
                self.assertEqual(list(llm.eval_tokens)[:len(ids)], ids)
                self.assertEqual(found["usage"]["prompt_tokens"], len(ids))

    def test_tokenizers_of_one_s_own(self):
        class Mine(llama_cpp.BaseLlamaTokenizer):
            def tokenize(self, text, add_bos=True, special=True):
                return own.tokenize(text, add_bos, special)

            def detokenize(self, tokens, prev_tokens=None, special=False):
                return own.detokenize(tokens, special=special).upper()

        own = self.llm.tokenizer()
        with open_llama_closed(tokenizer=Mine()) as llm:
            self.assertEqual(self.text(llm), self.text().upper())

        class Words:  # as a tokenizer of the package transformers
            def encode(self, text, add_special_tokens):
                return [ord(letter) for letter in text]

            def decode(self, ids, skip_special_tokens):
                return "".join(map(chr, ids))

        other = llama_cpp.LlamaHFTokenizer(Words())
        self.assertEqual(other.tokenize(b"ab"), [97, 98])
        self.assertEqual(other.detokenize([98], prev_tokens=[97]), b"b")

    def test_closed_llamas_leave_nothing(self):
        grammar = llama_cpp.LlamaGrammar.from_json_schema('{"type": "object"}')

        def live(close):
            llm = open_llama()
            stream = llm(PROMPT, max_tokens=50, stream=True, grammar=grammar)
            next(stream)
            state = llm.save_state()
            next(stream)
            llm.load_state(state)
            if close:
                llm.close()
                llm.close()
                stream.close()
            return mnem_bytes()

        def mnem_bytes():
            with mnem.LLM(MODEL, memory=ROOM, ctx=64, load=False) as llm:
                return llm.ledger.live

        before = live(True)
        things = len(os.listdir("/proc/self/fd")), threading.active_count()
        for i in range(10):
            after = live(i % 2)
            gc.collect()
        self.assertLess(abs(after - before), 1 << 20)
        self.assertEqual((len(os.listdir("/proc/self/fd")), threading.active_count()), things)


if __name__ == "__main__":
    unittest.main()
