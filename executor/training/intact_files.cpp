#include "executor/training/intact_files.h"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "executor/training/checkpoint_names.h"
#include "schema/core/error.h"
#include "schema/file/reader.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// Device, inode, size and modification time: any write to a file changes one of them.
using FileIdentity = std::tuple<dev_t, ino_t, off_t, time_t, long>;
// The identities of a checkpoint and its shards, in no order.
using Identity = std::set<FileIdentity>;

bool add_identity(const fs::path& path, Identity& to) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0) return false;
  to.emplace(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
  return true;
}

std::optional<Identity> identity_of(const fs::path& path) {
  Identity identity;
  if (!add_identity(path, identity)) return std::nullopt;
  std::error_code error;
  for (const auto& shard : fs::directory_iterator(shards_folder(path), error))
    add_identity(shard.path(), identity);
  return identity;
}

std::mutex mutex;
std::map<fs::path, Identity>& intact() {
  static std::map<fs::path, Identity> files;
  return files;
}

}  // namespace

bool is_known_intact(const fs::path& path) {
  const std::lock_guard lock(mutex);
  const auto at = intact().find(path);
  return at != intact().end() && identity_of(path) == at->second;
}

void remember_intact(const fs::path& path) {
  const std::lock_guard lock(mutex);
  if (const auto identity = identity_of(path)) intact()[path] = *identity;
}

std::string why_damaged(const fs::path& path) {
  if (is_known_intact(path)) return "";
  try {
    load_model(path, {.verify = Verify::kFull});
  } catch (const Error& error) {
    return error.message();
  }
  remember_intact(path);
  return "";
}

}  // namespace genesis
