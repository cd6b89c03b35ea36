// Tests that hostile and damaged ONNX files are refused in words, and that an imported model can be trained.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "executor/session.h"
#include "models/formats/onnx/call.h"
#include "models/formats/onnx/import.h"
#include "models/formats/onnx/import_settings.h"
#include "models/formats/onnx/operators.h"
#include "models/formats/onnx/program.h"
#include "passes/training/add_loss.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/model_file.h"
#include "tests/error_of.h"
#include "tests/models/onnx/onnx_messages.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using models::onnx::import_file;
using models::onnx::import_model;
using models::onnx::ImportOptions;
using testing::error_of;
using namespace testing::onnx_messages;

fs::path cases() { return fs::path(GENESIS_SOURCE_ROOT) / "tests/models/onnx/cases"; }

void expect_has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

std::string problem_of(const std::string& bytes, const fs::path& folder = {}) {
  return error_of([&] { import_file(read_onnx_from(std::as_bytes(std::span(bytes))), folder); });
}

class TemporaryFolder {
 public:
  TemporaryFolder() { fs::create_directories(path_ / "inside"); }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("genesis_onnx_" + std::to_string(::getpid()));
};

TEST(Onnx, ExternalDataStaysInsideTheFolder) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "secret") << "0123456789abcdef";
  std::ofstream(folder.path() / "inside/weights") << "0123456789abcdef";
  fs::create_symlink(folder.path() / "secret", folder.path() / "inside/link");
  fs::create_directory_symlink(folder.path(), folder.path() / "inside/up");
  fs::create_hard_link(folder.path() / "secret", folder.path() / "inside/hard");
  const fs::path inside = folder.path() / "inside";
  const auto problem = [&](const std::string& location, const std::string& more = "") {
    return problem_of(
        model({node("Add", {"x", "w"}, {"y"})}, {tensor("w", {4}, 1, external(location, more))}), inside);
  };
  EXPECT_EQ(problem("weights"), "");
  for (const char* outside : {"../secret", "inside/../../secret", "junk/../../secret", "/etc/passwd", "link",
                              "up/secret", "hard", "", "."})
    expect_has(problem(outside), {"external file"});
  expect_has(problem((folder.path() / "secret").string()), {"refused"});
  expect_has(problem("missing"), {"'missing'", "No such file"});
  expect_has(problem("weights", piece(13, piece(1, "offset") + piece(2, "4"))),
             {"16 bytes", "expected 16 from byte 4"});
  expect_has(problem("weights", piece(13, piece(1, "offset") + piece(2, "-4"))), {"'offset'", "'-4'"});
  expect_has(problem("weights", piece(13, piece(1, "offset") + piece(2, "9223372036854775807"))),
             {"expected 16"});
  expect_has(problem("weights", piece(13, piece(1, "length") + piece(2, "99"))), {"99 bytes"});
  expect_has(problem("hard"), {"2 names", "cp"});
  // Keys that are not those of the format are no attributes of anything (CVE-2026-34445).
  EXPECT_EQ(problem("weights", piece(13, piece(1, "__class__") + piece(2, "9e18")) +
                                   piece(13, piece(1, "basepath") + piece(2, "/etc"))),
            "");
  // A file that was read from memory has no folder.
  expect_has(problem_of(model({node("Add", {"x", "w"}, {"y"})}, {tensor("w", {4}, 1, external("weights"))})),
             {"refused"});
}

