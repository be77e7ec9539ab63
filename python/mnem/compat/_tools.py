"""Tools: what a model is told of them, and the calls in its answer.

A call is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, as most models write it and as the text
below asks models for whose templates know no tools; `[TOOL_CALLS][{...}, ...]`, as Mistral's do; or an
answer that is nothing but such an object, as Llama 3's do, where its name is a tool's."""
import json

MARKS = ("<tool_call>", "[TOOL_CALLS]")
_END = "</tool_call>"
_TEXT = ("You can call these functions, each given as JSON:\n{tools}\n\nTo call one, write\n<tool_call>\n"
         '{{"name": "NAME", "arguments": {{...}}}}\n</tool_call>\nwith its name and its arguments as JSON; '
         "write one such block for each call. Where no call is needed, answer in words.")


def asked(functions, function_call, tools, tool_choice):
    """(tools, choice): the older names become the newer ones. choice: None, "auto", "required", or the
    tool that must be called; tools: none where the choice is "none"."""
    if functions is not None and tools is None:
        tools = [{"type": "function", "function": function} for function in functions]
    if function_call is not None and tool_choice is None:
        named = isinstance(function_call, dict)
        tool_choice = {"function": {"name": function_call["name"]}} if named else function_call
    if not tools or tool_choice == "none":
        return None, None
    if tool_choice in (None, "auto", "required"):
        return tools, tool_choice or "auto"
    name = tool_choice["function"]["name"] if isinstance(tool_choice, dict) else tool_choice
    for tool in tools:
        if tool["function"]["name"] == name:
            return tools, tool
    raise ValueError(f"Tool choice '{name}' not found in tools.")


def told(messages, tools):
    """messages with a text about tools in the system's, for templates that know none."""
    text = _TEXT.format(tools="\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools))
    messages = [_as_text(message) for message in messages]
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0].get('content') or ''}\n\n{text}".strip()}
        return [first] + messages[1:]
    return [{"role": "system", "content": text}] + messages


def _as_text(message):
    """A message whose calls stand in its text, and a result as a user's message."""
    calls = message.get("tool_calls")
    if message["role"] in ("tool", "function"):
        return {"role": "user",
                "content": f"<tool_response>\n{message.get('content') or ''}\n</tool_response>"}
    if not calls:
        return message
    written = [f"<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
               for call in calls]
    return {"role": message["role"], "content": "\n".join([message.get("content") or ""] + written).strip()}


def begin(tool):
    """What an answer that must call a tool begins with; its arguments follow."""
    return f'<tool_call>\n{{"name": {json.dumps(tool["function"]["name"])}, "arguments": '


def _call(value, names):
    """(name, arguments as JSON) of an object, or None."""
    if not isinstance(value, dict) or value.get("name") not in names:
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return value["name"], text


def _objects(text):
    """The JSON objects in a text, one behind another, with other text between them left out."""
    at, decoder = text.find("{"), json.JSONDecoder()
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
            yield value
        except ValueError:
            end = at + 1
        at = text.find("{", end)


def calls_of(text, tools):
    """(content, [(name, arguments)]) of an answer; no calls: the text as it is."""
    names = {tool["function"]["name"] for tool in tools}
    found = [text.find(mark) for mark in MARKS if mark in text]
    begin_at = min(found) if found else (0 if text.lstrip().startswith("{") else len(text))
    calls = [call for call in (_call(value, names) for value in _objects(text[begin_at:])) if call]
    return (text[:begin_at].strip() or None, calls) if calls else (text, [])


def may_call(text):
    """The characters of a text that certainly aren't part of a call."""
    from ._completion import tail
    if text.lstrip()[:1] == "{":
        return 0
    ends = [text.find(mark) for mark in MARKS if mark in text]
    return min(ends) if ends else len(text) - max(tail(text, mark) for mark in MARKS)
