// Tests UTF-8 by the Unicode standard.
#include "schema/file/format/utf8.h"

#include <gtest/gtest.h>

namespace genesis::utf8 {
namespace {

TEST(Utf8, IsWhatTheStandardSays) {
  EXPECT_TRUE(is_valid(""));
  EXPECT_TRUE(is_valid("\xf4\x8f\xbf\xbf"));   // U+10FFFF
  EXPECT_FALSE(is_valid("\xf4\x90\x80\x80"));  // beyond it
  EXPECT_FALSE(is_valid("\xc0\xaf"));          // '/' written with two bytes
  EXPECT_FALSE(is_valid("\xe0\x80\xaf"));
  EXPECT_FALSE(is_valid("\xed\xa0\x80"));  // half of a surrogate pair
  EXPECT_FALSE(is_valid("\x80"));
  EXPECT_FALSE(is_valid("a\xc3"));  // cut short
  EXPECT_FALSE(is_valid("\xff"));
}

// Replaces "maximal subparts" as in table 3-8 of the standard.
TEST(Utf8, OneReplacementForWhatBelongsTogether) {
  EXPECT_EQ(repaired("a\xf1\x80\x80\xe1\x80\xc2"
                     "b\x80"
                     "c\x80\xbf"
                     "d"),
            "a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd");
  EXPECT_EQ(repaired("\xc0\xaf\xed\xa0\x80"), "\ufffd\ufffd\ufffd\ufffd\ufffd");
}

TEST(Utf8, WholeCharactersEndBeforeOneThatIsCut) {
  EXPECT_EQ(whole_characters(""), 0u);
  EXPECT_EQ(whole_characters("a\xe4\xbd"), 1u);
  EXPECT_EQ(whole_characters("a\xf0\x9f\x98"), 1u);
  EXPECT_EQ(whole_characters("a\xe4\xbd\xa0"), 4u);
  EXPECT_EQ(whole_characters("a\xff"), 2u);     // never becomes a character
  EXPECT_EQ(whole_characters("\xed\xa0"), 2u);  // neither does this
}

}  // namespace
}  // namespace genesis::utf8
