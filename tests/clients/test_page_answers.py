"""What the page makes of answers: Markdown as it is meant, and nothing that runs. The answers are
put in the place of the server's, in a real browser."""
import json

import pytest

from page_answers import HOSTILE, ORDINARY
from test_page import browser, keep, pytestmark, show  # noqa: F401

# As ORDINARY writes it: a link by its address, code by its language, a cell by its side.
SHAPE = """
const shape = node => {
  if (node.nodeType === 3) return node.data;
  const inner = () => [...node.childNodes].map(shape).join("");
  if (node.className === "code")
    return `<pre ${node.querySelector(".bar span").textContent}>${node.querySelector("pre").textContent}</pre>`;
  const name = node.localName;
  if (["div", "thead", "tbody"].includes(name)) return inner();
  if (name === "hr" || name === "br") return `<${name}>`;
  const more = name === "a" ? node.getAttribute("href") : name === "ol" ? node.getAttribute("start") : node.className;
  return `<${name}${more ? " " + more : ""}>${inner()}</${name}>`;
};
"""
# Text whole, and in pieces: both have to give the same.
RENDER = "([text, step]) => {" + SHAPE + """
  const root = document.createElement("div"), markdown = new Markdown(root);
  for (let n = step || text.length; ; n += step) {
    markdown.set(text.slice(0, n));
    if (n >= text.length) return shape(root);
  }
}"""
ALLOWED = {
    "p": set(), "h3": set(), "h4": set(), "h5": set(), "h6": set(), "strong": set(), "em": set(), "del": set(),
    "ul": set(), "ol": {"start"}, "li": set(), "blockquote": set(), "hr": set(), "br": set(), "code": set(),
    "pre": {"tabindex"}, "div": {"tabindex", "role", "aria-label"}, "span": set(), "table": set(), "thead": set(),
    "tbody": set(), "tr": set(), "th": set(), "td": set(), "a": {"href", "title", "rel", "target"},
    "button": {"type", "data-act", "aria-label"},
}
ELEMENTS = """[...document.querySelectorAll(".turn.assistant .body *")].map(e =>
  [e.localName, e.className, Object.fromEntries([...e.attributes].map(a => [a.name, a.value]))])"""


def depth(page):
    return page.evaluate("""() => Math.max(0, ...[...document.querySelectorAll(".body *")].map(e => {
      let n = 0; for (; e; e = e.parentElement) n++; return n; }))""")


def stream(text, step):
    """An answer as the server streams it."""
    events = [{"choices": [{"delta": {"content": text[i:i + step]}}]} for i in range(0, len(text), step)]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 9}})
    return "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"


def answer_with(page, answers):
    """Answers in the server's place, one after another; gives the requests that were made."""
    asked, left = [], list(answers)

    def handle(route):
        asked.append(json.loads(route.request.post_data))
        text = left.pop(0)
        route.fulfill(content_type="text/event-stream", body=stream(text, max(1, len(text) // 20)))

    page.route("**/v1/chat/completions", handle)
    return asked


def ask(page, text, answers):
    """Sends a message; waits until there are `answers` that are finished."""
    page.fill("#text", text)
    page.keyboard.press("Enter")
    page.wait_for_selector(f".turn.assistant:not(.open) >> nth={answers - 1}", state="attached", timeout=60000)
    page.locator("#send", has_text="Send").wait_for()


def test_ordinary_answers_are_what_they_mean(browser, address):  # noqa: F811
    page, said, _ = show(browser, address)
    assert len(ORDINARY) >= 30
    for text, expected in ORDINARY:
        assert page.evaluate(RENDER, [text, 0]) == expected
    assert said == []


@pytest.mark.parametrize("step", [1, 2, 7])
def test_a_stream_ends_as_the_whole_text(browser, address, step):  # noqa: F811
    page, said, _ = show(browser, address)
    one = "\n\n".join(text for text, _ in ORDINARY if "never closed" not in text)
    for text in [text for text, _ in ORDINARY] + [one]:
        assert page.evaluate(RENDER, [text, step]) == page.evaluate(RENDER, [text, 0])
    for text in HOSTILE:
        if len(text) < 1000:
            assert page.evaluate(RENDER, [text, step]) == page.evaluate(RENDER, [text, 0])
    assert said == []


@pytest.mark.parametrize("width, height, scheme", [
    (390, 844, "light"), (390, 844, "dark"), (1280, 800, "light"), (1280, 800, "dark")])
def test_nothing_of_an_answer_runs(browser, address, width, height, scheme):  # noqa: F811
    page, said, asked = show(browser, address, width, height, scheme)
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    answers = HOSTILE + [text for text, _ in ORDINARY]
    answer_with(page, answers)
    assert len(HOSTILE) >= 30
    for i in range(len(answers)):
        ask(page, f"question {i}", i + 1)
    for name, _, attributes in page.evaluate(ELEMENTS):
        assert name in ALLOWED
        assert set(attributes) - {"class", "dir"} <= ALLOWED[name]
        if name == "a":
            assert attributes["href"].startswith(("http://", "https://"))
            assert "noopener" in attributes["rel"].split() and attributes["target"] == "_blank"
    assert depth(page) < 100
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("window.hit") is None and dialogs == []
    assert all(url.startswith((address, "data:")) for url in asked)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    keep(page, f"answers_{width}_{scheme}.png")
    assert said == []


def test_text_as_html_is_refused(browser, address):  # noqa: F811
    page, _, _ = show(browser, address)
    for what in ["document.body.innerHTML = '<b>x</b>'", "document.body.setAttribute('onclick', 'window.hit = 1')",
                 "document.write('<b>x</b>')", "new DOMParser().parseFromString('<b>x</b>', 'text/html')"]:
        refused = page.evaluate("() => { try { " + what + "; return 'done'; } catch (e) { return e.name; } }")
        assert refused == "TypeError", what
