// Converts records to FlatBuffer bytes and back. Only flat.cpp includes the generated code.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "schema/file/format/records.h"

namespace genesis::file {

// Equal records give equal bytes.
std::vector<std::byte> encode_graph(const ModelRecord& record);

// Reads a graph section that may be damaged or malicious: work and memory are bounded by a small multiple of its size. The
// content of the records is not checked here (see check_records.h). Throws Error.
ModelRecord decode_graph(std::span<const std::byte> bytes);

}  // namespace genesis::file
