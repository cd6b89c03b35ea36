#include "schema/file/other_formats/proto_reader.h"

#include <bit>

#include "schema/core/error.h"

namespace genesis {
namespace {

using Kind = ProtoField::Kind;

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint64_t>(bytes[i]);
  return number;
}

}  // namespace

float ProtoField::as_float() const { return std::bit_cast<float>(static_cast<uint32_t>(integer)); }

const ProtoMessage& ProtoField::message() const {
  if (kind != Kind::kPiece) fail("field {} is a number, expected text or a message", number);
  return piece;
}

std::string ProtoField::text() const {
  const auto& bytes = message().bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool ProtoReader::next(ProtoField& field) {
  if (at_ == message_.bytes.size()) return false;
  const size_t start = message_.offset + at_;
  const uint64_t key = varint();
  field = {.number = static_cast<uint32_t>(key >> 3)};
  if (field.number == 0 || key >> 3 > (1U << 29) - 1) fail("at byte {}: {} is no field", start, key >> 3);
  switch (key & 7) {
    case 0:
      field.kind = Kind::kInteger;
      field.integer = varint();
      return true;
    case 1:
      field.kind = Kind::kFixed64;
      field.integer = fixed(8);
      return true;
    case 2:
      field.kind = Kind::kPiece;
      field.piece = piece();
      return true;
    case 5:
      field.kind = Kind::kFixed32;
      field.integer = fixed(4);
      return true;
    default:
      fail("at byte {}: field {} has wire type {}, expected 0, 1, 2 or 5", start, field.number, key & 7);
  }
}

uint64_t ProtoReader::varint() {
  uint64_t number = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == message_.bytes.size())
      fail("at byte {}: the message ends within a number", message_.offset + at_);
    const auto byte = static_cast<uint64_t>(message_.bytes[at_++]);
    if (shift < 64) number |= (byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
  fail("at byte {}: a number of more than ten bytes", message_.offset + at_);
}

uint64_t ProtoReader::fixed(size_t bytes) {
  if (message_.bytes.size() - at_ < bytes)
    fail("at byte {}: the message ends within a number", message_.offset + at_);
  const uint64_t number = little_endian(message_.bytes.subspan(at_, bytes));
  at_ += bytes;
  return number;
}

ProtoMessage ProtoReader::piece() {
  const uint64_t size = varint();
  if (message_.bytes.size() - at_ < size)
    fail("at byte {}: a piece of {} bytes, but only {} are left", message_.offset + at_, size,
         message_.bytes.size() - at_);
  const ProtoMessage found{message_.bytes.subspan(at_, size), message_.offset + at_};
  at_ += size;
  return found;
}

void append_integers(const ProtoField& field, std::vector<int64_t>& numbers) {
  if (field.kind != Kind::kPiece) return numbers.push_back(field.as_signed());
  // Decodes the packed varints by hand: they have no field numbers, so ProtoReader cannot read them.
  const ProtoMessage& packed = field.message();
  for (size_t at = 0; at < packed.bytes.size();) {
    uint64_t number = 0;
    int shift = 0;
    bool is_last = false;
    for (; !is_last && at < packed.bytes.size() && shift < 70; shift += 7, ++at) {
      const auto byte = static_cast<uint64_t>(packed.bytes[at]);
      if (shift < 64) number |= (byte & 0x7F) << shift;
      is_last = byte < 0x80;
    }
    if (!is_last) fail("at byte {}: a list ends within a number", packed.offset + at);
    numbers.push_back(static_cast<int64_t>(number));
  }
}

void append_floats(const ProtoField& field, std::vector<double>& numbers) {
  if (field.kind != Kind::kPiece) return numbers.push_back(static_cast<double>(field.as_float()));
  const ProtoMessage& packed = field.message();
  if (packed.bytes.size() % 4 != 0)
    fail("at byte {}: a list of floats of {} bytes", packed.offset, packed.bytes.size());
  for (size_t at = 0; at < packed.bytes.size(); at += 4)
    numbers.push_back(static_cast<double>(
        std::bit_cast<float>(static_cast<uint32_t>(little_endian(packed.bytes.subspan(at, 4))))));
}

}  // namespace genesis
