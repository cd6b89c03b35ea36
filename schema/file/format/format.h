// The fixed part of a .genesis file: its 64-byte header, its alignments and limits. Layout of the whole file:
//
//   0                   header
//   64                  graph section: one FlatBuffer (genesis.fbs), at most 64 MiB
//   data_offset (4096)  segments, each 4096-aligned; in them tensors, each 256-aligned
//
// All numbers are little-endian. The only gaps are zero padding up to the alignments, and the last segment ends the file. The
// sizes therefore determine the layout, and nothing can overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "schema/file/format/hash.h"

namespace genesis::file {

// A reader refuses a larger major version. Version 2 adds encoded states, 3 joined tensors, 4 joins from sets of pieces.
inline constexpr uint16_t kMajor = 4;
// The minor version grows with additions that older readers may ignore. A file has the lowest number that covers its features.
inline constexpr uint16_t kMinor = 0;
inline constexpr uint16_t kMinorWithFiles = 1;  // the file contains attached files
inline constexpr uint16_t kMinorWithLinks = 2;  // weights are in linked files
inline constexpr uint16_t kMinorWithCaches = 3;  // caches declare what they hold
inline constexpr uint64_t kHeaderBytes = 64;
inline constexpr uint64_t kSegmentAlignment = 4096;
inline constexpr uint64_t kTensorAlignment = 256;
inline constexpr uint64_t kMaxGraphBytes = uint64_t{64} << 20;

struct Header {
  uint16_t major = kMajor;
  uint16_t minor = 0;
  uint64_t graph_bytes = 0;
  uint64_t data_offset = 0;  // start of the segments; the end of the file if there are none
  uint64_t file_bytes = 0;
  Hash128 hash;  // hash of the header before this field and of the graph section
};

inline constexpr uint64_t align_up(uint64_t x, uint64_t alignment) {
  return (x + alignment - 1) / alignment * alignment;
}

// Returns the offset of the data after a graph section of this size.
inline constexpr uint64_t data_offset_for(uint64_t graph_bytes, bool has_data) {
  const uint64_t end = kHeaderBytes + graph_bytes;
  return has_data ? align_up(end, kSegmentAlignment) : end;
}

// Returns the header's bytes, including the hash over this graph section.
std::array<std::byte, kHeaderBytes> encode_header(const Header& header, std::span<const std::byte> graph);

// Checks the magic, the version, and every size against the size of the file; `start` is its first kHeaderBytes, or all of a
// shorter file. Throws Error.
Header decode_header(std::span<const std::byte> start, uint64_t file_bytes);
// Checks the hash over the header as stored in the file and the graph section. Throws Error.
void check_hash(const Header& header, std::span<const std::byte> start, std::span<const std::byte> graph);

}  // namespace genesis::file
