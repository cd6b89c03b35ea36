#include "tools/common/open_model.h"

#include <filesystem>

#include "executor/training/checkpoint.h"

namespace genesis::tools {

std::string model_file(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return path;
  if (const auto checkpoint = find_checkpoint(path)) return checkpoint->path.string();
  if (std::filesystem::exists(std::filesystem::path(path) / "config.json"))
    fail("'{0}' is a folder of transformers: `genesis-build {0} -o FILE.genesis` makes a model file of it",
         path);
  fail(
      "'{}' is a folder with no checkpoint (step-*.genesis): name a .genesis file or a folder of train "
      "--checkpoint",
      path);
}

std::unique_ptr<Model> open_model(const std::string& path, const LoadOptions& options) {
  const std::string file = model_file(path);
  return load_model(file, file == path ? options : LoadOptions{});  // a checkpoint has just been verified
}

}  // namespace genesis::tools
