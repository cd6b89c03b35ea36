#include "executor/training/intact_files.h"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "schema/core/error.h"
#include "schema/file/reader.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// Whatever writes to a file changes one of these.
using Identity = std::tuple<dev_t, ino_t, off_t, time_t, long>;

std::optional<Identity> identity_of(const fs::path& path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return Identity(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

std::mutex mutex;
std::map<fs::path, Identity>& intact() {
  static std::map<fs::path, Identity> files;
  return files;
}

bool is_known(const fs::path& path) {
  const std::lock_guard lock(mutex);
  const auto at = intact().find(path);
  return at != intact().end() && identity_of(path) == at->second;
}

}  // namespace

void remember_intact(const fs::path& path) {
  const std::lock_guard lock(mutex);
  if (const auto identity = identity_of(path)) intact()[path] = *identity;
}

std::string why_damaged(const fs::path& path) {
  if (is_known(path)) return "";
  try {
    load_model(path, {.verify = Verify::kFull});
  } catch (const Error& error) {
    return error.message();
  }
  remember_intact(path);
  return "";
}

}  // namespace genesis
