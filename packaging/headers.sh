#!/bin/sh
# Installs the headers, called by `meson install`: packaging/headers.sh INCLUDE_DIR
# In the source tree headers include each other by top-level folder ("schema/core/tensor.h"). Such short names could collide with
# those of users of the library, so installed headers say <genesis/schema/core/tensor.h> and need only the folder that contains
# genesis/ in the include path. Kernels and executor/cuda stay internal: of backends/ only the headers that the layers above
# include are installed.
set -eu
case $1 in
  /*) to=${DESTDIR:-}$1/genesis ;;
  *) to=$MESON_INSTALL_DESTDIR_PREFIX/$1/genesis ;;
esac

# Copies the header $1 to $2 and rewrites its includes.
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
