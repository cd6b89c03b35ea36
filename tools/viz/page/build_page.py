"""Makes one HTML file from the folder tools/viz/page. esbuild bundles and minifies the scripts; dagre and its dependencies come
from the distribution's packages. The page's Content-Security-Policy allows only its own script and style.

usage: build_page.py OUT.html [--depfile FILE]
       build_page.py --check            prints what is missing and exits with 1 if the tools are not installed

Needs esbuild, and dagre from python3-xstatic-dagre or node-dagre-layout (which installs two hundred packages). All are
packages of Debian 12 and Ubuntu 24.04. Nothing is downloaded.
"""
import argparse
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent
PACKAGES = pathlib.Path("/usr/share/nodejs")
# Possible places of dagre, as one file or as modules. The newer one is tried first.
NODE_DAGRE = PACKAGES / "dagre/index.js"
XSTATIC_DAGRE = pathlib.Path("/usr/lib/python3/dist-packages/xstatic/pkg/dagre/data/dagre.js")
MIT = """Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated \
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the \
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit \
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the \
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE \
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR \
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR \
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""
# The packages that may be bundled, with the copyright line that their license requires.
COPYRIGHTS = {
    "dagre": "Copyright (c) 2012-2014 Chris Pettitt",
    "graphlib": "Copyright (c) 2012-2014 Chris Pettitt",
    "lodash": "Copyright OpenJS Foundation and other contributors <https://openjsf.org/>; its versions before 4: copyright "
    "2012-2015 The Dojo Foundation. Based on Underscore.js, copyright Jeremy Ashkenas, DocumentCloud and Investigative "
    "Reporters & Editors",
}


def missing() -> str | None:
    """Returns the packages that are missing for making a page, as text; None if all are installed."""
    if not shutil.which("esbuild"):
        return "esbuild is missing (package esbuild)"
    return None if NODE_DAGRE.exists() or XSTATIC_DAGRE.exists() else "dagre is missing (package python3-xstatic-dagre)"


def bundle(source: str, work: pathlib.Path, out: str, *options: str) -> list[str]:
    """Bundles a script. Returns the files that it includes."""
    meta = work / "meta.json"
    command = ["esbuild", str(PAGE / source), "--bundle", "--minify", "--format=iife", "--target=chrome103,firefox113,safari16.4",
               "--charset=utf8", "--log-level=warning", "--loader:.txt=text", f"--outfile={work / out}", f"--metafile={meta}", *options]
    subprocess.run(command, check=True, env={**os.environ, "NODE_PATH": str(PACKAGES)})
    return [os.path.abspath(path) for path in json.loads(meta.read_text())["inputs"]]


def notices(inputs: list[str]) -> list[dict]:
    if str(XSTATIC_DAGRE) in inputs:  # one file that contains graphlib and lodash too
        return [notice(name, "in dagre " + re.search(r'module.exports = "([0-9.]+)"', XSTATIC_DAGRE.read_text()).group(1)) for name in COPYRIGHTS]
    used = sorted({pathlib.Path(path).relative_to(PACKAGES).parts[0] for path in inputs if path.startswith(str(PACKAGES))})
    unknown = [name for name in used if name not in COPYRIGHTS]
    if unknown:
        sys.exit(f"build_page.py: no notice is known for what was bundled: {', '.join(unknown)}; add it to COPYRIGHTS")
    return [notice(name, json.loads((PACKAGES / name / "package.json").read_text())["version"]) for name in used]


def notice(name: str, version: str) -> dict:
    return {"name": name, "version": version, "copyright": COPYRIGHTS[name], "license": {"name": "MIT", "text": MIT}}


def style(work: pathlib.Path) -> str:
    subprocess.run(["esbuild", str(PAGE / "page.css"), "--bundle", "--minify", "--log-level=warning", f"--outfile={work / 'page.css'}"], check=True)
    return (work / "page.css").read_text(encoding="utf-8").strip()


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def build(out: pathlib.Path) -> list[str]:
    """Writes the page. Returns all files it was made from."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        dagre = [] if NODE_DAGRE.exists() else [f"--alias:dagre={XSTATIC_DAGRE}", "--define:window=self"]  # workers have no window
        worker_inputs = bundle("graph/layout_worker.js", work, "layout_worker.txt", *dagre)
        (work / "notices.json").write_text(json.dumps(notices(worker_inputs)))
        inputs = bundle("main.js", work, "page.js", *(f"--alias:built/{name}={work / name}" for name in ("layout_worker.txt", "notices.json")))
        script, css = (work / "page.js").read_text(encoding="utf-8").strip(), style(work)
    if "</script" in script or "<!--" in script or "\r" in script:
        sys.exit("build_page.py: the bundled script would end its own element")
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    for mark, text in {"script_hash": digest(script), "style_hash": digest(css), "script": script, "style": css}.items():
        page = page.replace("{{" + mark + "}}", text)
    out.write_text(page, encoding="utf-8")
    return sorted({*worker_inputs, *(path for path in inputs if path.startswith(str(PAGE))), *(str(PAGE / name) for name in ("index.html", "page.css"))})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--depfile", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if missing() or arguments.check:
        sys.exit(missing())
    if not arguments.out:
        parser.error("OUT.html is missing")
    inputs = build(arguments.out)
    if arguments.depfile:
        arguments.depfile.write_text(f"{arguments.out}: {' '.join(inputs)}\n")


main()
