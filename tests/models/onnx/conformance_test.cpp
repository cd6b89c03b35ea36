// Runs the tests of ONNX's own suite that conformance.py has written into folders. GENESIS_ONNX_SUITE names the folder with them,
// GENESIS_ONNX_RESULTS the file that gets one line for each test. Without these, nothing is run.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "models/formats/onnx/program.h"
#include "models/formats/onnx/small_reals.h"
#include "schema/file/io/read_file.h"
#include "schema/file/other_formats/onnx/tensor.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using models::onnx::ImportOptions;
using models::onnx::Program;

constexpr unsigned kSecondsPerTest = 600;

struct Given {
  Tensor tensor;
  OnnxElement element = OnnxElement::kUnknown;
};
// A file of a test holds one tensor, a sequence, or nothing.
struct Content {
  std::vector<Given> tensors;
  bool is_sequence = false, is_absent = false;
};

Given read_given(const ProtoMessage& message) {
  const OnnxTensor tensor = read_onnx_tensor(message);
  OnnxExternalFiles none;
  return {onnx_tensor_values(tensor, nullptr, none), static_cast<OnnxElement>(tensor.type.element)};
}

Content read_content(const ProtoMessage& message, const OnnxType& type) {
  Content content;
  if (type.dtype == "sequence") {
    content.is_sequence = true;
    for_each_field(message, [&](const ProtoField& field) {
      if (field.number == 3) content.tensors.push_back(read_given(field.message()));
    });
  } else if (type.dtype == "optional" && type.item) {
    content.is_absent = true;
    for_each_field(message, [&](const ProtoField& field) {
      if (field.number == 3 || field.number == 5) content = read_content(field.message(), *type.item);
    });
  } else {
    content.tensors.push_back(read_given(message));
  }
  return content;
}

std::vector<std::string> names_without_initializers(const OnnxGraph& graph) {
  std::vector<std::string> names;
  for (const std::string& name : graph.inputs)
    if (std::ranges::none_of(graph.tensors, [&](const OnnxTensor& t) { return t.name == name; }))
      names.push_back(name);
  return names;
}

std::map<std::string, Content> read_contents(const fs::path& folder, const std::string& kind,
                                             const std::vector<std::string>& names, const OnnxGraph& graph) {
  std::map<std::string, Content> contents;
  for (size_t i = 0; i < names.size(); ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", kind, i);
    if (!fs::exists(path)) continue;
    const std::string bytes = read_whole_file(path);
    contents[names[i]] = read_content({std::as_bytes(std::span(bytes)), 0}, graph.types.at(names[i]));
  }
  return contents;
}

// Returns the elements as numbers, so that codes of small reals compare by value.
std::vector<double> numbers_of(const Given& given) {
  std::vector<double> numbers = given.tensor.to_doubles();
  if (!models::onnx::is_small_real(given.element)) return numbers;
  const std::vector<float> values = models::onnx::values_of_codes(given.element);
  for (double& number : numbers) number = values.at(static_cast<size_t>(number));
  return numbers;
}

// Returns what differs; empty if nothing does.
std::string difference(const std::string& name, const Given& got, const Given& wanted, double rtol,
                       double atol) {
  if (got.element != wanted.element)
    return fmt::format("'{}' has element type {}, expected {}", name, static_cast<int>(got.element),
                       static_cast<int>(wanted.element));
  if (got.tensor.shape() != wanted.tensor.shape())
    return fmt::format("'{}' is {}, expected {}", name, got.tensor.type().to_string(),
                       wanted.tensor.type().to_string());
  if (wanted.tensor.dtype() == DType::bf16) rtol = std::max(rtol, 1.0 / 64);
  const auto a = numbers_of(got), b = numbers_of(wanted);
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i]);
    if (!same) return fmt::format("WRONG '{}' at {}: {}, expected {}", name, i, a[i], b[i]);
  }
  return "";
}

struct Case {
  fs::path folder;
  double rtol = 1e-3, atol = 1e-7;
  bool fixes_shapes = false;  // inputs have the shapes of the test, also where the file has names
  OnnxFile file;
};

OnnxElement element_of(const Model& model, const std::string& name, DType dtype) {
  const auto noted = model.metadata.find("onnx_type." + name);
  if (noted == model.metadata.end()) return onnx_element_of(dtype);
  for (int64_t i = 1; i < 27; ++i)
    if (onnx_element_type(i).dtype == noted->second) return static_cast<OnnxElement>(i);
  return OnnxElement::kUnknown;
}