TEST(Onnx, SizesThatLieAreRefused) {
  const auto problem = [](const std::string& bytes) {
    return problem_of(model({node("Add", {"x", "w"}, {"y"})}, {bytes}));
  };
  expect_has(problem(tensor("w", {-4}, 1, "")), {"'w'", "-4"});
  expect_has(problem(tensor("w", {int64_t{1} << 40, int64_t{1} << 40}, 1, "")), {"'w'", "64 bits"});
  expect_has(problem(tensor("w", {4}, 1, piece(9, "abc"))), {"'w'", "3 bytes", "expected 16"});
  expect_has(problem(tensor("w", {4}, 1, piece(4, "abcd"))), {"'w'"});
  expect_has(problem(tensor("w", {4}, 8, "")), {"'w'", "string"});
  expect_has(problem(tensor("w", {4}, 77, piece(9, "abc"))), {"'w'", "unknown"});
  expect_has(problem(tensor("w", {1000000}, 1, piece(9, "abcd"))), {"'w'", "expected 4000000"});
}

// x and a shape of three sizes give y = Reshape(x, shape); `elements` is the size of the second input.
OnnxFile reshape_file(std::string& bytes, int64_t elements) {
  bytes = number(1, 9) +
          piece(7, piece(1, node("Reshape", {"x", "s"}, {"y"})) + piece(11, value_info("x", {2, 6})) +
                       piece(11, value_info("s", {elements}, 7)) + piece(12, value_info("y", {}))) +
          piece(8, number(2, 18));
  return read_onnx_from(std::as_bytes(std::span(bytes)));
}

TEST(Onnx, AProgramHasAVariantForEachValueThatDecides) {
  std::string bytes;
  models::onnx::Program program(reshape_file(bytes, 3));
  const Tensor x = Tensor::rand({2, 6}, /*seed=*/1);
  const auto shape_for = [&](std::vector<int64_t> sizes) {
    return program.run({{"x", x}, {"s", Tensor::of(sizes)}})["y"].shape();
  };
  EXPECT_EQ(shape_for({3, 2, 2}), Shape({3, 2, 2}));
  EXPECT_EQ(shape_for({1, -1, 4}), Shape({1, 3, 4}));
  EXPECT_EQ(shape_for({3, 2, 2}), Shape({3, 2, 2}));
  EXPECT_EQ(program.variants(), 2u);
  EXPECT_EQ(program.deciding(), std::set<std::string>{"s"});
  expect_has(error_of([&] { shape_for({5, 5, 5}); }), {"Reshape"});
  expect_has(error_of([&] { program.run({{"x", x}}); }), {"'s'", "decides the size"});
}

TEST(Onnx, ALargeInputDecidesNothing) {
  std::string bytes;
  models::onnx::Program program(reshape_file(bytes, 65));
  const Tensor sizes = Tensor::of(std::vector<int64_t>(65, 1));
  expect_has(error_of([&] {
               program.run({{"x", Tensor::rand({2, 6}, 1)}, {"s", sizes}});
             }),
             {"'s'", "decides the size"});
}

// --- sizes that depend on data: c is the number of nonzero elements of x, which is f32[4]

std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  return tensor(name, {static_cast<int64_t>(values.size())}, 7, piece(9, bytes));
}
std::string counting_model(std::vector<std::string> nodes) {
  nodes.insert(nodes.begin(), {node("NonZero", {"x"}, {"nz"}), node("Shape", {"nz"}, {"s"}),
                               node("Slice", {"s", "one", "two"}, {"c"})});
  return model(nodes, {integers("zero", {0}), integers("one", {1}), integers("two", {2}),
                       integers("four", {4}), integers("minus", {-1})});
}
OnnxFile file_of(const std::string& bytes) { return read_onnx_from(std::as_bytes(std::span(bytes))); }

// Returns y for x = 5 0 7 8, with a count of 3; `variants`: the values of x decide.
std::vector<double> counted(const std::vector<std::string>& nodes, bool variants) {
  const std::string bytes = counting_model(nodes);
  if (variants) {
    EXPECT_THROW(import_file(file_of(bytes), {}), models::onnx::NeedsValue);
  } else {
    EXPECT_EQ(problem_of(bytes), "");
  }
  models::onnx::Program program(file_of(bytes), {});
  return program.run({{"x", Tensor::of(std::vector<float>{5, 0, 7, 8})}})["y"].to_doubles();
}
using Numbers = std::vector<double>;

