// Tests q8 and q4: decoding of blocks, accuracy of encoding, refused inputs, and files with such states.
#include "schema/encoding/quantized_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "schema/core/float16.h"
#include "schema/file/layout.h"
#include "schema/graph/state_storage.h"
#include "schema/graph/text.h"
#include "schema/graph/verify.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

constexpr WeightFormat kFormats[] = {WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m};

// Returns numbers in [-1, 1] times `scale`, always the same for a seed.
std::vector<float> numbers(size_t count, uint32_t seed, float scale = 1) {
  std::vector<float> values(count);
  uint64_t state = seed;
  for (float& value : values) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    value = (static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1) * scale;
  }
  return values;
}

Tensor matrix(int64_t rows, int64_t columns, const std::vector<float>& values) {
  return Tensor::of<float>({rows, columns}, values);
}

EncodedValues encoded(WeightFormat format, const Tensor& values) {
  return encode_tensor(quantized_format(format, values.type().dtype), values);
}

void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "expected an Error with '" << parts[0] << "'";
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(error.message().find(part), std::string::npos) << part << " / " << error.message();
  }
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

TEST(QuantizedFormats, EveryQuantIsDecodedExactly) {
  std::vector<int8_t> quants(256);
  for (size_t i = 0; i < 256; ++i) quants[i] = static_cast<int8_t>(std::max(-127, static_cast<int>(i) - 128));
  std::vector<f16> scales;
  for (const float scale : {1.0f, -0.5f, 0.0f, 6e-8f, 65504.0f, 0.3f, 1e-4f, 3.0f})
    scales.emplace_back(scale);
  const EncodedValues q8{&quantized_format(WeightFormat::kQ8, DType::f32),
                         {Tensor::of<int8_t>({8, 32}, quants), Tensor::of<f16>({8, 1}, scales)}};
  const auto values = decode_tensor(q8, {DType::f32, {8, 32}});
  for (size_t i = 0; i < 256; ++i)
    EXPECT_EQ(values.as<float>()[i], static_cast<float>(quants[i]) * static_cast<float>(scales[i / 32])) << i;
}

TEST(QuantizedFormats, FourBitsStandAsInGguf) {
  std::vector<uint8_t> bytes(16);
  for (size_t i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(i | (15 - i) << 4);
  const EncodedValues q4{&quantized_format(WeightFormat::kQ4, DType::f32),
                         {Tensor::of<uint8_t>({1, 16}, bytes), Tensor::of<f16>({1, 1}, {f16(0.5f)})}};
  const auto values = decode_tensor(q4, {DType::f32, {1, 32}});
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(values.as<float>()[static_cast<size_t>(i)], 0.5f * static_cast<float>(i - 8));
    EXPECT_EQ(values.as<float>()[static_cast<size_t>(i + 16)], 0.5f * static_cast<float>(7 - i));
  }
}

// The error is at most half a step. The step is the scale: the greatest magnitude / 127, rounded to f16, whose
// smallest step is 2^-24.
TEST(QuantizedFormats, Q8IsWithinHalfAStep) {
  for (const float size : {1.0f, 1e-2f, 1e-5f, 1e-7f, 1e6f}) {
    const auto x = numbers(64 * 32, 7, size);
    const Tensor given = matrix(64, 32, x);
    const auto got = decode_tensor(encoded(WeightFormat::kQ8, given), given.type());
    for (size_t block = 0; block < 64; ++block) {
      float greatest = 0;
      for (size_t i = 0; i < 32; ++i) greatest = std::max(greatest, std::abs(x[block * 32 + i]));
      const float step = greatest / 127 * 1.0006f + 0x1p-24f;
      for (size_t i = block * 32; i < block * 32 + 32; ++i)
        EXPECT_LE(std::abs(got.as<float>()[i] - x[i]), step * 0.5005f) << size << " element " << i;
    }
  }
}

double squared_error(const std::vector<float>& x, const Tensor& got) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(got.as<float>()[i]) - x[i], 2);
  return sum;
}

// Returns the error with a scale that only depends on the value of greatest magnitude, as in GGUF's Q4_0.
double squared_error_of_simple_scale(const std::vector<float>& x) {
  double sum = 0;
  for (size_t block = 0; block < x.size() / 32; ++block) {
    float extreme = 0;
    for (size_t i = 0; i < 32; ++i)
      if (std::abs(x[block * 32 + i]) > std::abs(extreme)) extreme = x[block * 32 + i];
    const float scale = f16(extreme / -8);
    for (size_t i = block * 32; i < block * 32 + 32; ++i) {
      const double quant = std::clamp(std::round(x[i] / scale), -8.0f, 7.0f);
      sum += std::pow(quant * scale - x[i], 2);
    }
  }
  return sum;
}

