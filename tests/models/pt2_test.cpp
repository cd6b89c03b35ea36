// Tests that programs of torch.export (pt2/make_programs.py) give torch's numbers, and that damaged ones are refused in words.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "models/formats/pt2/import.h"
#include "models/formats/pt2/size_expression.h"
#include "passes/training/add_loss.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/model_file.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/other_formats/zip.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using models::pt2::import_model;
using models::pt2::parse_size;
using nlohmann::json;
using testing::error_of;

fs::path programs() { return fs::path(GENESIS_SOURCE_ROOT) / "tests/models/pt2"; }

void expect_has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

// Returns the tensors whose names begin with `prefix`, without it.
NamedTensors tensors_with(const SafeTensors& file, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), tensor);
  return found;
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.type(), expected.type()) << what;
  if (got.type().dtype != DType::f32) {
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), static_cast<size_t>(got.bytes())), 0) << what;
    return;
  }
  for (int64_t i = 0; i < got.type().numel(); ++i) {
    const float wanted = expected.as<float>()[i];
    ASSERT_NEAR(got.as<float>()[i], wanted, 2e-5 * (1 + std::abs(wanted))) << what << " at " << i;
  }
}

class Programs : public ::testing::TestWithParam<const char*> {};

TEST_P(Programs, GiveTorchsNumbers) {
  const std::string name = GetParam();
  const SafeTensors cases = read_safetensors(programs() / (name + ".safetensors"));
  const std::shared_ptr<const Model> model = import_model(programs() / (name + ".pt2"));
  std::vector<std::string> outputs;
  for (const NamedValue& output : model->entry("forward").outputs()) outputs.push_back(output.name);
  Session session(model, {.device = "cpu"});  // one for both, as torch counted calls
  for (const char* k : {"0", "1"}) {
    const NamedTensors results = session.run("forward", tensors_with(cases, std::string(k) + ".in."));
    const NamedTensors expected = tensors_with(cases, std::string(k) + ".out.");
    ASSERT_EQ(outputs.size(), expected.size());
    size_t i = 0;
    for (const auto& [place, tensor] : expected) {  // in torch's order
      const std::string& output = outputs[i++];
      expect_close(results.at(output), tensor, name + " " + k + " " + output);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pt2, Programs,
                         ::testing::Values("mlp", "shapes", "convolutions", "images", "qwen2", "pictures",
                                           "reader", "recurrent", "writes", "pixels"),
                         [](const auto& info) { return info.param; });

class Training : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Training, HasTorchsLosses) {
  const auto& [name, loss] = GetParam();
  const SafeTensors cases = read_safetensors(programs() / (std::string(name) + ".safetensors"));
  const std::shared_ptr<Model> model = import_model(programs() / (std::string(name) + ".pt2"));
  passes::add_loss(*model, passes::parse_loss(loss));
  passes::add_training(*model, {.optimizer = optim::SGD{.lr = 0.1}});
  Session session(model, {.device = "cpu"});
  NamedTensors batch = tensors_with(cases, "0.in.");
  batch["target"] = cases.tensors.at("target");
  const Tensor losses = cases.tensors.at("losses");
  for (int64_t step = 0; step < losses.type().numel(); ++step)
    EXPECT_NEAR(session.run("train_step", batch).at("loss").item<double>(), losses.as<float>()[step], 1e-5)
        << step;
}

INSTANTIATE_TEST_SUITE_P(Pt2, Training,
                         ::testing::Values(std::pair{"convolutions", "mse=output.0"},
                                           std::pair{"qwen2", "cross_entropy"},
                                           std::pair{"pictures", "cross_entropy"}, std::pair{"reader", "ctc"},
                                           std::pair{"recurrent", "mse=output.0"},
                                           std::pair{"pixels", "cross_entropy"}),
                         [](const auto& info) { return info.param.first; });

TEST(Pt2, LossesThatDoNotFitAreRefused) {
  const auto refusal = [](const char* name, const char* loss) {
    const auto model = import_model(programs() / (std::string(name) + ".pt2"));
    return error_of([&] { passes::add_loss(*model, passes::parse_loss(loss)); });
  };
  expect_has(refusal("convolutions", "mse"), {"output.0, output.1", "name the one"});
  expect_has(refusal("convolutions", "mse=output.9"), {"output.9"});
  expect_has(refusal("shapes", "cross_entropy=output.2"), {"i64"});
  expect_has(refusal("qwen2", "hinge"), {"'hinge'", "cross_entropy, mse"});
  expect_has(refusal("pictures", "ctc"), {"[batch, time, classes]"});
}

TEST(Pt2, NamesAreTheProgramsOwn) {
  const auto model = import_model(programs() / "mlp.pt2");
  const Graph& forward = model->entry("forward");
  EXPECT_EQ(forward.value(forward.inputs()[0]).name, "x");
  EXPECT_EQ(forward.type(forward.inputs()[0]).to_string(), "f32[x_dim0,8]");
  std::vector<std::string> outputs, states;
  for (const NamedValue& output : forward.outputs()) outputs.push_back(output.name);
  for (const State& state : model->states()) states.push_back(state.name);
  EXPECT_EQ(outputs, (std::vector<std::string>{"y", "more.0", "more.1"}));
  std::ranges::sort(states);
  EXPECT_EQ(states, (std::vector<std::string>{"calls", "first.bias", "first.weight", "norm.bias",
                                              "norm.weight", "second.bias", "second.weight"}))
      << "again.weight and first.weight are one";
  EXPECT_TRUE(model->state(model->find_state("norm.bias")).trainable);
  EXPECT_FALSE(model->state(model->find_state("calls")).trainable);
}

TEST(Pt2, BuffersThatTheProgramChangesAreUpdated) {
  const SafeTensors cases = read_safetensors(programs() / "mlp.safetensors");
  Session session(std::shared_ptr<const Model>(import_model(programs() / "mlp.pt2")), {.device = "cpu"});
  for (int run = 1; run <= 3; ++run) {
    EXPECT_EQ(session.run("forward", tensors_with(cases, "0.in.")).at("more.1").as<float>()[2],
              static_cast<float>(run));
    EXPECT_EQ(session.state("calls").as<float>()[0], static_cast<float>(run));
  }
}

TEST(Pt2, WeightsStayInTheirFile) {
  MappedFiles files;
  const auto model = import_model(programs() / "qwen2.pt2", &files);
  ASSERT_EQ(files.size(), 1u);
  const std::span<const std::byte> bytes = files[0]->bytes();
  for (const State& state : model->states()) {
    EXPECT_GE(state.initial.data(), bytes.data()) << state.name;
    EXPECT_LT(state.initial.data(), bytes.data() + bytes.size()) << state.name;
  }
}

// --- archives made here

void append(std::string& to, std::initializer_list<std::pair<uint64_t, int>> fields) {
  for (const auto& [value, bytes] : fields)
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> 8 * i & 0xff);
}

