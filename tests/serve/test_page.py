"""The page in a real browser: every view is driven by typing and clicking, and shows the answer of the API.

Needs Playwright and a Chromium (`make screenshots` installs the former and takes the system's). LITEBERT_SCREENSHOTS
names a folder for pictures, LITEBERT_AXE the file axe.min.js, which then looks for what shuts people out.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from litebert.inference.load import load
from tests.conftest import need
from tests.serve.test_labs import make_lab
from tests.serve.test_server import serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHOTS = os.environ.get("LITEBERT_SCREENSHOTS")
SHOWN = ("similarity-light", "search-light", "model-light", "phone")
"""The pictures that the documentation keeps."""
AXE = os.environ.get("LITEBERT_AXE")


@pytest.fixture(scope="module")
def address(model_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need("playwright")
    if CHROMIUM is None:
        pytest.skip("needs a Chromium: apt-get install chromium")
    index = tmp_path_factory.mktemp("page") / "places"
    load().index(["The harbour lies in the north.", "Lunch is served at noon.", "Trains leave every hour."], index)
    models = [f"{name}={folder}" for name, folder in model_folders.items()]
    runs = tmp_path_factory.mktemp("watched")
    for name in ("classification", "pairs", "tagging"):
        (runs / name).symlink_to(model_folders[name])
    make_lab(runs / "labs" / "sharing and size")
    make_lab(runs / "later", "| a | b |\n|-|-|\n| only | this |\n")
    os.utime(runs / "later" / "results.json", (0, 0))
    with serving("litebert-en", *models, str(index), "--runs", str(runs)) as (address, _):
        yield address


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Driven:
    """A page that notes what goes wrong on it."""

    def __init__(self, browser: Any, address: str, **how: Any) -> None:
        self.context = browser.new_context(**how)
        self.page = self.context.new_page()
        self.address, self.problems = address, list[str]()
        self.page.on("console", lambda message: self._note(message))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self._check(request.url))

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _check(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.problems.append(f"asked for {url}")

    def open(self, view: str) -> Any:
        self.page.goto(f"{self.address}/#/{view}")
        self.page.reload()
        self.page.wait_for_load_state("networkidle")
        return self.page

    def finish(self, name: str) -> None:
        """Nothing may have gone wrong; take a picture, and look for what shuts people out."""
        if SHOTS and name in SHOWN:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)
        if AXE:
            self.page.evaluate(Path(AXE).read_text(encoding="utf-8") + ";0")
            found = self.page.evaluate("axe.run().then(found => found.violations)")
            serious = [one["id"] for one in found if one["impact"] in ("serious", "critical")]
            assert not serious, json.dumps([one for one in found if one["id"] in serious], indent=1)[:3000]
        assert not self.problems
        self.context.close()


@pytest.fixture(params=["light", "dark"])
def driven(browser: Any, address: str, request: pytest.FixtureRequest) -> Driven:
    return Driven(browser, address, color_scheme=request.param, viewport={"width": 1200, "height": 800})


def name_of(driven: Driven, name: str) -> str:
    return f"{name}-{'dark' if driven.page.evaluate('matchMedia(`(prefers-color-scheme: dark)`).matches') else 'light'}"


def ask(driven: Driven, view: str, **fields: str) -> Any:
    """Open a view, type into its fields, press Run, and give what it shows."""
    page = driven.open(view)
    for field, text in fields.items():
        page.fill(f"[name={field}]", text)
    page.click("button.main")
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("#results[aria-busy=false] p.soft:last-child:has-text(' ms')")
    return page


def test_similarity_as_a_heat_map(driven: Driven) -> None:
    page = ask(driven, "play/similarity?model=litebert-en", texts="a cat sleeps\nthe kitten is asleep\nprices rose")
    cells = [[float(cell) for cell in row.split("\t")[1:]] for row in page.inner_text("#results tbody").splitlines()]
    encoder = load()
    expected = encoder.similarity(["a cat sleeps"], ["the kitten is asleep", "prices rose"])[0]
    assert cells[0][1:] == [pytest.approx(float(one), abs=0.006) for one in expected]
    driven.finish(name_of(driven, "similarity"))


def test_search_in_texts_and_in_an_index(driven: Driven) -> None:
    page = ask(driven, "play/search?model=litebert-en", query="something to eat", texts="a bank\na good meal\na train")
    assert page.inner_text("#results li:first-child").startswith("a good meal")
    page.select_option("form select", "places")
    page.click("button.main")
    page.wait_for_selector("#results li:has-text('Lunch is served')")
    assert "Lunch is served" in page.inner_text("#results li:first-child")
    driven.finish(name_of(driven, "search"))


def test_what_models_were_trained_for(browser: Any, address: str, model_folders: dict[str, Path]) -> None:
    driven = Driven(browser, address)
    text = "two sailors crossed the bridge"
    page = ask(driven, "play/classify?model=classification", text=text)
    label = load(model_folders["classification"]).classify(text)
    assert page.inner_text("#results .bar:first-child span:first-child") == label.label
    page = ask(driven, "play/tag?model=tagging", text=text)
    tags = load(model_folders["tagging"]).tag(text)
    assert all(word in page.inner_text("#results p") for word in tags.words)
    context = "two sailors 🙂 crossed the bridge in 1984 ."
    page = ask(driven, "play/answer?model=questions", question="when", context=context)
    answer = load(model_folders["questions"]).answer("when", context)
    assert page.inner_text("#results mark").strip() == " ".join(answer.text.split())
    page = ask(driven, "play/choose?model=choice", passage="nobody", question="who", options="nobody\na café")
    assert page.locator("#results .bar").count() == 2
    page = ask(driven, "play/fill-mask?model=pretrained", text="the [MASK] river")
    assert page.locator("#results .bar").count() == 8
    page = ask(driven, "play/order?model=pretrained", first="nobody", second="a café")
    share = load(model_folders["pretrained"]).order("nobody", "a café")
    assert f"{share:.1%}".replace("%", " %") in page.inner_text("#results")
    page = ask(driven, "play/predict?model=regression", text=text)
    value = load(model_folders["regression"]).predict(text)
    assert f"{value:.3f}" in page.inner_text("#results")
    page = ask(driven, "play/tokens?model=classification", text=text)
    assert page.locator("#results .tokens span").count() > 4
    assert "What it says after each pass" in page.inner_text("#results")
    driven.finish("tokens")


def test_the_model_is_drawn_and_a_link_shows_it_again(driven: Driven) -> None:
    page = driven.open("model?model=litebert-en")
    assert page.locator(".layer").count() == 2 + 6
    assert "5,982,304" in page.inner_text("main")
    page.fill("form input", "a cat sleeps")
    page.click("button.main")
    page.wait_for_selector("#attention th:has-text('cat')")
    page.select_option("select[aria-label=Head]", "3")
    link = page.url
    assert "head=3" in link
    assert "a+cat+sleeps" in link
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#attention th:has-text('cat')")
    assert page.input_value("form input") == "a cat sleeps"
    assert page.input_value("select[aria-label=Head]") == "3"
    driven.finish(name_of(driven, "model"))


def test_runs_are_drawn_side_by_side(driven: Driven) -> None:
    page = driven.open("runs")
    for box in page.locator(".runs input").all()[:2]:
        box.check()
    page.wait_for_selector("h3:has-text('Where their settings differ')")
    assert page.locator("#charts svg").count() > 0
    assert page.locator(".legend span").count() == 2
    driven.finish(name_of(driven, "runs"))


def test_grids_of_the_lab_are_shown_and_their_reports_opened(driven: Driven) -> None:
    page = driven.open("runs")
    page.wait_for_selector("#tables table")
    assert page.input_value("#lab") == "labs/sharing and size"
    assert page.inner_text("#tables h3") == "Sharing and size"
    rows = [row.split("\t") for row in page.inner_text("#tables tbody").splitlines()]
    assert rows[:2] == [["all shared", "6", "88.1"], ["none | attention", "6", "87.9"]]
    assert rows[2] == ["<img src=x onerror=alert(1)>", "6", "[a](javascript:alert(2))"]
    assert page.inner_text("#tables strong") == "88.1"
    assert page.locator("#tables img, #tables td a").count() == 0
    with driven.context.expect_page() as opened:
        page.click("#tables a")
    report = opened.value
    report.wait_for_load_state()
    assert report.title() == "a grid", "its script ran"
    assert report.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(1, 2, 3)"
    report.close()
    page.select_option("#lab", "later")
    page.wait_for_selector("#tables td:has-text('only')")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#tables td:has-text('only')")
    assert page.input_value("#lab") == "later"
    driven.finish(name_of(driven, "lab"))


def test_the_api_is_described(driven: Driven) -> None:
    page = driven.open("api")
    assert "POST /v1/embeddings" in page.inner_text("main")
    driven.finish(name_of(driven, "api"))


def test_a_phone_and_a_keyboard_are_enough(browser: Any, address: str) -> None:
    driven = Driven(browser, address, viewport={"width": 375, "height": 700}, has_touch=True)
    page = driven.open("play/similarity?model=litebert-en")
    for view in ("play/similarity?model=litebert-en", "play/search", "model?model=litebert-en", "runs", "api"):
        driven.open(view)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, f"{view} is {width} wide"
    page = driven.open("play/search?model=litebert-en")
    page.focus("[name=query]")
    page.keyboard.press("Control+A")
    page.keyboard.type("when do parcels come?")
    page.keyboard.press("Enter")
    page.wait_for_load_state("networkidle")
    assert "when+do+parcels+come" in page.url
    driven.finish("phone")


def test_examples_are_in_the_language_of_the_model(browser: Any, address: str) -> None:
    driven = Driven(browser, address)

    def claim_korean(route: Any) -> None:
        found = route.fetch().json()
        for model in found["data"]:
            model["languages"] = ["ko"]
        route.fulfill(json=found)

    driven.page.route("**/v1/models", claim_korean)
    page = driven.open("play/order?model=pretrained")
    assert page.input_value("[name=first]") == "그는 아침 일찍 일어났다."
    assert page.get_attribute("[name=first]", "lang") == "ko"
    page.fill("[name=second]", "")
    page.click(".examples button:has-text('한국어')")
    page.wait_for_selector("#results .bar:has-text('그리고 회사에 갔다.')")
    missing = "Object.values(EXAMPLES).flatMap((one) => Object.keys(TRIES).filter((name) => !one[name]))"
    assert page.evaluate(missing) == [], "each thing to try has an example in each language"
    driven.finish("korean")


def test_what_goes_wrong_is_said_on_the_page(browser: Any, address: str) -> None:
    driven = Driven(browser, address)
    page = driven.open("play/fill-mask?model=pretrained")
    page.fill("[name=text]", "no gap here")
    page.click("button.main")
    page.wait_for_selector("#results [role=alert]")
    assert "[MASK]" in page.inner_text("#results")
    driven.problems = [one for one in driven.problems if "400" not in one]  # the browser's own note of the answer
    driven.finish("mistake")


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(browser: Any, address: str) -> None:
    driven = Driven(browser, address)
    page = driven.open("play/similarity?model=litebert-en")
    page.wait_for_selector("#results[aria-busy=false]")
    waiting: list[Any] = []
    page.route("**/v1/similarity", lambda route: waiting.append(route))
    for text in ("the older question", "the newer question"):
        page.fill("[name=texts]", text)
        with page.expect_request("**/v1/similarity"):
            page.click("button.main")
    assert page.get_attribute("#results", "aria-busy") == "true"
    for route in reversed(waiting):
        with page.expect_event("requestfinished"):
            route.continue_()
    page.wait_for_selector("#results[aria-busy=false] th:has-text('the newer question')")
    page.wait_for_load_state("networkidle")
    assert "older" not in page.inner_text("#results")
    driven.finish("late")


def test_text_is_never_taken_for_html(browser: Any, address: str) -> None:
    driven = Driven(browser, address)
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    page = ask(driven, "play/similarity?model=litebert-en", texts=f"{hostile}\n</textarea>{hostile}")
    assert page.locator("#results img, #results script").count() == 0
    assert hostile in page.inner_text("#results")
    driven.finish("hostile")
