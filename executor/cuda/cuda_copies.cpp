#include "executor/cuda/cuda_copies.h"

#include <algorithm>
#include <cstring>

#include "schema/core/parallel.h"

namespace genesis {
namespace {

using cuda::check;

constexpr int64_t kBufferBytes = 8 << 20, kBlockBytes = 512 << 10, kSmallBytes = 1 << 20;
constexpr int64_t kAlignment = 256;

// Copies with all cores, since touching a mapped file takes page faults: one core would be slower than the bus.
void copy_by_all_cores(std::byte* to, const std::byte* from, int64_t bytes) {
  in_parallel(bytes, kBlockBytes, [&](int64_t first, int64_t last) {
    std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
  });
}

}  // namespace

void follow_default_stream(cudaStream_t stream) {
  const cuda::Event given = cuda::make_event(false);
  check(cudaEventRecord(given.get(), cudaStreamLegacy), "following the default stream");
  check(cudaStreamWaitEvent(stream, given.get()), "following the default stream");
}

CudaCopies::PinnedBuffer& CudaCopies::next_buffer() {
  current_ = (current_ + 1) % buffers_.size();
  PinnedBuffer& buffer = buffers_[current_];
  if (!buffer.memory) {
    buffer.memory = cuda::allocate_pinned(kBufferBytes);
    buffer.done = cuda::make_event(false);
  } else if (buffer.used > 0) {
    cuda::wait_for(buffer.done.get(), "copying through pinned memory");
  }
  buffer.used = 0;
  return buffer;
}

// Returns space for one copy in pinned memory, in the current buffer while it has enough: small copies share a buffer.
std::byte* CudaCopies::pinned_space(int64_t bytes) {
  PinnedBuffer* buffer = &buffers_[current_];
  if (!buffer->memory || buffer->used + bytes > kBufferBytes) buffer = &next_buffer();
  std::byte* pinned = buffer->memory.get() + buffer->used;
  buffer->used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return pinned;
}

// Returns true if CUDA's own pinned memory is used for the copy. Allocating pinned memory is slow, so a process that copies
// little does without our buffers.
bool CudaCopies::by_itself(int64_t bytes) const { return bytes <= kSmallBytes && !buffers_[1].memory; }

void CudaCopies::upload(std::byte* to, const std::byte* from, int64_t bytes) {
  if (by_itself(bytes)) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    return cuda::wait_for(stream_, "copying to the device");
  }
  for (int64_t at = 0; at < bytes; at += kBufferBytes) {
    const int64_t size = std::min(kBufferBytes, bytes - at);
    std::byte* pinned = pinned_space(size);
    copy_by_all_cores(pinned, from + at, size);
    check(cudaMemcpyAsync(to + at, pinned, static_cast<size_t>(size), cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    check(cudaEventRecord(buffers_[current_].done.get(), stream_), "copying to the device");
  }
}

void CudaCopies::download(std::byte* to, const std::byte* from, int64_t bytes) {
  if (by_itself(bytes)) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
          "copying from the device");
    return cuda::wait_for(stream_, "copying from the device");
  }
  const auto ahead = static_cast<int64_t>(buffers_.size());
  const int64_t count = (bytes + kBufferBytes - 1) / kBufferBytes;
  std::array<PinnedBuffer*, std::tuple_size_v<decltype(buffers_)>> in_flight{};
  for (int64_t i = 0; i < count + ahead - 1; ++i) {
    if (i < count) {
      PinnedBuffer& buffer = next_buffer();
      const int64_t size = std::min(kBufferBytes, bytes - i * kBufferBytes);
      check(cudaMemcpyAsync(buffer.memory.get(), from + i * kBufferBytes, static_cast<size_t>(size),
                            cudaMemcpyDeviceToHost, stream_),
            "copying from the device");
      check(cudaEventRecord(buffer.done.get(), stream_), "copying from the device");
      buffer.used = kBufferBytes;
      in_flight[static_cast<size_t>(i % ahead)] = &buffer;
    }
    if (const int64_t ready = i - (ahead - 1); ready >= 0 && ready < count) {
      PinnedBuffer& buffer = *in_flight[static_cast<size_t>(ready % ahead)];
      cuda::wait_for(buffer.done.get(), "copying from the device");
      const int64_t size = std::min(kBufferBytes, bytes - ready * kBufferBytes);
      copy_by_all_cores(to + ready * kBufferBytes, buffer.memory.get(), size);
      buffer.used = 0;
    }
  }
}

}  // namespace genesis
