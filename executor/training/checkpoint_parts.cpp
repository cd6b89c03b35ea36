#include "executor/training/checkpoint_parts.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "executor/environment.h"
#include "executor/snapshot.h"
#include "executor/states/state_snapshot.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/temporary_name.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kRunKey = "checkpoint.run";  // key in a part's metadata

fs::path part_file(const fs::path& checkpoint, int64_t rank) {
  return parts_folder(checkpoint) / fmt::format("rank-{}.genesis", rank);
}

// A part of this run, mapped.
struct Part {
  std::shared_ptr<const MappedFile> file;
  std::unique_ptr<Model> model;
};

// Returns nothing if the part does not exist yet. Lists the folder first: on network file systems a listing shows new files
// sooner than a lookup by name.
Part open_part(const fs::path& file, const std::string& run) {
  std::error_code error;
  bool is_listed = false;
  for (const auto& entry : fs::directory_iterator(file.parent_path(), error))
    is_listed |= entry.path().filename() == file.filename();
  if (!is_listed) return {};
  Part part{MappedFile::open(file), nullptr};
  auto model = load_model_from(part.file, part.file->bytes());
  if (model->metadata[kRunKey] != run) return {};
  part.model = std::move(model);
  return part;
}

Part wait_for_part(const fs::path& file, int64_t rank, const PartsToCome& expected, Clock::time_point until) {
  constexpr std::chrono::milliseconds kShortest{2}, kLongest{200};
  for (auto pause = kShortest;; pause = std::min(2 * pause, kLongest)) {
    Part part = open_part(file, expected.run);
    if (part.model) return part;
    if (const std::string why = expected.given_up ? expected.given_up() : ""; !why.empty())
      fail("rank {} has not written its part {}: {}", rank, file.string(), why);
    if (Clock::now() > until)
      fail(
          "rank {} has not written its part {} within {} seconds: it is too slow, or does not see the "
          "folder, which all ranks must share",
          rank, file.string(), expected.seconds);
    std::this_thread::sleep_for(pause);
  }
}

const State& state_in(const Part& part, const State& wanted, int64_t rank) {
  const int32_t index = part.model->find_state(wanted.name);
  if (index < 0) fail("rank {} has not written its part of state '{}'", rank, wanted.name);
  return part.model->state(index);
}

JoinedValues joined(const State& state, const StateOwners& owners, const std::vector<Part>& parts) {
  JoinedValues values{{}, owners.runs, owners.pieces_each};
  for (const int64_t rank : owners.ranks)
    values.pieces.push_back(state_in(parts[static_cast<size_t>(rank)], state, rank).initial);
  return values;
}

}  // namespace

// Every tensor gets its own segment: large tensors then begin at a page boundary and can be mapped side by side.
void write_part(Model& part, const fs::path& checkpoint, int64_t rank, const std::string& run) {
  const fs::path file = part_file(checkpoint, rank), folder = file.parent_path();
  std::error_code error;
  if (fs::is_symlink(folder, error))
    fail(
        "cannot write the parts of {}: {} is a symbolic link, and they would land outside of the folder: "
        "remove it",
        checkpoint.string(), folder.string());
  fs::create_directories(folder, error);
  if (error) fail("cannot make the folder {}: {}", folder.string(), error.message());
  part.metadata[kRunKey] = run;
  save_model(part, file, {.segment_bytes = 1, .deduplicate = false, .link = LinkAtName::kReplaced});
}

namespace {

// Does the work of join_parts() and writes the file `saved`: with links to the parts of `checkpoint` if `options.keeps_pieces`,
// else with the values themselves.
void join_parts_into(Model& model, const StateParts& parts, const fs::path& checkpoint,
                     const PartsToCome& expected, const fs::path& saved, SaveOptions options) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(expected.seconds));
  std::vector<Part> of_ranks;
  for (int64_t rank = 0; rank < parts.ranks; ++rank) {
    of_ranks.push_back(wait_for_part(part_file(checkpoint, rank), rank, expected, until));
    if (options.keeps_pieces) options.links.push_back(of_ranks.back().file);
  }
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i) {
    const State& state = model.state(i);
    const StateOwners& owners = parts.owners[static_cast<size_t>(i)];
    if (owners.ranks.empty()) continue;
    if (owners.is_joined()) {
      options.joined.emplace(state.name, joined(state, owners, of_ranks));
      continue;
    }
    const int64_t rank = owners.ranks[0];
    const State& values = state_in(of_ranks[static_cast<size_t>(rank)], state, rank);
    if (values.encoded)
      model.set_encoded(i, values.encoded);
    else
      model.set_initial(i, values.initial);
  }
  save_model(model, saved, options);
}

// The temporary parts for save_together(), in a folder with a unique name; rank 0 removes them.
class PassingParts {
 public:
  PassingParts(const fs::path& saved, const StateParts& parts)
      : parts_(parts), checkpoint_(folder_of(saved) / ("." + saved.filename().string() + ".together")) {}
  ~PassingParts() {
    std::error_code error;  // files that cannot be removed stay
    if (parts_.rank != 0) return;
    for (int64_t rank = 0; rank < parts_.ranks; ++rank) fs::remove(part_file(checkpoint_, rank), error);
    fs::remove(parts_folder(checkpoint_), error);
  }
  PassingParts(const PassingParts&) = delete;
  PassingParts& operator=(const PassingParts&) = delete;

  const fs::path& checkpoint() const { return checkpoint_; }

 private:
  const StateParts& parts_;
  const fs::path checkpoint_;
};

}  // namespace

void join_parts(Model& model, const StateParts& parts, const fs::path& checkpoint,
                const PartsToCome& expected) {
  join_parts_into(model, parts, checkpoint, expected, checkpoint, {.link = LinkAtName::kReplaced});
}

void save_together(Session& session, const fs::path& path, const std::string& run, LinkAtName link) {
  const std::unique_ptr<StateSnapshot> snapshot = session.make_state_snapshot();
  const StateParts& parts = snapshot->parts();
  const PassingParts passing(path, parts);
  write_part(*snapshot->part_now(), passing.checkpoint(), parts.rank, run);
  if (parts.rank != 0) return;
  Model model(session.model());
  forget_checkpoint(model);
  const PartsToCome expected{.run = run,
                             .given_up = [&] { return snapshot->failure_of_ranks(); },
                             .seconds = environment().collective_timeout};
  join_parts_into(model, parts, passing.checkpoint(), expected, path, {.keeps_pieces = false, .link = link});
}

void remove_abandoned_parts(const fs::path& directory) {
  std::error_code error;  // files that cannot be removed stay
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const fs::path checkpoint = fs::path(entry.path()).replace_extension(".genesis");
    if (entry.path().extension() == kPartsSuffix && is_checkpoint_name(checkpoint.filename()) &&
        !fs::exists(checkpoint, error))
      folders.push_back(entry.path());
  }
  for (const fs::path& folder : folders) fs::remove_all(folder, error);
}

}  // namespace genesis
