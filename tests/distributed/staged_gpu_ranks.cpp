// Groups of GPUs that take host memory, and tests of what only GPUs do: exchanges in a captured graph.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "backends/cuda/nccl/nccl_api.h"
#include "backends/cuda/ranks/gpu_ranks.h"
#include "backends/cuda/runtime/launch.h"
#include "backends/cuda/runtime/runtime.h"
#include "backends/mpi/mpi_ranks.h"
#include "schema/core/float16.h"
#include "schema/ranks/mesh_groups.h"
#include "tests/distributed/test_ranks.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace genesis::testing {
namespace {

// The bytes that a call reads and writes for each of its tensors, as multiples of the bytes in `count` elements.
struct Parts {
  int64_t from, to;
};

// One tensor's memory on the GPU: one range if the host's ranges overlap, else two.
class Staged {
 public:
  Staged(const Exchange& host, Parts parts, cudaStream_t stream) : host_(host), stream_(stream) {
    const int64_t bytes = host.bytes();
    from_bytes_ = host.from ? bytes * parts.from : 0;
    to_bytes_ = host.to ? bytes * parts.to : 0;
    const auto* from = static_cast<const std::byte*>(host.from);
    auto* to = static_cast<std::byte*>(host.to);
    const bool overlap = from_bytes_ > 0 && to_bytes_ > 0 && from < to + to_bytes_ && to < from + from_bytes_;
    const std::byte* first = overlap ? std::min<const std::byte*>(from, to) : to;
    const int64_t length =
        overlap ? std::max<const std::byte*>(from + from_bytes_, to + to_bytes_) - first : to_bytes_;
    memory_ = cuda::allocate(cuda::current_device(), length);
    device_ = host;
    device_.to = memory_.get() + (overlap ? to - first : 0);
    if (!overlap) input_ = cuda::allocate(cuda::current_device(), from_bytes_);
    device_.from = overlap ? memory_.get() + (from - first) : input_.get();
    copy(const_cast<void*>(device_.from), host.from, from_bytes_, cudaMemcpyHostToDevice);
  }

  const Exchange& on_device() const { return device_; }
  void bring_back() { copy(host_.to, device_.to, to_bytes_, cudaMemcpyDeviceToHost); }

 private:
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0)
      cuda::check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_), "staging");
  }

  Exchange host_, device_;
  cudaStream_t stream_;
  int64_t from_bytes_ = 0, to_bytes_ = 0;
  std::shared_ptr<std::byte> memory_, input_;
};

class StagedGroup final : public RankGroup {
 public:
  explicit StagedGroup(RankGroup& group) : group_(group), stream_(cuda::make_stream()) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void*) override {
    staged(tensors, {1, 1}, [&](auto device) { group_.all_reduce(device, reduction, stream_.get()); });
  }
  void reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void*) override {
    staged(tensors, {size(), 1},
           [&](auto device) { group_.reduce_scatter(device, reduction, stream_.get()); });
  }
  void all_gather(std::span<const Exchange> tensors, void*) override {
    staged(tensors, {1, size()}, [&](auto device) { group_.all_gather(device, stream_.get()); });
  }
  void all_to_all(std::span<const Exchange> tensors, void*) override {
    staged(tensors, {size(), size()}, [&](auto device) { group_.all_to_all(device, stream_.get()); });
  }
  void broadcast(std::span<const Exchange> tensors, int root, void*) override {
    staged(tensors, {1, 1}, [&](auto device) { group_.broadcast(device, root, stream_.get()); });
  }
  void send(std::span<const Exchange> tensors, int to, void*) override {
    staged(
        tensors, {1, 0}, [&](auto device) { group_.send(device, to, stream_.get()); }, false);
  }
  void receive(std::span<const Exchange> tensors, int from, void*) override {
    staged(
        tensors, {0, 1}, [&](auto device) { group_.receive(device, from, stream_.get()); }, false);
  }

 private:
  // `all`: true if all ranks of the group make the call.
  void staged(std::span<const Exchange> tensors, Parts parts, auto&& call, bool all = true) {
    std::vector<Staged> copies;
    std::vector<Exchange> device;
    for (const Exchange& tensor : tensors) {
      copies.emplace_back(tensor, parts, stream_.get());
      device.push_back(copies.back().on_device());
    }
    // Alternates between NCCL, direct exchange within a host, and exchange beside other work.
    constexpr std::optional<WorkBeside> kChoices[] = {{}, WorkBeside::kNone,
                                                      WorkBeside::kMemoryBound, WorkBeside::kComputeBound};
    const std::optional<WorkBeside> choice = all ? kChoices[calls_++ % std::size(kChoices)] : std::nullopt;
    const PlannedExchange planned{device, choice.value_or(WorkBeside::kNone)};
    if (choice) group_.plan_exchanges({&planned, 1});
    call(std::span<const Exchange>(device));
    for (Staged& copy : copies) copy.bring_back();
    cuda::try_wait_for(stream_.get());
  }

  RankGroup& group_;
  cuda::Stream stream_;
  int calls_ = 0;
};

