#!/usr/bin/env python3
"""Makes a release of the tree as it is committed: packaging/release.py VERSION, or ./dev release VERSION

VERSION is the next one by semver.org: 0.1.0 is followed by 0.1.1, 0.2.0 or 1.0.0. What CHANGELOG.md has as "Not released yet" becomes the
changes of VERSION, meson.build and the port of vcpkg get its number, and both are committed with the tag vVERSION. Nothing is pushed.
"""
import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEXT = '## Not released yet\n'
NUMBERS = {'meson.build': "  version: '{}',", 'packaging/vcpkg/vcpkg.json': '  "version": "{}",'}


def git(*words):
    done = subprocess.run(['git', '-C', str(ROOT), *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'git {words[0]} failed: {done.stderr.strip() or done.stdout.strip()}')
    return done.stdout.strip()


def steps(version):
    """The versions that may follow one."""
    major, minor, patch = map(int, version.split('.'))
    return f'{major}.{minor}.{patch + 1}', f'{major}.{minor + 1}.0', f'{major + 1}.0.0'


def new_changelog(text, version, day):
    """The changelog with what is not released yet under the version's heading."""
    if NEXT not in text:
        sys.exit(f'CHANGELOG.md has no heading "{NEXT.strip()}"')
    before, after = text.split(NEXT)
    if not re.match(r'\s*- ', after):
        sys.exit('CHANGELOG.md says nothing below "Not released yet": what does the release bring?')
    return f'{before}{NEXT}\n## {version} ({day})\n{after}'


def write(texts):
    for name, text in texts.items():
        (ROOT / name).write_text(text, encoding='utf-8')


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    version = sys.argv[1]
    texts = {name: (ROOT / name).read_text(encoding='utf-8') for name in [*NUMBERS, 'CHANGELOG.md']}
    old = dict(texts)
    current = re.search(r"^  version: '([0-9.]+)',", texts['meson.build'], re.M).group(1)
    if version not in steps(current):
        sys.exit(f'{version} does not follow {current}: expected {" or ".join(steps(current))}')
    if git('status', '--porcelain', '--untracked-files=no'):
        sys.exit('there are changes that are not committed: a release is made of what is committed')
    if git('tag', '--list', f'v{version}'):
        sys.exit(f'there is a tag v{version} already')
    for name, line in NUMBERS.items():
        if line.format(current) not in texts[name]:
            sys.exit(f'{name} lacks the line {line.format(current)}')
        texts[name] = texts[name].replace(line.format(current), line.format(version), 1)
    texts['CHANGELOG.md'] = new_changelog(texts['CHANGELOG.md'], version, datetime.date.today().isoformat())
    write(texts)
    try:
        git('commit', '--all', '--message', f'release: make {version}')
    except SystemExit:
        write(old)
        raise
    git('tag', '--annotate', '--message', f'Genesis {version}', f'v{version}')
    print(f'made the tag v{version}. Packages of it: ./dev package DIR --portable, ./dev wheel DIR, packaging/tarball.sh, packaging/image.sh; '
          f'packaging/apt.sh signs a folder of them. To publish it: git push origin main v{version}')


main()
