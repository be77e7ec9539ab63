"""Llama: the class of llama-cpp-python over mnem.LLM."""
import logging
import math
import os
import random
from collections import deque

from .. import _declarations as D
from .._library import Error, OverBudget
from .._llm import LLM
from . import llama_cpp as names
from ._completion import complete
from ._sampling import (LogitsProcessorList, MinTokensLogitsProcessor, StoppingCriteriaList, ids_array,
                        logits_to_logprobs, numpy, options_of, row_array, row_back)
from ._steps import Choice, Steps
from ._vocabulary import Vocabulary
from .llama_cache import longest_token_prefix
from .llama_chat_format import chat_of, check_name
from .llama_tokenizer import LlamaTokenizer

__all__ = ["Llama", "LlamaState", "LogitsProcessorList", "MinTokensLogitsProcessor",
           "StoppingCriteriaList"]
log = logging.getLogger("mnem.compat")

# What llama.cpp asks of a machine and mnem decides itself: devices, how weights are mapped and locked,
# batches, kernels. The text that comes out is the same.
_DECIDED = {"n_gpu_layers", "split_mode", "main_gpu", "tensor_split", "use_mmap", "use_mlock", "n_ubatch",
            "n_threads_batch", "offload_kqv", "flash_attn", "op_offload", "swa_full", "no_perf", "numa",
            "draft_model", "n_parts", "f16_kv", "low_vram", "mul_mat_q", "device"}  # of earlier versions, and LangChain's
# What changes the model: refused unless it has a value that means the file's. RoPE's base of 10,000 and scale
# of 1 are defaults that LangChain passes on.
_FIXED = {"kv_overrides": (None,), "rope_scaling_type": (None, names.LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED),
          "attention_type": (None, names.LLAMA_ATTENTION_TYPE_UNSPECIFIED), "rope_freq_base": (None, 0, 10000.0),
          "rope_freq_scale": (None, 0, 1.0), "yarn_ext_factor": (None, -1.0), "yarn_attn_factor": (None, 1.0),
          "yarn_beta_fast": (None, 32.0), "yarn_beta_slow": (None, 1.0), "yarn_orig_ctx": (None, 0),
          "lora_base": (None,)}
_KV = {None: "f16", names.GGML_TYPE_F16: "f16", names.GGML_TYPE_F32: "f32", names.GGML_TYPE_Q8_0: "q8_0",
       names.GGML_TYPE_Q4_0: "q4_0"}
_POOLING = {names.LLAMA_POOLING_TYPE_MEAN: D.MNEM_POOLING_MEAN, names.LLAMA_POOLING_TYPE_CLS:
            D.MNEM_POOLING_CLS, names.LLAMA_POOLING_TYPE_LAST: D.MNEM_POOLING_LAST}


def _kv_of(type_k, type_v):
    key, value = _KV.get(type_k), _KV.get(type_v)
    if key is None or value is None:
        raise NotImplementedError(f"mnem.compat: type_k is {type_k} and type_v is {type_v}: supported are "
                                  "F16 (1), Q8_0 (8), Q4_0 (2) and F32 (0)")
    return key if key == value else f"{key}:{value}"


class LlamaState:
    """A copy of what a Llama holds: see Llama.save_state."""

    def __init__(self, input_ids, scores, n_tokens, llama_state, llama_state_size, seed):
        self.input_ids, self.scores, self.n_tokens = input_ids, scores, n_tokens
        self.llama_state, self.llama_state_size, self.seed = llama_state, llama_state_size, seed


