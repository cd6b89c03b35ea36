// Tests how values become the parts of a format in a device's memory, and values again.
#include "executor/states/encoded_transfers.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "schema/encoding/quantized_formats.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

// Memory of a device for the parts of `count` values, filled with ones.
class Parts {
 public:
  Parts(Device& device, const StateFormat& format, int64_t count) {
    for (size_t i = 0; i < format.parts.size(); ++i) {
      const auto bytes = static_cast<size_t>(format.part_bytes(i, count));
      const std::vector<std::byte> ones(bytes, std::byte{1});
      memory_.push_back(device.allocate(static_cast<int64_t>(bytes)));
      device.upload(memory_.back().get(), ones.data(), static_cast<int64_t>(bytes));
      at[i] = memory_.back().get();
    }
  }
  StateFormat::Parts at{};

 private:
  std::vector<DeviceMemory> memory_;
};

std::vector<float> counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), -3.5F);
  return values;
}

const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

TEST(EncodedTransfers, GoThroughEveryFormatAndBack) {
  const auto device = open_cpu_device(2);
  const std::vector<float> values = counted(64);
  std::vector<const StateFormat*> formats = {&bf16_halves_format(), plain_format(DType::f32)};
  for (const StateFormat* format : quantized_formats())
    if (format->meant == DType::f32) formats.push_back(format);
  ASSERT_GE(formats.size(), 4u);
  for (const StateFormat* format : formats) {
    const Parts parts(*device, *format, 64);
    upload_values(*device, *format, parts.at, bytes_of(values), 64);
    const Tensor read = read_values(*device, *format, {DType::f32, {2, 32}}, parts.at);
    const bool is_exact = format->name == "plain" || format->name == "bf16_halves";
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(read.as<float>()[i], values[i], is_exact ? 0 : 6) << format->name << " " << i;
  }
}

TEST(EncodedTransfers, WithoutValuesWriteZeros) {
  const auto device = open_cpu_device(1);
  const Parts parts(*device, bf16_halves_format(), 5);
  upload_values(*device, bf16_halves_format(), parts.at, nullptr, 5);
  EXPECT_EQ(read_values(*device, bf16_halves_format(), {DType::f32, {5}}, parts.at).to_doubles(),
            std::vector<double>(5, 0.0));
}

TEST(EncodedTransfers, LeaveAMissingPartOut) {
  const auto device = open_cpu_device(1);
  const Parts parts(*device, bf16_halves_format(), 4);
  StateFormat::Parts lower_only = parts.at;
  lower_only[0] = nullptr;
  upload_values(*device, bf16_halves_format(), lower_only, bytes_of(counted(4)), 4);
  EXPECT_EQ(parts.at[0][0], std::byte{1}) << "the upper halves are as they were";
}

TEST(EncodedTransfers, NameAValueThatTheFormatCannotHold) {
  const auto device = open_cpu_device(2);
  const StateFormat& q8 = quantized_format(WeightFormat::kQ8, DType::f32);
  const Parts parts(*device, q8, 128);
  std::vector<float> values = counted(128);
  values[77] = std::numeric_limits<float>::infinity();
  testing::expect_error([&] { upload_values(*device, q8, parts.at, bytes_of(values), 128); },
                        {"element 77", "q8 cannot hold it"});
}

}  // namespace
}  // namespace genesis
