// The tensors of a checkpoint from which the readers of quantization methods take what encodes a weight, such as
// "fc.weight_packed" and "fc.weight_scale".
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/named_tensors.h"
#include "schema/file/other_formats/safetensors.h"

namespace genesis::models::hugging_face::quantized {

// Lines about what is wrong with the checkpoint; the import lists all of them in one Error.
using Problems = std::vector<std::string>;

struct StoredTensor {
  std::string dtype;  // safetensors' name: "F8_E4M3", "I32"
  Shape shape;
  Tensor bytes;  // in its own dtype, or u8[bytes] for a dtype that tensors do not have

  int64_t numel() const { return shape.numel().value(); }
  int64_t size(int axis) const { return shape[axis].value(); }  // 0 <= axis < rank
  bool is_matrix() const { return shape.rank() == 2; }
  std::string to_string() const { return dtype + shape.to_string(); }
  const std::byte* data() const { return bytes.data(); }

  // Returns the elements as numbers. The bytes of F8_E8M0 are exponents, and so are those of U8. Throws Error for a dtype that
  // no scale has.
  std::vector<float> numbers() const;
};

// Has the tensors of both maps, which it does not own: a tensor that is taken is removed from its map.
class StoredTensors {
 public:
  StoredTensors(NamedTensors& tensors, OtherTensors& others) : tensors_(tensors), others_(others) {}

  std::optional<StoredTensor> find(const std::string& name) const;
  // Throws Error if the tensor has no elements, so that every size of one that is taken is bounded by the file's.
  std::optional<StoredTensor> take(const std::string& name);
  // Returns each name that ends so, without its end, in order.
  std::vector<std::string> names_before(std::string_view end) const;
  // Removes the tensors whose names end so, and returns how many there were.
  size_t drop(std::string_view end);

 private:
  NamedTensors& tensors_;
  OtherTensors& others_;
};

}  // namespace genesis::models::hugging_face::quantized
