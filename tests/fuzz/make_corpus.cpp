// Writes the seeds of load_fuzzer, undamaged and damaged, to a folder: make_corpus FOLDER
#include <cstdio>
#include <filesystem>

#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seeds.h"
#include "tests/schema/file_models.h"
#include "tests/schema/gguf_bytes.h"

int main(int argc, char** argv) {
  using namespace genesis;
  using namespace genesis::testing;
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const Tensor tensor = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  write_npy(folder / "npy", tensor);
  write_safetensors(folder / "safetensors", {{{"a", tensor}}, {{"format", "pt"}}});
  write_bytes(folder / "npy", '\1' + read_bytes(folder / "npy"));
  write_bytes(folder / "safetensors", '\2' + read_bytes(folder / "safetensors"));
  write_bytes(folder / "gguf", '\3' + gguf_seed());
  Mutator mutator(1);
  for (const Seed& seed : model_seeds()) {
    write_bytes(folder / seed.name, '\0' + seed.bytes);
    for (int i = 0; i < 50; ++i) {
      std::string bytes = seed.bytes;
      mutator.damage(bytes);
      write_bytes(folder / (seed.name + std::to_string(i)), '\0' + bytes);
    }
  }
}
