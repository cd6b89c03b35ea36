"""Base class of the page's browser tests: one Chromium per class, pages with samples, and a check after every test that the
console is empty and that no request was made."""
import importlib.util
import json
import sys
import unittest

from pages import Pages

try:
    from selenium.webdriver.common.keys import Keys
except ModuleNotFoundError:
    Keys = None  # main() skips the tests

kSkipped = 77  # meson's exit code for "skipped"


def main():
    """Runs the tests of the calling module; skips them without a browser."""
    missing = [package for package, there in (("python3-selenium", importlib.util.find_spec("selenium")), ("chromium and chromium-driver", _browser_is_there())) if not there]
    if missing:
        print(f"skipped: the page is tested in a real browser, and these packages are missing: {', '.join(missing)}")
        sys.exit(kSkipped)
    unittest.main(verbosity=2)


def _browser_is_there() -> bool:
    if not importlib.util.find_spec("selenium"):
        return True
    import browser
    return browser.is_there()


class PageCase(unittest.TestCase):
    width, height, dark = 1280, 720, False

    @classmethod
    def setUpClass(cls):
        from browser import Browser
        cls.pages = Pages()
        cls.browser = Browser(cls.width, cls.height, cls.dark)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.browser.console()
        self.browser.driver.get_log("performance")

    def tearDown(self):
        self.assertEqual(self.browser.console(), [], "the console is not empty")
        self.assertEqual(self.requests(), [], "the page asked for something")

    def requests(self) -> list[str]:
        """Returns requested addresses, except the page itself and its own objects."""
        asked = []
        for entry in self.browser.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return [url for url in asked if not url.startswith(("file:///", "blob:", "data:"))]

    def open(self, name: str, size: int | None = None) -> float:
        return self.browser.open(self.pages.sample(name, size))
