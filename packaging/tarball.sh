#!/usr/bin/env bash
# Makes genesis-VERSION-x86_64.tar.zst: the tools with all libraries that they need, for machines without packages of Genesis.
#   packaging/tarball.sh BUILD_DIR [OUT_DIR]      prints the archive's path
# BUILD_DIR has the four tools, best without CUDA (-Dcuda=disabled), which is opened from the system if it is built in. The archive
# brings its own C library and dynamic loader, so it runs on every Linux of this processor whose kernel is 3.2 or later, whatever
# C library the system has. Each file in bin/ is a small script that starts the tool by that loader.
set -euo pipefail
build=$(realpath "${1:?usage: packaging/tarball.sh BUILD_DIR [OUT_DIR]}")
mkdir -p "${2:-.}"
out=$(realpath "${2:-.}")
cd "$(dirname "$0")/.."
for program in meson ldd zstd; do
  command -v $program >/dev/null || { echo "tarball.sh: there is no $program: install meson, libc-bin and zstd" >&2; exit 1; }
done
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

meson install -C "$build" --quiet --no-rebuild --strip --destdir "$stage/meson" >&2
installed=$(dirname "$(dirname "$(find "$stage/meson" -path '*/bin/genesis-run')")")
version=$("$installed/bin/genesis-run" --version)
name=genesis-$version-$(uname -m)
root=$stage/$name
mkdir -p "$root/bin" "$root/lib" "$root/libexec"
cp "$installed"/bin/genesis-* "$root/libexec/"
packaging/pages.sh "$installed/bin" "$root/share"

# ldd prints "NAME => PATH (ADDRESS)", and the loader without an arrow.
for tool in "$installed"/bin/genesis-*; do ldd "$tool"; done | awk '$2 == "=>" { print $3 } $1 ~ /^\/.*ld-linux/ { print $1 }' | sort -u |
  while read -r library; do cp -L "$library" "$root/lib/"; done
loader=$(basename "$(ls "$root"/lib/ld-linux*)")
chmod 755 "$root/lib/$loader"

for tool in "$root"/libexec/*; do
  script=$root/bin/$(basename "$tool")
  cat >"$script" <<END
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")/..
exec "\$here/lib/$loader" --library-path "\$here/lib" "\$here/libexec/$(basename "$tool")" "\$@"
END
  chmod 755 "$script"
done
cp LICENSE README.md "$root/"
archive=$out/$name.tar.zst
tar -C "$stage" --owner=0 --group=0 --sort=name -cf - "$name" | zstd -q -T0 "-${ZSTD_CLEVEL:-12}" -f -o "$archive"
echo "$archive"
