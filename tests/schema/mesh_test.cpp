#include "schema/ranks/mesh.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace genesis {
namespace {

TEST(Mesh, NumbersRanksWithTheLastAxisFastest) {
  const Mesh mesh = Mesh::parse("data=2,tensor=3");
  EXPECT_EQ(mesh.ranks(), 6);
  EXPECT_EQ(mesh.size("tensor"), 3);
  EXPECT_EQ(mesh.size("pipeline"), 1);
  EXPECT_EQ(mesh.place(4, "data"), 1);
  EXPECT_EQ(mesh.place(4, "tensor"), 1);
  EXPECT_EQ(mesh.place(4, "pipeline"), 0);
  EXPECT_EQ(mesh.group(4, "data"), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(mesh.group(4, "tensor"), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(mesh.group(4, "pipeline"), std::vector<int64_t>{4});
  EXPECT_EQ(mesh.to_string(), "data=2,tensor=3");
  EXPECT_EQ(Mesh().ranks(), 1);
}

TEST(Mesh, SaysWhatIsOff) {
  for (const char* text :
       {"", "data", "data=", "data=0", "data=-1", "data=2x", "=2", "data=2,", "data=2,,tensor=2", "da ta=2",
        "data=99999999999999999999", "data=2,data=2", "a=1048576,b=2"})
    EXPECT_NE(testing::error_of([&] { Mesh::parse(text); }).find("mesh '" + std::string(text) + "'"),
              std::string::npos)
        << text;
}

}  // namespace
}  // namespace genesis
