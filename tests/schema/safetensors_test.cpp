// Tests .safetensors files: round trips, views without a copy, and refusals with a reason.
#include "schema/file/other_formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "tests/error_of.h"
#include "tests/sanitized.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

std::string safetensors(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

SafeTensors read(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return read_safetensors_from(owner, std::as_bytes(std::span(*owner)));
}

std::string refusal_of(const std::string& bytes) {
  return testing::error_of([&] { read(bytes); });
}

TEST(Safetensors, RoundTripsEveryDtype) {
  const TemporaryFolder folder;
  SafeTensors contents;
  contents.metadata = {{"format", "pt"}};
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::vector<std::byte> bytes(6 * size_of(dtype), std::byte{1});
    contents.tensors[std::string("t.") + std::string(name_of(dtype))] =
        Tensor::copy_of({dtype, {2, 3}}, bytes.data());
  }
  contents.tensors["none"] = Tensor::zeros({DType::f32, {0, 3}});
  contents.tensors["scalar"] = Tensor::scalar(2.5F);
  write_safetensors(folder / "a.safetensors", contents);
  const SafeTensors back = read_safetensors(folder / "a.safetensors");
  EXPECT_EQ(back.metadata, contents.metadata);
  ASSERT_EQ(back.tensors.size(), contents.tensors.size());
  for (const auto& [name, tensor] : contents.tensors) {
    const Tensor& other = back.tensors.at(name);
    EXPECT_EQ(other.type(), tensor.type()) << name;
    EXPECT_EQ(std::memcmp(other.data(), tensor.data(), static_cast<size_t>(tensor.bytes())), 0) << name;
  }
  write_safetensors(folder / "b.safetensors", back);
  EXPECT_EQ(read_bytes(folder / "a.safetensors"), read_bytes(folder / "b.safetensors"));
}

TEST(Safetensors, ViewsAlignedDataAndCopiesTheRest) {
  const std::string data(8, '\1');
  for (const bool aligned : {true, false}) {
    std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    while ((header.size() % 4 == 0) != aligned) header += ' ';
    const auto owner = std::make_shared<const std::string>(safetensors(header, data));
    const Tensor tensor = read_safetensors_from(owner, std::as_bytes(std::span(*owner))).tensors.at("a");
    const auto* end = reinterpret_cast<const std::byte*>(owner->data() + owner->size());
    EXPECT_EQ(tensor.data() == end - 8, aligned);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 4, 0U);
  }
}

TEST(Safetensors, RefusesInWords) {
  const std::string eight(8, '\1');
  const auto one = [&](const std::string& row) { return safetensors("{\"a\":{" + row + "}}", eight); };
  const std::pair<std::string, const char*> cases[] = {
      {"", "not a .safetensors file"},
      {safetensors("", ""), "not valid JSON"},
      {safetensors("[]", ""), "not a JSON object"},
      {safetensors("{\"a\":1}", ""), "'dtype' is missing"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "over the limit"},
      {std::string("\x10\0\0\0\0\0\0\0{}", 10), "cut short"},
      {one(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])"), "'F8_E4M3' is not supported"},
      {one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "something else than sizes"},
      {one(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"), "something else than sizes"},
      {one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,8])"), "list of at most 8"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "not a begin and an end"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "take 4 bytes, it holds 8"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[4,8])"), "begins at 4"},
      {one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "takes 12"},
      {one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"), "overflows"},
      {one(R"("dtype":"F32","shape":[[[[2]]]],"data_offsets":[0,8])"), "nests deeper"},
      {safetensors(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\2"), "other than 0 and 1"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                   "123456"),
       "tensor 'b' begins at 2"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                   R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                   ""),
       "names 'a' twice"},
      {safetensors(R"({"__metadata__":{"k":3}})", ""), "not an object of texts"},
      {safetensors(R"({"__metadata__":{"k":null}})", ""), "not an object of texts"},
      {safetensors("\xEF\xBB\xBF{}", ""), "byte order mark"},
  };
  for (const auto& [bytes, expected] : cases)
    EXPECT_NE(refusal_of(bytes).find(expected), std::string::npos) << expected << " / " << refusal_of(bytes);
}

// Follows the rules of the safetensors library 0.8.
TEST(Safetensors, MetadataMayBeNull) {
  EXPECT_TRUE(read(safetensors(R"({"__metadata__":null})", "")).metadata.empty());
}

// A file may contain tensors that its reader does not need.
TEST(Safetensors, TensorsOfOtherDtypesAreListedWhereThatIsAskedFor) {
  const auto read_all = [](const std::string& rows, OtherTensors& others) {
    const auto owner = std::make_shared<const std::string>(
        safetensors("{" + rows + R"("b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})", "12345678"));
    return read_safetensors_from(owner, std::as_bytes(std::span(*owner)), &others);
  };
  OtherTensors others;
  const SafeTensors contents = read_all(R"("a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                                        R"("c":{"dtype":"U32","shape":[],"data_offsets":[2,6]},)",
                                        others);
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(others.at("a").dtype, "F8_E4M3");
  EXPECT_EQ(others.at("a").shape.to_string(), "[2]");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(others.at("a").bytes.data()), 2), "12");
  EXPECT_EQ(others.at("c").dtype, "U32");
  EXPECT_EQ(others.at("c").bytes.type(), (TensorType{DType::u8, {4}}));
  EXPECT_EQ(contents.tensors.size(), 1u);
  EXPECT_TRUE(contents.tensors.contains("b"));
  const std::string lies = testing::error_of(
      [&] { read_all(R"("a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,6]},)", others); });
  EXPECT_NE(lies.find("3 elements of F8_E4M3 do not take 6 bytes"), std::string::npos) << lies;
  const std::string unknown =
      testing::error_of([&] { read_all(R"("a":{"dtype":"F9","shape":[6],"data_offsets":[0,6]},)", others); });
  EXPECT_NE(unknown.find("'F9' is not supported"), std::string::npos) << unknown;
}

// Reading takes linear time in the number of tensors.
TEST(Safetensors, ManyTensorsReadAtOnce) {
  constexpr int kTensors = 100'000;
  std::string header = "{", data;
  for (int i = 0; i < kTensors; ++i) {
    header += fmt::format(R"({}"layers.{}.weight":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})",
                          i == 0 ? "" : ",", i, i, i + 1);
    data += static_cast<char>(i);
  }
  const std::string bytes = safetensors(header + "}", data);
  const double start = testing::processor_seconds();  // CPU time, which a busy machine does not change
  EXPECT_EQ(read(bytes).tensors.size(), size_t{kTensors});
  const double seconds = testing::processor_seconds() - start;
  std::printf("%d tensors read in %.2f s\n", kTensors, seconds);
  EXPECT_LT(seconds, 5);
}

}  // namespace
}  // namespace genesis
