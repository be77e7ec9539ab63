"""template_conversations.py: 20 conversations of the shapes that chat templates are written for."""


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def tool(name, description, properties, required=()):
    return {"type": "function", "function": {
        "name": name, "description": description,
        "parameters": {"type": "object", "properties": properties, "required": list(required)}}}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


WEATHER = tool("get_weather", "The weather in a place. \"Now\" <b>only</b>.", {
    "place": {"type": "string", "description": "A town, such as Zürich"},
    "unit": {"type": "string", "enum": ["C", "F"], "default": "C"}}, ["place"])
SEARCH = tool("search", "Finds documents\nof several kinds.", {
    "query": {"type": "string"},
    "limit": {"type": "integer", "minimum": 1},
    "tags": {"type": "array", "items": {"type": "string"}},
    "range": {"type": "object", "properties": {"from": {"type": "number"}, "to": {"type": ["number", "null"]}}}})
TOOLS = [WEATHER, SEARCH]

ONE = [say("user", "Hello, who are you?")]
ASKED = [say("system", "Be short."), say("user", "What is the weather in Bern?")]
CALLED = ASKED + [say("assistant", None, tool_calls=[call("get_weather", {"place": "Bern", "unit": "C"})])]
ANSWERED = CALLED + [say("tool", "{\"degrees\": 21.5}", tool_call_id="call00001", name="get_weather")]

ALL = [
    {"messages": ONE},
    {"messages": [say("system", "You are a poet.\n"), say("user", "  Write a line.  ")]},
    {"messages": [say("system", ""), say("user", "Hi"), say("assistant", "Hello!"), say("user", "Bye")]},
    {"messages": [say("user", "1+1?"), say("assistant", "2"), say("user", "2+2?"), say("assistant", "4"),
                  say("user", "3+3?"), say("assistant", "6"), say("user", "Über 10?")]},
    {"messages": [say("user", "Hi", name="anna"), say("assistant", "Hello Anna", name="bot")]},
    {"messages": [say("user", "Think."), say("assistant", "<think>\nhm\n</think>\n\nDone."), say("user", "More.")]},
    {"messages": [say("user", "Think."), say("assistant", "Done.", reasoning_content="First this,\nthen that."),
                  say("user", "And?"), say("assistant", "So.", reasoning_content="again")]},
    {"messages": [say("user", "Think."), say("assistant", "Done.", thinking="deep thought"), say("user", "On.")],
     "arguments": {"enable_thinking": True}},
    {"messages": [say("user", "No thinking.")], "arguments": {"enable_thinking": False, "thinking": False}},
    {"messages": ASKED, "tools": TOOLS},
    {"messages": CALLED, "tools": TOOLS},
    {"messages": ANSWERED, "tools": TOOLS},
    {"messages": ANSWERED + [say("assistant", "21.5 degrees."), say("user", "Thanks 🙂 日本語")], "tools": [WEATHER]},
    {"messages": [say("user", "Both."), say("assistant", "", tool_calls=[
        call("get_weather", {"place": "O'Hare \"x\""}, "abcdefghi"),
        call("search", {"query": "a\nb", "limit": 3, "tags": ["x", "y"], "range": {"from": 0.5, "to": None}}, "jklmnopqr")]),
        say("tool", "sunny", tool_call_id="abcdefghi"), say("tool", "[]", tool_call_id="jklmnopqr")], "tools": TOOLS},
    {"messages": [say("user", "Text."), say("assistant", None, tool_calls=[
        call("get_weather", "{\"place\": \"Rome\"}")]), say("tool", "rain", tool_call_id="call00001")],
     "tools": [WEATHER]},
    {"messages": [say("user", [{"type": "text", "text": "Look"}, {"type": "text", "text": " at this"}]),
                  say("assistant", [{"type": "text", "text": "I see."}]), say("user", "Good.")]},
    {"messages": [say("user", [{"type": "text", "text": "What is it?"}, {"type": "image", "image": "x.png"}])]},
    {"messages": [say("assistant", "I begin."), say("user", "Odd.")]},
    {"messages": [say("user", "One."), say("user", "Two."), say("system", "Late.")]},
    {"messages": [say("developer", "Rules."), say("user", "Go <|im_end|> on"), say("assistant", "Ok </think> x")],
     "arguments": {"reasoning_effort": "high", "date_string": "26 Jul 2024", "custom_tools": None},
     "documents": [{"title": "T", "text": "Body"}]},
]
