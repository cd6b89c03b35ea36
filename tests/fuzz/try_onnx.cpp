#include "tests/fuzz/try_onnx.h"

#include "models/formats/onnx/import.h"
#include "schema/core/error.h"
#include "schema/graph/verify.h"

namespace genesis::testing {

bool try_onnx(const std::string& bytes) {
  std::unique_ptr<Model> model;
  try {
    model = models::onnx::import_file(read_onnx_from(std::as_bytes(std::span(bytes))), {});
  } catch (const Error&) {
    return false;
  }
  verify(*model);  // an imported model is valid
  return true;
}

}  // namespace genesis::testing
