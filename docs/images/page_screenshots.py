#!/usr/bin/env python3
"""Makes the screenshots of the visualizer's page in docs/tour.md.

  docs/images/page_screenshots.py BUILD [FOLDER]

BUILD is the folder that Genesis was built in; FOLDER is where the pictures go, docs/images when not given. The model is a
Qwen2 of 24 layers, small enough to train one step of; its page has the author's graph, the memory plan and measured times.
Needs the distribution's chromium, chromium-driver and python3-selenium: run it with /usr/bin/python3. Times differ from run
to run, so no test holds these pictures against anything.
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/page"))
from browser import Browser  # noqa: E402

SIZES = ["--size", "batch=4", "--size", "seq=128"]
MODEL = ["hidden_size=256", "intermediate_size=704", "num_hidden_layers=24", "num_attention_heads=4", "num_key_value_heads=2"]


def page(tools: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """A training step with its plan and measured times."""
    def run(tool, *arguments):
        subprocess.run([tools / tool, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    run("genesis-build", "qwen2", *(word for setting in MODEL for word in ("--set", setting)), "-o", work / "qwen2.genesis", "--quiet")
    run("genesis-opt", work / "qwen2.genesis", "--train", "adamw,clip=1.0", "-o", work / "train.genesis", "--quiet")
    run("genesis-run", "profile", work / "train.genesis", "--entry", "train_step", *SIZES, "-o", work / "run.html")
    return work / "run.html"


def optimized(picture: pathlib.Path):
    """Fewer colors where pngquant is there; a browser's PNG is larger than it need be."""
    try:
        subprocess.run(["pngquant", "--force", "--skip-if-larger", "--output", picture, "128", picture], check=False)
    except FileNotFoundError:
        pass


def shoot(browser: Browser, out: pathlib.Path):
    browser.run("return genesis.graph.use(0, genesis.entry, 0)")
    layer = browser.run("const h = genesis.graph.hierarchy; return h.graph.page.names && [...Array(h.graph.size).keys()].find((i) => h.graph.nodeName(i).endsWith('layers.1.self_attn.attention'))")
    browser.run("return genesis.graph.go(arguments[0])", layer)
    browser.run("const view = genesis.graph.view; view.zoomAt(0.8)")
    browser.wait("performance.now() - genesis.graph.view.lastZoom > 300")
    browser.drawn()
    browser.screenshot(out / "page_graph.png")
    browser.tab("memory")
    browser.wait("document.querySelector('.block-canvas').dataset.drawn")
    browser.screenshot(out / "page_memory.png")
    browser.tab("time")
    browser.wait("document.querySelector('.time .block-canvas').dataset.drawn")
    browser.run("const canvas = document.querySelector('.time .block-canvas'); for (let i = 0; i < 8; ++i) canvas.dispatchEvent(new KeyboardEvent('keydown', {key: '+'}))")
    browser.run("return new Promise((resolve) => setTimeout(resolve, 300))")
    browser.screenshot(out / "page_time.png")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else HERE)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        browser.open(page(pathlib.Path(sys.argv[1]).resolve() / "tools", pathlib.Path(folder)), 60)
        browser.tab("graph")
        browser.drawn()
        shoot(browser, out)
    for name in ("graph", "memory", "time"):
        optimized(out / f"page_{name}.png")


main()
