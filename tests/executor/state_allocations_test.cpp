// Tests who owns the memory of states: allocation, growth, and a device with too little memory.
#include "executor/states/state_allocations.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "executor/inspector.h"
#include "executor/session_memory.h"

namespace genesis {
namespace {

// The CPU with a limit on the bytes of one allocation, and of all that are held.
class LimitedDevice final : public Device {
 public:
  int64_t most = std::numeric_limits<int64_t>::max(), most_held = most;
  int64_t allocations = 0, held = 0;

  DeviceMemory allocate(int64_t bytes) override {
    if (bytes > most || held + bytes > most_held) fail("{} bytes are too many", bytes);
    ++allocations;
    held += bytes;
    const DeviceMemory memory = cpu_->allocate(bytes);
    return {memory.get(), [this, memory, bytes](std::byte*) { held -= bytes; }};
  }
  const Target& target() const override { return cpu_->target(); }
  bool reads_host_memory() const override { return true; }
  std::optional<int64_t> free_bytes() const override { return most; }
  DeviceUse use() const override { return {}; }
  DevicePeaks measure_peaks() override { return {}; }
  void upload(std::byte* to, const std::byte* from, int64_t bytes) override { cpu_->upload(to, from, bytes); }
  void download(std::byte* to, const std::byte* from, int64_t bytes) override {
    cpu_->download(to, from, bytes);
  }
  void clear(std::byte* to, int64_t bytes) override { cpu_->clear(to, bytes); }
  std::unique_ptr<Downloads> make_downloads() override { return cpu_->make_downloads(); }
  void enter(const std::function<void()>& body) override { cpu_->enter(body); }
  std::unique_ptr<Runner> make_runner(const Plan& plan, const RunnerOptions& options) override {
    return cpu_->make_runner(plan, options);
  }

 private:
  std::shared_ptr<Device> cpu_ = open_cpu_device(1);
};

constexpr int32_t kWeight = 0, kMoment = 1, kCache = 2;

// A weight, a moment, and a cache of two rows of `positions` positions.
Model model_of(int64_t positions) {
  Model model;
  model.add_state({"w", {DType::f32, {3}}, StateRole::kParameter, true, Tensor()});
  model.add_state({"m", {DType::f32, {3}}, StateRole::kOptimizer, false, Tensor()});
  State cache{"keys", {DType::f32, {2, positions}}, StateRole::kCache, false, Tensor()};
  cache.cache = CacheLayout{.kind = "keys", .rows_axis = 0, .positions_axis = 1};
  model.add_state(cache);
  return model;
}

TEST(StateAllocations, StatesShareAnAllocationAndCachesHaveTheirOwn) {
  const Model model = model_of(2);
  LimitedDevice device;
  StateAllocations memory(model, device);
  EXPECT_EQ(memory.missing_bytes(kCache), 16);
  EXPECT_EQ(memory.allocate({kCache, kMoment, kWeight, kWeight}),
            (std::vector<int32_t>{kWeight, kMoment, kCache}));
  EXPECT_EQ(device.allocations, 2);
  EXPECT_EQ(std::abs(memory.at(kWeight) - memory.at(kMoment)), 256);
  EXPECT_TRUE(memory.allocate({kWeight}).empty()) << "it has memory";
  EXPECT_EQ(memory.missing_bytes(kCache), 0);
  EXPECT_EQ(memory.owned_bytes(), 12 + 12 + 16);
  EXPECT_EQ(memory.owned_bytes(StateRole::kOptimizer), 12);
}

// A plan and the one that prepares values for it are in memory together.
TEST(SessionMemory, PreparedValuesMustFitBesideTheirPlan) {
  const Model model = model_of(2);
  LimitedDevice device;
  const SessionMemory memory(model, device, nullptr);
  Compiled compiled;
  compiled.plan.arena_bytes = 600;
  compiled.prepared = std::make_shared<Compiled>();
  compiled.prepared->plan.arena_bytes = 500;
  compiled.prepared->keeps_arena = true;
  device.most = 1100;
  EXPECT_NO_THROW(memory.check_fits(compiled, "cpu"));
  device.most = 1099;
  EXPECT_THROW(memory.check_fits(compiled, "cpu"), Error);
}

TEST(StateAllocations, BytesGoInAndOut) {
  const Model model = model_of(2);
  LimitedDevice device;
  StateAllocations memory(model, device);
  memory.allocate({kWeight});
  memory.fill(kWeight, Tensor::of<float>({3}, {1, 2, 3}));
  EXPECT_EQ(memory.read(kWeight).to_doubles(), (std::vector<double>{1, 2, 3}));
  memory.fill(kWeight, {});
  EXPECT_EQ(memory.read(kWeight).to_doubles(), (std::vector<double>{0, 0, 0}));
}

TEST(StateAllocations, LargerCachesKeepValuesInTheirPlaces) {
  const Model model = model_of(2), larger = model_of(3);
  LimitedDevice device;
  StateAllocations memory(model, device);
  memory.allocate({kWeight, kCache});
  memory.fill(kCache, Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const std::byte* weight = memory.at(kWeight);
  memory.resize(larger);
  EXPECT_EQ(memory.read(kCache).to_doubles(), (std::vector<double>{1, 2, 0, 3, 4, 0}));
  EXPECT_EQ(memory.at(kWeight), weight) << "other states stay where they are";
}

TEST(StateAllocations, WithTooLittleMemoryNothingChanges) {
  const Model model = model_of(2), larger = model_of(1000);
  LimitedDevice device;
  StateAllocations memory(model, device);
  memory.allocate({kCache});
  memory.fill(kCache, Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  device.most = 1000;
  EXPECT_THROW(memory.resize(larger), Error);
  EXPECT_EQ(memory.read(kCache).to_doubles(), (std::vector<double>{1, 2, 3, 4}));
  device.most = 100;
  EXPECT_THROW(memory.allocate({kWeight}), Error);
  EXPECT_FALSE(memory.has(kWeight));
}

TEST(StateAllocations, RestartHandsTheOldMemoryOver) {
  const Model model = model_of(2);
  LimitedDevice device;
  StateAllocations memory(model, device);
  memory.allocate({kWeight});
  const std::byte* weight = memory.at(kWeight);
  const std::vector<DeviceMemory> before = memory.restart(model);
  EXPECT_EQ(before[kWeight].get(), weight);
  EXPECT_FALSE(memory.has(kWeight));
  EXPECT_EQ(memory.owned_bytes(), 0);
}

TEST(OutputBlocks, GiveBackWhatNobodyHas) {
  LimitedDevice device;
  OutputBlocks blocks;
  for (int64_t bytes = 1000; bytes < 1040; ++bytes) {
    blocks.take(device, bytes);
    EXPECT_EQ(device.held, bytes) << "outputs that grow";
  }
  device.most_held = 1500;
  blocks.take(device, 500);
  EXPECT_EQ(device.held, 500) << "the larger block went, because there was too little memory";
  const DeviceMemory kept = blocks.take(device, 500);
  EXPECT_THROW(blocks.take(device, 1001), Error);
  EXPECT_EQ(blocks.take(device, 1000).use_count(), 2);
}

}  // namespace
}  // namespace genesis
