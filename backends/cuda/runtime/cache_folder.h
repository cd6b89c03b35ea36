// The folder for results that are expensive to make and kept between processes: tuned products and compiled kernels.
// Its files may vanish or be corrupt at any time: it is only a cache.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>

#include "schema/messages/log.h"

namespace genesis::cuda {

// Returns $XDG_CACHE_HOME/genesis or ~/.cache/genesis, and creates it if necessary. Returns nothing if neither
// variable is set or the folder cannot be created; then nothing is kept. Warns once if the folder cannot be written.
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
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (error) {
    static std::once_flag told;
    std::call_once(told, [&] {
      log_warning(
          "compiled kernels and tuned products are not kept, so that every start makes them anew: cannot "
          "write '{}': {}",
          folder.string(), error.message());
    });
  }
  // A folder that cannot be written can still be read.
  if (!std::filesystem::is_directory(folder, error)) return std::nullopt;
  return folder;
}

}  // namespace genesis::cuda
