// Compiles the examples in the comments of public headers. An example is indented by four spaces, like code in Markdown,
// after an empty line of its comment; tables and formulas are indented by two. "..." stands for statements that are left
// out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace {

namespace fs = std::filesystem;

// The surroundings of an example, by header: parameters of the function whose body it is, or declarations before it.
const std::map<std::string, std::string> kSurroundings = {
    {"schema/ops/gradient.h", "struct Exp { void grad(GradientContext& g) const; };"},
    {"schema/ops/elementwise/elementwise.h", "Value x, Value predicted, Value target"},
    {"schema/ops/tensor/reduce.h", "Value x"},
    {"builder/containers.h", "const Scope& scope, Value x"},
    {"builder/convolution.h", "Value x, Value weight, Value bias"},
    {"builder/functions.h", "Value x"},
    {"builder/graph_builder.h", "Model& model, const Dim& batch, const nn::Sequential& net"},
    {"builder/image_layers.h", "const Scope& scope, Value x"},
    {"builder/layers.h", "const Scope& scope, Value x"},
    {"builder/losses.h", "Value logits, Value target"},
    {"builder/recurrent.h", "const Scope& scope, Value x"},
    {"builder/scope.h", "Model& model"},
    {"builder/stochastic_depth.h", "const Scope& scope, Value x, const nn::Linear& block"},
    {"passes/core/match.h", "const Node& node, const Graph& graph, const Uses& uses, ValueId value"},
    {"passes/training/train_step.h", "Model& model"},
    {"executor/inspector.h", "Session& session, const NamedTensors& inputs"},
    {"executor/state_dict.h", "Session& session"},
    {"builder/vision/regions.h", "Value features, Value boxes, Value images"},
    {"executor/generation/engine.h", "Session& session"},
    {"executor/session.h", "const Tensor& tokens, const Tensor& targets"},
    {"executor/training/learning_rate.h", "Session& session"},
    {"models/generation/answer.h",
     "generation::Engine& engine, const std::vector<int64_t>& prompt, const GenerateOptions& options"},
    {"models/generation/generator.h",
     "const std::vector<int64_t>& tokens, const std::vector<int64_t>& first, const std::vector<int64_t>& "
     "second"},
    {"models/jobs/calibrate.h", "Model& model"},
    {"models/text/cross_encoder.h", "const std::vector<std::string>& documents"},
};

struct Example {
  std::string header, name_space;
  int line = 0;  // number of the first line, from 1
  std::vector<std::string> code;

  // Declarations stand in a namespace, statements in a function.
  bool declares() const { return std::regex_search(code[0], std::regex("^(struct|class|template|void) ")); }
};

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Returns the text of a comment line without the slashes and the given number of spaces; nothing for other lines.
std::optional<std::string> indented(const std::string& line, const std::string& spaces) {
  const size_t begin = line.find_first_not_of(' ');
  const std::string mark = "//" + spaces;
  if (begin == std::string::npos || line.compare(begin, mark.size(), mark) != 0) return std::nullopt;
  return line.substr(begin + mark.size());
}

bool is_empty_comment(const std::string& line) { return indented(line, "") == ""; }

std::vector<Example> examples_in(const std::string& header) {
  const std::vector<std::string> lines = lines_of(fs::path(GENESIS_SOURCE_ROOT) / header);
  const std::string code(5, ' ');
  std::vector<Example> examples;
  std::string name_space;
  for (const std::string& line : lines)
    if (std::smatch found;
        name_space.empty() && std::regex_search(line, found, std::regex("^namespace (genesis[a-z_0-9:]*) ")))
      name_space = found[1];
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto first = indented(lines[i], code);
    if (!first || first->starts_with(' ') || !is_empty_comment(lines[i - 1])) continue;
    Example example{header, name_space, static_cast<int>(i) + 1, {}};
    for (; i < lines.size() && (indented(lines[i], code) || is_empty_comment(lines[i])); ++i)
      example.code.push_back(indented(lines[i], code).value_or(""));
    examples.push_back(std::move(example));
  }
  return examples;
}

std::vector<std::string> public_headers() {
  std::vector<std::string> headers;
  for (const char* layer : {"schema", "builder", "passes", "executor", "models"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / layer))
      if (entry.path().extension() == ".h")
        headers.push_back(fs::relative(entry.path(), GENESIS_SOURCE_ROOT).string());
  std::sort(headers.begin(), headers.end());
  return headers;
}