// Returns what the files of the test leave open.
ImportOptions options_of(const Case& test, const std::map<std::string, Content>& inputs) {
  ImportOptions options;
  const bool has_sequence =
      std::ranges::any_of(inputs, [](const auto& one) { return one.second.is_sequence; });
  for (const auto& [name, content] : inputs) {
    if (content.is_absent) options.absent.insert(name);
    if (content.is_sequence) options.sequences[name] = {};
    if (content.is_sequence)
      for (const Given& given : content.tensors) options.sequences[name].push_back(given.tensor.type());
    if (!content.is_sequence && !content.is_absent &&
        (has_sequence || test.fixes_shapes || !test.file.graph.types.at(name).has_shape))
      options.shapes[name] = content.tensors[0].tensor.shape();
  }
  return options;
}

std::string run_data(const Case& test, const fs::path& data, bool& has_variants) {
  const OnnxGraph& graph = test.file.graph;
  const auto inputs = read_contents(data, "input", names_without_initializers(graph), graph);
  const auto expected = read_contents(data, "output", graph.outputs, graph);
  NamedTensors given;
  for (const auto& [name, content] : inputs)
    for (size_t i = 0; i < content.tensors.size(); ++i)
      given.emplace(content.is_sequence ? fmt::format("{}.{}", name, i) : name, content.tensors[i].tensor);
  Program program(test.file, test.folder, options_of(test, inputs), {.device = "cpu", .threads = 1});
  const Model& model = program.model_for(given);
  std::erase_if(given, [&](const auto& one) {  // the graph does not read it
    return !program.deciding().contains(one.first) && !has_input(model.entry("forward"), one.first);
  });
  const NamedTensors results = program.run(given);
  has_variants |= !program.deciding().empty();
  for (const auto& [name, content] : expected)
    for (size_t i = 0; i < content.tensors.size(); ++i) {
      const std::string key = content.is_sequence ? fmt::format("{}.{}", name, i) : name;
      const Tensor& result = results.at(key);
      const std::string problem = difference(key, {result, element_of(model, key, result.dtype())},
                                             content.tensors[i], test.rtol, test.atol);
      if (!problem.empty()) return problem;
    }
  return "";
}

std::string run_case(const fs::path& folder) try {
  Case test{.folder = folder, .file = read_onnx(folder / "model.onnx")};
  if (fs::exists(folder / "data.json")) {
    const auto limits = nlohmann::json::parse(read_whole_file(folder / "data.json"));
    test.rtol = limits.value("rtol", test.rtol), test.atol = limits.value("atol", test.atol);
    test.fixes_shapes = limits.value("fixes_shapes", false);
  }
  bool has_variants = false;
  for (int i = 0; fs::exists(folder / fmt::format("test_data_set_{}", i)); ++i) {
    const std::string problem = run_data(test, folder / fmt::format("test_data_set_{}", i), has_variants);
    if (!problem.empty()) return problem;
  }
  return has_variants ? "PASS by variants" : "PASS";
} catch (const std::exception& problem) {
  return problem.what();
}

// Runs a test in a process of its own, so that a crash ends that test alone.
std::string run_apart(const fs::path& folder) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kSecondsPerTest);
    const std::string result = run_case(folder);
    static_cast<void>(::write(ends[1], result.data(), std::min<size_t>(result.size(), 60000)) == 0);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("CRASH by signal {}", WTERMSIG(status));
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// Models of make_models.py: symbolic sizes, external data, a function, loops, a branch, a recurrent layer.
TEST(OnnxCases, GiveOnnxruntimesNumbers) {
  for (const char* name : {"net", "attention", "loops", "collecting", "constants"})
    EXPECT_EQ(run_case(fs::path(GENESIS_SOURCE_ROOT) / "tests/models/onnx/cases" / name), "PASS") << name;
}

TEST(OnnxConformance, Suite) {
  const char *suite = std::getenv("GENESIS_ONNX_SUITE"), *results = std::getenv("GENESIS_ONNX_RESULTS");
  if (!suite || !results) GTEST_SKIP() << "tests/models/onnx/conformance.py runs it";
  std::vector<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(suite))
    if (entry.path().filename() == "model.onnx") folders.push_back(entry.path().parent_path());
  std::ranges::sort(folders);
  const char* wanted = std::getenv("GENESIS_ONNX_FILTER");
  std::ofstream out(results);
  for (const fs::path& folder : folders) {
    const std::string name = folder.parent_path().filename().string() + "/" + folder.filename().string();
    if (wanted && name.find(wanted) == std::string::npos) continue;
    out << name << "\t" << run_apart(folder) << std::endl;
  }
}

}  // namespace
}  // namespace genesis
