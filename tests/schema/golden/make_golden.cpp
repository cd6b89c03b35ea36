// Writes the golden file of the current format version, and its text form beside it, once per version. Both stay in
// the tree, and golden_test compares them. Usage: make_golden tests/schema/golden/v4.genesis
#include <cstdio>

#include "schema/file/io/atomic_write.h"
#include "schema/file/writer.h"
#include "schema/graph/text.h"
#include "tests/schema/file_models.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden FILE\n");
    return 2;
  }
  using namespace genesis::testing;
  const std::filesystem::path path = argv[1];
  genesis::save_model(*golden_model_of_version_4(), path, golden_options_of_version_4());
  const auto model = genesis::load_model(path);
  genesis::write_file_atomically(std::filesystem::path(path).replace_extension(".txt"),
                                 genesis::to_text(*model, {.max_values = 1000}));
}