std::string code_of(const Example& example) {
  static const std::regex kLeftOut(R"( \.\.\.(?= *(//|$)))");
  std::string code = "#line " + std::to_string(example.line) + " \"" + example.header + "\"\n";
  for (const std::string& line : example.code) code += std::regex_replace(line, kLeftOut, " {}") + "\n";
  return code + ";\n";
}

// Returns the examples of a header as a source, in the header's namespace. Statements of several examples follow each
// other in one function.
std::string source_of(const std::vector<Example>& examples) {
  const auto found = kSurroundings.find(examples[0].header);
  const std::string around = found == kSurroundings.end() ? "" : found->second;
  std::string declarations, statements;
  for (const Example& example : examples)
    (example.declares() ? declarations : statements) += code_of(example);
  std::string source = "namespace " + examples[0].name_space + "::examples_of_" +
                       std::regex_replace(examples[0].header, std::regex("[^a-z0-9]"), "_") + " {\n";
  if (!declarations.empty()) source += around + "\n" + declarations;
  if (!statements.empty()) source += "void example(" + around + ") {\n" + statements + "}\n";
  return source + "}\n";
}

TEST(HeaderExamples, Compile) {
  using genesis::testing::run_process;
  if (run_process({"sh", "-c", "command -v c++"}).code != 0) GTEST_SKIP() << "c++ is not in PATH";
  std::string includes = "#include <iostream>\n#include <genesis/genesis.h>\n", source;
  size_t number = 0;
  for (const std::string& header : public_headers()) {
    const std::vector<Example> examples = examples_in(header);
    if (examples.empty()) continue;
    includes += "#include \"" + header + "\"\n";
    source += source_of(examples);
    number += examples.size();
  }
  EXPECT_GE(number, 23u);
  const fs::path file =
      fs::temp_directory_path() / ("header_examples_" + std::to_string(::getpid()) + ".cpp");
  std::ofstream(file) << includes << source;
  const auto compiled =
      run_process({"c++", "-std=c++20", "-fsyntax-only", "-I", GENESIS_SOURCE_ROOT, "-I",
                   GENESIS_SOURCE_ROOT "/include", "-I", GENESIS_BUILD_ROOT, file.string()});
  EXPECT_EQ(compiled.code, 0) << compiled.err << includes << source;
  fs::remove(file);
}

// Returns the headers that <genesis/genesis.h> includes, directly or not: those that are installed.
std::set<std::string> installed_headers() {
  static const std::regex kInclude("#include \"([a-z_]+/[^\"]+)\"");
  std::set<std::string> found;
  std::vector<std::string> waiting = {"include/genesis/genesis.h"};
  while (!waiting.empty()) {
    const std::string header = waiting.back();
    waiting.pop_back();
    if (header == "schema/version.h" || !found.insert(header).second) continue;
    for (const std::string& line : lines_of(fs::path(GENESIS_SOURCE_ROOT) / header))
      if (std::smatch include; std::regex_match(line, include, kInclude)) waiting.push_back(include[1]);
  }
  return found;
}

// Finds statements in the sentences of a comment, where no test compiles them.
TEST(HeaderExamples, AreNotPartsOfSentences) {
  static const std::regex kStatement(R"([^`][)}];(`|$))");
  const std::set<std::string> headers = installed_headers();
  EXPECT_GT(headers.size(), 80u);
  for (const std::string& header : headers)
    for (const std::string& line : lines_of(fs::path(GENESIS_SOURCE_ROOT) / header)) {
      const auto text = indented(line, " ");
      EXPECT_FALSE(text && !text->starts_with(' ') && std::regex_search(*text, kStatement))
          << header << ": " << line;
    }
}

// Finds code among what is indented by two spaces.
TEST(HeaderExamples, AreIndentedByFourSpaces) {
  static const std::regex kCode(R"(\S.*[)}];( *//.*)?)");
  for (const std::string& header : public_headers())
    for (const std::string& line : lines_of(fs::path(GENESIS_SOURCE_ROOT) / header))
      if (const auto text = indented(line, "   ")) {
        EXPECT_FALSE(std::regex_match(*text, kCode)) << header << ": " << line;
      }
}

}  // namespace
