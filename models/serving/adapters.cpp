// Reads the LoRA adapters that a server has beside its model.
#include "models/formats/hugging_face/adapter.h"
#include "models/serving/service.h"

namespace genesis::serving {

text::Adapter read_adapter(const Model& model, const std::string& name, const std::filesystem::path& path) {
  const std::filesystem::path folder = std::filesystem::is_regular_file(path) ? path.parent_path() : path;
  Model adapted(model);
  adapted.metadata.erase("adapter_weights");  // an adapter that was merged before may have left it
  models::hugging_face::load_adapter(adapted, folder.empty() ? "." : folder);
  if (adapted.metadata.contains("adapter_weights"))
    fail(
        "the adapter {} changes weights of the model itself (DoRA, embeddings, biases or modules_to_save), "
        "which "
        "all texts share: merge it (genesis-opt MODEL --adapter {} --merge-lora) and serve that model",
        path.string(), path.string());
  return text::adapter_of(adapted, name);
}

}  // namespace genesis::serving
