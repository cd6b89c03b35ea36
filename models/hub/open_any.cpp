#include "models/hub/open_any.h"

#include "models/formats/gguf/import.h"
#include "models/formats/hugging_face/import.h"
#include "models/formats/onnx/import.h"
#include "models/formats/pt2/import.h"
#include "models/hub/hub.h"
#include "models/open_model.h"

namespace genesis::models {

std::unique_ptr<Model> open_any(const std::string& path) {
  if (path.starts_with("hf:")) return open_any(hub::fetch(path.substr(3), hub::settings()));
  if (hugging_face::is_model_folder(path)) return hugging_face::import_model(path);
  if (gguf::is_gguf_file(path)) return gguf::import_model(path);
  if (pt2::is_pt2_file(path)) return pt2::import_model(path);
  if (onnx::is_onnx_file(path)) return onnx::import_model(path);
  return open_model(path);
}

}  // namespace genesis::models
