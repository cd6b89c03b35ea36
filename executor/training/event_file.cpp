#include "executor/training/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "schema/core/error.h"
#include "schema/core/host_name.h"
#include "schema/file/io/atomic_write.h"

namespace genesis {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}

// Masks a checksum, so that a checksum over data that contains checksums is not degenerate; the constant is TFRecord's.
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

template <class T>
std::string little_endian(T number) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &number, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) bytes.assign(bytes.rbegin(), bytes.rend());
  return bytes;
}

// The wire types of protocol buffer fields. A field is a key (number and wire type) and a value.
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLengthPrefixed = 2, kFixed32 = 5 };

std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}
std::string key(uint64_t field, WireType type) { return varint(field << 3 | type); }
std::string number_field(uint64_t field, double x) { return key(field, kFixed64) + little_endian(x); }
std::string number_field(uint64_t field, float x) { return key(field, kFixed32) + little_endian(x); }
std::string number_field(uint64_t field, int64_t x) {
  return key(field, kVarint) + varint(static_cast<uint64_t>(x));
}
std::string bytes_field(uint64_t field, std::string_view bytes) {
  return key(field, kLengthPrefixed) + varint(bytes.size()) + std::string(bytes);
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char c : data) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("cannot make the folder {} for TensorBoard: {}", folder.string(), error.message());
  path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<int64_t>(wall_time()),
                               host_name(), ::getpid());
  check_leads_somewhere(path_);
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_) fail("cannot write {}: {}", path_.string(), std::strerror(errno));
  write_record(number_field(1, wall_time()) + bytes_field(3, "brain.Event:2"));
}

// Field numbers of Event: wall_time = 1, step = 2, file_version = 3, summary = 5; of Summary: value = 1; of Value: tag = 1,
// simple_value = 2.
void EventFile::write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars)
    if (!std::isnan(number))
      summary += bytes_field(1, bytes_field(1, tag) + number_field(2, static_cast<float>(number)));
  write_record(number_field(1, wall_time()) + number_field(2, step) + bytes_field(5, summary));
}

void EventFile::write_record(const std::string& event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  file_ << length << little_endian(masked(crc32c(length))) << event << little_endian(masked(crc32c(event)))
        << std::flush;
  if (!file_) fail("writing {} stopped: {}", path_.string(), std::strerror(errno));
}

}  // namespace genesis
