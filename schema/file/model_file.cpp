#include "schema/file/model_file.h"

#include <fstream>

#include "schema/file/format/magic.h"

namespace genesis {

bool is_model_file(const std::filesystem::path& path) {
  std::array<std::byte, file::kMagic.size()> start;
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(start.data()), start.size());
  return file::has_magic(std::span(start).first(static_cast<size_t>(in.gcount())));
}

}  // namespace genesis
