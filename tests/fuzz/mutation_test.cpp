// Loads thousands of damaged files: each loads or is refused, none crashes or takes unlimited memory. The seeds are
// fixed, so failures can be reproduced; a failure names the seed.
#include <gtest/gtest.h>

#include <set>

#include "schema/file/layout.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/graph/op.h"
#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/try_load.h"
#include "tests/fuzz/try_pieces.h"
#include "tests/schema/file_models.h"
#include "tests/schema/gguf_bytes.h"

namespace genesis {
namespace {

using namespace testing;

constexpr size_t kMemory = size_t{32} << 20;  // for files of a few tens of kilobytes

// Runs `attempt(mutator)` with `count` seeds. Returns how many files loaded.
template <class Attempt>
int count_loaded(int count, Attempt&& attempt) {
  int loaded = 0;
  for (int seed = 0; seed < count; ++seed) {
    Mutator mutator(static_cast<uint64_t>(seed));
    const AllocationLimit limit(kMemory);
    try {
      loaded += attempt(mutator);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
  return loaded;
}

std::string damaged(std::string bytes, Mutator& mutator) {
  for (uint64_t times = 1 + mutator.below(4); times > 0; --times) mutator.damage(bytes);
  return bytes;
}

TEST(Mutation, SeedsHoldNearlyEveryOp) {
  const auto zoo = load_bytes(model_seeds()[1].bytes);
  std::set<std::string_view> found;
  for (const Node& node : zoo->entry("zoo").nodes()) found.insert(node.op->name());
  std::string missing;
  for (const OpDef* op : all_ops())
    if (!found.contains(op->name())) missing += " " + std::string(op->name());
  EXPECT_GE(found.size() * 10, all_ops().size() * 9)
      << found.size() << " of " << all_ops().size() << "not found:" << missing;
  for (const Seed& seed : model_seeds()) EXPECT_TRUE(try_load_model(seed.bytes)) << seed.name;
}

TEST(Mutation, DamagedFiles) {
  const std::vector<Seed>& seeds = model_seeds();
  const int loaded = count_loaded(6000, [&](Mutator& mutator) {
    return try_load_model(damaged(seeds[mutator.below(seeds.size())].bytes, mutator));
  });
  EXPECT_LT(loaded, 2000);  // loading does not detect damage to weights alone
}

TEST(Mutation, DamagedFilesWhoseHashIsRight) {
  const std::vector<Seed>& seeds = model_seeds();
  const int loaded = count_loaded(12000, [&](Mutator& mutator) {
    const std::string& seed = seeds[mutator.below(3)].bytes;
    std::string bytes = mutator.chance(4) ? damaged(seed, mutator) : seed;
    mutator.damage_in_place(bytes);
    fix_header(bytes);
    return try_load_model(bytes);
  });
  EXPECT_GT(loaded, 1000);  // the damage passes the hash check
}

TEST(Mutation, RecordsThatSayAnything) {
  for (const Seed& seed : model_seeds()) {
    const auto model = load_bytes(seed.bytes);
    const file::Layout layout = file::lay_out(*model, {.segment_bytes = 1 << 20});
    const int loaded = count_loaded(seed.name == "zoo" ? 2000 : 4000, [&](Mutator& mutator) {
      file::ModelRecord record = layout.record;
      for (uint64_t times = 1 + mutator.below(2); times > 0; --times) mutator.damage(record);
      return try_load_model(file_of(record, std::string(layout.data_bytes, '\0')));
    });
    EXPECT_GT(loaded, 100);
  }
}

// Gives shape rules what a file may contain: any attributes with any inputs.
TEST(Mutation, EveryShapeRuleOnAnything) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(std::string(op->name()));
    const Attributes defaults = op->canonical({});
    count_loaded(2000, [&](Mutator& mutator) {
      Attributes attributes = defaults;
      for (const auto& [name, value] : defaults)
        if (mutator.chance(2)) attributes.set(name, mutator.attribute(value));
      std::vector<TensorType> inputs(mutator.below(5));
      for (TensorType& type : inputs)
        type = mutator.chance(3) && &type != inputs.data() ? inputs[0] : mutator.type();
      try {
        const Attributes canonical = op->canonical(attributes);
        infer_types(*op, canonical, inputs);
        if (op->view_offset != nullptr) op->view_offset(canonical, inputs);
        return true;
      } catch (const Error&) {
        return false;
      }
    });
  }
}

TEST(Mutation, DamagedNpy) {
  const TemporaryFolder folder;
  write_npy(folder / "a.npy", Tensor::of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const std::string bytes = read_bytes(folder / "a.npy");
  EXPECT_TRUE(try_load_npy(bytes));
  EXPECT_LT(count_loaded(5000, [&](Mutator& mutator) { return try_load_npy(damaged(bytes, mutator)); }),
            4000);
}

TEST(Mutation, DamagedSafetensors) {
  const TemporaryFolder folder;
  const SafeTensors contents{{{"a", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
                              {"b", Tensor::of<bool>({2}, {true, false})},
                              {"c", Tensor::scalar<int64_t>(3)}},
                             {{"format", "pt"}}};
  write_safetensors(folder / "a.safetensors", contents);
  const std::string bytes = read_bytes(folder / "a.safetensors");
  EXPECT_TRUE(try_load_safetensors(bytes));
  EXPECT_LT(
      count_loaded(5000, [&](Mutator& mutator) { return try_load_safetensors(damaged(bytes, mutator)); }),
      4000);
}

TEST(Mutation, DamagedGguf) {
  const std::string bytes = gguf_seed();
  EXPECT_TRUE(try_load_gguf(bytes));
  EXPECT_LT(count_loaded(10'000, [&](Mutator& mutator) { return try_load_gguf(damaged(bytes, mutator)); }),
            8000);
}

TEST(Mutation, DamagedSentencePieces) {
  const std::string bytes =
      read_bytes(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/sentence_pieces/unigram/tokenizer.model");
  EXPECT_TRUE(try_pieces(bytes));
  EXPECT_LT(count_loaded(1000, [&](Mutator& mutator) { return try_pieces(damaged(bytes, mutator)); }), 900);
}

}  // namespace
}  // namespace genesis
