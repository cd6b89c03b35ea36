// Tests states that a session stores in another form, through a format other than halves (as weights in blocks of
// eight bits would be). It shows that the memory of states depends on no format by name.
#include "schema/graph/state_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "executor/states/state_memory.h"
#include "executor/states/state_snapshot.h"

namespace genesis {
namespace {

constexpr int64_t kBlock = 32;

void encode_q8(const std::byte* values, int64_t count, const StateFormat::Parts& parts) {
  const auto* x = reinterpret_cast<const float*>(values);
  auto* quants = reinterpret_cast<int8_t*>(parts[0]);
  auto* scales = reinterpret_cast<float*>(parts[1]);
  for (int64_t block = 0; block < count / kBlock; ++block) {
    float greatest = 0;
    for (int64_t i = 0; i < kBlock; ++i) greatest = std::max(greatest, std::abs(x[block * kBlock + i]));
    scales[block] = greatest / 127;
    for (int64_t i = 0; i < kBlock; ++i)
      quants[block * kBlock + i] =
          static_cast<int8_t>(greatest == 0 ? 0 : std::lround(x[block * kBlock + i] / scales[block]));
  }
}

void decode_q8(const StateFormat::ConstParts& parts, int64_t count, std::byte* values) {
  auto* x = reinterpret_cast<float*>(values);
  const auto* quants = reinterpret_cast<const int8_t*>(parts[0]);
  const auto* scales = reinterpret_cast<const float*>(parts[1]);
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(quants[i]) * scales[i / kBlock];
}

const StateFormat kQ8{.name = "q8",
                      .meant = DType::f32,
                      .parts = {{".quants", DType::i8}, {".scales", DType::f32, kBlock}},
                      .block = kBlock,
                      .encode = encode_q8,
                      .decode = decode_q8};

// Returns rows of integers of up to 127, with a 127 in each block, which eight bits hold exactly.
Tensor exact_weights(int64_t rows, int64_t columns, int seed) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % kBlock == 0 ? 127.0f : static_cast<float>((static_cast<int>(i) * 31 + seed) % 255 - 127);
  return Tensor::of<float>({rows, columns}, values);
}

// A model with states a and b, stored in one pair of parts, and c, stored as it is.
class Stored : public ::testing::Test {
 protected:
  Stored() {
    model_.add_state({"a", {DType::f32, {3, 64}}, StateRole::kParameter, true, a_});
    model_.add_state({"b", {DType::f32, {2, 64}}, StateRole::kParameter, true, Tensor()});
    model_.add_state({"c", {DType::f32, {5}}, StateRole::kBuffer, false, Tensor()});
    storage_.groups = {{&kQ8, {0, 1}, {}}};
    number_parts(storage_, model_.states().size());
    tables_ = Model::with_tables_of(model_);
    add_parts(*tables_, storage_);
    memory_.emplace(model_, *device_);
  }
  void keep() { memory_->keep_as(*tables_, storage_, nullptr); }

  const Tensor a_ = exact_weights(3, 64, 1), b_ = exact_weights(2, 64, 9);
  Model model_;
  StateStorage storage_;
  std::unique_ptr<Model> tables_;
  std::shared_ptr<Device> device_ = open_cpu_device(1);
  std::optional<StateMemory> memory_;  // memory of the model's states
};

TEST_F(Stored, PartsHaveTheShapesThatTheFormatSays) {
  EXPECT_EQ(tables_->state(3).name, "a.quants");
  EXPECT_EQ(tables_->state(3).type.to_string(), "i8[5,64]");
  EXPECT_EQ(tables_->state(4).name, "a.scales");
  EXPECT_EQ(tables_->state(4).type.to_string(), "f32[5,2]");
}

TEST_F(Stored, InitialValuesAreEncodedWhenAPartIsFirstNeeded) {
  keep();
  EXPECT_EQ(memory_->copy(0).to_doubles(), a_.to_doubles());
  EXPECT_EQ(memory_->owned_bytes(), 0) << "nobody has asked for memory yet";
  EXPECT_EQ(memory_->make_writable(std::vector{0}), 2) << "two parts";
  EXPECT_EQ(memory_->owned_bytes(), 5 * 64 + 5 * 2 * 4);
  EXPECT_EQ(memory_->copy(0).to_doubles(), a_.to_doubles());
  EXPECT_EQ(memory_->copy(1).to_doubles(), std::vector<double>(128, 0.0));
  EXPECT_EQ(memory_->home(1), 3);
}

TEST_F(Stored, ValuesGoInAndOutAsWhatTheyMean) {
  keep();
  memory_->set(1, b_);
  EXPECT_EQ(memory_->copy(1).to_doubles(), b_.to_doubles());
  EXPECT_EQ(memory_->copy(0).to_doubles(), a_.to_doubles()) << "the neighbor in the same part";
  const auto* scales = reinterpret_cast<const float*>(memory_->data(4));
  EXPECT_EQ(std::vector<float>(scales, scales + 10), std::vector<float>(10, 1.0f));
  memory_->reset(1);
  EXPECT_EQ(memory_->copy(1).to_doubles(), std::vector<double>(128, 0.0));
}

TEST_F(Stored, WhatRunsHadWrittenIsKept) {
  memory_->set(0, exact_weights(3, 64, 77));
  memory_->set(2, Tensor::of<float>({5}, {1, 2, 3, 4, 5}));
  keep();
  EXPECT_EQ(memory_->copy(0).to_doubles(), exact_weights(3, 64, 77).to_doubles());
  EXPECT_EQ(memory_->copy(2).to_doubles(), (std::vector<double>{1, 2, 3, 4, 5}));
}

TEST_F(Stored, SnapshotsHoldValues) {
  keep();
  memory_->set(1, b_);
  StateSnapshot snapshot(model_, *memory_, *device_);
  ASSERT_TRUE(snapshot.take());
  memory_->set(1, Tensor::zeros(b_.type()));  // after the snapshot
  const auto taken = snapshot.model();
  EXPECT_EQ(taken->state(0).initial.to_doubles(), a_.to_doubles());
  EXPECT_EQ(taken->state(1).initial.to_doubles(), b_.to_doubles());
  EXPECT_EQ(taken->states().size(), 3u) << "no file sees a part";
}

// The values take several chunks, of which the last is incomplete.
TEST(StoredValues, OfManyPieces) {
  Model model;
  const Tensor values = exact_weights(2049, 1024, 3);
  model.add_state({"w", values.type(), StateRole::kParameter, true, values});
  StateStorage storage{{{&kQ8, {0}, {}}}};
  number_parts(storage, 1);
  const auto tables = Model::with_tables_of(model);
  add_parts(*tables, storage);
  const auto device = open_cpu_device(2);
  StateMemory memory(model, *device);
  memory.keep_as(*tables, storage, nullptr);
  memory.make_writable(0);
  EXPECT_EQ(std::memcmp(memory.copy(0).data(), values.data(), static_cast<size_t>(values.bytes())), 0);
}

}  // namespace
}  // namespace genesis