class StagedCollectives final : public Collectives {
 public:
  explicit StagedCollectives(std::unique_ptr<Collectives> device, const Mesh& mesh)
      : device_(std::move(device)) {
    for (const std::string& name : group_names(mesh)) groups_.try_emplace(name, *device_->group(name));
  }
  RankGroup* group(std::string_view axis) override {
    const auto at = groups_.find(axis);
    return at == groups_.end() ? nullptr : &at->second;
  }
  std::string failure() const override { return device_->failure(); }
  void abort(const std::string& why) override { device_->abort(why); }

 private:
  std::unique_ptr<Collectives> device_;
  std::map<std::string, StagedGroup, std::less<>> groups_;
};

// The GPUs' own link, for tests of captured graphs.
RankLink* gpu_link = nullptr;

class StagedLink final : public RankLink {
 public:
  explicit StagedLink(std::unique_ptr<RankLink> device) : device_(std::move(device)) {
    gpu_link = device_.get();
  }
  ~StagedLink() override { gpu_link = nullptr; }
  int rank() const override { return device_->rank(); }
  int size() const override { return device_->size(); }
  std::vector<std::string> gather(const std::string& mine) override { return device_->gather(mine); }
  std::unique_ptr<Collectives> collectives(const Mesh& mesh) override {
    return std::make_unique<StagedCollectives>(device_->collectives(mesh), mesh);
  }
  std::string failure() const override { return device_->failure(); }
  void abort(const std::string& why) override { device_->abort(why); }

 private:
  std::unique_ptr<RankLink> device_;
};

