#!/usr/bin/env python3
"""Makes the files that the guides docs/adding-*.md show, so that the suite compiles and runs the code that readers copy.

  extract.py SOURCE_ROOT OUT_DIR LIST DEPFILE PAGE...

A block of a page belongs to the last file that the line before it names in backquotes. ```cpp and ```cuda blocks are whole new
files. A ```diff block changes a file of the tree: "@@" separates its hunks, and the lines that a hunk keeps or removes must occur
in the file exactly once. Sources in a page's table of files that no block changes are compiled unchanged, because they include
changed headers. Everything goes to OUT_DIR under the same path. OUT_DIR precedes the tree in the include path, and its objects
precede the libraries that contain the old ones. LIST gets the files to compile, one path per line. OUT_DIR/wrong.txt gets the
blocks that no longer fit the tree and the files that are missing in a page's table. A test reads it, so an outdated page fails a
test and not the configuration.
"""
import re
import sys
from pathlib import Path

# Lists in meson.build files that the build turns into code: the file, the list, the generated file, its macro, and
# the file that includes it.
GENERATED = [
    ("schema/meson.build", "op_files", "schema/op_files.inc", "GENESIS_OP_FILE", "schema/graph/op.cpp"),
    ("models/meson.build", "family_files", "models/family_files.inc", "GENESIS_FAMILY_FILE", "models/families.cpp"),
    ("backends/meson.build", "cpu_kernel_files", "backends/cpu/kernel_files.inc", "GENESIS_KERNEL_FILE",
     "backends/cpu/kernels.cpp"),
    ("backends/meson.build", "cuda_kernel_files", "backends/cuda/kernel_files.inc", "GENESIS_KERNEL_FILE",
     "backends/cuda/kernels.cpp"),
]


def blocks_of(page):
    """Yields (kind, file, text) of every block with one of our kinds."""
    lines, before, at = page.read_text().splitlines(), "", 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            kind, named = lines[at][3:], re.findall(r"`([^`]+/[^`]+)`", before)
            if kind in ("cpp", "cuda", "diff"):
                yield kind, named[-1] if named else None, lines[at + 1:end]
            at, before = end + 1, ""
        else:
            before = lines[at] or before
            at += 1


def hunks_of(diff):
    hunk = []
    for line in diff + ["@@"]:
        if line.startswith("@@"):
            if hunk:
                yield hunk
            hunk = []
        else:
            hunk.append(line)


def changed(text, diff):
    """Returns the text after the diff. Raises ValueError with the first hunk that does not fit."""
    for hunk in hunks_of(diff):
        old = "".join(line[1:] + "\n" for line in hunk if line[:1] != "+")
        new = "".join(line[1:] + "\n" for line in hunk if line[:1] != "-")
        if ("\n" + text).count("\n" + old) != 1:
            raise ValueError(f"these lines stand there {text.count(old)} times, not once:\n{old}")
        text = ("\n" + text).replace("\n" + old, "\n" + new)[1:]
    return text


class Overlay:
    def __init__(self, root, out):
        self.root, self.out = root, out
        self.texts, self.compiled, self.read, self.wrong = {}, [], [Path(__file__)], []

    def take(self, page):
        self.read.append(page)
        table = [line for line in page.read_text().splitlines() if line.startswith("| `")]
        for kind, name, lines in blocks_of(page):
            if name is None:
                self.wrong.append(f"{page.name}: no file is named before the block that begins with: {lines[0]}")
                continue
            if not any(name.rsplit(".", 1)[0] in line or name in line for line in table):
                self.wrong.append(f"{page.name}: {name} is not in the table of files at its top")
            if kind == "diff":
                self.change(page, name, lines)
            elif (self.root / name).exists():
                self.wrong.append(f"{page.name}: {name} is there already")
            else:
                self.texts[name] = "\n".join(lines) + "\n"
                self.compile(name)
        for name in re.findall(r"`([^`]+\.(?:cpp|cu))`", "\n".join(table)):
            self.compile_anew(name)

    def compile_anew(self, name):
        """Compiles unchanged files of a page's table, since they include changed headers."""
        if name in self.texts or name.startswith("tests/") or not (self.root / name).exists():
            return
        self.read.append(self.root / name)
        self.texts[name] = (self.root / name).read_text()
        self.compile(name)

    def change(self, page, name, lines):
        if not (self.root / name).exists():
            self.wrong.append(f"{page.name}: there is no {name} to change")
            return
        self.read.append(self.root / name)
        try:
            self.texts[name] = changed(self.texts.get(name, (self.root / name).read_text()), lines)
        except ValueError as why:
            self.wrong.append(f"{page.name}: {name}: {why}")
        if not name.startswith("tests/"):  # existing tests run against the unmodified tree
            self.compile(name)

    def compile(self, name):
        if name.endswith((".cpp", ".cu")) and name not in self.compiled:
            self.compiled.append(name)

    def generate(self):
        for build, name, made, macro, user in GENERATED:
            if build in self.texts:
                listed = re.search(rf"^{name} = \[(.*?)^\]", self.texts[build], re.M | re.S).group(1)
                stems = [Path(entry).stem for entry in re.findall(r"^  '([^']+)',", listed, re.M)]
                self.texts[made] = "".join(f"{macro}({stem})\n" for stem in stems)
                self.texts[user] = (self.root / user).read_text()
                self.read.append(self.root / user)
                self.compile(user)

    def write(self):
        self.texts["wrong.txt"] = "".join(line + "\n" for line in self.wrong)
        for name, text in self.texts.items():
            path = self.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != text:
                path.write_text(text)


def main(root, out, sources, depfile, *pages):
    overlay = Overlay(Path(root), Path(out))
    for page in pages:
        overlay.take(Path(page))
    overlay.generate()
    overlay.write()
    Path(sources).write_text("".join(f"{out}/{name}\n" for name in overlay.compiled))
    Path(depfile).write_text(f"{sources}: {' '.join(map(str, overlay.read))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
