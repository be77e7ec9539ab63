"""The page at `/` in a browser: Debian's chromium, driven by playwright. MNEM_SCREENSHOTS names a
folder for pictures to look at."""
import os
import shutil

import pytest

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