TEST(Onnx, ASliceFromACountNeedsIt) {
  EXPECT_EQ(counted({node("Sub", {"c", "one"}, {"b"}), node("Slice", {"x", "b", "c", "zero"}, {"y"})}, true),
            Numbers{7});
  EXPECT_EQ(counted({node("Slice", {"x", "c", "four", "zero"}, {"y"})}, true), Numbers{8});
  EXPECT_EQ(counted({node("Slice", {"x", "zero", "c", "zero"}, {"y"})}, false), (Numbers{5, 0, 7}));
}

TEST(Onnx, TwoSizesThatDependOnDataNeedTheirCounts) {
  const std::vector<std::string> sums = {node("Transpose", {"nz"}, {"t"}), node("Add", {"nz", "t"}, {"a"})};
  const auto with = [&](const std::string& last) {
    std::vector<std::string> nodes = sums;
    nodes.push_back(last);
    return nodes;
  };
  EXPECT_EQ(counted(with(node("Identity", {"a"}, {"y"})), true), (Numbers{0, 2, 3, 2, 4, 5, 3, 5, 6}));
  std::vector<std::string> flat = with(node("Reshape", {"a", "minus"}, {"f"}));
  flat.push_back(node("Gather", {"f", "four"}, {"y"}));
  EXPECT_EQ(counted(flat, true), Numbers{4});
}

TEST(Onnx, ACountAloneIsKept) {
  EXPECT_EQ(counted({node("Add", {"c", "one"}, {"y"})}, false), Numbers{4});
  EXPECT_EQ(counted({node("Mul", {"c", "two"}, {"y"})}, false), Numbers{6});
}

TEST(Onnx, ABoundThatDoesNotFitNeedsTheCount) {
  const std::vector<std::string> nodes = {node("Slice", {"x", "one", "four", "zero"}, {"h"}),
                                          node("Slice", {"h", "zero", "c", "zero"}, {"y"})};
  EXPECT_EQ(counted(nodes, true), (Numbers{0, 7, 8}));
}

TEST(Onnx, ANumberThatDependsOnDataNeedsTheCount) {
  EXPECT_EQ(counted({node("TopK", {"x", "c"}, {"y", "i"})}, true), (Numbers{8, 7, 5}));
  EXPECT_EQ(counted({node("Concat", {"c", "zero"}, {"p"},
                          piece(5, piece(1, "axis") + number(3, 0) + number(20, 2))),
                     node("Pad", {"x", "p"}, {"y"})},
                    true),
            (Numbers{0, 0, 0, 5, 0, 7, 8}));
}

TEST(Onnx, AnOperatorThatNeedsASizeNeedsTheCount) {
  EXPECT_EQ(counted({node("Reshape", {"nz", "minus"}, {"f"}), node("Unique", {"f"}, {"y"})}, true),
            (Numbers{0, 2, 3}));
}

TEST(Onnx, ASizeMayBeCalledLikeOurOwn) {
  const std::string open = piece(1, piece(2, "_found0"));
  const std::string x = piece(1, "x") + piece(2, piece(1, number(1, 1) + piece(2, open)));
  const std::string graph =
      piece(1, node("Unique", {"x"}, {"y"})) + piece(11, x) + piece(12, value_info("y", {}));
  models::onnx::Program program(file_of(number(1, 9) + piece(7, graph) + piece(8, number(2, 18))), {});
  const auto y = program.run({{"x", Tensor::of(std::vector<float>{5, 1, 5})}});
  EXPECT_EQ(y.at("y").to_doubles(), (Numbers{1, 5}));
}

