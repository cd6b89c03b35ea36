#!/usr/bin/env bash
# Compiles the CPU half for 64-bit Arm on an x86-64 machine, and runs its tests in an emulator. Needs root and mmdebstrap.
#   packaging/aarch64.sh FOLDER [TARGET...] [-- COMMAND...]
# FOLDER gets a system of Debian 12 with a cross compiler, the libraries of Arm and qemu, about 2 GB, which a later call uses again: it
# compiles only what has changed. TARGETs are those of ninja (default: the library and tests/test_ops), and COMMAND runs in the build
# folder, in the emulator (default: tests/test_ops). GENESIS_CPU chooses the emulated processor: "max" (default) has the instructions for
# 8-bit products (i8mm) and bf16, "cortex-a72" has neither them nor dot products. GENESIS_SETUP adds options of Meson, also to a build folder
# that exists, and JOBS says how many compilers run at a time.
set -euo pipefail
usage="usage: packaging/aarch64.sh FOLDER [TARGET...] [-- COMMAND...]"
folder=$(realpath -m "${1:?$usage}")
shift
cd "$(dirname "$(readlink -f "$0")")/.."
. packaging/system.sh
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
targets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do targets+=("$1") && shift; done
[ $# -eq 0 ] || shift
[ ${#targets[@]} -gt 0 ] || targets=("libgenesis.so.$version" tests/test_ops)
[ $# -gt 0 ] || set -- tests/test_ops
require mmdebstrap mmdebstrap

libraries=(libflatbuffers-dev libtbb-dev libhwy-dev libfmt-dev libspdlog-dev libpcre2-dev libutf8proc-dev libxxhash-dev zlib1g-dev
  libboost-dev libjpeg-dev libpng-dev libgtest-dev)
packages="meson,ninja-build,cmake,pkg-config,g++,g++-aarch64-linux-gnu,qemu-user,flatbuffers-compiler,python3,libcli11-dev,nlohmann-json3-dev"
system_in "$folder" bookworm --architectures=amd64,arm64 --include="$packages$(printf ',%s:arm64' "${libraries[@]}")"

cat >"$folder/arm.ini" <<END
[binaries]
c = 'aarch64-linux-gnu-gcc'
cpp = 'aarch64-linux-gnu-g++'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
cmake = 'cmake'
exe_wrapper = 'qemu-aarch64'
[properties]
pkg_config_libdir = '/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
copy_tree "$folder"
cat >"$folder/build.sh" <<END
set -e
options="-Dcuda=disabled -Dmpi=disabled -Dpage=disabled -Dsources_per_unit=30 -Dseldom_run=quick ${GENESIS_SETUP:-}"
if [ ! -f /build/build.ninja ]; then
  rm -rf /build  # Meson would take what an interrupted setup left for a build folder
  meson setup /build /src --cross-file /arm.ini \$options >/setup.log || { cat /setup.log >&2; exit 1; }
elif [ "\$options" != "\$(cat /build/options 2>/dev/null)" ]; then
  meson configure /build \$options
fi
echo "\$options" >/build/options
ninja -C /build -k 0 -j ${JOBS:-$(nproc)} ${targets[*]}
END
in_system "$folder" bash /build.sh
in_system "$folder" bash -c 'cd /build; QEMU_CPU=$0 exec qemu-aarch64 "$@"' "${GENESIS_CPU:-max}" "$@"
