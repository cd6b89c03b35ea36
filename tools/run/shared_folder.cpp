#include "tools/run/shared_folder.h"

#include <unistd.h>

#include <algorithm>

#include "schema/file/io/atomic_write.h"
#include "tools/common/ranks.h"

namespace genesis::tools {

bool all_see_folder_of(const std::filesystem::path& file, World& world) {
  std::filesystem::path mark = file;
  mark += said_by_first(world, fmt::format(".seen-{}", ::getpid()));
  if (world.is_first()) write_file_atomically(mark, "\n", LinkAtName::kReplaced);
  world.barrier();
  const std::vector<std::string> votes = world.gather(std::filesystem::exists(mark) ? "yes" : "no");
  std::error_code error;  // ignored: a file that cannot be removed stays
  if (world.is_first()) std::filesystem::remove(mark, error);
  return std::ranges::count(votes, "yes") == world.size();
}

}  // namespace genesis::tools
