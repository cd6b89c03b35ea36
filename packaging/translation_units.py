#!/usr/bin/env python3
"""Merges sources into few translation units ("unity build"), so that a header that many of them read is compiled once for all.

  translation_units.py OUT_DIR LIMIT NAME FOLDER SOURCES

SOURCES are paths below FOLDER, one a line, in one argument: Meson would configure again whenever a file changes that is an
argument of its own. Writes OUT_DIR/NAME_0.cpp (or .cu), NAME_1.cpp, ..., each of which includes up to LIMIT sources, and prints their paths, one a
line. Two sources may give the same name to something that only they see (in an unnamed namespace, `static` or `#define`), so
nobody has to choose names with other files in mind: the second source is read with a macro that renames its own, or goes into
another unit where that could change more than the name (see `renamable`). Sources that are compiled once for each instruction
set stay alone. With a LIMIT of 1 nothing is merged: the sources themselves are printed.

A source stays in the unit where an earlier run put it, so that a new file does not compile all others again. Who changes
a source often writes its path below the project into OUT_DIR/alone, one a line: it is compiled by itself from then on.
"""
import functools
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
FUNCTION = re.compile(r"(?<![:\w.<>])(\w+|operator\s*\S+?)\s*\((?!\s*\*)")
VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*=(?!=)")
VARIABLE_WITHOUT_VALUE = re.compile(r"(?<!:)\b(\w+)\s*(?:\[[^\]]*\]\s*)*$")
# TEST(...) and other macros declare something with a name of its own in each file.
NO_NAME = re.compile(r"\d.*|[A-Z_0-9]+|true|false|const|override|default|delete|noexcept|sizeof|catch")
ATTRIBUTE = re.compile(r"\b(?:decltype|alignas|requires|__attribute__|__launch_bounds__|noexcept|sizeof)\s*\((?:[^()]|\([^()]*\))*\)")
INTERNAL = re.compile(r"\b(?:static|constexpr|const)\b")
INTERNAL_FUNCTION = re.compile(r"\b(?:static|constexpr)\b")
BROUGHT = re.compile(r"using\s+[\w:]*::(\w+)")
ALIAS = re.compile(r"using\s+\w+\s*=|using\s+[\w:]+$|namespace\s+\w+\s*=")
NO_OWN_NAME = re.compile(r"using\s+namespace\b|static_assert\b|template\s*<[^{}]*>\s*struct\s+\w+\s*<")
# These match the name of a test's class, of what is called or made, of a function that an entry of a table names, and of a type.
USE = re.compile(r"\bTEST\w*\(\s*(\w+)|(?<![\w.:>])(\w+)(?=\s*[(<{])|=\s*(\w+)(?=(?:<\w+>)?\s*[,}])|(?<![\w.:>])(k?[A-Z]\w*)")
ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'\s*#\s*include\s*(<[^>]*>|"[^"]*")')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
MEMBER = re.compile(r"(?:\.|->|::)\s*(\w+)")
TEST_NAMES = re.compile(r"\b(?:TEST\w*|TYPED_TEST\w*|INSTANTIATE_\w+)\(\s*(\w+)(?:\s*,\s*(\w+))?")
# Libraries look for functions of these names beside the type of an argument, or their macros read members of these names.
NAMES_OF_LIBRARIES = {"to_json", "from_json", "PrintTo", "swap", "begin", "end", "type", "value"}
DERIVED = re.compile(r"\bTEST_[FP]\b|\b(?:struct|class)\s+\w+\s*(?:final\s*)?:(?!:)")
NAMESPACE = re.compile(r"\bnamespace\b([\w:\s]*)$")


def names_declared_by(statement):
    """The names that a statement at the level of a namespace declares, maybe with some that only occur in it."""
    if brought := BROUGHT.fullmatch(statement):
        return [brought.group(1)]
    kind = TYPE.search(statement)
    if kind and "(" not in statement[:kind.start()]:
        return [kind.group(1)]
    function = FUNCTION.search(ATTRIBUTE.sub("", statement).split("=")[0])
    names = [function.group(1)] if function else VARIABLE.findall(statement) or VARIABLE_WITHOUT_VALUE.findall(statement)
    return [name for name in names if not NO_NAME.fullmatch(name)]