class Llama:
    """A model. The parameters are llama-cpp-python's, and memory: the byte budget of mnem.LLM; see
    docs/python-compat.md for what each does here. Methods belong to one thread at a time."""

    def __init__(self, model_path, *, vocab_only=False, seed=names.LLAMA_DEFAULT_SEED, n_ctx=512,
                 n_batch=512, n_threads=None, pooling_type=names.LLAMA_POOLING_TYPE_UNSPECIFIED,
                 logits_all=False, embedding=False, last_n_tokens_size=64, lora_scale=1.0, lora_path=None,
                 chat_format=None, chat_handler=None, tokenizer=None, type_k=None, type_v=None,
                 spm_infill=False, verbose=True, memory=None, **others):
        self._llm = self._steps = self._chat = None
        self._given = dict(
            model_path=model_path, vocab_only=vocab_only, seed=seed, n_ctx=n_ctx, n_batch=n_batch,
            n_threads=n_threads, pooling_type=pooling_type, logits_all=logits_all, embedding=embedding,
            last_n_tokens_size=last_n_tokens_size, lora_scale=lora_scale, lora_path=lora_path,
            chat_format=chat_format, chat_handler=chat_handler, tokenizer=tokenizer, type_k=type_k,
            type_v=type_v, spm_infill=spm_infill, verbose=verbose, memory=memory, **others)
        for name, value in others.items():
            if name in _FIXED and value not in _FIXED[name]:
                raise NotImplementedError(f"mnem.compat: {name}={value!r} is not supported: mnem runs a "
                                          "model as its file says")
            if name not in _FIXED and name not in _DECIDED:
                log.warning("Llama: parameter %r is not known, and ignored", name)
        if pooling_type == names.LLAMA_POOLING_TYPE_RANK:
            raise NotImplementedError("mnem.compat: models that rank (LLAMA_POOLING_TYPE_RANK) are not "
                                      "supported")
        if not os.path.exists(model_path):
            raise ValueError(f"Model path does not exist: {model_path}")
        self.model_path, self.verbose, self.cache = os.fspath(model_path), verbose, None
        self.chat_handler, self.last_n_tokens_size = chat_handler, last_n_tokens_size
        self.lora_path, self.lora_scale = lora_path, lora_scale
        self._seed = names.LLAMA_DEFAULT_SEED if seed is None else seed
        self._logits_all, self._embedding, self._pooling = logits_all, embedding, pooling_type
        self._spm_infill = spm_infill  # the suffix stands before the prefix
        self._rows = []  # of logits_all: a row for each token that is held
        self._open(memory, n_ctx, _kv_of(type_k, type_v), n_threads or 0, vocab_only)
        try:
            self.metadata = self._llm.metadata
            self.n_batch = min(self.n_ctx(), n_batch)
            self.tokenizer_ = tokenizer or LlamaTokenizer(self)
            self.chat_format = chat_format
            if not chat_handler:
                self._chat = chat_of(self, chat_format)
                self.chat_format = self._chat.name
        except BaseException:
            self.close()
            raise

    def _open(self, memory, n_ctx, kv, threads, vocab_only):
        try:
            self._llm = Vocabulary(self.model_path, n_ctx) if vocab_only else self._open_llm(
                memory, n_ctx, kv, threads)
        except OverBudget:
            raise
        except Error as failure:  # as llama-cpp-python names it
            raise ValueError(f"Failed to load model from file: {self.model_path}: {failure}") from failure
        steps = self._steps = Steps(self._llm)
        info = steps.info()
        steps.bos, self._eos, self._add_bos = info.bos, info.eos, info.add_bos

    def _open_llm(self, memory, n_ctx, kv, threads):
        if n_ctx == 0:  # the model's
            with LLM(self.model_path, memory=memory, load=False) as llm:
                n_ctx = Steps(llm).about().context
        more = {"lora": (self.lora_path, self.lora_scale)} if self.lora_path else {}
        llm = LLM(self.model_path, memory=memory, ctx=n_ctx, kv=kv, threads=threads, **more)
        log.info("%s: %r", self.model_path, llm.plan)
        return llm

    # ---- tokens ----

    def tokenize(self, text, add_bos=True, special=False):
        """Ids of bytes. add_bos: with what the file asks for before a text; special: texts of control
        tokens become these tokens."""
        return self.tokenizer_.tokenize(text, add_bos, special)

    def detokenize(self, tokens, prev_tokens=None, special=False):
        return self.tokenizer_.detokenize(tokens, prev_tokens=prev_tokens, special=special)

    def _piece(self, token, before=(), special=False):
        """A token's bytes."""
        if type(self.tokenizer_) is LlamaTokenizer:
            return self._steps.piece(token, special)
        return self.detokenize([token], prev_tokens=list(before), special=special)

    def tokenizer(self):
        return LlamaTokenizer(self)

    def n_ctx(self):
        return self._llm.plan.context

    def n_embd(self):
        return self._steps.width()

    def n_vocab(self):
        return self._steps.vocab

    def token_bos(self):
        return self._steps.bos

    def token_eos(self):
        return self._eos

    def token_nl(self):
        ids = self._steps.call(lambda job: self._steps.encode(b"\n", False, False))
        return ids[-1] if ids else -1

    def pooling_type(self):
        if self._pooling != names.LLAMA_POOLING_TYPE_UNSPECIFIED:
            return self._pooling
        return self._steps.about().pooling  # the same numbers

    # ---- step by step ----

    @property
    def n_tokens(self):
        """How many tokens are held."""
        return len(self._steps.ids)

    @n_tokens.setter
    def n_tokens(self, n):
        self._truncate(n)

    def _truncate(self, n):
        self._steps.call(lambda job: self._steps.truncate(n))
        del self._rows[self.n_tokens:]

    @property
    def input_ids(self):
        return ids_array(self._steps.ids, self.n_ctx())

    @property
    def _input_ids(self):
        return ids_array(self._steps.ids)

    @property
    def eval_tokens(self):
        return deque(self._steps.ids, maxlen=self.n_ctx())

    @property
    def scores(self):
        """A row of logits for each token that is held: zeros but for the last, without logits_all."""
        rows = list(self._rows)
        if not self._logits_all and self._steps.live:
            if numpy:
                out = numpy.zeros((self.n_tokens, self.n_vocab()), dtype=numpy.single)
                out[-1] = row_array(self._steps.logits)
                return out
            rows = [[0.0] * self.n_vocab()] * (self.n_tokens - 1) + [row_array(self._steps.logits)]
        return numpy.array(rows, dtype=numpy.single).reshape(-1, self.n_vocab()) if numpy else rows

    _scores = scores

    @property
    def eval_logits(self):
        if self._logits_all:
            return deque((list(row) for row in self._rows), maxlen=self.n_ctx())
        return deque([list(row_array(self._steps.logits))] if self._steps.live else [], maxlen=1)

    def _keep_row(self, _position, logits):
        self._rows.append(row_array(logits))

    def _run(self, job, tokens):
        self._steps.run(job, tokens, self._keep_row if self._logits_all else None)

    def eval(self, tokens):
        """Appends tokens to those that are held."""
        tokens = [int(token) for token in tokens]
        self._steps.call(lambda job: self._run(job, tokens))

    def reset(self):
        """Holds nothing."""
        self._truncate(0)

    def set_cache(self, cache):
        self.cache = cache

    def set_seed(self, seed):
        self._seed = seed

    def _options(self, bias=None, **given):
        last = self.n_ctx() if self.last_n_tokens_size < 0 else self.last_n_tokens_size
        seed = self._seed if self._seed != names.LLAMA_DEFAULT_SEED else random.getrandbits(64)
        return options_of(seed, last, self.n_vocab(), bias, **given)

    def _changed(self, logits, processor):
        """ctypes logits as a processor leaves them."""
        return logits if processor is None else row_back(
            processor(self._input_ids, row_array(logits)), self.n_vocab())

    def sample(self, top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, temp=0.80, repeat_penalty=1.0,
               frequency_penalty=0.0, presence_penalty=0.0, tfs_z=1.0, mirostat_mode=0, mirostat_eta=0.1,
               mirostat_tau=5.0, penalize_nl=True, logits_processor=None, grammar=None, idx=None):
        """A token that follows those that are held, or, with logits_all, those up to idx."""
        if not self.n_tokens:
            raise RuntimeError("mnem.compat: no token is held: call eval before sample")
        options = self._options(top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p, temp=temp,
                                repeat_penalty=repeat_penalty, frequency_penalty=frequency_penalty,
                                presence_penalty=presence_penalty, mirostat_mode=mirostat_mode)
        steps = self._steps
        if idx is None or idx == self.n_tokens - 1:
            steps.call(steps.refresh)
            logits = steps.logits
        elif self._logits_all and 0 <= idx < self.n_tokens:
            logits = row_back(self._rows[idx], self.n_vocab())
        else:
            raise ValueError(f"mnem.compat: idx is {idx}, but only the logits of the last token are kept: "
                             "use logits_all=True")
        logits = self._changed(logits, logits_processor)

        def choose(_job):
            choice = Choice(steps, options, grammar)
            try:
                choice.open()
                return choice.choose(logits)
            finally:
                choice.end()

        token = steps.call(choose)
        return self._eos if token is None else token

    def generate(self, tokens, top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, temp=0.80,
                 repeat_penalty=1.0, reset=True, frequency_penalty=0.0, presence_penalty=0.0, tfs_z=1.0,
                 mirostat_mode=0, mirostat_tau=5.0, mirostat_eta=0.1, penalize_nl=True,
                 logits_processor=None, stopping_criteria=None, grammar=None):
        """Yields tokens after those of a prompt, without end. reset: what the prompt has in common with
        the tokens that are held isn't computed again; otherwise the prompt is appended to them."""
        options = self._options(top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p, temp=temp,
                                repeat_penalty=repeat_penalty, frequency_penalty=frequency_penalty,
                                presence_penalty=presence_penalty, mirostat_mode=mirostat_mode)
        return self._tokens(tokens, options, reset, logits_processor, stopping_criteria, grammar)

    def _reuse(self, tokens):
        """Cuts what is held to what tokens begin with, and gives the rest, at least one token unless the
        logits are there."""
        held = self._steps.ids
        common = longest_token_prefix(held, tokens)
        if common == len(tokens) == len(held) and self._steps.live:
            return []
        if min(common, len(tokens) - 1) > 0:
            self._truncate(min(common, len(tokens) - 1))
        else:
            self.reset()
        return tokens[self.n_tokens:]

    def _tokens(self, tokens, options, reset=True, processor=None, criteria=None, grammar=None,
                end=-1):
        """generate, of a mnem_sampler_options. end: see Choice."""
        steps = self._steps
        tokens = [int(token) for token in tokens]
        tokens = self._reuse(tokens) if reset else tokens
        choice = Choice(steps, options, grammar, end)

        def advance(job):
            self._run(job, tokens)
            return choice.choose(steps.logits)

        try:
            steps.call(lambda job: choice.open())
            while True:
                if processor is None and criteria is None:
                    token = steps.call(advance)
                else:
                    steps.call(lambda job: self._run(job, tokens))
                    logits = self._changed(steps.logits, processor)
                    token = steps.call(lambda job: choice.choose(logits))
                if token is None:  # the grammar allows no more
                    token = self._eos
                if criteria is not None and criteria(self._input_ids, row_array(steps.logits)):
                    return
                more = yield token
                tokens = [token] + [int(one) for one in more or ()]
        finally:
            steps.end(choice)

    # ---- texts ----

    def create_completion(self, prompt, suffix=None, max_tokens=16, temperature=0.8, top_p=0.95,
                          min_p=0.05, typical_p=1.0, logprobs=None, echo=False, stop=(),
                          frequency_penalty=0.0, presence_penalty=0.0, repeat_penalty=1.0, top_k=40,
                          stream=False, seed=None, tfs_z=1.0, mirostat_mode=0, mirostat_tau=5.0,
                          mirostat_eta=0.1, model=None, stopping_criteria=None, logits_processor=None,
                          grammar=None, logit_bias=None):
        """A text that continues a prompt (a str, or ids): a dict of OpenAI's shape; stream: an iterator
        of them. max_tokens None or 0: up to the end of the context."""
        sampling = dict(temp=temperature, top_p=top_p, min_p=min_p, typical_p=typical_p, top_k=top_k,
                        frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
                        repeat_penalty=repeat_penalty, mirostat_mode=mirostat_mode)
        chunks = complete(self, prompt, suffix, max_tokens, sampling, logprobs, echo, stop, stream, seed,
                          model or self.model_path, stopping_criteria, logits_processor, grammar, logit_bias)
        return chunks if stream else next(chunks)

    def __call__(self, *given, **named):
        return self.create_completion(*given, **named)

    def create_chat_completion(self, messages, functions=None, function_call=None, tools=None,
                               tool_choice=None, temperature=0.2, top_p=0.95, top_k=40, min_p=0.05,
                               typical_p=1.0, stream=False, stop=(), seed=None, response_format=None,
                               max_tokens=None, presence_penalty=0.0, frequency_penalty=0.0,
                               repeat_penalty=1.0, tfs_z=1.0, mirostat_mode=0, mirostat_tau=5.0,
                               mirostat_eta=0.1, model=None, logits_processor=None, grammar=None,
                               logit_bias=None, logprobs=None, top_logprobs=None):
        """The answer to a conversation: a dict of OpenAI's shape; stream: an iterator of chunks."""
        given = dict(
            messages=messages, functions=functions, function_call=function_call, tools=tools,
            tool_choice=tool_choice, temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p,
            typical_p=typical_p, stream=stream, stop=stop, seed=seed, response_format=response_format,
            max_tokens=max_tokens, presence_penalty=presence_penalty, frequency_penalty=frequency_penalty,
            repeat_penalty=repeat_penalty, tfs_z=tfs_z, mirostat_mode=mirostat_mode,
            mirostat_tau=mirostat_tau, mirostat_eta=mirostat_eta, model=model,
            logits_processor=logits_processor, grammar=grammar, logit_bias=logit_bias, logprobs=logprobs,
            top_logprobs=top_logprobs)
        return self._handler()(llama=self, **given)

    def _handler(self):
        """Of a chat, by what chat_handler and chat_format are now: programs change them."""
        if self.chat_handler:
            return self.chat_handler
        if not self._chat or self._chat.name != self.chat_format:
            self._chat = chat_of(self, self.chat_format)
            self.chat_format = self._chat.name
        return self._chat

    def create_chat_completion_openai_v1(self, *args, **kwargs):
        """create_chat_completion as objects of the package openai."""
        try:
            from openai.types.chat import ChatCompletion, ChatCompletionChunk
        except ImportError:
            raise ImportError("mnem.compat: create_chat_completion_openai_v1 needs the package openai: "
                              "pip install openai") from None
        answer = self.create_chat_completion(*args, **kwargs)
        if kwargs.get("stream"):
            return (ChatCompletionChunk(**chunk) for chunk in answer)
        return ChatCompletion(**answer)

    # ---- embeddings ----

    def create_embedding(self, input, model=None):
        texts = input if isinstance(input, list) else [input]
        found, count = self.embed(texts, return_count=True)
        return {"object": "list",
                "data": [{"object": "embedding", "embedding": one, "index": i}
                         for i, one in enumerate(found)],
                "model": model or self.model_path,
                "usage": {"prompt_tokens": count, "total_tokens": count}}

    def embed(self, input, normalize=False, truncate=True, return_count=False):
        """The embedding of a text, or a list of them: with pooling a list of floats, otherwise one for
        each token."""
        if not self._embedding:
            raise RuntimeError("mnem.compat: embed needs Llama(..., embedding=True)")
        lists = [self.tokenize(text.encode()) for text in ([input] if isinstance(input, str) else input)]
        for i, ids in enumerate(lists):
            if len(ids) > self.n_batch and not truncate:
                raise ValueError(f"Requested tokens ({len(ids)}) exceed batch size of {self.n_batch}")
            lists[i] = ids[:self.n_batch]
        found = self._embeddings(lists, normalize)
        self._rows.clear()
        out = found[0] if isinstance(input, str) else found
        return (out, sum(map(len, lists))) if return_count else out

    def _embeddings(self, lists, normalize):
        steps, pooling = self._steps, self.pooling_type()
        scaled = _scaled if normalize else lambda row: row
        if pooling != names.LLAMA_POOLING_TYPE_NONE:
            rows = steps.call(lambda job: steps.embed(lists, _POOLING[pooling]))
            return [scaled(row) for row in rows]
        if steps.about().encoder:
            raise NotImplementedError("mnem.compat: an encoder's embeddings of single tokens are not "
                                      "supported: use pooling_type=LLAMA_POOLING_TYPE_MEAN")
        # A causal model's embedding of a token is that of the text up to it.
        return [[scaled(row) for row in steps.call(lambda job: steps.embed(
            [ids[:n + 1] for n in range(len(ids))], D.MNEM_POOLING_LAST))] for ids in lists]

    # ---- states, and the end ----

    def save_state(self):
        """A copy of the tokens that are held, with their keys and values."""
        data = self._steps.call(lambda job: self._steps.save())
        return LlamaState(self.input_ids, self.scores if self._logits_all else None, self.n_tokens, data,
                          len(data), self._seed)

    def load_state(self, state):
        ids = [int(token) for token in state.input_ids[:state.n_tokens]]
        self._steps.call(lambda job: self._steps.restore(ids, state.llama_state))
        self._rows = list(state.scores) if self._logits_all and state.scores is not None else []
        self._seed = state.seed

    def __getattr__(self, name):
        if name in ("ctx", "model", "_ctx", "_model", "_batch", "model_params", "context_params"):
            raise AttributeError(f"mnem.compat: Llama has no {name}: it belongs to llama.cpp's C API, which "
                                 "mnem does not have")
        raise AttributeError(f"'Llama' object has no attribute {name!r}")

    def __getstate__(self):
        return self._given

    def __setstate__(self, given):
        self.__init__(**given)

    def close(self):
        """Gives back what it took; calling it again does nothing."""
        llm, steps, self._steps, self._llm = self._llm, self._steps, None, None
        chat = self._chat

        def last(_job):
            if chat:
                chat.close()
            steps.close()
            llm._engine.close()

        if llm:
            llm._worker.end(last) if steps else llm.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter is ending
            pass

    logits_to_logprobs = staticmethod(logits_to_logprobs)
    longest_token_prefix = staticmethod(longest_token_prefix)

    @classmethod
    def from_pretrained(cls, repo_id, filename, additional_files=None, local_dir=None,
                        local_dir_use_symlinks="auto", cache_dir=None, **kwargs):
        """A model of the Hugging Face Hub: the one file of repo_id whose name fits filename."""
        from ._hub import fetch
        check_name(kwargs.get("chat_format"))
        return cls(model_path=fetch(repo_id, filename, additional_files or [], local_dir, cache_dir),
                   **kwargs)


def _scaled(row):
    length = math.sqrt(math.fsum(x * x for x in row))
    return [x / length for x in row] if length else row
