"""A site made from the fixture Book, a loopback server for it, and a real Chromium to look at it."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from pathlib import Path

import pytest

from bookpress import web
from missing import absent
from render import fixture

SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NODE = Path(__file__).parent / "node_modules"


def quiet(stage: str, done: int, total: int) -> None:
    pass


def checker(path: str) -> Path:
    """A file of an npm package that the tests use."""
    file = NODE / path
    if not file.is_file():
        absent("install the checkers: npm ci --ignore-scripts --prefix tests/web")
    return file


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The fixture's site."""
    folder = tmp_path_factory.mktemp("site")
    assert web.make(fixture.book(tmp_path_factory.mktemp("book")), folder / "web", quiet) == []
    return folder / "web"


@pytest.fixture
def make(tmp_path):
    """Make the site of a book. Out: its folder and problems."""

    def build(book, name: str = "web", **options):
        target = tmp_path / name
        return target, web.make(book, target, quiet, **options)

    return build


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="session")
def address(site):
    """The fixture's site over HTTP."""
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """One browser for the session, in an empty profile."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="the test extra has selenium")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        absent("install the browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium):
    """The browser as a new reader has it: desk size, light, no memory, no messages."""
    size(chromium, 1440, 900)
    scheme(chromium, "light")
    chromium.get_log("browser")
    yield chromium
    if chromium.current_url.startswith(("http", "file")):
        chromium.execute_script("try { localStorage.clear(); sessionStorage.clear() } catch {}")


def size(browser, width: int, height: int) -> None:
    values = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", values)


def scheme(browser, name: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": name}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
