#include "executor/training/checkpoint_names.h"

#include <fmt/format.h>

#include "schema/core/parse_number.h"

namespace genesis {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-", kSuffix = ".genesis";

}  // namespace

fs::path checkpoint_path(const fs::path& directory, int64_t step) {
  return directory / fmt::format("{}{:09}{}", kPrefix, step, kSuffix);
}

std::optional<int64_t> step_of_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix))
    return std::nullopt;
  return parse_number<int64_t>(
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
}

bool is_checkpoint_name(const fs::path& name) { return step_of_checkpoint(name).has_value(); }

fs::path shards_folder(const fs::path& checkpoint) {
  return fs::path(checkpoint).replace_extension(kShardsSuffix);
}

}  // namespace genesis
