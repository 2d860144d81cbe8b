"""Number fields in a browser: they say what the judge in a notebook says, to everybody."""

from pathlib import Path

import pytest
from browsing import Tab
from playwright.sync_api import expect
from site_pages import LOOKS, accessible

from clcore.book import exercises
from clcore.book.exercises import mistakes
from clcore.book.site import fields

pytestmark = [pytest.mark.site, pytest.mark.browser]

NAMES = [name for name, field in fields.read()["exercises"].items() if "at" not in field]
# What is no number is a text for the judge, too.
WORDLESS = ("", "abc", "1,5", "1/0", "1/2/3", "NaN", "Infinity", "0x10", "1e999", "5.5 5")
INVERSE = {
    "times": lambda t, by: t / by,
    "over": lambda t, by: t * by,
    "into": lambda t, by: by / t,
    "from": lambda t, by: by - t,
    "root": lambda t, _: t * t,
    "square": lambda t, _: abs(t) ** 0.5,
}
TYPE = """
async ([name, texts]) => {
  const form = document.querySelector(`.cl-field[data-exercise="${name}"]`);
  const [input, status] = [form.querySelector("input"), form.querySelector("[role=status]")];
  const said = [];
  for (const text of texts) {
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    form.requestSubmit();
    while (!status.textContent) await new Promise((go) => setTimeout(go, 1));
    said.push([status.textContent, status.dataset.kind, input.getAttribute("aria-invalid")]);
  }
  return said;
}
"""


def page_of(name: str, site: Path) -> str:
    (page,) = (
        p for p in (site / "chapters").glob("*.html") if f'data-exercise="{name}"' in p.read_text()
    )
    return f"chapters/{page.name}"


def numbers(name: str) -> list[float]:
    """Right ones to the edge, each usual mistake, answers that the judge refuses, others."""
    found = exercises.known(name)
    truth, within = float(found.truth()), found.bound
    tried = [truth, float(f"{truth:.3g}"), 0.0, 1.5 * truth, -3.7, 1e-9, 1e300]
    tried += [truth * (1 + share * within) for share in (-1.3, -1.01, -0.99, 0.99, 1.001, 1.3)]
    for _, operation, number in mistakes.NUMBERS:
        mistaken = INVERSE[operation](truth, number)
        tried += [mistaken, mistaken * (1 + within / 3), mistaken * (1 + 3 * within)]
    return tried + [float(wrong) for wrong in found.wrong]


@pytest.mark.parametrize("name", NAMES)
def test_page_and_judge_agree(tab: Tab, site: Path, name: str, monkeypatch) -> None:
    monkeypatch.setattr(mistakes, "_PATIENCE", 60.0)
    tab.open(page_of(name, site))
    tried = numbers(name)
    said = tab.page.evaluate(TYPE, [name, [repr(number) for number in tried]])
    for number, (words, kind, invalid) in zip(tried, said, strict=True):
        judged = exercises.verdict(name, number)
        assert (kind, invalid) == (("good", "false") if judged.right else ("bad", "true")), number
        if "may help" in words:  # the page cannot tell how far off a number is that is not near
            assert "off by" in judged.told or "not right; it asks" in judged.told, number
        else:
            assert words == judged.told, number
    for text, (words, kind, _) in zip(
        WORDLESS, tab.page.evaluate(TYPE, [name, list(WORDLESS)]), strict=True
    ):
        assert kind == "bad" and "expected a number with a decimal point" in words, text
        assert not exercises.verdict(name, text).right
    assert tab.problems == []


def test_one_value_of_a_function_is_checked(tab: Tab, site: Path) -> None:
    tab.open(page_of("ex-relu-5", site))
    tab.page.get_by_label("Your answer to Exercise 3.1.2 at a = 2.5, within 1 per cent").focus()
    texts = ["0.758", "0.242", "75.8", "0.5", "0.77"]
    said = [words for words, _, _ in tab.page.evaluate(TYPE, ["ex-relu-5", texts])]
    assert said == [
        "Exercise 3.1.2: right.",
        "Exercise 3.1.2: it is one minus the right value.",
        "Exercise 3.1.2: it is the answer in per cent; a share is asked for.",
        "Exercise 3.1.2: not right; the hint above may help.",
        "Exercise 3.1.2: near, but off by 1.62 per cent (allowed: 1).",
    ]
    assert tab.problems == []


def test_a_right_number_each_usual_mistake_and_others_are_told_apart() -> None:
    """The numbers above are what they are called: chapter 0's first question shows them all."""
    told = {exercises.verdict("ex-start-1", number).told for number in numbers("ex-start-1")}
    assert all(any(words in one for one in told) for words, _, _ in mistakes.NUMBERS)
    assert "Exercise 0.1: right." in told and any("off by" in one for one in told)


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_it_is_used_by_keyboard_and_read_out(tab: Tab, site: Path) -> None:
    page = tab.page
    tab.open(page_of("ex-start-1", site))
    field = page.get_by_label("Your answer to Exercise 0.1, within 1 per cent")
    status = page.locator("#field-ex-start-1-said")
    expect(page.locator(".cl-field-else").first).to_be_hidden()
    field.focus()
    page.keyboard.type("8")
    page.keyboard.press("Enter")
    expect(status).to_have_text(
        "Exercise 0.1: it has the logarithm to base 2; the natural one is meant."
    )
    assert status.get_attribute("role") == "status"
    assert field.get_attribute("aria-describedby") == status.get_attribute("id")
    field.fill("\u22125.545")
    expect(status).to_have_text("")
    assert field.get_attribute("aria-invalid") is None
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(status).to_have_text("Exercise 0.1: it has the opposite sign.")
    field.fill("111/20")
    field.press("Enter")
    expect(status).to_have_text("Exercise 0.1: right.")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    button = page.locator(".cl-field").first.get_by_role("button", name="Check")
    for element in (field, button):
        assert element.bounding_box()["height"] >= 44
    accessible(tab, page_of("ex-start-1", site))


@pytest.mark.parametrize(
    "tab", [pytest.param({"java_script_enabled": False}, id="no script")], indirect=True
)
def test_without_a_script_the_page_says_where_else(tab: Tab, site: Path) -> None:
    tab.page.goto(tab.address + page_of("ex-start-1", site))
    expect(tab.page.locator(".cl-field").first).to_be_hidden()
    expect(tab.page.locator(".cl-field-else").first).to_contain_text("run the line above")


def test_without_digests_the_page_says_where_else(tab: Tab, site: Path) -> None:
    """As from another computer by http."""
    tab.page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
    tab.open(page_of("ex-start-1", site))
    expect(tab.page.locator(".cl-field").first).to_be_hidden()
    expect(tab.page.locator(".cl-field-else").first).to_be_visible()


def test_on_paper_there_is_no_field(tab: Tab, site: Path) -> None:
    tab.open(page_of("ex-start-1", site))
    tab.page.emulate_media(media="print")
    expect(tab.page.locator(".cl-field").first).to_be_hidden()
    expect(tab.page.locator(".cl-field-else").first).to_be_hidden()
