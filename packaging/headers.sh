#!/bin/sh
# Installs the headers, as `meson install` asks for: packaging/headers.sh INCLUDE_DIR
# In the tree they include each other by floor ("schema/core/tensor.h"). Such short names would meet those of whoever
# uses the library, so what is installed says <genesis/schema/core/tensor.h> and needs no other folder in the path of
# includes than the one in which genesis/ lies. Kernels stay inside, and so does executor/cuda: of backends/ only what the
# floors above include.
set -eu
case $1 in
  /*) to=${DESTDIR:-}$1/genesis ;;
  *) to=$MESON_INSTALL_DESTDIR_PREFIX/$1/genesis ;;
esac

# Copies the header $1 to $2.
install_header() {
  mkdir -p "$(dirname "$2")"
  sed -E 's@^#include "((schema|builder|passes|backends|executor|models)/[^"]+)"@#include <genesis/\1>@' "$1" >"$2"
  chmod 644 "$2"
}

cd "$MESON_SOURCE_ROOT"
install_header include/genesis/genesis.h "$to/genesis.h"
find schema builder passes executor models backends/kernel.h backends/collectives.h backends/rank_link.h backends/cpu/kernels.h backends/cpu/peaks.h \
  -name '*.h' ! -path 'executor/cuda/*' | while IFS= read -r header; do
  install_header "$header" "$to/$header"
done
