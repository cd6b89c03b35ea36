// Reads .genesis files. They are not trusted: a damaged or malicious one gives an Error, never a crash or memory beyond a small
// multiple of its graph section.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"
#include "schema/messages/progress.h"

namespace genesis {

enum class Verify : uint8_t {
  kHeader,  // checks the hash of header and graph; reads no weights, so opening large files is fast
  kFull,    // also checks the hash of every segment; reads the whole file
};

struct LoadOptions {
  Verify verify = Verify::kHeader;
  OnProgress progress = {};  // receives "verifying" for kFull
};

// Loads a model. Tensors are views into the mapped file, or into the files that it links to, and keep them mapped. A linked file
// that was modified since is read once to check that its bytes are the same. Throws Error naming the path and the reason; one
// Error lists all ops that are missing or newer.
std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options = {});

struct SegmentInfo {
  uint64_t offset, bytes;  // in the file, or in the linked file
  std::string hash;
  size_t tensors;    // number of distinct tensors
  std::string link;  // path of the linked file; empty if there is none
};

struct OpUse {
  std::string name;
  int32_t version;
  size_t nodes;
};

// Describes a file; reading it does not require that its ops are known.
struct FileInfo {
  int major = 0, minor = 0;
  std::string producer, hash;  // hash of header and graph
  uint64_t file_bytes = 0, graph_bytes = 0, data_offset = 0, data_bytes = 0;
  size_t tensors = 0, constants = 0, states = 0;
  std::vector<std::string> entries;
  std::vector<OpUse> ops;  // by name
  std::vector<SegmentInfo> segments;
};

FileInfo inspect_file(const std::filesystem::path& path, const LoadOptions& options = {});

// The same for bytes in memory (`owner` keeps them alive), aligned to 64: for tests and fuzzing. Links are refused.
std::unique_ptr<Model> load_model_from(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                                       const LoadOptions& options = {});

}  // namespace genesis
