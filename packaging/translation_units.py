#!/usr/bin/env python3
"""Merges sources into few translation units ("unity build"), so that a header that many of them read is compiled once for all.

  translation_units.py OUT_DIR LIMIT NAME FOLDER SOURCES

SOURCES are paths below FOLDER, one a line, in one argument: Meson would configure again whenever a file changes that is an
argument of its own. Writes OUT_DIR/NAME_0.cpp (or .cu), NAME_1.cpp, ..., each of which includes up to LIMIT sources, and prints their paths, one a
line. Two sources that give the same name to something that only they see (in an unnamed namespace, `static` or `#define`) go
into different units, so nobody has to choose names with other files in mind. Sources that are compiled once for each
instruction set stay alone. With a LIMIT of 1 nothing is merged: the sources themselves are printed.

A source stays in the unit where an earlier run put it, so that a new file does not compile all others again. Who changes
a source often writes its path below the project into OUT_DIR/alone, one a line: it is compiled by itself from then on.
"""
import re
import sys
from pathlib import Path

COMMENT_OR_TEXT = re.compile(
    r'R"([^(\s]*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])*\'', re.S)
ALONE = re.compile(r"^\s*#\s*(?:define\s+HWY_TARGET_INCLUDE|pragma\s+GCC\s+target)", re.M)
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)", re.M)
DIRECTIVE = re.compile(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", re.M)
# These match a statement between two braces or semicolons of a namespace that declares a name: `struct X`, `int x =`, `void f(`.
TYPE = re.compile(r"\b(?:struct|class|enum|union|using|concept)\s+(?:class\s+)?(\w+)\s*(?:final\s*)?(?:$|[:=;{])")
FUNCTION = re.compile(r"(?<![:\w.>])(\w+|operator\s*\S+?)\s*\(")
VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*=(?!=)")
VARIABLE_WITHOUT_VALUE = re.compile(r"(?<!:)\b(\w+)\s*(?:\[[^\]]*\]\s*)*$")
# TEST(...) and other macros declare something with a name of its own in each file.
NO_NAME = re.compile(r"\d.*|[A-Z_0-9]+|const|override|default|delete|noexcept|sizeof")
ATTRIBUTE = re.compile(r"\b(?:decltype|alignas|requires|__attribute__|__launch_bounds__|noexcept|sizeof)\s*\(+[^()]*\)+")
INTERNAL = re.compile(r"\b(?:static|constexpr|const)\b")
ALIAS = re.compile(r"using\s+\w+\s*=|namespace\s+\w+\s*=")
NO_OWN_NAME = re.compile(r"using\s+namespace\b|using\s+[\w:]+$|static_assert\b|template\s*<[^{}]*>\s*struct\s+\w+\s*<")
USE = re.compile(r"\bTEST\w*\(\s*(\w+)|(?<![\w.:>])(\w+)(?=\s*[(<{])|\b(k[A-Z]\w*)")
NAMESPACE = re.compile(r"\bnamespace\b([\w:\s]*)$")


def names_declared_by(statement):
    """The names that a statement at the level of a namespace declares, maybe with some that only occur in it."""
    kind = TYPE.search(statement)
    if kind and "(" not in statement[:kind.start()]:
        return [kind.group(1)]
    function = FUNCTION.search(ATTRIBUTE.sub("", statement.split("=")[0]))
    names = [function.group(1)] if function else VARIABLE.findall(statement) or VARIABLE_WITHOUT_VALUE.findall(statement)
    return [name for name in names if not NO_NAME.fullmatch(name)]


def code_of(text):
    return DIRECTIVE.sub("", COMMENT_OR_TEXT.sub(" ", text))


def private_names(text):
    """The names in `text` that no other translation unit sees, each with what it stands for if it is an alias, which may be repeated."""
    names = {name: None for name in DEFINE.findall(text)}
    code = code_of(text)
    hidden = [False]  # one entry per open namespace: True if it is unnamed or inside an unnamed one
    depth, begin = 0, 0  # depth counts open braces that belong to no namespace
    for brace in re.finditer(r"[{};]", code):
        statement = code[begin:brace.start()].strip()
        begin = brace.end()
        if depth == 0 and brace.group() == "{" and (namespace := NAMESPACE.search(statement)):
            hidden.append(hidden[-1] or not namespace.group(1).strip())
            continue
        if depth == 0 and brace.group() == "}":
            hidden.pop()
            continue
        if depth == 0 and (hidden[-1] or INTERNAL.search(statement.split("(")[0])) and not NO_OWN_NAME.match(statement):
            for name in names_declared_by(statement):
                names[name] = statement if ALIAS.match(statement) else None
        depth += {"{": 1, "}": -1, ";": 0}[brace.group()]
    return names


class Unit:
    """Sources to compile together, the names that they keep to themselves and those that they call or read."""

    def __init__(self):
        self.sources, self.private, self.used, self.is_closed = [], {}, set(), False

    def takes(self, other, limit):
        if not self.sources:
            return True
        if self.is_closed or other.is_closed or len(self.sources) == limit:
            return False
        both = self.private.keys() & other.private.keys()
        return (all(self.private[name] is not None and self.private[name] == other.private[name] for name in both)
                and not (self.private.keys() - both) & other.used and not (other.private.keys() - both) & self.used)

    def add(self, other):
        self.sources += other.sources
        self.private |= other.private
        self.used |= other.used
        self.is_closed = other.is_closed


def unit_of(source, is_alone):
    unit, text = Unit(), Path(source).read_text()
    unit.sources, unit.private, unit.used = [source], private_names(text), {name for pair in USE.findall(code_of(text)) for name in pair if name}
    unit.is_closed = is_alone or bool(ALONE.search(text))
    return unit


def earlier_units(out_dir, name):
    """The files that an earlier run wrote, by their numbers."""
    numbers = {path.stem[len(name) + 1:]: path for path in Path(out_dir).glob(f"{name}_*.c*")}
    return {int(number): path for number, path in numbers.items() if number.isdigit()}


def units_of(sources, limit, earlier, alone):
    """The sources of each unit by its number: each stays in the unit of an earlier run, else goes to the first unit that takes it."""
    waiting = {source: unit_of(source, source in alone) for source in sources}
    units = {}

    def place(source, candidates):
        one = waiting.pop(source)
        for unit in candidates:
            if unit.takes(one, limit):
                unit.add(one)
                return
        units[next(number for number in range(len(sources) + len(earlier)) if number not in units)] = one

    for number in sorted(earlier):
        units[number] = Unit()
        for source in re.findall(r'#include "(.*)"', earlier[number].read_text()):
            if source in waiting and not waiting[source].is_closed and units[number].takes(waiting[source], limit):
                place(source, [units[number]])
    for source in list(waiting):
        place(source, units.values())
    return {number: unit.sources for number, unit in sorted(units.items()) if unit.sources}


def write_units(out_dir, name, units, earlier):
    """Writes what differs from an earlier run; returns what to compile."""
    compiled = []
    for number, unit in units.items():
        path, text = Path(out_dir) / f"{name}_{number}{Path(unit[0]).suffix}", "".join(f'#include "{source}"\n' for source in unit)
        if len(unit) > 1 and (number not in earlier or earlier.pop(number).read_text() != text):
            path.write_text(text)
        compiled.append(str(path) if len(unit) > 1 else unit[0])
    for path in earlier.values():
        path.unlink()
    return compiled


def main(out_dir, limit, name, folder, lines):
    sources = [str(Path(folder) / line) for line in lines.split("\n")]
    Path(out_dir).mkdir(parents=True, exist_ok=True)
    list_of_alone = Path(out_dir) / "alone"
    endings = tuple("/" + line for line in list_of_alone.read_text().split()) if list_of_alone.exists() else ()
    earlier = earlier_units(out_dir, name)
    units = {number: [source] for number, source in enumerate(sources)}
    if int(limit) > 1:
        units = units_of(sources, int(limit), earlier, {source for source in sources if source.endswith(endings)})
    print("\n".join(write_units(out_dir, name, units, earlier)), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
