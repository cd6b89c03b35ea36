// Reads the wire format of protobuf: fields by number, each an integer, a float or a byte range of the message. The
// data is not trusted. A length beyond its message, an integer of more than ten bytes and obsolete field kinds are
// Errors that name the place in the file. https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace genesis {

// A message within a file.
struct ProtoMessage {
  std::span<const std::byte> bytes;
  size_t offset = 0;  // position in the file
};

struct ProtoField {
  uint32_t number = 0;
  enum class Kind : uint8_t { kInteger, kFixed64, kPiece, kFixed32 } kind = Kind::kInteger;
  uint64_t integer = 0;  // also holds the bits of fixed-size fields
  ProtoMessage piece;    // kPiece

  int64_t as_signed() const { return static_cast<int64_t>(integer); }
  float as_float() const;
  std::string text() const;  // bytes of kPiece as text; throws Error for other kinds
  const ProtoMessage& message() const;
};

class ProtoReader {
 public:
  explicit ProtoReader(const ProtoMessage& message) : message_(message) {}

  // Reads the next field. Returns false at the end of the message.
  bool next(ProtoField& field);

 private:
  uint64_t varint();
  uint64_t fixed(size_t bytes);
  ProtoMessage piece();

  ProtoMessage message_;
  size_t at_ = 0;
};

// Calls visit(field) for each field of the message.
template <class Visit>
void for_each_field(const ProtoMessage& message, const Visit& visit) {
  ProtoReader reader(message);
  for (ProtoField field; reader.next(field);) visit(field);
}

// Appends the integers of a repeated field, which are written one by one or packed into one byte range.
void append_integers(const ProtoField& field, std::vector<int64_t>& numbers);
void append_floats(const ProtoField& field, std::vector<double>& numbers);

}  // namespace genesis
