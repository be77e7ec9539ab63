"""Chats: a conversation becomes a prompt, and a completion the message that answers it."""
import json

from . import _tools
from ._completion import complete
from ._templates import Template
from .llama_grammar import LlamaGrammar, _any_json


def plain(messages):
    """messages whose contents are texts: parts of text are joined, and any other part is refused."""
    out = []
    for message in messages:
        message = dict(message)
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            wrong = [part.get("type") for part in content if part.get("type") != "text"]
            if wrong:
                raise NotImplementedError(f"mnem.compat: a message has a part of type {wrong[0]}: mnem runs "
                                          "texts only, no images")
            message["content"] = "".join(part["text"] for part in content)
        if message.get("tool_calls"):
            message["tool_calls"] = [_object_call(call) for call in message["tool_calls"]]
        out.append(message)
    return out


def _object_call(call):
    """A call whose arguments are an object, as templates want them."""
    function = dict(call["function"])
    try:
        function["arguments"] = json.loads(function["arguments"])
    except (TypeError, ValueError):
        pass
    return {**call, "function": function}


def _grammar_of(given, grammar):
    """The grammar that a response_format asks for, or the given one."""
    kind = (given or {}).get("type", "text")
    if kind == "text":
        return grammar
    if kind == "json_object":
        schema = given.get("schema")
    elif kind == "json_schema":
        schema = given["json_schema"]["schema"]
    else:
        raise ValueError(f"mnem.compat: response_format has the type {kind!r}, expected text, json_object or "
                         "json_schema")
    return _any_json() if schema is None else LlamaGrammar.from_json_schema(json.dumps(schema))


class Chat:
    """A chat format. source: a Jinja template; stops: texts that end an answer beside the model's own;
    end: a token that does. adds_bos: the template writes none."""

    def __init__(self, llama, name, source, stops=(), adds_bos=True, end=-1):
        self.end = end
        self.name, self.stops, self.adds_bos = name, list(stops), adds_bos
        self.template = llama._steps.call(lambda job: Template(source))
        self.knows_tools = "tools" in source

    def close(self):
        self.template.close()

    def prompt(self, llama, messages, tools):
        if tools and not self.knows_tools:
            messages = _tools.told(messages, tools)
        steps = llama._steps
        ids = steps.call(lambda job: self.template.encode(steps.engine.tokenizer, messages, tools))
        if self.adds_bos and llama._add_bos and ids[:1] != [llama.token_bos()]:
            ids.insert(0, llama.token_bos())
        return ids

    def __call__(self, *, llama, messages, functions=None, function_call=None, tools=None,
                 tool_choice=None, **given):
        tools, choice = _tools.asked(functions, function_call, tools, tool_choice)
        ids = self.prompt(llama, plain(messages), tools)
        return answer(llama, ids, tools, choice, self.stops, None, self.end, **given)


def answer(llama, ids, tools, choice, stops, criteria, end=-1, *, temperature=0.2, top_p=0.95, top_k=40,
           min_p=0.05, typical_p=1.0, stream=False, stop=(), seed=None, response_format=None,
           max_tokens=None, presence_penalty=0.0, frequency_penalty=0.0, repeat_penalty=1.0, tfs_z=1.0,
           mirostat_mode=0, mirostat_tau=5.0, mirostat_eta=0.1, model=None, logits_processor=None,
           grammar=None, logit_bias=None, logprobs=None, top_logprobs=None, **_others):
    """The answer to a prompt's ids as a dict, or as an iterator of chunks."""
    grammar = _grammar_of(response_format, grammar)
    forced = choice if isinstance(choice, dict) else None
    show = ()
    if forced:
        ids = ids + llama.tokenize(_tools.begin(forced).encode(), add_bos=False, special=True)
        schema = forced["function"].get("parameters") or {"type": "object"}
        grammar = LlamaGrammar.from_json_schema(json.dumps(schema))
    elif tools:
        show = [one for one in (llama.tokenize(mark.encode(), add_bos=False, special=True)
                                for mark in _tools.MARKS) if len(one) == 1]
        show = {one[0] for one in show}
        if choice == "required":
            grammar = LlamaGrammar._of_calls(tools)
    stop = [stop] if isinstance(stop, str) else list(stop or ())
    sampling = dict(temp=temperature, top_p=top_p, min_p=min_p, typical_p=typical_p, top_k=top_k,
                    frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
                    repeat_penalty=repeat_penalty, mirostat_mode=mirostat_mode)
    chunks = complete(llama, ids, None, max_tokens, sampling, (top_logprobs or 0) if logprobs else None,
                      False, stop + stops, stream, seed, model or llama.model_path, criteria,
                      logits_processor, grammar, logit_bias, show, end)
    if stream:
        return _Stream(tools, forced).chunks(chunks)
    return _whole(next(chunks), tools, forced)