def is_internal(statement):
    """Tells whether a statement outside of unnamed namespaces gives names to its source only: `const` may belong to a function's result."""
    head, parenthesis, _ = statement.partition("(")
    is_function = parenthesis and "=" not in head
    return bool((INTERNAL_FUNCTION if is_function else INTERNAL).search(head))


def code_of(text):
    return DIRECTIVE.sub("", COMMENT_OR_TEXT.sub(" ", text))


def statements_of(code):
    """The statements at the level of a namespace, each with whether an unnamed namespace hides it."""
    hidden = [False]  # one entry per open namespace: True if it is unnamed or inside an unnamed one
    depth, begin = 0, 0  # depth counts open braces that belong to no namespace
    for brace in re.finditer(r"[{};]", code):
        statement = code[begin:brace.start()].strip()
        begin = brace.end()
        if depth == 0 and brace.group() == "{" and (namespace := NAMESPACE.search(statement)):
            hidden.append(hidden[-1] or not namespace.group(1).strip())
        elif depth == 0 and brace.group() == "}":
            hidden.pop()
        else:
            if depth == 0:
                yield statement, hidden[-1]
            depth += {"{": 1, "}": -1, ";": 0}[brace.group()]


def private_names(text):
    """The names in `text` that no other translation unit sees, each with what it stands for if it is an alias, which may be repeated."""
    names = {name: None for name in DEFINE.findall(text)}
    operators = {}
    for statement, is_hidden in statements_of(code_of(text)):
        if (is_hidden or is_internal(statement)) and not NO_OWN_NAME.match(statement):
            for name in names_declared_by(statement):
                names[name] = statement if ALIAS.match(statement) else None
                if name.startswith("operator"):
                    operators.setdefault(name, []).append(statement)
    # An operator on a private type is an overload of its own in each source.
    for name, statements in operators.items():
        if all(names.keys() & set(re.findall(r"\w+", statement)) for statement in statements):
            del names[name]
    return names


def headers_of(text):
    """The headers that a source includes, in its order; None if it chooses them by a condition or by a macro of its own."""
    headers = []
    for line in DIRECTIVE.findall(COMMENT.sub("", text)):
        if include := INCLUDE.match(line):
            headers += [include.group(1)] * (not include.group(1).endswith('.inc"'))
    last = text.rfind("#include")
    return None if re.search(r"^\s*#\s*(?:if|define)", text[:last], re.M) else headers


@functools.cache
def declared_in(path):
    """The names that a header declares outside of classes, and those of friends in them."""
    code = code_of(path.read_text())
    names = set(re.findall(r"\bfriend\b[^;{(]*?(\w+)\s*\(", code))
    for statement, _ in statements_of(code):
        names.update(names_declared_by(statement))
    return names


@functools.cache
def headers_in(path):
    """The headers of the project that a file includes."""
    return [ROOT / name for name in re.findall(r'#\s*include\s*"([^"]+\.h)"', path.read_text()) if (ROOT / name).is_file()]


@functools.cache
def declared_below(path):
    """The names that a header or one below it declares outside of classes."""
    names, seen, waiting = set(), {path}, [path]
    while waiting:
        header = waiting.pop()
        names |= declared_in(header)
        waiting += [below for below in headers_in(header) if below not in seen]
        seen.update(headers_in(header))
    return names


def renamable(text, private):
    """The private names of a source that a macro can rename, as each occurrence of them in the source means what it declares.

    A name behind `.`, `->` or `::` may be that of a member, and one in a derived class that of an inherited member. A header may
    declare an overload, and a test's name becomes a text.
    """
    headers = headers_of(text)
    if headers is None:
        return set()
    code = code_of(text)
    others = set(MEMBER.findall(code)) | set(DEFINE.findall(text)) | NAMES_OF_LIBRARIES
    others |= {name for names in TEST_NAMES.findall(code) for name in names}
    for header in headers:
        if (path := ROOT / header[1:-1]).is_file():
            others |= declared_below(path)
            if DERIVED.search(code):
                others |= set(re.findall(r"\w+", code_of(path.read_text())))
    return {name for name in private if re.fullmatch(r"\w+", name)} - others


class Source:
    """A source, the names that it keeps to itself, those of them that can be renamed, and the names that it calls or reads."""

    def __init__(self, path, is_alone):
        text = Path(path).read_text()
        self.path, self.private = path, private_names(text)
        self.used = {name for pair in USE.findall(code_of(text)) for name in pair if name}
        self.renamable = renamable(text, self.private) if path.endswith((".cpp", ".cu")) else set()
        self.headers = headers_of(text) or []
        self.renamed = set()
        self.is_closed = is_alone or bool(ALONE.search(text))

    def brings(self, name):
        """Tells whether a name is one of another namespace, which stands beside overloads."""
        return bool(BROUGHT.fullmatch(self.private[name] or ""))


