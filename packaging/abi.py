#!/usr/bin/env python3
"""Checks that programs which were compiled with an earlier genesis_c.h run with this library.

  abi.py check [HEADER]          compares the header with packaging/abi.txt, in which nothing may change and new lines come at the end
  abi.py record                  adds what the header has and the list lacks
  abi.py against [REF] BUILD_DIR builds the library and examples/c_program.c of the tag REF (default: the last one), compares both
                                 libraries by abidiff, and runs that program with the library of BUILD_DIR

The list has one line for each function, type and number of the header. A struct whose first field is struct_size may get more
fields at its end; all others keep their bytes.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER, LIST = ROOT / 'include/genesis/genesis_c.h', ROOT / 'packaging/abi.txt'


def declarations(text):
    """What the header declares: for each name a line without comments, in the order of the header."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'^\s*#.*$', ' ', text, flags=re.M).replace('extern "C" {', ' ')
    found, depth, begin = {}, 0, 0
    for at, letter in enumerate(text):
        depth += {'{': 1, '}': -1}.get(letter, 0)
        if letter == ';' and depth == 0:
            line = ' '.join(text[begin:at].split())
            begin = at + 1
            if line.startswith('enum'):
                for number in re.finditer(r'(\w+) = (-?\d+)', line):
                    found[number.group(1)] = number.group()
            elif line:
                found[name_of(line)] = line
    return found


def name_of(line):
    """The name that a declaration gives: of a function, a pointer to one, or a struct."""
    function = re.search(r'\(\*(\w+)\)\(|(\w+)\(', line) if '{' not in line else None
    return next(filter(None, function.groups())) if function else line.split()[-1]


def is_kept(old, new):
    """True if a program that was compiled with `old` may be run with `new`."""
    if old == new:
        return True
    grows = old.startswith('typedef struct') and re.search(r'\{ size_t struct_size;', old)
    before, end = old.split(' }')[0], old.rsplit('}', 1)[-1]
    return bool(grows) and new.startswith(before + ' ') and new.endswith('}' + end)


def recorded():
    return {name_of(line) if '(' in line or ' = ' not in line else line.split()[0]: line for line in LIST.read_text().splitlines()}


def check(header):
    now = declarations(header.read_text())
    wrong = [f'{name} is gone: {line}' if name not in now else f'{name} was {line}\n  and is {now[name]}'
             for name, line in recorded().items() if name not in now or not is_kept(line, now[name])]
    new = [f'{line}' for name, line in now.items() if recorded().get(name) != line]
    if wrong:
        sys.exit(f'{header} breaks programs that were compiled before: keep what there was, and give new things new names\n' + '\n'.join(wrong))
    if new:
        sys.exit('packaging/abi.txt lacks what is new: run packaging/abi.py record; where a struct of options grew, give options_of() the size that it '
                 'had at first\n' + '\n'.join(new))


def record():
    lines = {**(recorded() if LIST.exists() else {}), **declarations(HEADER.read_text())}
    LIST.write_text('\n'.join(lines.values()) + '\n')


def run(*command, **options):
    print('+', *command, file=sys.stderr)
    return subprocess.run(command, check=True, **options)


def last_tag():
    tag = subprocess.run(['git', '-C', ROOT, 'describe', '--tags', '--abbrev=0'], capture_output=True, text=True)
    return tag.stdout.strip()


def against(ref, build):
    if not shutil.which('abidiff'):
        sys.exit('abi.py: there is no abidiff: install abigail-tools')
    with tempfile.TemporaryDirectory() as name:
        old = pathlib.Path(name)
        archive = run('git', '-C', str(ROOT), 'archive', ref, stdout=subprocess.PIPE).stdout
        run('tar', '-x', '-C', str(old), input=archive)
        run('meson', 'setup', str(old / 'build'), str(old), '-Dcuda=disabled', '-Dtests=false', '-Dsources_per_unit=12', stdout=sys.stderr)
        run('ninja', '-C', str(old / 'build'), 'examples/c_program', stdout=sys.stderr)
        libraries = [next(folder.glob('libgenesis.so.*.*.*[0-9]')) for folder in (old / 'build', build)]
        compared = subprocess.run(['abidiff', '--no-added-syms', *map(str, libraries)], capture_output=True, text=True)
        if compared.returncode & 3:  # abidiff's bits for errors
            sys.exit(compared.stderr or compared.stdout)
        gone = [line for line in compared.stdout.splitlines() if re.search(r"\bgn_\w+", line)]
        if compared.returncode & 8 and gone:  # functions were removed, or changed in a way that breaks programs
            sys.exit('abidiff finds differences:\n' + '\n'.join(gone))
        program, model = str(old / 'build/examples/c_program'), str(old / 'm.genesis')
        # The preloaded library takes the place of the one that the program was linked with.
        made = run(program, 'write', model, env={'LD_PRELOAD': str(libraries[1])}, capture_output=True, text=True).stdout
        if made != 'w = 3.000\n':
            sys.exit(f'the program of {ref} prints {made!r} with the library of {build}')
    print(f'programs of {ref} run with {build}')


def main():
    words = sys.argv[1:]
    if words[:1] == ['check'] and len(words) <= 2:
        check(pathlib.Path(words[1]) if len(words) == 2 else HEADER)
    elif words == ['record']:
        record()
    elif words[:1] == ['against'] and 2 <= len(words) <= 3:
        ref = words[1] if len(words) == 3 else last_tag()
        if not ref:
            print('there is no tag yet: nothing to compare with')
            return
        against(ref, pathlib.Path(words[-1]).resolve())
    else:
        sys.exit(__doc__)


main()
