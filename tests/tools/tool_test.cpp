#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace genesis::testing {
namespace {

fs::path make_folder() {
  std::string name = (fs::temp_directory_path() / "genesis_tools_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  return name;
}

// Returns words in an order that a language model can learn, the same in every run.
std::string make_text() {
  const Words words = {"the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "sleeps"};
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 2000; ++i) {
    state = state * 1664525 + 1013904223;
    text += words[(state >> 16) % words.size()] + " ";
  }
  return text;
}

// Returns rows of three classes by the first number. All numbers are integers, as a person may write them.
std::string make_rows() {
  std::string rows;
  for (int i = 0; i < 60; ++i)
    rows += R"({"x":[)" + std::to_string(i % 3) + "," + std::to_string(i % 7) + R"(,1,0],"target":)" +
            std::to_string(i % 3) + "}\n";
  return rows;
}

// Removes lines such as "writing: 3 MiB of 5 MiB, 60% in 5s, ETA 2s", which a tool writes after five seconds: on a busy
// machine any work may take so long.
std::string without_progress(const std::string& err) {
  static const std::regex kProgress("(?!genesis-).* in ([0-9]+[hms])+(, ETA ([0-9]+[hms])+)?");
  std::string kept;
  for (size_t at = 0; at < err.size();) {
    const size_t end = std::min(err.find('\n', at), err.size() - 1) + 1;
    std::string line = err.substr(at, end - at);
    at = end;
    const std::string text = line.ends_with('\n') ? line.substr(0, line.size() - 1) : line;
    if (text.size() > 200 || !std::regex_match(text, kProgress)) kept += line;
  }
  return kept;
}

}  // namespace

std::string tool_path(const std::string& tool) { return std::string(GENESIS_BUILD_ROOT) + "/tools/" + tool; }

Process run_tool(const std::string& tool, const Words& arguments, const ProcessOptions& options) {
  Process process = run_process(Words{tool_path(tool)} + arguments, options);
  process.err = without_progress(process.err);
  return process;
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.insert(fs::relative(entry.path(), folder).string());
  return names;
}

std::string expect_ok(const Process& process) {
  EXPECT_EQ(process.code, 0) << process.err << process.out;
  EXPECT_FALSE(process.timed_out);
  return process.out;
}

nlohmann::json expect_json(const Process& process) {
  const auto json = try_parse_json_text(expect_ok(process));
  EXPECT_TRUE(json.is_object()) << process.out << process.err;
  return json;
}

namespace {

void expect_refusal(const Process& process, int code, const Words& parts) {
  EXPECT_EQ(process.code, code) << process.err << process.out;
  EXPECT_EQ(process.out, "");
  // One error line, after warnings of a run that had begun.
  size_t warnings = 0;
  for (size_t at = 0; (at = process.err.find(": warning: ", at)) != std::string::npos; ++at) ++warnings;
  EXPECT_EQ(std::count(process.err.begin(), process.err.end(), '\n'), 1 + static_cast<std::ptrdiff_t>(warnings))
      << process.err;
  EXPECT_NE(process.err.find(": error: "), std::string::npos) << process.err;
  for (const std::string& part : parts)
    EXPECT_NE(process.err.find(part), std::string::npos) << "no '" << part << "' in: " << process.err;
}

}  // namespace

void expect_error(const Process& process, const Words& parts) { expect_refusal(process, 1, parts); }

void expect_usage_error(const Process& process, const Words& parts) {
  expect_refusal(process, 2, parts + Words{" --help`"});
}

const TinyModels& TinyModels::get() {
  static const TinyModels models;
  return models;
}

TinyModels::TinyModels() : folder_(make_folder()) {
  const Words qwen = {"hidden_size=16",        "intermediate_size=32",  "num_hidden_layers=2",
                      "num_attention_heads=2", "num_key_value_heads=1", "max_position_embeddings=48"};
  make("mlp", {"in_features=4", "hidden_features=16", "num_classes=3"});
  make("gpt2", {"n_positions=48", "n_embd=16", "n_layer=2", "n_head=2", "dropout=0.1"});
  make("qwen2", qwen);
  make("qwen3", qwen);
  write_text(text(), make_text());
  write_text(rows(), make_rows());
}

TinyModels::~TinyModels() { fs::remove_all(folder_); }

void TinyModels::make(const std::string& name, const Words& settings) const {
  Words build = {name, "--seed", "3", "-o", path(name + ".genesis")};
  for (const std::string& setting : settings) build = build + Words{"--set", setting};
  expect_ok(run_tool("genesis-build", build));
  expect_ok(run_tool("genesis-opt", {path(name + ".genesis"), "--train",
                                     "adamw,lr=3e-3,clip=1.0,schedule=warmup_cosine,warmup=5,total=100", "-o",
                                     path(name + ".train.genesis")}));
}

ToolTest::ToolTest() : folder_(make_folder()) {}
ToolTest::~ToolTest() { fs::remove_all(folder_); }

Words ToolTest::train_words(const std::string& model, int steps, const Words& more) const {
  return Words{"train",   tiny(model + ".train.genesis"),
               "--data",  TinyModels::get().text(),
               "--batch", "4",
               "--seq",   "16",
               "--steps", std::to_string(steps),
               "--quiet"} +
         more;
}

}  // namespace genesis::testing
