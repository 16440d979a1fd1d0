"""The site in a real Chromium: search, keys, theme, copying, a phone, the checkers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from bookpress.web import search
from missing import absent
from render import fixture

from .conftest import checker, scheme, size

CHAPTER = "hardware/accelerators.html"
PAGES = (
    "index.html",
    "preface.html",
    CHAPTER,
    "debugging/hangs.html",
    "problems.html",
    "colophon.html",
)


def until(browser, script: str, *values):
    """Wait until the script is true; a reader would not wait longer than this."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if result := browser.execute_script("return " + script, *values):
            return result
        time.sleep(0.02)
    raise AssertionError(f"never true: {script}")


def press(browser, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def errors(browser) -> list[str]:
    return [e["message"] for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]


def ask(browser, query: str) -> list[tuple[str, str]]:
    """Open search, type, and read the results: (address, title)."""
    if not browser.find_elements(By.CSS_SELECTOR, "#ui-search[open]"):
        press(browser, "/")
    until(
        browser,
        "document.querySelector('#ui-search[open] .ui-status').textContent.includes('section')",
    )
    box = browser.find_element(By.CSS_SELECTOR, "#ui-search input")
    box.clear()
    box.send_keys(query)
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return [
        (a.get_attribute("href"), a.find_element(By.TAG_NAME, "b").text)
        for a in browser.find_elements(By.CSS_SELECTOR, ".ui-results a")
    ]


# --- search ---


def test_search_finds_what_engineers_type(browser, address):
    wanted = {
        "which rank": "Which rank is stuck?",
        "NCCL_TOPO_FILE": "Which rank is stuck?",
        "nccl-topo": "Which rank is stuck?",
        "--query-compute-apps": "Dense and sparse",
        "通信": "Setup, again",  # G03: nothing between the characters, and none is a word alone
        "简介": "简介",
        "allreduce": "Which rank is stuck?",
        "accelerators limits": "Accelerators & their limits",
        "[rank3]: RuntimeError: NCCL WARN Cuda failure 'out of memory' at 0x7f3a pid 4411": "Dense and sparse",
    }
    browser.get(address + CHAPTER)
    assert {query: (ask(browser, query) or [("", "")])[0][1] for query in wanted} == wanted


def test_search_leads_to_the_place_and_marks_it(browser, address):
    browser.get(address + CHAPTER)
    assert (
        browser.execute_script("return document.querySelectorAll('script[src*=search-]').length")
        == 0
    )
    ask(browser, "thermal")
    until(
        browser,
        "document.querySelector('.ui-results mark')?.textContent.toLowerCase() === 'thermal'",
    )
    press(browser, Keys.ENTER)
    until(browser, "location.hash === '#dense-sparse'")
    until(browser, "CSS.highlights.get('ui-found')?.size > 0")
    assert not browser.find_elements(By.CSS_SELECTOR, "#ui-search[open]")
    assert errors(browser) == []


def test_search_by_keyboard_alone(browser, address):
    browser.get(address)
    ask(browser, "the setup")
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    second = browser.find_elements(By.CSS_SELECTOR, ".ui-results a")[1]
    assert browser.switch_to.active_element == second
    press(browser, Keys.ARROW_UP, Keys.ARROW_UP)
    assert browser.switch_to.active_element.tag_name == "input"
    press(browser, Keys.ESCAPE)
    assert not browser.find_elements(By.CSS_SELECTOR, "#ui-search[open]")


def test_search_says_when_nothing_is_found(browser, address):
    browser.get(address)
    assert ask(browser, "zebra") == []
    assert browser.find_element(By.CSS_SELECTOR, ".ui-status").text == "Nothing found"


def test_browser_cuts_words_as_the_index_does(browser, address):
    words = [
        "all_reduce", "--ntasks-per-node=8", "torch 2.13.0+cu130", "NCCL_DEBUG=INFO", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "通信とall_reduce", "hello, world", "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "H100-SXM5", "a.b.c", "Ωmega ≥ 3µs", "naïve café",
    ]  # fmt: skip
    browser.get(address)
    script = "return arguments[0].map(w => bookSearch.units(w).flatMap(u => u.joined ? [...u.pieces, u.joined] : u.pieces))"
    for word, cut in zip(words, browser.execute_script(script, words), strict=True):
        # CamelCase parts are in the index alone: a query is looked up as typed.
        assert set(cut) <= set(search.tokens(word)), word
        plain = {t for t in search.tokens(word) if t in cut or not any(t in c for c in cut)}
        assert plain == set(cut), word


# --- keys, theme, notes ---


def test_keys_turn_pages_but_not_while_typing(browser, address):
    browser.get(address + CHAPTER)
    press(browser, "n")
    until(browser, "location.pathname === '/debugging/hangs.html'")
    press(browser, Keys.ARROW_LEFT)
    until(browser, "location.pathname === '/hardware/accelerators.html'")
    press(browser, "s")
    until(browser, "document.querySelector('#ui-search[open]')")
    press(browser, "n", "p", "t", "?")
    assert (
        browser.find_element(By.CSS_SELECTOR, "#ui-search input").get_attribute("value") == "npt?"
    )
    assert browser.execute_script("return location.pathname") == "/hardware/accelerators.html"
    press(browser, Keys.ESCAPE)
    ActionChains(browser).key_down(Keys.CONTROL).send_keys("n").key_up(Keys.CONTROL).perform()
    assert browser.execute_script("return location.pathname") == "/hardware/accelerators.html"
    press(browser, "?")
    until(browser, "document.querySelector('#ui-help[open]')")
    press(browser, Keys.ESCAPE)
    assert not browser.find_elements(By.CSS_SELECTOR, "#ui-help[open]")


def test_theme_follows_the_system_until_chosen_and_is_remembered(browser, address):
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.get(address)
    light = until(browser, ground)
    scheme(browser, "dark")
    dark = until(browser, f"{ground} !== '{light}' && {ground}")
    scheme(browser, "light")
    press(browser, "t")
    assert browser.execute_script(f"return {ground}") == dark
    browser.get(address + CHAPTER)
    assert browser.execute_script(f"return {ground}") == dark
    assert (
        browser.find_element(By.CSS_SELECTOR, "[data-ui=theme]").get_attribute("aria-pressed")
        == "true"
    )
    press(browser, "t")
    assert browser.execute_script("return localStorage.getItem('ui-theme')") is None


def test_theme_stands_before_the_first_paint(site):
    page = (site / CHAPTER).read_text()
    assert page.index("localStorage.getItem") < page.index('rel="stylesheet"') < page.index("<body")


def test_notes_show_beside_their_reference(browser, address):
    browser.get(address + CHAPTER)
    ref = browser.find_element(By.CSS_SELECTOR, "#fnref-1")
    ActionChains(browser).move_to_element(ref).perform()
    until(browser, "document.querySelector('.ui-note')?.innerText.includes('Measured with')")
    assert browser.execute_script(
        "const r = document.querySelector('.ui-note').getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth"
    )
    press(browser, Keys.ESCAPE)
    assert not browser.find_elements(By.CSS_SELECTOR, ".ui-note")


def test_copied_text_is_the_source(browser, address, tmp_path):
    origin = {
        "origin": address.rstrip("/"),
        "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
    }
    browser.execute_cdp_cmd("Browser.grantPermissions", origin)
    chapter = fixture.book(tmp_path).chapters[2]
    browser.get(address + chapter.url)
    buttons = browser.find_elements(By.CSS_SELECTOR, ".ui-copy")
    assert len(buttons) == len(chapter.fences)
    for button, fence in zip(buttons, chapter.fences, strict=True):
        browser.execute_script("arguments[0].click()", button)
        until(browser, "arguments[0].textContent === 'Copied'", button)
        read = "navigator.clipboard.readText().then(arguments[0], e => arguments[0]('error ' + e))"
        assert browser.execute_async_script(read) == fence.text


def test_selected_code_is_the_source(browser, address, tmp_path):
    chapter = fixture.book(tmp_path).chapters[2]
    browser.get(address + chapter.url)
    select = "const r = getSelection(); r.selectAllChildren(arguments[0]); return r.toString()"
    for code, fence in zip(
        browser.find_elements(By.CSS_SELECTOR, "figure.code code"), chapter.fences, strict=True
    ):
        assert browser.execute_script(select, code) == fence.text


def test_old_addresses_arrive(browser, make, tmp_path):
    book = fixture.book(tmp_path / "b")
    (book.config.root / "data").mkdir()
    (book.config.root / "data" / "redirects.yaml").write_text(
        "gpus.html: hardware/accelerators.html\n"
        "gpus.html#which: hardware/accelerators.html#which-number\n"
        "debugging/hangs.html#old: hardware/accelerators.html#setup\n"
    )
    folder, problems = make(book)
    assert problems == []
    for old, new in (
        ("gpus.html", "accelerators.html"),
        ("gpus.html#which", "accelerators.html#which-number"),
        ("gpus.html#setup", "accelerators.html#setup"),  # an id that did not change
        ("debugging/hangs.html#old", "accelerators.html#setup"),
    ):
        browser.get("about:blank")
        browser.get(folder.as_uri() + "/" + old)
        until(browser, "location.href.endsWith(arguments[0])", "/hardware/" + new)


# --- widths ---


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_scrolls_one_way_only(browser, address, page):
    size(browser, 390, 844)
    browser.get(address + page)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    script = """return [...document.querySelectorAll('main *')].filter(e => {
      const r = e.getBoundingClientRect();
      return r.width && r.right > 391 && !e.closest('.ui-scroll, pre, math, .ui-hidden');
    }).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.execute_script(script) == []


NAMES = ["--kill-on-bad-exit", "--use_cuda", "-x", "--tensor-model-parallel-size", "kube-flannel.yml", "OMP_NUM_THREADS"]


def test_names_stay_whole_on_a_phone_and_are_copied_as_written(browser, make, tmp_path):
    """At each place of the line: no short name is parted, in text or in the head of a table."""
    texts = ["x" * n + f" <code>{name}</code> at 900&#160;GB/s." for n in range(1, 34) for name in NAMES]
    heads = "".join(f"<th><code>{name}</code></th>" for name in NAMES)
    table = f'<figure class="table"><table><thead><tr>{heads}</tr></thead><tbody><tr>{"<td>1</td>" * 6}</tr></tbody></table></figure>'
    body = '<section class="chapter" id="a"><h1 id="top">A</h1>' + "".join(f"<p>{t}</p>" for t in texts) + table + "</section>"
    folder, problems = make(fixture.of_bodies(tmp_path, body))
    assert problems == []
    size(browser, 390, 844)
    browser.get((folder / "a.html").as_uri())
    parted = """return [...document.querySelectorAll('.chapter code')].filter((code) => {
      const range = new Range(); range.selectNodeContents(code);
      return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1;
    }).map((code) => code.textContent)"""
    assert browser.execute_script(parted) == []
    copied = """return [...document.querySelectorAll('.chapter p')].map((p) => {
      getSelection().selectAllChildren(p); return getSelection().toString() })"""
    plain = [re.sub(r"</?code>", "", t).replace("&#160;", "\u00a0") for t in texts]
    assert browser.execute_script(copied) == plain


def test_contents_open_on_a_phone(browser, address):
    size(browser, 390, 844)
    browser.get(address + CHAPTER)
    shown = "getComputedStyle(document.getElementById('ui-contents')).display !== 'none'"
    assert not browser.execute_script(f"return {shown}")
    browser.find_element(By.CSS_SELECTOR, ".ui-menu").click()
    until(browser, shown)
    press(browser, Keys.ESCAPE)
    until(browser, f"!({shown})")


def test_wide_code_wraps_on_request(browser, address):
    size(browser, 390, 844)
    browser.get(address + "debugging/hangs.html")
    wrap = next(b for b in browser.find_elements(By.CSS_SELECTOR, ".ui-wrap") if b.is_displayed())
    browser.execute_script("arguments[0].click()", wrap)
    pre = wrap.find_element(By.XPATH, "../../pre")
    assert browser.execute_script(
        "return arguments[0].scrollWidth <= arguments[0].clientWidth + 1", pre
    )


# --- without a server, without scripts ---


def test_it_works_from_a_disk(browser, site):
    browser.get((site / CHAPTER).as_uri())
    assert ask(browser, "which rank")[0][1] == "Which rank is stuck?"
    press(browser, Keys.ENTER)
    until(
        browser,
        "location.pathname.endsWith('/debugging/hangs.html') && location.hash === '#which-rank'",
    )
    assert errors(browser) == []


def test_it_reads_without_scripts(browser, address):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address + CHAPTER)
        assert not browser.find_element(By.CSS_SELECTOR, ".ui-tools").is_displayed()
        assert browser.find_element(By.ID, "which-number").is_displayed()
        size(browser, 390, 844)
        browser.find_element(By.CSS_SELECTOR, ".ui-menu").click()
        assert browser.find_element(By.ID, "ui-contents").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("page", PAGES)
def test_nothing_goes_wrong_while_loading(browser, address, page):
    browser.get(address + page)
    until(browser, "document.readyState === 'complete'")
    assert errors(browser) == []
    remote = "performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith(location.origin))"
    assert browser.execute_script("return " + remote) == []


# --- the checkers ---


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(browser, address, page, theme):
    axe = checker("axe-core/axe.min.js").read_text()
    scheme(browser, theme)
    browser.get(address + page)
    assert violations(browser, axe) == []


def test_axe_finds_nothing_in_the_windows(browser, address):
    axe = checker("axe-core/axe.min.js").read_text()
    browser.get(address + CHAPTER)
    ask(browser, "rank setup peak")
    assert violations(browser, axe) == []
    press(browser, Keys.ESCAPE, "?")
    until(browser, "document.querySelector('#ui-help[open]')")
    assert violations(browser, axe) == []


def violations(browser, axe: str) -> list[str]:
    browser.execute_script(axe)
    run = "axe.run().then(r => arguments[0](JSON.stringify(r.violations)), e => arguments[0](String(e)))"
    found = json.loads(browser.execute_async_script(run))
    return [
        f"{v['id']}: {n['html'][:120]} {n['failureSummary']}" for v in found for n in v["nodes"]
    ]


@pytest.mark.slow
def test_the_html_is_valid(site):
    jar = checker("vnu-jar/build/dist/vnu.jar")
    java = shutil.which("java") or absent("install Java: apt-get install default-jre-headless")
    command = [java, "-jar", jar, "--errors-only", "--format", "json", "--skip-non-html", site]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    messages = json.loads(done.stderr)["messages"]
    assert [f"{m['url'].rpartition('/')[2]}:{m['lastLine']} {m['message']}" for m in messages] == []
