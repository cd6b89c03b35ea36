#include "models/formats/hugging_face/quantized/make_weight.h"

#include <utility>

#include "schema/core/small_floats.h"

namespace genesis::models::hugging_face::quantized {
namespace {

int64_t divided_up(int64_t n, int64_t by) { return by <= 0 ? 0 : n / by + (n % by != 0 ? 1 : 0); }

// Returns the size of blocks of which `count` cover `size` elements; 0 if no size fits.
int64_t block_size(int64_t size, int64_t count, int64_t hint) {
  if (hint > 0 && divided_up(size, hint) == count) return hint;
  return count > 0 && size % count == 0 ? std::max<int64_t>(size / count, 1) : 0;
}

// Returns the sizes of the scales of one expert's matrix, or of the whole matrix, as [rows, columns]; {0, 0} if there are none.
std::pair<int64_t, int64_t> grid_of(const Shape& weight, const StoredTensor& scales) {
  std::vector<int64_t> sizes = scales.shape.sizes();
  if (scales.numel() == 1) return {1, 1};
  if (weight.rank() == 3) {
    if (sizes.empty() || sizes[0] != weight[0].value()) return {0, 0};
    sizes.erase(sizes.begin());
  }
  if (sizes.size() == 4 && sizes[1] == 1 && sizes[3] == 1) sizes = {sizes[0], sizes[2]};
  if (sizes.empty()) return {1, 1};
  if (sizes.size() == 1 && (sizes[0] == 1 || sizes[0] == weight[weight.rank() - 2].value()))
    return {sizes[0], 1};
  return sizes.size() == 2 ? std::pair(sizes[0], sizes[1]) : std::pair<int64_t, int64_t>(0, 0);
}

// Returns the weight without codes and numbers.
EncodedWeight scaled(const Shape& shape, const StoredTensor& scales, const BlockHint& hint,
                     std::string kind) {
  if (shape.rank() != 2 && shape.rank() != 3)
    fail("the weight is {}, expected a matrix, or matrices of experts", shape.to_string());
  EncodedWeight made{std::move(kind), shape};
  made.columns = shape[shape.rank() - 1].value();
  made.rows = made.columns == 0 ? 0 : shape.numel().value() / made.columns;
  made.blocks = blocks_of(shape, scales, hint);
  return made;
}

}  // namespace

StoredTensor take_needed(StoredTensors& stored, const std::string& name) {
  std::optional<StoredTensor> found = stored.take(name);
  if (!found) fail("'{}' is missing", name);
  return *std::move(found);
}

void collect(const std::vector<std::string>& names, std::string_view end, EncodedWeights& weights,
             Problems& problems, const std::function<EncodedWeight(const std::string& name)>& make) {
  for (const std::string& name : names) {
    const std::string weight = name + std::string(end);
    try {
      if (!weights.emplace(weight, make(name)).second) fail("it is stored twice");
    } catch (const Error& error) {
      problems.push_back(weight + ": " + error.message());
    }
  }
}

Blocks blocks_of(const Shape& weight, const StoredTensor& scales, const BlockHint& hint) {
  const int rank = weight.rank();
  const int64_t rows = weight[rank - 2].value(), columns = weight[rank - 1].value();
  const auto [down, across] = grid_of(weight, scales);
  Blocks blocks{block_size(rows, down, hint.rows), block_size(columns, across, hint.columns), across};
  const bool is_one = scales.numel() == 1 && rank == 3;
  if (is_one) blocks.rows_each = std::max<int64_t>(weight[0].value() * rows, 1);
  if (blocks.rows_each == 0 || blocks.columns_each == 0 ||
      (rank == 3 && !is_one && rows % blocks.rows_each != 0))
    fail("its scales are {}, which do not fit a weight {}{}", scales.to_string(), weight.to_string(),
         hint.rows + hint.columns > 0
             ? fmt::format(" with blocks of {} x {}", std::max<int64_t>(hint.rows, 1), hint.columns)
             : "");
  blocks.scales = [scales] { return scales.numbers(); };
  return blocks;
}

std::span<const float> integers(int bits, int offset) {
  constexpr int kFirst = 128;
  static const auto kAll = [] {
    std::array<float, 256 + kFirst> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(static_cast<int>(i) - kFirst);
    return all;
  }();
  return std::span(kAll).subspan(static_cast<size_t>(kFirst - offset), size_t{1} << bits);
}

std::span<const float> signed_bytes() {
  static const auto kAll = [] {
    std::array<float, 256> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int8_t>(static_cast<uint8_t>(i));
    return all;
  }();
  return kAll;
}

bool is_byte_per_value(const StoredTensor& weight) {
  return weight.dtype == "F8_E4M3" || weight.dtype == "F8_E5M2" || weight.dtype == "I8";
}

EncodedWeight weight_of_bytes(const StoredTensor& weight, const StoredTensor& scales, const BlockHint& hint,
                              std::string kind) {
  EncodedWeight made = scaled(weight.shape, scales, hint, std::move(kind));
  made.codes = bytes_as_codes(weight.bytes, made.columns);
  made.has_integers = weight.dtype == "I8";
  made.numbers = made.has_integers ? signed_bytes() : weight.dtype == "F8_E4M3" ? kE4M3 : std::span(kE5M2);
  return made;
}

EncodedWeight weight_of_e2m1(const StoredTensor& bytes, const StoredTensor& scales, const BlockHint& hint,
                             std::string kind) {
  if (bytes.dtype != "U8" || bytes.shape.rank() < 2)
    fail("its values are {}, expected a matrix of U8", bytes.to_string());
  std::vector<int64_t> sizes = bytes.shape.sizes();
  sizes.back() *= 2;
  EncodedWeight made = scaled(Shape::of(sizes), scales, hint, std::move(kind));
  made.codes = nibbles_as_codes(bytes.bytes, made.columns, NibbleOrder::kLowFirst);
  made.numbers = kE2M1;
  return made;
}

void take_global_scale(EncodedWeight& weight, const StoredTensor& tensor, GlobalScale way) {
  if (tensor.numel() != 1 || tensor.dtype != "F32")
    fail("its global scale is {}, expected one F32", tensor.to_string());
  weight.blocks.scales = [scales = std::move(weight.blocks.scales), by = tensor.numbers()[0], way] {
    std::vector<float> all = scales();
    for (float& scale : all) scale = way == GlobalScale::kMultiplies ? scale * by : scale / by;
    return all;
  };
}

void check_stored(const std::string& name, const StoredTensor& tensor, std::string_view dtype,
                  const std::vector<int64_t>& sizes) {
  const Shape expected = Shape::of(sizes);
  if (tensor.dtype != dtype || !(tensor.shape == expected))
    fail("'{}' is {}, expected {}{}", name, tensor.to_string(), dtype, expected.to_string());
}

}  // namespace genesis::models::hugging_face::quantized
