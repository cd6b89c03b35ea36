#include "executor/training/checkpoint_shards.h"

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

constexpr const char* kRunKey = "checkpoint.run";  // key in a shard's metadata

fs::path shard_file(const fs::path& checkpoint, int64_t rank) {
  return shards_folder(checkpoint) / fmt::format("rank-{}.genesis", rank);
}

// A shard of this run, mapped.
struct ShardFile {
  std::shared_ptr<const MappedFile> file;
  std::unique_ptr<Model> model;
};

// Returns nothing if the shard does not exist yet. Lists the folder first: on network file systems a listing shows new files
// sooner than a lookup by name.
ShardFile open_shard(const fs::path& file, const std::string& run) {
  std::error_code error;
  bool is_listed = false;
  for (const auto& entry : fs::directory_iterator(file.parent_path(), error))
    is_listed |= entry.path().filename() == file.filename();
  if (!is_listed) return {};
  ShardFile shard{MappedFile::open(file), nullptr};
  auto model = load_model_from(shard.file, shard.file->bytes());
  if (model->metadata[kRunKey] != run) return {};
  shard.model = std::move(model);
  return shard;
}

ShardFile wait_for_shard(const fs::path& file, int64_t rank, const ExpectedShards& expected,
                         Clock::time_point until) {
  constexpr std::chrono::milliseconds kShortest{2}, kLongest{200};
  for (auto pause = kShortest;; pause = std::min(2 * pause, kLongest)) {
    ShardFile shard = open_shard(file, expected.run);
    if (shard.model) return shard;
    if (const std::string why = expected.given_up ? expected.given_up() : ""; !why.empty())
      fail("rank {} has not written its shard {}: {}", rank, file.string(), why);
    if (Clock::now() > until)
      fail(
          "rank {} has not written its shard {} within {} seconds: it is too slow, or does not see the "
          "folder, which all ranks must share",
          rank, file.string(), expected.seconds);
    std::this_thread::sleep_for(pause);
  }
}

const State& state_in(const ShardFile& shard, const State& wanted, int64_t rank) {
  const int32_t index = shard.model->find_state(wanted.name);
  if (index < 0) fail("rank {} has not written its shard of state '{}'", rank, wanted.name);
  return shard.model->state(index);
}

JoinedValues joined(const State& state, const StateOwners& owners, const std::vector<ShardFile>& shards) {
  JoinedValues values{{}, owners.runs, owners.shards_each};
  for (const int64_t rank : owners.ranks)
    values.pieces.push_back(state_in(shards[static_cast<size_t>(rank)], state, rank).initial);
  return values;
}

}  // namespace

// Every tensor gets its own segment: large tensors then begin at a page boundary and can be mapped side by side.
void write_shard(Model& shard, const fs::path& checkpoint, int64_t rank, const std::string& run) {
  const fs::path file = shard_file(checkpoint, rank), folder = file.parent_path();
  std::error_code error;
  if (fs::is_symlink(folder, error))
    fail(
        "cannot write the shards of {}: {} is a symbolic link, and they would land outside of the folder: "
        "remove it",
        checkpoint.string(), folder.string());
  fs::create_directories(folder, error);
  if (error) fail("cannot make the folder {}: {}", folder.string(), error.message());
  shard.metadata[kRunKey] = run;
  save_model(shard, file, {.segment_bytes = 1, .deduplicate = false, .link = LinkAtName::kReplaced});
}

namespace {

// Does the work of join_shards() and writes the file `saved`: with links to the shards of `checkpoint` if `options.keeps_pieces`,
// else with the values themselves.
void join_shards_into(Model& model, const StateShards& shards, const fs::path& checkpoint,
                      const ExpectedShards& expected, const fs::path& saved, SaveOptions options) {
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(expected.seconds));
  std::vector<ShardFile> of_ranks;
  for (int64_t rank = 0; rank < shards.ranks; ++rank) {
    of_ranks.push_back(wait_for_shard(shard_file(checkpoint, rank), rank, expected, until));
    if (options.keeps_pieces) options.links.push_back(of_ranks.back().file);
  }
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i) {
    const State& state = model.state(i);
    const StateOwners& owners = shards.owners[static_cast<size_t>(i)];
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

// The temporary shards for save_together(), in a folder with a unique name; rank 0 removes them.
class PassingShards {
 public:
  PassingShards(const fs::path& saved, const StateShards& shards)
      : shards_(shards), checkpoint_(folder_of(saved) / ("." + saved.filename().string() + ".together")) {}
  ~PassingShards() {
    std::error_code error;  // files that cannot be removed stay
    if (shards_.rank != 0) return;
    for (int64_t rank = 0; rank < shards_.ranks; ++rank) fs::remove(shard_file(checkpoint_, rank), error);
    fs::remove(shards_folder(checkpoint_), error);
  }
  PassingShards(const PassingShards&) = delete;
  PassingShards& operator=(const PassingShards&) = delete;

  const fs::path& checkpoint() const { return checkpoint_; }

 private:
  const StateShards& shards_;
  const fs::path checkpoint_;
};

}  // namespace

void join_shards(Model& model, const StateShards& shards, const fs::path& checkpoint,
                 const ExpectedShards& expected) {
  join_shards_into(model, shards, checkpoint, expected, checkpoint, {.link = LinkAtName::kReplaced});
}

void save_together(Session& session, const fs::path& path, const std::string& run, LinkAtName link) {
  const std::unique_ptr<StateSnapshot> snapshot = make_state_snapshot(session);
  const StateShards& shards = snapshot->shards();
  const PassingShards passing(path, shards);
  write_shard(*snapshot->shard_now(), passing.checkpoint(), shards.rank, run);
  if (shards.rank != 0) return;
  Model model(session.model());
  forget_checkpoint(model);
  const ExpectedShards expected{.run = run,
                                .given_up = [&] { return snapshot->failure_of_ranks(); },
                                .seconds = environment().collective_timeout};
  join_shards_into(model, shards, passing.checkpoint(), expected, path,
                   {.keeps_pieces = false, .link = link});
}

void remove_abandoned_shards(const fs::path& directory) {
  std::error_code error;  // files that cannot be removed stay
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const fs::path checkpoint = fs::path(entry.path()).replace_extension(".genesis");
    if (entry.path().extension() == kShardsSuffix && is_checkpoint_name(checkpoint.filename()) &&
        !fs::exists(checkpoint, error))
      folders.push_back(entry.path());
  }
  for (const fs::path& folder : folders) fs::remove_all(folder, error);
}

}  // namespace genesis
