#!/usr/bin/env python3
"""Makes the project's site: packaging/site/site.py OUT_DIR

Needs mkdocs and the theme mkdocs-material. OUT_DIR becomes a folder of static pages which load nothing from the network; search
needs a server of files, such as `python3 -m http.server`. The pages are README.md, docs/, the notes of bench/ and a reference of
the public headers; Chinese pages (NAME.zh.md) go to the folder zh/. Source files that a page links to become pages as well.
Fails if mkdocs warns, if a page is not in the navigation or if a link or an anchor of a made page leads nowhere.
"""
import html
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
LINK = re.compile(r'(\]\()([^)\s#]+)(#[^)\s]*)?\)')
ATTRIBUTE = re.compile(r'\s(id|name|href|src)="([^"]+)"')
CODE = re.compile(r'^```.*?^```|`[^`\n]*`', re.M | re.S)


def pages():
    """The documents of the tree by their paths."""
    found = ['README.md', 'README.zh.md', 'CONTRIBUTING.md', 'bench/README.md']
    for folder in ['docs', 'docs/tutorials', 'bench/notes']:
        found += [str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).glob('*.md'))]
    return found


def place_of(path):
    """Where a file of the tree goes in the site."""
    if path in ('README.md', 'README.zh.md'):
        place = path.replace('README', 'index')
    else:
        place = path.removeprefix('docs/').replace('bench/README', 'bench/index').replace('CONTRIBUTING', 'contributing')
    if place.endswith('.zh.md'):
        return 'zh/' + place.removesuffix('.zh.md') + '.md'
    return place if place.endswith('.md') or place.startswith('images/') else f'source/{path}.md'


def stage(path, text, folder, linked):
    """Writes a document to its place, with links that fit there; adds the files that it links to to `linked`."""
    place = place_of(path)

    def moved(link):
        if re.match(r'[a-z]+:', link.group(2)):
            return link.group(0)
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.group(2)))
        if not (ROOT / target).is_file():
            sys.exit(f'{path}: the link {link.group(2)} leads to no file')
        linked.add(target)
        there = posixpath.relpath(place_of(target), posixpath.dirname(place) or '.')
        return f'{link.group(1)}{there}{link.group(3) or ""})'

    parts, end = [], 0
    for code in CODE.finditer(text):  # code keeps what looks like a link
        parts += [LINK.sub(moved, text[end:code.start()]), code.group()]
        end = code.end()
    parts.append(LINK.sub(moved, text[end:]))
    write(folder / place, ''.join(parts))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf-8')


def stage_all(folder):
    """Writes all pages into `folder`; returns the navigation of the reference."""
    linked = set()
    documents = pages()
    for path in documents:
        stage(path, (ROOT / path).read_text(encoding='utf-8'), folder, linked)
    for path in sorted(linked - set(documents)):
        if place_of(path).startswith('images/'):
            (folder / place_of(path)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / place_of(path))
        else:
            text = (ROOT / path).read_text(encoding='utf-8')
            write(folder / place_of(path), f'# {path}\n\n```{pathlib.Path(path).suffix.lstrip(".")}\n{text}```\n')
    headers = reference.pages(ROOT)
    for name, text in headers.items():
        write(folder / name, text)
    return list(headers)


def settings(folder, out, headers):
    """mkdocs.yml with the folders and the pages that only this script knows."""
    text = (HERE / 'mkdocs.yml').read_text(encoding='utf-8')
    lines = [f'  - API reference:', *(f'      - {name.removeprefix("reference/").removesuffix(".md")}: {name}' for name in headers)]
    before, chinese = text.split('  - 中文:\n')
    return f'docs_dir: {folder}\nsite_dir: {out}\n{before}' + '\n'.join(lines) + '\n  - 中文:\n' + chinese


class Page:
    """The anchors and the links of one made page, whose text has no quotation marks outside of tags."""

    def __init__(self, text):
        found = ATTRIBUTE.findall(text)
        self.anchors = {html.unescape(value) for name, value in found if name in ('id', 'name')}
        self.links = {html.unescape(value) for name, value in found if name in ('href', 'src')}


def broken_links(out):
    """What leads nowhere in the made pages, as lines; what the network would have to bring counts too."""
    made = {path.relative_to(out).as_posix(): Page(path.read_text(encoding='utf-8')) for path in out.rglob('*.html')}
    lines = []
    for name, page in made.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc or name == '404.html' or parts.path.startswith('/'):
                continue
            path = urllib.parse.unquote(parts.path)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            if target == '.' or (out / target).is_dir():
                target = posixpath.normpath(posixpath.join(target, 'index.html'))
            anchor = urllib.parse.unquote(parts.fragment)
            if not (out / target).exists():
                lines.append(f'{name}: {link} leads to no file')
            elif anchor and anchor != '__skip' and target in made and anchor not in made[target].anchors:
                lines.append(f'{name}: {link} leads to no anchor')
    return sorted(lines)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1]).resolve()
    if not shutil.which('mkdocs'):
        sys.exit('site.py: there is no mkdocs: install mkdocs and mkdocs-material')
    with tempfile.TemporaryDirectory() as folder:
        staged = pathlib.Path(folder) / 'pages'
        headers = stage_all(staged)
        config = pathlib.Path(folder) / 'mkdocs.yml'
        config.write_text(settings(staged, out, headers), encoding='utf-8')
        made = subprocess.run(['mkdocs', 'build', '--strict', '--quiet', '--config-file', config], capture_output=True, text=True)
        if made.returncode or 'not included in the "nav"' in made.stderr:
            sys.exit(made.stderr)
    lines = broken_links(out)
    if lines:
        sys.exit('\n'.join(lines))
    print(f'{len(list(out.rglob("*.html")))} pages in {out}')


if __name__ == '__main__':
    main()
