// Writes GGUF files for tests, field by field, including invalid ones.
#pragma once

#include <cstring>
#include <string>
#include <vector>

namespace genesis::testing {

class GgufBytes {
 public:
  template <class T>
  GgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  GgufBytes& text(const std::string& text) {
    number<uint64_t>(text.size());
    bytes_ += text;
    return *this;
  }
  GgufBytes& start(uint64_t tensors, uint64_t facts, uint32_t version = 3, const char* magic = "GGUF") {
    bytes_ += magic;
    return number(version).number(tensors).number(facts);
  }
  template <class T>
  GgufBytes& fact(const std::string& name, uint32_t kind, T value) {
    return text(name).number(kind).number(value);
  }
  GgufBytes& fact(const std::string& name, const std::string& value) {
    text(name).number<uint32_t>(8);
    return text(value);
  }
  // `sizes` as in the file: the fastest-varying dimension first.
  GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& sizes, uint32_t type,
                    uint64_t offset) {
    text(name).number(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t size : sizes) number(size);
    return number(type).number(offset);
  }
  // Returns the header, zeros up to the alignment, and `data`.
  std::string with_data(const std::string& data, size_t alignment = 32) const {
    const size_t start = (bytes_.size() + alignment - 1) / alignment * alignment;
    return bytes_ + std::string(start - bytes_.size(), '\0') + data;
  }

 private:
  std::string bytes_;
};

// Returns a file with every kind of value, a plain and a quantized tensor.
inline std::string gguf_seed() {
  GgufBytes g;
  g.start(3, 9).fact("general.architecture", "llama").fact<uint32_t>("general.alignment", 4, 32);
  g.fact<uint64_t>("a.u64", 10, 7)
      .fact<int8_t>("a.i8", 1, -3)
      .fact<double>("a.f64", 12, 0.5)
      .fact<uint8_t>("a.bool", 7, 1);
  g.text("a.texts").number<uint32_t>(9).number<uint32_t>(8).number<uint64_t>(2).text("one").text("two");
  g.text("a.numbers")
      .number<uint32_t>(9)
      .number<uint32_t>(5)
      .number<uint64_t>(2)
      .number<int32_t>(1)
      .number<int32_t>(-1);
  g.text("a.reals").number<uint32_t>(9).number<uint32_t>(6).number<uint64_t>(1).number<float>(2);
  g.tensor("plain", {3, 2}, 0, 0).tensor("blocks", {32, 2}, 8, 32).tensor("unread", {32}, 9, 128);
  return g.with_data(std::string(128 + 40, '\1'));
}

}  // namespace genesis::testing