TEST(Onnx, MoreBoxesMayBeAskedForThanThereAre) {
  const std::string half("\0\0\0\x3f", 4);
  const auto open_size = [](const std::string& name, const std::string& first, const std::string& second,
                            const std::string& third) {
    return piece(1, name) +
           piece(2, piece(1, number(1, 1) + piece(2, piece(1, first) + piece(1, second) + piece(1, third))));
  };
  const std::string one = number(1, 1), four = number(1, 4), open = piece(2, "n");
  const std::string graph =
      piece(1, node("NonMaxSuppression", {"boxes", "scores", "most", "iou"}, {"y"})) +
      piece(5, integers("most", {100})) + piece(5, tensor("iou", {1}, 1, piece(9, half))) +
      piece(11, open_size("boxes", one, open, four)) + piece(11, open_size("scores", one, one, open)) +
      piece(12, value_info("y", {}, 7));
  models::onnx::Program program(file_of(number(1, 9) + piece(7, graph) + piece(8, number(2, 18))), {});
  const auto y = program.run({{"boxes", Tensor::of({1, 2, 4}, std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3})},
                              {"scores", Tensor::of({1, 1, 2}, std::vector<float>{0.5, 0.75})}})["y"];
  EXPECT_EQ(y.to_doubles(), (Numbers{0, 0, 1, 0, 0, 0}));
}

TEST(Onnx, NestingAndRecursionHaveLimits) {
  // A function that calls itself.
  const std::string function = piece(25, piece(1, "F") + piece(4, "a") + piece(5, "b") + piece(10, "own") +
                                             piece(7, node("F", {"a"}, {"b"}, "", "own")));
  expect_has(problem_of(model({node("F", {"x"}, {"y"}, "", "own")}, {}, function)), {"call themselves"});
  // Graphs within graphs.
  std::string body = piece(1, node("Abs", {"x"}, {"b"})) + piece(12, value_info("b", {4}));
  for (int depth = 0; depth < 40; ++depth) {
    const std::string attribute = piece(5, piece(1, "then_branch") + piece(6, body)) +
                                  piece(5, piece(1, "else_branch") + piece(6, body).substr(0, 0));
    body = piece(1, node("If", {"x"}, {"b"}, attribute)) + piece(12, value_info("b", {4}));
  }
  const std::string deep = piece(5, piece(1, "then_branch") + piece(6, body));
  expect_has(problem_of(model({node("If", {"x"}, {"y"}, deep)})), {"graphs within more than 32"});
}

TEST(Onnx, LoopsHaveLimits) {
  const std::string go_on = piece(1, node("Identity", {"c"}, {"c1"}));
  const std::string body = go_on + piece(1, node("Abs", {"v"}, {"v1"})) + piece(11, value_info("i", {}, 7)) +
                           piece(11, value_info("c", {}, 9)) + piece(11, value_info("v", {4})) +
                           piece(12, value_info("c1", {}, 9)) + piece(12, value_info("v1", {4}));
  const std::string attribute = piece(5, piece(1, "body") + piece(6, body));
  const auto loop = [&](const std::string& count) {
    return problem_of(
        model({node("Loop", {"n", "", "x"}, {"y"}, attribute)}, {tensor("n", {}, 7, piece(9, count))}));
  };
  EXPECT_EQ(loop(std::string("\3\0\0\0\0\0\0\0", 8)), "");
  expect_has(loop(std::string("\0\0\0\0\1\0\0\0", 8)), {"4096 steps", "n_Loop"});
  // A body whose condition has no name (found by fuzzing).
  const std::string nameless = piece(1, node("Abs", {"v"}, {"v1"})) + piece(11, value_info("i", {}, 7)) +
                               piece(11, value_info("c", {}, 9)) + piece(11, value_info("v", {4})) +
                               piece(12, value_info("", {}, 9)) + piece(12, value_info("v1", {4}));
  expect_has(
      problem_of(model({node("Loop", {"n", "", "x"}, {"y"}, piece(5, piece(1, "body") + piece(6, nameless)))},
                       {tensor("n", {}, 7, piece(9, std::string("\3\0\0\0\0\0\0\0", 8)))})),
      {"n_Loop", "output 0 of a graph has no value"});
}

