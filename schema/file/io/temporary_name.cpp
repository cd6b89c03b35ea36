#include "schema/file/io/temporary_name.h"

#include <fmt/format.h>

#include <atomic>
#include <random>
#include <string_view>

namespace genesis {
namespace {

constexpr std::string_view kMark = ".tmp-";

std::string random_suffix() {
  static std::atomic<uint32_t> count{0};
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device() + count++);
}

}  // namespace

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  return folder_of(path) / ("." + path.filename().string() + std::string(kMark) + random_suffix());
}

std::string target_of_temporary(const std::string& name) {
  const size_t mark = name.rfind(kMark);
  return name.starts_with(".") && mark != std::string::npos ? name.substr(1, mark - 1) : "";
}

}  // namespace genesis
