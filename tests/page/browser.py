"""A headless Chromium with a page, for the page's tests and the screenshots of the README.

Needs the distribution's chromium, chromium-driver and python3-selenium.
"""
import pathlib
import shutil
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By


def is_there() -> bool:
    return all(shutil.which(program) for program in ("chromium", "chromedriver"))


class Browser:
    """A browser with one window. `run` evaluates JavaScript; `find` and `texts` take CSS selectors."""

    def __init__(self, width: int = 1280, height: int = 720, dark: bool = False, downloads: pathlib.Path | None = None):
        options = Options()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
                         "--disable-dev-shm-usage", "--disable-background-networking", *(["--force-dark-mode"] if dark else [])):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        if downloads:
            options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, page: pathlib.Path, seconds: float = 300) -> float:
        """Opens a page and waits until it shows a view. Returns the seconds that this took."""
        start = time.monotonic()
        self.driver.get(pathlib.Path(page).resolve().as_uri())
        self.wait("document.body.dataset.ready", seconds)
        return time.monotonic() - start

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, seconds: float = 300):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(f"return {condition}")
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"after {seconds} s still not: {condition}; the console says {self.console()}")

    def drawn(self):
        """Waits until the canvas of the graph is completely drawn."""
        self.wait("document.querySelector('.graph-canvas').dataset.complete === 'true'")

    def find(self, selector: str):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map((found) => found.textContent)", selector)

    def click(self, selector: str, text: str | None = None):
        for found in self.find(selector):
            if text is None or found.text.strip().startswith(text):
                found.click()
                return found
        raise AssertionError(f"no {selector} with the text {text!r}; there are {self.texts(selector)}")

    def tab(self, name: str):
        self.click(f"#tab-{name}")
        self.wait(f"document.body.dataset.ready === '{name}'")

    def keys(self, *keys: str):
        ActionChains(self.driver).send_keys(*keys).perform()

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def screenshot(self, path: pathlib.Path):
        self.driver.save_screenshot(str(path))

    def close(self):
        self.driver.quit()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
