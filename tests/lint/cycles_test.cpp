// Tests that no chain of #includes leads from a folder back to itself, nor from a stem back to itself. A stem is
// NAME.h with its sources NAME.cpp and NAME.cu: if A.cpp includes B.h and B.cpp includes A.h, one concept is split
// into two files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;
using Includes = std::vector<std::pair<std::string, std::string>>;  // includer and included file: paths from the root
using Graph = std::map<std::string, Names>;

// Stems that include each other, and the reason why they are still separate.
const std::map<Names, std::string> kKnownCycles = {
    {{"schema/graph/graph", "schema/graph/model"}, "a model owns its graphs, and a graph reads its model's states and tensors"},
};

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp" || path.extension() == ".cu" || path.extension() == ".cuh";
}

// Returns every #include "..." of the product and of bench/, except those of libraries.
Includes includes_of_the_tree() {
  const Names layers = {"schema", "builder", "passes", "backends", "executor", "models", "tools", "bench"};
  const std::string start = "#include \"";
  Includes found;
  for (const std::string& layer : layers)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / layer)) {
      if (!is_source(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), GENESIS_SOURCE_ROOT);
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        if (!line.starts_with(start)) continue;
        const std::string target = line.substr(start.size(), line.find('"', start.size()) - start.size());
        if (layers.contains(target.substr(0, target.find('/')))) found.emplace_back(file, target);
      }
    }
  return found;
}

std::string folder_of(const std::string& file) { return fs::path(file).parent_path(); }
std::string stem_of(const std::string& file) { return fs::path(file).replace_extension(); }

Graph graph_of(const Includes& includes, const std::function<std::string(const std::string&)>& node_of) {
  Graph graph;
  for (const auto& [file, target] : includes)
    if (const std::string from = node_of(file), to = node_of(target); from != to) graph[from].insert(to);
  return graph;
}

Names reached_from(const Graph& graph, const std::string& start) {
  Names reached;
  for (std::vector<std::string> open = {start}; !open.empty();) {
    const auto at = graph.find(open.back());
    open.pop_back();
    if (at == graph.end()) continue;
    for (const std::string& next : at->second)
      if (reached.insert(next).second) open.push_back(next);
  }
  return reached;
}

// Returns the sets of nodes that reach each other.
std::set<Names> cycles_of(const Graph& graph) {
  std::map<std::string, Names> reached;
  for (const auto& [node, targets] : graph) reached[node] = reached_from(graph, node);
  std::set<Names> cycles;
  for (const auto& [node, others] : reached) {
    if (!others.contains(node)) continue;
    Names cycle = {node};
    for (const std::string& other : others)
      if (reached.contains(other) && reached.at(other).contains(node)) cycle.insert(other);
    cycles.insert(cycle);
  }
  return cycles;
}

// Returns the includes inside a cycle, one per line.
std::string as_text(const Names& cycle, const Includes& includes,
                    const std::function<std::string(const std::string&)>& node_of) {
  std::string text;
  for (const auto& [file, target] : includes)
    if (const std::string from = node_of(file), to = node_of(target); from != to && cycle.contains(from) && cycle.contains(to))
      text += "\n  " + file + " includes " + target;
  return text;
}

TEST(Cycles, FoldersHaveNone) {
  const Includes includes = includes_of_the_tree();
  ASSERT_GT(includes.size(), 3000u) << "the sources were not found under " << GENESIS_SOURCE_ROOT;
  for (const Names& cycle : cycles_of(graph_of(includes, folder_of)))
    ADD_FAILURE() << "folders that see each other are one folder:" << as_text(cycle, includes, folder_of);
}

TEST(Cycles, StemsHaveNoneButThoseThatAreKnown) {
  const Includes includes = includes_of_the_tree();
  const std::set<Names> cycles = cycles_of(graph_of(includes, stem_of));
  for (const Names& cycle : cycles)
    EXPECT_TRUE(kKnownCycles.contains(cycle))
        << "give what both need a header of its own, or make them one:" << as_text(cycle, includes, stem_of);
  for (const auto& [cycle, reason] : kKnownCycles)
    EXPECT_TRUE(cycles.contains(cycle)) << *cycle.begin() << " is in no such cycle any more: take it out of the list";
}

TEST(Cycles, AreFoundWhereTheyAre) {
  const Includes includes = {{"a/one.cpp", "a/one.h"}, {"a/one.cpp", "b/two.h"}, {"b/two.cu", "c/three.h"},
                             {"c/three.h", "a/one.h"}, {"d/four.h", "a/one.h"},  {"c/three.h", "e/five.h"}};
  EXPECT_EQ(cycles_of(graph_of(includes, stem_of)), (std::set<Names>{{"a/one", "b/two", "c/three"}}));
  EXPECT_EQ(cycles_of(graph_of(includes, folder_of)), (std::set<Names>{{"a", "b", "c"}}));
  EXPECT_EQ(cycles_of(graph_of({{"a/one.cpp", "b/two.h"}, {"b/two.cpp", "c/three.h"}}, stem_of)), std::set<Names>{});
}

// Either must build without the other. Code that both need is in backends/common and executor/runtime.
TEST(Cycles, CpuAndCudaDoNotSeeEachOther) {
  const auto is_for = [](const std::string& file, const char* kind) {
    return file.find(std::string("/") + kind + "/") != std::string::npos;
  };
  for (const auto& [file, target] : includes_of_the_tree()) {
    EXPECT_FALSE(is_for(file, "cuda") && is_for(target, "cpu")) << file << " may not include " << target;
    EXPECT_FALSE(is_for(file, "cpu") && is_for(target, "cuda")) << file << " may not include " << target;
  }
}

}  // namespace
