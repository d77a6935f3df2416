"""The page in a real browser: it shows a running stream, its alarms and states, and goes on with the server."""

import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from app.helpers import write_csv
from app.serve.serving import Process, eventually, stream

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
if not (CHROMIUM and DRIVER):
    pytest.skip("needs Debian's chromium and chromium-driver", allow_module_level=True)

from selenium.webdriver.chrome.service import Service as Driver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

# A digest of the pixels of a canvas.
PIXELS = """const c = document.getElementById(arguments[0]);
const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
let h = 0; for (let i = 0; i < d.length; i += 1) h = (31 * h + d[i]) | 0; return h;"""


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-dev-shm-usage",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Driver(DRIVER))
    yield driver
    driver.quit()


class Page:
    def __init__(self, browser, address, width=1280, dark=False):
        self.browser = browser
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get_log("browser")
        browser.get(address)

    def find(self, name):
        return self.browser.find_element(By.ID, name)

    def text(self, name):
        return self.find(name).text

    def pixels(self, name="rows"):
        return self.browser.execute_script(PIXELS, name)

    def script(self, text):
        return self.browser.execute_script(f"return {text}")

    def errors(self):
        """What the browser complains about; that a server is away is what the page itself says."""
        log = self.browser.get_log("browser")
        known = ("ERR_", "getImageData")  # the latter is of this test
        return [
            e
            for e in log
            if e["level"] in ("SEVERE", "WARNING") and not any(k in e["message"] for k in known)
        ]


def teach(process, X, y, targets=None):
    for i in range(0, len(X), 20):
        status, _ = process.ask("/learn", {"rows": X[i : i + 20].tolist(), "targets": y[i : i + 20].tolist()})
        assert status == 200


def test_the_page_shows_a_stream_and_its_alarms_and_goes_on_with_the_server(browser, tmp_path):
    X, y = stream(500, 2)
    process = Process(tmp_path / "m.gp", "--new", "--target", "y,z", "--rank", "20", "--durable")
    try:
        page = Page(browser, process.address)
        eventually(lambda: page.text("status") == "live")
        empty = page.pixels()
        teach(process, X[:200], y[:200])
        eventually(lambda: "200" in page.text("tiles"))
        assert page.pixels() != empty
        assert page.text("alarms") == "none so far"
        teach(process, X[200:300], y[200:300])
        before = page.pixels()
        eventually(lambda: "300" in page.text("tiles"))
        assert len({page.pixels(name) for name in ("rows", "error", "coverage")}) == 3

        spoilt = y[300:320].copy()
        spoilt[7] = 1e6
        teach(process, X[300:320], spoilt)
        eventually(lambda: "refused by the guard" in page.text("alarms"))
        assert page.pixels() != before
        assert "row 308" in page.text("alarms")

        # The second target is another picture.
        first = page.pixels()
        browser.execute_script(
            "const s = document.getElementById('target'); s.value = '1'; s.dispatchEvent(new Event('change'))"
        )
        assert page.pixels() != first

        # Paused, nothing moves; afterwards what came meanwhile is there.
        page.find("pause").click()
        still = page.pixels()
        teach(process, X[320:400], y[320:400])
        eventually(lambda: page.script("latest.rows === undefined && latest.points.at(-1)[0]") == 400)
        assert page.pixels() == still
        assert page.text("status") == "paused"
        page.find("pause").click()
        assert page.pixels() != still

        process.kill()
        eventually(lambda: "away" in page.text("status"))
        assert page.find("status").get_attribute("class") == "failing"
        process.start()
        eventually(lambda: page.text("status") == "live")
        teach(process, X[400:], y[400:])
        eventually(lambda: page.script("shown.points.at(-1)[0]") == 500)
        assert page.script("shown.points.map(p => p[0])") == list(range(1, 501))
        measured = np.array(page.script("shown.points.slice(-100).map(p => p[2])"))
        assert np.allclose(measured, y[400:], rtol=1e-5)
        assert page.errors() == []
    finally:
        process.stop()


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    process = Process(tmp_path_factory.mktemp("page") / "m.gp", "--new", "--target", "y", "--rank", "10")
    teach(process, *stream(100))
    yield process
    process.stop()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_a_phone_follows_the_colours_and_answers_to_the_keyboard(browser, taught, width, dark):
    page = Page(browser, taught.address, width, dark)
    eventually(lambda: "100" in page.text("tiles"))
    assert page.script("document.documentElement.scrollWidth") <= width
    paper = json.loads("[" + page.script("getComputedStyle(document.body).backgroundColor")[4:-1] + "]")
    assert (sum(paper) < 150) == dark
    chart = page.find("rows")
    chart.send_keys(Keys.END)
    assert page.text("rows-said").startswith("row 100,")
    chart.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert page.text("rows-said").startswith("row 98,")
    assert "interval" in page.text("rows-said")
    chart.send_keys("p")
    assert page.find("pause").get_attribute("aria-pressed") == "true"
    # What a screen reader gets: names of the pictures, a log of alarms, a table of the rows.
    named = browser.find_elements(By.CSS_SELECTOR, "canvas, select, button, progress")
    assert all(element.accessible_name for element in named if element.is_displayed())
    assert page.find("alarms").aria_role == "log"
    browser.execute_script("document.querySelector('details').open = true")
    eventually(lambda: page.text("last").startswith("row measured predicted low high"))
    assert page.errors() == []


def test_a_server_that_falls_silent_without_a_word_counts_as_away(browser, tmp_path):
    """Stopped, not ended: its connections stay open, as those of a machine that lost its network."""
    process = Process(tmp_path / "m.gp", "--new", "--target", "y")
    try:
        page = Page(browser, process.address)
        eventually(lambda: page.text("status") == "live")
        browser.execute_script("patience = 800")
        teach(process, *stream(20))
        process.process.send_signal(signal.SIGSTOP)
        eventually(lambda: "away" in page.text("status"))
        process.process.send_signal(signal.SIGCONT)
        eventually(lambda: page.text("status") == "live")
    finally:
        process.process.send_signal(signal.SIGCONT)
        process.stop()


def test_the_page_asks_for_the_token_and_loads_nothing_from_elsewhere(browser, tmp_path):
    process = Process(tmp_path / "m.gp", "--new", "--target", "y", "--token", "a-long-token")
    try:
        page = Page(browser, process.address)
        eventually(lambda: page.find("token").is_displayed())
        page.find("secret").send_keys("a-long-token", Keys.ENTER)
        eventually(lambda: page.text("status") == "live")
        assert not page.find("token").is_displayed()
        loaded = page.script("performance.getEntriesByType('resource').map(e => e.name)")
        assert loaded
        assert all(name.startswith((process.address, "data:")) for name in loaded)
    finally:
        page.script("sessionStorage.clear()")
        process.stop()


def test_a_run_from_a_file_is_shown_until_it_is_ended(browser, tmp_path):
    write_csv(tmp_path / "t.csv", 300, l100="1,2,3,oops")
    command = [
        sys.executable,
        "-m",
        "streamgp",
        "run",
        str(tmp_path / "t.csv"),
        "--target",
        "y",
        "--rank",
        "20",
    ]
    command += ["--live", "--live-port", "0", "--on-error", "skip", "--save", str(tmp_path / "m.gp")]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = run.stderr.readline().split()[1]
        page = Page(browser, address)
        eventually(lambda: page.script("shown.points.length") == 299)
        assert page.text("source") == str(tmp_path / "t.csv")
        eventually((tmp_path / "m.gp").exists)  # results are written before the page ends
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=30)[1]
        assert run.returncode == 0, said
        assert "299 learned" in said
    finally:
        run.kill()
