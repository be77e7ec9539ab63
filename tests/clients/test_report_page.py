"""The page of `mnem report --html` in a browser: Debian's chromium, driven by playwright. It asks no
network, says nothing on the console, and its numbers are those of --json. MNEM_SCREENSHOTS names a
folder for pictures to look at."""
import json
import os
import pathlib
import random
import shutil
import subprocess

import pytest

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")
SNAPSHOTS = pathlib.Path(__file__).parent.parent / "data" / "snapshots"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        made = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def report(trace, folder):
    """The page's path and what --json says."""
    path = folder / "page.html"
    run = subprocess.run([os.environ["MNEM_COMMAND"], "report", str(trace), "--json", "--html", str(path)],
                         check=True, capture_output=True, text=True)
    return path, json.loads(run.stdout)


def show(browser, path, width=1280, scheme="light"):
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function("window.sight")
    if os.environ.get("MNEM_SCREENSHOTS"):
        page.screenshot(path=os.path.join(os.environ["MNEM_SCREENSHOTS"], f"report_{scheme}_{width}.png"),
                        full_page=True)
    return page, said, asked


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    return report(SNAPSHOTS / "settings-default.pickle", tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_asks_nobody_and_says_nothing(browser, snapshot, width, scheme):
    path, _ = snapshot
    page, said, asked = show(browser, path, width, scheme)
    assert said == [] and asked == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    drawn = "id => { const c = document.getElementById(id); " \
            "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].some(x => x) }"
    assert page.evaluate(drawn, "bytes") and page.evaluate(drawn, "map")


def test_its_numbers_are_those_of_json(browser, snapshot):
    path, numbers = snapshot
    page, _, _ = show(browser, path)
    assert page.evaluate("Math.max(...sight.live.most)") == numbers["metrics"]["peak"]
    assert page.evaluate("sight.live.last[4095]") == numbers["metrics"]["end"]
    page.keyboard.press("p")
    assert f'{numbers["metrics"]["peak"]:,} bytes live' in page.inner_text("#read")
    tags = page.evaluate("sight.tags.map(s => Math.max(...s.most))")
    assert sorted(tags)[::-1][:2] == [tag["bytes_peak"] for tag in
                                      sorted(numbers["tags"], key=lambda tag: -tag["bytes_peak"])]
    at_end = page.evaluate("sight.tags.map(s => s.last[4095])")
    assert sum(at_end) == numbers["metrics"]["end"]
    bars = page.evaluate("[...document.querySelectorAll('#flame div')].map(e => +e.dataset.bytes)")
    assert max(bars) == numbers["metrics"]["peak"]
    table = page.inner_text("main")
    for value in ("peak", "reserved", "leaked"):
        assert str(numbers["metrics"][value]) in table


def test_a_brush_limits_every_view_and_keys_do_too(browser, snapshot):
    path, _ = snapshot
    page, said, _ = show(browser, path)
    box = page.locator("#bytes").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 50, steps=5)
    page.mouse.up()
    page.wait_for_function("sight.state().from > 0")
    state = page.evaluate("sight.state()")
    assert 0 < state["from"] < state["to"] < state["T"]
    page.keyboard.press("0")
    page.wait_for_function("sight.state().from === 0 && sight.state().to === sight.state().T")
    page.keyboard.press("+")
    page.wait_for_function("sight.state().to - sight.state().from < sight.state().T")
    moment = page.evaluate("sight.state().moment")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("sight.state().moment") < moment
    assert said == []


