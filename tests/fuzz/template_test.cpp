// Renders thousands of damaged chat templates: each renders or is refused, none crashes or takes unlimited memory or
// time. The seeds are fixed, so failures can be reproduced; a failure names the seed.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/try_render.h"

namespace genesis {
namespace {

using namespace testing;

std::vector<std::string> templates() {
  std::ifstream file(GENESIS_SOURCE_ROOT "/tests/models/chat/templates.json");
  const auto stored = nlohmann::json::parse(file);
  std::vector<std::string> sources;
  for (const auto& source : stored["templates"]) sources.push_back(source);
  for (const auto& one : stored["cases"])
    if (one["template"].get<std::string>().find('{') != std::string::npos) sources.push_back(one["template"]);
  return sources;
}

// Inserts a part of one template into another, so that the damage consists of meaningful words.
std::string spliced(const std::string& a, const std::string& b, Mutator& mutator) {
  const size_t from = mutator.below(b.size() + 1), size = mutator.below(40), at = mutator.below(a.size() + 1);
  return a.substr(0, at) + b.substr(from, size) + a.substr(at);
}

TEST(TemplateMutation, DamagedTemplates) {
  const std::vector<std::string> sources = templates();
  int rendered = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Mutator mutator(seed);
    std::string source = sources[mutator.below(sources.size())];
    for (uint64_t times = mutator.below(3); times > 0; --times)
      source = spliced(source, sources[mutator.below(sources.size())], mutator);
    if (mutator.chance(3)) mutator.damage(source);
    const AllocationLimit limit(size_t{32} << 20);
    try {
      rendered += try_render(source);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
  EXPECT_GT(rendered, 500);
  EXPECT_LT(rendered, 5500);
}

}  // namespace
}  // namespace genesis
