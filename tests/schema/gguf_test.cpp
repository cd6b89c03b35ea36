// Tests GGUF files: reads what the package gguf wrote and reads (tests/models/gguf/make_blocks.py), and refuses
// invalid files with a reason.
#include "schema/file/other_formats/gguf.h"

#include <gtest/gtest.h>

#include "schema/file/other_formats/safetensors.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"
#include "tests/schema/gguf_bytes.h"

namespace genesis {
namespace {

using namespace testing;

Gguf read(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return read_gguf_from(owner, std::as_bytes(std::span(*owner)));
}

std::string refusal_of(const std::string& bytes) {
  return testing::error_of([&] { read(bytes); });
}

TEST(Gguf, ReadsTheNumbersThatItsOwnPackageReads) {
  const std::string folder = std::string(GENESIS_SOURCE_ROOT) + "/tests/models/gguf/";
  const Gguf file = read_gguf(folder + "blocks.gguf");
  const auto expected = read_safetensors(folder + "blocks.safetensors").tensors;
  ASSERT_EQ(file.tensors.size(), readable_gguf_types().size() - 1);  // all but F64, which models do not have
  for (const auto& [name, tensor] : file.tensors) {
    ASSERT_EQ(name, tensor.type->name);
    EXPECT_EQ(tensor.shape, expected.at(name).type().shape);
    const Tensor ours = gguf_tensor(*tensor.type, tensor.shape, file.owner, tensor.bytes, DType::f32);
    EXPECT_EQ(ours.to_doubles(), expected.at(name).to_doubles()) << name;
    const Tensor rounded = gguf_tensor(*tensor.type, tensor.shape, file.owner, tensor.bytes, DType::bf16);
    EXPECT_EQ(rounded.to_doubles(), expected.at(name).to(DType::bf16).to_doubles()) << name;
  }
}

TEST(Gguf, ReadsEveryKindOfValue) {
  const Gguf file = read(gguf_seed());
  const auto& m = file.metadata;
  EXPECT_EQ(std::get<std::string>(m.at("general.architecture")), "llama");
  EXPECT_EQ(std::get<int64_t>(m.at("a.u64")), 7);
  EXPECT_EQ(std::get<int64_t>(m.at("a.i8")), -3);
  EXPECT_EQ(std::get<double>(m.at("a.f64")), 0.5);
  EXPECT_TRUE(std::get<bool>(m.at("a.bool")));
  EXPECT_EQ(std::get<std::vector<std::string>>(m.at("a.texts")), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(m.at("a.numbers")), (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(std::get<std::vector<double>>(m.at("a.reals")), std::vector<double>{2});
  EXPECT_EQ(file.tensors.at("plain").shape, (Shape{2, 3}));
  EXPECT_FALSE(file.tensors.at("unread").type->is_readable());
}

TEST(Gguf, RefusesInWords) {
  const auto facts = [](uint64_t count) { return GgufBytes().start(0, count); };
  const auto tensors = [](uint64_t count) { return GgufBytes().start(count, 0); };
  const std::string data(64, '\1');
  const uint64_t huge = uint64_t{1} << 62;
  const std::pair<std::string, const char*> cases[] = {
      {"", "cut short"},
      {GgufBytes().start(0, 0, 3, "GGML").with_data(""), "not a GGUF file"},
      {GgufBytes().start(0, 0, 1).with_data(""), "version 1"},
      {GgufBytes().start(0, 0, 0x03000000).with_data(""), "big-endian"},
      {GgufBytes().start(huge, 0).with_data(""), "items follow"},
      {GgufBytes().start(0, huge).with_data(""), "items follow"},
      {facts(1).text(std::string(5000, 'n')).with_data(""), "limit is 4096"},
      {facts(1).text("").with_data(data), "empty or not valid"},
      {facts(1).text("\xff").with_data(data), "empty or not valid"},
      {facts(1).text("a").number<uint32_t>(99).with_data(data), "kind 99"},
      {facts(1).text("a").number<uint32_t>(9).number<uint32_t>(9).number<uint64_t>(1).with_data(data),
       "list of lists"},
      {facts(1).text("a").number<uint32_t>(9).number<uint32_t>(4).number(huge).with_data(data),
       "items follow"},
      {facts(1).text("a").number<uint32_t>(8).number(huge).with_data(data), "limit is"},
      {facts(1).text("a").number<uint32_t>(10).number<uint64_t>(~uint64_t{0}).with_data(data), "too large"},
      {facts(2).fact<uint8_t>("a", 0, 1).fact<uint8_t>("a", 0, 1).with_data(data), "stand twice"},
      {facts(1).fact<uint32_t>("general.alignment", 4, 0).with_data(data), "general.alignment"},
      {facts(1).fact<uint32_t>("general.alignment", 4, 12).with_data(data), "general.alignment"},
      {facts(1).fact<uint32_t>("general.alignment", 4, 24).with_data(data), "general.alignment"},
      {tensors(1).tensor("t", {4}, 99, 0).with_data(data), "type 99"},
      {tensors(1).tensor("t", {1, 1, 1, 1, 1}, 0, 0).with_data(data), "5 sizes"},
      {tensors(1).tensor("t", {~uint64_t{0}}, 0, 0).with_data(data), "a size of -1"},
      {tensors(1).tensor("t", {huge, huge}, 0, 0).with_data(data), "t"},
      {tensors(1).tensor("t", {31}, 8, 0).with_data(data), "no whole blocks"},
      {tensors(1).tensor("t", {17}, 0, 0).with_data(data), "behind the end"},
      {tensors(2).tensor("t", {8}, 0, 0).tensor("u", {4}, 0, 32).with_data(std::string(32, '\1')),
       "behind the end"},
      {tensors(1).tensor("t", {4}, 0, 96).with_data(data), "begins at 96 of the data, expected 0"},
      {tensors(1).tensor("t", {4}, 0, uint64_t{0} - 32).with_data(data), "begins at 1844"},
      {tensors(1).tensor("t", {4}, 0, 8).with_data(data), "begins at 8"},
      {tensors(2).tensor("t", {4}, 0, 0).tensor("t", {4}, 0, 32).with_data(data), "two of its tensors"},
  };
  for (const auto& [bytes, part] : cases)
    EXPECT_NE(refusal_of(bytes).find(part), std::string::npos) << part << " / " << refusal_of(bytes);
}

// llama.cpp requires it too: a damaged type or size changes where the next tensor would have to begin.
TEST(Gguf, TensorsLieOneBehindTheOther) {
  const auto two = [](uint64_t first_size, uint32_t first_type, uint64_t second_size, uint32_t second_type,
                      uint64_t second_offset) {
    return GgufBytes()
        .start(2, 0)
        .tensor("t", {first_size}, first_type, 0)
        .tensor("u", {second_size}, second_type, second_offset)
        .with_data(std::string(128, '\1'));
  };
  EXPECT_EQ(refusal_of(two(16, 0, 16, 0, 64)), "");
  EXPECT_EQ(refusal_of(two(9, 0, 16, 0, 64)), "");  // only padding is between them
  const std::pair<std::string, const char*> cases[] = {
      {two(16, 1, 16, 0, 64), "'u' begins at 64 of the data, expected 32"},    // F32 became F16
      {two(16, 28, 16, 0, 64), "'u' begins at 64 of the data, expected 128"},  // F64: they overlap
      {two(16, 0, 16, 1, 64), "32 bytes behind its last tensor"},
      {two(16, 0, 8, 0, 64), "32 bytes behind its last tensor"},
      {two(16, 0, 16, 0, 0), "'u' begins at 0 of the data, expected 64"},
  };
  for (const auto& [bytes, part] : cases)
    EXPECT_NE(refusal_of(bytes).find(part), std::string::npos) << part << " / " << refusal_of(bytes);
}

TEST(Gguf, CutShortAnywhereIsRefused) {
  const std::string whole = gguf_seed();
  EXPECT_EQ(refusal_of(whole), "");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal_of(whole.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace genesis
