// Tests the functions that create tensors, and item(): it returns the only element of a tensor, and its errors name a missing or
// unfitting element.
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

using Doubles = std::vector<double>;

TEST(TensorCreation, HasTheNamesAndDefaultsOfTorch) {
  EXPECT_EQ(Tensor::zeros({2, 3}).type().to_string(), "f32[2,3]");
  EXPECT_EQ(Tensor::zeros({2}, DType::i32).to_doubles(), (Doubles{0, 0}));
  EXPECT_EQ(Tensor::ones({2}, DType::boolean).to_doubles(), (Doubles{1, 1}));
  EXPECT_EQ(Tensor::ones({}).item<float>(), 1);
  EXPECT_EQ(Tensor::full({2, 1}, 2.5, DType::bf16).type().to_string(), "bf16[2,1]");
  EXPECT_EQ(Tensor::full({2}, -3, DType::i8).to_doubles(), (Doubles{-3, -3}));
  EXPECT_EQ(Tensor::arange(3).type().to_string(), "i64[3]");
  EXPECT_EQ(Tensor::arange(3).to_doubles(), (Doubles{0, 1, 2}));
  EXPECT_EQ(Tensor::arange(2, 7, 2, DType::f32).to_doubles(), (Doubles{2, 4, 6}));
  EXPECT_EQ(Tensor::arange(3, -1, -2).to_doubles(), (Doubles{3, 1}));
  EXPECT_EQ(Tensor::arange(5, 2).numel(), 0);
}

TEST(TensorCreation, RefusesWhatADTypeCannotHold) {
  expect_error([] { Tensor::full({1}, 0.5, DType::i32); }, {"0.5 is no value of i32"});
  expect_error([] { Tensor::full({1}, 256, DType::u8); }, {"256 is no value of u8"});
  expect_error([] { Tensor::full({1}, NAN, DType::i64); }, {"no value of i64"});
  expect_error([] { Tensor::arange(300, DType::u8); }, {"256 is no value of u8"});
  expect_error([] { Tensor::arange(0, 4, 0); }, {"step 0"});
  expect_error([] { Tensor::randn({1}, 0, DType::i32); }, {"i32"});
}

TEST(TensorCreation, RandomNumbersFollowFromTheSeed) {
  const Tensor x = Tensor::randn({1000}, 7);
  EXPECT_EQ(x.to_doubles(), Tensor::randn({1000}, 7).to_doubles());
  EXPECT_NE(x.to_doubles(), Tensor::randn({1000}, 8).to_doubles());
  double sum = 0, squares = 0;
  for (double value : x.to_doubles()) sum += value, squares += value * value;
  EXPECT_NEAR(sum / 1000, 0, 0.1);
  EXPECT_NEAR(squares / 1000, 1, 0.15);
  for (double value : Tensor::rand({1000}, 7, DType::f64).to_doubles()) {
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
  }
}

TEST(TensorCreation, ListsGiveTheShape) {
  EXPECT_EQ(Tensor::of({1.5f, 2.5f}).type().to_string(), "f32[2]");
  EXPECT_EQ(Tensor::of<int64_t>({1, 2, 3}).to_doubles(), (Doubles{1, 2, 3}));
  EXPECT_EQ(Tensor::of(std::vector<double>{4, 5}).type().to_string(), "f64[2]");
  EXPECT_EQ(Tensor::of<bool>({true, false}).to_doubles(), (Doubles{1, 0}));
  EXPECT_EQ(Tensor::of<float>({}).shape(), Shape({0}));
  EXPECT_EQ(Tensor::of<float>({{1}, {2.5}}).shape(), Shape({2, 1}));
  const Tensor rows = Tensor::of<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(rows.to_doubles(), (Doubles{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(rows.shape(), Shape({2, 3}));
  EXPECT_EQ(rows.size(-1), 3);
  EXPECT_EQ(rows.rank(), 2);
  EXPECT_EQ(rows.dtype(), DType::f32);
  expect_error([&] { rows.size(2); }, {"axis 2"});
  expect_error([] { Tensor::of<float>({{1, 2}, {3}}); }, {"a row of 1 values", "first row of 2"});
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