#if __has_include(<nccl.h>)
static_assert(sizeof(cuda::nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(int{cuda::nccl::kSuccess} == ncclSuccess && int{cuda::nccl::kInProgress} == ncclInProgress);
static_assert(int{cuda::nccl::kInt8} == ncclInt8 && int{cuda::nccl::kUint8} == ncclUint8);
static_assert(int{cuda::nccl::kInt32} == ncclInt32 && int{cuda::nccl::kInt64} == ncclInt64);
static_assert(int{cuda::nccl::kFloat16} == ncclFloat16 && int{cuda::nccl::kBfloat16} == ncclBfloat16);
static_assert(int{cuda::nccl::kFloat32} == ncclFloat32 && int{cuda::nccl::kFloat64} == ncclFloat64);
static_assert(int{cuda::nccl::kSum} == ncclSum && int{cuda::nccl::kAverage} == ncclAvg);
static_assert(int{cuda::nccl::kMax} == ncclMax && int{cuda::nccl::kMin} == ncclMin);
#endif

// Captures the sums of these tensors, one after another. With `beside` the exchanges are planned first.
cuda::GraphExec capture_sums(RankGroup& group, const std::vector<Exchange>& tensors,
                             std::optional<WorkBeside> beside, cudaStream_t stream) {
  std::vector<PlannedExchange> planned;
  for (const Exchange& tensor : tensors) planned.push_back({{tensor}, beside.value_or(WorkBeside::kNone)});
  if (beside) group.plan_exchanges(planned);
  cudaGraph_t captured = nullptr;
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing");
  for (const Exchange& tensor : tensors) group.all_reduce({&tensor, 1}, RankReduction::kSum, stream);
  cuda::check(cudaStreamEndCapture(stream, &captured), "capturing");
  return cuda::make_graph(captured);
}

// Replays `graph`, which sums the tensor twice, and checks the results.
void expect_sums(RankGroup& group, const cuda::GraphExec& graph, const Exchange& tensor,
                 cudaStream_t stream) {
  const auto bytes = static_cast<size_t>(tensor.count) * sizeof(float);
  std::vector<float> x(static_cast<size_t>(tensor.count));
  for (int replay = 0; replay < 5; ++replay) {
    for (int64_t i = 0; i < tensor.count; ++i)
      x[static_cast<size_t>(i)] = static_cast<float>(i % 11 + group.rank() + replay);
    cuda::check(cudaMemcpyAsync(tensor.to, x.data(), bytes, cudaMemcpyHostToDevice, stream), "copying");
    cuda::launch(graph.get(), stream);
    cuda::check(cudaMemcpyAsync(x.data(), tensor.to, bytes, cudaMemcpyDeviceToHost, stream), "copying");
    cuda::wait_for(stream, "replaying");
    const auto n = static_cast<float>(group.size());
    for (int64_t i = 0; i < tensor.count; i += 97)
      ASSERT_EQ(x[static_cast<size_t>(i)], n * (n * static_cast<float>(i % 11 + replay) + n * (n - 1) / 2))
          << i;
  }
}

// These tests run on every rank, so the suite has the name in rank_main.h.
TEST(Ranks, CapturedExchangesAreReplayed) {
  if (!ranks_have_gpus()) GTEST_SKIP() << "only GPUs have graphs";
  const std::unique_ptr<RankLink> joined = gpu_link ? nullptr : join_test_ranks({});
  RankLink& link = *gpu_link;
  const auto collectives = link.collectives(Mesh::parse("data=" + std::to_string(link.size())));
  RankGroup& group = *collectives->group("data");
  const cuda::Stream stream = cuda::make_stream();
  // The sizes take the one-shot kernel, the two-shot kernel, and more than the copy engines pull at a time.
  for (const int64_t count : {int64_t{3001}, int64_t{1} << 20, (int64_t{9} << 20) + 5}) {
    const auto memory = cuda::allocate(cuda::current_device(), count * 4);
    const Exchange exchange{memory.get(), memory.get(), count, DType::f32};
    for (const std::optional<WorkBeside> beside :
         {std::optional<WorkBeside>(), std::optional(WorkBeside::kNone), std::optional(WorkBeside::kComputeBound)})
      expect_sums(group, capture_sums(group, {exchange, exchange}, beside, stream.get()), exchange,
                  stream.get());
  }
  EXPECT_EQ(collectives->failure(), "");
}

// Uses one-shot and two-shot kernels, an addend with any alignment, and an incomplete last access. Each sum starts
// before its predecessors have ended.
TEST(Ranks, SumsTakeAnAddend) {
  if (!ranks_have_gpus()) GTEST_SKIP() << "only GPUs add what is the same on all ranks";
  const std::unique_ptr<RankLink> joined = gpu_link ? nullptr : join_test_ranks({});
  const auto collectives = gpu_link->collectives(Mesh::parse("data=" + std::to_string(gpu_link->size())));
  RankGroup& group = *collectives->group("data");
  const cuda::Stream stream = cuda::make_stream();
  const auto n = static_cast<float>(group.size());
  constexpr int kInARow = 4;
  for (const int64_t count : {int64_t{5}, int64_t{3001}, (int64_t{1} << 20) + 3})
    for (const int64_t offset : {int64_t{0}, int64_t{1}}) {
      const auto bytes = static_cast<size_t>(count) * sizeof(float);
      const auto memory = cuda::allocate(cuda::current_device(), count * 4),
                 added = cuda::allocate(cuda::current_device(), count * 4 + 4);
      std::vector<float> x(static_cast<size_t>(count)), r(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        x[static_cast<size_t>(i)] = static_cast<float>(i % 13 + group.rank());
        r[static_cast<size_t>(i)] = static_cast<float>(i % 7) / 2;
      }
      std::byte* const addend = added.get() + offset * 4;
      cuda::check(cudaMemcpyAsync(memory.get(), x.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
                  "copying");
      cuda::check(cudaMemcpyAsync(addend, r.data(), bytes, cudaMemcpyHostToDevice, stream.get()), "copying");
      const Exchange exchange{memory.get(), memory.get(), count, DType::f32};
      EXPECT_FALSE(group.all_reduce_adding(exchange, addend, stream.get(), false)) << "not planned";
      const std::vector<PlannedExchange> planned(kInARow, {{exchange}});
      group.plan_exchanges(planned);
      for (int sum = 0; sum < kInARow; ++sum)
        ASSERT_TRUE(group.all_reduce_adding(exchange, addend, stream.get(), sum > 0 && cuda::code_has_pdl()))
            << "GPUs that do not reach each other";
      cuda::check(cudaMemcpyAsync(x.data(), memory.get(), bytes, cudaMemcpyDeviceToHost, stream.get()),
                  "copying");
      cuda::wait_for(stream.get(), "adding");
      for (int64_t i = 0; i < count; i += 3) {
        float expected = n * static_cast<float>(i % 13) + n * (n - 1) / 2 + static_cast<float>(i % 7) / 2;
        for (int sum = 1; sum < kInARow; ++sum) expected = n * expected + static_cast<float>(i % 7) / 2;
        ASSERT_EQ(x[static_cast<size_t>(i)], expected) << i << " of " << count;
      }
    }
  EXPECT_EQ(collectives->failure(), "");
}

// Makes a tensor of f32 or bf16 on the GPU from floats of the host.
Exchange on_device(const std::vector<float>& values, DType dtype,
                   std::vector<std::shared_ptr<std::byte>>& memory) {
  memory.push_back(cuda::allocate(cuda::current_device(), static_cast<int64_t>(values.size()) * 4 + 16));
  const std::vector<bf16> narrow(values.begin(), values.end());
  const Exchange tensor{memory.back().get(), memory.back().get(), static_cast<int64_t>(values.size()), dtype};
  const void* from = dtype == DType::bf16 ? static_cast<const void*>(narrow.data()) : values.data();
  cuda::check(cudaMemcpy(tensor.to, from, static_cast<size_t>(tensor.bytes()), cudaMemcpyHostToDevice),
              "copying");
  return tensor;
}
std::vector<float> on_host(const Exchange& tensor) {
  const auto count = static_cast<size_t>(tensor.count), bytes = static_cast<size_t>(tensor.bytes());
  std::vector<float> values(count);
  std::vector<bf16> narrow(count);
  void* to = tensor.dtype == DType::bf16 ? static_cast<void*>(narrow.data()) : values.data();
  cuda::check(cudaMemcpy(to, tensor.to, bytes, cudaMemcpyDeviceToHost), "copying");
  if (tensor.dtype == DType::bf16) values.assign(narrow.begin(), narrow.end());
  return values;
}

// More tensors than one kernel takes, of any size and of two dtypes.
TEST(Ranks, ManyTensorsAreSummedTogether) {
  if (!ranks_have_gpus()) GTEST_SKIP() << "CPUs sum in any case one tensor after the other";
  const std::unique_ptr<RankLink> joined = gpu_link ? nullptr : join_test_ranks({});
  const auto collectives = gpu_link->collectives(Mesh::parse("data=" + std::to_string(gpu_link->size())));
  RankGroup& group = *collectives->group("data");
  const cuda::Stream stream = cuda::make_stream();
  constexpr size_t kCounts[] = {1, 0, 70001, 8, 3, 5000, 7, 262144};
  const auto value = [](float rank, size_t tensor, size_t i) {
    return static_cast<float>((i + tensor) % 11) + rank;
  };
  std::vector<std::shared_ptr<std::byte>> memory;
  PlannedExchange planned;
  for (size_t t = 0; t < 77; ++t) {
    std::vector<float> values(kCounts[t % std::size(kCounts)]);
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<float>(group.rank()), t, i);
    planned.tensors.push_back(on_device(values, t % 20 == 13 ? DType::bf16 : DType::f32, memory));
  }
  group.plan_exchanges({&planned, 1});
  group.all_reduce(planned.tensors, RankReduction::kMean, stream.get());
  cuda::wait_for(stream.get(), "adding");
  const float mean_rank = static_cast<float>(group.size() - 1) / 2;
  for (size_t t = 0; t < planned.tensors.size(); ++t) {
    const std::vector<float> means = on_host(planned.tensors[t]);
    for (size_t i = 0; i < means.size(); ++i)
      ASSERT_EQ(means[i], value(mean_rank, t, i)) << i << " of tensor " << t;
  }
  EXPECT_EQ(collectives->failure(), "");
}

// Reduces and scatters 77 tensors, whose shards have these sizes in turn, and gathers them again. Results are
// separate from the inputs, or in the places that an update of weights uses: a sum starts where its input starts, and
// a gather surrounds this rank's shard.
void scatter_and_gather(RankGroup& group, WorkBeside beside, std::span<const size_t> parts) {
  const cuda::Stream stream = cuda::make_stream();
  const auto size = static_cast<size_t>(group.size());
  const auto value = [](float rank, size_t tensor, size_t i) {
    return static_cast<float>((i + tensor) % 11) + rank;
  };
  std::vector<std::shared_ptr<std::byte>> memory;
  PlannedExchange sums{{}, beside}, gathers{{}, beside};
  for (size_t t = 0; t < 77; ++t) {
    std::vector<float> values(parts[t % parts.size()] * size);
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<float>(group.rank()), t, i);
    const DType dtype = t % 20 == 13 ? DType::bf16 : DType::f32;
    Exchange sum = on_device(values, dtype, memory);
    const Exchange all = on_device(std::vector<float>(values.size(), -1), dtype, memory);
    sum.count /= group.size();
    if (t % 3 == 1) sum.to = all.to;
    if (t % 3 == 2) sum.to = static_cast<std::byte*>(all.to) + group.rank() * sum.bytes();
    sums.tensors.push_back(sum);
    gathers.tensors.push_back({sum.to, all.to, sum.count, dtype});
  }
  group.plan_exchanges(std::vector{sums, gathers});
  group.reduce_scatter(sums.tensors, RankReduction::kMean, stream.get());
  group.all_gather(gathers.tensors, stream.get());
  cuda::wait_for(stream.get(), "exchanging");
  const float mean_rank = static_cast<float>(group.size() - 1) / 2;
  for (size_t t = 0; t < gathers.tensors.size(); ++t) {
    Exchange all = gathers.tensors[t];
    all.count *= group.size();
    const std::vector<float> means = on_host(all);
    for (size_t i = 0; i < means.size(); ++i)
      ASSERT_EQ(means[i], value(mean_rank, t, i)) << i << " of tensor " << t;
  }
}

TEST(Ranks, ManyTensorsAreScatteredAndGathered) {
  if (!ranks_have_gpus()) GTEST_SKIP() << "CPUs take in any case one tensor after the other";
  const std::unique_ptr<RankLink> joined = gpu_link ? nullptr : join_test_ranks({});
  const auto collectives = gpu_link->collectives(Mesh::parse("data=" + std::to_string(gpu_link->size())));
  RankGroup& group = *collectives->group("data");
  for (const WorkBeside beside : {WorkBeside::kNone, WorkBeside::kMemoryBound, WorkBeside::kComputeBound}) {
    scatter_and_gather(group, beside, std::vector<size_t>{64, 0, 70000, 8, 448, 5000, 16, 262144});
    scatter_and_gather(group, beside, std::vector<size_t>{3, 1001, 70001, 64});  // some shards are not aligned
  }
  EXPECT_EQ(collectives->failure(), "");
}

}  // namespace

