// Serves arrays as training data: rows of tensors whose leading dimensions are equal.
#include <cstring>

#include "models/data/permutation.h"
#include "models/data/sources.h"

namespace genesis::data {
namespace {

class ArraySource final : public BatchSource {
 public:
  ArraySource(NamedTensors arrays, const SourceOptions& options)
      : arrays_(std::move(arrays)), options_(options) {
    if (arrays_.empty()) fail("no arrays were given to train on");
    for (const auto& [name, array] : arrays_) check(name, array);
    batches_ = rows_ / options_.batch_size;
    if (batches_ < 1) fail("the data has {} rows, one batch needs {}", rows_, options_.batch_size);
  }

  NamedTensors batch(int64_t position) override {
    const int64_t epoch = position / batches_, first = position % batches_ * options_.batch_size;
    const Permutation order(rows_, options_.seed, static_cast<uint64_t>(epoch));
    NamedTensors result;
    for (const auto& [name, array] : arrays_) {
      TensorType type = array.type();
      type.shape[0] = options_.batch_size;
      std::byte* to;
      Tensor rows = Tensor::uninitialized(type, &to);
      const auto row_bytes = static_cast<size_t>(type.bytes() / options_.batch_size);
      for (int64_t i = 0; i < options_.batch_size; ++i, to += row_bytes) {
        const int64_t row = options_.shuffle ? order[first + i] : first + i;
        std::memcpy(to, array.data() + static_cast<size_t>(row) * row_bytes, row_bytes);
      }
      result.emplace(name, rows);
    }
    return result;
  }

  int64_t items_per_batch() const override { return options_.batch_size; }
  int64_t batches_per_epoch() const override { return batches_; }

 private:
  void check(const std::string& name, const Tensor& array) {
    if (array.type().shape.rank() < 1)
      fail("array '{}' is a scalar: training data has a leading axis of samples", name);
    const int64_t rows = array.type().shape[0].value();
    if (rows_ >= 0 && rows != rows_) fail("array '{}' has {} rows, the others have {}", name, rows, rows_);
    rows_ = rows;
  }

  NamedTensors arrays_;
  SourceOptions options_;
  int64_t rows_ = -1, batches_ = 0;
};

}  // namespace

std::unique_ptr<BatchSource> array_source(NamedTensors arrays, const SourceOptions& options) {
  if (options.batch_size < 1) fail("batch size {} must be positive", options.batch_size);
  return std::make_unique<ArraySource>(std::move(arrays), options);
}

}  // namespace genesis::data
