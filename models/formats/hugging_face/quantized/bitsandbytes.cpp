// bitsandbytes. With four bits (nf4, fp4), NAME has the codes of the whole weight, two a byte, the upper nibble first; NAME.quant_map the
// 16 numbers; NAME.absmax the scale of each block of neighbors. With double quantization absmax are codes too. With eight bits NAME is
// I8, and SCB beside it has 127 times the scale of each row.
#include <numeric>

#include "models/formats/hugging_face/quantized/config.h"
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"
#include "schema/file/json_text.h"

namespace genesis::models::hugging_face::quantized {
namespace {

constexpr std::string_view kStates[] = {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"};

// The contents of NAME.quant_state.
struct QuantState {
  int64_t block = 0, nested_block = 0;
  float nested_offset = 0;
  Shape shape = {};
};

QuantState read_state(const StoredTensor& bytes) {
  if (bytes.dtype != "U8") fail("its quant_state is {}, expected a text in U8", bytes.to_string());
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const nlohmann::json state =
      parse_json_object({text, static_cast<size_t>(bytes.numel())}, "its quant_state");
  QuantState read{size_in(state, "blocksize", 0), size_in(state, "nested_blocksize", 0)};
  if (const auto& offset = entry_of(state, "nested_offset"); offset.is_number())
    read.nested_offset = offset.get<float>();
  std::vector<int64_t> sizes;
  for (const auto& size : entry_of(state, "shape"))
    sizes.push_back(size.is_number_unsigned() ? size.get<int64_t>() : -1);
  if (sizes.size() != 2 || sizes[0] < 0 || sizes[1] < 0 || sizes[0] > INT32_MAX || sizes[1] > INT32_MAX)
    fail("its quant_state has the shape {}, expected two sizes",
         entry_of(state, "shape").dump().substr(0, 60));
  if (read.block <= 0) fail("its blocksize is {}, expected one from 1 on", read.block);
  read.shape = Shape::of(sizes);
  return read;
}

void check_count(const char* what, const StoredTensor& tensor, int64_t expected) {
  if (tensor.numel() != expected)
    fail("its {} is {}, expected {} elements", what, tensor.to_string(), expected);
}

// Returns a function that reads the scales of all blocks.
std::function<std::vector<float>()> scales_of(StoredTensors& stored, const std::string& name,
                                              const QuantState& state, int64_t blocks) {
  const StoredTensor codes = take_needed(stored, name + ".absmax");
  check_count("absmax", codes, blocks);
  if (codes.dtype != "U8") return [codes] { return codes.numbers(); };
  const StoredTensor scales = take_needed(stored, name + ".nested_absmax"),
                     map = take_needed(stored, name + ".nested_quant_map");
  if (state.nested_block <= 0) fail("its nested_blocksize is {}, expected one from 1 on", state.nested_block);
  check_count("nested_quant_map", map, 256);
  check_count("nested_absmax", scales, (blocks + state.nested_block - 1) / state.nested_block);
  return [codes, scales, map, state] {
    const std::vector<float> numbers = map.numbers(), by = scales.numbers();
    std::vector<float> all(static_cast<size_t>(codes.numel()));
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = numbers[std::to_integer<size_t>(codes.data()[i])] *
                   by[i / static_cast<size_t>(state.nested_block)] +
               state.nested_offset;
    return all;
  };
}

// Blocks are of neighbors in the whole weight. As a matrix whose columns divide both a block and all values, each row is in one
// block.
void set_blocks(EncodedWeight& weight, const QuantState& state) {
  const int64_t values = weight.shape.numel().value(), row = weight.shape[1].value();
  weight.columns = row;
  weight.blocks.columns_each = state.block;
  weight.blocks.in_row = row / state.block;
  if (row % state.block != 0) {
    weight.columns = std::max<int64_t>(std::gcd(values, state.block), 1);
    weight.blocks.rows_each = state.block / weight.columns;
    weight.blocks.columns_each = weight.columns;
    weight.blocks.in_row = 1;
  }
  weight.rows = weight.columns == 0 ? 0 : values / weight.columns;
}

EncodedWeight take_four_bits(StoredTensors& stored, const std::string& name, std::string_view end) {
  const QuantState state = read_state(*stored.take(name + std::string(end)));
  const StoredTensor codes = take_needed(stored, name), map = take_needed(stored, name + ".quant_map");
  const int64_t values = state.shape.numel().value();
  // The bytes may be those of elements of another dtype (bnb_4bit_quant_storage).
  if (codes.bytes.bytes() != (values + 1) / 2)
    fail("its codes are {}, expected {} bytes for {}", codes.to_string(), (values + 1) / 2,
         state.shape.to_string());
  check_count("quant_map", map, 16);
  EncodedWeight weight{std::string(end.substr(end.size() - 3)), state.shape};
  weight.table = std::make_shared<const std::vector<float>>(map.numbers());
  weight.numbers = *weight.table;
  set_blocks(weight, state);
  weight.codes = nibbles_as_codes(codes.bytes, weight.columns, NibbleOrder::kHighFirst);
  weight.blocks.scales = scales_of(stored, name, state, (values + state.block - 1) / state.block);
  return weight;
}

EncodedWeight take_eight_bits(StoredTensors& stored, const std::string& module) {
  const StoredTensor scales = *stored.take(module + ".SCB"), bytes = take_needed(stored, module + ".weight");
  if (bytes.dtype != "I8" || !bytes.is_matrix() || scales.numel() != bytes.size(0))
    fail("its weight is {} and its SCB {}, expected I8[rows, columns] and a number per row",
         bytes.to_string(), scales.to_string());
  if (const auto format = stored.take(module + ".weight_format");
      format && (format->dtype != "U8" || format->numel() != 1 || format->data()[0] != std::byte{0}))
    fail("its weight_format is not 0, the order of rows");
  EncodedWeight weight = weight_of_bytes(bytes, scales, {}, "int8");
  weight.factor = 1.0f / 127;
  return weight;
}

}  // namespace

EncodedWeights take_bitsandbytes(const nlohmann::json&, StoredTensors& stored, Problems& problems) {
  EncodedWeights weights;
  for (const std::string_view end : kStates)
    collect(stored.names_before(end), "", weights, problems,
            [&](const std::string& name) { return take_four_bits(stored, name, end); });
  collect(stored.names_before(".SCB"), ".weight", weights, problems,
          [&](const std::string& module) { return take_eight_bits(stored, module); });
  return weights;
}

}  // namespace genesis::models::hugging_face::quantized
