#include "passes/precision/cast_precision.h"

#include "schema/encoding/quantized_formats.h"
#include "tests/error_of.h"
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

TEST(CastPrecision, ToF16RefusesWeightsBeyondItsRange) {
  const auto text = [](const char* number) {
    return fmt::format(
        "state @w: f32[2] parameter trainable = ({}, -65504.0)\nentry forward(x: f32[2]) {{\n  %y = mul(x, "
        "@w)\n"
        "  return y = %y\n}}\n",
        number);
  };
  cast_precision(*parse_text(text("65504.0")), DType::f16);
  cast_precision(*parse_text(text("7e4")), DType::bf16);
  EXPECT_EQ(testing::error_of([&] { cast_precision(*parse_text(text("7e4")), DType::f16); }),
            "70000 is beyond the range of f16: cast to bf16 (in weight 'w')");
}

// A block's scale is an f16, and its quants reach 127 times as far.
TEST(CastPrecision, ToF16RefusesQuantizedWeightsBeyondItsRange) {
  const auto model = [](float greatest) {
    std::vector<float> values(64, 1.0f);
    values[63] = greatest;
    const Tensor weight = Tensor::of<float>({2, 32}, values);
    auto made = std::make_unique<Model>();
    made->add_state({.name = "w",
                     .type = weight.type(),
                     .encoded = encode_tensor(quantized_format(WeightFormat::kQ8, DType::f32), weight)});
    return made;
  };
  EXPECT_EQ(cast_precision(*model(65000), DType::f16)->state(0).type.dtype, DType::f16);
  const std::string error = testing::error_of([&] { cast_precision(*model(1e5f), DType::f16); });
  EXPECT_NE(error.find("in weight 'w'"), std::string::npos) << error;
  EXPECT_NE(error.find("is beyond the range of f16"), std::string::npos) << error;
}

// -1e9 does not fit in f16: the mask stays f32, and so does the value it is added to.
TEST(CastPrecision, ToF16LeavesConstantsBeyondItsRange) {
  const auto model = parse_text(R"(
state @w: f32[2,2] parameter trainable = (1.0, 2.0, 3.0, 4.0)
tensor #mask: f32[2] = (-1e9, -2e9)
tensor #small: f32[2] = (0.5, 0.25)
entry forward(x: f32[2,2]) {
  %h = linear(x, @w)
  %moved = add(%h, #small)
  %masked = add(%moved, #mask)
  %p = softmax(%masked)
  return p = %p
}
)");
  const auto low = cast_precision(*model, DType::f16);
  verify(*low);
  EXPECT_EQ(low->tensors()[0].tensor.type().dtype, DType::f32);
  EXPECT_EQ(low->tensors()[1].tensor.type().dtype, DType::f16);
  const std::string text = to_text(low->entry("forward"));
  EXPECT_NE(text.find("add(%h, #small) : f16"), std::string::npos) << text;
  EXPECT_NE(text.find("#mask) : f32"), std::string::npos) << text;
  EXPECT_EQ(cast_precision(*model, DType::bf16)->tensors()[0].tensor.type().dtype, DType::bf16);
  const std::string mixed = to_text(mixed_precision(model->entry("forward"), DType::f16));
  EXPECT_NE(mixed.find("#mask) : f32"), std::string::npos) << mixed;
}

}  // namespace
}  // namespace genesis::passes
