// Reads thousands of damaged quantized checkpoints: sizes that contradict, tensors that are missing or of another kind, bytes that say
// anything, settings of any value.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/try_quantized.h"
#include "tests/models/checkpoints.h"
#include "tests/models/safetensors_bytes.h"

namespace genesis {
namespace {

using namespace testing;
using nlohmann::json;

constexpr size_t kMemory = size_t{32} << 20;

// Changes a random number or text in the settings.
void damage(json& settings, Mutator& mutator) {
  std::vector<json*> leaves;
  const std::function<void(json&)> visit = [&](json& at) {
    if (!at.is_structured()) return leaves.push_back(&at);
    for (json& item : at) visit(item);
  };
  visit(settings);
  const json kValues[] = {mutator.number(), 0,   -1, 3, 8, 1e300, "", nullptr, json::array(),
                          json::object(),   true};
  *leaves[mutator.below(leaves.size())] = kValues[mutator.below(std::size(kValues))];
}

std::vector<int64_t> other_sizes(int64_t elements, Mutator& mutator) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1 + static_cast<int64_t>(mutator.below(8));
       elements % size == 0 && size > 1 && sizes.size() < 3; elements /= size)
    sizes.push_back(size);
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(mutator.below(sizes.size() + 1)), elements);
  return sizes;
}

void damage(SafetensorsBytes& file, Mutator& mutator) {
  const std::vector<std::string> names = file.names();
  if (names.empty()) return;
  const std::string& name = names[mutator.below(names.size())];
  switch (mutator.below(6)) {
    case 0:
      return file.erase(name);
    case 1:
      return file.reshape(name, other_sizes(file.elements(name), mutator));
    case 2:
      return file.rename(name, names[mutator.below(names.size())] + "_scale");
    case 3:
      return file.exchange(name, names[mutator.below(names.size())]);
    default:
      file.set<uint8_t>(name, mutator.below(file.byte_count(name)), static_cast<uint8_t>(mutator.below(256)));
  }
}

TEST(Mutation, DamagedQuantizedCheckpoints) {
  int loaded = 0, all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints() / "quantized")) {
    const SafetensorsBytes file(entry.path() / "model.safetensors");
    const json settings = read_json_file(entry.path() / "config.json").at("quantization_config");
    EXPECT_TRUE(try_quantized(settings, file.bytes())) << entry.path();
    for (uint64_t seed = 0; seed < 200; ++seed, ++all) {
      SCOPED_TRACE(entry.path().string() + ", seed " + std::to_string(seed));
      Mutator mutator(seed);
      SafetensorsBytes damaged = file;
      json changed = settings;
      for (uint64_t times = 1 + mutator.below(3); times > 0; --times) damage(damaged, mutator);
      if (mutator.chance(2)) damage(changed, mutator);
      const AllocationLimit limit(kMemory);
      loaded += try_quantized(changed, damaged.bytes());
    }
  }
  EXPECT_GT(all, 3000);
  EXPECT_GT(loaded, all / 20);
  EXPECT_LT(loaded, all * 19 / 20);
}

}  // namespace
}  // namespace genesis
