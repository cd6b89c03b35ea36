// FIPS 180-4 defines both functions.
#include "models/hub/digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <vector>

#include "schema/core/error.h"

namespace genesis::hub {
namespace {

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using Block = std::array<uint32_t, 16>;

struct Sha256 {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  void add(const Block& block) {
    uint32_t w[64];
    std::copy(block.begin(), block.end(), w);
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
      const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                          kRounds[i] + w[i];
      const uint32_t t2 =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t sums[] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += sums[i];
  }
};

struct Sha1 {
  std::array<uint32_t, 5> state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

  void add(const Block& block) {
    uint32_t w[80];
    std::copy(block.begin(), block.end(), w);
    for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = state;
    for (int i = 0; i < 80; ++i) {
      const uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                             : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                             : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                      : (b ^ c ^ d) + 0xca62c1d6;
      const uint32_t t = std::rotl(a, 5) + mixed + e + w[i];
      e = d, d = c, c = std::rotl(b, 30), b = a, a = t;
    }
    const uint32_t sums[] = {a, b, c, d, e};
    for (size_t i = 0; i < 5; ++i) state[i] += sums[i];
  }
};

// Splits bytes into blocks of 64, with the padding at the end that both functions have.
template <class Hash>
class Hasher {
 public:
  void add(const char* data, size_t size) {
    total_ += size;
    while (size > 0) {
      const size_t part = std::min(size, sizeof bytes_ - filled_);
      std::memcpy(bytes_ + filled_, data, part);
      filled_ += part, data += part, size -= part;
      if (filled_ == sizeof bytes_) flush();
    }
  }
  std::string finish() {
    const uint64_t bits = total_ * 8;
    add("\x80", 1);
    while (filled_ != 56) add("", 1);
    char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (56 - 8 * i));
    add(length, 8);
    std::string text;
    for (const uint32_t word : hash_.state) text += fmt::format("{:08x}", word);
    return text;
  }

 private:
  void flush() {
    Block block;
    for (size_t i = 0; i < 16; ++i) {
      const auto byte = [&](size_t k) {
        return static_cast<uint32_t>(static_cast<unsigned char>(bytes_[4 * i + k]));
      };
      block[i] = byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
    }
    hash_.add(block);
    filled_ = 0;
  }

  Hash hash_;
  char bytes_[64];
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

template <class Hash>
std::string digest_of(const std::filesystem::path& path, const std::string& before) {
  std::ifstream in(path, std::ios::binary);
  Hasher<Hash> hasher;
  hasher.add(before.data(), before.size());
  std::vector<char> buffer(1 << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    hasher.add(buffer.data(), static_cast<size_t>(in.gcount()));
  if (in.bad() || !in.eof()) fail("'{}' cannot be read", path.string());
  return hasher.finish();
}

}  // namespace

std::string sha256_of(const std::filesystem::path& path) { return digest_of<Sha256>(path, ""); }

std::string git_digest_of(const std::filesystem::path& path) {
  std::string before = fmt::format("blob {}", std::filesystem::file_size(path));
  before.push_back('\0');
  return digest_of<Sha1>(path, before);
}

}  // namespace genesis::hub
