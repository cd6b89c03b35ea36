#include "models/tokenizer/unicode/byte_alphabet.h"

#include <array>

#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

constexpr uint32_t kCodes = 324;  // 256 + the 68 bytes that are not printable

constexpr bool is_printable(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

constexpr auto kCodeOfByte = [] {
  std::array<uint32_t, 256> codes{};
  for (uint32_t byte = 0, next = 256; byte < 256; ++byte) codes[byte] = is_printable(byte) ? byte : next++;
  return codes;
}();

constexpr auto kByteOfCode = [] {
  std::array<int, kCodes> bytes{};
  for (int& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCodeOfByte[byte]] = byte;
  return bytes;
}();

}  // namespace

std::string alphabet_text(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) utf8::append(text, kCodeOfByte[byte]);
  return text;
}

std::optional<std::string> alphabet_bytes(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const utf8::Character next = utf8::first_character(text);
    if (!next.valid || next.code >= kCodes || kByteOfCode[next.code] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOfCode[next.code]);
    text.remove_prefix(next.bytes);
  }
  return bytes;
}

}  // namespace genesis::text
