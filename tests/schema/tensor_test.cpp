// Tests item(): it returns the only element of a tensor, and its errors name a missing or unfitting element.
#include "schema/core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace genesis {
namespace {

void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message() << "\nlacks: " << part;
  }
}

TEST(TensorItem, IsTheOnlyElementWhateverTheShape) {
  EXPECT_EQ(Tensor::scalar<float>(2.5f).item<float>(), 2.5f);
  EXPECT_EQ(Tensor::of<int64_t>({1, 1}, {9007199254740993}).item<int64_t>(), 9007199254740993);
  EXPECT_TRUE(Tensor::scalar(true).item<bool>());
  EXPECT_EQ(static_cast<float>(Tensor::scalar(bf16(1.5f)).item<bf16>()), 1.5f);
}

TEST(TensorItem, ConvertsWhereTheDTypeAllowsIt) {
  EXPECT_EQ(Tensor::scalar(f16(0.5f)).item<double>(), 0.5);
  EXPECT_EQ(Tensor::scalar<double>(0.1).item<float>(), 0.1f);
  EXPECT_EQ(Tensor::scalar<int8_t>(-3).item<int>(), -3);
  EXPECT_EQ(Tensor::scalar<int64_t>(7).item<double>(), 7.0);
  EXPECT_EQ(Tensor::scalar<int64_t>(255).item<uint8_t>(), 255);
  EXPECT_EQ(Tensor::scalar<uint8_t>(255).item<size_t>(), 255u);
  EXPECT_EQ(Tensor::scalar(true).item<float>(), 1.0f);
  EXPECT_TRUE(std::isnan(Tensor::scalar<float>(NAN).item<double>()));
}

TEST(TensorItem, MoreOrFewerElementsAreNamedByShapeAndDType) {
  expect_error(
      [] {
        Tensor::of<float>({2, 2}, {1, 2, 3, 4}).item<float>();
      },
      {"exactly one element", "f32[2,2]", "has 4", "as<T>()"});
  expect_error([] { Tensor::of<int32_t>({0}, {}).item<int>(); }, {"i32[0]", "has 0"});
  expect_error([] { Tensor().item<float>(); }, {"holds no data"});
}

TEST(TensorItem, WhatDoesNotConvertIsAnError) {
  expect_error([] { Tensor::scalar<float>(2.5f).item<int>(); },
               {"f32[]", "cannot give i32", "item<double>()"});
  expect_error([] { Tensor::scalar<double>(1).item<bool>(); }, {"f64[]", "cannot give bool"});
  expect_error([] { Tensor::scalar<int64_t>(1).item<bool>(); },
               {"i64[]", "cannot give bool", "item<int64_t>()"});
  expect_error([] { Tensor::scalar<int64_t>(256).item<uint8_t>(); }, {"i64[]", "256 does not fit in u8"});
  expect_error([] { Tensor::of<int32_t>({1}, {-1}).item<uint64_t>(); }, {"i32[1]", "-1 does not fit in u64"});
}

TEST(TensorTo, RoundsToOtherRealTypes) {
  const Tensor x = Tensor::of<double>({3}, {1.0, 1.0 + 0x1p-9, -3.5});
  EXPECT_EQ(x.to(DType::bf16).type().to_string(), "bf16[3]");
  EXPECT_EQ(x.to(DType::bf16).to_doubles(), (std::vector<double>{1, 1, -3.5}));
  EXPECT_EQ(x.to(DType::f16).to(DType::f32).to_doubles(), (std::vector<double>{1, 1 + 0x1p-9, -3.5}));
  EXPECT_EQ(Tensor::of<int32_t>({2}, {3, -4}).to(DType::f32).to_doubles(), (std::vector<double>{3, -4}));
  EXPECT_EQ(x.to(DType::f64).data(), x.data()) << "the same bytes";
  expect_error([&] { x.to(DType::i64); }, {"f64[3]", "i64", "real"});
}

}  // namespace
}  // namespace genesis
