#include "passes/lowering/mask_key_starts.h"

#include "schema/ops/nn/attention.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

// Of a device without kernels for key_start.
std::optional<std::string> takes_no_key_start(const KernelQuery& query) {
  const bool is_attention = query.op.name() == "attention" || query.op.name() == "attention_grad";
  if (is_attention && ops::attention_rules(query.op, query.attributes).has_key_start) return "it takes none";
  return std::nullopt;
}

std::string text_for(const std::string& text, decltype(Target::can_run) can_run) {
  Target target;
  target.can_run = can_run;
  const auto model = parse_text(text);
  const Graph result = mask_key_starts(*model->entries()[0], target);
  verify(result);
  return to_text(result);
}

void expect_masked(const std::string& inputs, const std::string& before, const std::string& after) {
  EXPECT_EQ(text_for(entry(inputs, before), takes_no_key_start), normal_text(entry(inputs, after)));
  EXPECT_EQ(text_for(entry(inputs, before), nullptr), normal_text(entry(inputs, before))) << "left alone";
}

constexpr const char* kSeen =
    "%arange = arange() {length=[6]}\n %reshape = reshape(s) {shape=[2,1,5,1]}\n"
    " %ge = ge(%arange, %reshape)\n";

TEST(MaskKeyStarts, HidesWhatComesBefore) {
  expect_masked("q: f32[2,5,4,8], k: f32[2,6,2,8], v: f32[2,6,2,8], s: i64[2,5], n: i64[]",
                "%y = attention(q, k, v, s, n) {causal=true, has_key_start=true, has_key_length=true}\n"
                " return y = %y",
                std::string(kSeen) +
                    " %attention = attention(q, k, v, %ge, n) {causal=true, has_mask=true, "
                    "has_key_length=true}\n return y = %attention");
}

TEST(MaskKeyStarts, NarrowsAMaskThatIsThere) {
  expect_masked("q: f32[2,5,4,8], k: f32[2,6,2,8], v: f32[2,6,2,8], m: bool[5,6], s: i64[2,5]",
                "%y = attention(q, k, v, m, s) {has_mask=true, has_key_start=true}\n return y = %y",
                std::string(kSeen) +
                    " %logical_and = logical_and(m, %ge)\n"
                    " %attention = attention(q, k, v, %logical_and) {has_mask=true}\n return y = %attention");
}

TEST(MaskKeyStarts, OfGradientsOfPackedOperands) {
  const std::string inputs = "x: f32[2,6,8,8], y: f32[2,6,4,8], l: f32[2,4,6], dy: f32[2,6,4,8], s: i64[2,6]";
  expect_masked(inputs,
                "%dx = attention_grad(x, y, l, dy, s) {causal=true, packed_key_heads=2, "
                "has_key_start=true}\n return d = %dx",
                "%arange = arange() {length=[6]}\n %reshape = reshape(s) {shape=[2,1,6,1]}\n"
                " %ge = ge(%arange, %reshape)\n"
                " %attention_grad = attention_grad(x, y, l, dy, %ge) {causal=true, packed_key_heads=2, "
                "has_mask=true}\n return d = %attention_grad");
}

}  // namespace
}  // namespace genesis::passes