TEST(Onnx, FactorsOfResizingHaveLimits) {
  const auto resized = [&](float factor, const std::string& attributes = "") {
    std::string bytes(sizeof factor, '\0');
    std::memcpy(bytes.data(), &factor, sizeof factor);
    return problem_of(
        model({node("Resize", {"x", "", "s"}, {"a"}, attributes), node("Identity", {"x"}, {"y"})},
              {tensor("s", {1}, 1, piece(9, bytes))}));
  };
  EXPECT_EQ(resized(2), "");
  EXPECT_EQ(resized(0.1F), "");  // no element is left
  for (const float factor : {1e20F, -1.0F, 0.0F, std::nanf("")}) expect_has(resized(factor), {"n_Resize"});
  const std::string linear = piece(5, piece(1, "mode") + piece(4, "linear") + number(20, 3)),
                    antialias = piece(5, piece(1, "antialias") + number(3, 1) + number(20, 2));
  expect_has(resized(1e-9F, linear + antialias), {"n_Resize"});
}

// Every second element, twice, has the size of x where that is a multiple of 2 only.
TEST(Onnx, SizesMayBeMultiples) {
  const auto integer = [](const std::string& name, int64_t value) {
    return tensor(name, {1}, 7, piece(9, {reinterpret_cast<const char*>(&value), sizeof value}));
  };
  const float two = 2;
  const std::string factor(reinterpret_cast<const char*>(&two), sizeof two);
  const std::string bytes = model({node("Slice", {"x", "zero", "end", "zero", "step"}, {"a"}),
                                   node("Resize", {"a", "", "s"}, {"b"}), node("Add", {"x", "b"}, {"y"})},
                                  {integer("zero", 0), integer("end", INT64_MAX), integer("step", 2),
                                   tensor("s", {1}, 1, piece(9, factor))});
  const auto problem = [&](const Dim& size) {
    ImportOptions options;
    options.shapes["x"] = {size};
    return error_of(
        [&] { import_file(read_onnx_from(std::as_bytes(std::span(bytes))), {}, nullptr, options); });
  };
  const Dim h = Dim::symbol("h");
  EXPECT_EQ(problem(h * Dim(2)), "");
  expect_has(problem(h), {"n_Add", "are open", "--set NAME=640 or NAME=32*h"});
  EXPECT_EQ(problem(3).find("--set"), std::string::npos) << problem(3);
}

TEST(Onnx, EverythingThatIsNotReadIsListed) {
  const std::string bytes = model({node("Hum", {"x"}, {"a"}), node("Abs", {"a"}, {"b"}),
                                   node("Whistle", {"b"}, {"c"}, "", "own"), node("Hum", {"c"}, {"y"})});
  expect_has(problem_of(bytes), {"not read", "Hum (2x: n_Hum, n_Hum)", "own::Whistle (1x: n_Whistle)"});
  const std::string attribute = piece(5, piece(1, "loudness") + number(3, 7));
  expect_has(problem_of(model({node("Abs", {"x"}, {"y"}, attribute)})), {"'loudness'", "n_Abs"});
  expect_has(problem_of(model({node("Abs", {"z"}, {"y"})})), {"'z'", "nothing before makes it"});
  expect_has(problem_of(model({})), {"'y'"});
}

TEST(Onnx, InputsThatDecideSizesAreNamed) {
  const std::string graph = piece(1, node("Reshape", {"x", "s"}, {"y"})) + piece(11, value_info("x", {4})) +
                            piece(11, value_info("s", {2}, 7)) + piece(12, value_info("y", {2, 2}));
  const std::string bytes = number(1, 9) + piece(7, graph) + piece(8, number(2, 18));
  const OnnxFile file = read_onnx_from(std::as_bytes(std::span(bytes)));
  EXPECT_THROW(import_file(file, {}), models::onnx::NeedsValue);
  expect_has(error_of([&] { import_file(file, {}); }), {"input 1", "'s'", "n_Reshape"});
  const auto made = import_file(file, {}, nullptr, models::onnx::options_of(file, {{"s", "2,-1"}}));
  EXPECT_EQ(made->entry("forward").type(made->entry("forward").outputs()[0].value).shape, (Shape{2, 2}));
  expect_has(error_of([&] { models::onnx::options_of(file, {{"t", "2"}}); }), {"--set t=2", "x, s"});
  expect_has(error_of([&] { models::onnx::options_of(file, {{"s", "two"}}); }), {"'two' is no number"});
}

