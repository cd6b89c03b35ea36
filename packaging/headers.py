#!/usr/bin/env python3
"""Installs the public headers, called by `meson install`: packaging/headers.py INCLUDE_DIR

These are include/genesis/genesis.h, the headers that it includes, directly or not, genesis_c.h and plugin.h; all others stay internal. In the source tree
headers include each other by top-level folder ("schema/core/tensor.h"). Such short names could collide with those of users of the
library, so installed headers say <genesis/schema/core/tensor.h> and need only the folder that contains genesis/ in the include path.
Meson itself installs the generated schema/version.h.
"""
import hashlib
import os
import pathlib
import re
import sys

INCLUDE = re.compile(r'^#include "((?:schema|builder|passes|backends|executor|models)/[^"]+)"', re.MULTILINE)
GENERATED = {'schema/build_id.h', 'schema/version.h'}


def public_headers(root):
    """Returns the text of each header by its path below genesis/."""
    headers = {}
    waiting = [(name, root / 'include/genesis' / name) for name in ('genesis.h', 'genesis_c.h', 'plugin.h')]
    while waiting:
        name, path = waiting.pop()
        if name in headers or name in GENERATED:
            continue
        headers[name] = path.read_text(encoding='utf-8')
        waiting += [(included, root / included) for included in INCLUDE.findall(headers[name])]
    return headers


def write_build_id(output, depfile, root, compiler):
    """Writes a header with the identity of a build: plugins and the library must agree about every public header."""
    texts = public_headers(root)
    sources = [root / 'include/genesis' / name if '/' not in name else root / name for name in texts]
    digest = hashlib.sha256(compiler.encode())
    for name in sorted(texts):
        digest.update(texts[name].encode())
    number = compiler.split()[0] + '-' + digest.hexdigest()[:16]
    pathlib.Path(output).write_text(
        '// The identity of this build of Genesis, to which plugins are locked.\n#pragma once\n\nnamespace genesis {\n\n'
        f'inline constexpr const char* kBuildId = "{number}";\n\n}}  // namespace genesis\n', encoding='utf-8')
    pathlib.Path(depfile).write_text(f"{output}: {' '.join(map(str, sources))}\n", encoding='utf-8')


def main():
    if sys.argv[1] == '--id':
        return write_build_id(sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]), sys.argv[5])
    include_dir = pathlib.Path(sys.argv[1])
    if include_dir.is_absolute():
        folder = pathlib.Path(os.environ.get('DESTDIR', '') + str(include_dir))
    else:
        folder = pathlib.Path(os.environ['MESON_INSTALL_DESTDIR_PREFIX']) / include_dir
    for name, text in public_headers(pathlib.Path(os.environ['MESON_SOURCE_ROOT'])).items():
        target = folder / 'genesis' / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(INCLUDE.sub(r'#include <genesis/\1>', text), encoding='utf-8')
        target.chmod(0o644)


if __name__ == '__main__':
    main()
