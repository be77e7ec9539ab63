"""Chat formats by name, formats of one's own, and those of models with images, which are refused."""
from dataclasses import dataclass
from typing import Any, Optional

from .._library import lib
from . import _tools
from ._chat import Chat, answer, plain
from ._templates import Template

_IM = "<|im_start|>{0}\n{{}}<|im_end|>\n"
_HEADER = "<|start_header_id|>{0}<|end_header_id|>\n\n{{}}<|eot_id|>"

# name: (before the first message, a system's, a user's, an assistant's, before an answer, texts that end an
# answer beside the model's own); {}: the content
_TURNS = {
    "alpaca": ("", "{}\n\n", "### Instruction:\n{}\n\n", "### Response:\n{}\n\n", "### Response:\n",
               ("### Instruction",)),
    "baichuan": ("", "{}", "<reserved_102>{}", "<reserved_103>{}", "<reserved_103>", ()),
    "baichuan-2": ("", "{}", "<reserved_106>{}", "<reserved_107>{}", "<reserved_107>", ()),
    "chatglm3": ("", "<|system|>\n {}", "<|user|>\n {}", "<|assistant|>\n {}", "<|assistant|>",
                 ("<|user|>",)),
    "chatml": ("", *(_IM.format(role) for role in ("system", "user", "assistant")),
               "<|im_start|>assistant\n", ("<|im_end|>",)),
    "llama-3": ("", *(_HEADER.format(role) for role in ("system", "user", "assistant")),
                "<|start_header_id|>assistant<|end_header_id|>\n\n", ("<|eot_id|>",)),
    "mistrallite": ("", "<|system|>{}</s>", "<|prompter|>{}</s>", "<|assistant|>{}</s>", "<|assistant|>",
                    ("</s>",)),
    "oasst_llama": ("", "[INST] <<SYS>>\n{}\n<</SYS>>\n\n", "<|prompter|>{}</s>", "<|assistant|>{}</s>",
                    "<|assistant|>", ("</s>",)),
    "openchat": ("", "{}<|end_of_turn|>", "GPT4 Correct User: {}<|end_of_turn|>",
                 "GPT4 Correct Assistant: {}<|end_of_turn|>", "GPT4 Correct Assistant:",
                 ("<|end_of_turn|>",)),
    "phind": ("", "### System Prompt\n{}\n\n", "### User Message\n{}\n\n", "### Assistant\n{}\n\n",
              "### Assistant\n", ("### User Message",)),
    "pygmalion": ("", "<|system|>{}\n", "<|user|>{}\n", "<|model|>{}\n", "<|model|>", ("\n",)),
    "redpajama-incite": ("", "{}\n", "<human>: {}\n", "<bot>: {}\n", "<bot>:", ("<human>",)),
    "saiga": ("", "<s>system\n{}</s>", "<s>user\n{}</s>", "<s>bot\n{}</s>", "<s>bot\n", ("</s>",)),
    "vicuna": ("A chat between a curious user and an artificial intelligence assistant. The assistant "
               "gives helpful, detailed, and polite answers to the user's questions. ", "{} ",
               "USER: {} ", "ASSISTANT: {}</s>", "ASSISTANT:", ("</s>", "USER:")),
    "zephyr": ("", "<|system|>\n{}</s>\n", "<|user|>\n{}</s>\n", "<|assistant|>\n{}</s>\n",
               "<|assistant|>\n", ("</s>",)),
}

# Those whose system message is part of the first user's: what is around it, a user's, an assistant's.
_INSIDE = {
    "gemma": ("{}\n\n", "<start_of_turn>user\n{}<end_of_turn>\n", "<start_of_turn>model\n{}<end_of_turn>\n",
              "<start_of_turn>model\n", ("<end_of_turn>",)),
    "llama-2": ("<<SYS>>\n{}\n<</SYS>>\n\n", "[INST] {} [/INST]", " {} </s><s>", "", ("</s>", "[INST]")),
    "mistral-instruct": ("{}\n\n", "[INST] {} [/INST]", "{}</s>", "", ("</s>", "[INST]")),
}
_LEFT_OUT = ("intel", "open-orca", "openbuddy", "snoozy")


def _text(form, content="(m.content or '')"):
    left, right = form.split("{}")
    return "{{ " + f"{left!r} + {content} + {right!r}" + " }}"


def _source(name):
    """A format's Jinja template, and the texts that end an answer."""
    if name in _INSIDE:
        system, user, assistant, ask, stops = _INSIDE[name]
        start = ("{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}"
                 "{% set ns.s = " + _text(system)[3:-3] + " %}{% elif m.role == 'user' %}"
                 + _text(user, "ns.s + (m.content or '')") + "{% set ns.s = '' %}")
    else:
        before, system, user, assistant, ask, stops = _TURNS[name]
        start = ("{{ " + repr(before) + " }}{% for m in messages %}{% if m.role == 'system' %}"
                 + _text(system) + "{% elif m.role == 'user' %}" + _text(user))
    return (start + "{% elif m.role == 'assistant' %}" + _text(assistant) + "{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}{{ " + repr(ask) + " }}{% endif %}"), stops


def _qwen():
    source, stops = _source("chatml")
    return ("{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are a helpful assistant."
            "<|im_end|>\\n' }}{% endif %}" + source, (*stops, "<|endoftext|>"))


FORMATS = {name: _source(name) for name in (*_TURNS, *_INSIDE)}
FORMATS["qwen"] = _qwen()
FORMATS["chatml-function-calling"] = FORMATS["chatml"]

_handlers = {}  # of users, by name


class LlamaChatCompletionHandlerNotFoundException(ValueError):
    pass


