// The CPU as a Device: a TBB task arena of its own, and memory that the operating system commits on first touch.
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/usable_cores.h"
#include "backends/cpu/peaks.h"
#include "executor/cpu/cpu_runner.h"
#include "executor/runtime/aligned_memory.h"
#include "executor/runtime/device.h"
#include "executor/runtime/host_downloads.h"
#include "executor/runtime/host_memory.h"
#include "schema/core/error.h"
#include "schema/core/task_edges.h"

namespace genesis {
namespace {

int checked_threads(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    fail("--threads {}: expected 0 (all cores) or a number of threads up to {}", threads, kMaxThreads);
  return threads == 0 ? cpu::usable_cores() : threads;
}

// Lets TBB start more threads than there are cores; by default it does not.
std::unique_ptr<tbb::global_control> allow_threads(int threads) {
  if (threads <= tbb::info::default_concurrency()) return nullptr;
  return std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                               static_cast<size_t>(threads));
}

// Converts measured speeds into a table by working-set size. A speed measured at one size holds up to the next measured size, and
// a larger working set is never faster than a smaller one.
std::vector<CacheSpeed> cache_speeds(const std::vector<cpu::ResidentSpeed>& measured) {
  std::vector<CacheSpeed> speeds;
  double gbps = 0;
  for (size_t i = measured.size(); i-- > 0;) {
    gbps = std::max(gbps, measured[i].gbps);
    speeds.push_back({i + 1 < measured.size() ? measured[i + 1].bytes : 4 * measured[i].bytes, gbps});
  }
  std::ranges::reverse(speeds);
  return speeds;
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : more_threads_(allow_threads(threads)), tasks_(threads) {}

  const Target& target() const override { return target_; }
  bool reads_host_memory() const override { return true; }
  std::optional<int64_t> free_bytes() const override { return free_host_bytes(); }
  DeviceUse use() const override { return {}; }
  DevicePeaks measure_peaks() override {
    DevicePeaks peaks;
    enter([&] {
      const cpu::Peaks measured = cpu::measure_peaks();
      peaks = {measured.fma_f32_gflops, std::max(measured.fma_f32_gflops, measured.fma_bf16_gflops),
               measured.copy_gbps, measured.read_gbps, cache_speeds(measured.resident)};
    });
    return peaks;
  }

  DeviceMemory allocate(int64_t bytes) override {
    AlignedMemory memory = allocate_memory(bytes);
    const UnmapMemory unmap = memory.get_deleter();
    return {memory.release(), unmap};
  }
  void upload(std::byte* to, const std::byte* from, int64_t bytes) override { copy(to, from, bytes); }
  void download(std::byte* to, const std::byte* from, int64_t bytes) override { copy(to, from, bytes); }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void clear(std::byte* to, int64_t bytes) override {
    if (bytes > 0) std::memset(to, 0, static_cast<size_t>(bytes));
  }

  std::unique_ptr<Downloads> make_downloads() override { return make_host_downloads(*this); }

  void enter(const std::function<void()>& body) override {
    TaskEdges edges;
    tasks_.execute(edges.around(body));
  }
  std::unique_ptr<Runner> make_runner(const Plan& plan, const RunnerOptions& options) override {
    return make_cpu_runner(plan, options, target_);
  }

 private:
  Target target_ = cpu::cpu_target();
  std::unique_ptr<tbb::global_control> more_threads_;
  tbb::task_arena tasks_;
};

}  // namespace

std::shared_ptr<Device> open_cpu_device(int threads) {
  return std::make_shared<CpuDevice>(checked_threads(threads));
}

}  // namespace genesis
