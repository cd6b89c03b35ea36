#include "executor/checkpoint.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "schema/file/reader.h"
#include "schema/file/writer.h"

namespace genesis {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-", kSuffix = ".genesis";

std::string file_name(int64_t step) { return fmt::format("{}{:09}{}", kPrefix, step, kSuffix); }

std::optional<int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix))
    return std::nullopt;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size() - kSuffix.size();
  int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, end, step);
  return error == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

// Newest first.
std::vector<Checkpoint> list_checkpoints(const fs::path& directory) {
  std::vector<Checkpoint> found;
  if (!fs::is_directory(directory)) return found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (const auto step = step_of(entry.path())) found.push_back({entry.path(), *step});
  std::sort(found.begin(), found.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.step > b.step; });
  return found;
}

}  // namespace

std::unique_ptr<Model> snapshot(const Session& session) {
  auto model = std::make_unique<Model>(session.model());
  for (size_t i = 0; i < model->states().size(); ++i) {
    const State& state = model->states()[i];
    if (state.role != StateRole::kCache)
      model->set_initial(static_cast<int32_t>(i), session.state(state.name));
  }
  return model;
}

Checkpoint save_checkpoint(const Session& session, const fs::path& directory, int64_t step, int keep) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail("cannot make the checkpoint folder {}: {}", directory.string(), error.message());
  const std::unique_ptr<Model> model = snapshot(session);
  model->metadata["checkpoint.step"] = std::to_string(step);
  const Checkpoint written{directory / file_name(step), step};
  save_model(*model, written.path);
  const std::vector<Checkpoint> all = list_checkpoints(directory);
  for (size_t i = static_cast<size_t>(std::max(keep, 1)); i < all.size(); ++i) fs::remove(all[i].path, error);
  return written;
}

std::optional<Checkpoint> find_checkpoint(const fs::path& directory) {
  for (const Checkpoint& candidate : list_checkpoints(directory)) {
    try {
      load_checkpoint(candidate);
      return candidate;
    } catch (const Error& error) {
      spdlog::warn("passing over the damaged checkpoint {}: {}", candidate.path.string(), error.message());
    }
  }
  return std::nullopt;
}

std::shared_ptr<Model> load_checkpoint(const Checkpoint& checkpoint) {
  return load_model(checkpoint.path, {.verify = Verify::kFull});
}

}  // namespace genesis
