#include "executor/cuda/cuda_downloads.h"
#include "executor/runtime/host_memory.h"
#include "schema/messages/log.h"

#include <algorithm>

namespace genesis {
namespace {

using cuda::check;

// A copy engine alternates between streams after each copy. With this size the results of a concurrent run wait for one such copy
// (a third of a millisecond), not for gigabytes.
constexpr int64_t kCopyBytes = 16 << 20;
// Left free on the device for plans that will be compiled later.
constexpr int64_t kLeftOnDevice = int64_t{1} << 30;

}  // namespace

CudaDownloads::CudaDownloads(int device, cudaStream_t runs, CudaCopies& copies)
    : device_(device), runs_(runs), copies_(copies) {}

CudaDownloads::~CudaDownloads() {
  if (side_) cuda::try_wait_for(side_.get());  // nothing may still write to the freed memory
  if (side_) cuda::try_wait_for(runs_);
}

void CudaDownloads::make_current() const { check(cudaSetDevice(device_), "choosing a device"); }

bool CudaDownloads::reserve(int64_t bytes, int64_t more) {
  if (bytes <= host_bytes_) return true;
  make_current();
  pinned_.reset();
  host_.reset();
  host_bytes_ = -1;
  host_ = try_allocate_touched(bytes, more);
  if (!host_) return false;
  host_bytes_ = bytes;
  pinned_ = cuda::try_pin(host_.get(), bytes);
  if (!pinned_)
    log_warning(
        "the system pins no {} bytes of memory: checkpoints leave the GPU in small pieces, and training "
        "waits",
        bytes);
  if (!side_) {
    side_ = cuda::make_stream();
    taken_ = cuda::make_event(false);
    arrived_ = cuda::make_event(false);
  }
  return true;
}

// Returns true if the device has memory for a copy of `bytes` bytes, and allocates it.
bool CudaDownloads::stage(int64_t bytes) {
  if (bytes <= staging_bytes_) return true;
  staging_.reset();
  staging_bytes_ = 0;
  if (cuda::free_memory_bytes() - kLeftOnDevice < bytes) return false;
  staging_ = cuda::try_allocate(device_, bytes);
  if (staging_) staging_bytes_ = bytes;
  return staging_ != nullptr;
}

// Host memory is pinned in chunks, and no copy may cross a chunk boundary; kCopyBytes divides a chunk.
void CudaDownloads::copy_to_host(int64_t offset, const std::byte* from, int64_t bytes, cudaStream_t stream) {
  static_assert(cuda::kPinnedChunkBytes % kCopyBytes == 0);
  while (bytes > 0) {
    const int64_t size = std::min(bytes, kCopyBytes - offset % kCopyBytes);
    check(cudaMemcpyAsync(host_.get() + offset, from, static_cast<size_t>(size), cudaMemcpyDeviceToHost,
                          stream),
          "copying states to the host");
    offset += size;
    from += size;
    bytes -= size;
  }
}

void CudaDownloads::take(const std::vector<MemoryPart>& parts) {
  make_current();
  int64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes = std::max(bytes, part.offset + part.bytes);
  if (!pinned_) {
    for (const MemoryPart& part : parts) copies_.download(host_.get() + part.offset, part.from, part.bytes);
    return;
  }
  const bool staged = stage(bytes);
  for (const MemoryPart& part : parts) {
    if (part.bytes == 0) continue;
    if (staged)
      check(cudaMemcpyAsync(staging_.get() + part.offset, part.from, static_cast<size_t>(part.bytes),
                            cudaMemcpyDeviceToDevice, runs_),
            "copying states");
    else
      copy_to_host(part.offset, part.from, part.bytes, runs_);
  }
  check(cudaEventRecord(taken_.get(), runs_), "copying states");
  if (staged) {
    check(cudaStreamWaitEvent(side_.get(), taken_.get()), "copying states");
    copy_to_host(0, staging_.get(), bytes, side_.get());
  }
  check(cudaEventRecord(arrived_.get(), staged ? side_.get() : runs_), "copying states");
  cuda::wait_for(taken_.get(),
                 "copying states");  // so that a hang is reported for the checkpoint, not for a step
}

const std::byte* CudaDownloads::wait() {
  if (pinned_) {
    make_current();
    cuda::wait_for(arrived_.get(), "copying states to the host");
  }
  return host_.get();
}

}  // namespace genesis
