"""Makes a reference of the public headers: their comments become text, their declarations code.

A header is read by lines, not by a parser of C++: what stands between two blank lines at the level of a namespace is one entry,
its leading comment the description. Private parts of classes are left out.
"""
import pathlib
import posixpath
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import headers  # noqa: E402  # of packaging/

BEGIN = re.compile(r'^#pragma once$|^#ifdef __cplusplus\nextern "C" \{\n#endif$', re.M)
NAMESPACE = re.compile(r'^(?:inline )?namespace\b.*\{\s*$|^\}\s*// namespace.*$|^namespace \w+ \{ .*\}$', re.M)
NAME = re.compile(r'\b(?:class|struct|enum class|using|concept|#define)\s+(\w+)|\b(?!decltype|alignas|requires)(operator\S+|~?\w+)\s*\(')
PRIVATE = re.compile(r'^ (?:private|protected):\n.*?(?=^ public:|^\};)', re.M | re.S)


def entries(text):
    """The comment and the code of each entry of a header, without includes, namespaces and private members."""
    body = NAMESPACE.sub('', BEGIN.split(text, maxsplit=1)[-1])
    body = re.sub(r'^#\s*include.*\n', '', body, flags=re.M)
    body = PRIVATE.sub('', body)
    chunk, depth = [], 0
    for line in body.split('\n') + ['']:
        depth += line.count('{') + line.count('(') - line.count('}') - line.count(')')
        if line.strip() or depth > 0:
            chunk.append(line)
        elif chunk:
            yield split_comment(chunk)
            chunk = []


def split_comment(lines):
    code = next((i for i, line in enumerate(lines) if not line.startswith('//')), len(lines))
    return prose(lines[:code]), '\n'.join(lines[code:]).rstrip()


def prose(lines):
    """Text of comment lines: blank ones part paragraphs, and lines that are indented are an example."""
    out = [re.sub(r'^//( |$)', '', line) for line in lines]
    return '\n'.join(line if line.startswith('    ') else escaped(line) for line in out).strip('\n')


def escaped(line):
    """Keeps <, _ and * of names from being taken for markup; what stands between backquotes is code anyway."""
    parts = line.split('`')
    return '`'.join(part if i % 2 else re.sub(r'([<*_\[\]])', r'\\\1', part) for i, part in enumerate(parts))


def name_of(code):
    found = NAME.search(re.sub(r'template\s*<[^{;]*?>\s*(?=\w)', '', re.sub(r'//[^\n]*', '', code)))
    return next(name for name in found.groups() if name) if found else None


def section(name, text):
    """What the page of its folder says about a header."""
    intro = prose([line for line in BEGIN.split(text, maxsplit=1)[0].split('\n') if line.startswith('//')])
    parts = [f'## {name}', intro]
    for comment, code in entries(text):
        heading = name_of(code)
        parts += [f'### {heading}' if heading else '', comment, f'```cpp\n{code}\n```' if code else '']
    return '\n\n'.join(part for part in parts if part) + '\n'


def pages(root):
    """The pages of the reference by their names: an index, then one for each folder of headers."""
    by_folder = {}
    for name, text in sorted(headers.public_headers(root).items()):
        if name != 'genesis.h':
            by_folder.setdefault(posixpath.dirname(name) or 'genesis', []).append(section(name, text))
    made = {f'reference/{folder}.md': f'# {folder}\n\n' + '\n'.join(parts) for folder, parts in by_folder.items()}
    index = ('# API reference\n\nA program includes `<genesis/genesis.h>`, which includes all of these headers. The page of a folder is made from '
             'the comments of its headers.\n\n')
    return {'reference/index.md': index + '\n'.join(f'- [{folder}]({folder}.md)' for folder in by_folder) + '\n', **made}
