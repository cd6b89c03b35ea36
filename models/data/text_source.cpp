// Serves text as training data: windows of bytes.
#include "models/data/row_source.h"

namespace genesis::data {
namespace {

class Bytes {
 public:
  explicit Bytes(std::string text) : text_(std::move(text)) {}
  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  void read(int64_t first, int64_t count, int64_t* tokens) const {
    for (int64_t i = 0; i < count; ++i)
      tokens[i] = static_cast<unsigned char>(text_[static_cast<size_t>(first + i)]);
  }

 private:
  std::string text_;
};

}  // namespace

std::unique_ptr<BatchSource> text_source(std::string text, const SourceOptions& options) {
  const std::string size = fmt::format("the text has {} bytes", text.size());
  return make_row_source(Bytes(std::move(text)), options, size);
}

}  // namespace genesis::data