TEST(QuantizedFormats, TheScaleOfQ4IsSearchedFor) {
  const auto x = numbers(512 * 32, 3);
  const Tensor given = matrix(512, 32, x);
  const double error = squared_error(x, decode_tensor(encoded(WeightFormat::kQ4, given), given.type()));
  EXPECT_LT(error, 0.9 * squared_error_of_simple_scale(x));
  EXPECT_GT(error, 0);
}

// Blocks whose values are all of one sign, or near a value that is not 0, use the 16 steps of q4m fully.
TEST(QuantizedFormats, Q4mFollowsTheRangeOfABlock) {
  for (const float middle : {0.0f, 0.3f, 1.0f, -2.0f}) {
    std::vector<float> x = numbers(512 * 32, 3);
    for (float& value : x) value += middle;
    const Tensor given = matrix(512, 32, x);
    const auto error_of = [&](WeightFormat format) {
      return squared_error(x, decode_tensor(encoded(format, given), given.type()));
    };
    EXPECT_LT(error_of(WeightFormat::kQ4m), (middle == 0 ? 0.95 : 0.75) * error_of(WeightFormat::kQ4))
        << middle;
  }
}

TEST(QuantizedFormats, Q4mKeepsItsPrecisionForSmallAndLargeWeights) {
  const std::vector<float> x = numbers(64 * 32, 3);
  const auto relative_error = [&](float size) {
    const Tensor given = matrix(64, 32, numbers(64 * 32, 3, size));
    const auto got = decode_tensor(encoded(WeightFormat::kQ4m, given), given.type());
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i)
      sum += std::pow(static_cast<double>(got.as<float>()[i]) / size - x[i], 2);
    return sum;
  };
  const double usual = relative_error(1);
  for (const float size : {1e-5f, 1e-3f, 100.0f, 1800.0f})
    EXPECT_NEAR(relative_error(size) / usual, 1, 0.02) << size;
}

TEST(QuantizedFormats, ZerosStayZerosAndWhatFitsStaysAsItIs) {
  for (const WeightFormat format : kFormats) {
    const Tensor zeros = Tensor::zeros({DType::f32, {3, 64}});
    EXPECT_TRUE(same_bytes(decode_tensor(encoded(format, zeros), zeros.type()), zeros));
    const Tensor given = matrix(16, 64, numbers(16 * 64, 11));
    const EncodedValues once = encoded(format, given);
    const Tensor meant = decode_tensor(once, given.type());
    const Tensor again = decode_tensor(encoded(format, meant), given.type());
    EXPECT_EQ(again.to_doubles(), meant.to_doubles()) << "values of the format are encoded again as they are";
  }
}

TEST(QuantizedFormats, OfOtherDtypes) {
  std::vector<bf16> x;
  for (const float value : numbers(4 * 96, 5)) x.emplace_back(value);
  const Tensor given = Tensor::of<bf16>({4, 96}, x);
  for (const WeightFormat format : kFormats) {
    const EncodedValues values = encoded(format, given);
    const Tensor wide =
        decode_tensor({&quantized_format(format, DType::f32), values.parts}, {DType::f32, {4, 96}});
    const Tensor got = decode_tensor(values, given.type());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got.as<bf16>()[i].bits, bf16(wide.as<float>()[i]).bits);
  }
  expect_error([] { quantized_format(WeightFormat::kQ8, DType::i32); }, {"no format q8 of i32"});
}

TEST(QuantizedFormats, OddRowsAndValuesThatAreNoneAreRefused) {
  expect_error(
      [] {
        encoded(WeightFormat::kQ8, Tensor::zeros({DType::f32, {4, 33}}));
      },
      {"f32[4,33] cannot be kept as q8", "33 values, which is no multiple of 32"});
  expect_error([] { encoded(WeightFormat::kQ4, Tensor::zeros({DType::f32, {}})); }, {"it has no axis"});
  std::vector<float> x(64, 1.0f);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e9f}) {
    x[37] = bad;
    for (const WeightFormat format : kFormats)
      expect_error([&] { encoded(format, matrix(2, 32, x)); }, {"element 37 is", "cannot hold"});
  }
  EXPECT_EQ(
      decode_tensor(encoded(WeightFormat::kQ8, Tensor::zeros({DType::f32, {0, 32}})), {DType::f32, {0, 32}})
          .numel(),
      0);
}

