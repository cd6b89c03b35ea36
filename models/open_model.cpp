#include "models/open_model.h"

#include <filesystem>

#include "executor/training/checkpoint.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/model_file.h"
#include "schema/messages/shell_word.h"

namespace genesis::models {

namespace {

namespace fs = std::filesystem;

// Returns "`genesis-build 'my model' -o FILE.genesis` makes a model file of it".
std::string how_to_build(const std::string& path) {
  return fmt::format("`genesis-build {} -o FILE.genesis` makes a model file of it", shell_word(path));
}

// Fails for a file of weights alone, which are not a model: the config.json beside them says its kind and sizes.
[[noreturn]] void fail_of_weights(const std::string& path) {
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (fs::exists(folder / "config.json"))
    fail(
        "'{}' has the weights of a folder of transformers: `genesis-build {} -o FILE.genesis` makes a model "
        "file of the folder",
        path, shell_word(folder.string()));
  fail(
      "'{}' has weights and no model: there is no config.json beside it, with which `genesis-build FOLDER -o "
      "FILE.genesis` makes "
      "a model file of a folder of transformers",
      path);
}

// Throws Error for files of other programs, recognized by their file endings.
void check_is_no_other_kind(const std::string& path) {
  const std::string ending = file_ending(path);
  if (!fs::exists(path)) return;
  if (ending == ".gguf") fail("'{}' is a GGUF file: {}", path, how_to_build(path));
  if (ending == ".safetensors") fail_of_weights(path);
  if (ending == ".onnx") fail("'{}' is an ONNX model: {}", path, how_to_build(path));
  for (const char* pickled : {".pt", ".pth", ".bin", ".ckpt"})
    if (ending == pickled && !is_model_file(path))
      fail(
          "'{}' is no .genesis file. If PyTorch wrote it: Genesis reads safetensors, which "
          "`model.save_pretrained(FOLDER)` of "
          "transformers writes, and `genesis-build FOLDER -o FILE.genesis` makes a model file of the folder",
          path);
}

}  // namespace

std::string model_file(const std::string& path) {
  if (!fs::is_directory(path)) {
    check_is_no_other_kind(path);
    return path;
  }
  if (const auto checkpoint = find_checkpoint(path)) return checkpoint->path.string();
  if (fs::exists(fs::path(path) / "config.json"))
    fail("'{}' is a folder of transformers: {}", path, how_to_build(path));
  for (const auto& entry : fs::directory_iterator(path, fs::directory_options::skip_permission_denied))
    if (file_ending(entry.path()) == ".gguf")
      fail("'{}' is a folder with a GGUF file: {}", path, how_to_build(entry.path().string()));
  fail(
      "'{}' is a folder with no checkpoint (step-*.genesis): name a .genesis file or a folder of train "
      "--checkpoint",
      path);
}

std::string model_file(const std::string& path, World& world) {
  world.require_same("the name of the model file", path);
  return world.said_by_first(world.is_first() ? model_file(path) : "");
}

bool names_model(const std::string& path) {
  const fs::path named = path;
  return named.extension() == ".genesis" || (!fs::exists(named / "tokenizer.json") && has_checkpoints(named));
}

std::unique_ptr<Model> open_model(const std::string& path, const LoadOptions& options) {
  const std::string file = model_file(path);
  return load_model(file, file == path ? options : LoadOptions{});  // model_file() verified a checkpoint
}

}  // namespace genesis::models
