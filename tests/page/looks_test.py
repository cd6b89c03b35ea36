"""Tests roughly that the page's views look as before: compares each screenshot as 32 x 18 shades of gray with looks.json. Fonts
and browsers may differ a little; a view that is empty, broken or in the wrong colors is far off.

  GENESIS_PAGE=build/tools/viz/page/page.html tests/page/looks_test.py --write      writes a new looks.json, to be checked by eye
"""
import json
import pathlib
import sys

from page_case import PageCase, main

LOOKS = pathlib.Path(__file__).resolve().parent / "looks.json"
VIEWS = {"training": ["graph", "memory", "time", "training", "numerics", "model"], "difference": ["difference"], "ranks": ["time"], "nonfinite": ["numerics"]}
WIDE, HIGH = 32, 18
MOST_OF_ALL, MOST_OF_ONE, FAR = 6, 60, 0.04  # limits of a 0-255 scale: mean difference; difference that counts as far
                                             # in a cell; and the share of cells that may be far

# Computes the shades of a screenshot in the browser, whose canvas averages pixels.
SHADES = """
    const [picture, wide, high] = arguments, done = arguments[3], image = new Image();
    image.onload = () => {
      const canvas = document.createElement('canvas'), context = canvas.getContext('2d');
      [canvas.width, canvas.height] = [wide, high];
      context.imageSmoothingQuality = 'high';
      context.drawImage(image, 0, 0, wide, high);
      const { data } = context.getImageData(0, 0, wide, high);
      done(Array.from({ length: wide * high }, (_, i) => Math.round(0.3 * data[4 * i] + 0.59 * data[4 * i + 1] + 0.11 * data[4 * i + 2])));
    };
    image.src = 'data:image/png;base64,' + picture;"""


class Looks(PageCase):
    scheme = "light"

    def shades(self, sample: str, view: str) -> list[int]:
        self.open(sample)
        self.browser.tab(view)
        if view == "graph":
            self.browser.drawn()
        self.browser.run("return new Promise((resolve) => setTimeout(resolve, 400))")
        picture = self.browser.driver.get_screenshot_as_base64()
        self.browser.driver.get("about:blank")
        return self.browser.driver.execute_async_script(SHADES, picture, WIDE, HIGH)

    def test_views_look_as_they_did(self):
        known = json.loads(LOOKS.read_text()) if LOOKS.exists() else {}
        for sample, views in VIEWS.items():
            for view in views:
                name = f"{self.scheme} {sample} {view}"
                seen = self.shades(sample, view)
                if "--write" in ARGUMENTS:
                    known[name] = bytes(seen).hex()
                    continue
                with self.subTest(name):
                    apart = [abs(a - b) for a, b in zip(seen, bytes.fromhex(known[name]), strict=True)]
                    self.assertLess(sum(apart) / len(apart), MOST_OF_ALL)
                    self.assertLessEqual(sum(one > MOST_OF_ONE for one in apart), FAR * len(apart))
                    self.assertGreater(max(seen) - min(seen), 20, "nothing is on it")
        if "--write" in ARGUMENTS:
            LOOKS.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")


class DarkLooks(Looks):
    dark, scheme = True, "dark"


if __name__ == "__main__":
    ARGUMENTS = [sys.argv.pop() for word in sys.argv[1:] if word == "--write"]
    main()
