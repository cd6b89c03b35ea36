// Text as training data: windows of bytes.
#include "models/data/permutation.h"
#include "models/data/sources.h"

namespace genesis::data {
namespace {

class TextSource final : public BatchSource {
 public:
  TextSource(std::string text, const SourceOptions& options)
      : text_(std::move(text)),
        options_(options),
        windows_((static_cast<int64_t>(text_.size()) - 1) / options.sequence_length),
        batches_(windows_ / options.batch_size) {
    if (batches_ < 1)
      fail("the text has {} bytes, one batch of {} x {} tokens needs {}: give more text or smaller batches",
           text_.size(), options.batch_size, options.sequence_length,
           options.batch_size * options.sequence_length + 1);
  }

  NamedTensors batch(int64_t position) override {
    const int64_t epoch = position / batches_, first = position % batches_ * options_.batch_size;
    const Permutation order(windows_, options_.seed, static_cast<uint64_t>(epoch));
    const TensorType type{DType::i64, {options_.batch_size, options_.sequence_length}};
    std::byte *tokens_data, *targets_data;
    Tensor tokens = Tensor::uninitialized(type, &tokens_data),
           targets = Tensor::uninitialized(type, &targets_data);
    auto* token = reinterpret_cast<int64_t*>(tokens_data);
    auto* target = reinterpret_cast<int64_t*>(targets_data);
    for (int64_t row = 0; row < options_.batch_size; ++row) {
      const int64_t window = options_.shuffle ? order[first + row] : first + row;
      const char* text = text_.data() + window * options_.sequence_length;
      for (int64_t i = 0; i < options_.sequence_length; ++i) {
        *token++ = static_cast<unsigned char>(text[i]);
        *target++ = static_cast<unsigned char>(text[i + 1]);
      }
    }
    return {{"tokens", tokens}, {"targets", targets}};
  }

  int64_t items_per_batch() const override { return options_.batch_size * options_.sequence_length; }
  int64_t batches_per_epoch() const override { return batches_; }

 private:
  std::string text_;
  SourceOptions options_;
  int64_t windows_, batches_;
};

}  // namespace

std::unique_ptr<BatchSource> text_source(std::string text, const SourceOptions& options) {
  if (options.batch_size < 1 || options.sequence_length < 1)
    fail("batch size {} and sequence length {} must be positive", options.batch_size,
         options.sequence_length);
  return std::make_unique<TextSource>(std::move(text), options);
}

}  // namespace genesis::data