class Unit:
    """Sources to compile together; `owners` has the source of each private name that keeps its name."""

    def __init__(self):
        self.sources, self.owners, self.used = [], {}, set()

    def add(self, source, limit):
        """Adds a source if it fits beside the others."""
        if self.sources and (source.is_closed or self.sources[0].is_closed or len(self.sources) == limit):
            return False
        renamed = []
        for name in self.clashes(source):
            owner = next((one for one in (source, self.owners.get(name)) if one and name in one.renamable), None)
            if not owner:
                return False
            renamed.append((owner, name))
        for owner, name in renamed:
            owner.renamed.add(name)
            if owner is not source:
                del self.owners[name]
        self.sources.append(source)
        self.owners |= {name: source for name in source.private if name not in source.renamed}
        self.used |= source.used - source.renamed
        return True

    def clashes(self, source):
        """The names that mean different things in `source` and in the others."""
        both = self.owners.keys() & source.private.keys()
        same = {name for name in both if source.private[name] and source.private[name] == self.owners[name].private[name]}
        read = {name for name in self.owners.keys() - both if name in source.used and not self.owners[name].brings(name)}
        read |= {name for name in source.private.keys() - both if name in self.used and not source.brings(name)}
        return sorted((both | read) - same)

    def text(self):
        """Headers come first, as no macro may rename what they declare."""
        lines = [f"#include {header}" for header in dict.fromkeys(
            header for source in self.sources if source.renamed for header in source.headers)]
        for number, source in enumerate(self.sources):
            end = re.sub(r"\W", "_", f"_of_{Path(source.path).stem}_{number}")
            lines += [f"#define {name} {name}{end}" for name in sorted(source.renamed)]
            lines += [f'#include "{source.path}"'] + [f"#undef {name}" for name in sorted(source.renamed)]
        return "".join(line + "\n" for line in lines)


def earlier_units(out_dir, name):
    """The files that an earlier run wrote, by their numbers."""
    numbers = {path.stem[len(name) + 1:]: path for path in Path(out_dir).glob(f"{name}_*.c*")}
    return {int(number): path for number, path in numbers.items() if number.isdigit()}


def units_of(sources, limit, earlier, alone):
    """The unit of each number: a source stays in the unit of an earlier run, else goes to the first unit that takes it."""
    waiting = {path: Source(path, path in alone) for path in sources}
    units = {number: Unit() for number in sorted(earlier)}
    for number, unit in units.items():
        for path in re.findall(r'#include "(.*)"', earlier[number].read_text()):
            if path in waiting and not waiting[path].is_closed and unit.add(waiting[path], limit):
                del waiting[path]
    for source in waiting.values():
        if not any(unit.add(source, limit) for unit in units.values()):
            number = next(number for number in range(len(units) + 1) if number not in units)
            units[number] = Unit()
            units[number].add(source, limit)
    return {number: unit for number, unit in sorted(units.items()) if unit.sources}


def write_units(out_dir, name, units, earlier):
    """Writes what differs from an earlier run; returns what to compile."""
    compiled = []
    for number, unit in units.items():
        first, text = unit.sources[0].path, unit.text()
        path = Path(out_dir) / f"{name}_{number}{Path(first).suffix}"
        if len(unit.sources) > 1 and (number not in earlier or earlier.pop(number).read_text() != text):
            path.write_text(text)
        compiled.append(str(path) if len(unit.sources) > 1 else first)
    for path in earlier.values():
        path.unlink()
    return compiled


def main(out_dir, limit, name, folder, lines):
    sources = [str(Path(folder) / line) for line in lines.split("\n")]
    Path(out_dir).mkdir(parents=True, exist_ok=True)
    list_of_alone = Path(out_dir) / "alone"
    endings = tuple("/" + line for line in list_of_alone.read_text().split()) if list_of_alone.exists() else ()
    earlier = earlier_units(out_dir, name)
    alone = set(sources) if int(limit) == 1 else {source for source in sources if source.endswith(endings)}
    print("\n".join(write_units(out_dir, name, units_of(sources, int(limit), earlier, alone), earlier)), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
