// Tests .npy files: reads what NumPy writes, writes what NumPy reads, and refuses anything else with a reason.
#include "schema/file/other_formats/npy.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

std::string npy(int version, const std::string& header, const std::string& data) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

Tensor read(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return read_npy_from(owner, std::as_bytes(std::span(*owner)));
}

std::string refusal_of(const std::string& bytes) {
  return testing::error_of([&] { read(bytes); });
}

const std::string kTwoInts("\1\0\0\0\2\0\0\0", 8);

TEST(Npy, ReadsEveryVersionAndSpelling) {
  for (const char* header : {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }          \n",
                             "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<i4\"}",
                             "{'fortran_order': True, 'shape': (2,), 'descr': '<i4'}\n"}) {
    for (int version : {1, 2, 3}) {
      const Tensor tensor = read(npy(version, header, kTwoInts));
      EXPECT_EQ(tensor.type().to_string(), "i32[2]");
      EXPECT_EQ(tensor.as<int32_t>()[1], 2);
    }
  }
}

TEST(Npy, RoundTripsEveryDtypeAndRank) {
  const TemporaryFolder folder;
  const auto check = [&](const Tensor& tensor) {
    write_npy(folder / "a.npy", tensor);
    const Tensor back = read_npy(folder / "a.npy");
    EXPECT_EQ(back.type(), tensor.type());
    EXPECT_EQ(back.to_doubles(), tensor.to_doubles());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(back.data()) % 64, 0U);
  };
  check(Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  check(Tensor::of<double>({1, 1, 2}, {-1e300, 0.1}));
  check(Tensor::of<f16>({2}, {f16(1.5F), f16(-2.0F)}));
  check(Tensor::of<int8_t>({1}, {-128}));
  check(Tensor::of<uint8_t>({1}, {255}));
  check(Tensor::of<int16_t>({1}, {-300}));
  check(Tensor::of<int32_t>({2}, {1, -70000}));
  check(Tensor::scalar<int64_t>(int64_t{1} << 40));
  check(Tensor::of<bool>({3}, {true, false, true}));
  check(Tensor::zeros({DType::f32, {0, 4}}));
}

TEST(Npy, RefusesInWords) {
  const auto with = [](const std::string& header) { return npy(1, header, kTwoInts); };
  const std::pair<std::string, const char*> cases[] = {
      {"", "not an .npy file"},
      {"\x93NUMPY\x04", "not an .npy file"},
      {npy(4, "{}", ""), "version 4 is unknown"},
      {with("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }"), "big-endian"},
      {with("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"), "Python objects"},
      {with("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }"), "'<c8' is not one of"},
      {with("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,), }"), "structured array"},
      {with("{'descr': '<i4', 'fortran_order': True, 'shape': (2,1), }"), "Fortran order"},
      {with("{'descr': '<i4', 'fortran_order': False, 'shape': (-2,), }"), "malformed"},
      {with("{'descr': '<i4', 'fortran_order': False, 'shape': (2), "), "malformed"},
      {with("{'descr': '<i4', 'fortran_order': False}"), "malformed"},
      {with("{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (2,)}"), "unexpected key"},
      {with("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)} x"), "malformed"},
      {with("{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}"),
       "8 bytes of data found, i32[3] takes 12"},
      {with("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}"),
       "8 bytes of data found, i32[1] takes 4"},
      {with("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"), "overflows"},
      {with("{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}"),
       "more than 8 dimensions"},
      {with("{'descr': '|b1', 'fortran_order': False, 'shape': (8,)}"), "other than 0 and 1"},
  };
  for (const auto& [bytes, expected] : cases)
    EXPECT_NE(refusal_of(bytes).find(expected), std::string::npos) << expected << " / " << refusal_of(bytes);
  EXPECT_THROW(write_npy("/tmp/never.npy", Tensor::zeros({DType::bf16, {2}})), Error);
}

TEST(Npy, NamesThePath) {
  try {
    read_npy("/nowhere/x.npy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot open '/nowhere/x.npy': No such file or directory");
  }
}

}  // namespace
}  // namespace genesis
