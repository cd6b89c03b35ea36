#include "schema/file/links/join_tensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "schema/file/links/piece_spans.h"

namespace genesis::file {
namespace {

using Pieces = std::vector<JoinedPiece>;

constexpr size_t kMinMapped = 1 << 20;  // copies smaller pieces: a process has some 65 thousand mappings

// A reserved range of addresses in which files are mapped side by side.
class SideBySide {
 public:
  explicit SideBySide(size_t bytes)
      : bytes_(bytes),
        start_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~SideBySide() {
    if (is_there()) ::munmap(start_, bytes_);
  }
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;

  bool is_there() const { return start_ != MAP_FAILED; }
  std::byte* start() const { return static_cast<std::byte*>(start_); }

 private:
  size_t bytes_;
  void* start_;
};

size_t offset_in_file(const JoinedPiece& piece) {
  return static_cast<size_t>(piece.tensor.data() - piece.file->bytes().data());
}

bool begin_and_end_with_pages(const Pieces& pieces) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return std::ranges::all_of(pieces, [&](const JoinedPiece& piece) {
    const auto bytes = static_cast<size_t>(piece.tensor.bytes());
    return piece.file && bytes >= kMinMapped && bytes % page == 0 && offset_in_file(piece) % page == 0;
  });
}

// Maps the pieces side by side; returns null if the system refuses.
std::shared_ptr<const SideBySide> map(const Pieces& pieces, size_t bytes) {
  auto space = std::make_shared<SideBySide>(bytes);
  if (!space->is_there()) return nullptr;
  std::byte* at = space->start();
  for (const JoinedPiece& piece : pieces) {
    const auto count = static_cast<size_t>(piece.tensor.bytes());
    if (!piece.file->map_at(at, offset_in_file(piece), count)) return nullptr;
    at += count;
  }
  return space;
}

Tensor copy(const TensorType& type, const Pieces& pieces, const PieceOrder& order) {
  std::byte* to;
  Tensor joined = Tensor::uninitialized(type, &to);
  order.for_spans([&](size_t piece, size_t first, size_t count) {
    std::memcpy(to, pieces[piece].tensor.data() + first, count);
    to += count;
  });
  return joined;
}

}  // namespace

Tensor join_tensors(const TensorType& type, const Pieces& pieces, int64_t runs, int64_t pieces_each) {
  if (runs == 1 && begin_and_end_with_pages(pieces))
    if (const auto space = map(pieces, static_cast<size_t>(type.bytes())))
      return Tensor(type, space, space->start());
  return copy(type, pieces,
              {pieces.size(), static_cast<size_t>(pieces_each),
               static_cast<size_t>(type.bytes()) / pieces.size(), static_cast<size_t>(runs)});
}

}  // namespace genesis::file
