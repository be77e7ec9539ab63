"""The page at `/` in a browser: Debian's chromium, driven by playwright. MNEM_SCREENSHOTS names a
folder for pictures to look at."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import SHIPPED

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        made = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def show(browser, address, width=1280, height=800, scheme="light"):
    """A page, what its console said, and which addresses it asked."""
    page = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector(".tile:nth-child(6)", state="attached")  # a phone hides it
    return page, said, asked


def keep(page, name):
    if os.environ.get("MNEM_SCREENSHOTS"):
        page.screenshot(path=os.path.join(os.environ["MNEM_SCREENSHOTS"], name), full_page=True)


def test_a_chat_streams_and_asks_only_this_server(browser, address):
    page, said, asked = show(browser, address)
    page.evaluate("tokens.value = 24")
    page.focus("#text")
    page.keyboard.type("In the beginning")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn .note", timeout=60000)
    assert page.inner_text(".turn.user .body") == "In the beginning"
    assert page.inner_text(".turn.assistant .body")
    assert "tokens in" in page.inner_text(".turn .note")
    assert all(url.startswith((address, "data:")) for url in asked)
    assert said == []
    keep(page, "light.png")


def test_escape_stops_and_new_forgets(browser, address):
    page, said, _ = show(browser, address, scheme="dark")
    page.evaluate("tokens.value = 200")
    page.focus("#text")
    page.keyboard.type("And it came to pass")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn.assistant .body:not(:empty)", timeout=60000)
    page.keyboard.press("Escape")
    page.locator("#send", has_text="Send").wait_for()
    if page.query_selector(".turn.assistant .note"):  # it may have ended before
        assert re.search(r"\btokens? out|tokens in", page.inner_text(".turn.assistant .note"))
    page.click("#fresh")
    assert page.query_selector_all(".turn") == []
    assert said == []
    keep(page, "dark.png")


@pytest.mark.parametrize("width, height", [(390, 844), (1600, 1000)])
def test_nothing_is_wider_than_the_window(browser, address, width, height):
    page, said, _ = show(browser, address, width, height)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert said == []
    keep(page, f"width_{width}.png")


def numbers(page, selector):
    return [int(re.match(r"[\d,]+", text)[0].replace(",", "")) for text in page.locator(selector).all_inner_texts()]


def test_the_meters_fit_and_the_pages_are_all(browser, address):
    page, _, _ = show(browser, address)
    page.wait_for_selector("#map .row")
    room = page.evaluate("meters.clientHeight - meters.scrollHeight")
    # Earlier conversations are rows of their own.
    assert room >= 0 if page.locator("#map .row").count() <= 3 else page.locator("#map").bounding_box()["y"] < 700
    shared = "shared" in page.inner_text("#mapkey")  # those count in each of their sequences
    assert shared or sum(numbers(page, "#map .n")) == numbers(page, "#mapkey span:last-child")[0]
    keep(page, "meters.png")


def test_the_meters_are_asked_when_an_answer_begins_and_ends(browser, address):
    page, _, asked = show(browser, address)
    page.clock.install()  # no timer of its own asks
    served(page, ["one"])
    page.wait_for_timeout(100)
    before = sum(url.endswith("/page.json") for url in asked)
    ask(page, "a", ["a", "one"])
    page.wait_for_timeout(100)
    assert sum(url.endswith("/page.json") for url in asked) > before


def test_the_map_and_the_memory_are_drawn(browser, address):
    page, _, _ = show(browser, address)
    page.wait_for_selector("#map .row")
    assert "weights" in page.inner_text("#kinds")
    # Near the floor of the newest column there is memory: the scale is that of a budget of up to four times as much.
    drawn = "[...memory.getContext('2d').getImageData(memory.width - 2, memory.height * 0.9, 1, 1).data].some(x => x)"
    for _ in range(100):  # two numbers make an area
        if page.evaluate(drawn):
            break
        page.wait_for_timeout(500)
    assert page.evaluate(drawn)
    keep(page, "memory.png")


# ---- turns, conversations, panels: with answers in the server's place ----

def served(page, answers):
    """Answers in the server's place, one after another; gives what was asked."""
    asked, left = [], list(answers)

    def handle(route):
        asked.append(json.loads(route.request.post_data)["messages"])
        answer = left.pop(0)
        if isinstance(answer, int):
            route.fulfill(status=answer, content_type="application/json", body='{"error": {"message": "no room"}}')
            return
        events = [{"choices": [{"delta": {"content": answer}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
        route.fulfill(content_type="text/event-stream", body="".join(f"data: {json.dumps(e)}\n\n" for e in events))

    page.route("**/v1/chat/completions", handle)
    return asked


def ask(page, text, turns):
    page.fill("#text", text)
    page.press("#text", "Enter")
    turns_are(page, turns)


def turns_are(page, turns):
    page.locator("#send", has_text="Send").wait_for()
    playwright.expect(page.locator(".turn .body")).to_have_text(turns)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def test_turns_are_edited_copied_and_generated_again(browser, address):
    page, said, _ = show(browser, address)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    asked = served(page, ["one", "two", "three", "```\nx = 1\n```", 500])
    ask(page, "a", ["a", "one"])
    ask(page, "b", ["a", "one", "b", "two"])
    page.locator("[data-act=again]:visible").click()
    turns_are(page, ["a", "one", "b", "three"])
    assert asked[-1] == [user("a"), assistant("one"), user("b")]
    page.locator("[data-act=edit]").first.click()
    page.fill(".edit textarea", "c")
    page.press(".edit textarea", "Enter")
    page.wait_for_selector(".code")
    assert asked[-1] == [user("c")]
    page.click("[data-act=code]")
    page.wait_for_selector("[data-act=code]:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == "x = 1"
    page.locator(".turn.assistant [data-act=copy]").click()
    page.wait_for_selector("[data-act=copy]:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == "```\nx = 1\n```"
    # What fails leaves the turns as they were.
    page.locator("[data-act=again]").click()
    playwright.expect(page.locator("#wrong")).to_have_text("no room")
    assert page.locator(".turn .body").first.inner_text() == "c" and page.locator(".code").count() == 1
    assert all("500" in line for line in said)


def test_conversations_are_kept_named_and_exported(browser, address, tmp_path):
    page, said, _ = show(browser, address)
    served(page, ["**one**", "two"])
    ask(page, "first <b>question</b>", ["first <b>question</b>", "one"])
    page.click("#fresh")
    ask(page, "second", ["second", "two"])
    assert page.locator("#kept .name").all_inner_texts() == ["second", "first <b>question</b>"]
    page.reload()
    turns_are(page, ["second", "two"])
    page.locator("#kept .name").nth(1).click()
    turns_are(page, ["first <b>question</b>", "one"])
    page.click("#kept .current [data-act=rename]")
    page.fill("#kept input", "Named <i>")
    page.press("#kept input", "Enter")
    page.reload()
    assert sorted(page.locator("#kept .name").all_inner_texts()) == ["Named <i>", "second"]
    with page.expect_download() as download:
        page.click("#export_json")
    download.value.save_as(tmp_path / "c.json")
    expected = [user("first <b>question</b>"), assistant("**one**")]
    assert json.loads((tmp_path / "c.json").read_text()) == expected
    with page.expect_download() as download:
        page.click("#export_md")
    download.value.save_as(tmp_path / "c.md")
    assert "**one**" in (tmp_path / "c.md").read_text()
    # `mnem train` reads it as a conversation.
    if os.environ.get("MNEM_COMMAND"):
        (tmp_path / "t.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
        plan = subprocess.run([os.environ["MNEM_COMMAND"], "train", "--data", "c.json", "--heldout", "0", "--init", SHIPPED,
                               "--template", "t.jinja", "--memory", "1G", "--dry-run", "--json"],
                              capture_output=True, text=True, cwd=tmp_path)
        assert plan.returncode == 0, plan.stderr
        assert json.loads(plan.stdout.splitlines()[0])["data"]["conversations"] == 1
    page.click("#kept .current [data-act=delete]")
    assert page.locator("#kept li").count() == 2
    page.click("#kept .current .sure")
    assert page.locator("#kept .name").all_inner_texts() == ["second"]
    page.reload()
    assert page.locator("#kept .name").all_inner_texts() == ["second"]
    assert said == []


def test_what_is_stopped_or_deleted_before_its_answer_is_not_kept(browser, address):
    page, said, _ = show(browser, address)
    page.route("**/v1/chat/completions", lambda route: None)  # no answer comes
    for forget in ["stop", "delete"]:
        page.fill("#text", "a question")
        page.press("#text", "Enter")
        page.locator("#send", has_text="Stop").wait_for()
        playwright.expect(page.locator("#kept li")).to_have_count(1)
        if forget == "stop":
            page.click("#send")
            playwright.expect(page.locator("#text")).to_have_value("a question")
        else:
            page.click("#kept [data-act=delete]")
            page.click("#kept .sure")
        page.locator("#send", has_text="Send").wait_for()
        playwright.expect(page.locator(".turn")).to_have_count(0)
        playwright.expect(page.locator("#kept li")).to_have_count(0)
    assert said == []


# An answer that begins and has no end, in the place of the server's.
ENDLESS = """() => { const real = fetch; window.fetch = (url, options) => String(url).includes("/v1/")
  ? Promise.resolve(new Response(new ReadableStream({ start(stream) { stream.enqueue(new TextEncoder().encode(
    'data: {"choices": [{"delta": {"content": "half of"}}]}\\n\\n')); } }))) : real(url, options); }"""


def test_an_answer_that_a_reload_interrupts_says_so(browser, address):
    page, said, _ = show(browser, address)
    page.evaluate(ENDLESS)
    page.fill("#text", "a question")
    page.press("#text", "Enter")
    playwright.expect(page.locator(".turn.assistant .body")).to_have_text("half of")
    page.reload()
    turns_are(page, ["a question", "half of"])
    assert page.inner_text(".turn.assistant .note").startswith("interrupted")
    keep(page, "interrupted.png")
    asked = served(page, ["all of it"])
    page.click("[data-act=again]")
    turns_are(page, ["a question", "all of it"])
    assert asked == [[user("a question")]] and page.locator(".turn .note").count() == 0
    assert said == []


def test_the_speed_of_a_server_that_waits_is_that_of_before(browser, address):
    page, said, _ = show(browser, address)
    now = {"running": 1, "rate": 85.4}

    def handle(route):
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), **now})

    page.route("**/page.json", handle)
    tile = page.locator(".tile", has_text="tokens/s")
    playwright.expect(tile).to_have_text("85.4tokens/s, with prompts")
    now["running"] = 0
    playwright.expect(tile).to_have_text("85.4tokens/s when last busy")
    keep(page, "last_speed.png")
    now["rate"] = 0
    playwright.expect(tile).to_have_text("–tokens/s")
    page.unroute_all(behavior="ignoreErrors")
    assert said == []


def test_the_name_follows_the_first_message_unless_it_was_given(browser, address):
    page, said, _ = show(browser, address)
    served(page, ["one", "two", 500, "three"])
    name = page.locator("#kept .name")

    def edit(text):
        page.locator("[data-act=edit]").first.click()
        assert page.locator(".editing .foot").is_hidden()
        page.fill(".edit textarea", text)
        page.press(".edit textarea", "Enter")

    ask(page, "a", ["a", "one"])
    page.reload()
    turns_are(page, ["a", "one"])
    edit("b")
    turns_are(page, ["b", "two"])
    playwright.expect(name).to_have_text("b")
    edit("c")  # fails, which leaves all as it was
    playwright.expect(page.locator("#wrong")).to_have_text("no room")
    turns_are(page, ["b", "two"])
    playwright.expect(name).to_have_text("b")
    page.click("#kept [data-act=rename]")
    page.fill("#kept input", "mine")
    page.press("#kept input", "Enter")
    edit("d")
    turns_are(page, ["d", "three"])
    playwright.expect(name).to_have_text("mine")
    page.reload()
    playwright.expect(name).to_have_text("mine")
    assert all("500" in line for line in said)


def test_drafts_stay_with_their_conversations(browser, address):
    page, said, _ = show(browser, address)
    served(page, ["one"])
    text = page.locator("#text")
    page.fill("#text", "not sent")
    page.reload()
    playwright.expect(text).to_have_value("not sent")
    ask(page, "a", ["a", "one"])
    playwright.expect(text).to_have_value("")
    page.fill("#text", "of a")
    page.click("#fresh")
    playwright.expect(text).to_have_value("")
    page.fill("#text", "of none")
    page.reload()
    playwright.expect(text).to_have_value("of none")
    page.click("#kept .name")
    playwright.expect(text).to_have_value("of a")
    page.reload()
    playwright.expect(text).to_have_value("of a")
    assert said == []


BLOCKED = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
FULL = """Storage.prototype.setItem = function (key) {
  if (key.startsWith("mnem.chat.")) throw new DOMException("full", "QuotaExceededError"); }"""


@pytest.mark.parametrize("script, told", [(BLOCKED, "keeps nothing"), (FULL, "is full")])
def test_a_chat_goes_on_where_nothing_is_kept(browser, address, script, told):
    page = browser.new_context().new_page()
    page.add_init_script(script)
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    served(page, ["one", "two"])
    ask(page, "a", ["a", "one"])
    assert told in page.inner_text("#store_note")
    page.click("#fresh")
    ask(page, "b", ["b", "two"])
    page.locator("#kept .name", has_text="a").click()
    turns_are(page, ["a", "one"])
    assert said == []


def test_damaged_entries_are_told(browser, address):
    page, said, _ = show(browser, address)
    page.evaluate("""() => { for (const [key, value] of [["about.x", "{"], ["about.y", '{"name": "y"}'], ["chat.y", '[{"role": 1}]'],
      ["about.z", '{"name": "z"}'], ["chat.z", "null"]]) localStorage.setItem("mnem." + key, value); }""")
    page.reload()
    assert sorted(page.locator("#kept .name").all_inner_texts()) == ["y", "z"]
    for name in ["y", "z"]:
        page.locator("#kept .name", has_text=name).click()
        playwright.expect(page.locator("#wrong")).to_contain_text("damaged")
    assert said == []


def test_the_first_view_says_what_this_is(browser, address):
    page, said, _ = show(browser, address)
    asked = served(page, ["an answer"])
    numbers = page.evaluate("fetch('/page.json').then(r => r.json())")
    playwright.expect(page.locator("#first_facts")).to_contain_text(numbers["model"])
    assert "budget of 1.00 GiB" in page.inner_text("#first_facts") or os.environ.get("MNEM_CLIENT_ADDRESS")
    prompts = page.locator("#prompts button")
    assert prompts.count() == 3
    text = prompts.nth(1).inner_text()
    prompts.nth(1).click()
    turns_are(page, [text, "an answer"])
    assert asked == [[user(text)]]
    assert page.locator("#first").is_hidden()
    assert said == []


def test_a_phone_shows_the_chat_and_panels_behind_buttons(browser, address):
    page, said, _ = show(browser, address, 390, 844)
    assert page.is_visible("#text") and page.is_hidden("#meters") and page.is_hidden("#list")
    # What doesn't fit into the line of the header is cut off at its end: the state is seen.
    playwright.expect(page.locator("#about")).to_have_text(re.compile("^ready · "))
    for button, panel in [("#show_meters", "#meters"), ("#show_list", "#list")]:
        page.focus(button)
        page.keyboard.press("Enter")
        assert page.is_visible(panel) and page.get_attribute(button, "aria-expanded") == "true"
        keep(page, f"phone{panel[1:]}.png".replace("phone", "phone_"))
        page.keyboard.press("Escape")
        assert page.is_hidden(panel) and page.get_attribute(button, "aria-expanded") == "false"
        assert page.evaluate("'#' + document.activeElement.id") == button
    assert said == []


def test_a_theme_is_kept(browser, address):
    page, said, _ = show(browser, address, scheme="light")
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back)
    page.click("#theme")
    assert page.evaluate(back) == light
    page.click("#theme")
    dark = page.evaluate(back)
    assert dark != light
    page.reload()
    assert page.evaluate(back) == dark and page.inner_text("#theme") == "Theme: dark"
    assert said == []


def test_a_screen_reader_is_told_blocks_and_everything_has_a_name(browser, address):
    page, said, _ = show(browser, address)
    served(page, ["One.\n\nTwo.\n\n- a\n- b"])
    page.evaluate("""() => { window.told = [];
      new MutationObserver(all => all.forEach(m => m.addedNodes.forEach(n => told.push(n.textContent))))
        .observe(document.getElementById("spoken"), { childList: true }); }""")
    ask(page, "q", ["q", "One.Two.ab"])
    assert page.evaluate("told") == ["One.", "Two.", "ab"]
    assert page.evaluate("""[...document.querySelectorAll("button, textarea, input")].filter(e =>
      !(e.textContent.trim() || e.getAttribute("aria-label") || e.closest("label"))).map(e => e.outerHTML)""") == []
    assert page.get_attribute("#spoken", "aria-live") == "polite"
    assert said == []


def test_two_thousand_messages_do_not_lag(browser, address):
    """Of the main thread's processor time, which other programs don't lengthen: the longest task while
    such a conversation is open, scrolled, typed into and answered."""
    page, said, _ = show(browser, address)
    served(page, ["# An answer\n\n" + "Some *text* and `code`.\n\n" * 40])
    page.evaluate("""() => { const text = "A **line** of text with `code`, and a list:\\n\\n- one\\n- two\\n\\n```c\\nint x;\\n```\\n";
      const turns = []; for (let i = 0; i < 2000; i++) turns.push({ role: i % 2 ? "assistant" : "user", content: i + " " + text });
      store.save({ id: "long", name: "long", turns }); drawList(); }""")
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent():
        return {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}["TaskDuration"]

    page.click("#kept .name")
    playwright.expect(page.locator(".turn")).to_have_count(2000)
    page.wait_for_timeout(500)
    frame = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))"
    frames = []
    for i in range(40):
        start = spent()
        page.evaluate(f"said.scrollTop -= {300 if i < 36 else 20000}")
        page.evaluate(frame)
        frames.append(spent() - start)
    page.focus("#text")
    for key in "typing":
        start = spent()
        page.keyboard.press(key)
        page.evaluate(frame)
        frames.append(spent() - start)
    frames.sort()
    print("frames of 2,000 messages, ms:", [round(1e3 * f, 1) for f in frames[-5:]])
    assert frames[len(frames) * 3 // 4] < 0.05  # the rest are jumps, which are several frames each
    page.fill("#text", "")
    page.keyboard.type("more")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".turn.open")).to_have_count(0)
    playwright.expect(page.locator(".turn")).to_have_count(2002)
    assert page.evaluate("said.scrollHeight - said.scrollTop - said.clientHeight") < 5
    assert said == []
