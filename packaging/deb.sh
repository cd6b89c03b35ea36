#!/usr/bin/env bash
# Makes a Debian package of the tools, the library, its headers, man pages and completions.
#   packaging/deb.sh BUILD_DIR [OUT_DIR] [--portable]     prints the package's path; `./dev package` builds and calls this
# BUILD_DIR has the library and the four tools, built for any prefix: they do not depend on where they are installed. The
# dependencies are read from the binaries, so the package installs on a bare system of the distribution it was made on. The GPU
# driver and CUDA's libraries are opened when first needed, so the package does not depend on them.
# With --portable the package brings the libraries that it needs in a folder of its own, all but those of C and C++: one that is made on
# Debian 12 installs on Debian 13 and Ubuntu 24.04 too, which have other versions of them. That needs patchelf.
set -euo pipefail
usage="usage: packaging/deb.sh BUILD_DIR [OUT_DIR] [--portable]"
portable=false
[ "${!#}" != --portable ] || { portable=true; set -- "${@:1:$#-1}"; }
build=$(realpath "${1:?$usage}")
mkdir -p "${2:-.}"
out=$(realpath "${2:-.}")
cd "$(dirname "$0")/.."
programs=(dpkg-deb dpkg-shlibdeps gzip)
! $portable || programs+=(patchelf)
for program in "${programs[@]}"; do
  command -v $program >/dev/null || { echo "deb.sh: there is no $program: install dpkg-dev, gzip and, for --portable, patchelf" >&2; exit 1; }
done
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"

# Moves the files that `meson install` puts below the build's prefix to /usr; only one line of the pkg-config file contains the
# prefix.
meson install -C "$build" --quiet --no-rebuild --strip --destdir "$stage/meson" >&2
tool=$(find "$stage/meson" -path '*/bin/genesis-run')
mkdir "$stage/root"
mv "$(dirname "$(dirname "$tool")")" "$stage/root/usr"
pc=$(find "$stage/root/usr" -name genesis.pc)
sed -i 's|^prefix=.*|prefix=/usr|' "$pc"
packaging/pages.sh "$stage/root/usr/bin" "$stage/root/usr/share"
install -Dm644 packaging/systemd/genesis@.service "$stage/root/usr/lib/systemd/system/genesis@.service"
install -Dm644 LICENSE "$stage/root/usr/share/doc/genesis/copyright"
install -Dm644 README.md "$stage/root/usr/share/doc/genesis/README.md"

# Copies the libraries that the tools and the library need to a folder beside the library, and lets all of them look there.
bring_libraries() {
  local library=$1 own=$1/genesis/lib file
  mkdir -p "$own"
  ldd "$library"/libgenesis.so.*.*.* "$stage"/root/usr/bin/genesis-* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|genesis))\.so' | while read -r file; do
    install -m644 "$(readlink -f "$file")" "$own/$(basename "$file")"
    strip --strip-unneeded "$own/$(basename "$file")"
    patchelf --set-rpath '$ORIGIN' "$own/$(basename "$file")"
  done
  patchelf --set-rpath '$ORIGIN/genesis/lib' "$library"/libgenesis.so.*.*.*
  for file in "$stage"/root/usr/bin/genesis-*; do
    patchelf --set-rpath "\$ORIGIN/$(realpath --relative-to="$stage/root/usr/bin" "$library"):\$ORIGIN/$(realpath --relative-to="$stage/root/usr/bin" "$own")" "$file"
  done
}
! $portable || bring_libraries "$(dirname "$(find "$stage/root" -name libgenesis.so)")"

version=$("$stage/root/usr/bin/genesis-run" --version)
architecture=$(dpkg --print-architecture)
mkdir -p "$stage/debian" "$stage/root/DEBIAN"
printf 'Source: genesis\n\nPackage: genesis\nArchitecture: any\n' >"$stage/debian/control"
library=$(dirname "$(find "$stage/root" -name libgenesis.so)")
needs=$(cd "$stage" && dpkg-shlibdeps -O -l"$library" -l"$library/genesis/lib" --ignore-missing-info "$library"/libgenesis.so.* root/usr/bin/genesis-* |
  sed -n 's/^shlibs:Depends=//p')
[ -n "$needs" ] || { echo "deb.sh: dpkg-shlibdeps found no dependencies, which cannot be" >&2; exit 1; }
cat >"$stage/root/DEBIAN/control" <<END
Package: genesis
Version: $version
Architecture: $architecture
Maintainer: The Genesis authors <genesis@localhost>
Installed-Size: $(du -sk "$stage/root" | cut -f1)
Depends: $needs
Recommends: libcurl4
Suggests: graphviz, g++, libfmt-dev, pkg-config, cmake, openmpi-bin
Section: science
Priority: optional
Description: graph-mode deep learning: build, optimize, train and run models
 A model is built once as a static graph, saved in one file, optimized by passes and run on the cores of a CPU or on
 an NVIDIA GPU. This package has the tools genesis-build, genesis-opt, genesis-run and genesis-viz, the library and
 its headers. Programs that use the library need a C++20 compiler and libfmt-dev as well.
END
printf 'activate-noawait ldconfig\n' >"$stage/root/DEBIAN/triggers"
package=$out/genesis_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$stage/root" "$package" >&2
echo "$package"
