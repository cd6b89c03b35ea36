#!/usr/bin/env python3
"""Makes a wheel of the Python package: packaging/wheel.py BUILD_DIR [OUT_DIR [--small]] prints its path.

The package calls the C interface by ctypes, so one wheel serves every Python 3.9 and newer: it has no compiled module, but brings the
library and those that it needs, except for the C and C++ libraries. They are loaded in their order before libgenesis, which then finds
them. The wheel's tag says the oldest C library that it runs with. With --small its files are compressed again by advzip (package advancecomp), if
that is installed: half a minute for a fiftieth of the size.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEM = re.compile(r'(ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so')


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def needed_by(library):
    """The libraries that a library needs directly, by name."""
    return re.findall(r'\(NEEDED\).*\[(.*)\]', run('readelf', '-d', str(library)))


def copy_libraries(library, folder):
    """Copies the library and what it needs; returns the names in the order in which they are to be loaded."""
    paths = dict(re.findall(r'^\s*(\S+) => (\S+)', run('ldd', str(library)), re.M))
    order = []

    def add(name, path):
        for needed in needed_by(path):
            if not SYSTEM.match(needed) and needed not in order:
                add(needed, paths[needed])
        shutil.copy(os.path.realpath(path), folder / name)
        run('strip', '--strip-unneeded', str(folder / name))
        order.append(name)

    add(library.name, library)
    return order


def glibc_of(folder):
    """The newest version of the C library whose functions the libraries call."""
    found = set()
    for path in folder.glob('*.so*'):
        found |= {tuple(map(int, version)) for version in re.findall(r'GLIBC_(\d+)\.(\d+)', run('objdump', '-T', str(path)))}
    return max(found)


def write_wheel(path, folder, info):
    """Writes the files below a folder, and their list with hashes."""
    lines = []
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(p for p in folder.rglob('*') if p.is_file()):
            name, data = file.relative_to(folder).as_posix(), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
            lines.append(f'{name},sha256={digest},{len(data)}')
            archive.writestr(name, data)
        archive.writestr(f'{info}/RECORD', '\n'.join(lines + [f'{info}/RECORD,,', '']))


def main():
    small = sys.argv[1:] and sys.argv[-1] == '--small'
    if small:
        sys.argv.pop()
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith('-'):
        raise SystemExit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else '.').resolve()
    out.mkdir(parents=True, exist_ok=True)
    library = build / 'libgenesis.so.0'
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        package = folder / 'genesis'
        shutil.copytree(ROOT / 'bindings/python/genesis', package, ignore=shutil.ignore_patterns('__pycache__'))
        (package / 'lib').mkdir()
        order = copy_libraries(library, package / 'lib')
        (package / 'lib/load_order').write_text('\n'.join(order) + '\n', encoding='utf-8')
        code = 'import genesis, sys; sys.stdout.write(genesis.__version__ + "\\n" + genesis.ops.stub())'
        environment = {**os.environ, 'PYTHONPATH': name, 'PYTHONDONTWRITEBYTECODE': '1'}
        environment.pop('GENESIS_LIBRARY', None)
        version, stub = run(sys.executable, '-c', code, env=environment).split('\n', 1)
        (package / 'ops.pyi').write_text(stub, encoding='utf-8')
        tag = 'py3-none-manylinux_{}_{}_{}'.format(*glibc_of(package / 'lib'), os.uname().machine)
        info = f'genesis-{version}.dist-info'
        (folder / info).mkdir()
        (folder / info / 'METADATA').write_text(
            f'Metadata-Version: 2.1\nName: genesis\nVersion: {version}\nSummary: Graph-mode deep learning in C++20\n'
            'License: MIT\nRequires-Python: >=3.9\nProvides-Extra: numpy\nRequires-Dist: numpy; extra == "numpy"\n', encoding='utf-8')
        (folder / info / 'WHEEL').write_text(
            f'Wheel-Version: 1.0\nGenerator: packaging/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n', encoding='utf-8')
        shutil.copy(ROOT / 'LICENSE', folder / info / 'LICENSE')
        wheel = out / f'genesis-{version}-{tag}.whl'
        write_wheel(wheel, folder, info)
        if small and shutil.which('advzip'):
            run('advzip', '--recompress', '--shrink-extra', '--quiet', str(wheel))
        print(wheel)


main()