@dataclass
class ChatFormatterResponse:
    """A prompt; added_special: it has its BOS."""

    prompt: str
    stop: Any = None
    stopping_criteria: Optional[Any] = None
    added_special: bool = False


class _Named:
    """A handler that a user registered."""

    def __init__(self, name, handler):
        self.name, self.handler = name, handler

    def __call__(self, **given):
        return self.handler(**given)

    def close(self):
        pass


def chat_of(llama, name):
    """The handler of a format; None: the file's template, or the one that its control tokens suggest, or
    llama-2."""
    if name in _handlers:
        return _Named(name, _handlers[name])
    if name is None or name == "chat_template.default":
        source = llama.metadata.get("tokenizer.chat_template") or llama._steps.call(
            lambda job: _guessed(llama._steps.engine.tokenizer))
        if source:
            end = llama._steps.call(lambda job: llama._steps.engine.template_end)
            return Chat(llama, "chat_template.default", source, adds_bos=False, end=end)
        name = name or "llama-2"
    if name.startswith("chat_template.") and f"tokenizer.{name}" in llama.metadata:
        return Chat(llama, name, llama.metadata[f"tokenizer.{name}"], adds_bos=False)
    if name in FORMATS:
        return Chat(llama, name, *FORMATS[name])
    _refuse(name)


def _guessed(tokenizer):
    source = lib.mnem_chat_format_template(lib.mnem_tokenizer_chat_format(tokenizer))
    return source.decode() if source else None


def check_name(name):
    """Refuses a format that no file can have, before a model is fetched or opened for it."""
    if name is not None and name not in _handlers and name not in FORMATS and not name.startswith(
            "chat_template."):
        _refuse(name)


def _refuse(name):
    if name.startswith("functionary"):
        raise NotImplementedError(f"mnem.compat: chat_format {name} is not supported: models of functionary "
                                  "write calls in a form of their own; use chatml-function-calling, or a "
                                  "model whose template knows tools")
    why = "isn't built in" if name in _LEFT_OUT else "isn't known"
    raise LlamaChatCompletionHandlerNotFoundException(
        f"mnem.compat: chat_format {name} {why}: use one of {', '.join(sorted(FORMATS))}, or register your "
        "own with register_chat_format")


# ---- one's own ----

def chat_formatter_to_chat_completion_handler(chat_formatter):
    """A handler of a function of messages that gives a ChatFormatterResponse."""
    def handler(*, llama, messages, functions=None, function_call=None, tools=None, tool_choice=None,
                **given):
        of_model, choice = _tools.asked(functions, function_call, tools, tool_choice)
        made = chat_formatter(messages=messages, functions=functions, function_call=function_call,
                              tools=of_model, tool_choice=tool_choice)
        ids = llama.tokenize(made.prompt.encode(), add_bos=not made.added_special, special=True)
        stops = [made.stop] if isinstance(made.stop, str) else list(made.stop or ())
        return answer(llama, ids, of_model, choice, stops, made.stopping_criteria, **given)
    return handler


def register_chat_completion_handler(name):
    def decorator(handler):
        _handlers[name] = handler
        return handler
    return decorator


def register_chat_format(name):
    def decorator(formatter):
        _handlers[name] = chat_formatter_to_chat_completion_handler(formatter)
        return formatter
    return decorator


def get_chat_completion_handler(name):
    if name not in _handlers:
        _refuse(name)
    return _handlers[name]


class Jinja2ChatFormatter:
    """A template as a formatter; rendered by mnem."""

    def __init__(self, template, eos_token, bos_token, add_generation_prompt=True, stop_token_ids=None):
        self.template, self.eos_token, self.bos_token = template, eos_token, bos_token
        self.add_generation_prompt = add_generation_prompt
        self.stop_token_ids = set(stop_token_ids or ())
        self._opened = Template(template)

    def __call__(self, *, messages, functions=None, function_call=None, tools=None, tool_choice=None,
                 **arguments):
        prompt = self._opened.render(plain(messages), tools, self.bos_token, self.eos_token,
                                     self.add_generation_prompt, arguments)
        criteria = None
        if self.stop_token_ids:
            def criteria(ids, _logits):
                return int(ids[-1]) in self.stop_token_ids
        return ChatFormatterResponse(prompt, [self.eos_token] if self.eos_token else [], criteria, True)

    def to_chat_handler(self):
        return chat_formatter_to_chat_completion_handler(self)


def hf_tokenizer_config_to_chat_formatter(tokenizer_config, add_generation_prompt=True):
    """A formatter of a tokenizer_config.json, given as a dict."""
    def text(name):
        value = tokenizer_config.get(name) or ""
        return value["content"] if isinstance(value, dict) else value
    return Jinja2ChatFormatter(tokenizer_config["chat_template"], text("eos_token"), text("bos_token"),
                               add_generation_prompt)


def hf_tokenizer_config_to_chat_completion_handler(tokenizer_config, add_generation_prompt=True):
    return hf_tokenizer_config_to_chat_formatter(tokenizer_config, add_generation_prompt).to_chat_handler()


# ---- models with images ----

class _NoImages:
    """In place of the class of a handler for images."""

    def __init__(self, *_given, **_named):
        raise NotImplementedError(f"mnem.compat: {type(self).__name__} is not supported: mnem runs texts "
                                  "only, no images")

    @classmethod
    def from_pretrained(cls, *given, **named):
        return cls(*given, **named)


def __getattr__(name):
    if name.endswith("ChatHandler"):
        return type(name, (_NoImages,), {})
    form = next((form for form in FORMATS if name == "format_" + form.replace("-", "_")), None)
    if form:
        def formatter(messages, **_given):
            source, stops = FORMATS[form]
            return ChatFormatterResponse(Template(source).render(plain(messages)), list(stops))
        return formatter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
