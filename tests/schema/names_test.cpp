// Tests the names that a file may contain.
#include "schema/file/format/names.h"

#include <gtest/gtest.h>

#include <string>

#include "schema/core/error.h"

namespace genesis::file {
namespace {

std::string refusal(std::string_view name) {
  try {
    check_name("a state", name);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(Names, AreTextOfAnyScript) {
  for (const char* name : {"layers.0.self_attn.q_proj.weight", "a b", "gewicht_ß", "权重", "\U0001F600", "é"})
    EXPECT_EQ(refusal(name), "") << name;
  EXPECT_EQ(refusal(std::string(kMaxName, 'x')), "");
}

TEST(Names, AreShortAndPrintable) {
  EXPECT_EQ(refusal(""), "the name of a state is empty");
  EXPECT_EQ(refusal(std::string(kMaxName + 1, 'x')), "the name of a state has 4097 bytes, the limit is 4096");
  for (const std::string name : {"a\n", "\x1b[2J", "\x7f", "\xc2\x80", "\xc2\x9f"})
    EXPECT_EQ(refusal(name), "the name of a state holds control characters") << name;
  EXPECT_EQ(refusal(std::string_view("a\0b", 3)), "the name of a state holds control characters");
}

}  // namespace
}  // namespace genesis::file
