// The wire format of protobuf, as far as reading needs it: fields by number, each an integer, a float or a piece of the
// message. What is read is not trusted: a length beyond its message, an integer of more than ten bytes and kinds that
// nobody writes any more are Errors that name the place in the file.
// https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace genesis::viz {

// A message within a file.
struct ProtoMessage {
  std::span<const std::byte> bytes;
  size_t offset = 0;  // in the file
};

struct ProtoField {
  uint32_t number = 0;
  enum class Kind : uint8_t { kInteger, kFixed64, kPiece, kFixed32 } kind = Kind::kInteger;
  uint64_t integer = 0;  // also the bits of fixed ones
  ProtoMessage piece;    // kPiece

  int64_t as_signed() const { return static_cast<int64_t>(integer); }
  float as_float() const;
  std::string text() const;  // of a piece; throws Error when it is none
  const ProtoMessage& message() const;
};

class ProtoReader {
 public:
  explicit ProtoReader(const ProtoMessage& message) : message_(message) {}

  // The next field; false at the end of the message.
  bool next(ProtoField& field);

 private:
  uint64_t varint();
  uint64_t fixed(size_t bytes);
  ProtoMessage piece();

  ProtoMessage message_;
  size_t at_ = 0;
};

// Integers of a repeated field, which are written one by one or packed into one piece.
void append_integers(const ProtoField& field, std::vector<int64_t>& numbers);
void append_floats(const ProtoField& field, std::vector<double>& numbers);

}  // namespace genesis::viz
