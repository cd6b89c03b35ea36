#include "passes/precision/cast_precision.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kText = R"(
state @w: f32[4,3] parameter trainable = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0001)
state @cache: f32[2,4] cache
state @count: i64[] step
tensor #shift: f32[4] = (0.5, 0.25, 0.125, 1.0)
entry forward(x: f32[2,3], ids: i64[2]) {
  %h = linear(x, @w)
  %two = full() {value=2.0}
  %scaled = mul(%h, %two)
  %moved = add(%scaled, #shift)
  %p = softmax(%moved)
  %next = add(@cache, %p)
  %loss = cross_entropy(%moved, ids)
  return p = %p
  return loss = %loss
  update @cache = %next
}
)";

TEST(CastPrecision, FollowsThePrecisionClassOfEachOp) {
  const auto model = parse_text(kText);
  const auto low = cast_precision(*model, DType::bf16);
  verify(*low);
  EXPECT_EQ(to_text(low->entry("forward")), R"(entry forward(x: f32[2,3], ids: i64[2]) {
  %h.cast = cast(x) {dtype=bf16} : bf16[2,3]
  %h = linear(%h.cast, @w) : bf16[2,4]
  %two = full() {value=2.0} : f32[]
  %scaled = mul(%h, %two) : bf16[2,4]
  %moved = add(%scaled, #shift) : bf16[2,4]
  %p = softmax(%moved) : bf16[2,4]
  %next = add(@cache, %p) : bf16[2,4]
  %loss = cross_entropy(%moved, ids) : f32[]
  %cast = cast(%p) : f32[2,4]
  return p = %cast
  return loss = %loss
  update @cache = %next
}
)");
  EXPECT_EQ(low->states()[0].initial.type().to_string(), "bf16[4,3]");
  EXPECT_EQ(low->states()[0].initial.to_doubles()[11], 12.0);
  EXPECT_EQ(low->metadata.at("precision"), "bf16");
  EXPECT_EQ(to_text(*model), to_text(*parse_text(kText))) << "the model itself must not change";
}

TEST(CastPrecision, RefusesTrainingAndOtherDtypes) {
  EXPECT_THROW(cast_precision(*parse_text(kText), DType::f64), Error);
  const auto training = parse_text(R"(
state @w: f32[3] parameter trainable
entry step() {
  %n = neg(@w)
  update @w = %n
}
)");
  try {
    cast_precision(*training, DType::bf16);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("entry point 'step' trains 'w'"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace genesis::passes