# ---- shapes ----

def _logprobs(given):
    if given is None:
        return None
    rows = zip(given["tokens"], given["token_logprobs"], given["top_logprobs"])
    return {"content": [
        {"token": token, "bytes": list(token.encode()), "logprob": value,
         "top_logprobs": [{"token": other, "bytes": list(other.encode()), "logprob": chance}
                          for other, chance in (top or {}).items()]}
        for token, value, top in rows], "refusal": None}


def _head(completion, kind):
    return {"id": "chat" + completion["id"], "object": kind, "created": completion["created"],
            "model": completion["model"]}


def _tool_call(i, name, arguments, completion):
    return {"id": f"call__{i}_{name}_{completion['id']}", "type": "function",
            "function": {"name": name, "arguments": arguments}}


def _whole(completion, tools, forced):
    choice = completion["choices"][0]
    content, calls = choice["text"], []
    if forced:
        content, calls = None, [(forced["function"]["name"], choice["text"])]
    elif tools:
        content, calls = _tools.calls_of(choice["text"], tools)
    message = {"role": "assistant", "content": content}
    finish = choice["finish_reason"]
    if calls:
        message["tool_calls"] = [_tool_call(i, *call, completion) for i, call in enumerate(calls)]
        if len(calls) == 1:  # the older name
            message["function_call"] = dict(message["tool_calls"][0]["function"])
        finish = "tool_calls" if finish == "stop" else finish
    return {**_head(completion, "chat.completion"),
            "choices": [{"index": 0, "message": message, "logprobs": _logprobs(choice["logprobs"]),
                         "finish_reason": finish}],
            "usage": completion["usage"]}


class _Stream:
    """Chunks of a chat of those of a completion: text at once, calls when they are whole; the arguments
    of a tool that must be called at once."""

    def __init__(self, tools, forced):
        self.tools, self.forced = tools, forced
        self.text = ""  # that may belong to a call
        self.called = False

    def chunk(self, of, delta, logprobs=None, finish=None):
        return {**_head(of, "chat.completion.chunk"),
                "choices": [{"index": 0, "delta": delta, "logprobs": _logprobs(logprobs),
                             "finish_reason": finish}]}

    def delta_call(self, of, i, name, arguments):
        self.called = True
        call = _tool_call(i, name, arguments, of)
        out = {"role": None, "content": None, "tool_calls": [{"index": i, **call}]}
        if not i:
            out["function_call"] = dict(call["function"])
        return out

    def chunks(self, completion):
        first = True
        for of in completion:
            choice = of["choices"][0]
            if first:
                yield self.chunk(of, {"role": "assistant"})
                first = False
            if choice["finish_reason"] is None:
                yield from self.some(of, choice)
                continue
            yield from self.rest(of)
            finish = choice["finish_reason"]
            yield self.chunk(of, {}, finish="tool_calls" if self.called and finish == "stop" else finish)

    def some(self, of, choice):
        text = choice["text"]
        if self.forced:
            delta = self.delta_call(of, 0, self.forced["function"]["name"], text)
            yield self.chunk(of, delta, choice["logprobs"])
            return
        if self.tools:
            self.text += text
            sure = _tools.may_call(self.text)
            text, self.text = self.text[:sure], self.text[sure:]
        if text or choice["logprobs"]:
            yield self.chunk(of, {"content": text}, choice["logprobs"])

    def rest(self, of):
        if not self.text:
            return
        content, calls = _tools.calls_of(self.text, self.tools)
        if content:
            yield self.chunk(of, {"content": content})
        for i, call in enumerate(calls):
            yield self.chunk(of, self.delta_call(of, i, *call))