// --- in models and files

std::unique_ptr<Model> quantized_model(WeightFormat format) {
  auto model = parse_text(R"(
state @w: f32[3,64] parameter
state @b: f32[3] parameter = (1.0, 2.0, 3.0)
entry f(x: f32[2,64]) {
  %y = linear(x, @w, @b)
  return y = %y
})");
  model->set_encoded(0, encoded(format, matrix(3, 64, numbers(192, 9))));
  return model;
}

TEST(QuantizedFiles, GoOutAndInAsTheyAre) {
  for (const WeightFormat format : kFormats) {
    const auto model = quantized_model(format);
    const std::string bytes = file_of(*model);
    const auto loaded = load_bytes(bytes, {.verify = Verify::kFull});
    const State &before = model->state(0), &after = loaded->state(0);
    EXPECT_EQ(after.encoded.format, before.encoded.format);
    EXPECT_EQ(after.type, before.type);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bytes(after.encoded.parts[i], before.encoded.parts[i]));
    EXPECT_TRUE(same_bytes(initial_value(after), initial_value(before)));
    EXPECT_EQ(file_of(*loaded), bytes);
    const std::string text = to_text(*model, {.max_values = 1000});
    EXPECT_EQ(to_text(*parse_text(text), {.max_values = 1000}), text);
  }
}

// An older reader would take such a state for zeros, so only these files have version 2.
TEST(QuantizedFiles, OnlyTheyAreOfVersionTwo) {
  const TemporaryFolder folder;
  write_bytes(folder / "q", file_of(*quantized_model(WeightFormat::kQ4)));
  EXPECT_EQ(inspect_file(folder / "q").major, 2);
  write_bytes(folder / "p", file_of(*rich_model()));
  EXPECT_EQ(inspect_file(folder / "p").major, 1);
}

TEST(QuantizedFiles, RecordsThatSayTheImpossible) {
  const auto model = quantized_model(WeightFormat::kQ8);
  const std::string whole = file_of(*model);
  const file::Layout layout = file::lay_out(*model, {.segment_bytes = 1 << 20});
  const std::string data = whole.substr(whole.size() - layout.data_bytes);
  const std::pair<std::function<void(file::StateRecord&)>, const char*> cases[] = {
      {[](auto& s) { s.format = "q9"; }, "encoded as 'q9', which this version of Genesis does not know"},
      {[](auto& s) { s.format = "bf16_halves"; }, "does not know"},
      {[](auto& s) { s.format = ""; }, "2 parts and no format"},
      {[](auto& s) { s.format = std::string(5000, 'q'); }, "the limit is 4096"},
      {[](auto& s) { s.format = "q4"; }, "its part 0 is i8[3,64], expected u8[3,32]"},
      {[](auto& s) { s.initial = 0; }, "starts as tensor 0 too"},
      {[](auto& s) { s.parts.pop_back(); }, "it has 1 parts, 'q8' has 2"},
      {[](auto& s) { s.parts[1] = 77; }, "part 1 is tensor 77"},
      {[](auto& s) { std::swap(s.parts[0], s.parts[1]); }, "its part 0 is f16[3,2], expected i8[3,64]"},
      {[](auto& s) {
         s.type.shape = {3, 65};
       },
       "no multiple of 32"},
      {[](auto& s) {
         s.type.shape = {6, 64};
       },
       "expected i8[6,64]"},
      {[](auto& s) { s.type.shape = {}; }, "it has no axis"},
      {[](auto& s) { s.type.dtype = DType::i32; }, "it is a i32 encoded as 'q8'"},
      {[](auto& s) { s.trainable = true; }, "kept as q8, which no training can change"}};
  for (const auto& [change, why] : cases) {
    file::ModelRecord record = layout.record;
    change(record.states[0]);
    expect_error([&] { load_bytes(file_of(record, data)); }, {why});
  }
}

TEST(QuantizedFiles, NothingWritesSuchAState) {
  const auto model = quantized_model(WeightFormat::kQ8);
  Graph& graph = model->entry("f");
  graph.add_update(0, graph.state(0));
  expect_error([&] { verify(*model); }, {"state 'w' is kept as q8", "before it is quantized"});
}

}  // namespace
}  // namespace genesis
