#include "tests/fuzz/try_program.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "models/formats/pt2/import.h"
#include "models/images/read_picture.h"
#include "schema/core/error.h"
#include "schema/graph/verify.h"

namespace genesis::testing {

bool try_program(const std::string& bytes) {
  const auto path =
      std::filesystem::temp_directory_path() / ("genesis_fuzz_" + std::to_string(::getpid()) + ".pt2");
  std::ofstream(path, std::ios::binary) << bytes;
  std::unique_ptr<Model> model;
  try {
    model = models::pt2::import_model(path);
  } catch (const Error&) {
    return false;
  }
  verify(*model);  // an imported model is valid
  return true;
}

bool try_picture(const std::string& bytes) {
  try {
    images::decode_picture(bytes);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace genesis::testing
