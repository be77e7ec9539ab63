"""mnem.compat: what the README of llama-cpp-python shows, with the import as the only change."""
import json
import sys
import types
import unittest

import mnem.compat as llama_cpp
from compat_shapes import MODEL, PROMPT, Shapes, open_llama, open_llama_closed, without
from mnem.compat import llama_chat_format, llama_speculative

TOOLS = [{"type": "function", "function": {"name": "UserDetail", "parameters": {
    "type": "object", "title": "UserDetail", "required": ["name", "age"],
    "properties": {"name": {"title": "Name", "type": "string", "maxLength": 8},
                   "age": {"title": "Age", "type": "integer", "minimum": 0, "maximum": 150}}}}}]


class Readme(Shapes):
    def test_basic_completion(self):
        llm = llama_cpp.Llama(model_path=MODEL)
        output = llm("Q: Name the planets in the solar system? A: ", max_tokens=32, stop=["Q:", "\n"],
                     echo=True)
        choice = self.check_completion(output)
        self.assertTrue(choice["text"].startswith("Q: Name the planets"))
        self.assertNotIn("\n", choice["text"])
        self.assertEqual(output["model"], MODEL)
        self.assertEqual(llm.n_ctx(), 512)
        llm.close()

    def test_chat_with_a_format(self):
        llm = llama_cpp.Llama(model_path=MODEL, chat_format="llama-2")
        found = llm.create_chat_completion(
            messages=[{"role": "system", "content": "You answer in one word."},
                      {"role": "user", "content": "Who was Moses?"}], max_tokens=8)
        choice = self.check_completion(found, chat=True)
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIsInstance(choice["message"]["content"], str)

    def test_json_mode_and_schema_mode(self):
        llm = llama_cpp.Llama(model_path=MODEL, chat_format="chatml", n_ctx=256)
        said = [{"role": "system", "content": "You are a helpful assistant that outputs in JSON."},
                {"role": "user", "content": "Who won the world series in 2020"}]
        schema = {"type": "object", "properties": {"team_name": {"type": "string", "maxLength": 8}},
                  "required": ["team_name"]}
        for form in ({"type": "json_object", "schema": schema},
                     {"type": "json_schema", "json_schema": {"name": "team", "schema": schema}}):
            found = llm.create_chat_completion(messages=said, response_format=form, temperature=0.7, seed=1)
            text = self.check_completion(found, chat=True)["message"]["content"]
            self.assertEqual(list(json.loads(text)), ["team_name"])
        found = llm.create_chat_completion(messages=said, response_format={"type": "json_object"}, seed=1,
                                           temperature=0.7, max_tokens=40)
        self.assertEqual(found["choices"][0]["message"]["content"].lstrip()[:1], "{")

    def test_function_calling(self):
        llm = llama_cpp.Llama(model_path=MODEL, chat_format="chatml-function-calling", n_ctx=512)
        found = llm.create_chat_completion(
            messages=[{"role": "user", "content": "Extract Jason is 25 years old"}], tools=TOOLS,
            tool_choice={"type": "function", "function": {"name": "UserDetail"}}, seed=1)
        choice = self.check_completion(found, chat=True)
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertIsNone(choice["message"]["content"])
        call, = choice["message"]["tool_calls"]
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "UserDetail"))
        self.assertEqual(sorted(json.loads(call["function"]["arguments"])), ["age", "name"])
        self.assertEqual(choice["message"]["function_call"], call["function"])

    def test_embeddings(self):
        llm = llama_cpp.Llama(model_path=MODEL, embedding=True)
        one = llm.create_embedding("Hello, world!")
        self.assertEqual(sorted(one), ["data", "model", "object", "usage"])
        self.assertEqual(one["usage"]["prompt_tokens"], len(one["data"][0]["embedding"]))  # one each
        two = llm.create_embedding(["Hello, world!", "Goodbye, world!"])
        self.assertEqual([item["index"] for item in two["data"]], [0, 1])
        self.assertEqual(two["data"][0]["embedding"], one["data"][0]["embedding"])
        self.assertEqual(len(one["data"][0]["embedding"][0]), llm.n_embd())

    def test_prompt_lookup_and_a_longer_context(self):
        llm = llama_cpp.Llama(model_path=MODEL, n_ctx=2048,
                              draft_model=llama_speculative.LlamaPromptLookupDecoding(num_pred_tokens=10))
        self.assertEqual(llm.n_ctx(), 2048)
        self.check_completion(llm(PROMPT, max_tokens=4))

    def test_what_is_refused_says_so(self):
        with self.assertRaisesRegex(NotImplementedError, "no images"):
            llama_chat_format.Llava15ChatHandler(clip_model_path="mmproj.bin")
        with self.assertRaisesRegex(NotImplementedError, "no images"):
            llama_chat_format.MoondreamChatHandler.from_pretrained(repo_id="a/b", filename="*mmproj*")
        with self.assertRaisesRegex(AttributeError, "C API"):
            llama_cpp.llama_backend_init()
        with open_llama_closed() as llm, self.assertRaisesRegex(AttributeError, "C API"):
            llm.ctx
        with self.assertRaisesRegex(NotImplementedError, "functionary"):
            open_llama(chat_format="functionary-v2")
        with open_llama_closed() as llm, self.assertRaisesRegex(NotImplementedError, "images"):
            llm.create_chat_completion([{"role": "user", "content": [
                {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": "data:"}]}])

    def test_other_packages_find_it_as_llama_cpp(self):
        with without("llama_cpp", llama_cpp):
            llama_cpp.install_as_llama_cpp()
            from llama_cpp import Llama
            from llama_cpp.llama_chat_format import Jinja2ChatFormatter
            self.assertIs(Llama, llama_cpp.Llama)
            self.assertIs(Jinja2ChatFormatter, llama_chat_format.Jinja2ChatFormatter)
        for name in [name for name in sys.modules if name.startswith("llama_cpp.")]:
            del sys.modules[name]
        with without("llama_cpp", types.ModuleType("llama_cpp")), self.assertRaises(ImportError):
            llama_cpp.install_as_llama_cpp()

    def test_from_pretrained_needs_the_hub(self):
        with without("huggingface_hub"), self.assertRaisesRegex(ImportError, "huggingface_hub"):
            llama_cpp.Llama.from_pretrained(repo_id="a/b", filename="*Q8_0.gguf", verbose=False)
        hub = types.ModuleType("huggingface_hub")
        hub.HfApi = lambda: types.SimpleNamespace(list_repo_files=lambda repo: ["README.md", "x-q8_0.gguf"])
        hub.hf_hub_download = lambda repo_id, filename, local_dir, cache_dir: MODEL
        with without("huggingface_hub", hub):
            with self.assertRaisesRegex(NotImplementedError, "functionary"):
                llama_cpp.Llama.from_pretrained("a/b", "*q8_0.gguf", chat_format="functionary-v2")
            with self.assertRaisesRegex(ValueError, "0 files of a/b fit"):
                llama_cpp.Llama.from_pretrained("a/b", "*f16.gguf")
            llm = llama_cpp.Llama.from_pretrained("a/b", "*q8_0.gguf", n_ctx=64, verbose=False)
        self.assertEqual(llm.model_path, MODEL)


class Tools(Shapes):
    @classmethod
    def setUpClass(cls):
        cls.llm = open_llama(n_ctx=512, chat_format="chatml")
        cls.said = [{"role": "user", "content": "Jason is 25"}]

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def answer_of(self, text, **given):
        """An answer that a grammar makes certain."""
        grammar = llama_cpp.LlamaGrammar.from_string("root ::= " + json.dumps(text))
        return self.llm.create_chat_completion(self.said, tools=TOOLS, grammar=grammar, **given)

    def test_calls_are_found_in_an_answer(self):
        call = '{"name": "UserDetail", "arguments": {"name": "Jason", "age": 25}}'
        for text, content in ((f"<tool_call>\n{call}\n</tool_call>", None), (call, None),
                              (f"I look it up. <tool_call>{call}</tool_call>", "I look it up."),
                              (f"[TOOL_CALLS][{call}]", None),
                              (call.replace("arguments", "parameters"), None)):
            choice = self.check_completion(self.answer_of(text), chat=True)
            with self.subTest(text):
                self.assertEqual(choice["finish_reason"], "tool_calls")
                self.assertEqual(choice["message"]["content"], content)
                found, = choice["message"]["tool_calls"]
                self.assertEqual(json.loads(found["function"]["arguments"]), {"name": "Jason", "age": 25})
                chunks = [chunk["choices"][0] for chunk in self.answer_of(text, stream=True)]
                deltas = [chunk["delta"] for chunk in chunks]
                self.assertEqual("".join(delta.get("content") or "" for delta in deltas).strip(), content or "")
                streamed, = [one for delta in deltas for one in delta.get("tool_calls", [])]
                self.assertEqual(streamed["function"], found["function"])
                self.assertEqual(chunks[-1]["finish_reason"], "tool_calls")

    def test_other_answers_are_texts(self):
        for text in ("It is so.", '{"name": "Other", "arguments": {}}', "a < b <tool", "{ x"):
            with self.subTest(text):
                choice = self.check_completion(self.answer_of(text), chat=True)
                self.assertEqual(choice["message"], {"role": "assistant", "content": text})
                chunks = list(self.answer_of(text, stream=True))
                self.assertEqual("".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks),
                                 text)

    def test_a_call_that_is_required(self):
        found = self.llm.create_chat_completion(self.said, tools=TOOLS, tool_choice="required", seed=1,
                                                max_tokens=160, temperature=0)
        message = self.check_completion(found, chat=True)["message"]
        for call in message["tool_calls"]:
            self.assertEqual(sorted(json.loads(call["function"]["arguments"])), ["age", "name"])

    def test_a_named_call_is_streamed(self):
        given = dict(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "UserDetail"}}, seed=1)
        whole = self.llm.create_chat_completion(self.said, **given)["choices"][0]["message"]
        chunks = list(self.llm.create_chat_completion(self.said, stream=True, **given))
        pieces = [one["function"]["arguments"] for chunk in chunks
                  for one in chunk["choices"][0]["delta"].get("tool_calls") or []]
        self.assertEqual("".join(pieces), whole["tool_calls"][0]["function"]["arguments"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "tool_calls")

    def test_older_names_and_none(self):
        functions = [TOOLS[0]["function"]]
        found = self.llm.create_chat_completion(self.said, functions=functions, seed=1,
                                                function_call={"name": "UserDetail"})
        self.assertEqual(found["choices"][0]["message"]["function_call"]["name"], "UserDetail")
        named = self.llm.create_chat_completion(self.said, tools=TOOLS, tool_choice="UserDetail", seed=1)
        self.assertEqual(named["choices"][0]["message"], {**found["choices"][0]["message"], "tool_calls":
                                                          named["choices"][0]["message"]["tool_calls"]})
        with self.assertRaisesRegex(ValueError, "not found in tools"):
            self.llm.create_chat_completion(self.said, functions=functions, function_call={"name": "X"})
        found = self.llm.create_chat_completion(self.said, tools=TOOLS, tool_choice="none", max_tokens=4)
        self.assertNotIn("tool_calls", found["choices"][0]["message"])

    def test_a_conversation_with_calls_is_a_prompt(self):
        said = self.said + [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function",
                 "function": {"name": "UserDetail", "arguments": '{"name": "Jason", "age": 25}'}}]},
            {"role": "tool", "tool_call_id": "1", "content": "saved"}]
        found = self.llm.create_chat_completion(said, tools=TOOLS, max_tokens=4)
        self.check_completion(found, chat=True)


if __name__ == "__main__":
    unittest.main()
