// The fixed part of a .genesis file: its 64-byte header, its alignments and limits. Layout of the whole:
//
//   0                   header
//   64                  graph section: one FlatBuffer (genesis.fbs), at most 64 MiB
//   data_offset (4096)  segments, each 4096-aligned; in them tensors, each 256-aligned
//
// All numbers are little-endian. There are no gaps but zero padding to the alignments, and the last segment
// ends the file, so the layout follows from the sizes and leaves nothing to overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "schema/file/format/hash.h"

namespace genesis::file {

// A reader refuses a larger one. 2: states may be encoded; 3: tensors joined; 4: of sets of pieces.
inline constexpr uint16_t kMajor = 4;
// Grows with additions that older readers may ignore. A file has the number of the last that it uses.
inline constexpr uint16_t kMinor = 0;
inline constexpr uint16_t kMinorWithFiles = 1;  // files travel in it
inline constexpr uint16_t kMinorWithLinks = 2;  // its weights are in others
inline constexpr uint64_t kHeaderBytes = 64;
inline constexpr uint64_t kSegmentAlignment = 4096;
inline constexpr uint64_t kTensorAlignment = 256;
inline constexpr uint64_t kMaxGraphBytes = uint64_t{64} << 20;

struct Header {
  uint16_t major = kMajor;
  uint16_t minor = 0;
  uint64_t graph_bytes = 0;
  uint64_t data_offset = 0;  // where segments begin; the end of the file when there are none
  uint64_t file_bytes = 0;
  Hash128 hash;  // of the header before this field, and the graph section
};

inline constexpr uint64_t align_up(uint64_t x, uint64_t alignment) {
  return (x + alignment - 1) / alignment * alignment;
}

// Where data begins behind a graph section of this size.
inline constexpr uint64_t data_offset_for(uint64_t graph_bytes, bool has_data) {
  const uint64_t end = kHeaderBytes + graph_bytes;
  return has_data ? align_up(end, kSegmentAlignment) : end;
}

// The header's bytes, hash included, for this graph section.
std::array<std::byte, kHeaderBytes> encode_header(const Header& header, std::span<const std::byte> graph);

// Checks the magic, the version and every size against those of the file; `start` is its first kHeaderBytes,
// or all of a shorter one. Throws Error.
Header decode_header(std::span<const std::byte> start, uint64_t file_bytes);
// Checks the hash of the header, as it stands in the file, and the graph section. Throws Error.
void check_hash(const Header& header, std::span<const std::byte> start, std::span<const std::byte> graph);

}  // namespace genesis::file
