// Where what is costly to make is kept between processes: tuned products, compiled kernels. Used by the
// autotuner and the NVRTC cache. Whatever lies there may vanish or be corrupt at any time: it is only ever a
// shortcut.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

namespace genesis::cuda {

// $XDG_CACHE_HOME/genesis, or ~/.cache/genesis; made if it is not there. Empty when there is no such place,
// and then nothing is kept.
inline std::optional<std::filesystem::path> cache_folder() {
  const char *base = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::filesystem::path folder;
  if (base && *base)
    folder = std::filesystem::path(base) / "genesis";
  else if (home && *home)
    folder = std::filesystem::path(home) / ".cache" / "genesis";
  else
    return std::nullopt;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return std::nullopt;
  return folder;
}

}  // namespace genesis::cuda
