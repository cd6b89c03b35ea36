#include "executor/training/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "executor/training/checkpoint_names.h"
#include "executor/training/checkpoint_shards.h"
#include "executor/training/intact_files.h"
#include "passes/training/evaluation.h"
#include "schema/core/parse_number.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/messages/log.h"

namespace genesis {
namespace fs = std::filesystem;
namespace {

constexpr const char* kStepKey = "checkpoint.step";  // key in the metadata

// Returns the checkpoints in the folder, newest first.
std::vector<Checkpoint> list_checkpoints(const fs::path& directory) {
  std::vector<Checkpoint> found;
  if (!fs::is_directory(directory)) return found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (const auto step = step_of_checkpoint(entry.path())) found.push_back({entry.path(), *step});
  std::ranges::sort(found, [](const Checkpoint& a, const Checkpoint& b) { return a.step > b.step; });
  return found;
}

// Removes the model first, so that no model is left without its shards. Files that cannot be removed stay.
void remove(const Checkpoint& checkpoint) {
  std::error_code error;
  if (fs::remove(checkpoint.path, error)) fs::remove_all(shards_folder(checkpoint.path), error);
}

// Checkpoints of steps after `step` are damaged: this run has skipped them, so they do not count. Neither do damaged ones of
// earlier steps.
void remove_all_but(int keep, const std::vector<Checkpoint>& newest_first, int64_t step) {
  int intact = 0;
  for (const Checkpoint& checkpoint : newest_first) {
    if (checkpoint.step > step) continue;
    if (intact >= std::max(keep, 1))
      remove(checkpoint);
    else
      intact += why_damaged(checkpoint.path).empty();
  }
}

}  // namespace

int64_t steps_done(const Model& model) {
  const auto at = model.metadata.find(kStepKey);
  if (at == model.metadata.end()) return 0;
  const auto step = parse_number<int64_t>(at->second);
  if (!step || *step < 0)
    fail("the model's metadata '{}' is '{}', expected a number of steps", kStepKey, at->second);
  return *step;
}

std::unique_ptr<Model> to_train_anew(const Model& model) {
  std::unique_ptr<Model> anew = passes::without_training(model);
  anew->metadata.erase(kStepKey);
  return anew;
}

void make_checkpoint_folder(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail("cannot make the checkpoint folder {}: {}", directory.string(), error.message());
}

bool has_checkpoints(const fs::path& directory) { return !list_checkpoints(directory).empty(); }

Checkpoint save_checkpoint(const Session& session, const fs::path& directory, int64_t step, int keep) {
  return write_checkpoint(*with_values(session), directory, step, keep);
}

Checkpoint write_checkpoint(Model& model, const fs::path& directory, int64_t step, int keep,
                            const WriteModel& write) {
  make_checkpoint_folder(directory);
  model.metadata[kStepKey] = std::to_string(step);
  Checkpoint written{checkpoint_path(directory, step), step};
  if (write)
    write(model, written.path);
  else
    save_model(model, written.path, {.link = LinkAtName::kReplaced});
  remember_intact(written.path);
  remove_all_but(keep, list_checkpoints(directory), step);
  return written;
}

std::optional<Checkpoint> find_checkpoint(const fs::path& directory) {
  std::vector<std::string> damaged;
  std::optional<Checkpoint> found;
  for (const Checkpoint& candidate : list_checkpoints(directory)) {
    const std::string why = why_damaged(candidate.path);
    if (why.empty()) {
      found = candidate;
      break;
    }
    damaged.push_back(fmt::format("{}: {}", candidate.path.string(), why));
  }
  if (!found && !damaged.empty())
    fail("all checkpoints in {} are damaged: {}; remove them to begin at step 0, or name another folder",
         directory.string(), fmt::join(damaged, "; "));
  for (const std::string& what : damaged) log_warning("passing over the damaged checkpoint {}", what);
  return found;
}

std::shared_ptr<Model> load_checkpoint(const Checkpoint& checkpoint) {
  return load_model(checkpoint.path,
                    {.verify = is_known_intact(checkpoint.path) ? Verify::kHeader : Verify::kFull});
}

}  // namespace genesis