void hang_in_peer_memory(World& world) {
  constexpr int64_t kCount = 1 << 20;
  const auto memory = cuda::allocate(cuda::current_device(), kCount * 4);
  const cuda::Stream stream = cuda::make_stream();
  RankGroup& group = *world.collectives()->group("data");
  const Exchange exchange{memory.get(), memory.get(), kCount, DType::f32};
  std::vector<cuda::GraphExec> graphs;
  for (const WorkBeside beside : {WorkBeside::kNone, WorkBeside::kComputeBound})
    graphs.push_back(capture_sums(group, {exchange, exchange, exchange}, beside, stream.get()));
  const auto run = [&](const cuda::GraphExec& graph) {
    cuda::launch(graph.get(), stream.get());
    cuda::try_wait_for(stream.get());
  };
  for (const cuda::GraphExec& graph : graphs) run(graph);
  world.check();
  if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(600));
  for (const cuda::GraphExec& graph : graphs) run(graph);  // each must end
  world.check();
}

std::unique_ptr<RankLink> join_staged_gpu_ranks(const Launch& launch, const RankLimits& limits) {
  std::unique_ptr<RankLink> words = launch.by == Launcher::kMpi ? mpi::join_ranks(limits) : nullptr;
  return std::make_unique<StagedLink>(cuda::join_gpu_ranks({.rank = launch.rank,
                                                            .size = launch.size,
                                                            .device = launch.local_rank,
                                                            .host = "here",
                                                            .address = launch.address,
                                                            .is_one_host = launch.is_one_host},
                                                           limits, std::move(words)));
}

}  // namespace genesis::testing