def test_a_block_tells_its_bytes_under_the_pointer(browser, snapshot):
    path, _ = snapshot
    page, _, _ = show(browser, path)
    spot = page.evaluate("""() => {
        const [start, length, low, bytes] = sight.boxes, T = sight.state().T;
        let i = 0;
        for (let k = 1; k < bytes.length; k++) if (bytes[k] * length[k] > bytes[i] * length[i]) i = k;
        const c = document.getElementById('map'), wide = c.clientWidth - sight.LEFT - 6;
        return [sight.LEFT + (start[i] + length[i] / 2) / T * wide, sight.mapY(low[i] + bytes[i] / 2), bytes[i]];
    }""")
    canvas = page.locator("#map")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + spot[0], box["y"] + spot[1])
    page.wait_for_function("sight.state().pick")
    page.wait_for_function(f"document.getElementById('read').textContent.includes('Block of {spot[2]:,} bytes')")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Of a run of the model that ships: accounts and spans of operators."""
    folder = tmp_path_factory.mktemp("run")
    subprocess.run([os.environ["MNEM_COMMAND"], "run", "-q", "-p", "In the beginning", "-n", "16",
                    "--trace", folder / "run.pftrace"], check=True, capture_output=True)
    return report(folder / "run.pftrace", folder)


def test_a_run_has_its_pictures(browser, run):
    path, numbers = run
    page, said, asked = show(browser, path)
    assert said == [] and asked == [path.as_uri()]
    drawn = "id => { const c = document.getElementById(id); " \
            "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].some(x => x) }"
    assert all(page.evaluate(drawn, canvas) for canvas in ("bytes", "spans", "roof"))
    assert not page.locator("#map").count()  # the engine takes whole accounts: there are no blocks to draw
    # A budget that is far above what is live would make a flat picture: it is named, not drawn.
    assert numbers["budget_bytes"] > 3 * numbers["metrics"]["peak"]
    assert "above this picture" in page.inner_text("#legend")
    # Blocks of pools lie within accounts: nothing is counted twice.
    rows = page.evaluate("""[...document.querySelectorAll('#flame div')].reduce((sums, e) => {
        sums[e.style.top] = (sums[e.style.top] || 0) + +e.dataset.bytes; return sums }, {})""")
    peak = numbers["metrics"]["peak"]
    assert max(rows.values()) <= peak and max(rows.values()) > .95 * peak  # the least have no bar
    assert sum(tag["bytes_at_peak"] for tag in numbers["tags"]) == peak


def test_an_operator_tells_its_rates_under_the_pointer(browser, run):
    path, numbers = run
    page, _, _ = show(browser, path)
    canvas = page.locator("#roof")
    canvas.scroll_into_view_if_needed()
    spots = page.evaluate("sight.roof().map(s => [s.x, s.y, s.p.name, s.p.flop, s.p.bytes, s.p.ns])")
    assert spots
    group = [o for o in numbers["operators"] if o["multiply_adds"] and o["name"] == "matmul token_embd"]
    spot = [s for s in spots if s[2] == "matmul token_embd"]
    if group and spot:
        assert spot[0][3:] == [2 * group[0]["multiply_adds"], group[0]["bytes"], group[0]["ns_total"]]
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + spots[-1][0], box["y"] + spots[-1][1])
    page.wait_for_function("sight.state().pick")
    assert "GFLOP/s" in page.inner_text("#read")


def test_tables_need_no_javascript(browser, snapshot):
    path, numbers = snapshot
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    text = page.inner_text("main")
    assert numbers["verdict"][0] in text
    assert str(numbers["metrics"]["peak"]) in text
    assert not page.is_visible("#bar")


def test_a_hostile_name_is_only_text(browser, tmp_path):
    trace = tmp_path / "<img src=x onerror=alert(1)>&.trace"
    trace.write_text("a 1 100\n")
    path, _ = report(trace, tmp_path)
    page, said, _ = show(browser, path)
    assert said == [] and "<img src=x" in page.inner_text("h1")
    assert page.query_selector("img") is None


def test_a_long_trace_is_a_small_page(browser, tmp_path):
    """Half a million operations; MNEM_REPORT_EVENTS asks for more."""
    count, roll = int(os.environ.get("MNEM_REPORT_EVENTS", 500000)), random.Random(7)
    trace, live = tmp_path / "long.trace", []
    with open(trace, "w") as out:
        for i in range(count):
            if live and (len(live) > 2000 or roll.random() < .5):
                k = roll.randrange(len(live))
                live[k], live[-1] = live[-1], live[k]
                out.write(f"f {live.pop()}\n")
            else:
                live.append(i)
                out.write(f"a {i} {roll.randrange(1, 1 << 20)} {i % 40}\n")
    path, numbers = report(trace, tmp_path)
    assert path.stat().st_size < 10 << 20
    page, said, _ = show(browser, path)
    assert said == []
    assert page.evaluate("Math.max(...sight.live.most)") == numbers["metrics"]["peak"]
    print("page", path.stat().st_size, "bytes; drawn after", page.evaluate("sight.first"), "ms; again in",
          page.evaluate("(sight.draw(), sight.state().took)"), "ms")
