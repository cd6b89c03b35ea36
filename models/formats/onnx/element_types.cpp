#include "models/formats/onnx/element_types.h"

#include "schema/core/error.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::models::onnx {

bool is_foreign(OnnxElement element) {
  const auto storage = onnx_storage(element);
  return storage && onnx_element_of(*storage) != element;
}

bool is_unsigned_word(OnnxElement element) {
  return element == OnnxElement::kU16 || element == OnnxElement::kU32 || element == OnnxElement::kU64;
}

void check_elements(const Operator& operation, const std::vector<ItemPtr>& inputs) {
  if (operation.takes == Takes::kAny || operation.takes == Takes::kAnyAlone) return;
  for (const ItemPtr& input : inputs) {
    if (!input || input->kind != Item::Kind::kTensor || !is_foreign(input->element)) continue;
    if (operation.takes == Takes::kUnsigned && is_unsigned_word(input->element)) continue;
    fail("it computes with {}, which is not read",
         onnx_element_type(static_cast<int64_t>(input->element)).dtype);
  }
}

Value wrapped(Value x, OnnxElement element) {
  if (element == OnnxElement::kU16) return remainder(x, scalar_like(x, int64_t{1} << 16));
  if (element == OnnxElement::kU32) return remainder(x, scalar_like(x, int64_t{1} << 32));
  return x;
}

void keep_elements(const Operator& operation, const std::vector<ItemPtr>& inputs, Results& results) {
  if (operation.takes == Takes::kNumbers || operation.takes == Takes::kAnyAlone) return;
  for (const ItemPtr& input : inputs) {
    if (!input || input->kind != Item::Kind::kTensor || !is_foreign(input->element)) continue;
    for (ItemPtr& result : results) {
      if (!result || result->kind != Item::Kind::kTensor || !result->value || is_foreign(result->element) ||
          result->value.dtype() != *onnx_storage(input->element))
        continue;
      const Value value =
          operation.takes == Takes::kUnsigned ? wrapped(result->value, input->element) : result->value;
      result = item_of(value, input->element);
    }
    return;
  }
}

}  // namespace genesis::models::onnx
