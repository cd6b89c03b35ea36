#include "models/jobs/training_output.h"

#include <fmt/ranges.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "executor/training/checkpoint.h"
#include "executor/training/checkpoint_shards.h"
#include "executor/training/metrics_file.h"
#include "models/corpus/text_files.h"
#include "models/data/image_folder.h"
#include "models/jobs/output_files.h"
#include "schema/core/setting_error.h"
#include "schema/file/format/hash.h"
#include "schema/file/io/atomic_write.h"
#include "schema/graph/memory_text.h"
#include "schema/messages/log.h"

namespace genesis::jobs {
namespace {

namespace fs = std::filesystem;

// Throws Error if the output would overwrite data that is read. `name` is FILE, NAME=FILE or a folder of text.
void check_is_not_data(const char* option, const std::string& output, const std::string& name) {
  std::error_code error;  // ignored: a file that is missing is not the same file
  std::vector<fs::path> files{fs::exists(name, error) ? name : name.substr(name.find('=') + 1)};
  if (fs::is_directory(name, error)) try {
      files = corpus::text_files({name});
    } catch (const Error&) {
      if (!data::is_image_folder(name)) throw;
      files.clear();  // no model or metrics stand among the pictures
    }
  for (const fs::path& file : files) check_is_not_read(option, output, file, "of the data");
}

// Returns the approximate size of a model file: all states but caches.
uint64_t file_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (const State& state : model.states())
    if (state.role != StateRole::kCache) bytes += static_cast<uint64_t>(state.type.bytes());
  return bytes;
}

// Warns of a disk without enough room. This is no error, since the disk may have room again by the end.
void warn_of_full_disk(const std::string& path, const fs::path& folder, uint64_t needed) {
  struct statvfs disk;
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return;
  const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free < needed)
    log_warning("{} will need {} and its disk has {} left: make room before the run ends", path,
                human_bytes(needed), human_bytes(free));
}

// Returns true if all ranks see a file that the first one makes beside `file`.
bool all_see_folder_of(const fs::path& file, World& world) {
  fs::path mark = file;
  mark += world.said_by_first(fmt::format(".seen-{}", ::getpid()));
  if (world.is_first()) write_file_atomically(mark, "\n", LinkAtName::kReplaced);
  world.barrier();
  const std::vector<std::string> votes = world.gather(fs::exists(mark) ? "yes" : "no");
  std::error_code error;  // ignored: a file that cannot be removed stays
  if (world.is_first()) fs::remove(mark, error);
  return std::ranges::count(votes, "yes") == world.size();
}

}  // namespace

void check_output_files(const TrainJob& job) {
  std::error_code error;
  for (const auto& [option, file] : {std::pair("-o", job.output), std::pair("--metrics", job.metrics)}) {
    if (!fs::is_regular_file(file, error)) continue;
    for (const auto* names : {&job.data, &job.evaluation_data})
      for (const std::string& name : *names) check_is_not_data(option, file, name);
  }
  if (!job.metrics.empty() &&
      fs::weakly_canonical(job.metrics, error) == fs::weakly_canonical(job.output, error))
    fail_setting("--metrics and -o are both '{}', and one would write over the other: name two files",
                 job.output);
  check_holds_metrics(job.metrics);
  check_replaces_model("-o", job.output);
}

void warn_of_what_will_be_lost(const TrainJob& job, const Model& model) {
  if (job.output.empty() && job.checkpoint.empty())
    log_warning("nothing of this run will be kept: neither -o FILE nor --checkpoint DIR is given");
  if (!job.output.empty())
    warn_of_full_disk(job.output, fs::path(job.output).parent_path(), file_bytes(model));
  if (!job.checkpoint.empty())
    warn_of_full_disk("a checkpoint in " + job.checkpoint, job.checkpoint, file_bytes(model));
}

void write_output(const std::string& file, Session& session, World& world) {
  if (session.shares_states() && all_see_folder_of(file, world))
    save_together(session, file, name_of_run(world));
  else if (world.is_first())
    session.save(file);
  else if (session.shares_states())
    session.take_part_in_gather();
}

std::string name_of_run(World& world) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return world.said_by_first(fmt::format("{} {} {}", world.host(), ::getpid(), since_1970.count()));
}

// Hashes batches from all over the data. For large data a sample suffices to tell it from any other text.
std::string digest_of_data(BatchSource& data) {
  constexpr int64_t kBytes = 64 << 20;  // bytes read of large data
  const int64_t batches = std::max<int64_t>(data.batches_per_epoch(), 1);
  int64_t bytes = 0;
  for (const auto& [name, tensor] : data.batch(0)) bytes += tensor.bytes();
  const int64_t read = std::min(std::max<int64_t>(kBytes / std::max<int64_t>(bytes, 1), 3), batches);
  file::Hasher hasher;
  for (int64_t i = 0; i < read; ++i)
    for (const auto& [name, tensor] : data.batch(i * (batches - 1) / std::max<int64_t>(read - 1, 1)))
      hasher.update({tensor.data(), static_cast<size_t>(tensor.bytes())});
  return fmt::format("{} batches like {}", batches, hasher.digest().to_string());
}

void remember_data(const TrainJob& job, const std::string& content, Model& model) {
  std::string &order_before = model.metadata[kDataOrderKey],
              &content_before = model.metadata[kDataContentKey];
  const std::string order = job.data_order();
  if (job.resume && !order_before.empty() && order_before != order)
    log_warning(
        "the checkpoints in {} took their data with {}, this run does with {}: it will not be the run that "
        "goes on",
        job.checkpoint, order_before, order);
  else if (job.resume && !content_before.empty() && content_before != content)
    log_warning("the checkpoints in {} were made of other data than {}: it will not be the run that goes on",
                job.checkpoint, fmt::join(job.data, " "));
  order_before = order;
  content_before = content;
}

}  // namespace genesis::jobs
