#!/usr/bin/env python3
"""Checks that programs which were compiled with an earlier genesis_c.h run with this library.

  abi.py check [HEADER]          compares the header with packaging/abi.txt, in which nothing may change and new lines come at the end
  abi.py record                  adds what the header has and the list lacks
  abi.py against [REF] BUILD_DIR compares the interface of the tag REF (default: the last one) with this tree's by abidiff, compiles that
                                 tag's examples/c_program.c with its header, and runs it with the library of BUILD_DIR
  abi.py compare TREE BUILD_DIR  does the same with the files of an earlier version in a folder

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
FILES = 'include/genesis/genesis_c.h', 'packaging/exports.map', 'examples/c_program.c'
HEADER, LIST = ROOT / FILES[0], ROOT / 'packaging/abi.txt'


def declarations(text):
    """What the header declares: for each name a line without comments, in the order of the header."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'^\s*#.*$', ' ', text, flags=re.M).replace('extern "C" {', ' ')
    found, depth, begin = {}, 0, 0
    for at, letter in enumerate(text):
        depth += {'{': 1, '}': -1}.get(letter, 0)
        if letter == ';' and depth == 0:
            line = ' '.join(text[begin:at].split()).replace('( ', '(')
            begin = at + 1
            if line.startswith('enum'):
                for number in re.finditer(r'(\w+) = (-?\w+)', line):
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


def stub(tree, folder, name):
    """Makes a library with the functions of a tree's header and nothing in them, but with all that a debugger knows of their types."""
    header, source, library = tree / 'include/genesis/genesis_c.h', folder / f'{name}.c', folder / f'lib{name}.so'
    functions = [line for line in declarations(header.read_text()).values() if '(' in line and not line.startswith('typedef')]
    source.write_text('#include <genesis/genesis_c.h>\n' + '\n'.join(line + ' { __builtin_trap(); }' for line in functions) + '\n')
    run('cc', '-std=c99', '-g', '-O0', '-shared', '-fPIC', '-Wno-unused-parameter', f'-I{tree / "include"}', str(source), '-o', str(library),
        '-Wl,--version-script=' + str(tree / 'packaging/exports.map'))
    return library


def compare(old, build):
    """Compares the interface of the tree in `old` with this one's, and runs its program with the library in `build`."""
    for program in ('abidiff', 'cc'):
        if not shutil.which(program):
            sys.exit(f'abi.py: there is no {program}: install abigail-tools and gcc')
    library = next(build.glob('libgenesis.so.*.*.*[0-9]'))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compared = subprocess.run(['abidiff', '--no-added-syms', stub(old, folder, 'old'), stub(ROOT, folder, 'new')],
                                  capture_output=True, text=True)
        if compared.returncode & 3:  # abidiff's bits for errors
            sys.exit(compared.stderr or compared.stdout)
        before, now = (declarations((tree / 'include/genesis/genesis_c.h').read_text()) for tree in (old, ROOT))
        changed = [line for name, line in before.items() if name not in now or not is_kept(line, now[name])]
        if compared.returncode & 8 or changed:  # functions are gone, or types are others
            sys.exit('programs of the earlier version break:\n' + '\n'.join([*changed, compared.stdout]))
        program, model = folder / 'c_program', folder / 'm.genesis'
        # Linked with today's library, as its symbols and their versions are those that the loader will look for.
        run('cc', '-std=c99', f'-I{old / "include"}', str(old / 'examples/c_program.c'), '-o', str(program), str(library),
            f'-Wl,-rpath,{library.parent},--allow-shlib-undefined')
        made = run(str(program), 'write', str(model), capture_output=True, text=True).stdout
        if made != 'w = 3.000\n':
            sys.exit(f'the program of the earlier version prints {made!r} with the library of {build}')


def against(ref, build):
    with tempfile.TemporaryDirectory() as name:
        archive = run('git', '-C', str(ROOT), 'archive', ref, *FILES, stdout=subprocess.PIPE).stdout
        run('tar', '-x', '-C', name, input=archive)
        compare(pathlib.Path(name), build)
    print(f'programs of {ref} run with {build}')


def main():
    words = sys.argv[1:]
    if words[:1] == ['check'] and len(words) <= 2:
        check(pathlib.Path(words[1]) if len(words) == 2 else HEADER)
    elif words == ['record']:
        record()
    elif words[:1] == ['compare'] and len(words) == 3:
        compare(*(pathlib.Path(word).resolve() for word in words[1:]))
    elif words[:1] == ['against'] and 2 <= len(words) <= 3:
        ref = words[1] if len(words) == 3 else last_tag()
        if not ref:
            print('there is no tag yet: nothing to compare with')
            return
        against(ref, pathlib.Path(words[-1]).resolve())
    else:
        sys.exit(__doc__)


main()
