// Records to FlatBuffer bytes and back. flat.cpp alone includes the generated code.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "schema/file/format/records.h"

namespace genesis::file {

// The same records give the same bytes.
std::vector<std::byte> encode_graph(const ModelRecord& record);

// Reads a graph section that may be damaged or malicious: work and memory are bounded by a small multiple of
// its size. What the records say is still to be checked (check_records.h). Throws Error.
ModelRecord decode_graph(std::span<const std::byte> bytes);

}  // namespace genesis::file
