// Tests that retired words do not return: docs/glossary.md has the field's words in their place.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/lint/pattern.h"

namespace {

using genesis::testing::Pattern;
namespace fs = std::filesystem;
const fs::path kRoot = GENESIS_SOURCE_ROOT;

struct Retired {
  const char* pattern;
  const char* instead;
};
constexpr Retired kRetired[] = {
    {R"(\bk(Most|Least)([A-Z]\w*)?\b)", "kMax, kMin"},
    {R"(\bfill_ring\b)", "producer"},
    {R"(\b(take|give)_registers\b)", "setmaxnreg"},
    {R"(\blet_successors_start\b|\bearly_start\b)", "pdl"},
    {R"(\bis_settled\b|\bsettled_inputs\b)", "independent"},
    {R"(\bstep_chain\b|\bchain_(product|attention|step)\b)", "megakernel, instruction"},
    {R"(\bgemm_slabs\b)", "gemv"},
    {R"(\blinear.few_rows\b|\bfew_rows\.(h|cu)\b)", "skinny GEMM"},
    {R"(\bturn_angle\b|\bturn_pairs\b)", "rotate"},
    {R"(\bCompileStage\b|\bStageObserver\b)", "GraphSnapshot"},
    {R"(\bChainStage\b|\bStageFunction\b|\btile_stages\b)", "micro-op"},
    {R"(\bTimeline::Lane\b)", "track"},
    {R"(\bparallel/slots\.h\b|\bkSlot\b)", "TaskScratch, kScratch"},
    {R"(\bstruct Place\b)", "what the type is the place of: a location, a cell"},
    {R"("in_parts"|\bkInParts\b|\b(Kernel|Linear|Matmul|Cached)Parts?\b|\b(kernel_part|product_parts|cached_parts|run_parts)\b)",
     "decomposed, InnerKernel"},
    {R"(\bdisabled_passes\b)", "disabled"},
    {R"(\bRandomSample\b)", "SampleLogits"},
    {R"(\bRingPlace\b|\bkSlots\b)", "ring stage"},
    {R"(\bProducerWarp\b|\bConsumerPlaces\b|\bStepFeed\b)", "BlockShare, SharedLayout, NextInstruction"}};

bool is_read(const fs::path& path) {
  const std::string kind = path.extension();
  return kind == ".h" || kind == ".cpp" || kind == ".cu" || kind == ".js" || kind == ".py";
}

TEST(Words, RetiredOnesStayAway) {
  std::string all = "";
  for (const Retired& word : kRetired) all += (all.empty() ? "" : "|") + std::string(word.pattern);
  const Pattern any(all);
  int files = 0;
  for (const char* folder :
       {"schema", "builder", "passes", "backends", "executor", "models", "tools", "bench"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (!is_read(entry.path())) continue;
      ++files;
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        if (!any.is_in(line)) continue;
        for (const Retired& word : kRetired)
          EXPECT_FALSE(Pattern(word.pattern).is_in(line))
              << entry.path().string() << ":" << number << ": " << word.instead << " is the word";
      }
    }
  EXPECT_GT(files, 1000);
  for (const char* line : {"int kMostRows = 2;", "chain_attention()", "#include \"few_rows.h\""})
    EXPECT_TRUE(any.is_in(line)) << line;
}

struct Entry {
  std::string word, meaning;
};

std::vector<Entry> glossary() {
  std::vector<Entry> entries;
  std::ifstream in(kRoot / "docs/glossary.md");
  const std::regex row(R"(^\| (.+?) \| (.+) \|$)");
  std::smatch parts;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, parts, row) && parts[2] != "meaning") entries.push_back({parts[1], parts[2]});
  return entries;
}

// "link (of a file)" and "link (of a rank)" are one word. An "also", or a sentence about something else, is a second
// meaning.
TEST(Words, EachHasOneMeaning) {
  const std::regex qualifier(R"( \(.*\)$)"), another(R"(\balso\b|[.;] ([Oo]f|[Ii]n an?) )");
  std::set<std::string> words;
  for (const Entry& entry : glossary()) {
    EXPECT_TRUE(words.insert(std::regex_replace(entry.word, qualifier, "")).second)
        << "'" << entry.word << "' stands there twice: give one of its meanings another word";
    EXPECT_FALSE(std::regex_search(entry.meaning, another))
        << "'" << entry.word << "' has two meanings: give one of them another word, or one before it";
  }
  EXPECT_GT(words.size(), 60u);
}

}  // namespace
