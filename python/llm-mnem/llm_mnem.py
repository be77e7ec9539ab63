"""llm-mnem: models of mnem as `llm -m mnem-NAME`.

Models are those of `llm mnem add NAME PATH`, kept in mnem.json of llm's folder, and the .gguf files of the
folder that LLM_MNEM_MODELS names. One model is loaded at a time: it stays for the next prompt, and another one
takes its place."""
import asyncio
import json
import os
import threading
from typing import Optional

import click
import llm
import mnem
from pydantic import Field

_LOADING = "memory", "ctx", "kv", "threads"


# ---- the list of models ----

def _list_path():
    return llm.user_dir() / "mnem.json"


def _added():
    try:
        return json.loads(_list_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def _save(models):
    path = _list_path()
    new = path.with_suffix(".new")
    new.write_text(json.dumps(models, indent=4) + "\n", encoding="utf-8")
    new.replace(path)


def models():
    """Name to path and options of loading."""
    found = {}
    folder = os.environ.get("LLM_MNEM_MODELS")
    if folder and os.path.isdir(folder):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".gguf"):
                found[name[:-len(".gguf")]] = {"path": os.path.join(folder, name)}
    found.update(_added())
    return found


# ---- the model that is loaded ----

class _Loaded:
    lock = threading.Lock()
    key = model = None

    @classmethod
    def get(cls, about, options):
        given = {name: getattr(options, name, None) for name in _LOADING}
        key = {**about, **{name: value for name, value in given.items() if value is not None}}
        with cls.lock:
            if key != cls.key:
                if cls.model:
                    cls.model.close()
                cls.key = cls.model = None
                cls.model = mnem.LLM(**key)
                cls.key = key
            return cls.model


# ---- prompts ----

def _text_of(message):
    return "".join(part.text for part in message.parts if hasattr(part, "text"))


def _messages(prompt, conversation):
    """The whole conversation, as messages of a chat template."""
    given = getattr(prompt, "messages", None)
    if given is not None:
        found = []
        for message in given:
            text = _text_of(message)
            if text and not (message.role == "system" and any(m["role"] == "system" for m in found)):
                found.append({"role": message.role, "content": text})
        return found
    found, system = [], prompt.system  # before llm 0.28
    for response in conversation.responses if conversation else []:
        system = response.prompt.system or system
        found += [{"role": "user", "content": response.prompt.prompt},
                  {"role": "assistant", "content": response.text()}]
    found.append({"role": "user", "content": prompt.prompt})
    return ([{"role": "system", "content": system}] if system else []) + found


def _has_template(model):
    try:
        model.template([{"role": "user", "content": "?"}])
    except mnem.Error as error:
        return "no chat template" not in str(error)
    return True


def _asked(prompt):
    options = {name: value for name, value in prompt.options.model_dump().items()
               if value is not None and name not in _LOADING}
    if getattr(prompt, "schema", None):
        options["schema"] = prompt.schema
    return options


class Options(llm.Options):
    max_tokens: Optional[int] = Field(default=None, description="Tokens of an answer at most")
    temperature: Optional[float] = Field(default=None, description="0: the likeliest token")
    top_k: Optional[int] = Field(default=None, description="Choose from so many likeliest tokens")
    top_p: Optional[float] = Field(default=None, description="Choose from tokens of this probability together")
    min_p: Optional[float] = Field(default=None, description="Least probability against the likeliest token's")
    repeat_penalty: Optional[float] = Field(default=None, description="Above 1: repeats become less likely")
    seed: Optional[int] = Field(default=None, description="Of the choice of tokens")
    stop: Optional[str] = Field(default=None, description="The answer ends before this text")
    memory: Optional[str] = Field(default=None, description="Budget of the process, such as 300M")
    ctx: Optional[int] = Field(default=None, description="Tokens of context")
    kv: Optional[str] = Field(default=None, description="Type of keys and values: f16, q8_0, auto or f32")
    threads: Optional[int] = Field(default=None, description="Worker threads")


class _Shared:
    can_stream = True
    supports_schema = True
    Options = Options

    def __init__(self, name, about):
        self.model_id = f"mnem-{name}"
        self.about = about

    def __str__(self):
        return f"mnem: {self.model_id}"

    def begin(self, prompt, conversation):
        """The iterator of an answer's pieces."""
        model = _Loaded.get(self.about, prompt.options)
        messages, options = _messages(prompt, conversation), _asked(prompt)
        if _has_template(model):
            return model.chat(messages, stream=True, **options)
        text = "\n".join(message["content"] for message in messages)
        return model.generate(text, stream=True, **options)

    def told(self, response, pieces):
        tokens = sum(len(piece.tokens) for piece in pieces)
        if pieces:
            response.set_usage(input=pieces[-1].prompt_tokens, output=tokens)


class Mnem(_Shared, llm.Model):
    def execute(self, prompt, stream, response, conversation):
        pieces = []
        for piece in self.begin(prompt, conversation):
            pieces.append(piece)
            if piece:
                yield str(piece)
        self.told(response, pieces)


class AsyncMnem(_Shared, llm.AsyncModel):
    async def execute(self, prompt, stream, response, conversation):
        pieces, end = [], object()
        answer = await asyncio.to_thread(self.begin, prompt, conversation)
        while True:
            piece = await asyncio.to_thread(next, answer, end)
            if piece is end:
                break
            pieces.append(piece)
            if piece:
                yield str(piece)
        self.told(response, pieces)


class MnemEmbedding(llm.EmbeddingModel):
    def __init__(self, name, about):
        self.model_id = f"mnem-{name}"
        self.about = about
        self.batch_size = 32

    def embed_batch(self, items, key=None):
        model = _Loaded.get(self.about, None)
        own = any(key.endswith(".pooling_type") for key in model.metadata)
        yield from model.embed(list(items), None if own else "mean")


# ---- what llm calls ----

@llm.hookimpl
def register_models(register):
    for name, about in models().items():
        register(Mnem(name, about), AsyncMnem(name, about))


@llm.hookimpl
def register_embedding_models(register):
    for name, about in models().items():
        register(MnemEmbedding(name, about))


@llm.hookimpl
def register_commands(cli):
    @cli.group(name="mnem")
    def group():
        "Models of mnem, inside a memory budget"

    @group.command(name="add")
    @click.argument("name")
    @click.argument("path", type=click.Path(exists=True, resolve_path=True))
    @click.option("--memory", help="Budget of the process, such as 300M")
    @click.option("--ctx", type=int, help="Tokens of context")
    @click.option("--kv", type=click.Choice(["f16", "q8_0", "auto", "f32"]), help="Type of keys and values")
    @click.option("--threads", type=int, help="Worker threads")
    def add(name, path, **options):
        "Make the model at PATH available as mnem-NAME"
        about = {"path": path, **{key: value for key, value in options.items() if value is not None}}
        try:
            plan = mnem.plan(**about)
        except mnem.Error as error:
            raise click.ClickException(str(error)) from None
        _save({**_added(), name: about})
        click.echo(f"mnem-{name}: {plan!r}")

    @group.command(name="remove")
    @click.argument("name")
    def remove(name):
        "Remove mnem-NAME from the list; its file stays"
        rest = _added()
        if name not in rest:
            raise click.ClickException(f"there is no model {name!r} that llm mnem add has added")
        del rest[name]
        _save(rest)

    @group.command(name="list")
    def show():
        "List the models and their files"
        for name, about in models().items():
            more = "".join(f" --{key} {value}" for key, value in about.items() if key != "path")
            click.echo(f"mnem-{name}: {about['path']}{more}")
