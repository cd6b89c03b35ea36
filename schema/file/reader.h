// Reads .genesis files, which are not trusted: a damaged or malicious one gives an Error, never a crash or
// memory beyond a small multiple of its graph section.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"
#include "schema/messages/progress.h"

namespace genesis {

enum class Verify : uint8_t {
  kHeader,  // hash of header and graph: reads no weights, so opening takes no longer for large ones
  kFull,    // the hash of every segment too: reads the whole file
};

struct LoadOptions {
  Verify verify = Verify::kHeader;
  OnProgress progress = {};  // of kFull: "verifying"
};

// Tensors are views into the mapped file, or the files that it is linked to, and keep them mapped. A linked file that was
// written to since is read once, to see that its bytes are the same. Throws Error naming the path and the reason; ops that
// are missing or newer are all listed in one.
std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options = {});

struct SegmentInfo {
  uint64_t offset, bytes;  // in the file, or the one that it is linked to
  std::string hash;
  size_t tensors;    // distinct ones
  std::string link;  // the path of that one; empty: there is none
};

struct OpUse {
  std::string name;
  int32_t version;
  size_t nodes;
};

// What can be said of a file without knowing its ops.
struct FileInfo {
  int major = 0, minor = 0;
  std::string producer, hash;  // of header and graph
  uint64_t file_bytes = 0, graph_bytes = 0, data_offset = 0, data_bytes = 0;
  size_t tensors = 0, constants = 0, states = 0;
  std::vector<std::string> entries;
  std::vector<OpUse> ops;  // by name
  std::vector<SegmentInfo> segments;
};

FileInfo inspect_file(const std::filesystem::path& path, const LoadOptions& options = {});

// The same from bytes in memory (`owner` keeps them alive), aligned to 64: for tests and fuzzing. Links are refused.
std::unique_ptr<Model> load_model_from(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                                       const LoadOptions& options = {});

}  // namespace genesis
