#!/usr/bin/env bash
# Makes a Debian package of the tools, the library, its headers, man pages and completions.
#   packaging/deb.sh BUILD_DIR [OUT_DIR]      prints the package's path; GENESIS_SETUP adds options of `meson setup`
# What it depends on is read from the binaries, so it installs on a bare system of the distribution it was made on.
set -euo pipefail
build=${1:?usage: packaging/deb.sh BUILD_DIR [OUT_DIR]}
out=$(realpath "${2:-.}")
cd "$(dirname "$0")/.."
[ -f "$build/build.ninja" ] || meson setup "$build" --prefix=/usr -Dtests=false -Dbench=false ${GENESIS_SETUP:-} >&2
ninja -C "$build" >&2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
meson install -C "$build" --no-rebuild --strip --destdir "$stage/root" >&2
packaging/pages.sh "$stage/root/usr/bin" "$stage/root/usr/share"
install -Dm644 LICENSE "$stage/root/usr/share/doc/genesis/copyright"
install -Dm644 README.md "$stage/root/usr/share/doc/genesis/README.md"

version=$("$stage/root/usr/bin/genesis-run" --version)
architecture=$(dpkg --print-architecture)
mkdir -p "$stage/debian" "$stage/root/DEBIAN"
printf 'Source: genesis\n\nPackage: genesis\nArchitecture: any\n' >"$stage/debian/control"
library=$(dirname "$(find "$stage/root" -name libgenesis.so)")
needs=$(cd "$stage" && dpkg-shlibdeps -O --ignore-missing-info -l"$library" "$library"/libgenesis.so.* root/usr/bin/genesis-* 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
cat >"$stage/root/DEBIAN/control" <<END
Package: genesis
Version: $version
Architecture: $architecture
Maintainer: The Genesis authors <genesis@localhost>
Installed-Size: $(du -sk "$stage/root" | cut -f1)
Depends: $needs
Recommends: graphviz
Suggests: libfmt-dev, libtbb-dev
Section: science
Priority: optional
Description: graph-mode deep learning: build, optimise, train and run models
 A model is built once as a static graph, saved in one file, optimised by passes and run on the cores of a CPU or on
 an NVIDIA GPU. This package has the tools genesis-build, genesis-opt, genesis-run and genesis-viz, the library and
 its headers.
END
printf 'activate-noawait ldconfig\n' >"$stage/root/DEBIAN/triggers"
package=$out/genesis_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$stage/root" "$package" >&2
echo "$package"