struct ZipEntry {
  std::string name, content;
  uint16_t method = 0, flags = 0;
};

std::string zip_of(const std::vector<ZipEntry>& entries) {
  std::string file, directory;
  for (const ZipEntry& e : entries) {
    const uint64_t at = file.size(), size = e.content.size();
    append(file, {{0x04034b50, 4},
                  {20, 2},
                  {e.flags, 2},
                  {e.method, 2},
                  {0, 4},
                  {0, 4},
                  {size, 4},
                  {size, 4},
                  {e.name.size(), 2},
                  {0, 2}});
    file += e.name + e.content;
    append(directory, {{0x02014b50, 4},
                       {20, 2},
                       {20, 2},
                       {e.flags, 2},
                       {e.method, 2},
                       {0, 4},
                       {0, 4},
                       {size, 4},
                       {size, 4},
                       {e.name.size(), 2},
                       {0, 2},
                       {0, 2},
                       {0, 2},
                       {0, 2},
                       {0, 4},
                       {at, 4}});
    directory += e.name;
  }
  const uint64_t at = file.size();
  file += directory;
  append(file, {{0x06054b50, 4},
                {0, 2},
                {0, 2},
                {entries.size(), 2},
                {entries.size(), 2},
                {directory.size(), 4},
                {at, 4},
                {0, 2}});
  return file;
}

