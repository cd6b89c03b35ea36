#include "tools/text/open_model.h"

#include "executor/training/checkpoint.h"

namespace genesis::tools {

std::shared_ptr<const Model> open_model(const std::string& path, const LoadOptions& options) {
  if (!std::filesystem::is_directory(path)) return load_model(path, options);
  const auto checkpoint = find_checkpoint(path);
  if (!checkpoint)
    fail(
        "'{}' is a folder with no checkpoint (step-*.genesis): name a .genesis file or a folder of train "
        "--checkpoint",
        path);
  return load_checkpoint(*checkpoint);
}

}  // namespace genesis::tools
