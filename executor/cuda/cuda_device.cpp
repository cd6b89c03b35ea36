// One GPU as a Device. All its runs, uploads and downloads go through one stream, so they happen in the order in which they were
// started.
#include "backends/cuda/kernels.h"
#include "backends/cuda/peaks.h"
#include "backends/cuda/runtime/allocated.h"
#include "backends/cuda/runtime/gpu_pages.h"
#include "backends/cuda/runtime/runtime.h"
#include "executor/cuda/cuda_copies.h"
#include "executor/cuda/cuda_downloads.h"
#include "executor/cuda/cuda_runner.h"
#include "executor/runtime/device.h"
#include "executor/runtime/missing_features.h"
#include "executor/runtime/page_mapper.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

// Left free for the needs of libraries and for fragmentation.
constexpr int64_t kReservedBytes = 256 << 20;

// Maps pages between the runs of one stream.
class CudaPageMapper final : public PageMapper {
 public:
  CudaPageMapper(int index, cudaStream_t stream) : index_(index), stream_(stream), pages_(index) {}

  int64_t page_bytes() const override { return pages_.page_bytes(); }
  Page make_page() override { return pages().make(); }
  void free_page(Page page) override { pages().free(page); }
  std::byte* reserve(int64_t bytes) override { return pages().reserve(bytes); }
  void release(std::byte* at, int64_t bytes) override { pages().release(at, bytes); }
  void map(std::byte* at, std::span<const Page> taken) override { pages().map(at, taken); }
  void unmap(std::byte* at, int64_t count) override {
    cuda::try_wait_for(stream_);
    pages().unmap(at, count);
  }
  void clear(std::byte* at, int64_t bytes) override {
    make_current();
    cuda::check(cudaMemsetAsync(at, 0, static_cast<size_t>(bytes), stream_), "clearing pages of a cache");
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    make_current();
    cuda::check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_),
                "copying a row of a cache");
  }
  void wait() override { cuda::wait_for(stream_, "waiting for runs that read a cache"); }

 private:
  void make_current() const { cuda::check(cudaSetDevice(index_), "choosing a device"); }
  // A thread may call that has not used the device yet.
  cuda::GpuPages& pages() {
    cudaSetDevice(index_);
    return pages_;
  }

  const int index_;
  const cudaStream_t stream_;
  cuda::GpuPages pages_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index)
      : index_(index),
        chip_(cuda::open_chip(index)),
        target_(cuda_target(index)),
        stream_(cuda::make_stream()),
        copies_(stream_.get()) {}
  ~CudaDevice() override { cuda::try_wait_for(stream_.get()); }  // waits for copies from pinned memory

  const Target& target() const override { return target_; }
  bool reads_host_memory() const override { return false; }
  bool is_asynchronous() const override { return true; }
  std::optional<int64_t> free_bytes() const override {
    make_current();
    return std::max<int64_t>(0, cuda::free_memory_bytes() - kReservedBytes);
  }
  DeviceUse use() const override {
    const cuda::Allocated held = cuda::allocated(index_);
    return {held.bytes, held.peak_bytes};
  }
  DevicePeaks measure_peaks() override {
    make_current();
    const cuda::Peaks peaks = cuda::measure_peaks();
    return {peaks.f32_gflops, peaks.bf16_gflops, peaks.copy_gbps};
  }

  DeviceMemory allocate(int64_t bytes) override { return cuda::allocate(index_, bytes); }
  void upload(std::byte* to, const std::byte* from, int64_t bytes) override {
    make_current();
    copies_.upload(to, from, bytes);
  }
  void download(std::byte* to, const std::byte* from, int64_t bytes) override {
    make_current();
    copies_.download(to, from, bytes);
  }
  void clear(std::byte* to, int64_t bytes) override {
    make_current();
    cuda::check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream_.get()), "clearing memory");
  }

  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    make_current();
    cuda::check(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_.get()),
        "copying on the device");
  }
  void wait() override { cuda::wait_for(stream_.get(), "copying on the device"); }
  void wait_for_default_stream() override {
    make_current();
    follow_default_stream(stream_.get());
  }
  int gpu() const override { return index_; }

  std::unique_ptr<Downloads> make_downloads() override {
    return std::make_unique<CudaDownloads>(index_, stream_.get(), copies_);
  }

  void* stream() override { return stream_.get(); }
  void enter(const std::function<void()>& body) override {
    make_current();
    body();
  }
  std::unique_ptr<Runner> make_runner(const Plan& plan, const RunnerOptions& options) override {
    return make_cuda_runner(plan, options, target_.streams, index_, stream_.get());
  }

 private:
  void make_current() const { cuda::check(cudaSetDevice(index_), "choosing a device"); }

  int index_;
  cuda::Chip chip_;
  Target target_;
  cuda::Stream stream_;
  CudaCopies copies_;
};

}  // namespace

std::string why_no_cuda_device() { return ""; }
std::shared_ptr<Device> open_cuda_device(int index) { return std::make_shared<CudaDevice>(index); }
std::shared_ptr<PageMapper> open_cuda_page_mapper(int index, void* stream) {
  return std::make_shared<CudaPageMapper>(index, static_cast<cudaStream_t>(stream));
}
Target cuda_target(int index) {
  Target target = cuda::cuda_target(index);
  target.evaluate = target_of("cpu").evaluate;  // constants are folded on the host
  return target;
}

}  // namespace genesis