class Pt2File : public ::testing::Test {
 protected:
  Pt2File() {
    const ZipArchive archive = read_zip(programs() / "mlp.pt2");
    for (const auto& [name, bytes] : archive.entries)
      entries_.push_back({name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
  }
  ~Pt2File() override { fs::remove(path_); }

  std::string& content(const std::string& ending) {
    for (ZipEntry& entry : entries_)
      if (entry.name.ends_with(ending)) return entry.content;
    throw std::runtime_error(ending);
  }
  // Changes the program and returns what importing it says.
  template <class Change>
  std::string refusal(const Change& change) {
    const std::string before = content("models/model.json");
    json program = parse_json_text(before);
    change(program);
    content("models/model.json") = program.dump();
    const std::string said = refusal_of(zip_of(entries_));
    content("models/model.json") = before;
    return said;
  }
  std::string refusal_of(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return error_of([&] { import_model(path_); });
  }

  std::vector<ZipEntry> entries_;
  fs::path path_ = fs::temp_directory_path() / ("genesis_pt2_" + std::to_string(::getpid()) + ".pt2");
};

json& node_of(json& program, size_t i) { return program["graph_module"]["graph"]["nodes"][i]; }

TEST_F(Pt2File, IsReadAsItIs) {
  EXPECT_EQ(refusal([](json&) {}), "");
}

TEST_F(Pt2File, UnknownOperatorsAreListedTogether) {
  expect_has(
      refusal([](json& program) {
        node_of(program, 0)["target"] = "torch.ops.aten.unheard_of.default";
        node_of(program, 1)["target"] = "torch.ops.mine.secret.default";
      }),
      {"torch.ops.aten.unheard_of.default (1x)", "torch.ops.mine.secret.default (1x)", "run_decompositions"});
}

TEST_F(Pt2File, ArgumentsThatNobodyReadsAreRefused) {
  expect_has(refusal([](json& program) {
               for (json& node : program["graph_module"]["graph"]["nodes"])
                 if (node["target"] == "torch.ops.aten.gelu.default")
                   node["inputs"].push_back({{"name", "twist"}, {"arg", {{"as_float", 0.5}}}, {"kind", 1}});
             }),
             {"'twist' (", "is not understood", "aten.gelu.default"});
}

TEST_F(Pt2File, TypesThatTheFileContradictsAreRefused) {
  expect_has(refusal([](json& program) {
               program["graph_module"]["graph"]["tensor_values"]["gelu"]["sizes"][1]["as_int"] = 15;
             }),
             {"'gelu' is f32[x_dim0,16] here"});
}

TEST_F(Pt2File, OtherVersionsAreNamed) {
  expect_has(refusal([](json& program) { program["schema_version"]["major"] = 9; }),
             {"its schema is 9.", "expected 8", "PyTorch 2.15"});
}

TEST_F(Pt2File, MissingPartsAreNamed) {
  expect_has(refusal([](json& program) { program["graph_module"].erase("graph"); }), {"damaged", "graph"});
  expect_has(
      refusal([](json& program) { node_of(program, 1)["inputs"][0]["arg"]["as_tensor"]["name"] = "nobody"; }),
      {"'nobody', which nothing before it makes"});
  content("model_weights_config.json") = "{}";
  expect_has(refusal([](json&) {}), {"damaged", "config"});
}

TEST_F(Pt2File, WeightsThatDoNotFitAreNamed) {
  content("data/weights/weight_0").resize(8);
  expect_has(refusal([](json&) {}), {"has only 8 bytes", "in the tensor"});
}

TEST_F(Pt2File, ArchivesThatAreDamagedAreRefused) {
  const std::string whole = zip_of(entries_);
  expect_has(refusal_of(whole.substr(0, whole.size() - 30)), {"no directory at its end"});
  expect_has(refusal_of(""), {"no directory"});
  std::string far = whole;
  far.replace(far.size() - 6, 4, "\xff\xff\xff\x7f");
  expect_has(refusal_of(far), {"points to byte"});
  std::vector<ZipEntry> changed = entries_;
  changed[1].method = 8;
  expect_has(refusal_of(zip_of(changed)), {"it is compressed", changed[1].name});
  changed = entries_, changed[2].flags = 1;
  expect_has(refusal_of(zip_of(changed)), {"it is encrypted", changed[2].name});
  changed = entries_, changed[1].name = changed[0].name;
  expect_has(refusal_of(zip_of(changed)), {"twice"});
}

// Any byte of the file changed: an Error or a model, never a crash.
TEST_F(Pt2File, AnyByteMayBeWrong) {
  const std::string whole = zip_of(entries_);
  for (size_t at = 0; at < whole.size(); at += 41) {
    std::string wrong = whole;
    wrong[at] = static_cast<char>(wrong[at] ^ (at % 2 == 0 ? 0x10 : 0xff));
    refusal_of(wrong);
  }
}

TEST(Pt2, SizesAreExpressions) {
  const auto text = [](const char* expression) {
    const auto dim = parse_size(expression, {{"s77", "batch"}});
    return dim ? dim->to_string() : "none";
  };
  EXPECT_EQ(text("Symbol('s77', positive=True, integer=True)"), "batch");
  EXPECT_EQ(text("Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(-1))"),
            (Dim(2) * Dim::symbol("batch") - 1).to_string());
  EXPECT_EQ(text("Pow(Symbol('s77', integer=True), Integer(2))"),
            (Dim::symbol("batch") * Dim::symbol("batch")).to_string());
  EXPECT_EQ(text("FloorDiv(Symbol('s77', integer=True), Integer(2))"), "floor_div(batch,2)");
  EXPECT_EQ(text("FloorDiv(Integer(2), Symbol('s77', integer=True))"), "none");
  EXPECT_EQ(text("Max(Integer(8), Symbol('s77', integer=True))"), "max(8,batch)");
  EXPECT_EQ(text("Mod(Symbol('s77', integer=True), Integer(4))"),
            (Dim::symbol("batch") - Dim::floor_div(Dim::symbol("batch"), 4) * 4).to_string());
  EXPECT_NE(error_of([] { parse_size("Add(Integer(2)", {}); }), "");
  EXPECT_NE(error_of([] { parse_size("Symbol('s", {}); }), "");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "Add(";
  EXPECT_NE(error_of([&] { parse_size(deep, {}); }), "");
}

}  // namespace
}  // namespace genesis