TEST(Onnx, DamagedFilesAreRefusedOrRead) {
  std::mt19937 random(7);
  for (const char* name : {"net", "loops"}) {
    const std::string whole = read_whole_file(cases() / name / "model.onnx");
    for (int i = 0; i < 60; ++i) {
      std::string bytes = whole;
      for (unsigned times = 1 + random() % 3; times > 0; --times)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      if (i % 5 == 0) bytes.resize(random() % bytes.size());
      try {
        import_file(read_onnx_from(std::as_bytes(std::span(bytes))), {});
      } catch (const Error&) {
      }
    }
  }
}

TEST(Onnx, ImportedModelsTrainAndAreSaved) {
  MappedFiles files;
  const std::shared_ptr<Model> net = import_model(cases() / "net/model.onnx", &files);
  EXPECT_EQ(files.size(), 1U);
  EXPECT_GE(net->find_state("c1.w"), 0);
  EXPECT_EQ(net->state(net->find_state("bn.mean")).role, StateRole::kBuffer);
  passes::add_loss(*net, {});
  passes::add_training(*net, {.optimizer = optim::SGD{.lr = 0.5}});
  Session session(net, {.device = "cpu"});
  const NamedTensors batch = {{"x", Tensor::randn({4, 2, 8, 8}, 1)},
                              {"target", Tensor::of<int64_t>({0, 1, 2, 0})}};
  const auto loss = [&] { return session.run("train_step", batch)["loss"].item<float>(); };
  const float first = loss();
  float last = first;
  for (int i = 0; i < 20; ++i) last = loss();
  EXPECT_LT(last, 0.7F * first);
}

TEST(Onnx, WeightsInConstantNodesAreParameters) {
  const std::shared_ptr<Model> net = import_model(cases() / "constants/model.onnx");
  for (const char* name : {"c.w", "c.b", "bn.w", "bn.b", "fc.w", "fc.b"}) {
    ASSERT_GE(net->find_state(name), 0) << name;
    EXPECT_EQ(net->state(net->find_state(name)).role, StateRole::kParameter) << name;
  }
  for (const char* name : {"bn.mean", "bn.var"}) {
    ASSERT_GE(net->find_state(name), 0) << name;
    EXPECT_EQ(net->state(net->find_state(name)).role, StateRole::kBuffer) << name;
  }
  for (const char* name : {"three", "row"}) EXPECT_LT(net->find_state(name), 0) << name;
  passes::add_loss(*net, {});
  passes::add_training(*net, {.optimizer = optim::SGD{.lr = 0.1}});
  Session session(net, {.device = "cpu"});
  const NamedTensors batch = {{"x", Tensor::randn({3, 2, 6, 5}, 1)},
                              {"target", Tensor::of<int64_t>({0, 1, 2})}};
  const float first = session.run("train_step", batch)["loss"].item<float>();
  float last = first;
  for (int i = 0; i < 20; ++i) last = session.run("train_step", batch)["loss"].item<float>();
  EXPECT_LT(last, 0.9F * first);
}

TEST(Onnx, OperatorsAreSortedInTheirTables) {
  EXPECT_GT(models::onnx::operator_names().size(), 180U);
  EXPECT_NE(models::onnx::find_operator("Conv"), nullptr);
  EXPECT_EQ(models::onnx::find_operator("Hum"), nullptr);
}

}  // namespace
}  // namespace genesis
