#include "executor/cuda/cuda_copies.h"

#include <algorithm>
#include <cstring>

#include "schema/core/parallel.h"

namespace genesis {
namespace {

using cuda::check;

constexpr int64_t kPieceBytes = 8 << 20, kBlockBytes = 512 << 10, kSmallBytes = 1 << 20;
constexpr int64_t kAlignment = 256;

// Copies with all cores, since touching a mapped file takes page faults: one core would be slower than the bus.
void copy_by_all_cores(std::byte* to, const std::byte* from, int64_t bytes) {
  in_parallel(bytes, kBlockBytes, [&](int64_t first, int64_t last) {
    std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
  });
}

}  // namespace

CudaCopies::Piece& CudaCopies::next_piece() {
  current_ = (current_ + 1) % pieces_.size();
  Piece& piece = pieces_[current_];
  if (!piece.memory) {
    piece.memory = cuda::allocate_pinned(kPieceBytes);
    piece.done = cuda::make_event(false);
  } else if (piece.used > 0) {
    cuda::wait_for(piece.done.get(), "copying through pinned memory");
  }
  piece.used = 0;
  return piece;
}

// Returns space for one copy in pinned memory, in the current buffer while it has enough: small copies share a buffer.
std::byte* CudaCopies::room_for(int64_t bytes) {
  Piece* piece = &pieces_[current_];
  if (!piece->memory || piece->used + bytes > kPieceBytes) piece = &next_piece();
  std::byte* room = piece->memory.get() + piece->used;
  piece->used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return room;
}

// Returns true if CUDA's own pinned memory is used for the copy. Allocating pinned memory is slow, so a process that copies
// little does without our buffers.
bool CudaCopies::by_itself(int64_t bytes) const { return bytes <= kSmallBytes && !pieces_[1].memory; }

void CudaCopies::upload(std::byte* to, const std::byte* from, int64_t bytes) {
  if (by_itself(bytes)) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    return cuda::wait_for(stream_, "copying to the device");
  }
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const int64_t size = std::min(kPieceBytes, bytes - at);
    std::byte* room = room_for(size);
    copy_by_all_cores(room, from + at, size);
    check(cudaMemcpyAsync(to + at, room, static_cast<size_t>(size), cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    check(cudaEventRecord(pieces_[current_].done.get(), stream_), "copying to the device");
  }
}

void CudaCopies::download(std::byte* to, const std::byte* from, int64_t bytes) {
  if (by_itself(bytes)) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
          "copying from the device");
    return cuda::wait_for(stream_, "copying from the device");
  }
  const auto ahead = static_cast<int64_t>(pieces_.size());
  const int64_t count = (bytes + kPieceBytes - 1) / kPieceBytes;
  std::array<Piece*, std::tuple_size_v<decltype(pieces_)>> on_the_way{};
  for (int64_t i = 0; i < count + ahead - 1; ++i) {
    if (i < count) {
      Piece& piece = next_piece();
      const int64_t size = std::min(kPieceBytes, bytes - i * kPieceBytes);
      check(cudaMemcpyAsync(piece.memory.get(), from + i * kPieceBytes, static_cast<size_t>(size),
                            cudaMemcpyDeviceToHost, stream_),
            "copying from the device");
      check(cudaEventRecord(piece.done.get(), stream_), "copying from the device");
      piece.used = kPieceBytes;
      on_the_way[static_cast<size_t>(i % ahead)] = &piece;
    }
    if (const int64_t ready = i - (ahead - 1); ready >= 0 && ready < count) {
      Piece& piece = *on_the_way[static_cast<size_t>(ready % ahead)];
      cuda::wait_for(piece.done.get(), "copying from the device");
      const int64_t size = std::min(kPieceBytes, bytes - ready * kPieceBytes);
      copy_by_all_cores(to + ready * kPieceBytes, piece.memory.get(), size);
      piece.used = 0;
    }
  }
}

}  // namespace genesis
