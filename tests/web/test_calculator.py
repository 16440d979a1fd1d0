"""Calculators in a real Chromium: the form computes what the press computes, and says when an input is wrong."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest
import yaml
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from bookpress import build
from bookpress.calculators import define, evaluate
from bookpress.config import read_config
from bookpress.facts import Facts, figure

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(p.stem for p in (ROOT / "data/calculators").glob("*.yaml"))


@pytest.fixture
def page(browser, make, tmp_path):
    """A small book with all of our calculators on one page, open in the browser."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    text = "# Calculators\n\n" + "\n\n".join(f'[[ calculator("{name}") ]]' for name in NAMES)
    (tmp_path / "one.md").write_text(text)
    (tmp_path / "book.toml").write_text(
        '[book]\ntitle = "B"\nslug = "b"\nversion = "1"\n[features]\ntemplating = true\n'
        '[[part]]\ntitle = ""\nchapters = ["one.md"]\n'
    )
    config, problems = read_config(tmp_path / "book.toml")
    assert not problems
    book, problems = build.prepare(config, tmp_path / "cache")
    assert not problems
    folder, problems = make(book)
    assert not problems
    browser.get((folder / "one.html").as_uri())
    return browser


def rows(page, name):
    return page.find_elements(By.CSS_SELECTOR, f"#calc-{name} tbody tr")


def test_the_defaults_give_the_printed_results(page):
    for name in NAMES:
        made = define(Facts(ROOT / "data"), name)
        shown = [r.find_elements(By.TAG_NAME, "td")[1].text for r in rows(page, name)][len(made["inputs"]) :]
        assert shown == [figure(row["value"], row["digits"]) for row in made["outputs"]]


def test_typing_computes_again_and_a_wrong_input_gives_no_number(page):
    field = page.find_element(By.CSS_SELECTOR, "#calc-ring-all-reduce input")
    results = page.find_elements(By.CSS_SELECTOR, "#calc-ring-all-reduce [role=status]")
    field.clear()
    field.send_keys("2")
    assert [r.text for r in results] == ["2.000", "4.454", "449.0"]
    field.clear()
    field.send_keys("1")  # one rank has nothing to reduce with
    assert [r.text for r in results] == ["–"] * 3
    assert field.get_attribute("aria-invalid") is not None
    field.clear()
    assert [r.text for r in results] == ["–"] * 3


def test_a_known_value_can_be_chosen(page):
    choice = Select(page.find_element(By.CSS_SELECTOR, "#calc-ring-all-reduce select"))
    before = page.find_element(By.CSS_SELECTOR, "#calc-ring-all-reduce [role=status]").text
    choice.select_by_visible_text("one 400 Gb/s NIC")
    results = [r.text for r in page.find_elements(By.CSS_SELECTOR, "#calc-ring-all-reduce [role=status]")]
    assert results[0] == before
    assert results[1] == "70.070"


def test_browser_and_press_agree_on_random_inputs(page):
    chance = random.Random(7)
    formulas = [
        row["formula"]
        for name in NAMES
        for row in yaml.safe_load((ROOT / f"data/calculators/{name}.yaml").read_text())["outputs"].values()
    ]
    formulas += ["-a ** 2", "a ** -b ** 2", "1 / (a - a)", "max(a, b, 3) - min(a, b) - 1", "ceil(a / b) * floor(a)",
                 "sqrt(a) + log2(b)", "a - b - c", "a / b / c", "1e3 * .5 + a"]  # fmt: skip
    asked = []
    for formula in formulas:
        names = re.findall(r"[A-Za-z_]\w*", formula)
        for _ in range(20):
            asked.append((formula, {n: round(chance.uniform(1, 90), 3) for n in names}))
    found = page.execute_script(
        "return arguments[0].map(([f, v]) => { const x = bookCalculator.evaluate(f, v);"
        " return Number.isFinite(x) ? x : null; })",
        asked,
    )
    for (formula, values), value in zip(asked, found, strict=True):
        ours = evaluate(formula, values)
        assert (value is None and math.isnan(ours)) or math.isclose(value, ours, rel_tol=1e-12), formula


def test_the_form_can_be_used_without_a_mouse_and_by_ear(page):
    for field in page.find_elements(By.CSS_SELECTOR, ".ui-live input, .ui-live select"):
        assert field.accessible_name
        assert field.is_enabled()
